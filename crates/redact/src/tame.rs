//! Takes out of text what acts on the terminal of whoever looks at it later: clipboard, titles and their answers,
//! hyperlinks, device strings, cursor movements, bells. Colours stay.
//!
//! What is shown instead: a picture of the control character (`␛`), so that nothing is hidden; complete sequences that
//! only move the cursor or erase are left out.
//!
//! Invariants: the only control characters that leave are tab, newline, carriage return, and the escape of a complete colour
//! sequence; doing it twice is doing it once; where a stream was cut does not matter.
//!
//! Not here: secrets. A store puts this in front of a [`crate::Sink`], which then sees what a reader sees.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use crate::bytes::{at, slice};

/// Longest sequence that is taken for one.
const LONGEST: usize = 64;
const ESCAPE: u8 = 0x1b;
/// For a character that is cut or that some terminals take for the beginning of a sequence.
const REPLACED: &[u8] = "\u{fffd}".as_bytes();

/// The text without what acts on a terminal; borrowed when there was nothing.
#[must_use]
pub fn tame(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| acts(*byte)) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let rest = pass(text, true, &mut out);
    debug_assert_eq!(rest, text.len());
    Cow::Owned(out)
}

/// Whether a byte may be the first of something that acts.
const fn acts(byte: u8) -> bool {
    (byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r')) || byte == 0x7f || byte == 0xc2
}

/// Passes on what is complete; how much that was.
fn pass(text: &[u8], is_end: bool, out: &mut Vec<u8>) -> usize {
    let mut place = 0;
    loop {
        let rest = slice(text, place, text.len());
        let plain = rest.iter().position(|byte| acts(*byte)).unwrap_or(rest.len());
        out.extend_from_slice(slice(rest, 0, plain));
        place += plain;
        let Some(byte) = at(text, place) else { return place };
        let length = match byte {
            ESCAPE => escape(slice(text, place, text.len()), is_end, out),
            0xc2 => second(slice(text, place, text.len()), is_end, out),
            other => {
                picture(other, out);
                1
            }
        };
        if length == 0 {
            return place;
        }
        place += length;
    }
}

/// How long the complete sequence is that a text begins with: colours, and what moves the cursor or erases.
pub(crate) fn sequence(text: &[u8]) -> Option<usize> {
    let body = text.strip_prefix(b"\x1b[").map(|body| slice(body, 0, LONGEST - 2))?;
    let length = parameters(body);
    matches!(at(body, length), Some(0x40..=0x7e)).then_some(3 + length)
}

fn parameters(body: &[u8]) -> usize {
    body.iter().take_while(|byte| matches!(byte, 0x20..=0x3f)).count()
}

/// Handles what begins with an escape; how long it is, or zero where more must come first.
fn escape(text: &[u8], is_end: bool, out: &mut Vec<u8>) -> usize {
    let is_sequence = at(text, 1) == Some(b'[');
    let body = slice(text, 2, LONGEST);
    let length = parameters(body);
    if (text.len() < 2 || (is_sequence && length == body.len() && text.len() < LONGEST)) && !is_end {
        return 0;
    }
    let Some(whole) = sequence(text) else {
        picture(ESCAPE, out);
        return 1;
    };
    let colours = |body: &[u8]| body.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'));
    if at(body, length) == Some(b'm') && colours(slice(body, 0, length)) {
        out.extend_from_slice(slice(text, 0, whole));
    }
    whole
}

/// Handles a character of two bytes: the control characters above ASCII are among them.
fn second(text: &[u8], is_end: bool, out: &mut Vec<u8>) -> usize {
    match at(text, 1) {
        None if !is_end => 0,
        Some(0xa0..=0xbf) => {
            out.extend_from_slice(slice(text, 0, 2));
            2
        }
        Some(0x80..=0x9f) => {
            out.extend_from_slice(REPLACED);
            2
        }
        // Alone it would join what comes after it.
        _ => {
            out.extend_from_slice(REPLACED);
            1
        }
    }
}

fn picture(control: u8, out: &mut Vec<u8>) {
    let code = if control == 0x7f { 0x2421 } else { 0x2400 + u32::from(control) };
    let mut bytes = [0; 4];
    let picture = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(picture.encode_utf8(&mut bytes).as_bytes());
}

/// A writer that does the same with a stream.
pub struct Tame<W: Write> {
    /// None once finished.
    inner: Option<W>,
    /// The beginning of a sequence; never longer than one.
    held: Vec<u8>,
    out: Vec<u8>,
}

impl<W: Write> Tame<W> {
    /// In front of `inner`.
    pub const fn new(inner: W) -> Self {
        Self { inner: Some(inner), held: Vec::new(), out: Vec::new() }
    }

    /// Passes on what was held back, and gives the writer back.
    ///
    /// # Errors
    /// What the writer said.
    pub fn finish(mut self) -> io::Result<W> {
        self.pass_on(true)?;
        self.inner.take().ok_or_else(|| io::Error::other("the writer is finished"))
    }

    fn pass_on(&mut self, is_end: bool) -> io::Result<()> {
        let Some(inner) = &mut self.inner else { return Ok(()) };
        let passed = pass(&self.held, is_end, &mut self.out);
        self.held.drain(..passed);
        let written = inner.write_all(&self.out);
        self.out.clear();
        written
    }
}

impl<W: Write> Write for Tame<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(text);
        self.pass_on(false)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl<W: Write> Drop for Tame<W> {
    fn drop(&mut self) {
        let _ = self.pass_on(true);
        let _ = self.flush();
    }
}

impl<W: Write> fmt::Debug for Tame<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tame")
    }
}
