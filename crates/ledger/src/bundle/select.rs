//! Turns a [`Selection`] into entries with proofs that lead to signed roots.
//!
//! Reads one segment at a time. Invariant: what is selected was compared with the signed root over its whole
//! segment, so that a changed ledger gives no bundle; entries after the last checkpoint are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use super::{MAX_ENTRIES, MAX_ENTRY_BYTES, Selection};
use crate::checkpoint::{self, Checkpoint, RecordKind};
use crate::entry::{self, Entry};
use crate::keys::Keys;
use crate::merkle::{self, Hash, Tree};
use crate::segment::{self, Lines, Piece};

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// No entry fits.
    #[error("no entry fits the selection; look with `palisade ledger search`")]
    Nothing,
    /// More than a bundle holds.
    #[error(
        "more than {MAX_ENTRIES} entries or {MAX_ENTRY_BYTES} bytes fit; narrow the selection or export the whole ledger"
    )]
    TooMany,
    /// The ledger is not what was signed.
    #[error("segment `{0}` is not what its checkpoint signed; run `palisade ledger verify`")]
    Changed(u32),
    /// An entry names an input that was not attached.
    #[error("entry `{seq}` names the input `{sha256}`, which is not kept any more")]
    InputMissing {
        /// The entry.
        seq: u64,
        /// The input.
        sha256: String,
    },
    /// An input does not fit.
    #[error("the input `{0}` has an unusable name, is there twice, or is too large")]
    Input(String),
    /// A file could not be read.
    #[error("the ledger could not be read; try again")]
    Io(#[from] io::Error),
}

/// One selected entry.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) line: Vec<u8>,
    pub(crate) entry: Entry,
}

/// The selected entries of one segment.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) checkpoint_line: Vec<u8>,
    pub(crate) proof: Vec<Hash>,
    pub(crate) chosen: Vec<Chosen>,
}

/// Selected entries with what proves them; inputs can be attached.
#[derive(Debug)]
pub struct Selected {
    pub(crate) selection: Selection,
    pub(crate) parts: Vec<Part>,
    pub(crate) inputs: Vec<super::Input>,
}

impl Selected {
    /// The entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.parts.iter().flat_map(|part| part.chosen.iter().map(|chosen| &chosen.entry))
    }

    /// The hashes (in hex) of the inputs that the entries name; each must be attached.
    #[must_use]
    pub fn wanted(&self) -> BTreeSet<&str> {
        self.entries().flat_map(super::references).collect()
    }
}

/// Selects from the ledger in `dir`, as far as checkpoints cover it.
pub(crate) fn select(dir: &Path, keys: &Keys, mut selection: Selection) -> Result<Selected, BundleError> {
    let checkpoints = newest_by_segment(dir, keys)?;
    let covered = checkpoints.values().map(|(it, _)| it.last).max().unwrap_or(0);
    selection.from = selection.from.max(1);
    selection.to = selection.to.min(covered);
    let mut search = Search { selection: &selection, opened: BTreeSet::new(), entries: 0, bytes: 0 };
    let mut parts = Vec::new();
    for (number, (checkpoint, line)) in checkpoints {
        let outside = checkpoint.last < selection.from || checkpoint.first > selection.to;
        if !outside && let Some(part) = search.segment(dir, number, checkpoint, line)? {
            parts.push(part);
        }
    }
    if parts.is_empty() {
        return Err(BundleError::Nothing);
    }
    Ok(Selected { selection, parts, inputs: Vec::new() })
}

/// The last checkpoint of each segment that is kept, with its line.
fn newest_by_segment(dir: &Path, keys: &Keys) -> Result<BTreeMap<u32, (Checkpoint, Vec<u8>)>, BundleError> {
    let mut newest = BTreeMap::new();
    let mut from = 0;
    let mut lines = Lines::open(&dir.join(checkpoint::FILE), 0, None)?;
    loop {
        match lines.next_within(checkpoint::MAX_RECORD)? {
            Piece::End | Piece::Torn(..) => break,
            Piece::Line(line, _) => {
                let Some(record) = checkpoint::parse(line) else { continue };
                from = from.max(record.from);
                if record.kind == RecordKind::Checkpoint {
                    newest.insert(record.segment, (record, line.to_vec()));
                }
            }
        }
    }
    newest.retain(|number, _| *number >= from);
    for (number, (record, line)) in &newest {
        if !keys.signed(line, record) {
            return Err(BundleError::Changed(*number));
        }
    }
    Ok(newest)
}

struct Search<'a> {
    selection: &'a Selection,
    opened: BTreeSet<u64>,
    entries: usize,
    bytes: usize,
}

impl Search<'_> {
    fn segment(
        &mut self,
        dir: &Path,
        number: u32,
        checkpoint: Checkpoint,
        checkpoint_line: Vec<u8>,
    ) -> Result<Option<Part>, BundleError> {
        let mut lines = Lines::open(&segment::path(dir, number), 0, Some(checkpoint.bytes))?;
        let (mut leaves, mut tree) = (Vec::new(), Tree::default());
        let (mut chosen, mut places) = (Vec::new(), Vec::new());
        while let Piece::Line(line, _) = lines.next()? {
            let Ok((entry, _)) = entry::parse(line) else { return Err(BundleError::Changed(number)) };
            if checkpoint.first.checked_add(tree.size()) != Some(entry.seq) {
                return Err(BundleError::Changed(number));
            }
            if self.fits(&entry) {
                self.entries = self.entries.saturating_add(1);
                self.bytes = self.bytes.saturating_add(line.len());
                if self.entries > MAX_ENTRIES || self.bytes > MAX_ENTRY_BYTES {
                    return Err(BundleError::TooMany);
                }
                places.push(tree.size());
                chosen.push(Chosen { line: line.to_vec(), entry });
            }
            let leaf = merkle::leaf(line);
            leaves.push(leaf);
            tree.push(leaf);
        }
        if checkpoint.tree().as_ref() != Some(&tree) {
            return Err(BundleError::Changed(number));
        }
        if chosen.is_empty() {
            return Ok(None);
        }
        let proof = merkle::prove(&leaves, &places);
        Ok(Some(Part { checkpoint, checkpoint_line, proof, chosen }))
    }

    fn fits(&mut self, entry: &Entry) -> bool {
        if entry.seq < self.selection.from || entry.seq > self.selection.to {
            return false;
        }
        let fits = match &self.selection.about {
            None => true,
            Some(id) => {
                entry.resource == *id
                    || entry.who.split('/').any(|part| part == id)
                    || entry.detail.values().any(|value| value == id)
                    || entry.closes.is_some_and(|seq| self.opened.contains(&seq))
            }
        };
        if fits && entry.opens {
            self.opened.insert(entry.seq);
        }
        fits
    }
}
