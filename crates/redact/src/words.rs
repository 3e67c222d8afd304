//! Lists of words: whether a text is one of them or ends with one, without looking at each.
//!
//! Three of the last letters of the text leave few words or none, and only those are compared. Case does not count.

use crate::bytes::{at, slice};

/// A list of at most 128 words, made by the compiler.
pub(crate) struct Words {
    words: &'static [&'static str],
    /// For each last letter, the words that have it: a bit for each.
    last: [u128; LETTERS],
    /// The same for the letter before.
    other: [u128; LETTERS],
    /// The same for the fourth letter from the end: many names end with `key`.
    fourth: [u128; LETTERS],
    /// The words that have no such letter.
    short: u128,
}

/// Capitals and small letters are the same; some signs are letters too.
const LETTERS: usize = 32;

const fn letter(byte: u8) -> usize {
    byte as usize % LETTERS
}

impl Words {
    #[expect(clippy::indexing_slicing, reason = "at compile time: out of range is an error of the build")]
    pub(crate) const fn of(words: &'static [&'static str]) -> Self {
        assert!(words.len() <= 128);
        let (mut last, mut other, mut fourth, mut short) = ([0; LETTERS], [0; LETTERS], [0; LETTERS], 0);
        let mut index = 0;
        while index < words.len() {
            let word = words[index].as_bytes();
            assert!(word.len() >= 2);
            last[letter(word[word.len() - 1])] |= 1 << index;
            other[letter(word[word.len() - 2])] |= 1 << index;
            if word.len() >= 4 {
                fourth[letter(word[word.len() - 4])] |= 1 << index;
            } else {
                short |= 1 << index;
            }
            index += 1;
        }
        Self { words, last, other, fourth, short }
    }

    /// The words that a text may end with, in the order of the list.
    #[inline]
    fn likely(&self, text: &[u8]) -> impl Iterator<Item = &'static str> {
        // The letter so far from the end.
        let of = |letters: &[u128; LETTERS], back: usize| {
            let byte = text.len().checked_sub(back).and_then(|place| at(text, place));
            byte.and_then(|byte| letters.get(letter(byte))).copied().unwrap_or(0)
        };
        let mut left = of(&self.last, 1) & of(&self.other, 2) & (of(&self.fourth, 4) | self.short);
        std::iter::from_fn(move || {
            let index = usize::try_from(left.trailing_zeros()).ok().filter(|_| left != 0)?;
            left &= left - 1;
            self.words.get(index).copied()
        })
    }

    /// The words that a text ends with, in the order of the list.
    #[inline]
    pub(crate) fn ending(&self, text: &[u8]) -> impl Iterator<Item = &'static str> {
        self.likely(text).filter(|word| {
            let from = text.len().checked_sub(word.len());
            from.is_some_and(|from| slice(text, from, text.len()).eq_ignore_ascii_case(word.as_bytes()))
        })
    }

    /// Whether a text in small letters ends with one of them.
    #[inline]
    pub(crate) fn end(&self, text: &[u8]) -> bool {
        self.likely(text).any(|word| text.ends_with(word.as_bytes()))
    }

    /// Whether a text is one of them.
    pub(crate) fn has(&self, text: &[u8]) -> bool {
        self.ending(text).any(|word| word.len() == text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_by_its_end() {
        static WORDS: Words = Words::of(&["key", "apikey", "no", "[x]", "q1"]);
        let ending = |text: &str| WORDS.ending(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(ending("MyApiKey"), ["key", "apikey"]);
        assert_eq!(ending("monkey"), ["key"]);
        assert_eq!(ending("a[X]"), ["[x]"]);
        // One that folds to the same is another one.
        assert!(ending("aqQ").is_empty() && ending("y").is_empty() && ending("").is_empty());
        assert!(WORDS.has(b"NO") && !WORDS.has(b"ono") && WORDS.end(b"ono"));
    }
}
