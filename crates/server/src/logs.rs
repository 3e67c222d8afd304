//! Logs: every line passes the redactor on its way out, and so does what a panic says.

use std::io::{self, Write};
use std::sync::LazyLock;

use redact::{Redactor, Sink};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::settings::Settings;

static REDACTOR: LazyLock<Redactor> = LazyLock::new(Redactor::new);

/// The one redactor of this process.
pub(crate) fn redactor() -> &'static Redactor {
    &REDACTOR
}

/// Makes a sink for each line.
struct Lines;

/// One line: buffered whole, scrubbed when it ends.
struct Line(Vec<u8>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;
    fn make_writer(&'a self) -> Line {
        Line(Vec::with_capacity(256))
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        emit(&self.0);
    }
}

/// Writes to standard error through the redactor. There is nobody to tell when that fails.
fn emit(bytes: &[u8]) {
    let mut sink = Sink::new(redactor().clone(), io::stderr().lock());
    drop(sink.write_all(bytes));
    drop(sink.finish());
}

/// Starts logging.
pub(crate) fn start(settings: &Settings) {
    let filter = EnvFilter::new(format!("{},hyper=warn,rustls=warn,tokio_postgres=warn", settings.log_level));
    let plain = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Lines)
        .with_target(false)
        .with_ansi(false);
    let started = if settings.log_json { plain.json().try_init() } else { plain.try_init() };
    if started.is_err() {
        emit(b"logging was already started\n");
    }
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
        let said = info.payload_as_str().unwrap_or("");
        emit(format!("a part of the daemon failed at {place}: {said}\n").as_bytes());
    }));
}
