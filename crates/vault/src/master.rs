//! Turns text into a [`MasterKey`], or says why it is not one.
//!
//! Invariant: a key that a person could have typed or copied from an example is refused. The test is
//! on shape (length, variety, regular steps, readable text), so it cannot prove randomness; it makes
//! the common mistakes impossible.
//!
//! Not here: where the text comes from ([`crate::source`]).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use crate::passphrase::MIN_PASSPHRASE;
use crate::{Secret, Stretch};

/// Fewest bytes of a master key.
pub(crate) const MIN_BYTES: usize = 32;
/// Most characters that are looked at.
pub(crate) const MAX_TEXT: usize = 4096;
/// Fewest different values among a random key's bytes and among their steps (32 random bytes have 30).
const MIN_VARIETY: usize = 16;
/// Steps between bytes this far apart are looked at, to see counting patterns.
const LAGS: std::ops::RangeInclusive<usize> = 1..=4;
/// Words of at least eight letters, so that a random key contains one less than once in 10^8 keys.
const PLACEHOLDERS: [&str; 10] = [
    "changeme",
    "change-me",
    "change_me",
    "placeholder",
    "replaceme",
    "replace_",
    "password",
    "insecure",
    "yoursecret",
    "deadbeef",
];

/// The one secret every other key is derived from: at least 32 random bytes.
#[derive(Debug)]
pub struct MasterKey {
    bytes: Secret<Vec<u8>>,
    /// How it was made from a passphrase, if it was.
    stretch: Option<Stretch>,
}

/// Why a text is not a master key. No variant repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// There is no text.
    #[error("the key is empty; make one with `openssl rand -base64 32`")]
    Empty,
    /// More text than any key needs.
    #[error("the key is longer than {MAX_TEXT} characters")]
    TooLong,
    /// Neither encoding fits.
    #[error("the key is neither hex nor base64; make one with `openssl rand -base64 32`")]
    NotEncoded,
    /// Fewer than 32 bytes.
    #[error("the key has fewer than {MIN_BYTES} bytes; make one with `openssl rand -base64 32`")]
    TooShort,
    /// An example, or readable text in disguise.
    #[error("the key is a placeholder or readable text; make one with `openssl rand -base64 32`")]
    Placeholder,
    /// Repeated or counted bytes.
    #[error("the key is not random; make one with `openssl rand -base64 32`")]
    LowVariety,
    /// A passphrase that could be guessed.
    #[error(
        "the passphrase has fewer than {MIN_PASSPHRASE} characters or too few different ones; take six random words or more"
    )]
    WeakPassphrase,
    /// A passphrase that everybody would try.
    #[error(
        "the passphrase is made of words that everybody would try first, or repeats itself; take six random words or more"
    )]
    CommonPassphrase,
    /// There is no memory for Argon2id.
    #[error("no key could be made from the passphrase on this machine; Argon2id needs 64 MiB")]
    Stretching,
}

impl MasterKey {
    /// Parses hex or base64 (standard or URL alphabet, padded or not); surrounding whitespace is ignored.
    ///
    /// # Errors
    /// [`BadKey`] when the text is not an encoding of at least 32 bytes that look random.
    pub fn from_hex_or_base64(text: &str) -> Result<Self, BadKey> {
        let text = text.trim();
        if text.is_empty() {
            return Err(BadKey::Empty);
        }
        if text.len() > MAX_TEXT {
            return Err(BadKey::TooLong);
        }
        let lower = Zeroizing::new(text.to_ascii_lowercase());
        if PLACEHOLDERS.iter().any(|word| lower.contains(word)) {
            return Err(BadKey::Placeholder);
        }
        Self::from_bytes(decode(text)?)
    }

    /// A new key from the operating system's random source.
    ///
    /// # Errors
    /// When the operating system has no randomness to give.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = Zeroizing::new(vec![0; MIN_BYTES]);
        getrandom::fill(&mut bytes)?;
        Ok(Self { bytes: Secret::new(std::mem::take(&mut *bytes)), stretch: None })
    }

    /// The one spelling we write: padded standard base64.
    #[must_use]
    pub fn to_base64(&self) -> Secret<String> {
        Secret::new(STANDARD.encode(self.bytes()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.expose()
    }

    /// How it was made from a passphrase, if it was.
    pub(crate) fn stretch(&self) -> Option<&Stretch> {
        self.stretch.as_ref()
    }

    pub(crate) fn stretched_by(self, stretch: Option<Stretch>) -> Self {
        Self { stretch, ..self }
    }

    /// Bytes that were a key before; they were looked at then.
    pub(crate) fn again(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= MIN_BYTES).then(|| Self { bytes: Secret::new(bytes.to_vec()), stretch: None })
    }

    fn from_bytes(bytes: Secret<Vec<u8>>) -> Result<Self, BadKey> {
        let raw = bytes.expose();
        if raw.len() < MIN_BYTES {
            return Err(BadKey::TooShort);
        }
        if variety(raw.iter().copied()) < MIN_VARIETY || LAGS.clone().any(|lag| steps(raw, lag) < MIN_VARIETY)
        {
            return Err(BadKey::LowVariety);
        }
        // 32 random bytes are all printable once in 10^13 keys; encoded prose always is.
        if raw.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) {
            return Err(BadKey::Placeholder);
        }
        Ok(Self { bytes, stretch: None })
    }
}

/// Hex when every character is a hex digit, else base64: 48 hex digits are 24 bytes, never 36.
fn decode(text: &str) -> Result<Secret<Vec<u8>>, BadKey> {
    if text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return hex::decode(text).map(Secret::new).map_err(|_| BadKey::NotEncoded);
    }
    let engines = [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD];
    let bytes = engines.into_iter().find_map(|engine| engine.decode(text).ok());
    bytes.map(Secret::new).ok_or(BadKey::NotEncoded)
}

fn variety(bytes: impl Iterator<Item = u8>) -> usize {
    let mut seen = [false; 256];
    for byte in bytes {
        if let Some(slot) = seen.get_mut(usize::from(byte)) {
            *slot = true;
        }
    }
    seen.iter().filter(|seen| **seen).count()
}

fn steps(bytes: &[u8], lag: usize) -> usize {
    variety(bytes.iter().zip(bytes.iter().skip(lag)).map(|(a, b)| b.wrapping_sub(*a)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    #[test]
    fn hex_and_base64_name_the_same_key() {
        let key = MasterKey::from_hex_or_base64(HEX).unwrap();
        let bytes = hex::decode(HEX).unwrap();
        assert_eq!(key.bytes(), bytes);
        for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
            let text = format!("  {}\n", engine.encode(&bytes));
            assert_eq!(MasterKey::from_hex_or_base64(&text).unwrap().bytes(), bytes, "{text}");
        }
        assert_eq!(MasterKey::from_hex_or_base64(&HEX.to_uppercase()).unwrap().bytes(), bytes);
        assert_eq!(MasterKey::from_hex_or_base64(key.to_base64().expose()).unwrap().bytes(), bytes);
    }

    #[test]
    fn sec_02_a_guessable_key_is_refused() {
        let prose = STANDARD.encode("my very long passphrase that nobody knows 123");
        let counting: String = (0..32).map(|n| format!("{n:02x}")).collect();
        let cases: &[(&str, BadKey)] = &[
            ("", BadKey::Empty),
            (" \n", BadKey::Empty),
            ("hunter2", BadKey::NotEncoded),
            ("correct horse battery staple correct horse battery staple", BadKey::NotEncoded),
            ("c2hvcnQ=", BadKey::TooShort),
            (HEX.split_at(48).0, BadKey::TooShort), // as base64 it would be 36 bytes
            (HEX.split_at(63).0, BadKey::NotEncoded),
            (&"changeme".repeat(8), BadKey::Placeholder),
            (&"PlaceHolder0".repeat(6), BadKey::Placeholder),
            (&"deadbeef".repeat(8), BadKey::Placeholder),
            (&"0".repeat(64), BadKey::LowVariety),
            (&"a".repeat(64), BadKey::LowVariety),
            (&"0123456789abcdef".repeat(4), BadKey::LowVariety),
            (&counting, BadKey::LowVariety),
            ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", BadKey::LowVariety),
            (&prose, BadKey::Placeholder),
            (&"x".repeat(MAX_TEXT + 1), BadKey::TooLong),
        ];
        for (text, expected) in cases {
            assert_eq!(MasterKey::from_hex_or_base64(text).unwrap_err(), *expected, "{text}");
        }
    }

    #[test]
    fn random_keys_are_accepted() {
        for _ in 0..20_000 {
            let key = MasterKey::random().unwrap();
            let text = key.to_base64();
            assert_eq!(MasterKey::from_hex_or_base64(text.expose()).unwrap().bytes(), key.bytes());
        }
    }
}
