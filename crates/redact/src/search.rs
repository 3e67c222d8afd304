//! Tells where secrets are, and nothing about them.
//!
//! Invariant: the places are those that a [`crate::Sink`] would mask in the same text, however it was cut.

use std::fmt;

use crate::Redactor;
use crate::find::With;
use crate::held::{Held, Unit};
use crate::machine::End;

/// Where a secret is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes before it.
    pub offset: u64,
    /// Its bytes.
    pub length: u64,
    /// Its line, from one.
    pub line: u64,
    /// Its first character in that line, from one.
    pub column: u64,
}

/// Searches a stream.
pub struct Search {
    redactor: Redactor,
    held: Held,
    /// The next byte: how many were before it, in which line it is, and how many characters of that line were before it.
    offset: u64,
    line: u64,
    characters: u64,
    /// The last place, which lines of a key block may still belong to.
    open: Option<Place>,
}

impl Search {
    /// A search with what the redactor knows.
    #[must_use]
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, held: Held::default(), offset: 0, line: 1, characters: 0, open: None }
    }

    /// Goes on with the next bytes; tells the places that are certain by now.
    pub fn feed(&mut self, mut text: &[u8], mut tell: impl FnMut(Place)) {
        while !text.is_empty() {
            let taken = self.held.take(text);
            self.advance(End::NotYet, &mut tell);
            text = text.get(taken..).unwrap_or_default();
        }
    }

    /// There is no more; tells the last places.
    pub fn finish(mut self, mut tell: impl FnMut(Place)) {
        self.advance(End::OfText, &mut tell);
        self.open.map(tell);
    }

    fn advance(&mut self, end: End, tell: &mut impl FnMut(Place)) {
        let mut held = std::mem::take(&mut self.held);
        let redactor = self.redactor.clone();
        held.tell(&redactor, end, |unit| self.unit(&unit, tell));
        self.held = held;
    }

    fn unit(&mut self, unit: &Unit<'_>, tell: &mut impl FnMut(Place)) {
        let mut place = unit.from;
        for edit in unit.edits {
            self.pass(unit.text, place, edit.start);
            let length = u64::try_from(edit.end - edit.start).unwrap_or(0);
            match (edit.with, &mut self.open) {
                (With::Mark, open) => {
                    let found =
                        Place { offset: self.offset, length, line: self.line, column: self.characters + 1 };
                    open.replace(found).map(&mut *tell);
                }
                // A line of a block, or the rest of a secret that is longer than a piece.
                (With::Nothing, Some(open)) => open.length = self.offset + length - open.offset,
                (With::Nothing, None) | (With::Home, _) => {}
            }
            self.pass(unit.text, edit.start, edit.end);
            place = edit.end;
        }
        self.pass(unit.text, place, unit.to);
    }

    /// Counts `text[from..to]`.
    fn pass(&mut self, text: &[u8], from: usize, to: usize) {
        let text = crate::bytes::slice(text, from, to);
        let count = |bytes: usize| u64::try_from(bytes).unwrap_or(0);
        self.offset += count(text.len());
        let after = match memchr::memrchr(b'\n', text) {
            Some(newline) => {
                self.line += count(memchr::memchr_iter(b'\n', text).count());
                self.characters = 0;
                text.get(newline + 1..).unwrap_or_default()
            }
            None => text,
        };
        self.characters += count(after.iter().filter(|byte| **byte & 0xc0 != 0x80).count());
    }
}

impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Search(***)")
    }
}
