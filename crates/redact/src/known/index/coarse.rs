//! Small tables of bits that stand before all else: most text is ruled out by them.

use crate::bytes::BLOCK;

/// Bits for each that is held, about.
const EACH: usize = 8;
/// Fewest and most bits, as powers of two: 512 bytes and 256 KiB, which stays close to the processor.
const LEAST: u32 = 12;
const MOST: u32 = 21;

/// Which hashes may be there.
#[derive(Default)]
pub(super) struct Coarse {
    words: Vec<u64>,
    shift: u32,
}

/// Three bits of a word stand for a hash: with two, one of forty that are not there would be looked up further, where it is far
/// from the processor.
const fn mask(hash: u64) -> u64 {
    1 << (hash >> 28 & 63) | 1 << (hash >> 34 & 63) | 1 << (hash >> 40 & 63)
}

impl Coarse {
    /// Of these hashes.
    pub(super) fn of(hashes: impl Iterator<Item = u64> + Clone) -> Self {
        let bits = (EACH * hashes.clone().count()).next_power_of_two().trailing_zeros().clamp(LEAST, MOST);
        let mut table = Self { words: vec![0; 1 << (bits - 6)], shift: u64::BITS - (bits - 6) };
        for hash in hashes {
            let place = table.place(hash);
            if let Some(word) = table.words.get_mut(place) {
                *word |= mask(hash);
            }
        }
        table
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        usize::try_from(hash >> (self.shift & 63)).unwrap_or(usize::MAX)
    }

    /// Whether this hash may be there.
    #[inline]
    pub(super) fn has(&self, hash: u64) -> bool {
        let mask = mask(hash);
        self.words.get(self.place(hash)).is_some_and(|word| word & mask == mask)
    }
}

/// Bytes of a part of a window.
pub(super) const FOUR: usize = 4;
/// How far those are apart that [`Parts::has_some`] looks at, and how long a run may be that they are enough for: what stands
/// in it has sixteen bytes.
pub(super) const FAR: usize = 12;
pub(super) const SHORT: usize = 4 * FAR + FOUR;

/// Which parts of windows may be there: 8 KiB.
#[derive(Default)]
pub(super) struct Parts {
    words: Vec<u64>,
    is_empty: bool,
}

impl Parts {
    /// Of all within these windows.
    pub(super) fn of<'a>(windows: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut words, mut is_empty) = (vec![0; 1 << 10], true);
        for part in windows.flat_map(|window| window.array_windows()) {
            is_empty = false;
            let (word, bit) = Self::place(*part);
            if let Some(word) = words.get_mut(word) {
                *word |= 1 << bit;
            }
        }
        Self { words, is_empty }
    }

    /// Whether there is none.
    pub(super) const fn is_empty(&self) -> bool {
        self.is_empty
    }

    #[inline]
    fn place(part: [u8; FOUR]) -> (usize, u32) {
        let hash = u32::from_le_bytes(part).wrapping_mul(0x9e37_79b1) >> 16;
        (usize::try_from(hash >> 6).unwrap_or(0), hash & 63)
    }

    /// Whether this may be there.
    #[inline]
    pub(super) fn has(&self, part: [u8; FOUR]) -> bool {
        let (word, bit) = Self::place(part);
        self.words.get(word).is_some_and(|word| word >> bit & 1 != 0)
    }

    /// Whether one of a few at the beginning may be there.
    #[inline]
    pub(super) fn has_some(&self, block: &[u8; BLOCK]) -> bool {
        let (parts, _) = block.as_chunks::<FOUR>();
        parts.iter().step_by(FAR / FOUR).take(SHORT / FAR).fold(false, |some, part| some | self.has(*part))
    }
}
