//! Passes lines on, each whole and in order, also those that are too long to be looked at.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Mutex, PoisonError};

/// Bytes of a line that is looked at. A longer one passes as it comes.
pub(super) const LINE: usize = 8 << 20;

/// What becomes of a line.
pub(super) enum Fate {
    On,
    Taken,
    Changed(Vec<u8>),
}

/// Passes lines to a place that others write whole lines to as well, until one of both ends.
pub(super) fn passed<W: Write>(from: impl Read, to: &Mutex<Option<W>>, mut judge: impl FnMut(&[u8]) -> Fate) {
    let mut from = BufReader::with_capacity(64 << 10, from);
    let mut line = Vec::new();
    loop {
        let end = match taken(&mut from, &mut line, LINE) {
            End::Stream => {
                put(to, &line);
                return;
            }
            End::Line => match judge(&line) {
                Fate::On => put(to, &line),
                Fate::Taken => true,
                Fate::Changed(line) => put(to, &line),
            },
            End::Bound => streamed(&mut from, &mut line, to),
        };
        if !end {
            return;
        }
        line.clear();
    }
}

/// Where a piece of a stream ends.
enum End {
    Line,
    Bound,
    Stream,
}

/// Takes what is there up to the end of the line, or about so many bytes of it.
fn taken(from: &mut impl BufRead, line: &mut Vec<u8>, most: usize) -> End {
    loop {
        let piece = match from.fill_buf() {
            Ok(piece) if !piece.is_empty() => piece,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => return End::Stream,
        };
        let end = piece.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(piece.len(), |end| end + 1);
        line.extend(piece.iter().take(count));
        from.consume(count);
        if end.is_some() {
            return End::Line;
        }
        if line.len() >= most {
            return End::Bound;
        }
    }
}

/// Passes a long line on as it comes. Nobody else writes meanwhile.
fn streamed<W: Write>(from: &mut impl BufRead, line: &mut Vec<u8>, to: &Mutex<Option<W>>) -> bool {
    let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if !written(&mut to, line) {
            return false;
        }
        line.clear();
        match taken(from, line, 64 << 10) {
            End::Line => return written(&mut to, line),
            End::Bound => {}
            End::Stream => {
                written(&mut to, line);
                return false;
            }
        }
    }
}

/// Writes a line; whether anybody takes it.
pub(super) fn put<W: Write>(to: &Mutex<Option<W>>, line: &[u8]) -> bool {
    written(&mut to.lock().unwrap_or_else(PoisonError::into_inner), line)
}

fn written<W: Write>(to: &mut Option<W>, bytes: &[u8]) -> bool {
    let is_taken = to.as_mut().is_some_and(|to| to.write_all(bytes).and_then(|()| to.flush()).is_ok());
    if !is_taken {
        *to = None;
    }
    is_taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_pass_byte_for_byte_also_long_ones_and_the_last() {
        let long = "x".repeat(LINE + (3 << 20));
        let stream = format!("one\r\n\n{long}\nmine\n\u{fffd} two\nthe end");
        let to = Mutex::new(Some(Vec::new()));
        let mut seen = 0;
        passed(stream.as_bytes(), &to, |line| {
            seen += 1;
            if line == b"mine\n" { Fate::Taken } else { Fate::On }
        });
        let got = to.into_inner().unwrap().unwrap();
        assert!(got == stream.replace("mine\n", "").into_bytes());
        assert_eq!(seen, 4, "the long one and the last are not looked at");
    }
}
