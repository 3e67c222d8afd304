//! Logs: every line passes the redactor on its way out, and so does what a panic or a bad command line says.

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

/// Whether a text holds what looks like a secret. Paths of homes do not count, though they are shortened on the way out.
pub(crate) fn holds_secret(text: &str) -> bool {
    let marks = |text: &str| text.matches(redact::MARK).count();
    marks(&redactor().scrub(text)) > marks(text)
}

/// Says what is wrong with a command line, or prints the help; then the process ends. What was typed may be a secret.
pub(crate) fn misunderstood(error: &clap::Error) -> std::process::ExitCode {
    let text = error.render().to_string();
    if error.use_stderr() {
        emit(text.as_bytes());
    } else {
        drop(io::stdout().lock().write_all(redactor().scrub(&text).as_bytes()));
    }
    std::process::ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
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
    emit_to(io::stderr().lock(), bytes);
}

fn emit_to(out: impl Write, bytes: &[u8]) {
    let mut sink = Sink::new(redactor().clone(), out);
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
}

/// From now on a panic is told through the redactor too; first of all, since anything may panic.
pub(crate) fn guard_panics() {
    std::panic::set_hook(Box::new(|info| emit(told(info).as_bytes())));
}

/// What is said of a panic.
fn told(info: &std::panic::PanicHookInfo<'_>) -> String {
    let place = info.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
    let said = info.payload_as_str().unwrap_or("");
    format!("a part of the daemon failed at {place}: {said}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_16_a_panic_is_told_without_its_secret() {
        use std::sync::Mutex;
        static SAID: Mutex<Vec<u8>> = Mutex::new(Vec::new());
        let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(|info| emit_to(&mut *SAID.lock().unwrap(), told(info).as_bytes())));
        let text = format!("unexpected {secret}");
        let panicked = std::panic::catch_unwind(move || panic!("{text}"));
        std::panic::set_hook(before);
        assert!(panicked.is_err());
        let said = String::from_utf8(SAID.lock().unwrap().clone()).unwrap();
        assert!(said.contains("logs.rs:") && said.contains("unexpected ***"), "{said}");
        assert!(!said.contains(&secret), "{said}");
    }

    #[test]
    fn sec_16_a_text_with_a_secret_is_known_and_a_path_is_none() {
        let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        assert!(holds_secret(&secret) && holds_secret(&format!("use {secret} here *** and there")));
        for plain in
            ["Ana", "the secret: be kind", "/home/ana/x", "***", "usr_0123456789abcdef0123456789abcdef"]
        {
            assert!(!holds_secret(plain), "{plain}");
        }
    }
}
