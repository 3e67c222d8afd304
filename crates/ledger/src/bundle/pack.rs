//! Turns selected entries and their inputs into the files of a bundle, and signs the list of them.
//!
//! Invariant: an entry that names an input has it in the bundle, or there is no bundle.

use std::collections::{BTreeMap, BTreeSet};

use model::Millis;

use super::{BundleError, Selected};
use super::{
    CHECKPOINTS, ENTRIES, INPUTS, InputKind, ListedCheckpoint, ListedEntry, ListedInput, MANIFEST,
    MANIFEST_KIND, MAX_INPUT_BYTES, MAX_INPUTS, MAX_MANIFEST, Manifest, PROOFS, Proof, hash_hex,
    is_input_name,
};
use crate::entry;
use crate::keys::Keys;

/// A document that belongs to entries.
#[derive(Clone, Debug)]
pub struct Input {
    /// What people call it: letters, digits, `.`, `_`, `-`.
    pub name: String,
    /// What it is.
    pub kind: InputKind,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The entries that it belongs to, besides those that name it by its hash.
    pub entries: Vec<u64>,
}

/// The files of a bundle, the manifest last.
#[derive(Debug)]
pub struct Bundle {
    /// Names and bytes.
    pub files: Vec<(String, Vec<u8>)>,
    /// How many entries it proves.
    pub entries: u64,
    /// SHA-256 of the manifest, in hex: names the bundle.
    pub sha256: String,
}

impl Selected {
    /// Adds an input.
    pub fn attach(&mut self, input: Input) -> Result<(), BundleError> {
        let held: usize = self.inputs.iter().map(|it| it.bytes.len()).sum();
        let fits = is_input_name(&input.name)
            && self.inputs.len() < MAX_INPUTS
            && held.saturating_add(input.bytes.len()) <= MAX_INPUT_BYTES
            && self.inputs.iter().all(|it| it.name != input.name);
        if !fits {
            return Err(BundleError::Input(input.name));
        }
        self.inputs.push(input);
        Ok(())
    }

    /// Makes the files and signs their list.
    pub(crate) fn seal(self, keys: &Keys, at: Millis) -> Result<Bundle, BundleError> {
        let mut inputs: Vec<ListedInput> = Vec::with_capacity(self.inputs.len());
        let mut belong: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        let mut contents: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for input in self.inputs {
            let sha256 = hash_hex(&input.bytes);
            for seq in input.entries {
                belong.entry(seq).or_default().insert(sha256.clone());
            }
            let size = u64::try_from(input.bytes.len()).unwrap_or(u64::MAX);
            inputs.push(ListedInput { name: input.name, kind: input.kind, sha256: sha256.clone(), size });
            contents.insert(sha256, input.bytes);
        }
        inputs.sort_by(|one, other| one.name.cmp(&other.name));
        let (mut entries, mut checkpoints) = (Vec::new(), Vec::new());
        let (mut entry_bytes, mut checkpoint_bytes, mut proof_bytes) = (Vec::new(), Vec::new(), Vec::new());
        for part in self.parts {
            let n = part.checkpoint.n;
            for chosen in part.chosen {
                let seq = chosen.entry.seq;
                let mut refers = belong.remove(&seq).unwrap_or_default();
                for sha256 in super::references(&chosen.entry) {
                    if !contents.contains_key(sha256) {
                        return Err(BundleError::InputMissing { seq, sha256: sha256.to_owned() });
                    }
                    refers.insert(sha256.to_owned());
                }
                let (sha256, inputs) = (hash_hex(&chosen.line), refers.into_iter().collect());
                entries.push(ListedEntry { seq, sha256, checkpoint: n, inputs });
                push_line(&mut entry_bytes, &chosen.line);
            }
            checkpoints.push(ListedCheckpoint { n, sha256: hash_hex(&part.checkpoint_line) });
            push_line(&mut checkpoint_bytes, &part.checkpoint_line);
            let proof = Proof { checkpoint: n, hashes: part.proof.iter().map(hex::encode).collect() };
            push_line(&mut proof_bytes, &serde_json::to_vec(&proof).map_err(std::io::Error::other)?);
        }
        let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let manifest = Manifest {
            v: entry::VERSION,
            kind: MANIFEST_KIND.to_owned(),
            at,
            selection: self.selection,
            entries,
            checkpoints,
            inputs,
            key: keys.signer_id().to_owned(),
            sig: String::new(),
        };
        let line = keys.seal_line(serde_json::to_vec(&manifest).map_err(std::io::Error::other)?);
        if line.len() >= MAX_MANIFEST {
            return Err(BundleError::TooMany);
        }
        let sha256 = hash_hex(&line);
        let mut manifest_bytes = Vec::new();
        push_line(&mut manifest_bytes, &line);
        let mut files = vec![
            (ENTRIES.to_owned(), entry_bytes),
            (CHECKPOINTS.to_owned(), checkpoint_bytes),
            (PROOFS.to_owned(), proof_bytes),
        ];
        files.extend(contents.into_iter().map(|(sha256, bytes)| (format!("{INPUTS}/{sha256}"), bytes)));
        files.push((MANIFEST.to_owned(), manifest_bytes));
        Ok(Bundle { files, entries: count, sha256 })
    }
}

fn push_line(out: &mut Vec<u8>, line: &[u8]) {
    out.extend_from_slice(line);
    out.push(b'\n');
}
