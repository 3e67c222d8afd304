//! Logs: every line passes the redactor on its way out, and so does what a panic or a bad command line says.
//!
//! Two ways out: [`redactor`] for what is kept or sent to others (logs, answers, the ledger, notes), where paths lose the
//! name of whose home they are in, and [`near`] for whoever starts the daemon at a terminal and needs the true path. What
//! a starting service says is kept by a journal and goes the first way.
//! Invariant: nothing that leaves here acts on the terminal of its reader, and one log line stays one line.

use std::borrow::Cow;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::LazyLock;

use redact::{Redactor, Sink, Tame};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::settings::Settings;

static NEAR: LazyLock<Redactor> = LazyLock::new(Redactor::new);

/// A clone, so that both know the same values and count together.
static AFAR: LazyLock<Redactor> = LazyLock::new(|| NEAR.clone().for_others(api::own_home().as_deref()));

/// The one redactor of this process, for what is kept or sent away: paths do not name people.
pub(crate) fn redactor() -> &'static Redactor {
    &AFAR
}

/// The same for whoever starts the daemon, on their own terminal: they need the true path.
pub(crate) fn near() -> &'static Redactor {
    &NEAR
}

/// Whether a text holds what looks like a secret. Paths of homes do not count, though they are shortened on the way out.
pub(crate) fn holds_secret(text: &str) -> bool {
    let marks = |text: &str| text.matches(redact::MARK).count();
    marks(&near().scrub(text)) > marks(text)
}

/// Says what is wrong with a command line, or prints the help; then the process ends. What was typed may be a secret.
pub(crate) fn misunderstood(error: &clap::Error) -> std::process::ExitCode {
    let text = error.render().to_string();
    if error.use_stderr() {
        tell(&mut io::stderr().lock(), &text);
    } else {
        tell(&mut io::stdout().lock(), &text);
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
        // There is nobody to tell when that fails.
        drop(io::stderr().lock().write_all(&one_line(&self.0)));
    }
}

/// A line as it leaves. What somebody sent cannot begin another one, or go back to the beginning of this one.
fn one_line(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    emit_to(&mut text, bytes.strip_suffix(b"\n").unwrap_or(bytes));
    let mut line = Vec::with_capacity(text.len() + 1);
    for byte in text {
        match byte {
            b'\n' => line.extend_from_slice("\u{240a}".as_bytes()),
            b'\r' => line.extend_from_slice("\u{240d}".as_bytes()),
            other => line.push(other),
        }
    }
    line.push(b'\n');
    line
}

/// Writes to standard error through the redactor. There is nobody to tell when that fails.
fn emit(bytes: &[u8]) {
    emit_to(io::stderr().lock(), bytes);
}

fn emit_to(out: impl Write, bytes: &[u8]) {
    let mut tame = Tame::new(Sink::new(redactor().clone(), out));
    drop(tame.write_all(bytes));
    drop(tame.finish().and_then(Sink::finish));
}

/// Says something to whoever started the daemon. There is nobody to tell when a terminal is gone.
pub(crate) fn tell(out: &mut (impl Write + AsFd), text: &str) {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    // A journal is kept, and read by others.
    let way = if is_journal(out.as_fd(), &stream) { redactor() } else { near() };
    drop(out.write_all(&told_by(way, text)));
    drop(out.flush());
}

/// Whether this is the stream that systemd named as the one to its journal: `device:inode`. The name alone tells nothing,
/// since whatever is started from a service inherits it.
fn is_journal(out: BorrowedFd<'_>, stream: &str) -> bool {
    let named = stream
        .split_once(':')
        .and_then(|(device, inode)| Some((device.parse::<u64>().ok()?, inode.parse::<u64>().ok()?)));
    rustix::fs::fstat(out).is_ok_and(|stat| named == Some((stat.st_dev, stat.st_ino)))
}

fn told_by(way: &Redactor, text: &str) -> Vec<u8> {
    let tamed = redact::tame(text.as_bytes());
    match way.scrub_bytes(&tamed) {
        Cow::Borrowed(same) => same.to_vec(),
        Cow::Owned(masked) => masked,
    }
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
    use std::io::Read;

    use super::*;

    /// Whoever reads a log later sees what was sent, and nothing of it acts on them.
    #[test]
    fn sec_14_a_log_line_does_not_act_on_its_reader_and_names_no_home() {
        let sent = "path=/home/ana/work/x \u{1b}]52;c;ZWNobw==\u{7} \u{1b}]2;title\u{1b}\\ \u{1b}]8;;https://x.example\u{7}here \
                    \u{1b}P+q544e\u{1b}\\ \u{9b}6n \u{1b}[21t\r\nINFO all is well /root/y\n";
        let line = String::from_utf8(one_line(sent.as_bytes())).unwrap();
        assert!(line.starts_with("path=~/work/x ") && line.ends_with("all is well ~/y\n"), "{line:?}");
        assert!(line.trim_end_matches('\n').chars().all(|c| !c.is_control()), "{line:?}");
        // Colours are harmless, and a line that is plain stays as it is.
        assert_eq!(one_line(b"INFO \x1b[32mdone\x1b[0m\n"), b"INFO \x1b[32mdone\x1b[0m\n");
    }

    /// A key that was logged over several lines is masked before the lines become one.
    #[test]
    fn sec_16_a_key_over_several_lines_of_one_entry_is_masked() {
        let body = "QWxsIG9mIHRoaXMgaXMgbWFkZSB1cCBmb3IgYSB0ZXN0IGFuZCBpcyBubyBrZXk0";
        let text = format!("got -----BEGIN PRIVATE KEY-----\n{body}\n{body}\n-----END PRIVATE KEY-----\n");
        let line = String::from_utf8(one_line(text.as_bytes())).unwrap();
        assert!(!line.contains(&body[..16]) && line.contains("***"), "{line}");
    }

    #[test]
    fn sec_14_the_person_who_starts_the_daemon_is_told_the_true_path() {
        let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let (mut heard, mut out) = io::pipe().unwrap();
        tell(&mut out, &format!("no key at /home/ana/key\u{1b}[2J, but {secret}\n"));
        drop(out);
        let mut said = String::new();
        heard.read_to_string(&mut said).unwrap();
        assert_eq!(said, "no key at /home/ana/key, but ***\n");
        assert_eq!(redactor().scrub("/home/ana/key"), "~/key");
    }

    /// What a service says at its start is kept by the journal; a terminal that was opened from a service is none.
    #[test]
    fn sec_14_the_journal_is_known_by_its_stream_and_not_by_a_variable() {
        let ((_, journal), (_, terminal)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let stat = rustix::fs::fstat(&journal).unwrap();
        let stream = format!("{}:{}", stat.st_dev, stat.st_ino);
        assert!(is_journal(journal.as_fd(), &stream));
        assert!(!is_journal(terminal.as_fd(), &stream));
        for stream in ["", ":", "8", "8:", "x:y", &format!("{}:0", stat.st_dev)] {
            assert!(!is_journal(journal.as_fd(), stream), "{stream}");
        }
        assert_eq!(told_by(redactor(), "no key at /home/ana/key\n"), b"no key at ~/key\n");
    }

    #[test]
    fn sec_16_both_ways_out_know_the_same_values() {
        redactor().learn(b"a value that looks like nothing").unwrap();
        assert_eq!(near().scrub("say a value that looks like nothing"), "say ***");
        redactor().forget(b"a value that looks like nothing");
        assert_eq!(
            near().scrub("say a value that looks like nothing"),
            "say a value that looks like nothing"
        );
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
