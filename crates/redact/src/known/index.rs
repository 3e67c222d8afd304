//! Finds many texts at once, the faster the longer the shortest of them is.
//!
//! Of each text a window is chosen, where it has least in common with the others. Every few bytes ([`Index::stride`]) a few
//! bytes of the searched text are hashed and looked up in a table of bits; any occurrence has at least one such
//! place in its window. Long texts have a window every few bytes, so that a piece of one is found too.
//!
//! A small table of bits stands before the large one, and base64 and hex are read as a whole only where a few bytes of them are
//! in it ([`Index::may_hold`]): so thousands of values cost little more than one.
//!
//! Invariant: whether something is found does not depend on where the search began. So a piece counts only if it holds a
//! whole window.

use std::collections::HashMap;

use zeroize::Zeroizing;

use super::forms::Form;
use crate::bytes::{BLOCK, HEX, first_bits, members, next_row, slice, within};
use crate::find::is_run;

/// Shortest piece of a longer text that counts as found.
const PIECE: usize = 20;
/// Windows of a long text are this far from each other.
const APART: usize = 24;
/// How much further apart two of them may be.
const STEP: usize = 2;
/// A line of base64 that was broken at 64 characters holds a few more bytes than this.
const LINE: usize = 40;
/// The more, the fewer places are looked up and the more entries there are.
const MOST_STRIDE: usize = 16;
/// Most windows of one text that hold the same bytes.
const MOST_ALIKE: usize = 4;
/// More entries would not stay close to the processor.
const MOST_ENTRIES: usize = 200_000;

/// Bits of the number of bits of the coarse table: 256 KiB.
const MOST_COARSE: u32 = 21;

/// What is searched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// Text as it stands.
    Plain,
    /// What was decoded.
    Decoded,
}

struct Text {
    bytes: Zeroizing<Vec<u8>>,
    is_plain: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    /// Of the hash.
    check: u32,
    text: u32,
    /// Where the hashed bytes stand in it.
    offset: u32,
    /// Where their window begins.
    window: u32,
}

pub(super) struct Index {
    texts: Vec<Text>,
    /// Of all texts.
    shortest: usize,
    /// Bytes that are hashed: 4 or 8.
    width: usize,
    stride: usize,
    /// Whether all that stands in text as it is has only characters that runs are of: it is in runs only.
    is_of_runs: bool,
    /// Of a run of base64, where eight bytes begin that are looked up: a bit for each.
    looked_up: u64,
    /// Bits that no eight bytes of a text have: the highest of each byte, if all are ASCII. Most of what is read as base64 or
    /// hex and is none has one.
    unset: u64,
    /// Which hashes there may be, two bits for each: small, so that it stays close to the processor.
    coarse: Vec<u64>,
    coarse_shift: u32,
    /// Which hashes there are.
    filter: Vec<u64>,
    filter_shift: u32,
    /// Where the entries of a bucket begin.
    starts: Vec<u32>,
    starts_shift: u32,
    entries: Vec<Entry>,
}

fn hash(bytes: u64) -> u64 {
    (bytes ^ (bytes >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn check(hash: u64) -> u32 {
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or(0)
}

/// Two bits of a word of the coarse table stand for a hash.
const fn coarse_mask(hash: u64) -> u64 {
    1 << (hash >> 28 & 63) | 1 << (hash >> 34 & 63)
}

/// Three bits of one word stand for a hash.
const fn mask(hash: u64) -> u64 {
    1 << (hash >> 10 & 63) | 1 << (hash >> 16 & 63) | 1 << (hash >> 22 & 63)
}

fn narrow(text: &[u8], place: usize) -> Option<u64> {
    let bytes: [u8; 4] = text.get(place..place + 4)?.try_into().ok()?;
    Some(hash(u64::from(u32::from_le_bytes(bytes))))
}

fn wide(text: &[u8], place: usize) -> Option<u64> {
    let bytes: [u8; 8] = text.get(place..place + 8)?.try_into().ok()?;
    Some(hash(u64::from_le_bytes(bytes)))
}

/// Characters of base64 that hold eight bytes.
const ELEVEN: usize = 11;
/// Those and three more: wherever a group begins.
const READ: usize = ELEVEN + 3;

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

impl Index {
    pub(super) fn new(forms: impl Iterator<Item = Form>) -> Self {
        let texts: Vec<Text> = forms.map(|Form { text, is_plain }| Text { bytes: text, is_plain }).collect();
        let shortest = texts.iter().map(|text| text.bytes.len()).min().unwrap_or(super::MIN_VALUE);
        let width = if shortest >= 16 { 8 } else { 4 };
        let windows: usize = texts.iter().map(|text| (text.bytes.len() / APART).max(1)).sum();
        let most = (MOST_ENTRIES / windows.max(1)).clamp(4, MOST_STRIDE);
        let stride = (shortest + 1).saturating_sub(width).clamp(1, most);
        let plain = || texts.iter().filter(|text| text.is_plain);
        let is_of_runs = plain().all(|text| text.bytes.iter().copied().all(is_run));
        let is_ascii = texts.iter().all(|text| text.bytes.is_ascii());
        let mut index = Self {
            texts,
            shortest,
            width,
            stride,
            is_of_runs,
            looked_up: (0..BLOCK).step_by((stride / 3 * 4).max(1)).fold(0, |all, place| all | 0xf << place),
            unset: if is_ascii { 0x8080_8080_8080_8080 } else { 0 },
            coarse: Vec::new(),
            coarse_shift: 0,
            filter: Vec::new(),
            filter_shift: 0,
            starts: Vec::new(),
            starts_shift: 0,
            entries: Vec::new(),
        };
        let entries = index.chosen();
        index.fill(entries);
        index
    }

    /// Runs that are shorter hold nothing, neither as it is nor as base64.
    pub(super) fn shortest_of_runs(&self) -> usize {
        let plain = if self.is_of_runs { self.shortest.min(PIECE) } else { usize::MAX };
        plain.min(self.shortest_run())
    }

    /// Tells every occurrence in `text[from..]` as it stands there; `runs` are those of this text.
    pub(super) fn find_plain(
        &self,
        text: &[u8],
        from: usize,
        runs: &[(usize, usize)],
        tell: &mut impl FnMut(usize, usize),
    ) {
        if !self.is_of_runs {
            return self.find(text, from, Read::Plain, tell);
        }
        for (start, end) in runs {
            self.find(slice(text, 0, *end), *start, Read::Plain, tell);
        }
    }

    /// Fewest bytes that are worth decoding: the shortest text, or a line of a long one.
    pub(super) const fn shortest(&self) -> usize {
        if self.shortest < LINE { self.shortest } else { LINE }
    }

    /// Fewest characters of base64 that these alone decide.
    pub(super) const fn shortest_run(&self) -> usize {
        (self.shortest() * 8 - 4) / 6
    }

    fn hash_at(&self, text: &[u8], place: usize) -> Option<u64> {
        if self.width == 8 { wide(text, place) } else { narrow(text, place) }
    }

    /// The hashes of the windows, and where each stands.
    fn chosen(&self) -> Vec<(u64, Entry)> {
        let total: usize = self.texts.iter().map(|text| text.bytes.len()).sum();
        let bits = (2 * total).next_power_of_two().trailing_zeros().clamp(10, 24);
        let mut common = vec![0_u16; 1 << bits];
        let slot = |hash: u64| usize::try_from(hash >> (64 - bits)).unwrap_or(0);
        for text in &self.texts {
            for hash in (0..text.bytes.len()).filter_map(|place| self.hash_at(&text.bytes, place)) {
                if let Some(count) = common.get_mut(slot(hash)) {
                    *count = count.saturating_add(1);
                }
            }
        }
        let span = self.stride + self.width - 1;
        let mut entries = Vec::new();
        for (number, text) in self.texts.iter().enumerate() {
            let Ok(number) = u32::try_from(number) else { break };
            let hashes: Vec<u64> =
                (0..text.bytes.len()).filter_map(|place| self.hash_at(&text.bytes, place)).collect();
            let mut alike: HashMap<&[u8], usize> = HashMap::new();
            let mut part = 0;
            while part + span <= text.bytes.len() {
                // Text after the last whole part belongs to it.
                let is_last = part + APART + span > text.bytes.len();
                let last = if is_last { text.bytes.len() - span } else { part + APART - span.min(APART) };
                let shared = |window: usize| -> u64 {
                    let window = hashes.iter().skip(window).take(self.stride);
                    window.map(|hash| u64::from(common.get(slot(*hash)).copied().unwrap_or(0))).sum()
                };
                let Some(window) = (part..=last).min_by_key(|window| shared(*window)) else { break };
                // A line of wrapped base64 holds 48 bytes: windows of a long text stand no further apart.
                let first = Some(part).filter(|first| *first > 0 && window - first > STEP);
                part = if is_last { text.bytes.len() } else { part + APART };
                for window in first.into_iter().chain([window]) {
                    // What is there many times over is found by those before.
                    let times = alike.entry(slice(&text.bytes, window, window + span)).or_insert(0);
                    *times += 1;
                    if *times > MOST_ALIKE {
                        continue;
                    }
                    for (offset, hash) in hashes.iter().enumerate().skip(window).take(self.stride) {
                        let narrowed = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
                        entries.push((
                            *hash,
                            Entry {
                                check: check(*hash),
                                text: number,
                                offset: narrowed(offset),
                                window: narrowed(window),
                            },
                        ));
                    }
                }
            }
        }
        entries
    }

    fn fill(&mut self, mut entries: Vec<(u64, Entry)>) {
        // Sixteen bits for each entry keep chance hits rare.
        let bits = (16 * entries.len()).next_power_of_two().trailing_zeros().clamp(12, 26);
        let coarse = (bits - 1).min(MOST_COARSE);
        self.coarse_shift = 64 - (coarse - 6);
        self.coarse = vec![0; 1 << (coarse - 6)];
        self.filter_shift = 64 - (bits - 6);
        self.filter = vec![0; 1 << (bits - 6)];
        let buckets = bits - 4;
        self.starts_shift = 64 - buckets;
        entries.sort_unstable_by_key(|(hash, _)| *hash);
        for (hash, _) in &entries {
            let place = usize::try_from(hash >> self.coarse_shift).unwrap_or(0);
            if let Some(word) = self.coarse.get_mut(place) {
                *word |= coarse_mask(*hash);
            }
            let place = usize::try_from(hash >> self.filter_shift).unwrap_or(0);
            if let Some(word) = self.filter.get_mut(place) {
                *word |= mask(*hash);
            }
        }
        let mut place = 0;
        for bucket in 0..=(1_u64 << buckets) {
            while entries.get(place).is_some_and(|(hash, _)| hash >> self.starts_shift < bucket) {
                place += 1;
            }
            self.starts.push(u32::try_from(place).unwrap_or(u32::MAX));
        }
        self.entries = entries.into_iter().map(|(_, entry)| entry).collect();
    }

    /// Tells every occurrence in `text[from..]`.
    pub(super) fn find(&self, text: &[u8], from: usize, read: Read, tell: &mut impl FnMut(usize, usize)) {
        let mut told = (0, 0);
        // Two loops, so that each is a few instructions.
        if self.width == 8 {
            let mut place = from;
            while let Some(hash) = wide(text, place) {
                if self.may_have(hash) {
                    self.compare(text, (place, hash), read, &mut told, tell);
                }
                place += self.stride;
            }
        } else {
            let mut place = from;
            while let Some(hash) = narrow(text, place) {
                if self.may_have(hash) {
                    self.compare(text, (place, hash), read, &mut told, tell);
                }
                place += self.stride;
            }
        }
    }

    /// Whether a run may hold a text as base64 or hex. Reads only as much of it as is looked up, so that few runs are read
    /// as a whole.
    pub(super) fn may_hold(&self, text: &[u8], start: usize, end: usize) -> bool {
        let run = slice(text, start, end);
        self.may_hold_hex(run) || self.may_hold_base64(text, start, run)
    }

    /// Whether hex digits may hold one. What is no digit among them is none.
    pub(super) fn may_hold_hex(&self, run: &[u8]) -> bool {
        if run.len() < 2 * self.shortest() || self.width != 8 {
            return run.len() >= 2 * self.shortest();
        }
        // Where every row of digits stands that is long enough, unless the run is twice as long.
        let (first, last) = (run.len() - 2 * self.shortest(), 2 * self.shortest() - 1);
        let has_digit = |place: usize| run.get(place).is_some_and(u8::is_ascii_hexdigit);
        if first <= last && !(has_digit(first) && has_digit(last)) {
            return false;
        }
        // What is not ASCII is ruled out where it is read.
        if self.unset == 0 && next_row(run, 0, 2 * self.shortest(), &HEX, &HEX).is_none() {
            return false;
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

    fn may_hold_base64(&self, text: &[u8], start: usize, run: &[u8]) -> bool {
        if run.len() < self.shortest_run() {
            return false;
        }
        let block = slice(text, start, text.len()).first_chunk().filter(|_| run.len() <= BLOCK);
        if let Some(block) = block.filter(|_| self.unset != 0 && self.width == 8 && self.stride >= 3) {
            // The first of four characters has the highest bit of a byte, and three of eight bytes are the first of three.
            let all = first_bits(run.len());
            let low = all & members(block, |byte| within(byte, b'A', b'Z') | within(byte, b'a', b'f'));
            let may_begin = low & low >> 4 & low >> 8 & self.looked_up;
            if may_begin == 0 {
                return false;
            }
            // So has the second of four.
            let second = members(block, |byte| {
                within(byte, b'A', b'H')
                    | within(byte, b'Q', b'X')
                    | within(byte, b'g', b'n')
                    | within(byte, b'w', b'z')
                    | within(byte, b'0', b'3')
            });
            if may_begin & second >> 1 & second >> 5 & second >> 9 == 0 {
                return false;
            }
        }
        // Names and paths have one case; base64 of eight bytes has both, or digits among capitals.
        if !run.iter().fold(false, |has, byte| has | byte.is_ascii_uppercase()) {
            return false;
        }
        // Four characters are three bytes: fewer apart, and no place might be looked up.
        if self.width != 8 || self.stride < 3 || super::decode::is_twice(run) {
            return true;
        }
        (0..run.len()).step_by(self.stride / 3 * 4).any(|place| {
            let (mut bits, mut found) = (0_u64, false);
            for (offset, character) in slice(run, place, place + READ).iter().enumerate() {
                let six = u64::from(super::decode::bits(*character) & 63);
                if offset >= ELEVEN - 1 {
                    // The ten characters before, and four bits of this one.
                    found |= self.has_eight((bits << 4 | six >> 2).swap_bytes());
                }
                bits = bits << 6 | six;
            }
            found
        })
    }

    /// Whether there is an entry with the hash of these bytes.
    #[inline]
    fn has_eight(&self, bytes: u64) -> bool {
        bytes & self.unset == 0 && self.has(hash(bytes))
    }

    fn has(&self, hash: u64) -> bool {
        self.may_have(hash) && self.bucket(hash).iter().any(|entry| entry.check == check(hash))
    }

    fn bucket(&self, hash: u64) -> &[Entry] {
        let bucket = usize::try_from(hash >> self.starts_shift).unwrap_or(0);
        let (Some(first), Some(last)) = (self.starts.get(bucket), self.starts.get(bucket + 1)) else {
            return &[];
        };
        let range = usize::try_from(*first).unwrap_or(0)..usize::try_from(*last).unwrap_or(0);
        self.entries.get(range).unwrap_or_default()
    }

    #[inline]
    fn may_have(&self, hash: u64) -> bool {
        let word = usize::try_from(hash >> self.coarse_shift).ok().and_then(|word| self.coarse.get(word));
        let mask = coarse_mask(hash);
        word.is_some_and(|word| word & mask == mask) && self.is_likely(hash)
    }

    fn is_likely(&self, hash: u64) -> bool {
        let word = usize::try_from(hash >> self.filter_shift).ok().and_then(|word| self.filter.get(word));
        word.is_some_and(|word| word & mask(hash) == mask(hash))
    }

    #[cold]
    fn compare(
        &self,
        text: &[u8],
        (place, hash): (usize, u64),
        read: Read,
        told: &mut (usize, usize),
        tell: &mut impl FnMut(usize, usize),
    ) {
        for entry in self.bucket(hash) {
            let widened = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
            if entry.check != check(hash) {
                continue;
            }
            let Some(wanted) = self.texts.get(widened(entry.text)) else { continue };
            if read == Read::Plain && !wanted.is_plain {
                continue;
            }
            let (offset, window) = (widened(entry.offset), widened(entry.window));
            // All that this could tell was told: `aaaa…` is found everywhere in `aaaa…`.
            let most = (place + wanted.bytes.len() - offset).min(text.len());
            if told.0 <= place.saturating_sub(offset) && most <= told.1 {
                continue;
            }
            let after =
                same(slice(text, place, text.len()), slice(&wanted.bytes, offset, wanted.bytes.len()));
            let before = same_back(slice(text, 0, place), slice(&wanted.bytes, 0, offset));
            let is_whole = before == offset && after == wanted.bytes.len() - offset;
            let holds = offset - before <= window && offset + after >= window + self.stride + self.width - 1;
            if is_whole || (holds && before + after >= PIECE) {
                let (start, end) = (place - before, place + after);
                tell(start, end);
                let touches = start <= told.1 && told.0 <= end;
                *told = if touches { (told.0.min(start), told.1.max(end)) } else { (start, end) };
            }
        }
    }
}

/// How many bytes are the same from the front.
fn same(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.chunks_exact(BLOCK).zip(b.chunks_exact(BLOCK)).take_while(|(a, b)| a == b).count();
    let done = blocks * BLOCK;
    let (a, b) = (slice(a, done, a.len()), slice(b, done, b.len()));
    done + a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// How many bytes are the same from the back.
fn same_back(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.rchunks_exact(BLOCK).zip(b.rchunks_exact(BLOCK)).take_while(|(a, b)| a == b).count();
    let done = blocks * BLOCK;
    let (a, b) = (slice(a, 0, a.len() - done), slice(b, 0, b.len() - done));
    done + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}
