//! Decoys in the names that a sandbox asks for: data can be carried in names, and whoever carries a decoy is a thief.

use std::collections::HashMap;

/// As much of a decoy as is found, wherever it is cut.
const PIECE: usize = 16;
/// The letters of base 32, small.
const BASE_32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Pieces of decoys in the writings that names can carry, and whose they are.
#[derive(Debug, Default)]
pub(crate) struct Decoys {
    pieces: HashMap<[u8; PIECE], String>,
}

impl Decoys {
    /// Of these names and texts.
    pub(crate) fn new<'a>(all: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut pieces = HashMap::new();
        for (name, text) in all {
            for writing in writings(text.as_bytes()) {
                for piece in writing.windows(PIECE) {
                    if let Ok(piece) = <[u8; PIECE]>::try_from(piece) {
                        pieces.insert(piece, name.to_owned());
                    }
                }
            }
        }
        Self { pieces }
    }

    /// Whose decoy a name carries.
    pub(crate) fn within(&self, name: &str) -> Option<&str> {
        if self.pieces.is_empty() {
            return None;
        }
        let bytes: Vec<u8> =
            name.bytes().filter(|byte| *byte != b'.').map(|byte| byte.to_ascii_lowercase()).collect();
        let mut pieces = bytes.windows(PIECE).filter_map(|piece| <[u8; PIECE]>::try_from(piece).ok());
        pieces.find_map(|piece| self.pieces.get(&piece)).map(String::as_str)
    }
}

/// A text as a name can carry it: letters of a name have no case.
fn writings(text: &[u8]) -> Vec<Vec<u8>> {
    let small = |bytes: &[u8]| bytes.to_ascii_lowercase();
    let plain: Vec<u8> = text.iter().copied().filter(|byte| byte.is_ascii_alphanumeric()).collect();
    let backwards: Vec<u8> = text.iter().rev().copied().collect();
    let hex: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut all = vec![small(text), small(&plain), small(&backwards), hex.into_bytes()];
    // Whatever stands before it: of five ways to begin, the middle of each is always the same.
    all.extend((0..5).map(|before| base_32(&[vec![0; before], text.to_vec()].concat())));
    all
}

/// Only whole letters.
fn base_32(bytes: &[u8]) -> Vec<u8> {
    let bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect::<Vec<u8>>();
    let letter = |five: &[u8]| five.iter().fold(0u8, |all, bit| all << 1 | bit);
    bits.chunks_exact(5).filter_map(|five| BASE_32.get(usize::from(letter(five))).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_19_a_decoy_in_a_name_is_known_however_it_is_written() {
        let word = "ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5";
        let decoys = Decoys::new([("TOKEN", word)].into_iter());
        assert_eq!(base_32(b"fooba"), b"mzxw6ytb");
        let hex: String = word.bytes().map(|byte| format!("{byte:02x}")).collect();
        let backwards: String = word.chars().rev().collect();
        let base = String::from_utf8(base_32(format!("xy{word}").as_bytes())).unwrap();
        for text in [word.to_owned(), word.to_uppercase(), hex, backwards, base] {
            let labels: Vec<&str> =
                text.as_bytes().chunks(12).map(|part| str::from_utf8(part).unwrap()).collect();
            let name = format!("{}.evil.test", labels.join("."));
            assert_eq!(decoys.within(&name), Some("TOKEN"), "{name}");
            // A piece of it is enough.
            assert_eq!(decoys.within(&format!("{}.evil.test", &text[4..24])), Some("TOKEN"), "{text}");
        }
        for honest in [
            "api.github.com",
            "registry.npmjs.org",
            "a-very-long-name-of-a-bucket.s3.eu-central-1.amazonaws.com",
        ] {
            assert_eq!(decoys.within(honest), None);
        }
    }
}
