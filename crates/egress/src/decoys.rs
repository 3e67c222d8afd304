//! Decoys on their way out: in names that a sandbox asks for, and in what it sends. Whoever carries one is a thief.
//!
//! Letters and digits count, without regard to case or to what stands between them, so a decoy is known in rows, with signs
//! between, in base 64, 32 and 16, escaped, backwards, in characters that nobody sees, and by a piece of it.

use std::collections::HashMap;

use crate::writings;

/// As much of a decoy as is found, wherever it is cut.
const PIECE: usize = 16;

/// Pieces of decoys in many writings, and whose they are.
#[derive(Debug, Default)]
pub struct Decoys {
    pieces: HashMap<[u8; PIECE], String>,
}

impl Decoys {
    /// Of these names and texts.
    #[must_use]
    pub fn new<'a>(all: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut pieces = HashMap::new();
        for (name, text) in all {
            for writing in writings::known_bare(text.as_bytes()) {
                for piece in bare(&writing).collect::<Vec<u8>>().windows(PIECE) {
                    if let Ok(piece) = <[u8; PIECE]>::try_from(piece) {
                        pieces.insert(piece, name.to_owned());
                    }
                }
            }
        }
        Self { pieces }
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
        if self.pieces.is_empty() {
            return None;
        }
        for byte in bytes {
            let Some(byte) = trace.unseen.read(*byte).and_then(letter) else { continue };
            trace.last.rotate_left(1);
            trace.last[PIECE - 1] = byte;
            trace.seen = trace.seen.saturating_add(1);
            if trace.seen >= PIECE
                && let Some(name) = self.pieces.get(&trace.last)
            {
                return Some(name);
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

/// What has passed by so far.
#[derive(Debug, Default)]
pub struct Trace {
    /// The last letters and digits.
    last: [u8; PIECE],
    seen: usize,
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

    #[test]
    fn sec_19_honest_texts_have_none() {
        let decoys = decoys();
        let long = "a-very-long-name-of-a-bucket.s3.eu-central-1.amazonaws.com";
        for honest in ["api.github.com", "registry.npmjs.org", long, &"x".repeat(10_000)] {
            assert_eq!(decoys.within(honest.as_bytes()), None);
        }
        assert_eq!(Decoys::default().within(WORD.as_bytes()), None);
    }
}
