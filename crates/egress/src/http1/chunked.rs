//! Content in chunks, each with its size, and the fields after it.
//!
//! Invariant: a size is digits in base 16 and nothing else; extensions, which nobody uses and programs disagree about, are
//! refused.

use super::body::Step;
use super::error::BadBody;
use super::fields::Fields;
use super::{MAX_FIELDS, MAX_TRAILERS};

/// The most digits of a size, zeros before it included.
const MAX_DIGITS: u8 = 16;
/// The largest chunk: no program's numbers overflow.
const MAX_CHUNK: u64 = i64::MAX as u64;

/// Reads chunks.
pub(super) struct Chunks {
    state: State,
    /// One line after the content, as far as it is there.
    line: Vec<u8>,
    /// The length of all lines after the content.
    total: usize,
    trailers: Fields,
}

#[derive(Clone, Copy)]
enum State {
    Size { value: u64, digits: u8 },
    SizeEnd { value: u64 },
    Data { left: u64 },
    DataEnd,
    DataEndLf,
    Trailers,
    Done,
}

const SIZE: State = State::Size { value: 0, digits: 0 };

impl Chunks {
    pub(super) fn new() -> Self {
        Self { state: SIZE, line: Vec::new(), total: 0, trailers: Fields::new() }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    pub(super) fn trailers(&self) -> Option<&Fields> {
        self.is_done().then_some(&self.trailers)
    }

    pub(super) fn read<'a>(&mut self, input: &'a [u8]) -> Result<Step<'a>, BadBody> {
        let mut rest = input;
        let mut data: &[u8] = &[];
        while data.is_empty() && !self.is_done() {
            if let State::Data { left } = self.state {
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                let Some((piece, after)) =
                    rest.split_at_checked(count).filter(|(piece, _)| !piece.is_empty())
                else {
                    break;
                };
                (data, rest) = (piece, after);
                let left = left - count as u64;
                self.state = if left == 0 { State::DataEnd } else { State::Data { left } };
            } else {
                let Some((byte, after)) = rest.split_first() else { break };
                self.state = self.take(*byte)?;
                rest = after;
            }
        }
        Ok(Step { data, used: input.len() - rest.len(), done: self.is_done() })
    }

    /// The state after one byte that is no content.
    fn take(&mut self, byte: u8) -> Result<State, BadBody> {
        match (self.state, byte) {
            (State::Size { value, digits }, _) => size(value, digits, byte),
            (State::SizeEnd { value: 0 }, b'\n') => Ok(State::Trailers),
            (State::SizeEnd { value }, b'\n') => Ok(State::Data { left: value }),
            (State::SizeEnd { .. }, _) => Err(BadBody::ChunkSize),
            (State::DataEnd, b'\r') => Ok(State::DataEndLf),
            (State::DataEndLf, b'\n') => Ok(SIZE),
            (State::DataEnd | State::DataEndLf, _) => Err(BadBody::ChunkEnd),
            (State::Trailers, _) => self.trailer(byte),
            (state @ (State::Data { .. } | State::Done), _) => Ok(state),
        }
    }

    fn trailer(&mut self, byte: u8) -> Result<State, BadBody> {
        self.total += 1;
        if self.total > MAX_TRAILERS || self.trailers.len() > MAX_FIELDS {
            return Err(BadBody::TrailersTooLong);
        }
        self.line.push(byte);
        if byte != b'\n' {
            return Ok(State::Trailers);
        }
        let line = self.line.strip_suffix(b"\r\n").ok_or(BadBody::ChunkEnd)?;
        if line.is_empty() {
            return Ok(State::Done);
        }
        self.trailers.take_line(line).map_err(BadBody::Trailer)?;
        if self.trailers.iter().last().is_some_and(|(name, _)| is_forbidden(name)) {
            return Err(BadBody::Forbidden);
        }
        self.line.clear();
        Ok(State::Trailers)
    }
}

/// The state after one byte of a size.
fn size(value: u64, digits: u8, byte: u8) -> Result<State, BadBody> {
    match byte {
        b'\r' if digits > 0 => Ok(State::SizeEnd { value }),
        b';' if digits > 0 => Err(BadBody::Extension),
        _ => {
            let digit = char::from(byte).to_digit(16).ok_or(BadBody::ChunkSize)?;
            let value = value.checked_mul(16).and_then(|value| value.checked_add(u64::from(digit)));
            let value =
                value.filter(|value| *value <= MAX_CHUNK && digits < MAX_DIGITS).ok_or(BadBody::ChunkSize)?;
            Ok(State::Size { value, digits: digits + 1 })
        }
    }
}

/// Fields after content that did not come in chunks, with the same bounds.
pub fn trailers<'a>(all: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<Fields, BadBody> {
    let (mut trailers, mut total) = (Fields::new(), 0);
    for (name, value) in all {
        total += name.len() + value.len() + 4;
        if total > MAX_TRAILERS || trailers.len() >= MAX_FIELDS {
            return Err(BadBody::TrailersTooLong);
        }
        if is_forbidden(name) {
            return Err(BadBody::Forbidden);
        }
        trailers.push(name, value).map_err(BadBody::Trailer)?;
    }
    Ok(trailers)
}

/// Names that say how to read a message, where it goes, who sent it or how to treat it: all of that was decided before.
fn is_forbidden(name: &str) -> bool {
    const WORDS: [&str; 31] = [
        "accept",
        "age",
        "alt-svc",
        "authorization",
        "cache-control",
        "connection",
        "cookie",
        "date",
        "expect",
        "expires",
        "forwarded",
        "host",
        "keep-alive",
        "last-modified",
        "location",
        "max-forwards",
        "origin",
        "pragma",
        "range",
        "referer",
        "retry-after",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "vary",
        "via",
        "warning",
        "www-authenticate",
    ];
    let name = name.to_ascii_lowercase();
    let starts = ["accept-", "access-control-", "if-", "proxy-", "sec-", "x-forwarded", "x-http-method"];
    WORDS.contains(&name.as_str())
        || starts.iter().any(|start| name.starts_with(start))
        // Digests can only be known at the end.
        || (name.starts_with("content-") && name != "content-digest" && name != "content-md5")
}

/// Writes one chunk. Nothing for no content, since an empty chunk is the last.
pub fn write_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if !data.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
        out.extend_from_slice(data);
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes the end of content in chunks.
pub fn write_last_chunk(out: &mut Vec<u8>, trailers: Option<&Fields>) {
    out.extend_from_slice(b"0\r\n");
    if let Some(trailers) = trailers {
        trailers.write(out);
    }
    out.extend_from_slice(b"\r\n");
}
