//! What is trusted, from outside the ledger: public keys, and hashes of checkpoints kept elsewhere.
//!
//! Turns two small files into [`Trust`] and [`Anchors`]. Invariants: keys come from here and nowhere else, so
//! a key inside a bundle means nothing; an unknown field, algorithm or status is refused, not skipped.

use std::collections::BTreeMap;
use std::path::Path;

use ed25519_dalek::{Signature, VerifyingKey};
use serde::{Deserialize, Serialize};

use super::report::Kind;
use crate::checkpoint::{self, Checkpoint};
use crate::entry::from_hex;
use crate::merkle::Hash;

/// Whether a key counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It does, within its validity.
    Active,
    /// It does not, whatever it signed and when: a thief dates as he likes.
    Revoked,
}

/// One key of the trust root, as written in its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedKey {
    /// The id that checkpoints name.
    pub id: String,
    /// `ed25519`.
    pub algorithm: String,
    /// The public key, 64 hex digits.
    pub public: String,
    /// Whether it counts.
    pub status: Status,
    /// First moment of validity, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<i64>,
    /// Last moment of validity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
}

impl TrustedKey {
    /// An active ed25519 key without end.
    #[must_use]
    pub fn active(id: impl Into<String>, public: [u8; 32]) -> Self {
        let algorithm = "ed25519".to_owned();
        Self {
            id: id.into(),
            algorithm,
            public: hex::encode(public),
            status: Status::Active,
            from: None,
            until: None,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustFile {
    keys: Vec<TrustedKey>,
}

/// The keys whose signatures count. Empty means that nothing can be verified.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    keys: BTreeMap<String, (TrustedKey, VerifyingKey)>,
}

/// Why a trust root or anchor file was refused.
#[derive(Debug, thiserror::Error)]
pub enum BadTrust {
    /// Not the expected JSON.
    #[error("the trust root is not of the form {{\"keys\":[{{id, algorithm, public, status}}]}}")]
    Json(#[from] serde_json::Error),
    /// The algorithm is not supported.
    #[error("key `{id}`: algorithm `{algorithm}` is not supported; use `ed25519`")]
    Algorithm {
        /// The key.
        id: String,
        /// What it says.
        algorithm: String,
    },
    /// Not a usable public key.
    #[error("key `{0}`: not an ed25519 public key in lower-case hex")]
    Key(String),
    /// The same id twice.
    #[error("key `{0}` is there twice")]
    Twice(String),
    /// A line of the anchor file is not one.
    #[error("anchor line {0}: expected `<number> <sha256> [<milliseconds>]`")]
    Anchor(usize),
}

impl Trust {
    /// Reads a trust root: `{"keys":[{"id":..,"algorithm":"ed25519","public":..,"status":"active"}]}`.
    pub fn from_json(bytes: &[u8]) -> Result<Self, BadTrust> {
        let file: TrustFile = serde_json::from_slice(bytes)?;
        Self::from_keys(file.keys)
    }

    /// A trust root of these keys.
    pub fn from_keys(list: impl IntoIterator<Item = TrustedKey>) -> Result<Self, BadTrust> {
        let mut keys = BTreeMap::new();
        for key in list {
            if key.algorithm != "ed25519" {
                return Err(BadTrust::Algorithm { id: key.id, algorithm: key.algorithm });
            }
            let public = from_hex::<32>(key.public.as_bytes());
            let public =
                public.and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok()).filter(|key| !key.is_weak());
            let Some(public) = public else { return Err(BadTrust::Key(key.id)) };
            if let Some((twice, _)) = keys.insert(key.id.clone(), (key, public)) {
                return Err(BadTrust::Twice(twice.id));
            }
        }
        Ok(Self { keys })
    }

    /// The file that [`Trust::from_json`] reads.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(&TrustFile {
            keys: self.keys.values().map(|(key, _)| key.clone()).collect(),
        })
    }

    /// Whether no key is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Checks a record's signature.
    pub(crate) fn check(&self, line: &[u8], record: &Checkpoint) -> Result<(), (Kind, &'static str)> {
        let Checkpoint { key, sig, at, .. } = record;
        self.check_line(line, key, sig, *at, Kind::ForgedCheckpoint)
    }

    /// Checks the signature at the end of a line; `forged` is the word for one that does not fit.
    pub(crate) fn check_line(
        &self,
        line: &[u8],
        key: &str,
        sig: &str,
        at: i64,
        forged: Kind,
    ) -> Result<(), (Kind, &'static str)> {
        let misfit = (forged, "the signature does not fit");
        if sig.is_empty() {
            return Err((Kind::Unsigned, "it has no signature"));
        }
        let Some((key, public)) = self.keys.get(key) else {
            return Err((Kind::WrongKey, "the trust root does not know the key"));
        };
        let (covered, signature) = checkpoint::split(line).ok_or(misfit)?;
        public.verify_strict(covered, &Signature::from_bytes(&signature)).map_err(|_| misfit)?;
        match key.status {
            Status::Revoked => return Err((Kind::RevokedKey, "the key is revoked")),
            Status::Active => {}
        }
        let early = key.from.is_some_and(|from| at < from);
        let late = key.until.is_some_and(|until| at > until);
        if early || late {
            return Err((Kind::ExpiredKey, "signed outside the key's validity"));
        }
        Ok(())
    }
}

/// Whether a file lies inside a directory: whoever made a bundle must not vouch for himself.
#[must_use]
pub fn lies_inside(file: &Path, dir: &Path) -> bool {
    match (file.canonicalize(), dir.canonicalize()) {
        (Ok(file), Ok(dir)) => file.starts_with(dir),
        _ => false,
    }
}

/// Hashes of records, kept where we cannot change them.
#[derive(Clone, Debug, Default)]
pub struct Anchors {
    pub(crate) list: BTreeMap<u64, Anchor>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    pub(crate) hash: Hash,
    pub(crate) at: Option<i64>,
}

impl Anchors {
    /// Reads lines of `<number> <sha256> [<milliseconds>]`; of two for one number the first counts.
    pub fn from_lines(text: &str) -> Result<Self, BadTrust> {
        let mut list = BTreeMap::new();
        for (place, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let bad = || BadTrust::Anchor(place.saturating_add(1));
            let mut words = line.split_ascii_whitespace();
            let number: u64 = words.next().and_then(|word| word.parse().ok()).ok_or_else(bad)?;
            let hash = words.next().and_then(|word| from_hex(word.as_bytes())).ok_or_else(bad)?;
            let at = words.next().map(str::parse).transpose().map_err(|_| bad())?;
            if words.next().is_some() {
                return Err(bad());
            }
            list.entry(number).or_insert(Anchor { hash, at });
        }
        Ok(Self { list })
    }
}
