//! Turns a receipt into signed text, and signed text into a receipt that can be relied on.
//!
//! The text is `{"receipt":{..},"key":"..","sig":".."}` and a line feed; the signature (ed25519) covers a label, the
//! key's id and the receipt's exact bytes. Invariants: a text that is not the one way to write its content is
//! refused, so that no byte can change unseen; nothing of a receipt can be read before its signature was checked. Not
//! here: whose key counts (the caller takes it from outside the receipt).

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use super::facts::Digest;
use super::{Receipt, VERSION};

/// The longest text that is looked at.
const MAX_TEXT: usize = 256 * 1024;
/// The length of a key's id.
const KEY_ID: usize = 16;
/// What every signed message begins with: no checkpoint, manifest or other text signed by the same person does.
const LABEL: &[u8] = b"palisade receipt v1\n";

/// Why a receipt was not made or not accepted.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    /// More text than any receipt has.
    #[error("the receipt is longer than {MAX_TEXT} bytes; shorten the command")]
    TooLong,
    /// It could not be written as text.
    #[error("the receipt could not be encoded")]
    Encode(#[source] serde_json::Error),
    /// A version this program does not know.
    #[error("the receipt has version `{0}`, this program knows `{VERSION}`; use a newer one")]
    Version(u64),
    /// No receipt.
    #[error("this is no sealed receipt, or it was changed: see line {line}, column {column}")]
    Malformed {
        /// Where reading ended, from 1.
        line: usize,
        /// The place in that line.
        column: usize,
    },
    /// A receipt, but not written the one way.
    #[error("the receipt was changed after it was sealed: it is not written the way it was")]
    Rewritten,
    /// Another key signed it.
    #[error(
        "the receipt names key `{named}`, and the trusted key is `{given}`; take the key of whoever ran it"
    )]
    OtherKey {
        /// The key it names.
        named: String,
        /// The key it was checked with.
        given: String,
    },
    /// The signature does not fit.
    #[error("the signature does not fit: the receipt is not what was sealed")]
    Forged,
}

/// A signed receipt. What it says is told by [`Sealed::verify`] alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    pub(super) receipt: Receipt,
    bytes: Vec<u8>,
    key: String,
    sig: [u8; 64],
}

/// The text of a sealed receipt.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    receipt: Receipt,
    key: String,
    sig: String,
}

/// The key that signs the receipts of a user's own runs; the ledger's signer is another one.
#[must_use]
pub fn signing_key(seed: &ledger::Seed) -> SigningKey {
    SigningKey::from_bytes(&seed.derive("receipt"))
}

/// The id of a key: 16 hex digits of its hash.
#[must_use]
pub fn key_id(key: &VerifyingKey) -> String {
    Digest::of(key.as_bytes()).to_string().chars().take(KEY_ID).collect()
}

impl Receipt {
    /// Signs the receipt.
    ///
    /// # Errors
    /// [`ReceiptError::TooLong`] if it would not be read back; [`ReceiptError::Version`] if it is not of this version.
    pub fn seal(self, key: &SigningKey) -> Result<Sealed, ReceiptError> {
        if self.version != VERSION {
            return Err(ReceiptError::Version(self.version.into()));
        }
        let bytes = serde_json::to_vec(&self).map_err(ReceiptError::Encode)?;
        let id = key_id(&key.verifying_key());
        let sig = key.sign(&message(&id, &bytes)).to_bytes();
        let sealed = Sealed { receipt: self, bytes, key: id, sig };
        if sealed.to_text().len() > MAX_TEXT { Err(ReceiptError::TooLong) } else { Ok(sealed) }
    }
}

fn message(key: &str, receipt: &[u8]) -> Vec<u8> {
    [LABEL, key.as_bytes(), b"\n", receipt].concat()
}

impl Sealed {
    /// The receipt's bytes, as they were signed.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The signature.
    #[must_use]
    pub fn signature(&self) -> &[u8; 64] {
        &self.sig
    }

    /// The id of the key it names.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The text to store and to hand out; one line.
    #[must_use]
    pub fn to_text(&self) -> String {
        let receipt = String::from_utf8_lossy(&self.bytes); // JSON is UTF-8
        format!("{{\"receipt\":{receipt},\"key\":\"{}\",\"sig\":\"{}\"}}\n", self.key, hex::encode(self.sig))
    }

    /// The hash of the text, signature included: what the ledger names, and what `sha256sum` prints for the file.
    #[must_use]
    pub fn sha256(&self) -> Digest {
        Digest::of(self.to_text().as_bytes())
    }

    /// Reads a text; nothing is proved yet.
    ///
    /// # Errors
    /// [`ReceiptError`] if it is no receipt, or not written the one way.
    pub fn from_text(text: &str) -> Result<Self, ReceiptError> {
        if text.len() > MAX_TEXT {
            return Err(ReceiptError::TooLong);
        }
        let Text { receipt, key, sig } =
            serde_json::from_str(text).map_err(|error| malformed(text, &error))?;
        if receipt.version != VERSION {
            return Err(ReceiptError::Version(receipt.version.into()));
        }
        let bytes = serde_json::to_vec(&receipt).map_err(ReceiptError::Encode)?;
        let mut signature = [0; 64];
        hex::decode_to_slice(&sig, &mut signature).map_err(|_| ReceiptError::Rewritten)?;
        if key.len() != KEY_ID || !key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ReceiptError::Rewritten);
        }
        let sealed = Self { receipt, bytes, key, sig: signature };
        if sealed.to_text() == text { Ok(sealed) } else { Err(ReceiptError::Rewritten) }
    }

    /// Checks the signature and gives the receipt.
    ///
    /// # Errors
    /// [`ReceiptError::OtherKey`] or [`ReceiptError::Forged`].
    pub fn verify(&self, key: &VerifyingKey) -> Result<&Receipt, ReceiptError> {
        let given = key_id(key);
        if self.key != given {
            return Err(ReceiptError::OtherKey { named: self.key.clone(), given });
        }
        let signature = Signature::from_bytes(&self.sig);
        let fits = key.verify_strict(&message(&self.key, &self.bytes), &signature);
        fits.map_err(|_| ReceiptError::Forged)?;
        Ok(&self.receipt)
    }

    /// Reads a text, checks its signature and gives the receipt.
    ///
    /// # Errors
    /// As [`Sealed::from_text`] and [`Sealed::verify`].
    pub fn open(text: &str, key: &VerifyingKey) -> Result<Receipt, ReceiptError> {
        let sealed = Self::from_text(text)?;
        sealed.verify(key)?;
        Ok(sealed.receipt)
    }
}

/// A receipt of a later version may well have other fields: then the version is what to say.
fn malformed(text: &str, error: &serde_json::Error) -> ReceiptError {
    let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let version = value.pointer("/receipt/version").and_then(serde_json::Value::as_u64);
    match version.filter(|version| *version > u64::from(VERSION)) {
        Some(version) => ReceiptError::Version(version),
        // The error's own text would repeat what the receipt says, before anything is proved.
        None => ReceiptError::Malformed { line: error.line(), column: error.column() },
    }
}
