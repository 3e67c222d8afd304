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

mod coarse;
mod others;
mod runs;

use std::collections::HashMap;

use coarse::{Coarse, Parts};
use others::Others;
use zeroize::Zeroizing;

use super::decode;
use super::forms::Form;
use super::rows::Rows;
use crate::bytes::{BLOCK, slice};
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
/// Places that are looked up together.
const AT_ONCE: usize = 4;
/// More entries would not stay close to the processor.
const MOST_ENTRIES: usize = 200_000;

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
    /// Whether it has only characters that runs are of.
    is_of_runs: bool,
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
    shortest_run: usize,
    rows: Rows,
    /// Bytes that are hashed: 4 or 8.
    width: usize,
    stride: usize,
    /// Whether all that stands in text as it is has only characters that runs are of: it is in runs only.
    is_of_runs: bool,
    /// Where a text as it is may stand that has other characters too, if those are few enough to be looked for apart.
    others: Option<Others>,
    /// Whether base64 of every text has a capital, whatever stands before it: as it nearly always has.
    has_capitals: bool,
    /// Of a run of base64, where eight bytes begin that are looked up: a bit for each.
    looked_up: u64,
    /// And how many characters further that is so again. Known once, as a division takes longer than most runs.
    looked_at: usize,
    /// Bits that no eight bytes of a text have: the highest of each byte, if all are ASCII. Most of what is read as base64 or
    /// hex and is none has one.
    unset: u64,
    /// Whether all are ASCII and nothing in them controls a terminal.
    is_printed: bool,
    /// Which hashes there may be.
    coarse: Coarse,
    /// What windows without a capital are made of: most keys have capitals, and most text has none.
    small: Parts,
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

/// Three bits of one word stand for a hash.
const fn mask(hash: u64) -> u64 {
    1 << (hash >> 10 & 63) | 1 << (hash >> 16 & 63) | 1 << (hash >> 22 & 63)
}

fn narrow(text: &[u8], place: usize) -> Option<u64> {
    let bytes: [u8; 4] = text.get(place..place + 4)?.try_into().ok()?;
    Some(u64::from(u32::from_le_bytes(bytes)))
}

fn wide(text: &[u8], place: usize) -> Option<u64> {
    let bytes: [u8; 8] = text.get(place..place + 8)?.try_into().ok()?;
    Some(u64::from_le_bytes(bytes))
}

impl Index {
    pub(super) fn new(forms: impl Iterator<Item = Form>) -> Self {
        let text = |Form { text, is_plain }: Form| {
            let is_of_runs = text.iter().copied().all(is_run);
            Text { bytes: text, is_plain, is_of_runs }
        };
        let texts: Vec<Text> = forms.map(text).collect();
        let shortest = texts.iter().map(|text| text.bytes.len()).min().unwrap_or(super::MIN_VALUE);
        let width = if shortest >= 16 { 8 } else { 4 };
        let windows: usize = texts.iter().map(|text| (text.bytes.len() / APART).max(1)).sum();
        let most = (MOST_ENTRIES / windows.max(1)).clamp(4, MOST_STRIDE);
        let stride = (shortest + 1).saturating_sub(width).clamp(1, most);
        let is_of_runs = texts.iter().filter(|text| text.is_plain).all(|text| text.is_of_runs);
        let all = || texts.iter().flat_map(|text| text.bytes.iter().copied());
        let range = (all().min().unwrap_or(0), all().max().unwrap_or(u8::MAX));
        let is_ascii = range.1 < 0x80;
        let has_capitals = texts.iter().all(|text| decode::has_capitals(&text.bytes));
        let mut index = Self {
            texts,
            shortest,
            shortest_run: (shortest.min(LINE) * 8 - 4) / 6,
            rows: Rows::of(shortest.min(LINE), PIECE, range),
            width,
            stride,
            is_of_runs,
            others: None,
            has_capitals,
            looked_up: runs::looked_up(stride),
            looked_at: runs::looked_at(stride),
            unset: if is_ascii { 0x8080_8080_8080_8080 } else { 0 },
            is_printed: is_ascii && range.0 >= b' ',
            coarse: Coarse::default(),
            small: Parts::default(),
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
        let plain = if self.is_in_runs() { self.shortest.min(PIECE) } else { usize::MAX };
        plain.min(self.shortest_run())
    }

    /// Whether what stands in text as it is is looked for in runs: all, or all but what is looked for apart.
    const fn is_in_runs(&self) -> bool {
        self.is_of_runs || self.others.is_some()
    }

    /// Fewest bytes that are worth decoding: the shortest text, or a line of a long one.
    pub(super) const fn shortest(&self) -> usize {
        if self.shortest < LINE { self.shortest } else { LINE }
    }

    /// Fewest characters of base64 that these alone decide.
    pub(super) const fn shortest_run(&self) -> usize {
        self.shortest_run
    }

    /// Whether what has no capital is no base64 of a text.
    pub(super) const fn has_capitals(&self) -> bool {
        self.has_capitals
    }

    /// The rows of hex digits that may hold one.
    pub(super) const fn rows(&self) -> Rows {
        self.rows
    }

    fn bytes_at(&self, text: &[u8], place: usize) -> Option<u64> {
        if self.width == 8 { wide(text, place) } else { narrow(text, place) }
    }

    /// The bytes of the windows that are hashed, and where they stand.
    fn chosen(&self) -> Vec<(u64, Entry)> {
        let total: usize = self.texts.iter().map(|text| text.bytes.len()).sum();
        let bits = (2 * total).next_power_of_two().trailing_zeros().clamp(10, 24);
        let mut common = vec![0_u16; 1 << bits];
        let slot = |bytes: u64| usize::try_from(hash(bytes) >> (64 - bits)).unwrap_or(0);
        for text in &self.texts {
            for bytes in (0..text.bytes.len()).filter_map(|place| self.bytes_at(&text.bytes, place)) {
                if let Some(count) = common.get_mut(slot(bytes)) {
                    *count = count.saturating_add(1);
                }
            }
        }
        let span = self.stride + self.width - 1;
        // Twice as much as what is in one text only.
        let common_to_few = 2 * u64::try_from(self.stride).unwrap_or(1);
        let mut entries = Vec::new();
        for (number, text) in self.texts.iter().enumerate() {
            let Ok(number) = u32::try_from(number) else { break };
            let hashed: Vec<u64> =
                (0..text.bytes.len()).filter_map(|place| self.bytes_at(&text.bytes, place)).collect();
            let mut alike: HashMap<&[u8], usize> = HashMap::new();
            let mut part = 0;
            while part + span <= text.bytes.len() {
                // Text after the last whole part belongs to it.
                let is_last = part + APART + span > text.bytes.len();
                let last = if is_last { text.bytes.len() - span } else { part + APART - span.min(APART) };
                let shared = |window: usize| -> u64 {
                    let window = hashed.iter().skip(window).take(self.stride);
                    window.map(|bytes| u64::from(common.get(slot(*bytes)).copied().unwrap_or(0))).sum()
                };
                let has_capital = |window: usize| {
                    slice(&text.bytes, window, window + span).iter().any(u8::is_ascii_uppercase)
                };
                // Of those that have little in common, one with a capital: most text has none.
                let rank = |window: usize| {
                    let shared = shared(window);
                    (shared / common_to_few, !has_capital(window), shared)
                };
                let Some(window) = (part..=last).min_by_key(|window| rank(*window)) else { break };
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
                    for (offset, bytes) in hashed.iter().enumerate().skip(window).take(self.stride) {
                        let narrowed = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
                        entries.push((
                            *bytes,
                            Entry {
                                check: check(hash(*bytes)),
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

    /// The text that an entry is of.
    fn text(&self, entry: &Entry) -> Option<&Text> {
        self.texts.get(usize::try_from(entry.text).unwrap_or(usize::MAX))
    }

    /// The window that an entry is of: what is found holds all of it.
    fn window(&self, entry: &Entry) -> &[u8] {
        let window = usize::try_from(entry.window).unwrap_or(usize::MAX);
        let text = self.text(entry).map_or(&[][..], |text| &text.bytes);
        slice(text, window, window + self.stride + self.width - 1)
    }

    fn fill(&mut self, mut entries: Vec<(u64, Entry)>) {
        // Sixteen bits for each entry keep chance hits rare.
        let bits = (16 * entries.len()).next_power_of_two().trailing_zeros().clamp(12, 26);
        self.filter_shift = 64 - (bits - 6);
        self.filter = vec![0; 1 << (bits - 6)];
        let buckets = bits - 4;
        self.starts_shift = 64 - buckets;
        entries.sort_unstable_by_key(|(bytes, _)| hash(*bytes));
        self.coarse = Coarse::of(entries.iter().map(|(bytes, _)| hash(*bytes)));
        let of_runs = |entry: &Entry| self.text(entry).is_some_and(|text| text.is_plain && text.is_of_runs);
        let windows = entries.iter().filter(|(_, entry)| of_runs(entry)).map(|(_, entry)| self.window(entry));
        let small = Parts::of(windows.filter(|window| !window.iter().any(u8::is_ascii_uppercase)));
        let is_other = |entry: &Entry| self.text(entry).is_some_and(|text| text.is_plain && !text.is_of_runs);
        let others = entries.iter().filter(|(_, entry)| is_other(entry)).map(|(bytes, _)| *bytes);
        let others = (self.width == 8).then(|| Others::of(others)).flatten();
        (self.small, self.others) = (small, others);
        for hash in entries.iter().map(|(bytes, _)| hash(*bytes)) {
            let place = usize::try_from(hash >> self.filter_shift).unwrap_or(0);
            if let Some(word) = self.filter.get_mut(place) {
                *word |= mask(hash);
            }
        }
        let mut place = 0;
        for bucket in 0..=(1_u64 << buckets) {
            while entries.get(place).is_some_and(|(bytes, _)| hash(*bytes) >> self.starts_shift < bucket) {
                place += 1;
            }
            self.starts.push(u32::try_from(place).unwrap_or(u32::MAX));
        }
        self.entries = entries.into_iter().map(|(_, entry)| entry).collect();
    }

    /// Tells every occurrence in `text[from..]`.
    pub(super) fn find(&self, text: &[u8], from: usize, read: Read, tell: &mut impl FnMut(usize, usize)) {
        // Two loops, so that each is a few instructions.
        if self.width == 8 {
            self.find_by(wide, text, from, read, tell);
        } else {
            self.find_by(narrow, text, from, read, tell);
        }
    }

    #[inline]
    fn find_by(
        &self,
        bytes_at: impl Fn(&[u8], usize) -> Option<u64>,
        text: &[u8],
        from: usize,
        read: Read,
        tell: &mut impl FnMut(usize, usize),
    ) {
        let Some(last) = text.len().checked_sub(self.width) else { return };
        let (mut told, mut place) = ((0, 0), from);
        while place <= last {
            // A few at once, as the processor cannot guess how many there are; beyond the end the last one again.
            let places: [usize; AT_ONCE] = std::array::from_fn(|turn| (place + turn * self.stride).min(last));
            let may_have = |place: usize| bytes_at(text, place).is_some_and(|bytes| self.has_coarse(bytes));
            if places.into_iter().fold(false, |may, place| may | may_have(place)) {
                for place in places {
                    if let Some(bytes) = bytes_at(text, place).filter(|bytes| self.may_have(*bytes)) {
                        self.compare(text, (place, hash(bytes)), read, &mut told, tell);
                    }
                }
            }
            place += AT_ONCE * self.stride;
        }
    }

    /// Whether there is an entry with the hash of these bytes.
    #[inline]
    fn has_eight(&self, bytes: u64) -> bool {
        bytes & self.unset == 0 && self.may_have(bytes) && {
            let hash = hash(bytes);
            self.bucket(hash).iter().any(|entry| entry.check == check(hash))
        }
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
    fn may_have(&self, bytes: u64) -> bool {
        self.has_coarse(bytes) && self.is_likely(hash(bytes))
    }

    #[inline]
    fn has_coarse(&self, bytes: u64) -> bool {
        self.coarse.has(hash(bytes))
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
