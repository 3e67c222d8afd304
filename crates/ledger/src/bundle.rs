//! Turns a choice of entries into a set of files that proves them elsewhere, without the rest of the ledger.
//!
//! Flow: [`Selection`] -> [`Selected`] (entries, checkpoints, proofs) -> attach [`Input`]s -> [`Bundle`] (files)
//! -> [`Layout`] (a directory, whole or not at all) -> [`crate::verify::verify_bundle`]. Files: `entries.jsonl`
//! (stored lines), `checkpoints.jsonl` (signed lines), `proofs.jsonl` (from the entries to the signed roots),
//! `inputs/<sha256>`, and `manifest.json`, which lists all of them and is signed like a checkpoint.
//!
//! Invariants: there is one way to write each file, so that any changed byte shows; no secret key and no
//! trusted key is in a bundle. An entry names an input by a detail `input:sha256:<hex>`. Not here: the check.

mod layout;
mod pack;
mod select;

use serde::{Deserialize, Serialize};

pub use layout::{Layout, LayoutError};
pub use pack::{Bundle, Input};
pub(crate) use select::select;
pub use select::{BundleError, Selected};

use crate::entry::{self, Entry};

/// The names of a bundle's files.
pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const ENTRIES: &str = "entries.jsonl";
pub(crate) const CHECKPOINTS: &str = crate::checkpoint::FILE;
pub(crate) const PROOFS: &str = "proofs.jsonl";
pub(crate) const INPUTS: &str = "inputs";

/// The most entries of a bundle, and the most bytes of them and of its inputs.
pub(crate) const MAX_ENTRIES: usize = 50_000;
pub(crate) const MAX_ENTRY_BYTES: usize = 32 * 1024 * 1024;
pub(crate) const MAX_INPUT_BYTES: usize = 32 * 1024 * 1024;
pub(crate) const MAX_INPUTS: usize = 10_000;
/// The longest manifest and the longest proof that a reader accepts.
pub(crate) const MAX_MANIFEST: usize = 32 * 1024 * 1024;

const MANIFEST_KIND: &str = "bundle";
const REFERENCE: &str = "input:sha256:";

/// Which entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Only those that name this id: as actor, as resource or in a detail; and those that close them.
    pub about: Option<String>,
    /// The first to look at.
    pub from: u64,
    /// The last to look at.
    pub to: u64,
}

impl Default for Selection {
    fn default() -> Self {
        Self { about: None, from: 1, to: u64::MAX }
    }
}

/// What an input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputKind {
    /// Policies in force.
    Policies,
    /// What was granted.
    Grant,
    /// What a session was started from and with.
    Receipt,
    /// What was permitted.
    Permit,
    /// What a person agreed to, with the hash of the effect.
    Approval,
    /// Something that was run or installed.
    Artifact,
    /// What a sandbox was made of.
    Image,
    /// Something that went in.
    Input,
    /// Something that came out.
    Output,
}

/// The signed list of what is in a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub(crate) v: u8,
    /// Always `bundle`: a checkpoint, signed by the same key, says otherwise in the same place.
    pub(crate) kind: String,
    pub(crate) at: i64,
    pub(crate) selection: Selection,
    pub(crate) entries: Vec<ListedEntry>,
    pub(crate) checkpoints: Vec<ListedCheckpoint>,
    pub(crate) inputs: Vec<ListedInput>,
    pub(crate) key: String,
    #[serde(default, skip_serializing)]
    pub(crate) sig: String,
}

/// An entry, the checkpoint that covers it, and the inputs it refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListedEntry {
    pub(crate) seq: u64,
    pub(crate) sha256: String,
    pub(crate) checkpoint: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) inputs: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListedCheckpoint {
    pub(crate) n: u64,
    pub(crate) sha256: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListedInput {
    pub(crate) name: String,
    pub(crate) kind: InputKind,
    pub(crate) sha256: String,
    pub(crate) size: u64,
}

/// One line of the proofs: what is needed besides the entries to compute a checkpoint's root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Proof {
    pub(crate) checkpoint: u64,
    pub(crate) hashes: Vec<String>,
}

impl Manifest {
    /// Reads a manifest and insists on the one way to write it; `None` if it is another, or none at all.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let manifest: Self = serde_json::from_slice(line).ok()?;
        let mut again = serde_json::to_vec(&manifest).ok()?;
        again.pop();
        let (covered, _) = crate::checkpoint::split(line)?;
        let known = manifest.v == entry::VERSION && manifest.kind == MANIFEST_KIND;
        (known && covered == again).then_some(manifest)
    }
}

/// The inputs that an entry names by their hash, in the order of its details.
pub(crate) fn references(entry: &Entry) -> impl Iterator<Item = &str> {
    entry.detail.values().filter_map(|value| value.strip_prefix(REFERENCE)).filter(|hex| is_hash(hex))
}

/// How an entry names an input in a detail.
#[must_use]
pub fn reference(bytes: &[u8]) -> String {
    format!("{REFERENCE}{}", hash_hex(bytes))
}

pub(crate) fn hash_hex(bytes: &[u8]) -> String {
    hex::encode(crate::checkpoint::hash(bytes))
}

pub(crate) fn is_hash(hex: &str) -> bool {
    entry::from_hex::<32>(hex.as_bytes()).is_some()
}

/// A name for people: it is never used as a path.
pub(crate) fn is_input_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=100).contains(&name.len()) && name.bytes().all(fits)
}
