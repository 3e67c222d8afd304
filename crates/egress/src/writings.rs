//! The ways in which a text that must not leave may be written: one list for words, secrets and decoys.
//!
//! Not here: who looks for them, and what becomes of what is found. Escapes of some characters only are read, not listed: whoever
//! looks takes them away first.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// The letters of base 32, small.
const BASE_32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A text as it is, and as it may be disguised. The first is as it is.
#[must_use]
pub fn disguised(text: &[u8]) -> Vec<Vec<u8>> {
    let or_plain = |escape: fn(u8) -> String| {
        move |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).into() } else { escape(byte) }
    };
    let mut all = vec![text.to_vec()];
    all.extend([&STANDARD, &URL_SAFE].into_iter().flat_map(|engine| base_64(text, engine)));
    all.push(each(text, |byte| format!("{byte:02x}")));
    all.push(each(text, |byte| format!("{byte:02X}")));
    all.push(each(text, |byte| format!("%{byte:02x}")));
    all.push(each(text, |byte| format!("%{byte:02X}")));
    all.push(each(text, or_plain(|byte| format!("%{byte:02X}"))));
    all.push(each(text, or_plain(|byte| format!("%{byte:02x}"))));
    all.push(str::from_utf8(text).map(escaped).unwrap_or_default().into_bytes());
    all.push(each(text, json));
    all.push(each(text, |byte| if byte == b'/' { "\\/".into() } else { json(byte) }));
    all.push(each(text, or_plain(|byte| format!("\\u{byte:04x}"))));
    all.push(each(text, or_plain(|byte| format!("\\u{byte:04X}"))));
    all.push(text.iter().rev().copied().collect());
    all.extend(base_32_within(text).into_iter().flat_map(|code| [code.to_ascii_uppercase(), code]));
    all.push(wide(text));
    let twice = |code: Vec<u8>| base_64(&code, &STANDARD);
    all.extend([&STANDARD, &URL_SAFE].into_iter().flat_map(|engine| base_64(text, engine)).flat_map(twice));
    let mut seen = std::collections::HashSet::new();
    all.retain(|writing| !writing.is_empty() && seen.insert(writing.clone()));
    all
}

/// The same for whoever looks at letters and digits only, without regard to case: what differs in signs is one writing there.
pub(crate) fn known_bare(text: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![text.to_vec(), text.iter().rev().copied().collect()];
    all.push(each(text, |byte| format!("u{byte:04x}")));
    for text in [text, &packed(text)] {
        all.push(each(text, |byte| format!("{byte:02x}")));
        all.extend((0..3).map(|before| STANDARD.encode(behind(text, before)).into_bytes()));
        all.extend((0..5).map(|before| base_32(&behind(text, before))));
    }
    all
}

/// A text as `gzip` and its like write one that is too short to be worth a table: letter by letter, in the code that needs none
/// (RFC 1951, 3.2.6). Without its first and last bits, which share a byte with something else. Nothing for a text that is not of
/// ASCII.
pub(crate) fn packed(text: &[u8]) -> Vec<u8> {
    /// What stands before the first letter: whether it is the last block, and its kind.
    const HEAD: usize = 3;
    const FIRST_CODE: u8 = 0x30;
    if !text.is_ascii() {
        return Vec::new();
    }
    let code = |byte: &u8| {
        let code = FIRST_CODE + byte;
        (0..8).rev().map(move |at| code >> at & 1)
    };
    let bits: Vec<u8> = std::iter::repeat_n(0, HEAD).chain(text.iter().flat_map(code)).collect();
    let byte = |bits: &[u8]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit);
    bits.chunks_exact(8).skip(1).map(byte).collect()
}

/// A text as it stands in an address.
#[must_use]
pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn each(text: &[u8], write: impl Fn(u8) -> String) -> Vec<u8> {
    text.iter().map(|byte| write(*byte)).collect::<String>().into_bytes()
}

/// A character as it stands in a string of JSON.
fn json(byte: u8) -> String {
    match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        other => char::from(other).to_string(),
    }
}

/// Whatever stands before it: of three ways to begin (five in base 32), the middle of each is always the same.
fn behind(text: &[u8], before: usize) -> Vec<u8> {
    [vec![0; before], text.to_vec()].concat()
}

/// The letters that are the text's alone, whatever stands around it.
fn base_64(text: &[u8], engine: &impl base64::Engine) -> Vec<Vec<u8>> {
    let middle = |before: usize| {
        let code = engine.encode(behind(text, before));
        let (from, to) = ((before * 8).div_ceil(6), (before + text.len()) * 8 / 6);
        code.as_bytes().get(from..to).map(<[u8]>::to_vec)
    };
    (0..3).filter_map(middle).collect()
}

/// The same in base 32.
fn base_32_within(text: &[u8]) -> Vec<Vec<u8>> {
    let middle = |before: usize| {
        let code = base_32(&behind(text, before));
        let (from, to) = ((before * 8).div_ceil(5), (before + text.len()) * 8 / 5);
        code.get(from..to).map(<[u8]>::to_vec)
    };
    (0..5).filter_map(middle).collect()
}

/// In UTF-16, from the first letter to the last, so that it does not matter which byte of each comes first.
fn wide(text: &[u8]) -> Vec<u8> {
    let mut wide: Vec<u8> = text.iter().flat_map(|byte| [*byte, 0]).collect();
    wide.pop();
    wide
}

/// Only whole letters.
pub(crate) fn base_32(bytes: &[u8]) -> Vec<u8> {
    let bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect::<Vec<u8>>();
    let letter = |five: &[u8]| five.iter().fold(0u8, |all, bit| all << 1 | bit);
    bits.chunks_exact(5).filter_map(|five| BASE_32.get(usize::from(letter(five))).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_19_a_short_text_is_packed_letter_by_letter() {
        let known = packed(b"ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5");
        // As zlib packs it, at any of its levels.
        let whole = "4bcf28884f74324e71354df730cff2b6ccf5332c08342e0e312d0b37af8cb24c72364c71334ef7300500";
        let known: String = known.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(whole.get(2..whole.len() - 4), Some(known.as_str()));
        assert!(packed("\u{fc}".as_bytes()).is_empty());
    }

    #[test]
    fn adv_c02_a_text_has_each_of_its_writings_once_and_itself_first() {
        let all = disguised(b"k-/\"\\y");
        assert_eq!(all[0], b"k-/\"\\y");
        let has = |writing: &[u8]| all.iter().filter(|one| *one == writing).count();
        let expected: [&[u8]; 10] = [
            b"ay0vIlx5",
            b"6b2d2f225c79",
            b"6B2D2F225C79",
            b"%6b%2d%2f%22%5c%79",
            b"k%2D%2F%22%5Cy",
            b"k-%2F%22%5Cy",
            b"k-/\\\"\\\\y",
            b"k-\\/\\\"\\\\y",
            b"k\\u002d\\u002f\\u0022\\u005cy",
            b"y\\\"/-k",
        ];
        for writing in expected {
            assert_eq!(has(writing), 1, "{}", String::from_utf8_lossy(writing));
        }
        assert_eq!(base_32(b"fooba"), b"mzxw6ytb");
        assert!(disguised(b"").is_empty());
    }

    #[test]
    fn adv_c02_a_text_is_known_in_base_32_utf_16_and_base_64_twice_whatever_stands_around_it() {
        for text in ["sk-ant-api03-WORDwordWORDword0123456789", "8 letter", "a?b~c>d\u{7f}e\u{fc}\u{ff}/?"] {
            let all = disguised(text.as_bytes());
            let has = |code: &[u8]| all.iter().any(|one| code.windows(one.len()).any(|part| part == one));
            for (before, after) in (0..6).flat_map(|before| (0..6).map(move |after| (before, after))) {
                let whole = [vec![b'x'; before], text.as_bytes().to_vec(), vec![0xff; after]].concat();
                let code = base_32(&whole);
                assert!(has(&code) && has(&code.to_ascii_uppercase()), "{text} {before} {after}");
                for engine in [&STANDARD, &URL_SAFE] {
                    let once = engine.encode(&whole);
                    assert!(has(STANDARD.encode(&once).as_bytes()), "{text} {before} {after}");
                    // Behind something in the outer writing too.
                    for more in ["", "k", "ke"] {
                        let twice = URL_SAFE.encode(format!("{more}{once}\n"));
                        assert!(has(twice.as_bytes()), "{text} {before} {after} {more}");
                    }
                }
            }
            if text.is_ascii() {
                let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
                let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
                assert!(has(&little) && has(&big));
            }
        }
        // What stands for other texts is none of it.
        let all = disguised(b"sk-ant-api03-WORDwordWORDword0123456789");
        let other = base_32(b"sk-ant-api03-OTHERotherOTHERother012345");
        assert!(!all.iter().any(|one| other.windows(one.len()).any(|part| part == one)));
    }
}
