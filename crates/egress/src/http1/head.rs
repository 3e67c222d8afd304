//! Finds where a head ends, and takes it apart into lines.

use super::error::BadHead;
use super::{MAX_FIELDS, MAX_HEAD};

/// The version of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    V10,
    /// HTTP/1.1
    V11,
}

impl Version {
    pub(super) fn parse(text: &[u8]) -> Result<Self, BadHead> {
        match text {
            b"HTTP/1.1" => Ok(Self::V11),
            b"HTTP/1.0" => Ok(Self::V10),
            _ => Err(BadHead::Version),
        }
    }

    pub(super) fn text(self) -> &'static [u8] {
        match self {
            Self::V10 => b"HTTP/1.0",
            Self::V11 => b"HTTP/1.1",
        }
    }
}

/// Finds the end of a head in a buffer that grows, and looks at each byte once.
#[derive(Clone, Debug, Default)]
pub struct HeadEnd {
    seen: usize,
    line: usize,
    lines: usize,
}

impl HeadEnd {
    /// For a buffer that begins with a head.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long the head is, once it is there as a whole. The buffer must begin as it did at the last call; what is wrong
    /// with the ends of lines is told as soon as it is seen.
    pub fn find(&mut self, buffer: &[u8]) -> Result<Option<usize>, BadHead> {
        while let Some(rest) = buffer.get(self.seen..) {
            let Some(at) = memchr::memchr(b'\n', rest) else {
                self.seen = buffer.len();
                break;
            };
            let end = self.seen + at + 1;
            let line = buffer.get(self.line..end).unwrap_or_default();
            let Some(text) = line.strip_suffix(b"\r\n") else { return Err(BadHead::LineEnd) };
            if end > MAX_HEAD {
                return Err(BadHead::TooLong);
            }
            if text.is_empty() {
                return if self.line == 0 { Err(BadHead::FirstLine) } else { Ok(Some(end)) };
            }
            (self.seen, self.line, self.lines) = (end, end, self.lines + 1);
            // The first line is no field.
            if self.lines > MAX_FIELDS + 1 {
                return Err(BadHead::TooMany);
            }
        }
        if buffer.len() >= MAX_HEAD { Err(BadHead::TooLong) } else { Ok(None) }
    }
}

/// The lines of a whole head, without their ends and without the last, which is empty.
pub(super) fn lines(head: &[u8]) -> Result<Vec<&[u8]>, BadHead> {
    if HeadEnd::new().find(head)? != Some(head.len()) {
        return Err(BadHead::LineEnd);
    }
    let text = head.strip_suffix(b"\r\n").unwrap_or_default();
    // Exactly one line end comes off each line: another CR before it is for the reader of the line to refuse.
    text.split_inclusive(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r\n").ok_or(BadHead::LineEnd))
        .collect()
}
