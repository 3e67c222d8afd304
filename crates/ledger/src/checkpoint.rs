//! Turns the state of the chain into a signed line of `checkpoints.jsonl`, and back.
//!
//! Two kinds of record share one numbered, hash-linked file: a checkpoint (this much of this segment is
//! there) and a retention record (these segments were dropped on purpose). Invariant: the signature covers
//! the exact stored bytes before `,"sig"`; a record carries what a writer needs to go on (peaks, length, open
//! entries), so that opening reads only what came after it. Not here: whose key counts
//! ([`crate::verify::Trust`]), when one is due ([`crate::writer`]).

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::entry::from_hex;
use crate::keys::{Code, Keys};
use crate::merkle::{Hash, Tree};

/// The file's name inside a ledger directory.
pub(crate) const FILE: &str = "checkpoints.jsonl";
/// The longest record a reader accepts: about [`crate::open::MAX_OPEN`] sequence numbers of 20 digits.
pub(crate) const MAX_RECORD: usize = 128 * 1024;

const SIG_START: &[u8] = b",\"sig\":\"";
const SIG_END: &[u8] = b"\"}";

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// The segment holds these entries.
    Checkpoint,
    /// Everything up to here was dropped by retention.
    Retention,
}

/// One record of the checkpoint file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Version of the format.
    pub v: u8,
    /// What it is about.
    pub kind: RecordKind,
    /// Its number, from 1, without gaps.
    pub n: u64,
    /// SHA-256 of the record before, in hex.
    pub prev: String,
    /// The first segment that is kept.
    pub from: u32,
    /// The segment it covers (of a retention record: the last one dropped).
    pub segment: u32,
    /// The length of that segment in bytes.
    pub bytes: u64,
    /// Entries in the chain so far, dropped ones included.
    pub count: u64,
    /// First entry covered.
    pub first: u64,
    /// Last entry covered.
    pub last: u64,
    /// Merkle root over the covered entries of the segment, in hex.
    pub root: String,
    /// The tree's peaks, in hex.
    pub peaks: Vec<String>,
    /// The code of the last entry, in hex.
    pub head: String,
    /// Entries opened and not yet closed.
    pub open: Vec<u64>,
    /// When, in milliseconds since the epoch, as this machine's clock said.
    pub at: i64,
    /// The signer's id.
    pub key: String,
    /// The signature, in hex.
    #[serde(default, skip_serializing)]
    pub sig: String,
}

impl Checkpoint {
    /// Signs the record and returns its line, without a line feed.
    pub(crate) fn seal(&mut self, keys: &Keys) -> Result<Vec<u8>, serde_json::Error> {
        self.key.clone_from(&keys.signer_id);
        let line = keys.seal_line(serde_json::to_vec(self)?);
        self.sig = split(&line).map(|(_, sig)| hex::encode(sig)).unwrap_or_default();
        Ok(line)
    }

    /// The tree it describes, if its parts agree.
    pub(crate) fn tree(&self) -> Option<Tree> {
        let size = self.last.checked_sub(self.first)?.checked_add(1)?;
        let peaks = self.peaks.iter().map(|hex| from_hex(hex.as_bytes())).collect::<Option<Vec<Hash>>>()?;
        let tree = Tree::from_peaks(size, peaks)?;
        (Some(tree.root()) == from_hex(self.root.as_bytes())).then_some(tree)
    }

    pub(crate) fn head_code(&self) -> Option<Code> {
        from_hex(self.head.as_bytes())
    }
}

impl Keys {
    /// Signs a JSON object: the signature becomes its last field, over all bytes before it.
    pub(crate) fn seal_line(&self, mut line: Vec<u8>) -> Vec<u8> {
        line.pop(); // the closing brace comes back after the signature
        let sig = hex::encode(self.sign(&line));
        line.extend_from_slice(SIG_START);
        line.extend_from_slice(sig.as_bytes());
        line.extend_from_slice(SIG_END);
        line
    }

    /// Whether a record carries our signature. There is one signing key; a record under any other id is not ours.
    pub(crate) fn signed(&self, line: &[u8], record: &Checkpoint) -> bool {
        record.key == self.signer_id
            && split(line).is_some_and(|(covered, signature)| {
                let signature = ed25519_dalek::Signature::from_bytes(&signature);
                self.verifying_key().verify_strict(covered, &signature).is_ok()
            })
    }
}

/// Splits a record's line into the bytes its signature covers and the signature.
pub(crate) fn split(line: &[u8]) -> Option<(&[u8], [u8; 64])> {
    let rest = line.strip_suffix(SIG_END)?;
    let (rest, hex) = rest.split_at_checked(rest.len().checked_sub(128)?)?;
    Some((rest.strip_suffix(SIG_START)?, from_hex(hex)?))
}

/// Reads a record (without its line feed); it may lack a signature.
pub(crate) fn parse(line: &[u8]) -> Option<Checkpoint> {
    if line.len() > MAX_RECORD {
        return None;
    }
    serde_json::from_slice(line).ok().filter(|record: &Checkpoint| record.v == crate::entry::VERSION)
}

/// The hash by which a record is linked and anchored.
pub(crate) fn hash(line: &[u8]) -> Hash {
    Sha256::digest(line).into()
}
