//! `palisade redact`: text without its secrets, or where they are.
//!
//! Flow: files or standard input -> what acts on a terminal is taken out -> secrets are masked -> standard output.
//! With `--check` nothing is passed on: the places are told, never what stands there.
//!
//! Invariants: memory is bounded whatever comes, also bytes that are no text; UTF-16 is refused, since nothing would be found in
//! it; a reader that goes away is not worth a word; a pattern that cannot be used is told by its place, and then nothing is read.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use redact::{BadPattern, Redactor, Search, Sink, Tame};
use serde_json::json;

use crate::cli::RedactArgs;
use crate::failure::Failure;
use crate::output;

/// How much is read at once.
const PART: usize = 64 * 1024;
/// The most that a file of patterns may be long.
const MOST_PATTERNS: u64 = 1 << 20;

/// What went wrong while text was passed on.
enum Stop {
    /// The reader went away, or takes no more.
    Reader,
    /// This could not be read.
    Source(String),
}

/// Exit codes: 0 done, or nothing found; 1 something was found, or nobody reads on; 2 something could not be used.
pub(crate) fn run(json: bool, args: &RedactArgs) -> ExitCode {
    let redactor = match redactor(args) {
        Ok(redactor) => redactor,
        Err(failure) => {
            output::refused("redact", &failure, json);
            return ExitCode::from(2);
        }
    };
    let here = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &here[..] } else { &args.files };
    let out = output::masked();
    match (args.check, json) {
        (true, _) => check(&redactor, files, json, out),
        (false, true) => as_json(&redactor, args, files, out),
        (false, false) => as_text(&redactor, args, files, out),
    }
}

fn redactor(args: &RedactArgs) -> Result<Redactor, Failure> {
    let mut redactor = Redactor::new();
    if !args.keep_paths && !args.check {
        redactor = redactor.for_others(api::own_home().as_deref());
    }
    if args.personal {
        redactor = redactor.with_personal_data();
    }
    let file = match &args.patterns {
        Some(path) => text(path)?,
        None => String::new(),
    };
    let of_file = redact::listed(&file);
    let all = args.pattern.iter().map(String::as_str).chain(of_file.iter().map(|(_, pattern)| *pattern));
    let Some(BadPattern { index, flaw }) = redactor.set_patterns(all).into_iter().next() else {
        return Ok(redactor);
    };
    let place = match index.checked_sub(args.pattern.len()).and_then(|index| of_file.get(index)) {
        Some((line, _)) => format!("the pattern in line {} of the file", line + 1),
        None => format!("the pattern of `--pattern` number {}", index + 1),
    };
    Err(Failure::Usage(format!("{place} cannot be used: {flaw}")))
}

pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MOST_PATTERNS + 1).read_to_string(&mut text));
    let length = read.map_err(Failure::file(path))?;
    if u64::try_from(length).is_ok_and(|length| length > MOST_PATTERNS) {
        return Err(Failure::Usage(format!("`{}` is longer than {MOST_PATTERNS} bytes", path.display())));
    }
    Ok(text)
}

/// Gives every part of a file to `take`.
fn each_part(path: &Path, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), Stop> {
    let failed = |error: io::Error| Stop::Source(format!("`{}`: {error}", path.display()));
    let mut source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(failed)?)
    };
    let mut part = vec![0; PART];
    // Two bytes say that all characters have two: no secret would be found in them.
    let (start, _) = part.split_at_mut(2);
    let length = filled(&mut source, start).map_err(failed)?;
    if matches!(start, [0xff, 0xfe] | [0xfe, 0xff]) {
        let message =
            format!("`{}` is UTF-16; turn it into UTF-8 first, with `iconv -t utf-8`", path.display());
        return Err(Stop::Source(message));
    }
    take(part.get(..length).unwrap_or_default()).map_err(|_| Stop::Reader)?;
    loop {
        let length = match source.read(&mut part) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        take(part.get(..length).unwrap_or_default()).map_err(|_| Stop::Reader)?;
    }
}

/// Reads until the room is full or nothing more comes; how much that was.
fn filled(source: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = room.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match source.read(rest) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Passes one file on.
fn pass(redactor: &Redactor, args: &RedactArgs, path: &Path, out: &mut dyn Write) -> Result<(), Stop> {
    let sink = Sink::new(redactor.clone(), out);
    let done = if args.keep_escapes {
        let mut sink = sink;
        each_part(path, |part| sink.write_all(part).and_then(|()| sink.flush()))?;
        sink.finish()
    } else {
        let mut tame = Tame::new(sink);
        each_part(path, |part| tame.write_all(part).and_then(|()| tame.flush()))?;
        tame.finish().and_then(Sink::finish)
    };
    done.map(|_| ()).map_err(|_| Stop::Reader)
}

fn as_text(redactor: &Redactor, args: &RedactArgs, files: &[PathBuf], mut out: impl Write) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for path in files {
        match pass(redactor, args, path, &mut out) {
            Ok(()) => {}
            Err(Stop::Reader) => return ExitCode::FAILURE,
            Err(Stop::Source(message)) => {
                output::tell(&message);
                code = ExitCode::from(2);
            }
        }
    }
    code
}

/// One document, whose text is written as it comes.
fn as_json(redactor: &Redactor, args: &RedactArgs, files: &[PathBuf], mut out: impl Write) -> ExitCode {
    let mut errors = Vec::new();
    let written = (|| {
        out.write_all(b"{\"command\":\"redact\",\"result\":{\"text\":\"")?;
        for path in files {
            let mut text = JsonText { inner: &mut out, held: Vec::new() };
            match pass(redactor, args, path, &mut text) {
                Ok(()) => {}
                Err(Stop::Reader) => return Err(io::ErrorKind::BrokenPipe.into()),
                Err(Stop::Source(message)) => errors.push(message),
            }
            text.pass_on(true)?;
        }
        let error = problem("file", &errors);
        writeln!(
            out,
            "\",\"masked\":{}}},\"ok\":{},\"error\":{error}}}",
            redactor.masked(),
            errors.is_empty()
        )?;
        out.flush()
    })();
    match written {
        Err(_) => ExitCode::FAILURE,
        Ok(()) if errors.is_empty() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(2),
    }
}

/// Tells where secrets are.
fn check(redactor: &Redactor, files: &[PathBuf], json: bool, mut out: impl Write) -> ExitCode {
    let (mut count, mut errors) = (0_u64, Vec::new());
    let written = (|| {
        if json {
            out.write_all(b"{\"command\":\"redact\",\"result\":{\"found\":[")?;
        }
        for path in files {
            let name = redactor.scrub(&path.to_string_lossy()).into_owned();
            let mut told = Ok(());
            let mut tell = |place: redact::Place| {
                if told.is_ok() {
                    told = found(&mut out, &name, place, json, count > 0);
                    count += 1;
                }
            };
            let mut search = Search::new(redactor.clone());
            let read = each_part(path, |part| {
                search.feed(part, &mut tell);
                Ok(())
            });
            search.finish(&mut tell);
            told?;
            if let Err(Stop::Source(message)) = read {
                if !json {
                    output::tell(&message);
                }
                errors.push(message);
            }
        }
        if json {
            let error = if errors.is_empty() && count > 0 {
                json!({ "code": "found", "message": "something that looks like a secret was found", "request_id": null })
            } else {
                problem("file", &errors)
            };
            let is_clean = errors.is_empty() && count == 0;
            writeln!(out, "],\"files\":{}}},\"ok\":{is_clean},\"error\":{error}}}", files.len())?;
        }
        out.flush()
    })();
    match written {
        Err(_) => ExitCode::FAILURE,
        Ok(()) if !errors.is_empty() => ExitCode::from(2),
        Ok(()) if count > 0 => ExitCode::FAILURE,
        Ok(()) => ExitCode::SUCCESS,
    }
}

fn found(
    out: &mut impl Write,
    name: &str,
    place: redact::Place,
    json: bool,
    has_more: bool,
) -> io::Result<()> {
    let redact::Place { offset, length, line, column } = place;
    if json {
        let comma = if has_more { "," } else { "" };
        let row = json!({ "file": name, "line": line, "column": column, "offset": offset, "length": length });
        return write!(out, "{comma}{row}");
    }
    // A name cannot act on a terminal.
    let name: String = name.chars().map(|c| if c.is_control() { '·' } else { c }).collect();
    writeln!(out, "{name}:{line}:{column}: looks like a secret (offset {offset}, {length} bytes)")
}

fn problem(code: &str, errors: &[String]) -> serde_json::Value {
    if errors.is_empty() {
        return serde_json::Value::Null;
    }
    let message = Redactor::new().scrub(&errors.join("; ")).into_owned();
    json!({ "code": code, "message": message, "request_id": null })
}

/// Writes text as the inside of a JSON string; what is no text becomes a replacement character.
struct JsonText<W: Write> {
    inner: W,
    /// The beginning of a character.
    held: Vec<u8>,
}

impl<W: Write> JsonText<W> {
    fn pass_on(&mut self, is_end: bool) -> io::Result<()> {
        let mut text = String::new();
        let mut kept = 0;
        for chunk in self.held.utf8_chunks() {
            text.push_str(chunk.valid());
            let bad = chunk.invalid();
            let may_go_on = kept + chunk.valid().len() + bad.len() == self.held.len() && bad.len() < 4;
            if !bad.is_empty() && may_go_on && !is_end {
                kept += chunk.valid().len();
                break;
            }
            if !bad.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
            kept += chunk.valid().len() + bad.len();
        }
        self.held.drain(..kept);
        let quoted = serde_json::Value::String(text).to_string();
        let inside = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        self.inner.write_all(inside.as_bytes())
    }
}

impl<W: Write> Write for JsonText<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(text);
        self.pass_on(false)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
