//! What a run of characters looks like: how many there are of each kind, and how they follow each other.
//!
//! Most runs fit in a block: the characters of a kind are then the bits of a word, and all are looked at together.

use std::sync::LazyLock;

use super::random::MOST;
use crate::bytes::{BLOCK, before, first_bits, has_member, members, padded, slice};

/// How many characters of each kind a run has.
pub(super) struct Kinds {
    pub(super) small: usize,
    pub(super) capitals: usize,
    pub(super) digits: usize,
    pub(super) others: usize,
    /// Where they stand, if the run fits.
    marks: Option<Marks>,
}

/// A bit for each character of a kind, the first one lowest.
#[derive(Clone, Copy)]
struct Marks {
    small: u64,
    capitals: u64,
    digits: u64,
    others: u64,
}

impl Marks {
    fn of(run: &[u8]) -> Option<Self> {
        (run.len() <= BLOCK).then(|| Self::within(&padded(run), first_bits(run.len())))
    }

    /// Of the bytes of a block that `all` has a bit for.
    fn within(block: &[u8; BLOCK], all: u64) -> Self {
        let small = members(block, |b| b.is_ascii_lowercase()) & all;
        let capitals = members(block, |b| b.is_ascii_uppercase()) & all;
        let digits = members(block, |b| b.is_ascii_digit()) & all;
        Self { small, capitals, digits, others: all & !(small | capitals | digits) }
    }

    fn look(&self) -> Look {
        // What is neither letter nor digit changes nothing: the kind before it goes on.
        let (mut small, mut capitals, mut digits) = (self.small, self.capitals, self.digits);
        let mut left = self.others;
        while left != 0 {
            let next = left & left.wrapping_neg();
            small |= small << 1 & next;
            capitals |= capitals << 1 & next;
            digits |= digits << 1 & next;
            left &= left - 1;
        }
        let follows = (small | capitals | digits) << 1 & !self.others;
        let same = small << 1 & self.small | capitals << 1 & self.capitals | digits << 1 & self.digits;
        // Only what stands in the run.
        let changes = follows & (self.small | self.capitals | self.digits) & !same;
        let four = self.small & self.small >> 1 & self.small >> 2 & self.small >> 3;
        let spoken = four | four << 1 | four << 2 | four << 3;
        // A capital and at least two small letters; a sum carries through all of them.
        let words = self.small & self.capitals << 1 & self.small >> 1;
        let titled = self.small & !self.small.wrapping_add(words);
        let count = |bits: u64| bits.count_ones() as usize;
        Look { changes: count(changes), spoken: count(spoken), titled: count(titled) + count(words) }
    }
}

/// A run that may be a key.
pub(super) struct Candidate {
    /// Where its characters stand, if that was looked at.
    marks: Option<Marks>,
    /// Whether it may have a percent sign.
    pub(super) may_be_parted: bool,
}

impl Candidate {
    /// The run at this place, if it has a digit; and a capital, or nothing beside small letters and digits, or what stands for
    /// something else. Most runs are names and paths, and are not looked at any further.
    pub(super) fn at(text: &[u8], start: usize, end: usize) -> Option<Self> {
        let Some(block) = slice(text, start, text.len()).first_chunk().filter(|_| end - start <= BLOCK)
        else {
            let has_digit =
                slice(text, start, end).iter().fold(false, |has, byte| has | byte.is_ascii_digit());
            return has_digit.then_some(Self { marks: None, may_be_parted: true });
        };
        let length = end - start;
        if !has_member(block, length, |byte| byte.is_ascii_digit()) {
            return None;
        }
        let marks = Marks::within(block, first_bits(length));
        let may_be_parted = marks.others != 0 && has_member(block, length, |byte| byte == b'%');
        let may_be_key =
            marks.capitals != 0 || marks.others == 0 || may_be_parted || before(text, start) == Some(b'\\');
        may_be_key.then_some(Self { marks: Some(marks), may_be_parted })
    }

    /// The kinds of characters that stand in this part of it, which goes to its end.
    pub(super) fn kinds(&self, text: &[u8], (start, end): (usize, usize), is_whole: bool) -> Kinds {
        match self.marks.filter(|_| is_whole) {
            Some(marks) => Kinds::with(slice(text, start, end), Some(marks)),
            None => Kinds::at(text, start, end),
        }
    }
}

impl Kinds {
    /// Of a run of no more than [`MOST`].
    pub(super) fn of(run: &[u8]) -> Self {
        Self::with(run, Marks::of(run))
    }

    /// Of the run at this place, which is not copied for it.
    pub(super) fn at(text: &[u8], start: usize, end: usize) -> Self {
        let run = slice(text, start, end);
        match slice(text, start, text.len()).first_chunk() {
            Some(block) if run.len() <= BLOCK => {
                Self::with(run, Some(Marks::within(block, first_bits(run.len()))))
            }
            _ => Self::of(run),
        }
    }

    fn with(run: &[u8], marks: Option<Marks>) -> Self {
        let (small, capitals, digits) = if let Some(marks) = &marks {
            let count = |bits: u64| bits.count_ones() as usize;
            (count(marks.small), count(marks.capitals), count(marks.digits))
        } else {
            run.chunks(BLOCK).filter_map(Marks::of).fold((0, 0, 0), |(small, capitals, digits), marks| {
                let count = |bits: u64| bits.count_ones() as usize;
                (small + count(marks.small), capitals + count(marks.capitals), digits + count(marks.digits))
            })
        };
        Self { small, capitals, digits, others: run.len() - small - capitals - digits, marks }
    }

    /// Mostly words: names, paths, sentences with hyphens. The cheap test for what most long runs are.
    pub(super) const fn is_spoken(&self, length: usize) -> bool {
        self.digits == 0 || (self.capitals == 0 && (length < 32 || self.others > 0))
    }

    pub(super) fn look(&self, run: &[u8]) -> Look {
        self.marks.map_or_else(|| long(run), |marks| marks.look())
    }
}

/// How the characters of a run follow each other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// Steps from one kind of character to another.
    pub(super) changes: usize,
    /// Small letters that stand in fours or more.
    pub(super) spoken: usize,
    /// Letters of words that begin with a capital.
    pub(super) titled: usize,
}

/// The same for a run that fits no block.
fn long(run: &[u8]) -> Look {
    let mut look = Look { changes: 0, spoken: 0, titled: 0 };
    let (mut kind, mut word, mut is_title) = (0_u8, 0_usize, false);
    for byte in run {
        let now = match byte {
            b'a'..=b'z' => 1,
            b'A'..=b'Z' => 2,
            b'0'..=b'9' => 3,
            _ => 0,
        };
        word = if now == 1 { word + 1 } else { 0 };
        look.spoken += match word {
            4 => 4,
            5.. => 1,
            _ => 0,
        };
        // Three letters make a word: `Aes`.
        look.titled += match word {
            2 if is_title => 3,
            3.. if is_title => 1,
            _ => 0,
        };
        is_title = now == 2 || (now == 1 && is_title);
        if now != 0 {
            look.changes += usize::from(kind != 0 && kind != now);
            kind = now;
        }
    }
    look
}

/// How often each character is there.
pub(super) fn counts(run: &[u8]) -> [u16; 128] {
    let mut counts = [0_u16; 128];
    for byte in run {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count = count.saturating_add(1);
        }
    }
    counts
}

/// How much more one more of a character weighs, by how many there are: a count weighs itself times its logarithm. Made once:
/// most text has nothing that comes so far.
static MORE: LazyLock<[f32; MOST]> = LazyLock::new(|| {
    let weight = |count: u16| f32::from(count) * f32::from(count).log2();
    let mut more = [0.0; MOST];
    for (more, count) in more.iter_mut().zip(1_u16..).skip(1) {
        *more = weight(count) - weight(count - 1);
    }
    more
});

/// Entropy against the most that a run of this length can have.
pub(super) fn is_varied(run: &[u8]) -> bool {
    let mut counts = [0_u8; 128];
    let mut weight = 0.0;
    for byte in run {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            weight += MORE.get(usize::from(*count)).copied().unwrap_or(0.0);
            *count = count.saturating_add(1);
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "at most 256")]
    let length = run.len() as f32;
    let entropy = length.log2() - weight / length;
    entropy >= 0.78 * length.min(64.0).log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_looks_the_same_in_a_block_and_one_by_one() {
        let mut state = 7_u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        for _ in 0..20_000 {
            let length = 1 + next(BLOCK);
            let letters: &[u8] = [&b"aB3_"[..], b"abcdeXY0-", b"Aab", b"-_/A1b"][next(4)];
            let run: Vec<u8> = (0..length).map(|_| letters[next(letters.len())]).collect();
            let kinds = Kinds::of(&run);
            assert!(kinds.marks.is_some());
            assert_eq!(kinds.look(&run), long(&run), "{}", run.escape_ascii());
            assert_eq!(kinds.small + kinds.capitals + kinds.digits + kinds.others, length);
        }
        assert!(Kinds::of(&[b'a'; BLOCK + 1]).marks.is_none());
    }
}
