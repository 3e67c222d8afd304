//! Reads base64 (both alphabets, wherever a group begins) and hex (either half first), and finds values in what was read.

use super::index::{Index, Read};
use crate::bytes::{ByteSet, HEX, slice};

/// How much must be base64 for what was read to be read again.
const SAMPLE: usize = 10;

static BASE64: ByteSet = ByteSet::alphanumeric_and(b"+/_-");
/// Of every character: its six bits, or 64.
static SIX: [u8; 256] = six();

#[expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "at compile time, below 256")]
const fn six() -> [u8; 256] {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut table = [64; 256];
    let mut value = 0;
    while value < alphabet.len() {
        table[alphabet[value] as usize] = value as u8;
        value += 1;
    }
    table[b'-' as usize] = 62;
    table[b'_' as usize] = 63;
    table
}

/// The six bits of a character.
pub(super) fn bits(character: u8) -> u8 {
    SIX.get(usize::from(character)).copied().unwrap_or(64)
}

/// Room for what is read, used again and again; wiped in the end.
pub(crate) type Room = zeroize::Zeroizing<Vec<u8>>;

/// The bytes of a base64 text; nothing that is not base64 is read.
pub(crate) fn base64(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    read_base64(text, &mut bytes);
    bytes
}

fn read_base64(text: &[u8], into: &mut Vec<u8>) {
    let mut groups = text.chunks_exact(4);
    for group in &mut groups {
        if let [a, b, c, d] = group {
            let (a, b, c, d) = (bits(*a), bits(*b), bits(*c), bits(*d));
            into.extend_from_slice(&[a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]);
        }
    }
    match groups.remainder() {
        [a, b] => into.push(bits(*a) << 2 | bits(*b) >> 4),
        [a, b, c] => {
            let (a, b, c) = (bits(*a), bits(*b), bits(*c));
            into.extend_from_slice(&[a << 2 | b >> 4, b << 4 | c >> 2]);
        }
        _ => {}
    }
}

/// Finds values in the run `start..end`.
pub(super) fn find(
    index: &Index,
    text: &[u8],
    start: usize,
    end: usize,
    room: &mut Room,
    tell: &mut impl FnMut(usize, usize),
) {
    hex(index, slice(text, start, end), start, room, tell);
    find_base64(index, text, start, end, room, tell);
}

/// Finds values in the run `start..end` that are base64.
pub(super) fn find_base64(
    index: &Index,
    text: &[u8],
    start: usize,
    end: usize,
    room: &mut Room,
    tell: &mut impl FnMut(usize, usize),
) {
    let run = slice(text, start, end);
    // Names and paths have small letters; base64 of most values has capitals.
    let may_be_base64 = !index.has_capitals() || run.iter().any(u8::is_ascii_uppercase);
    if run.len() < index.shortest_run() || !may_be_base64 {
        return;
    }
    for phase in 0..4 {
        room.clear();
        read_base64(slice(run, phase, run.len()), room);
        let base = start + phase;
        twice(index, room, |from, to| tell(base + from * 8 / 6, base + (to * 8).div_ceil(6)));
        // The characters at both ends may carry bits of the value too.
        index.find(room, 0, Read::Decoded, &mut |from, to| {
            tell(base + from * 8 / 6, base + (to * 8).div_ceil(6))
        });
    }
}

/// Whether base64 of a text has a capital, whatever stands before it and behind it.
pub(super) fn has_capitals(text: &[u8]) -> bool {
    // How many bits of the first byte belong to a character that begins before it.
    [0, 4, 2].into_iter().all(|lead| {
        let (mut read, mut held) = (0_u32, 0_u32);
        text.iter().enumerate().any(|(place, byte)| {
            (read, held) = (read << 8 | u32::from(*byte), held + 8 - if place == 0 { lead } else { 0 });
            let mut has_capital = false;
            while held >= 6 {
                held -= 6;
                // The first of the alphabet are the capitals.
                has_capital |= read >> held & 63 < 26;
            }
            has_capital
        })
    })
}

/// Whether a run may be base64 of base64.
pub(super) fn is_twice(run: &[u8]) -> bool {
    (0..4).any(|phase| {
        let characters = slice(run, phase, phase + SAMPLE.div_ceil(3) * 4);
        let (mut read, mut bytes) = (0_u32, 0);
        for (place, character) in characters.iter().enumerate() {
            read = read << 6 | u32::from(bits(*character) & 63);
            let [.., first, second, third] = read.to_be_bytes();
            if place % 4 == 3 {
                if ![first, second, third].iter().all(|byte| BASE64.has(*byte)) {
                    return false;
                }
                bytes += 3;
            }
        }
        bytes >= SAMPLE
    })
}

/// Finds values in what was read if that is base64 itself.
fn twice(index: &Index, text: &[u8], mut tell: impl FnMut(usize, usize)) {
    if !slice(text, 0, SAMPLE).iter().all(|byte| BASE64.has(*byte)) {
        return;
    }
    let end = BASE64.run(text, 0);
    if end < index.shortest_run() {
        return;
    }
    let mut room = Room::default();
    for phase in 0..4 {
        room.clear();
        read_base64(slice(text, phase, end), &mut room);
        index.find(&room, 0, Read::Decoded, &mut |from, to| {
            tell(phase + from * 8 / 6, (phase + (to * 8).div_ceil(6)).min(end));
        });
    }
}

fn hex(index: &Index, run: &[u8], start: usize, room: &mut Room, tell: &mut impl FnMut(usize, usize)) {
    if run.len() < 2 * index.shortest() {
        return;
    }
    let mut from = 0;
    while from < run.len() {
        let end = HEX.run(run, from);
        let digits = slice(run, from, end);
        if digits.len() >= 2 * index.shortest() {
            for half in 0..2 {
                room.clear();
                let pairs = slice(digits, half, digits.len()).chunks_exact(2);
                room.extend(
                    pairs.map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit_value(*digit))),
                );
                let base = start + from + half;
                index.find(room, 0, Read::Decoded, &mut |a, b| tell(base + 2 * a, base + 2 * b));
            }
        }
        from = end + 1;
    }
}

fn digit_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => 0,
    }
}
