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
}
