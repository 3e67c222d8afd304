//! A writer that masks secrets on their way through, also those that arrive in parts.
//!
//! Invariants: what comes out equals [`Redactor::scrub_bytes`] of all that went in; no byte of a line
//! leaves before the line is whole or 64 KiB long; held memory is bounded. So `flush` passes on whole
//! lines only: a prompt without a newline waits for [`Sink::finish`] or for the rest of its line.
//! What is learned, forgotten or set while text flows holds from the next line on.

use std::fmt;
use std::io::{self, Write};

use crate::Redactor;
use crate::held::Held;
use crate::machine::End;

/// Wraps a writer; see the module's text.
pub struct Sink<W: Write> {
    /// None once finished.
    inner: Option<W>,
    redactor: Redactor,
    held: Held,
    out: Vec<u8>,
}

impl<W: Write> Sink<W> {
    /// A sink in front of `inner`.
    pub fn new(redactor: Redactor, inner: W) -> Self {
        Self { inner: Some(inner), redactor, held: Held::default(), out: Vec::new() }
    }

    /// Passes on what was held back, and gives the writer back.
    ///
    /// # Errors
    /// What the writer said.
    pub fn finish(mut self) -> io::Result<W> {
        self.pass_on(End::OfText)?;
        let inner = self.inner.take().ok_or_else(|| io::Error::other("the sink is finished"));
        inner.and_then(|mut inner| inner.flush().map(|()| inner))
    }

    fn pass_on(&mut self, end: End) -> io::Result<()> {
        let Some(inner) = &mut self.inner else { return Ok(()) };
        self.held.emit(&self.redactor, end, &mut self.out);
        let written = inner.write_all(&self.out);
        self.out.clear();
        written
    }
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let taken = self.held.take(text);
        self.pass_on(End::NotYet)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl<W: Write> Drop for Sink<W> {
    /// Like a `BufWriter`: passes on the rest, without a way to tell that it failed.
    fn drop(&mut self) {
        let _ = self.pass_on(End::OfText);
        let _ = self.flush();
    }
}

impl<W: Write> fmt::Debug for Sink<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink(***)")
    }
}
