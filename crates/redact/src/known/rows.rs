//! Rows of hex digits, also with something between them: `68756e74`, `68:75:6e`, `6875 6e74`.
//!
//! Eight bytes here and there tell that there is none: most text has other letters. Where values are ASCII, every other digit
//! of theirs is below eight, so that no two letters stand side by side; most hex that is no value has such.

use crate::bytes::{BLOCK, ByteSet, HEX, followed, members, slice, within};

/// Bytes that are looked at together.
const SAMPLE: usize = 8;
/// How far these are apart, where values have sixteen bytes and more, and where they have eight.
const FAR: usize = 24;
const NEAR: usize = 8;
/// How many of these are ruled out together.
const AT_ONCE: usize = 16;
/// How many before these are looked at next, and as many behind them.
const BEFORE: usize = (BLOCK - SAMPLE) / 2;

/// Hex digits and what may stand between them.
static PAIRED: ByteSet = ByteSet::of(b"0123456789abcdefABCDEF :-");

/// What rows are looked for.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// Fewest characters of a row.
    least: usize,
    /// Fewest characters of a value or of a piece that counts.
    piece: usize,
    /// All bits, if all values are ASCII.
    if_ascii: u64,
    /// All bits, if they also have nothing that controls a terminal.
    if_printed: u64,
}

const fn each(bits: u8) -> u64 {
    u64::from_le_bytes([bits; SAMPLE])
}

/// Bits of letters from `h` on: they have one of two bits that those before have not.
#[inline]
const fn letters(sample: u64) -> u64 {
    sample & (sample << 2 | sample << 3) & each(0x40)
}

/// Bits of letters that are no digits, of quotes, stops and the like, and of what is not ASCII.
#[inline]
const fn others(sample: u64) -> u64 {
    let letters = letters(sample);
    // Of what is neither letter nor digit, blanks and hyphens do not have this one.
    let signs = sample << 5 & !(sample | sample << 2);
    (letters | signs) & each(0x40) | sample & each(0x80)
}

/// Whether a sample has digits and no other letters. Digits have one of these bits, and most that stands between them has
/// none: so lines that are set in are no rows.
#[inline]
const fn may_begin(sample: u64) -> bool {
    (others(sample) == 0) & (sample & each(0x50) != 0)
}

/// The highest bit but one of letters, `8` and `9`, and not of a colon.
const fn high(sample: u64) -> u64 {
    (sample | sample << 2 & sample << 3 & !(sample << 5)) & each(0x40)
}

/// The same of letters, `0`, `1`, `8` and `9`: of all digits but those from `2` to `7`.
#[inline]
const fn bad(sample: u64) -> u64 {
    // Of these digits `8` and `9` have a bit, the others have not what `4` to `7` have, and all lack what `2`, `3` and a colon have.
    let outside = sample << 2 & !(sample << 5) & (sample << 3 | !(sample << 4));
    (sample | outside) & each(0x40)
}

impl Rows {
    /// Of values of which `shortest` bytes are read and `piece` bytes count, and between which bytes all of them are.
    pub(super) fn of(shortest: usize, piece: usize, (first, last): (u8, u8)) -> Self {
        let all_if = |is: bool| if is { u64::MAX } else { 0 };
        Self {
            least: 2 * shortest,
            piece: 2 * piece.min(shortest),
            if_ascii: all_if(last < 0x80),
            if_printed: all_if(last < 0x80 && first >= 0x20),
        }
    }

    /// Whether these may all be hex digits or what stands between such, and of a value.
    #[inline]
    const fn may_be_paired(self, sample: u64) -> bool {
        let high = high(sample);
        others(sample) | (high & high >> 8 & self.if_ascii) == 0
    }

    /// Whether digits that may be of a value may be so side by side: of printed text, one of two is from `2` to `7`, which
    /// the first one of a byte is. Dates and most digests have others.
    #[inline]
    const fn may_be_printed(self, sample: u64) -> bool {
        let bad = bad(sample);
        bad & bad >> 8 & self.if_printed == 0
    }

    /// Whether these may all be hex digits.
    #[inline]
    const fn may_be_digits(self, sample: u64) -> bool {
        // All but letters and digits have none of these.
        (sample | sample << 2) & each(0x40) == each(0x40) && self.may_be_paired(sample)
    }

    /// How far samples are apart: all that counts holds one.
    const fn step(self) -> usize {
        if self.piece >= FAR + SAMPLE - 1 { FAR } else { NEAR }
    }

    /// Whether a run may have a row of digits alone.
    #[inline]
    pub(super) fn may_be_in(self, run: &[u8]) -> bool {
        if run.len() < self.least {
            return false;
        }
        let mut place = self.step() - 1;
        while let Some(sample) = run.get(place..).and_then(|rest| rest.first_chunk()) {
            if self.may_be_digits(u64::from_le_bytes(*sample)) {
                return true;
            }
            place += self.step();
        }
        false
    }

    /// The next row in `text[from..]`, where none reaches in from before.
    pub(super) fn next(self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        let (mut done, mut place) = (from, from);
        while let Some(sampled) = self.sampled(text, place) {
            let lead = slice(text, done, sampled).iter().rev().take_while(|byte| PAIRED.has(**byte)).count();
            let end = PAIRED.run(text, sampled);
            if let Some(row) = self.row(text, sampled - lead, end) {
                return Some(row);
            }
            // All that counts holds the whole of a sample.
            (done, place) = (end, if end < sampled + SAMPLE { sampled + self.step() } else { end });
        }
        None
    }

    /// The next sample from `from` on that may be in a row.
    fn sampled(self, text: &[u8], from: usize) -> Option<usize> {
        if self.step() == FAR { self.first::<FAR>(text, from) } else { self.first::<NEAR>(text, from) }
    }

    /// The first sample that may be in a row, of those so far apart. Numbers that the compiler knows make the loop short.
    #[inline]
    fn first<const APART: usize>(self, text: &[u8], from: usize) -> Option<usize> {
        let sample = |part: &[u8]| part.first_chunk().map_or(u64::MAX, |sample| u64::from_le_bytes(*sample));
        let (parts, rest) = slice(text, from, text.len()).as_chunks::<APART>();
        let (groups, few) = parts.as_chunks::<AT_ONCE>();
        let mut place = from;
        for group in groups {
            let mut here = Self::not_ruled_out(group);
            while here != 0 {
                let sampled = place + here.trailing_zeros() as usize * APART;
                if self.may_be_here(sample(text.get(sampled..).unwrap_or_default()))
                    && self.may_be_around(text, sampled)
                {
                    return Some(sampled);
                }
                here &= here - 1;
            }
            place += AT_ONCE * APART;
        }
        for part in few.iter().map(<[u8; APART]>::as_slice).chain([rest]) {
            if self.may_be_here(sample(part)) && self.may_be_around(text, place) {
                return Some(place);
            }
            place += APART;
        }
        None
    }

    #[inline]
    const fn may_be_here(self, sample: u64) -> bool {
        // Without a way out, as the processor cannot guess what digits there are.
        may_begin(sample) & self.may_be_paired(sample) & self.may_be_printed(sample)
    }

    /// Which of some samples have no letters from `h` on, as most have: a bit for each. All of them together, as the processor
    /// compares many at once and cannot guess which of them is one.
    #[inline]
    fn not_ruled_out<const APART: usize>(group: &[[u8; APART]; AT_ONCE]) -> u32 {
        let mut ruled_out = [0; AT_ONCE];
        for (slot, part) in ruled_out.iter_mut().zip(group) {
            *slot = letters(part.first_chunk().map_or(u64::MAX, |sample| u64::from_le_bytes(*sample)));
        }
        ruled_out.iter().rev().fold(0, |bits, ruled_out| bits << 1 | u32::from(*ruled_out == 0))
    }

    /// Whether enough around the sample here may be a row.
    #[cold]
    fn may_be_around(self, text: &[u8], place: usize) -> bool {
        let sample = |from: usize| text.get(from..).and_then(|rest| rest.first_chunk()).copied();
        if !slice(text, place, place + SAMPLE).iter().fold(true, |are, byte| are & PAIRED.has(*byte)) {
            return false;
        }
        let may_be = |sample| {
            let sample = u64::from_le_bytes(sample);
            self.may_be_paired(sample) && self.may_be_printed(sample)
        };
        // What is long has as many before it or behind it.
        if self.step() == FAR
            && !sample(place + SAMPLE).is_some_and(may_be)
            && !place.checked_sub(SAMPLE).and_then(sample).is_some_and(may_be)
        {
            return false;
        }
        let around = text.get(place.saturating_sub(BEFORE)..).and_then(|rest| rest.first_chunk());
        around.is_none_or(|around: &[u8; BLOCK]| {
            let high = members(around, |byte| within(byte, b'8', b'9') | within(byte | 0x20, b'a', b'f'))
                & self.if_ascii;
            // A colon follows the digits.
            let paired = members(around, |byte| {
                within(byte, b'0', b':') | within(byte | 0x20, b'a', b'f') | (byte == b' ') | (byte == b'-')
            });
            // The first of them may stand behind another.
            let length = self.piece.min(BEFORE + SAMPLE) - 1;
            followed(paired & !(high & high << 1), 0, length) != 0
        })
    }

    /// A row without what stands around its digits, if they are enough.
    fn row(self, text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
        if end - start < self.least {
            return None;
        }
        let is_between = |byte: &&u8| !HEX.has(**byte);
        let start = start + slice(text, start, end).iter().take_while(is_between).count();
        let end = end - slice(text, start, end).iter().rev().take_while(is_between).count();
        let (mut digits, mut stretch, mut longest, mut was_high) = (0, 0, 0, false);
        for byte in slice(text, start, end) {
            let is_digit = HEX.has(*byte);
            let is_high = is_digit && *byte >= b'8';
            digits += usize::from(is_digit);
            stretch = if self.if_ascii != 0 && is_high && was_high { 1 } else { stretch + 1 };
            longest = longest.max(stretch);
            was_high = is_high;
        }
        (digits >= self.least && longest >= self.piece).then_some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_that_may_hold_a_value() {
        let mut state = 5_u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        for round in 0..6_000 {
            let range = [(0x20, 0x7f), (0, 0x7f), (0, 0xff)][round % 3];
            let rows = Rows::of(8 + next(16), 20, range);
            let lead: Vec<u8> = (0..next(120)).map(|_| b"ghij .,ab01-"[next(12)]).collect();
            let tail: Vec<u8> = (0..next(120)).map(|_| b"ghij .,ab01-"[next(12)]).collect();
            let size = rows.least / 2 + next(20);
            let (first, last) = (usize::from(range.0), usize::from(range.1));
            let value: Vec<u8> =
                (0..size).map(|_| u8::try_from(first + next(last + 1 - first)).unwrap()).collect();
            let digits = hex::encode(&value);
            let groups: Vec<&str> = digits
                .as_bytes()
                .chunks(2 + next(7))
                .map(|part| std::str::from_utf8(part).unwrap())
                .collect();
            let text = [&lead[..], groups.join(["-", " ", ":"][next(3)]).as_bytes(), &tail[..]].concat();
            let mut found = std::iter::successors(rows.next(&text, 0), |(_, end)| rows.next(&text, *end));
            let (first, last) = (lead.len(), text.len() - tail.len());
            assert!(
                found.any(|(start, end)| start <= first && last <= end),
                "{} in {}",
                text[first..last].escape_ascii(),
                text.escape_ascii()
            );
            let lead = next(70);
            let run = [&b"x"[..].repeat(lead), digits.as_bytes(), &b"y"[..].repeat(next(70))].concat();
            assert!(rows.may_be_in(&run), "{}", run.escape_ascii());
            let found = rows.next(&run, 0);
            assert_eq!(found, Some((lead, lead + digits.len())), "{}", run.escape_ascii());
        }
    }

    #[test]
    fn text_and_digests_are_no_rows() {
        let rows = Rows::of(16, 20, (0x20, 0x7f));
        for text in [
            "the quick brown fox jumps over the lazy dog and runs away",
            "                                                        a",
            "9e2192c2-863c-7646-9dfa-8fa642861bd3",
            "68756e7432326875 6e743232",
        ] {
            assert_eq!(rows.next(text.as_bytes(), 0), None, "{text}");
        }
    }
}
