//! Which runs of characters may hold a value, as it is or as base64.
//!
//! Flow: many runs -> those that a few bytes of do not rule out (a bit for each) -> those that hold a few bytes of a value
//! -> all of it is read ([`decode`]).
//!
//! Invariant: no run is left out that holds a value, or a piece of one that counts.

use super::coarse::{FAR, FOUR, SHORT};
use super::{AT_ONCE, Index, Read, hash};
use crate::bytes::{BLOCK, first_bits, has_member, members, padded, slice, within};
use crate::known::decode::{self, Room};

/// Characters of base64 that hold eight bytes.
const ELEVEN: usize = 11;
/// Those and three more: wherever a group begins.
const READ: usize = ELEVEN + 3;

/// A run that is longer likely has a few bytes that are hit by chance.
const LONG: usize = 2 * BLOCK;

/// Of a run of base64, where eight bytes begin that are looked up where values are looked up so far apart: a bit for each.
pub(super) fn looked_up(stride: usize) -> u64 {
    (0..BLOCK - READ).step_by(apart(stride)).fold(0, |all, place| all | 0xf << place)
}

/// How many characters of a run of base64 are looked at together: so many that the places of the next block go on with those of
/// this one.
pub(super) const fn looked_at(stride: usize) -> usize {
    (BLOCK - READ) / apart(stride) * apart(stride)
}

/// How many characters of base64 these are apart.
const fn apart(stride: usize) -> usize {
    if stride < 3 { 4 } else { stride / 3 * 4 }
}

/// Whether one of so many first characters is a capital.
#[inline]
fn has_capital(text: &[u8], length: usize) -> bool {
    let is_capital = |byte| within(byte, b'A', b'Z');
    match text.first_chunk() {
        Some(block) if length <= BLOCK => has_member(block, length, is_capital),
        _ => slice(text, 0, length).iter().fold(false, |has, byte| has | is_capital(*byte)),
    }
}

/// The eight bytes that eleven characters of base64 begin with.
fn eight_of_base64(characters: &[u8]) -> u64 {
    let bits = |character: &u8| u64::from(decode::bits(*character) & 63);
    let (last, ten) = characters.split_last().unwrap_or((&0, &[]));
    // Ten characters, and four bits of the last.
    let all = ten.iter().fold(0, |all, character| all << 6 | bits(character));
    (all << 4 | bits(last) >> 2).swap_bytes()
}

/// The eight bytes that sixteen hex digits are. What is no digit gives another number.
fn of_hex(digits: &[u8; 16]) -> u64 {
    let (halves, _) = digits.as_chunks();
    halves.iter().rev().fold(0, |number, half| {
        let digits = u64::from_le_bytes(*half);
        let values = (digits & 0x0f0f_0f0f_0f0f_0f0f) + 9 * (digits >> 6 & 0x0101_0101_0101_0101);
        let pairs = (values << 4 | values >> 8) & 0x00ff_00ff_00ff_00ff;
        let fours = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
        number << 32 | (fours | fours >> 16) & 0xffff_ffff
    })
}

/// Whether every other of these is one of the first eight digits: it begins a byte that is ASCII.
fn is_low(digits: &[u8; 16]) -> bool {
    let digits = u128::from_le_bytes(*digits);
    digits & 0x00f8_00f8_00f8_00f8_00f8_00f8_00f8_00f8 == 0x0030_0030_0030_0030_0030_0030_0030_0030
}

/// Whether some of the bytes that stand so far apart are of a kind; maybe the last ones too.
#[inline]
fn some<const N: usize>(run: &[u8], apart: usize, is: impl Fn(&[u8; N]) -> bool) -> bool {
    let Some(last) = run.len().checked_sub(N) else { return false };
    let (mut some, mut place) = (false, 0);
    while place <= last {
        // A few at once, as the processor cannot guess how many there are.
        for turn in 0..AT_ONCE {
            let bytes = run.get((place + turn * apart).min(last)..).and_then(|rest| rest.first_chunk());
            some |= bytes.is_some_and(&is);
        }
        place += AT_ONCE * apart;
    }
    some
}

/// Which of at most [`BLOCK`] runs have a capital: a bit for each.
fn capitals(text: &[u8], runs: &[(usize, usize)]) -> u64 {
    runs.iter().enumerate().fold(0, |capitals, (turn, (start, end))| {
        capitals | u64::from(has_capital(slice(text, *start, text.len()), end - start)) << turn
    })
}

/// Which of those that a bit is set for are of a kind: a bit for each.
#[inline]
fn marked<T>(all: &[T], mut bits: u64, is: impl Fn(&T) -> bool) -> u64 {
    let mut marked = 0;
    while bits != 0 {
        let next = bits.trailing_zeros();
        let Some(one) = all.get(next as usize) else { break };
        marked |= u64::from(is(one)) << next;
        bits &= bits - 1;
    }
    marked
}

/// Those that a bit is set for.
fn chosen<T>(all: &[T], mut bits: u64) -> impl Iterator<Item = &T> {
    std::iter::from_fn(move || {
        let next = (bits != 0).then_some(bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        next.and_then(|next| all.get(next))
    })
}

impl Index {
    /// Tells every occurrence in `text[from..]` as it stands there, and in the runs of this text as base64.
    pub(in crate::known) fn find_all(
        &self,
        text: &[u8],
        from: usize,
        runs: &[(usize, usize)],
        room: &mut Room,
        tell: &mut impl FnMut(usize, usize),
    ) {
        match &self.others {
            Some(others) => self.find_others(others, text, from, tell),
            None if !self.is_of_runs => self.find(text, from, Read::Plain, tell),
            None => {}
        }
        for runs in runs.chunks(BLOCK) {
            let of = |bits| chosen(runs, bits).map(|(start, end)| (*start, *end));
            let capital = capitals(text, runs);
            for (start, end) in of(self.may_be_plain(text, runs, capital)) {
                self.find(slice(text, 0, end), start, Read::Plain, tell);
            }
            let base64 = if self.has_capitals { capital } else { u64::MAX };
            let base64 = marked(runs, base64, |(start, end)| self.has_base64(text, *start, *end));
            for (start, end) in of(base64) {
                decode::find_base64(self, text, start, end, room, tell);
            }
        }
    }

    /// Which runs may hold a text as it is: a bit for each. `capital` are those that have a capital.
    fn may_be_plain(&self, text: &[u8], runs: &[(usize, usize)], capital: u64) -> u64 {
        if !self.is_in_runs() || self.width != 8 {
            return if self.is_in_runs() { u64::MAX } else { 0 };
        }
        // Those of a kind together, and without a way out, as the processor cannot guess which of them it is.
        let has = |bytes: &[u8; 8]| self.coarse.has(hash(u64::from_le_bytes(*bytes)));
        let large = marked(runs, capital, |(start, end)| {
            // What is long is looked up once, by the search itself.
            end - start > LONG || some(slice(text, *start, *end), self.stride, has)
        });
        if self.small.is_empty() {
            return large;
        }
        // One in every window.
        let apart = self.stride + self.width - FOUR;
        large
            | marked(runs, !capital, |(start, end)| match slice(text, *start, text.len()).first_chunk() {
                Some(block) if apart > FAR && end - start <= SHORT => self.small.has_some(block),
                _ => some(slice(text, *start, *end), apart, |part| self.small.has(*part)),
            })
    }

    /// Whether a run may hold a text as base64 or hex. Reads only as much of it as is looked up, so that few runs are read
    /// as a whole.
    pub(in crate::known) fn may_hold(&self, text: &[u8], start: usize, end: usize) -> bool {
        let has_capital = || !self.has_capitals || has_capital(slice(text, start, text.len()), end - start);
        self.may_hold_hex(slice(text, start, end)) || has_capital() && self.has_base64(text, start, end)
    }

    /// Whether hex digits may hold one. What is no digit among them is none.
    pub(in crate::known) fn may_hold_hex(&self, run: &[u8]) -> bool {
        self.rows.may_be_in(run) && self.has_hex(run)
    }

    fn has_hex(&self, run: &[u8]) -> bool {
        if self.width != 8 {
            return true;
        }
        let is_there = |place: usize| {
            let digits = slice(run, place, run.len()).first_chunk();
            let digits = digits.filter(|digits| self.unset == 0 || is_low(digits));
            let digits = digits.filter(|digits| digits.first().is_some_and(u8::is_ascii_hexdigit));
            let digits = digits.filter(|digits| digits.last().is_some_and(u8::is_ascii_hexdigit));
            digits.is_some_and(|digits| self.has_eight(of_hex(digits)))
        };
        // Either half of a byte may stand first.
        (0..run.len()).step_by(2 * self.stride).any(|place| is_there(place) || is_there(place + 1))
    }

    /// Of a run that may be base64, mostly one with a capital, as names and paths have one case.
    fn has_base64(&self, text: &[u8], start: usize, end: usize) -> bool {
        let run = slice(text, start, end);
        // Four characters are three bytes: fewer apart, and no place might be looked up.
        if run.len() < self.shortest_run || self.width != 8 || self.stride < 3 {
            return run.len() >= self.shortest_run;
        }
        let (mut from, mut is_read) = (0, false);
        while from + ELEVEN <= run.len() {
            let rest = slice(run, from, run.len());
            let block = slice(text, start + from, text.len()).first_chunk();
            let mut left = match block {
                Some(block) => self.eights(block, rest.len()),
                None => self.eights(&padded(rest), rest.len()),
            };
            // Most runs have none.
            if left != 0 && !std::mem::replace(&mut is_read, true) && decode::is_twice(run) {
                return true;
            }
            while left != 0 {
                let place = left.trailing_zeros() as usize;
                left &= left - 1;
                if self.has_eight(eight_of_base64(slice(rest, place, place + ELEVEN))) {
                    return true;
                }
            }
            from += self.looked_at;
        }
        false
    }

    /// Where in a block, of which so many characters are of a run of base64, eight bytes may begin that are looked up: a bit
    /// for each.
    fn eights(&self, block: &[u8; BLOCK], length: usize) -> u64 {
        let all = self.looked_up & first_bits(length - (ELEVEN - 1));
        if self.unset == 0 {
            return all;
        }
        // The first of four characters has the highest bits of a byte, and three of eight bytes are the first of three. What
        // is printed has one of the two after the highest.
        let first = if self.is_printed {
            members(block, |byte| within(byte, b'I', b'Z') | within(byte, b'a', b'f'))
        } else {
            members(block, |byte| within(byte, b'A', b'Z') | within(byte, b'a', b'f'))
        };
        let may_begin = all & first & first >> 4 & first >> 8;
        if may_begin == 0 {
            return 0;
        }
        // So has the second of four.
        let second = if self.is_printed {
            members(block, |byte| {
                within(byte, b'C', b'H')
                    | within(byte, b'S', b'X')
                    | within(byte, b'i', b'n')
                    | within(byte, b'y', b'z')
                    | within(byte, b'0', b'3')
            })
        } else {
            members(block, |byte| {
                within(byte, b'A', b'H')
                    | within(byte, b'Q', b'X')
                    | within(byte, b'g', b'n')
                    | within(byte, b'w', b'z')
                    | within(byte, b'0', b'3')
            })
        };
        may_begin & second >> 1 & second >> 5 & second >> 9
    }
}
