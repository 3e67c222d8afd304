//! Characters that cannot be seen: a token that they stand in is read without them.
//!
//! Flow: a unit -> [`Seen`] (the same text without them, and where each byte stood) -> hits there -> hits in the unit.

use crate::bytes::{ByteSet, at, before, slice};

/// Longest sequence that changes colours.
const LONGEST: usize = 24;

static WITHIN: ByteSet = ByteSet::alphanumeric_and(b"_-.+/=:");
static PARAMETER: ByteSet = ByteSet::of(b"0123456789;:");

/// How many bytes of something that cannot be seen stand here.
fn unseen(text: &[u8], start: usize) -> usize {
    match slice(text, start, start + 3) {
        [0xe2, 0x80, 0x8b..=0x8f | 0xa8..=0xae] // Marks of direction, breaks of lines.
        | [0xe2, 0x81, 0xa0..=0xa9]
        | [0xe1, 0xa0, 0x8e]
        | [0xef, 0xb8, 0x80..=0x8f] // Variants.
        | [0xef, 0xbb, 0xbf] => 3,
        [0xc2, 0xad, ..] | [0xcd, 0x8f, ..] => 2,
        // Tags.
        [0xf3, 0xa0, 0x80 | 0x81] if at(text, start + 3).is_some_and(|byte| (0x80..=0xbf).contains(&byte)) => 4,
        [0x1b, b'[', _] => {
            let end = PARAMETER.run(slice(text, 0, start + LONGEST), start + 2);
            if matches!(at(text, end), Some(b'm' | b'K')) { end + 1 - start } else { 0 }
        }
        _ => 0,
    }
}

/// Whether what stands here parts a word.
pub(super) fn is_within_word(text: &[u8], start: usize) -> bool {
    let mut end = start;
    loop {
        match unseen(text, end) {
            0 => break,
            length => end += length,
        }
        if end - start > 4 * LONGEST {
            return true;
        }
    }
    let is_part = |byte: Option<u8>| byte.is_some_and(|byte| WITHIN.has(byte));
    // One after another: the first of them tells for all, so the byte before it is looked at there.
    end > start
        && is_part(at(text, end))
        && before(text, start).is_some_and(|byte| WITHIN.has(byte) || byte >= 0x80)
}

/// Whether a word is parted by one of those that no anchor tells of: two bytes are too few for one, tags too many.
pub(super) fn is_rare_within_word(text: &[u8], from: usize) -> bool {
    memchr::memchr3_iter(0xc2, 0xcd, 0xf3, slice(text, from, text.len()))
        .any(|offset| is_within_word(text, from + offset))
}

/// A text without what cannot be seen.
#[derive(Default)]
pub(crate) struct Seen {
    text: Vec<u8>,
    /// Where each byte stood.
    places: Vec<usize>,
}

impl Seen {
    /// Reads `text` again; where `from` is now.
    pub(crate) fn read(&mut self, text: &[u8], from: usize) -> usize {
        self.text.clear();
        self.places.clear();
        let (mut place, mut begin) = (0, 0);
        while let Some(byte) = at(text, place) {
            if place <= from {
                begin = self.text.len();
            }
            let length = if byte == 0x1b || byte >= 0xc2 { unseen(text, place) } else { 0 };
            if length == 0 {
                self.text.push(byte);
                self.places.push(place);
            }
            place += length.max(1);
        }
        if from >= text.len() { self.text.len() } else { begin }
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// What stands at `start..end` here stood there.
    pub(crate) fn place(&self, start: usize, end: usize) -> (usize, usize) {
        let first = self.places.get(start).copied().unwrap_or(0);
        let last = end.checked_sub(1).and_then(|last| self.places.get(last)).copied();
        (first, last.map_or(first, |last| last + 1))
    }

    /// Where this place of the text is here.
    pub(crate) fn here(&self, place: usize) -> usize {
        self.places.partition_point(|stood| *stood < place)
    }
}
