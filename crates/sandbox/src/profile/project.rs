//! Turns a repository's `.palisade/profile.toml` into what it narrows and what it asks for.
//!
//! Invariant: what it narrows is always applied; what it asks for only after a person consented to these very
//! bytes. Not here: where consents are kept (`consent`), how both are applied (`resolve`).

use std::fmt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::document::{self, DocumentError};
use super::draft::Draft;
use super::names::BadText;

/// The SHA-256 of a file's bytes: what a person consents to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// 64 small hexadecimal digits, or why not.
    pub fn parse(text: &str) -> Result<Self, BadText> {
        let mut hash = [0; 32];
        let fits = text.len() == 64
            && !text.bytes().any(|b| b.is_ascii_uppercase())
            && hex::decode_to_slice(text, &mut hash).is_ok();
        if fits {
            Ok(Self(hash))
        } else {
            Err(BadText::expected("a SHA-256 in small hexadecimal digits", text))
        }
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// Something a project would like to have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ask {
    /// The key: `read`, `limits.memory`.
    pub key: String,
    /// The value, as written.
    pub value: String,
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.key, self.value)
    }
}

/// A repository's own profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// Of the file's bytes.
    pub hash: ContentHash,
    /// What it gives up.
    pub narrows: Draft,
    /// What it asks for.
    pub asks: Vec<Ask>,
    /// The same, to be applied.
    pub(super) wants: Draft,
}

impl Project {
    /// Reads the file; the whole of it is refused if anything in it is wrong.
    pub fn parse(bytes: &[u8], file: &Path) -> Result<Self, DocumentError> {
        let document::Parts { narrows, wants, wishes } = document::project(bytes, file)?;
        let asks = wishes.into_iter().map(|(key, value)| Ask { key, value }).collect();
        Ok(Self { hash: ContentHash::of(bytes), narrows, asks, wants })
    }
}
