//! Turns a passphrase into a [`MasterKey`], by Argon2id.
//!
//! Flow: a passphrase and a [`Stretch`] -> [`MasterKey::from_passphrase`]; [`Master`] is either. The stretch is public and stands in front of the
//! ring that the key seals, so wherever the ring is, also in a backup, the passphrase alone opens it.
//!
//! Invariants: a new ring has a salt of its own and costs of at least [`MEMORY_KIB`] and [`PASSES`]; a ring cannot ask for
//! less, nor for so much that a start hangs. Not here: where a passphrase comes from.

use std::fmt;
use std::str::FromStr;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use zeroize::Zeroizing;

use crate::{BadKey, KeyRing, MasterKey, RingError, SealError, Secret};

/// Fewest characters of a passphrase.
pub(crate) const MIN_PASSPHRASE: usize = 20;
/// Fewest different characters in it.
const MIN_DIFFERENT: usize = 8;
const MAX_PASSPHRASE: usize = 1_024;

const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 8;
const LANES: u32 = 1;
/// What a ring may ask for: a planted one must not hang a start.
const MOST: (u32, u32, u32) = (256 * 1024, 16, 4);
const SALT: usize = 16;

/// What opens a ring, as it was given: a key, or a passphrase that becomes one with the ring's own salt.
#[derive(Debug)]
pub enum Master {
    /// A key.
    Key(MasterKey),
    /// A passphrase.
    Passphrase(Secret<String>),
}

impl Master {
    /// Opens a ring that was kept.
    ///
    /// # Errors
    /// [`RingError`] when it is no ring, or sealed under another master or one of another kind.
    pub fn open(&self, kept: &[u8]) -> Result<KeyRing, RingError> {
        match (self, KeyRing::stretch_of(kept)?) {
            (Self::Key(key), None) => KeyRing::read(kept, key),
            (Self::Passphrase(text), Some(stretch)) => {
                KeyRing::read(kept, &MasterKey::from_passphrase(text.expose(), &stretch)?)
            }
            (Self::Key(_), Some(_)) => Err(RingError::OtherKind { sealed: "a passphrase", given: "a key" }),
            (Self::Passphrase(_), None) => {
                Err(RingError::OtherKind { sealed: "a key", given: "a passphrase" })
            }
        }
    }

    /// A new ring under it, with a root of its own; it is to be kept before it is used.
    ///
    /// # Errors
    /// [`RingError`] when no keys could be made, or the passphrase is weak.
    pub fn make_ring(&self) -> Result<KeyRing, RingError> {
        match self {
            Self::Key(key) => KeyRing::with_own_root(key),
            Self::Passphrase(text) => KeyRing::with_own_root(&stretched(text)?),
        }
    }

    /// The key that seals a ring from now on: this one, or what the passphrase makes with a new salt.
    ///
    /// # Errors
    /// [`RingError`] when the passphrase is weak or no salt could be made.
    pub fn into_next(self) -> Result<MasterKey, RingError> {
        match self {
            Self::Key(key) => Ok(key),
            Self::Passphrase(text) => stretched(&text),
        }
    }
}

/// Only what is new is looked at so closely: whoever has a weak one must still get in to change it.
fn stretched(text: &Secret<String>) -> Result<MasterKey, RingError> {
    if is_guessable(shaped(text.expose())?) {
        return Err(BadKey::CommonPassphrase.into());
    }
    let stretch = Stretch::fresh().map_err(SealError::from)?;
    Ok(MasterKey::from_passphrase(text.expose(), &stretch)?)
}

/// The text itself, if it has the shape of a passphrase.
fn shaped(text: &str) -> Result<&str, BadKey> {
    let text = text.trim();
    if text.is_empty() {
        return Err(BadKey::Empty);
    }
    if text.len() > MAX_PASSPHRASE {
        return Err(BadKey::TooLong);
    }
    let is_short = text.chars().count() < MIN_PASSPHRASE || !is_varied(text.chars());
    if is_short { Err(BadKey::WeakPassphrase) } else { Ok(text) }
}

/// Whether there are enough different characters. It stops at enough, so what was seen is never moved.
fn is_varied(text: impl Iterator<Item = char>) -> bool {
    let mut seen = Zeroizing::new(Vec::with_capacity(MIN_DIFFERENT));
    for character in text {
        if !seen.contains(&character) {
            seen.push(character);
        }
        if seen.len() == MIN_DIFFERENT {
            return true;
        }
    }
    false
}

/// What everybody would try first, without what is between its words.
const COMMON: [&str; 39] = [
    "correcthorsebatterystaple",
    "thequickbrownfoxjumpsoverthelazydog",
    "loremipsumdolorsitamet",
    "opensesame",
    "iloveyou",
    "changethis",
    "changeme",
    "replaceme",
    "placeholder",
    "deadbeef",
    "administrator",
    "palisaded",
    "palisade",
    "passphrase",
    "passwords",
    "password",
    "passw0rd",
    "p4ssw0rd",
    "passwort",
    "passcode",
    "encryption",
    "production",
    "default",
    "example",
    "insecure",
    "welcome",
    "monkey",
    "dragon",
    "secret",
    "master",
    "server",
    "daemon",
    "please",
    "vault",
    "admin",
    "login",
    "super",
    "your",
    "test",
];
/// Keys that lie beside each other, and what is counted: runs along them are no choice.
const ROWS: [&str; 6] =
    ["1234567890", "qwertyuiop", "qwertzuiop", "asdfghjkl", "zxcvbnm", "abcdefghijklmnopqrstuvwxyz"];
const RUN: usize = 4;
/// Fewest letters and digits that are left when all that counts for nothing is gone.
const MIN_OWN: usize = 14;

/// Whether too little is left of a passphrase when what everybody tries first, words that come again, repetitions and
/// runs along the keyboard count for nothing.
fn is_guessable(text: &str) -> bool {
    // Lower-case letters take at most three bytes for two.
    let mut lower = room(2 * text.len());
    lower.extend(text.chars().flat_map(char::to_lowercase));
    let (mut whole, mut once) = (room(lower.len()), room(lower.len()));
    let mut words: Vec<&str> = Vec::new();
    for word in lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        whole.push_str(word);
        if !words.contains(&word) {
            words.push(word);
            once.push_str(word);
        }
    }
    // A sentence may have a word twice; it is known all the same.
    is_poor(whole) || is_poor(once)
}

/// Room for all of it up front, so that nothing is moved and left behind.
fn room(bytes: usize) -> Zeroizing<String> {
    Zeroizing::new(String::with_capacity(bytes))
}

fn is_poor(mut text: Zeroizing<String>) -> bool {
    for common in COMMON {
        let mut rest = room(text.len());
        for (at, part) in text.split(common).enumerate() {
            // A mark, so that what stood on either side does not become a word.
            rest.push_str(if at > 0 { " " } else { "" });
            rest.push_str(part);
        }
        text = rest;
    }
    let mut all = Zeroizing::new(Vec::with_capacity(text.len()));
    all.extend(text.chars());
    let own = once(&all);
    let mut left = Zeroizing::new(Vec::with_capacity(own.len()));
    let mut at = 0;
    while let Some(character) = own.get(at) {
        let run = run_at(own.get(at..).unwrap_or_default());
        if run < RUN && character.is_alphanumeric() {
            left.push(*character);
        }
        at += if run < RUN { 1 } else { run };
    }
    left.len() < MIN_OWN || !is_varied(left.iter().copied())
}

/// The part that a text repeats, if it is nothing but that part again and again; else all of it.
fn once(text: &[char]) -> &[char] {
    let repeats = |part: &usize| text.iter().zip(text.iter().skip(*part)).all(|(a, b)| a == b);
    let part = (1..=text.len() / 2).find(repeats).unwrap_or(text.len());
    text.get(..part).unwrap_or(text)
}

/// How many characters from the first on lie beside each other on a keyboard or in the alphabet, either way.
fn run_at(text: &[char]) -> usize {
    let along = |row: &str| {
        let place = |c: &char| row.chars().position(|key| key == *c);
        let follows = |step: isize| {
            let pairs = text.iter().zip(text.iter().skip(1));
            let beside = |(a, b): &(&char, &char)| {
                place(a).zip(place(b)).is_some_and(|(a, b)| a.checked_add_signed(step) == Some(b))
            };
            1 + pairs.take_while(beside).count()
        };
        follows(1).max(follows(-1))
    };
    ROWS.into_iter().map(along).max().unwrap_or(1)
}

/// How a passphrase becomes a key: costs, and a salt. Public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    salt: [u8; SALT],
}

/// A text that is no [`Stretch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the costs and the salt of a passphrase")]
pub struct BadStretch;

impl Stretch {
    /// The costs of now, with a new salt.
    ///
    /// # Errors
    /// When the operating system has no randomness to give.
    pub fn fresh() -> Result<Self, getrandom::Error> {
        let mut salt = [0; SALT];
        getrandom::fill(&mut salt)?;
        Ok(Self { memory_kib: MEMORY_KIB, passes: PASSES, lanes: LANES, salt })
    }
}

impl fmt::Display for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "argon2id {} {} {} ", self.memory_kib, self.passes, self.lanes)?;
        self.salt.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Stretch {
    type Err = BadStretch;

    fn from_str(text: &str) -> Result<Self, BadStretch> {
        let mut words = text.split(' ');
        if words.next() != Some("argon2id") {
            return Err(BadStretch);
        }
        let mut number = |least: u32, most: u32| {
            let number = words.next().and_then(|word| word.parse().ok());
            number.filter(|number| (least..=most).contains(number)).ok_or(BadStretch)
        };
        let memory_kib = number(MEMORY_KIB, MOST.0)?;
        let passes = number(PASSES, MOST.1)?;
        let lanes = number(LANES, MOST.2)?;
        let mut salt = [0; SALT];
        let word = words.next().ok_or(BadStretch)?;
        hex::decode_to_slice(word, &mut salt).map_err(|_| BadStretch)?;
        let parsed = Self { memory_kib, passes, lanes, salt };
        // There is one way to write it.
        if parsed.to_string() == text { Ok(parsed) } else { Err(BadStretch) }
    }
}

impl MasterKey {
    /// The key that a passphrase makes; surrounding whitespace is ignored.
    ///
    /// # Errors
    /// [`BadKey`] when it is too easily guessed, or this machine cannot do it.
    pub fn from_passphrase(text: &str, stretch: &Stretch) -> Result<Self, BadKey> {
        let text = shaped(text)?;
        let Stretch { memory_kib, passes, lanes, salt } = *stretch;
        let mut bytes = Zeroizing::new([0; 32]);
        let params = Params::new(memory_kib, passes, lanes, Some(32)).map_err(|_| BadKey::Stretching)?;
        let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        // Whoever has what it worked in has the key.
        let mut work = Zeroizing::new(Vec::new());
        let blocks = argon.params().block_count();
        work.try_reserve_exact(blocks).map_err(|_| BadKey::Stretching)?;
        work.resize(blocks, Block::default());
        let made =
            argon.hash_password_into_with_memory(text.as_bytes(), &salt, &mut *bytes, work.as_mut_slice());
        made.map_err(|_| BadKey::Stretching)?;
        let key = Self::again(&*bytes).ok_or(BadKey::Stretching)?;
        Ok(key.stretched_by(Some(*stretch)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHRASE: &str = "copper lantern orbit velvet quiet harbour";

    #[test]
    fn sec_02_a_passphrase_makes_the_same_key_with_the_same_salt_and_another_with_another() {
        let (one, other) = (Stretch::fresh().unwrap(), Stretch::fresh().unwrap());
        let key = MasterKey::from_passphrase(PHRASE, &one).unwrap();
        let again = MasterKey::from_passphrase(&format!(" {PHRASE}\n"), &one).unwrap();
        assert_eq!(key.bytes(), again.bytes());
        assert_ne!(key.bytes(), MasterKey::from_passphrase(PHRASE, &other).unwrap().bytes());
        assert_ne!(key.bytes(), MasterKey::from_passphrase(&PHRASE.to_uppercase(), &one).unwrap().bytes());
        assert_eq!(one.to_string().parse::<Stretch>().unwrap(), one);
    }

    #[test]
    fn sec_02_the_key_is_that_of_argon2id() {
        // Computed by OpenSSL's Argon2id, through Python's `cryptography`.
        let stretch: Stretch = "argon2id 65536 8 1 000102030405060708090a0b0c0d0e0f".parse().unwrap();
        let key = MasterKey::from_passphrase(PHRASE, &stretch).unwrap();
        assert_eq!(
            hex::encode(key.bytes()),
            "e9a43bff8ccd404ca90a5139ca0499e4811511deb612e36ff621a9b6b6735f13"
        );
    }

    #[test]
    fn sec_02_a_passphrase_that_could_be_guessed_is_refused() {
        let stretch = Stretch::fresh().unwrap();
        for (text, expected) in [
            ("", BadKey::Empty),
            (" \n", BadKey::Empty),
            ("hunter2", BadKey::WeakPassphrase),
            ("correct horse", BadKey::WeakPassphrase),
            (&"ab ".repeat(20), BadKey::WeakPassphrase),
            (&"x".repeat(MAX_PASSPHRASE + 1), BadKey::TooLong),
        ] {
            assert_eq!(MasterKey::from_passphrase(text, &stretch).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn sec_02_a_new_passphrase_that_everybody_would_try_is_refused() {
        for bad in [
            "correct horse battery staple",
            "Correct-Horse-Battery-Staple!",
            "correct horse battery staple correct horse battery staple",
            "changeme changeme changeme",
            "passwordpassword1234",
            "palisade-master-passphrase",
            "my secret palisade password 2026",
            "qwertyuiopasdfghjklzxcvbnm",
            "abcdefghijklmnopqrstuvwxyz",
            "zyxwvutsrqponmlkjihgfedcba",
            "12345678901234567890 password",
            "lantern orbit lantern orbit",
            "orbitcopperorbitcopperorbitcopper",
            "the quick brown fox jumps over the lazy dog",
        ] {
            let made = Master::Passphrase(Secret::new(bad.to_owned())).make_ring();
            assert!(matches!(made, Err(RingError::Master(BadKey::CommonPassphrase))), "{bad}: {made:?}");
        }
        for good in [
            PHRASE,
            "seven maple ladders under a grey evening",
            "palisade copper lantern orbit velvet",
            "fünf Ähren über grünen Äckern",
            "q7Rk2mZpX9vLt4WbN8cH",
        ] {
            assert!(!is_guessable(good), "{good}");
        }
    }

    #[test]
    fn sec_02_random_passphrases_are_accepted() {
        for _ in 0..2_000 {
            let key = MasterKey::random().unwrap();
            let text = key.to_base64();
            assert!(!is_guessable(text.expose().get(..24).unwrap()), "{}", text.expose());
        }
    }

    #[test]
    fn sec_02_whoever_has_a_weak_passphrase_still_gets_in() {
        let weak = "correct horse battery staple";
        let key = MasterKey::from_passphrase(weak, &Stretch::fresh().unwrap()).unwrap();
        let ring = KeyRing::with_own_root(&key).unwrap();
        let master = Master::Passphrase(Secret::new(weak.to_owned()));
        assert!(master.open(&ring.kept().unwrap()).is_ok());
        assert!(master.into_next().is_err(), "and takes another");
    }

    #[test]
    fn sec_02_a_ring_cannot_ask_for_less_or_for_far_too_much() {
        let salt = "00112233445566778899aabbccddeeff";
        for (costs, good) in [
            ("argon2id 65536 8 1", true),
            ("argon2id 262144 16 4", true),
            ("argon2id 262145 16 4", false),
            ("argon2id 262144 17 4", false),
            ("argon2id 262144 16 5", false),
            ("argon2id 65535 8 1", false),
            ("argon2id 65536 7 1", false),
            ("argon2id 65536 8 0", false),
            ("argon2id 4194304 8 1", false),
            ("argon2id 65536 1000 1", false),
            ("argon2i 65536 8 1", false),
            ("argon2id 065536 8 1", false),
            ("", false),
        ] {
            assert_eq!(format!("{costs} {salt}").parse::<Stretch>().is_ok(), good, "{costs}");
        }
        for bad in ["argon2id 65536 8 1", "argon2id 65536 8 1 00", "argon2id 65536 8 1 zz"] {
            assert_eq!(bad.parse::<Stretch>().unwrap_err(), BadStretch);
        }
    }
}
