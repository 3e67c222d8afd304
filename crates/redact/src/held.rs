//! Text on its way through the machine: what was passed on and may be looked back at, then what is held back.
//!
//! Invariant: held memory is bounded, whatever comes: a line longer than a piece is passed on in pieces.

use crate::machine::{CONTEXT, Edit, End, LONG_LINE, Machine};
use crate::redactor::Redactor;

#[derive(Default)]
pub(crate) struct Held {
    machine: Machine,
    text: Vec<u8>,
    from: usize,
}

/// A unit that was handled.
pub(crate) struct Unit<'a> {
    /// All that is held.
    pub(crate) text: &'a [u8],
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) edits: &'a [Edit],
}

impl Held {
    /// Takes as much as it wants of `text`; how much.
    pub(crate) fn take(&mut self, text: &[u8]) -> usize {
        let part = text.get(..LONG_LINE).unwrap_or(text);
        self.text.extend_from_slice(part);
        part.len()
    }

    /// Appends what can leave.
    pub(crate) fn emit(&mut self, redactor: &Redactor, end: End, out: &mut Vec<u8>) {
        let rules = redactor.rules();
        while let Some(next) = self.machine.step(&rules, redactor.also(), &self.text, self.from, end) {
            redactor.count(self.machine.edits());
            self.machine.emit(&rules, redactor.also(), &self.text, self.from, next, out);
            self.from = next;
        }
        self.drop_past();
    }

    /// Tells every unit that is complete.
    pub(crate) fn tell(&mut self, redactor: &Redactor, end: End, mut tell: impl FnMut(Unit<'_>)) {
        let rules = redactor.rules();
        while let Some(next) = self.machine.step(&rules, redactor.also(), &self.text, self.from, end) {
            tell(Unit { text: &self.text, from: self.from, to: next, edits: self.machine.edits() });
            self.from = next;
        }
        self.drop_past();
    }

    fn drop_past(&mut self) {
        let past = self.from.saturating_sub(CONTEXT);
        self.text.drain(..past);
        self.from -= past;
    }
}
