//! Characters that cannot be seen, and sequences that a terminal acts on: a token that they stand in is read without them.
//!
//! Flow: a line with such a word ([`parted`]) -> [`Seen`] (the same text without them, and where it stood) -> hits
//! there -> hits in the line.

use crate::bytes::{BLOCK, ByteSet, at, before, each_block, line_start, members, slice};
use crate::unseen::is_unseen;

/// How far behind its first word the label of a key block goes on.
const LABEL: usize = 40;

static WITHIN: ByteSet = ByteSet::alphanumeric_and(b"_-.+/=:");

/// How many bytes of something that cannot be seen stand here.
fn unseen(text: &[u8], start: usize) -> usize {
    match slice(text, start, start + 4) {
        [0x1b, b'[', ..] => crate::tame::sequence(slice(text, start, text.len())).unwrap_or(0),
        bytes => character(bytes).filter(|c| is_unseen(*c)).map_or(0, char::len_utf8),
    }
}

/// The character of more than one byte that these begin with.
fn character(bytes: &[u8]) -> Option<char> {
    let low = |byte: u8| (byte & 0xc0 == 0x80).then_some(u32::from(byte & 0x3f));
    let (code, length) = match *bytes {
        [a @ 0xc2..=0xdf, b, ..] => (u32::from(a & 0x1f) << 6 | low(b)?, 2),
        [a @ 0xe0..=0xef, b, c, ..] => (u32::from(a & 0xf) << 12 | low(b)? << 6 | low(c)?, 3),
        [a @ 0xf0..=0xf4, b, c, d, ..] => {
            (u32::from(a & 7) << 18 | low(b)? << 12 | low(c)? << 6 | low(d)?, 4)
        }
        _ => return None,
    };
    // What is written in more bytes than it needs is no character.
    char::from_u32(code).filter(|c| c.len_utf8() == length)
}

/// The bytes of a block that something unseen can begin with.
#[inline]
fn leads(block: &[u8; BLOCK]) -> u64 {
    // All bits together, of which one tells: so the processor has the least to do.
    let all = block.iter().fold(0, |all, byte| all | byte | if *byte == 0x1b { 0x80 } else { 0 });
    if all < 0x80 {
        return 0;
    }
    let first = members(block, |byte| matches!(byte, 0x1b | 0xc2 | 0xcd | 0xd8 | 0xe1 | 0xe2 | 0xef | 0xf3));
    // These begin much that is seen: kana, pictures. The byte after them tells; that of the last one is not here.
    let often = members(block, |byte| matches!(byte, 0xe3 | 0xf0));
    if often == 0 {
        return first;
    }
    let second = members(block, |byte| matches!(byte, 0x85 | 0x9b | 0x9d));
    first | often & (second >> 1 | 1 << (BLOCK - 1))
}

/// Everything unseen in `text[from..]`, as far as it stands together: where it starts, where it ends.
fn all(text: &[u8], from: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut done = from;
    each_block(text, from, leads).filter_map(move |start| {
        if start < done {
            return None;
        }
        let mut end = start;
        loop {
            match unseen(text, end) {
                0 => break,
                length => end += length,
            }
        }
        done = end;
        (end > start).then_some((start, end))
    })
}

/// The first place in `text[from..]` where a word is parted.
pub(crate) fn parted(text: &[u8], from: usize) -> Option<usize> {
    let is_parted = |(start, end): &(usize, usize)| {
        let (left, right) = (before(text, *start), at(text, *end));
        let (ends, begins) =
            (left.is_some_and(|b| WITHIN.has(b) || b >= 0x80), right.is_some_and(|b| WITHIN.has(b)));
        // The first line of a key block has blanks in it.
        let is_within = || (ends || left == Some(b' ')) && (begins || right == Some(b' '));
        ends && begins || is_within() && follows_begin(text, *start)
    };
    all(text, from).find(is_parted).map(|(start, _)| start)
}

/// Whether the first word of a key block stands not far before this, in the same line.
fn follows_begin(text: &[u8], place: usize) -> bool {
    let lead = slice(text, line_start(text, place, LABEL), place);
    memchr::memmem::find(lead, b"BEGIN").is_some()
}

/// A text without what cannot be seen.
#[derive(Default)]
pub(crate) struct Seen {
    text: Vec<u8>,
    /// The parts that it is made of: where each begins here, and where it stood.
    parts: Vec<(usize, usize)>,
}

impl Seen {
    /// Reads `text` again; where `from` is now.
    pub(crate) fn read(&mut self, text: &[u8], from: usize) -> usize {
        self.text.clear();
        self.parts.clear();
        let mut place = 0;
        for (start, end) in all(text, 0) {
            self.keep(text, place, start);
            place = end;
        }
        self.keep(text, place, text.len());
        self.here(from)
    }

    fn keep(&mut self, text: &[u8], start: usize, end: usize) {
        if end > start {
            self.parts.push((self.text.len(), start));
            self.text.extend_from_slice(slice(text, start, end));
        }
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Where a byte stood.
    fn there(&self, place: usize) -> usize {
        let part = self.parts.partition_point(|(here, _)| *here <= place).checked_sub(1);
        part.and_then(|part| self.parts.get(part)).map_or(0, |(here, stood)| stood + place - here)
    }

    /// What stands at `start..end` here stood there.
    pub(crate) fn place(&self, start: usize, end: usize) -> (usize, usize) {
        let first = self.there(start);
        (first, end.checked_sub(1).map_or(first, |last| self.there(last) + 1))
    }

    /// Where this place of the text is here.
    pub(crate) fn here(&self, place: usize) -> usize {
        let next = self.parts.partition_point(|(_, stood)| *stood <= place);
        let end = self.parts.get(next).map_or(self.text.len(), |(here, _)| *here);
        let part = next.checked_sub(1).and_then(|part| self.parts.get(part));
        part.map_or(0, |(here, stood)| (here + place - stood).min(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_is_known_to_have_stood_somewhere() {
        let mut seen = Seen::default();
        let text = "\u{200b}a\u{200b}\u{ad}b\u{1b}[1;31mcd\u{feff}é\u{e0041}x\u{200b}";
        let from = seen.read(text.as_bytes(), 4);
        assert_eq!(std::str::from_utf8(seen.text()), Ok("abcdéx"));
        assert_eq!(from, 1);
        for (place, byte) in seen.text().iter().enumerate() {
            let (start, end) = seen.place(place, place + 1);
            assert_eq!(text.as_bytes()[start..end], [*byte]);
            assert_eq!(seen.here(start), place);
        }
        assert_eq!(seen.here(text.len()), seen.text().len());
        assert_eq!(seen.here(0), 0);
    }

    /// The blocks are looked at by bytes; the table is one of characters.
    #[test]
    fn every_character_of_the_table_parts_a_word_wherever_it_stands() {
        for c in ('\u{80}'..=char::MAX).filter(|c| is_unseen(*c)) {
            for lead in [2, BLOCK - 3, BLOCK - 2, BLOCK - 1, BLOCK] {
                let text = format!("{}{c}b", "a".repeat(lead));
                assert_eq!(parted(text.as_bytes(), 0), Some(lead), "{}", text.escape_unicode());
            }
        }
        for c in ('\u{80}'..='\u{1ffff}').filter(|c| !is_unseen(*c)) {
            assert_eq!(parted(format!("a{c}b").as_bytes(), 0), None, "{c:?}");
        }
        assert_eq!(parted(b"a\xe2\x80b\xf3\xa0\x80", 0), None);
    }

    #[test]
    fn a_word_is_parted_by_what_stands_within_it() {
        for (text, place) in [
            ("ab\u{200b}cd", Some(2)),
            ("ab \u{200b}cd", None),
            ("ab\u{200b} cd e\u{ad}f", Some(10)),
            ("plain", None),
            ("日本\u{200b}x", Some(6)),
        ] {
            assert_eq!(parted(text.as_bytes(), 0), place, "{}", text.escape_debug());
        }
        let long = format!("{}a{}b", "x ".repeat(100), "\u{200b}".repeat(100));
        assert_eq!(parted(long.as_bytes(), 0), Some(201));
        assert_eq!(parted("\u{200b}".repeat(1000).as_bytes(), 0), None);
    }
}
