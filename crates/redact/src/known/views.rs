//! Reads text as those do that it is written for: URLs (`%2F`), strings of programs (`\x2f`, `\u002f`, `\057`), markup
//! (`&#47;`), sixteen bits for each character, hex digits with or without something between them; and finds values there.
//!
//! Flow: a sign of such a writing -> its line, read that way ([`View`]) -> values in it, also as base64 and hex -> places in the
//! text. What was read is read once more where it still holds such a sign: URLs within URLs, strings within strings.
//!
//! Invariant: every writing is looked for by one pass over the text, and a line is read once for each writing that it has a
//! sign of. Not here: base64 ([`super::decode`]).

use zeroize::Zeroize;

use super::decode::{self, Room};
use super::index::{Index, Read};
use crate::bytes::{ByteSet, HEX, at, line_end, line_start, slice};

/// How often a line is read over again.
const DEPTH: usize = 2;
/// Longest row of pairs that is read at once.
const LONGEST: usize = 3 * 1024;
/// Shortest line of base64 that is broken because it was full.
const FULL: usize = 60;

static BASE64: ByteSet = ByteSet::alphanumeric_and(b"+/_-");

/// How something is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// `%2F`
    Url,
    /// `%2F`, and `+` for a blank.
    Form,
    /// `\x2f`, `\u002f`, `\057`, `\'`
    String,
    /// `\n` where base64 was broken into lines.
    Wrapped,
    /// `&#47;`, `&amp;`
    Markup,
    /// A zero beside every character.
    Wide,
}

/// How many there are.
const WRITINGS: usize = 6;

impl Writing {
    /// The byte that all its signs begin with.
    const fn sign(self) -> u8 {
        match self {
            Self::Url | Self::Form => b'%',
            Self::String | Self::Wrapped => b'\\',
            Self::Markup => b'&',
            Self::Wide => 0,
        }
    }

    /// Which of them these bytes may begin with a sign of. What most lines have is none.
    const fn may_begin(text: &[u8]) -> &'static [Self] {
        match text {
            [b'%', ..] => &[Self::Url, Self::Form],
            [b'\\', b'x' | b'u' | b'\'' | b'0'..=b'3', ..] => &[Self::String],
            [b'\\', b'n' | b'r', ..] => &[Self::Wrapped],
            [b'&', b'#', ..]
            | [b'&', b'a', b'm' | b'p', ..]
            | [b'&', b'g' | b'l', b't', ..]
            | [b'&', b'e' | b'q' | b's', b'q' | b'u' | b'o', ..] => &[Self::Markup],
            [0, ..] => &[Self::Wide],
            _ => &[],
        }
    }

    /// Whether this tells that a line is written so.
    fn tells(self, text: &[u8], place: usize) -> bool {
        Self::may_begin(slice(text, place, text.len())).contains(&self) && self.read(text, place).is_some()
    }

    /// What stands here instead of what is written: how long that is, and for what byte or character.
    fn read(self, text: &[u8], place: usize) -> Option<(usize, Option<char>)> {
        let pair = |from: usize| Some(digit(at(text, from)?)? * 16 + digit(at(text, from + 1)?)?);
        match self {
            Self::Url | Self::Form => Some((3, Some(char::from_u32(pair(place + 1)?)?))),
            Self::String => escaped(text, place),
            // Most line breaks stand behind a shorter line.
            Self::Wrapped
                if !place
                    .checked_sub(FULL)
                    .and_then(|first| at(text, first))
                    .is_some_and(|b| BASE64.has(b)) =>
            {
                None
            }
            Self::Wrapped => {
                let width = 2 * slice(text, place, place + 4)
                    .chunks_exact(2)
                    .take_while(|e| matches!(e, [b'\\', b'n' | b'r']))
                    .count();
                let lead = slice(text, place.saturating_sub(FULL), place);
                let is_full = lead.len() == FULL && lead.iter().rev().all(|byte| BASE64.has(*byte));
                (width > 0 && is_full).then_some((width, None))
            }
            Self::Markup => entity(slice(text, place, place + 10)),
            Self::Wide => Some((1, None)),
        }
    }
}

/// A line as it reads, and where each byte of it stood.
#[derive(Default)]
struct View {
    text: Room,
    places: Vec<usize>,
}

impl View {
    /// Reads `text[from..to]`; `placed` tells where a byte of it stood.
    fn of(writing: Writing, text: &[u8], from: usize, to: usize, placed: impl Fn(usize) -> usize) -> Self {
        let most = to.saturating_sub(from);
        let mut view =
            Self { text: Room::new(Vec::with_capacity(most)), places: Vec::with_capacity(most + 1) };
        let text = slice(text, 0, to);
        let mut place = from;
        while let Some(byte) = at(text, place) {
            let read = (byte == writing.sign()).then(|| writing.read(text, place)).flatten();
            let width = match read {
                Some((width, Some(character))) => {
                    // A byte that URLs write is a byte, whatever character it would be.
                    let is_byte = matches!(writing, Writing::Url | Writing::Form) || width == 4;
                    let mut bytes = [0; 4];
                    match u8::try_from(u32::from(character)).ok().filter(|_| is_byte) {
                        Some(byte) => view.push(byte, placed(place)),
                        None => {
                            let bytes = character.encode_utf8(&mut bytes).as_bytes();
                            bytes.iter().for_each(|byte| view.push(*byte, placed(place)));
                        }
                    }
                    bytes.zeroize();
                    width
                }
                Some((width, None)) => width,
                None if byte == b'+' && writing == Writing::Form => {
                    view.push(b' ', placed(place));
                    1
                }
                None => {
                    view.push(byte, placed(place));
                    1
                }
            };
            place += width;
        }
        view.places.push(placed(to));
        view
    }

    fn push(&mut self, byte: u8, place: usize) {
        self.text.push(byte);
        self.places.push(place);
    }

    fn place(&self, at: usize) -> usize {
        self.places.get(at).or(self.places.last()).copied().unwrap_or(0)
    }

    /// Tells the values in it.
    fn find(&self, index: &Index, room: &mut Room, tell: &mut impl FnMut(usize, usize)) {
        let mut placed = |start: usize, end: usize| tell(self.place(start), self.place(end));
        index.find(&self.text, 0, Read::Decoded, &mut placed);
        let mut from = 0;
        while from < self.text.len() {
            let end = BASE64.run(&self.text, from);
            if index.may_hold(&self.text, from, end) {
                decode::find(index, &self.text, from, end, room, &mut placed);
            }
            from = end + 1;
        }
    }
}

/// Tells the values in `text[from..]` that are written in one of these ways.
pub(super) fn find(
    index: &Index,
    text: &[u8],
    from: usize,
    room: &mut Room,
    tell: &mut impl FnMut(usize, usize),
) {
    // Where each of them is done: a line is read once.
    let mut done = [from; WRITINGS];
    let mut look = |place: usize| {
        for writing in Writing::may_begin(slice(text, place, text.len())) {
            let done = done.get_mut(*writing as usize).filter(|done| place >= **done);
            if let Some(done) = done.filter(|_| writing.read(text, place).is_some()) {
                *done = line_end(text, place);
                line(*writing, index, text, from, place, *done, room, tell);
            }
        }
    };
    let rest = slice(text, from, text.len());
    memchr::memchr3_iter(b'%', b'\\', b'&', rest).for_each(|place| look(from + place));
    memchr::memchr_iter(0, rest).for_each(|place| look(from + place));
    pairs(index, text, from, room, tell);
}

/// Tells the values in the line that ends at `end` and has a sign at `place`.
#[expect(clippy::too_many_arguments, reason = "a part of one loop")]
fn line(
    writing: Writing,
    index: &Index,
    text: &[u8],
    from: usize,
    place: usize,
    end: usize,
    room: &mut Room,
    tell: &mut impl FnMut(usize, usize),
) {
    let start = line_start(text, place, place - from);
    if writing == Writing::Form && !slice(text, start, end).contains(&b'+') {
        return;
    }
    let mut view = View::of(writing, text, start, end, |place| place);
    view.find(index, room, tell);
    for _ in 1..DEPTH {
        let has_more =
            memchr::memchr_iter(writing.sign(), &view.text).any(|place| writing.tells(&view.text, place));
        if !has_more || writing == Writing::Wrapped {
            break;
        }
        view = View::of(writing, &view.text, 0, view.text.len(), |place| view.place(place));
        view.find(index, room, tell);
    }
}

/// Hex digits, also in pairs or fours: `68756e74`, `68:75:6e`, `68 75 6e`, `6875 6e74`.
fn pairs(index: &Index, text: &[u8], from: usize, room: &mut Room, tell: &mut impl FnMut(usize, usize)) {
    let next = |from: usize| index.rows().next(text, from);
    for (start, end) in std::iter::successors(next(from), |(_, end)| next(*end)) {
        // Of a longer row each part has what a value needs before it.
        for part in (start..end).step_by(LONGEST) {
            row(index, text, part.saturating_sub(LONGEST).max(start), end.min(part + LONGEST), room, tell);
        }
    }
}

fn row(
    index: &Index,
    text: &[u8],
    start: usize,
    end: usize,
    room: &mut Room,
    tell: &mut impl FnMut(usize, usize),
) {
    gather(slice(text, start, end), room);
    if !index.may_hold_hex(room) {
        return;
    }
    let digits: Vec<usize> =
        (start..end).filter(|place| at(text, *place).is_some_and(|byte| HEX.has(byte))).collect();
    for half in 0..2 {
        room.clear();
        let bytes = digits.get(half..).unwrap_or_default().chunks_exact(2);
        room.extend(bytes.map(|pair| {
            let value = pair.iter().filter_map(|place| at(text, *place).and_then(digit));
            u8::try_from(value.fold(0, |byte, digit| byte * 16 + digit)).unwrap_or(0)
        }));
        index.find(room, 0, Read::Decoded, &mut |a, b| {
            let first = digits.get(half + 2 * a).copied().unwrap_or(start);
            let last = digits.get(half + 2 * b - 1).map_or(end, |place| place + 1);
            tell(first, last);
        });
    }
}

/// Only the digits of a row.
fn gather(row: &[u8], room: &mut Room) {
    room.clear();
    room.resize(row.len(), 0);
    let mut length = 0;
    // Without a way out, as the processor cannot guess which of them is none.
    for byte in row {
        if let Some(slot) = room.get_mut(length) {
            *slot = *byte;
        }
        length += usize::from(HEX.has(*byte));
    }
    room.truncate(length);
}

fn digit(byte: u8) -> Option<u32> {
    char::from(byte).to_digit(16)
}

/// `\x2f`, `\u002f`, `\u{2f}`, `\057`, `\'`
fn escaped(text: &[u8], place: usize) -> Option<(usize, Option<char>)> {
    let number = |from: usize, length: usize, base: u32| {
        let digits = slice(text, from, from + length);
        let value = digits
            .iter()
            .try_fold(0_u32, |value, byte| Some(value * base + char::from(*byte).to_digit(base)?))?;
        (digits.len() == length).then_some(value)
    };
    match at(text, place + 1)? {
        b'x' => Some((4, char::from_u32(number(place + 2, 2, 16)?))),
        b'u' => {
            let unit = number(place + 2, 4, 16)?;
            // Two of them are one character.
            if (0xd800..0xdc00).contains(&unit) && slice(text, place + 6, place + 8) == b"\\u" {
                let second = number(place + 8, 4, 16)?.checked_sub(0xdc00)?;
                return Some((12, Some(char::from_u32(0x10000 + ((unit - 0xd800) << 10) + second)?)));
            }
            Some((6, Some(char::from_u32(unit)?)))
        }
        b'0'..=b'3' => Some((4, Some(char::from_u32(number(place + 1, 3, 8)?)?))),
        b'\'' => Some((2, Some('\''))),
        quoted @ (b'"' | b'/' | b'\\') => Some((2, Some(char::from(quoted)))),
        _ => None,
    }
}

fn entity(text: &[u8]) -> Option<(usize, Option<char>)> {
    const NAMED: [(&[u8], char); 7] = [
        (b"&amp;", '&'),
        (b"&lt;", '<'),
        (b"&gt;", '>'),
        (b"&quot;", '"'),
        (b"&apos;", '\''),
        (b"&sol;", '/'),
        (b"&equals;", '='),
    ];
    if text.get(1) != Some(&b'#') {
        let (name, character) = NAMED.iter().find(|(name, _)| text.starts_with(name))?;
        return Some((name.len(), Some(*character)));
    }
    let number = text.strip_prefix(b"&#")?;
    let end = number.iter().position(|byte| *byte == b';')?;
    let number = std::str::from_utf8(slice(number, 0, end)).ok()?;
    let value = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => number.parse(),
    };
    Some((end + 3, Some(char::from_u32(value.ok()?)?)))
}
