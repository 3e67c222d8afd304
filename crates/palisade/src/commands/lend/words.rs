//! Words that stand for secrets: the shape of a value and chance -> a word.
//!
//! Agents keep what they take for their key in their home, and look there first the next time: in one home the word for a secret stays the
//! same. Invariants: a word tells nothing of its value but its shape and whose it is; what makes it is beside the home, where nothing
//! inside sees it.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sandbox::receipt::Digest;

use crate::commands::run;
use crate::failure::Failure;

/// The least that has to be guessed of a word.
const LEAST_RANDOM: usize = 20;
/// How values of known services begin; longer ones first. What does not begin so keeps nothing of its own.
const BEGINNINGS: [&str; 17] = [
    "sk-ant-api03-",
    "sk-ant-oat01-",
    "sk-ant-",
    "sk-proj-",
    "sk-svcacct-",
    "sk-or-v1-",
    "sk-",
    "github_pat_",
    "ghp_",
    "gho_",
    "ghs_",
    "glpat-",
    "npm_",
    "pypi-",
    "AIza",
    "xoxb-",
    "hf_",
];

/// Bytes of what the words of a home are made from.
const SEED: usize = 32;

/// Where words come from.
#[derive(Debug, Default)]
pub(in crate::commands) enum Words {
    /// Chance: every run has others.
    #[default]
    New,
    /// What is kept beside a home.
    Kept([u8; SEED]),
}

impl Words {
    /// Those of this home.
    pub(in crate::commands) fn of_home(home: &Path) -> Result<Self, Failure> {
        let mut name = home.file_name().unwrap_or_default().to_owned();
        name.push(".words");
        let file = home.with_file_name(name);
        let kept = run::bytes(&file).map_err(Failure::file(&file))?;
        if let Some(seed) = kept.and_then(|bytes| bytes.try_into().ok()) {
            return Ok(Self::Kept(seed));
        }
        let mut seed = [0; SEED];
        let chance = |error: getrandom::Error| Failure::file(&file)(std::io::Error::other(error));
        getrandom::fill(&mut seed).map_err(chance)?;
        // What was cut off on its way to the disk is of no use.
        let mut options = std::fs::OpenOptions::new();
        let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&file);
        opened.and_then(|mut opened| opened.write_all(&seed)).map_err(Failure::file(&file))?;
        Ok(Self::Kept(seed))
    }

    /// The word for a value that has this name: its beginning, if that says whose it is, and then other letters and digits.
    pub(super) fn of(&self, name: &str, value: &str) -> Result<String, getrandom::Error> {
        let beginning = BEGINNINGS.into_iter().find(|beginning| value.starts_with(beginning));
        let Some(keeps) = beginning.map(str::len) else { return self.plain(name) };
        let random = value.chars().skip(keeps).filter(char::is_ascii_alphanumeric).count();
        if random < LEAST_RANDOM || !value.is_ascii() {
            return self.plain(name);
        }
        let bytes = self.bytes(name, value.len())?;
        let other = |(at, (letter, byte)): (usize, (char, u8))| {
            let of = |first: u8, count: u8| char::from(first + byte % count);
            match letter {
                _ if at < keeps => letter,
                'a'..='z' => of(b'a', 26),
                'A'..='Z' => of(b'A', 26),
                '0'..='9' => of(b'0', 10),
                // Where signs stand tells something too.
                _ => of(b'a', 26),
            }
        };
        Ok(value.chars().zip(bytes).enumerate().map(other).collect())
    }

    /// A word without a shape.
    fn plain(&self, name: &str) -> Result<String, getrandom::Error> {
        Ok(format!("palisade-{}", hex::encode(self.bytes(name, 20)?)))
    }

    fn bytes(&self, name: &str, count: usize) -> Result<Vec<u8>, getrandom::Error> {
        let mut bytes = vec![0; count];
        match self {
            Self::New => getrandom::fill(&mut bytes)?,
            Self::Kept(seed) => {
                for (number, part) in bytes.chunks_mut(SEED).enumerate() {
                    let text = [seed.as_slice(), &number.to_be_bytes(), name.as_bytes()].concat();
                    let made = hex::decode(Digest::of(&text).to_string()).unwrap_or_default();
                    part.iter_mut().zip(made).for_each(|(byte, made)| *byte = made);
                }
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn egr_13_a_word_has_the_shape_of_its_value_and_tells_nothing_of_it() {
        let value = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789_-AbCdAA";
        let word_for = |value: &str| Words::New.of("KEY", value).unwrap();
        let (word, other) = (word_for(value), word_for(value));
        assert_ne!(word, other);
        assert!(word.starts_with("sk-ant-api03-") && word.len() == value.len(), "{word}");
        assert!(!word[13..].contains(['-', '_']), "{word}");
        // Nothing of a value whose service is not known.
        for value in ["550e8400-e29b-41d4-a716-446655440000", "aX9_kQ2-fG7h_aX9_kQ2-fG7haX9_kQ2-fG7h"] {
            assert!(word_for(value).starts_with("palisade-"));
        }
        // Too little of this one could be other than it is.
        assert!(word_for("sk-ant-api03-short").starts_with("palisade-"));
        assert!(word_for("pass word with spaces, ä").starts_with("palisade-"));
    }

    #[test]
    fn egr_13_in_one_home_the_word_for_a_secret_stays_and_in_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let value = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789_-AbCdAA";
        let of = |home: &str, name: &str, value: &str| {
            Words::of_home(&folder.path().join(home)).unwrap().of(name, value).unwrap()
        };
        let word = of("a", "KEY", value);
        assert_eq!(word, of("a", "KEY", value));
        assert_ne!(word, of("b", "KEY", value));
        assert_ne!(word, of("a", "OTHER", value));
        // It says nothing of a value that another has in the same shape.
        let twin = "sk-ant-api03-ZbCdEfGhIjKlMnOpQrStUvWxYz9876543210_-AbCdAA";
        assert_eq!(word, of("a", "KEY", twin));
        assert!(of("a", "KEY", "no shape at all").starts_with("palisade-"));
        let file = folder.path().join("a.words");
        std::fs::write(&file, "short").unwrap();
        assert_ne!(word, of("a", "KEY", value));
    }
}
