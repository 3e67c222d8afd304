//! Decoys on their way out: in names that a sandbox asks for, and in what it sends, prints or commits. Whoever carries one is a
//! thief.
//!
//! Letters and digits count, without regard to case or to what stands between them, so a decoy is known in rows, with signs
//! between, in base 64, 32 and 16, escaped, backwards, in characters that nobody sees, and by a piece of it. One that was packed
//! by itself (`gzip`) is known too, as it is and in base 64, 32 and 16; one among much else that was packed has to be unpacked
//! first.

use std::collections::HashMap;

use crate::writings;

/// As much of a decoy as is found, wherever it is cut.
const PIECE: usize = 16;

/// Pieces of decoys in many writings, and whose they are.
#[derive(Debug, Default)]
pub struct Decoys {
    names: Vec<String>,
    /// Of letters and digits only.
    bare: Pieces,
    /// Of bytes as they come.
    packed: Pieces,
}

/// Pieces, each the last bytes of a number, and the places of their names.
#[derive(Debug, Default)]
struct Pieces {
    whole: HashMap<u128, usize>,
    /// Whether one ends like this, by its last four bytes: most of what passes by ends otherwise, and is not looked up.
    ends: Vec<bool>,
}

impl Pieces {
    const ENDS: usize = 1 << 16;

    fn add(&mut self, writing: &[u8], name: usize) {
        self.ends.resize(Self::ENDS, false);
        for piece in writing.windows(PIECE) {
            let piece = piece.iter().fold(0, |piece, byte| piece << 8 | u128::from(*byte));
            self.whole.insert(piece, name);
            if let Some(ends) = self.ends.get_mut(end(piece)) {
                *ends = true;
            }
        }
    }

    fn find(&self, last: u128) -> Option<usize> {
        if !self.ends.get(end(last)).copied().unwrap_or(false) {
            return None;
        }
        self.whole.get(&last).copied()
    }
}

/// A place for the last four bytes: sixteen bits that depend on all of them.
fn end(piece: u128) -> usize {
    let four = u32::try_from(piece & u128::from(u32::MAX)).unwrap_or_default();
    usize::try_from(four.wrapping_mul(0x9e37_79b1) >> 16).unwrap_or_default()
}

impl Decoys {
    /// Of these names and texts.
    #[must_use]
    pub fn new<'a>(all: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut decoys = Self::default();
        for (name, text) in all {
            let place = decoys.names.len();
            decoys.names.push(name.to_owned());
            for writing in writings::known_bare(text.as_bytes()) {
                decoys.bare.add(&bare(&writing).collect::<Vec<u8>>(), place);
            }
            decoys.packed.add(&writings::packed(text.as_bytes()), place);
        }
        decoys
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whose decoy this carries.
    #[must_use]
    pub fn within(&self, bytes: &[u8]) -> Option<&str> {
        self.scan().look(bytes)
    }

    /// Looks through something that passes by.
    #[must_use]
    pub fn scan(&self) -> Scan<'_> {
        Scan { decoys: self, trace: Trace::default() }
    }

    /// The same for whoever keeps the trace.
    pub fn follow(&self, trace: &mut Trace, bytes: &[u8]) -> Option<&str> {
        if self.is_empty() {
            return None;
        }
        for byte in bytes {
            trace.bytes = trace.bytes << 8 | u128::from(*byte);
            let mut found = self.packed.find(trace.bytes);
            if let Some(letter) = trace.unseen.read(*byte).and_then(letter) {
                trace.letters = trace.letters << 8 | u128::from(letter);
                found = found.or_else(|| self.bare.find(trace.letters));
            }
            if let Some(name) = found {
                return self.names.get(name).map(String::as_str);
            }
        }
        None
    }
}

/// Looks through something that passes by, wherever it is cut.
#[derive(Debug)]
pub struct Scan<'a> {
    decoys: &'a Decoys,
    trace: Trace,
}

/// What has passed by so far. Zeros stand for what has not.
#[derive(Debug, Default)]
pub struct Trace {
    /// The last letters and digits.
    letters: u128,
    /// The last bytes.
    bytes: u128,
    unseen: Unseen,
}

/// How much has come of a character that stands for one of ASCII and that nobody sees: U+E0020 to U+E007F, four bytes each.
#[derive(Debug, Default)]
struct Unseen {
    came: u8,
    high: u8,
}

impl Unseen {
    /// What a byte means, if it is not a part of more.
    fn read(&mut self, byte: u8) -> Option<u8> {
        let (came, meant) = match (self.came, byte) {
            (_, 0xf3) => (1, None),
            (1, 0xa0) => (2, None),
            (2, 0x80 | 0x81) => {
                self.high = byte & 1;
                (3, None)
            }
            (3, 0x80..=0xbf) => (0, Some(self.high << 6 | byte & 0x3f)),
            (_, byte) => (0, Some(byte)),
        };
        self.came = came;
        meant
    }
}

impl<'a> Scan<'a> {
    /// Whose decoy is there now.
    pub fn look(&mut self, bytes: &[u8]) -> Option<&'a str> {
        self.decoys.follow(&mut self.trace, bytes)
    }
}

/// Letters and digits only, small.
fn bare(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().filter_map(|byte| letter(*byte))
}

fn letter(byte: u8) -> Option<u8> {
    byte.is_ascii_alphanumeric().then(|| byte.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writings::base_32;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    const WORD: &str = "ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5";

    fn decoys() -> Decoys {
        Decoys::new([("TOKEN", WORD)].into_iter())
    }

    #[test]
    fn sec_19_a_decoy_is_known_however_it_is_written_and_cut() {
        let decoys = decoys();
        let hex: String = WORD.bytes().map(|byte| format!("{byte:02x}")).collect();
        let escaped: String = WORD.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let json: String = WORD.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
        let backwards: String = WORD.chars().rev().collect();
        let base = String::from_utf8(base_32(format!("xy{WORD}").as_bytes())).unwrap();
        let rows = STANDARD.encode(format!("some text {WORD} and more"));
        let lines: String = WORD.chars().flat_map(|letter| [letter, '\n']).collect();
        let unseen: String =
            WORD.bytes().map(|byte| char::from_u32(0xe0000 + u32::from(byte)).unwrap()).collect();
        let wide: String = WORD.chars().flat_map(|letter| [letter, '\0']).collect();
        let [alone, among] = packed();
        let packed_64 = STANDARD.encode([&[0x1f, 0x8b, 8, 0][..], &alone].concat());
        let packed_32 = String::from_utf8(base_32(&among)).unwrap();
        let packed_16: String = alone.iter().map(|byte| format!("{byte:02x}")).collect();
        for text in [
            WORD.to_owned(),
            WORD.to_uppercase(),
            hex,
            escaped,
            json,
            backwards,
            base,
            rows,
            lines,
            unseen,
            wide,
            packed_64,
            packed_32,
            packed_16,
        ] {
            let parts: Vec<&str> =
                text.as_bytes().chunks(12).map(|part| str::from_utf8(part).unwrap()).collect();
            for between in ["", ".", "\n", "\r\n ", ":"] {
                assert_eq!(
                    decoys.within(parts.join(between).as_bytes()),
                    Some("TOKEN"),
                    "{text} {between:?}"
                );
            }
            let mut scan = decoys.scan();
            let found = text.as_bytes().chunks(5).find_map(|part| scan.look(part));
            assert_eq!(found, Some("TOKEN"), "{text}");
        }
    }

    /// The decoy by itself, and with words around it, as zlib packs them; what stands before and after is left out.
    fn packed() -> [Vec<u8>; 2] {
        let bytes = |hex: &str| {
            let digits = hex.as_bytes().chunks(2).map(|two| str::from_utf8(two).unwrap());
            digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect()
        };
        let alone = "4bcf28884f74324e71354df730cff2b6ccf5332c08342e0e312d0b37af8cb24c72364c71334ef7300500";
        let among = "2b49cc4e5528c9c82cb65248cf28884f74324e71354df730cff2b6ccf5332c08342e0e312d0b37af8cb24c72364c71334ef730d55148cc4b5148cfe70200";
        [alone, among].map(bytes)
    }

    #[test]
    fn sec_19_a_decoy_that_was_packed_by_itself_is_known_in_its_bytes() {
        let decoys = decoys();
        for packed in packed() {
            let whole = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3], packed.as_slice(), &[7; 8]].concat();
            assert_eq!(decoys.within(&whole), Some("TOKEN"));
            let mut scan = decoys.scan();
            assert_eq!(whole.chunks(3).find_map(|part| scan.look(part)), Some("TOKEN"));
            assert_eq!(decoys.within(&whole[..20]), None);
        }
    }

    #[test]
    fn sec_19_honest_texts_have_none() {
        let decoys = decoys();
        let long = "a-very-long-name-of-a-bucket.s3.eu-central-1.amazonaws.com";
        for honest in ["api.github.com", "registry.npmjs.org", long, &"x".repeat(10_000)] {
            assert_eq!(decoys.within(honest.as_bytes()), None);
        }
        assert_eq!(decoys.within(&[0; 1000]), None);
        assert_eq!(Decoys::default().within(WORD.as_bytes()), None);
    }
}
