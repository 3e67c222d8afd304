//! Turns a stream of bytes into events: server-sent ones, or one JSON document a line. Bounded, whatever comes.

use std::io::{BufRead, BufReader, Read};

use super::Trouble;

/// Bytes of one line, and of one event.
const LINE: usize = 1 << 20;

/// How events are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Sent,
    Lines,
}

/// Events of a stream.
pub(crate) struct Events<R> {
    reader: BufReader<R>,
    form: Form,
    left: u64,
}

impl<R: Read> Events<R> {
    pub(crate) fn new(reader: R, form: Form, most: u64) -> Self {
        Self { reader: BufReader::new(reader), form, left: most }
    }

    /// The next event's data; nothing at the end.
    pub(crate) fn next(&mut self) -> Result<Option<String>, Trouble> {
        let mut data: Option<String> = None;
        while let Some(line) = self.line()? {
            match self.form {
                Form::Lines if line.trim().is_empty() => {}
                Form::Lines => return Ok(Some(line)),
                Form::Sent if line.is_empty() && data.is_some() => return Ok(data),
                Form::Sent => {
                    let Some(more) = line.strip_prefix("data:") else { continue };
                    let more = more.strip_prefix(' ').unwrap_or(more);
                    let joined = data.get_or_insert_default();
                    if joined.len() + more.len() > LINE {
                        return Err(Trouble::TooLong);
                    }
                    if !joined.is_empty() {
                        joined.push('\n');
                    }
                    joined.push_str(more);
                }
            }
        }
        Ok(data)
    }

    /// A line without its end.
    fn line(&mut self) -> Result<Option<String>, Trouble> {
        let mut line = Vec::new();
        loop {
            let piece = self.reader.fill_buf().map_err(|error| broken(&error))?;
            if piece.is_empty() {
                return if line.is_empty() { Ok(None) } else { text(line).map(Some) };
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(piece.len(), |end| end + 1);
            if line.len() + taken > LINE {
                return Err(Trouble::TooLong);
            }
            line.extend(piece.iter().take(end.unwrap_or(taken)));
            self.reader.consume(taken);
            self.left = self.left.checked_sub(taken as u64).ok_or(Trouble::TooLong)?;
            if end.is_some() {
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return text(line).map(Some);
            }
        }
    }
}

fn text(line: Vec<u8>) -> Result<String, Trouble> {
    String::from_utf8(line).map_err(|_| Trouble::Garbage("bytes that are no text".to_owned()))
}

fn broken(error: &std::io::Error) -> Trouble {
    match error.kind() {
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => Trouble::Slow,
        // `ureq` wraps its own time-outs.
        _ if error.to_string().contains("timeout") => Trouble::Slow,
        _ => Trouble::CutOff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8], form: Form, most: u64) -> Result<Vec<String>, String> {
        let mut events = Events::new(text, form, most);
        let mut found = Vec::new();
        while let Some(one) = events.next().map_err(|trouble| trouble.to_string())? {
            found.push(one);
        }
        Ok(found)
    }

    #[test]
    fn events_are_told_apart() {
        let text = b": hello\nevent: x\r\ndata: {\"a\":\ndata: 1}\r\n\r\n\n\ndata:b\n\ndata: last";
        assert_eq!(all(text, Form::Sent, 1000).unwrap(), ["{\"a\":\n1}", "b", "last"]);
        assert_eq!(all(b"{}\n\n[]\n1", Form::Lines, 1000).unwrap(), ["{}", "[]", "1"]);
    }

    #[test]
    fn endless_lines_events_and_streams_stop() {
        let long = vec![b'x'; LINE + 1];
        assert!(all(&long, Form::Sent, u64::MAX).unwrap_err().contains("more than"));
        let many = b"data: 0123456789abcdef\n".repeat(LINE / 16 + 1);
        assert!(all(&many, Form::Sent, u64::MAX).unwrap_err().contains("more than"));
        assert!(all(&b"{}\n".repeat(100), Form::Lines, 200).unwrap_err().contains("more than"));
        assert!(all(b"\xff\xfe\n", Form::Lines, 200).unwrap_err().contains("no text"));
    }
}
