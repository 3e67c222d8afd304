//! Text that has at most one kind of letters: nothing that is drawn by lot stands in it.
//!
//! Invariant: text that begins a token over and over is looked at once, and not by each of them.

use crate::bytes::{mixed, slice};

/// How much more is looked at where one such stretch goes on in another.
const AHEAD: usize = 256;

/// The stretch that was met last.
#[derive(Default)]
pub(super) struct Dull {
    from: usize,
    to: usize,
    /// A stretch without a newline and a sign of equality, which is what a cookie has.
    bare: (usize, usize),
    /// A stretch without a full stop, which parts of a token have between them.
    whole: (usize, usize),
}

impl Dull {
    /// Whether this is known to be one without a look.
    #[inline]
    pub(super) const fn has(&self, from: usize, to: usize) -> bool {
        self.from <= from && to <= self.to
    }

    /// Whether a sign of equality stands here, in the same line.
    pub(super) fn has_sign(&mut self, text: &[u8], from: usize, to: usize) -> bool {
        if self.bare.0 <= from && to <= self.bare.1 {
            return false;
        }
        let ahead = slice(text, from, to.saturating_add(AHEAD));
        let end = from + memchr::memchr2(b'=', b'\n', ahead).unwrap_or(ahead.len());
        self.bare = (from, end);
        end < to && text.get(end) == Some(&b'=')
    }

    /// Where the first full stop stands.
    pub(super) fn dot(&mut self, text: &[u8], from: usize, to: usize) -> Option<usize> {
        // What is known to have none is not looked at again.
        let known = if self.whole.0 <= from && from < self.whole.1 { self.whole.1 } else { from };
        let new = slice(text, known, to);
        let dot = memchr::memchr(b'.', new).map(|dot| known + dot);
        let first = if known > from { self.whole.0 } else { from };
        self.whole = (first, dot.unwrap_or(known + new.len()));
        dot
    }

    /// Whether this is one.
    pub(super) fn is(&mut self, text: &[u8], from: usize, to: usize) -> bool {
        let to = to.min(text.len());
        if self.has(from, to) {
            return true;
        }
        if mixed(slice(text, from, to)) {
            return false;
        }
        let ahead = (to + AHEAD).min(text.len());
        let goes_on = self.from <= from && from < self.to && !mixed(slice(text, from, ahead));
        (self.from, self.to) = (from, if goes_on { ahead } else { to });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_dull_as_long_as_it_has_one_kind_of_letters() {
        let text = [b"sk-".repeat(300), b"Sk-".repeat(10), b"SK-".repeat(300)].concat();
        let mut dull = Dull::default();
        for from in 0..text.len() {
            for length in [16, 32, 160] {
                let to = from + length;
                let expected = !mixed(slice(&text, from, to.min(text.len())));
                assert_eq!(dull.is(&text, from, to), expected, "{from} to {to}");
            }
        }
    }

    #[test]
    fn a_full_stop_is_found_whatever_was_looked_at_before() {
        let text = [&b"a".repeat(90)[..], b".", &b"b".repeat(40), b"..", &b"c".repeat(700)].concat();
        // On and on, and here and there.
        for step in [1, 3, 7, 31, 250] {
            let mut dull = Dull::default();
            for turn in 0..2 * text.len() {
                let from = turn * step % text.len();
                let to = from + 10 + turn % 300;
                let expected = memchr::memchr(b'.', slice(&text, from, to)).map(|dot| from + dot);
                assert_eq!(dull.dot(&text, from, to), expected, "{from} to {to}");
            }
        }
    }
}
