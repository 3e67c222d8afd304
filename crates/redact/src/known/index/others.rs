//! Texts that stand in text as they are and have characters that no run has: they are looked for everywhere.
//!
//! Most values have letters and digits only, so those with signs are few: a table of one bit for each of their hashes rules most
//! places out in a few instructions.
//!
//! Invariant: what is looked for at a place does not depend on how many places are looked at together.

use super::{AT_ONCE, Index, Read, hash, wide};
use crate::bytes::slice;

/// More would fill the table.
const MOST: usize = 1 << 16;
/// Words of the table, as a power of two: 128 KiB.
const WORDS: u32 = 14;

/// Which eight bytes there may be.
pub(super) struct Others {
    words: Box<[u64; 1 << WORDS]>,
}

impl Others {
    /// Of these, if they are some and not too many.
    pub(super) fn of(all: impl Iterator<Item = u64> + Clone) -> Option<Self> {
        if !(1..=MOST).contains(&all.clone().count()) {
            return None;
        }
        let mut words = Box::new([0; 1 << WORDS]);
        for bytes in all {
            let (word, bit) = Self::place(bytes);
            if let Some(word) = words.get_mut(word) {
                *word |= 1 << bit;
            }
        }
        Some(Self { words })
    }

    /// The highest bits of a product depend on all of what is multiplied.
    #[inline]
    fn place(bytes: u64) -> (usize, u64) {
        let product = bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = product >> (u64::BITS - WORDS);
        (usize::try_from(word).unwrap_or(0), product >> (u64::BITS - WORDS - 6) & 63)
    }

    #[inline]
    fn has(&self, bytes: u64) -> bool {
        let (word, bit) = Self::place(bytes);
        self.words.get(word).is_some_and(|word| word >> bit & 1 != 0)
    }
}

impl Index {
    /// Tells every occurrence of the others in `text[from..]`.
    pub(super) fn find_others(
        &self,
        others: &Others,
        text: &[u8],
        from: usize,
        tell: &mut impl FnMut(usize, usize),
    ) {
        let mut told = (0, 0);
        // The usual numbers as the compiler knows them.
        let done = match self.stride {
            8 => self.find_groups::<{ 8 * AT_ONCE }>(others, text, from, &mut told, tell),
            9 => self.find_groups::<{ 9 * AT_ONCE }>(others, text, from, &mut told, tell),
            16 => self.find_groups::<{ 16 * AT_ONCE }>(others, text, from, &mut told, tell),
            _ => from,
        };
        self.find_some(others, text, (done, text.len()), &mut told, tell);
    }

    /// The same for as many groups of places as there are; where the next place is.
    #[inline]
    fn find_groups<const GROUP: usize>(
        &self,
        others: &Others,
        text: &[u8],
        from: usize,
        told: &mut (usize, usize),
        tell: &mut impl FnMut(usize, usize),
    ) -> usize {
        let (groups, _) = slice(text, from, text.len()).as_chunks::<GROUP>();
        let mut place = from;
        for group in groups {
            // Without a way out, as the processor cannot guess which of them it is.
            let is_there =
                |turn: usize| wide(group, turn * (GROUP / AT_ONCE)).is_some_and(|bytes| others.has(bytes));
            if (0..AT_ONCE).fold(false, |some, turn| some | is_there(turn)) {
                self.find_some(others, text, (place, place + GROUP), told, tell);
            }
            place += GROUP;
        }
        place
    }

    /// The same for the places in this range, one by one.
    fn find_some(
        &self,
        others: &Others,
        text: &[u8],
        (from, to): (usize, usize),
        told: &mut (usize, usize),
        tell: &mut impl FnMut(usize, usize),
    ) {
        for place in (from..to).step_by(self.stride) {
            let Some(bytes) = wide(text, place) else { return };
            if others.has(bytes) && self.may_have(bytes) {
                self.compare(text, (place, hash(bytes)), Read::Plain, told, tell);
            }
        }
    }
}
