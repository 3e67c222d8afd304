//! What a person or a program sees: the one way out for text.
//!
//! Invariants: whatever this program says, also of a command line that it does not understand and when it panics, passes
//! the redactor, except a secret that is shown once on request; nothing of it acts on the terminal. Paths stay whole: this
//! is the person's own terminal, and they need them. What is kept of a run loses them ([`kept`]).

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::LazyLock;

use redact::{BadPattern, Redactor};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::failure::Failure;

/// How and for which command to print.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The words of the command.
    pub(crate) command: String,
    /// Whether to print JSON.
    pub(crate) json: bool,
}

/// What a command has to show.
#[derive(Debug)]
pub(crate) struct Shown {
    /// For programs.
    json: Value,
    /// For people.
    text: String,
    /// Whether it holds a secret that is shown this once.
    reveals: bool,
}

impl Shown {
    /// A result and how people read it.
    pub(crate) fn new(result: &impl Serialize, text: impl Into<String>) -> Self {
        Self { json: serde_json::to_value(result).unwrap_or_default(), text: text.into(), reveals: false }
    }

    /// Something was done and there is nothing to show but that.
    pub(crate) fn done(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { json: json!({ "done": text }), text: format!("{text}\n"), reveals: false }
    }

    /// This holds a secret that the person asked for and that is shown this once.
    pub(crate) fn revealing(self) -> Self {
        Self { reveals: true, ..self }
    }
}

/// Prints what came of a command.
pub(crate) fn finish(place: &Place, outcome: Result<Shown, Failure>) -> ExitCode {
    match outcome {
        Ok(shown) => {
            let text = if place.json {
                line(&json!({ "ok": true, "command": place.command, "result": shown.json }))
            } else {
                shown.text
            };
            if write(io::stdout().lock(), &text, shown.reveals) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(failure) => {
            let code = ExitCode::from(failure.exit());
            let (result, report) = match &failure {
                Failure::Tampered(value, text)
                | Failure::Unverifiable(value, text)
                | Failure::Plan(_, value, text)
                | Failure::Unfit(_, value, text) => (value.clone(), text.clone()),
                Failure::Conflict(_, paths) => (json!({ "conflicts": paths }), String::new()),
                _ => (Value::Null, String::new()),
            };
            if place.json {
                let error = json!({ "code": failure.code(), "message": failure.to_string(), "request_id": failure.request() });
                let text =
                    line(&json!({ "ok": false, "command": place.command, "result": result, "error": error }));
                write(io::stdout().lock(), &text, false);
            } else {
                write(io::stdout().lock(), &report, false);
                write(io::stderr().lock(), &format!("palisade: {failure}\n"), false);
            }
            code
        }
    }
}

/// Prints what the parser says: help and version are not errors.
pub(crate) fn misunderstood(error: &clap::Error, json: bool) -> ExitCode {
    if !error.use_stderr() {
        // Help and version: our own words.
        write(io::stdout().lock(), &rendered(error, io::stdout().is_terminal()), true);
        return ExitCode::SUCCESS;
    }
    if json {
        let first =
            error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let problem = json!({ "code": "usage", "message": first, "request_id": null });
        let text = line(&json!({ "ok": false, "command": "", "result": null, "error": problem }));
        write(io::stdout().lock(), &text, false);
    } else {
        write(io::stderr().lock(), &rendered(error, io::stderr().is_terminal()), false);
    }
    ExitCode::from(2)
}

fn rendered(error: &clap::Error, for_a_terminal: bool) -> String {
    let text = error.render();
    if for_a_terminal { text.ansi().to_string() } else { text.to_string() }
}

/// From now on a panic is told through the redactor too.
pub(crate) fn guard_panics() {
    std::panic::set_hook(Box::new(|info| {
        write(io::stderr().lock(), &told(info), false);
    }));
}

/// What is said of a panic.
fn told(info: &std::panic::PanicHookInfo<'_>) -> String {
    let place = info.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
    format!("palisade: failed at {place}: {}\n", info.payload_as_str().unwrap_or(""))
}

/// One line of a list that goes on; whether anybody still reads it.
pub(crate) fn next_line(text: &str) -> bool {
    write(io::stdout().lock(), text, false)
}

/// One message of a protocol that standard output belongs to; whether anybody still reads.
pub(crate) fn protocol(message: &Value) -> bool {
    let masked = masked_as::<serde::de::IgnoredAny>(message);
    let mut out = io::stdout().lock();
    let ended = masked.strip_suffix(b"\n").unwrap_or(&masked);
    out.write_all(ended).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).is_ok()
}

/// A document without secrets that is kept to be read again as what it is. Paths in it stay whole: it is no text about files.
pub(crate) fn kept_document<T: Serialize + DeserializeOwned>(document: &T) -> Result<Vec<u8>, Failure> {
    let value = serde_json::to_value(document).map_err(|error| Failure::Program(error.to_string()))?;
    Ok(masked_as::<T>(&value))
}

/// The path of an address without secrets, also without those that are known by the host before them, or by what its escapes
/// stand for; with one of these it is told without escapes.
pub(crate) fn kept_path(host: &str, path: &str) -> String {
    let before = format!("https://{host}");
    let masked = |path: &str| {
        let clean = OWN.scrub(&format!("{before}{path}")).into_owned();
        clean.strip_prefix(&before).map_or_else(|| redact::MARK.to_owned(), str::to_owned)
    };
    let plain = unescaped(path);
    let clean = masked(&plain);
    if clean == plain {
        return masked(path);
    }
    clean.chars().map(|c| if c.is_control() { '·' } else { c }).collect()
}

/// What the escapes of an address stand for.
fn unescaped(path: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), path.as_bytes());
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|two| *first == b'%' && two.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A document on one line, masked, which can still be read as what it is: if a mask takes a bracket along, every text is
/// masked by itself.
fn masked_as<T: DeserializeOwned>(document: &Value) -> Vec<u8> {
    let text = line(document);
    let clean = OWN.scrub_bytes(text.as_bytes());
    let is_whole = serde_json::from_slice::<T>(&clean).is_ok();
    if is_whole { clean.into_owned() } else { line(&scrubbed(document)).into_bytes() }
}

/// The same with every text in it masked.
fn scrubbed(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(OWN.scrub(text).into_owned()),
        Value::Array(all) => all.iter().map(scrubbed).collect(),
        Value::Object(all) => {
            all.iter().map(|(name, value)| (OWN.scrub(name).into_owned(), scrubbed(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Whether somebody looks at what is printed.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The line at the end of a terminal that is written over; nothing leaves it empty. As wide as the terminal is at this moment, so
/// that it stays one.
pub(crate) fn progress(text: Option<&str>) {
    let wide = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).map_or(80, |size| size.ws_col);
    let mut left = usize::from(wide.max(2)) - 1;
    let fits = |c: &char| {
        // Some take two places.
        let places = if c.is_ascii() { 1 } else { 2 };
        let is_room = left >= places;
        left = left.saturating_sub(places);
        is_room
    };
    let line: String = text.unwrap_or_default().chars().take_while(fits).collect();
    let tamed = redact::tame(line.as_bytes());
    let mut out = io::stdout().lock();
    // Ours, and the one thing here that moves a cursor.
    let shown = out.write_all(b"\r\x1b[K").and_then(|()| out.write_all(&OWN.scrub_bytes(&tamed)));
    let _ = shown.and_then(|()| out.flush());
}

/// Standard output, for text that passed the redactor on its way there.
pub(crate) fn masked() -> io::StdoutLock<'static> {
    io::stdout().lock()
}

/// Asks for something on a terminal.
pub(crate) fn ask(what: &str) {
    write(io::stderr().lock(), &format!("{what}: "), false);
}

/// Says why nothing was run.
pub(crate) fn refused_run(failure: &Failure, json: bool) {
    refused("run", failure, json);
}

/// Says why a command with exit codes of its own did nothing.
pub(crate) fn refused(command: &str, failure: &Failure, json: bool) {
    if json {
        let error = json!({ "code": failure.code(), "message": failure.to_string(), "request_id": null });
        let text = line(&json!({ "ok": false, "command": command, "result": null, "error": error }));
        write(io::stdout().lock(), &text, false);
    } else {
        tell(&failure.to_string());
    }
}

/// Says what came of a run.
pub(crate) fn report(result: &Value) {
    write(io::stdout().lock(), &line(&json!({ "ok": true, "command": "run", "result": result })), false);
}

/// The same for a file that a program reads: one document on one line.
pub(crate) fn document(value: &Value) -> Vec<u8> {
    OWN.scrub_bytes(&redact::tame(line(value).as_bytes())).into_owned()
}

/// Says something beside what a command prints.
pub(crate) fn tell(text: &str) {
    write(io::stderr().lock(), &format!("palisade: {}\n", text.trim_end()), false);
}

/// Says something while a command runs, in one line, if it can be said at once: whoever does not read must not hold up the
/// run, and a terminal that is the command's needs its line ends in full. False if it was not said.
pub(crate) fn tell_now(text: &str) -> bool {
    const MOST: usize = 1000;
    if let Some(held) = &mut *HELD.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
        let has_room = held.len() < MOST_HELD;
        if has_room {
            held.push(text.to_owned());
        }
        return has_room;
    }
    let stderr = rustix::stdio::stderr();
    let now = rustix::time::Timespec::default();
    let mut poll = [rustix::event::PollFd::from_borrowed_fd(stderr, rustix::event::PollFlags::OUT)];
    if !matches!(rustix::event::poll(&mut poll, Some(&now)), Ok(1..)) {
        return false;
    }
    let short: String = text.trim_end().chars().take(MOST).collect();
    let end = if rustix::termios::isatty(stderr) { "\r\n" } else { "\n" };
    write(io::stderr().lock(), &format!("palisade: {short}{end}"), false)
}

/// What is not said while a question stands; none if none does.
static HELD: std::sync::Mutex<Option<Vec<String>>> = std::sync::Mutex::new(None);
/// The most lines that wait.
const MOST_HELD: usize = 100;

/// Keeps what [`tell_now`] would say until nothing is asked any more.
pub(crate) fn hold(holds: bool) {
    let mut held = HELD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if holds {
        held.get_or_insert_default();
        return;
    }
    let waited = held.take().unwrap_or_default();
    drop(held);
    for text in waited {
        tell_now(&text);
    }
}

/// One document on one line. JSON leaves a few control characters as they are; here they are written out, so that they
/// arrive and do not act.
fn line(value: &Value) -> String {
    let acts = |c: char| matches!(c, '\u{7f}'..='\u{9f}');
    let text = format!("{value}\n");
    if !text.contains(acts) {
        return text;
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) {
            plain.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            plain.push(c);
        }
    }
    plain
}

/// What everything passes that is printed.
static OWN: LazyLock<Redactor> = LazyLock::new(Redactor::new);
/// What everything passes that is kept.
static KEPT: LazyLock<Redactor> = LazyLock::new(|| Redactor::new().for_others(api::own_home().as_deref()));

/// From now on this is masked in everything that is printed or kept. What is too short to be learned is no token.
pub(crate) fn learn(secret: &str) {
    for redactor in [&*OWN, &*KEPT] {
        let _ = redactor.learn(secret.as_bytes());
    }
}

/// Whether nothing in a text looks like a secret.
pub(crate) fn is_clean(text: &str) -> bool {
    OWN.scrub(text) == text
}

/// From now on what these match is masked too, in everything that is printed or kept; the first that cannot be used.
pub(crate) fn add_patterns<'a>(all: impl Iterator<Item = &'a str> + Clone) -> Option<BadPattern> {
    let mut bad = OWN.set_patterns(all.clone());
    bad.extend(KEPT.set_patterns(all));
    bad.into_iter().next()
}

/// Writes through the redactor, and without what acts on a terminal; a closed pipe is not worth a word.
fn write(mut out: impl Write, text: &str, reveals: bool) -> bool {
    let tamed = redact::tame(text.as_bytes());
    let bytes = if reveals { Cow::Borrowed(&*tamed) } else { OWN.scrub_bytes(&tamed) };
    out.write_all(&bytes).and_then(|()| out.flush()).is_ok()
}

/// A word that is kept in a record which others may read: without secrets, and without the name of whose home it is in.
pub(crate) fn kept(text: &str) -> String {
    if CLEAN.with_borrow(|clean| clean.contains(text)) {
        return text.to_owned();
    }
    let tamed = redact::tame(text.as_bytes());
    let kept = String::from_utf8_lossy(&KEPT.scrub_bytes(&tamed)).into_owned();
    if kept == text && text.len() <= LONGEST_CLEAN {
        CLEAN.with_borrow_mut(|clean| {
            if clean.len() >= MOST_CLEAN {
                clean.clear();
            }
            clean.insert(text.to_owned())
        });
    }
    kept
}

/// Words of which nothing has to be taken away, and how long they may be: entries of one run say the same ones again and
/// again. What loses something is not among them, so no secret is.
const MOST_CLEAN: usize = 512;
const LONGEST_CLEAN: usize = 256;
thread_local! {
    static CLEAN: RefCell<HashSet<String>> = RefCell::default();
}

/// The words of a command as they are kept in such a record: a secret is known by the word before it too.
pub(crate) fn kept_words(words: &[std::ffi::OsString]) -> Vec<String> {
    let tamed: Vec<Cow<'_, [u8]>> = words.iter().map(|word| redact::tame(word.as_encoded_bytes())).collect();
    let places = Redactor::new().find(&tamed.join(&b' '));
    let mut begins = 0;
    let mut all = Vec::with_capacity(tamed.len());
    for word in &tamed {
        let (mut out, mut at) = (Vec::with_capacity(word.len()), 0);
        for place in &places {
            let within = |offset: u64| {
                usize::try_from(offset).unwrap_or(usize::MAX).saturating_sub(begins).min(word.len())
            };
            let (from, to) =
                (within(place.offset).max(at), within(place.offset.saturating_add(place.length)));
            if from < to {
                out.extend(word.get(at..from).unwrap_or_default());
                out.extend(redact::MARK.as_bytes());
                at = to;
            }
        }
        out.extend(word.get(at..).unwrap_or_default());
        all.push(kept(&String::from_utf8_lossy(&out)));
        begins += word.len() + 1;
    }
    all
}

/// Rows under headings, as wide as they need to be. Control characters cannot move the cursor.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let clean = |text: &str| text.chars().map(|c| if c.is_control() { '·' } else { c }).collect::<String>();
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let widths: Vec<usize> = (0..headings.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain(headings.get(column).map(|heading| heading.len())).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    let headings: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    for row in std::iter::once(&headings).chain(&rows) {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let joined = cells.collect::<Vec<_>>().join("  ");
        text.push_str(joined.trim_end());
        text.push('\n');
    }
    text
}

/// A moment, as people read it: UTC to the second.
pub(crate) fn moment(millis: i64) -> String {
    let days = millis.div_euclid(86_400_000);
    let seconds = millis.rem_euclid(86_400_000) / 1_000;
    // Days since 1970 to a date, by the calendar's 400-year cycle.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_the_same_the_second_time_and_no_secret_is_remembered() {
        let secret = concat!("ghp_", "abcdefghijklmnopqrstuvwxyz0123456789");
        for _ in 0..2 {
            assert_eq!(kept("GET"), "GET");
            assert!(!kept(secret).contains("uvwxyz0123456789"));
        }
        CLEAN.with_borrow(|clean| assert!(clean.contains("GET") && !clean.contains(secret)));
        (0..2 * MOST_CLEAN).for_each(|number| drop(kept(&format!("n{number}"))));
        CLEAN.with_borrow(|clean| assert!(clean.len() <= MOST_CLEAN));
    }

    #[test]
    fn sec_16_a_path_is_kept_without_what_its_host_or_its_escapes_make_a_secret() {
        let hook = "/services/T0A1B2C3D4/B0E5F6G7H8/x9Y8z7W6v5U4t3S2r1Q0p9O8";
        assert!(!kept_path("hooks.slack.com", hook).contains("x9Y8"));
        assert_eq!(
            kept_path("site.test", "/a/%7B%22password%22%3A%20%22hunter2horse%22%7D"),
            "/a/{\"password\": \"***\"}"
        );
        let login = "/no/postgres%3A%2F%2Fapp%3Ahunter2horse%40db.example%2Fapp";
        assert_eq!(kept_path("site.test", login), "/no/postgres://app:***@db.example/app");
        for same in ["/a%20b/%zz%", "/a/b?c", "/caf%C3%A9", "/%ff"] {
            assert_eq!(kept_path("site.test", same), same);
        }
    }

    #[test]
    fn moments_are_dates() {
        for (millis, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_400_000, "2000-02-29 00:00:00Z"),
            (1_794_735_768_740, "2026-11-15 09:42:48Z"),
            (-1, "1969-12-31 23:59:59Z"),
        ] {
            assert_eq!(moment(millis), text);
        }
    }

    #[test]
    fn sec_16_a_word_is_kept_by_what_stands_before_it() {
        let kept = |words: &[&str]| kept_words(&words.iter().map(Into::into).collect::<Vec<_>>()).join("|");
        assert_eq!(kept(&["true", "--password", "hunter2horsebattery", "next"]), "true|--password|***|next");
        assert_eq!(
            kept(&["curl", "-u", "me:hunter2horse", "https://a.example"]),
            "curl|-u|me:***|https://a.example"
        );
        assert_eq!(kept(&["mysql", "-phunter2horse", "db"]), "mysql|-p***|db");
        assert_eq!(kept(&["echo", "a", "", "b c", "é"]), "echo|a||b c|é");
        assert_eq!(kept(&["docker", "run", "-p", "80:80", "x"]), "docker|run|-p|80:80|x");
    }

    /// The sequences of the specification: clipboard, title and its answer, hyperlink, device string, status report.
    const ACTING: &str = "a\u{1b}]52;c;ZWNobw==\u{7}b\u{1b}]2;t\u{1b}\\\u{1b}[21t\u{1b}]8;;https://x.example\u{7}c\u{1b}P+q544e\u{1b}\\\u{9b}6n\u{7f}";

    #[test]
    fn sec_14_what_is_said_does_not_act_on_the_terminal() {
        for reveals in [false, true] {
            let mut out = Vec::new();
            assert!(write(&mut out, &format!("/home/ana/x {ACTING}\n"), reveals));
            let said = String::from_utf8(out).unwrap();
            assert!(
                said.starts_with("/home/ana/x a"),
                "the person's own terminal tells true paths: {said:?}"
            );
            assert!(said.chars().all(|c| c == '\n' || !c.is_control()), "{said:?}");
        }
        // Colours of the help stay.
        let mut out = Vec::new();
        write(&mut out, "\u{1b}[1mUsage\u{1b}[0m\n", true);
        assert_eq!(out, b"\x1b[1mUsage\x1b[0m\n");
    }

    #[test]
    fn sec_14_a_document_arrives_whole_and_does_not_act() {
        let text = line(&json!({ "detail": ACTING }));
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        let mut out = Vec::new();
        write(&mut out, &text, false);
        let read: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(read["detail"], ACTING);
    }

    #[test]
    fn sec_14_what_is_kept_names_no_home_and_does_not_act() {
        let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        assert_eq!(kept(&format!("--config=/home/ana/.x {secret}")), "--config=~/.x ***");
        assert_eq!(kept("C:\\Users\\ana\\x and /Users/ana/y"), "~/x and ~/y");
        assert!(kept(ACTING).chars().all(|c| !c.is_control()));
    }

    #[test]
    fn a_table_cannot_be_escaped_from() {
        let text = table(&["A", "B"], &[vec!["x\u{1b}[2J".into(), "y\nz".into()]]);
        assert_eq!(
            text,
            "A       B\nx·[2J   y·z\n".replace("A       B", "A      B").replace("x·[2J   ", "x·[2J  ")
        );
    }
}
