//! Checks a bundle: some entries of a ledger, with what proves them and what belongs to them.
//!
//! Flow: manifest (signature, form) -> files that are there -> entries against the list -> checkpoints (signatures)
//! -> proofs (from the entries to the signed roots) -> inputs (hashes). Invariants: keys come from [`Trust`] alone;
//! the chain key is not needed, for a signed root covers the stored bytes; a name in a manifest is never
//! used as a path; what is no plain file is never opened.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::listing::{self, Line};
use super::report::{
    Authorization, BundleFacts, Complete, Evidence, Finding, Findings, Kind, Report, Verdict,
};
use super::trust::{Anchors, Trust};
use crate::bundle::{
    self, CHECKPOINTS, ENTRIES, INPUTS, ListedEntry, MANIFEST, MAX_MANIFEST, Manifest, PROOFS, Proof,
};
use crate::checkpoint::{self, Checkpoint, RecordKind};
use crate::draft::Decision;
use crate::entry::{self, from_hex};
use crate::merkle::{self, Hash};
use crate::segment::{Lines, Piece};

/// Checks the bundle in `dir`.
#[must_use]
pub fn verify_bundle(dir: &Path, trust: &Trust, anchors: Option<&Anchors>) -> Report {
    let mut check = Check { dir, trust, findings: Findings::default(), seen: Seen::default() };
    if trust.is_empty() {
        check.add(Kind::NoTrust, None, "no trust root: no signature can be checked");
    }
    let facts = check.manifest().map(|manifest| check.contents(&manifest, anchors));
    let Check { findings, seen, .. } = check;
    let verdict = findings.verdict();
    let evidence = Evidence {
        intact: verdict == Verdict::Intact,
        // An input that no entry names is only as old as the manifest, which nobody anchored.
        anchored: seen.anchored == seen.checkpoints
            && facts
                .as_ref()
                .is_some_and(|facts| facts.inputs_asserted == 0 && facts.complete == Complete::Proved),
        signed: verdict == Verdict::Intact,
        attested: seen.attested == seen.checkpoints,
    };
    Report {
        verdict,
        claim: evidence.claim(),
        time: evidence.time(),
        authorization: if seen.decisions { Authorization::Recorded } else { Authorization::None },
        findings: findings.list,
        entries: seen.entries,
        checkpoints: seen.checkpoints,
        covered: seen.covered,
        anchored: seen.anchored_to,
        gaps: Vec::new(),
        bundle: facts,
    }
}

/// What the check went through.
#[derive(Default)]
struct Seen {
    entries: u64,
    checkpoints: u64,
    covered: u64,
    anchored: u64,
    attested: u64,
    anchored_to: Option<u64>,
    decisions: bool,
    /// Inputs that entries name by their hash.
    recorded: BTreeSet<String>,
}

struct Check<'a> {
    dir: &'a Path,
    trust: &'a Trust,
    findings: Findings,
    seen: Seen,
}

/// Who signed a manifest, read before anything else of it is believed.
#[derive(serde::Deserialize)]
struct Signer {
    v: u8,
    key: String,
    at: i64,
    #[serde(default)]
    sig: String,
}

impl Check<'_> {
    /// The manifest, if it is genuine and makes sense.
    fn manifest(&mut self) -> Option<Manifest> {
        let first = self.first_entry();
        let forged = |why: &str| format!("{MANIFEST}: {why}");
        let bytes = match self.plain(MANIFEST).and_then(|file| read_up_to(file, MAX_MANIFEST)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.add(Kind::MissingManifest, first, "the bundle has no manifest");
                return None;
            }
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                self.add(Kind::ForgedManifest, first, &forged("it is too large"));
                return None;
            }
            Err(error) => {
                self.add(Kind::Unreadable, None, &forged(&error.to_string()));
                return None;
            }
        };
        let line = bytes.strip_suffix(b"\n").unwrap_or_default();
        let Ok(signer) = serde_json::from_slice::<Signer>(line) else {
            self.add(Kind::ForgedManifest, first, &forged("it is not a manifest"));
            return None;
        };
        let genuine = self.trust.check_line(line, &signer.key, &signer.sig, signer.at, Kind::ForgedManifest);
        if let Err((kind, why)) = genuine
            && !self.trust.is_empty()
        {
            self.add(kind, first, &forged(&format!("by key `{}`: {why}", signer.key.escape_debug())));
            return None;
        }
        match Manifest::parse(line) {
            Some(manifest) if makes_sense(&manifest) => Some(manifest),
            None if signer.v != entry::VERSION => {
                self.add(Kind::Unreadable, first, &forged("made by a program that is newer than this one"));
                None
            }
            _ => {
                self.add(Kind::ForgedManifest, first, &forged("it contradicts itself"));
                None
            }
        }
    }

    /// Everything that the manifest lists.
    fn contents(&mut self, manifest: &Manifest, anchors: Option<&Anchors>) -> BundleFacts {
        self.files(manifest);
        let leaves = self.entries(manifest);
        let checkpoints = self.checkpoints(manifest, anchors);
        if let Some(leaves) = leaves {
            self.proofs(manifest, &leaves, &checkpoints);
        }
        self.inputs(manifest);
        let selection = &manifest.selection;
        let (first, last) = (manifest.entries.first(), manifest.entries.last());
        let listed = u64::try_from(manifest.entries.len()).unwrap_or(u64::MAX);
        let all = first.is_some_and(|it| it.seq == selection.from)
            && last.is_some_and(|it| it.seq == selection.to)
            && selection.to.checked_sub(selection.from).and_then(|it| it.checked_add(1)) == Some(listed);
        let names: BTreeSet<&str> = manifest.inputs.iter().map(|it| it.sha256.as_str()).collect();
        let recorded = names.iter().filter(|sha256| self.seen.recorded.contains(**sha256)).count();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        BundleFacts {
            about: selection.about.clone(),
            from: selection.from,
            to: selection.to,
            complete: if all { Complete::Proved } else { Complete::Asserted },
            inputs_recorded: count(recorded),
            inputs_asserted: count(names.len().saturating_sub(recorded)),
        }
    }

    /// Looks for files that nobody listed.
    fn files(&mut self, manifest: &Manifest) {
        let own: BTreeSet<&str> = [MANIFEST, ENTRIES, CHECKPOINTS, PROOFS].into();
        let inputs: BTreeSet<&str> = manifest.inputs.iter().map(|it| it.sha256.as_str()).collect();
        self.folder(self.dir, &own, true);
        self.folder(&self.dir.join(INPUTS), &inputs, false);
    }

    fn folder(&mut self, dir: &Path, known: &BTreeSet<&str>, is_top: bool) {
        let items = match std::fs::read_dir(dir) {
            Ok(items) => items,
            // Whatever should be in it is missed by name.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.add(Kind::Unreadable, None, &error.to_string()),
        };
        for item in items {
            let Ok(item) = item else {
                self.add(Kind::Unreadable, None, "a folder of the bundle");
                continue;
            };
            let (name, kind) = (item.file_name(), item.file_type());
            let is_known = match kind {
                Ok(kind) if kind.is_file() => name.to_str().is_some_and(|name| known.contains(name)),
                Ok(kind) if kind.is_dir() => is_top && name == INPUTS,
                Ok(_) | Err(_) => false,
            };
            if !is_known {
                let place = if is_top { "" } else { "inputs/" };
                let shown = name.to_string_lossy().escape_debug().to_string();
                self.add(
                    Kind::Unlisted,
                    None,
                    &format!("`{place}{shown}` is not in the manifest, or is no file"),
                );
            }
        }
    }

    /// Compares the entries with the list; gives their leaves if all of them are as listed.
    fn entries(&mut self, manifest: &Manifest) -> Option<Vec<Hash>> {
        let listed: Vec<(u64, Hash)> = manifest
            .entries
            .iter()
            .filter_map(|it| Some((it.seq, from_hex(it.sha256.as_bytes())?)))
            .collect();
        let (mut found, mut leaves, mut parsed) = (Vec::new(), Vec::new(), Vec::new());
        if let Err(error) = self.lines(ENTRIES, crate::draft::MAX_LINE, |line| {
            let entry = line.and_then(|line| entry::parse(line).ok()).map(|(entry, _)| entry);
            found.push(Line { hash: line.map(checkpoint::hash), seq: entry.as_ref().map(|it| it.seq) });
            leaves.push(line.map(merkle::leaf).unwrap_or_default());
            parsed.push(entry.map(|it| (it.seq, it.decision, references(&it))));
            found.len() <= listed.len()
        }) {
            self.add(Kind::Unreadable, None, &format!("{ENTRIES}: {error}"));
            return None;
        }
        self.seen.entries = u64::try_from(found.len()).unwrap_or(u64::MAX);
        let changes = listing::compare(&listed, &found);
        if !changes.is_empty() {
            changes.into_iter().for_each(|change| self.findings.add(change));
            return None;
        }
        for (listed, entry) in manifest.entries.iter().zip(parsed) {
            let Some((_, decision, references)) = entry.filter(|(seq, ..)| *seq == listed.seq) else {
                self.add(
                    Kind::ForgedManifest,
                    Some(listed.seq),
                    "the manifest gives an entry a wrong number",
                );
                return None;
            };
            self.seen.decisions |= matches!(decision, Decision::Allowed | Decision::Refused);
            for sha256 in references {
                if !listed.inputs.contains(&sha256) {
                    let message =
                        format!("entry {} names the input `{sha256}`, which is not listed", listed.seq);
                    self.add(Kind::DanglingInput, Some(listed.seq), &message);
                }
                self.seen.recorded.insert(sha256);
            }
        }
        Some(leaves)
    }

    /// Checks every checkpoint's signature and anchor; gives those that are as listed.
    fn checkpoints(&mut self, manifest: &Manifest, anchors: Option<&Anchors>) -> BTreeMap<u64, Checkpoint> {
        let mut found: Vec<Option<Vec<u8>>> = Vec::new();
        let read = self.lines(CHECKPOINTS, checkpoint::MAX_RECORD, |line| {
            found.push(line.map(<[u8]>::to_vec));
            found.len() <= manifest.checkpoints.len()
        });
        if let Err(error) = read {
            self.add(Kind::Unreadable, None, &format!("{CHECKPOINTS}: {error}"));
        }
        self.seen.checkpoints = u64::try_from(found.len()).unwrap_or(u64::MAX);
        let (mut good, mut numbers) = (BTreeMap::new(), Vec::new());
        for (number, line) in (1u64..).zip(found) {
            let record = line.as_deref().and_then(checkpoint::parse);
            let (Some(line), Some(record)) = (line, record) else {
                self.add_at(Kind::ForgedCheckpoint, None, number, "the line is not a checkpoint".into());
                continue;
            };
            numbers.push(record.n);
            let last = Some(record.last);
            let genuine = if self.trust.is_empty() { Ok(()) } else { self.trust.check(&line, &record) };
            let listed = manifest.checkpoints.iter().find(|it| it.n == record.n);
            let hash = checkpoint::hash(&line);
            if let Err((kind, why)) = genuine {
                let message =
                    format!("checkpoint {} by key `{}`: {why}", record.n, record.key.escape_debug());
                self.add_at(kind, last, number, message);
            } else if listed.is_none_or(|it| it.sha256 != hex::encode(hash)) || good.contains_key(&record.n) {
                let message = format!("checkpoint {} is not the one that the manifest lists", record.n);
                self.add_at(Kind::ForgedCheckpoint, last, number, message);
            } else {
                self.anchor(&record, hash, anchors);
                good.insert(record.n, record);
            }
        }
        for missing in manifest.checkpoints.iter().filter(|it| !numbers.contains(&it.n)) {
            let index = under(manifest, missing.n).next().map(|it| it.seq);
            self.add(Kind::CheckpointsCut, index, &format!("checkpoint {} is missing", missing.n));
        }
        let in_order = manifest.checkpoints.iter().map(|it| it.n).eq(numbers);
        if !in_order && self.findings.tampering == 0 {
            self.add(Kind::Reordered, None, "the checkpoints are not in their order");
        }
        good
    }

    /// An anchor of a checkpoint that is not in the bundle says nothing about it.
    fn anchor(&mut self, record: &Checkpoint, hash: Hash, anchors: Option<&Anchors>) {
        let Some(anchor) = anchors.and_then(|anchors| anchors.list.get(&record.n)) else { return };
        if anchor.hash != hash {
            let message = format!("checkpoint {} is not the one that was anchored", record.n);
            return self.add(Kind::RolledBack, Some(record.last), &message);
        }
        self.seen.anchored = self.seen.anchored.saturating_add(1);
        self.seen.attested = self.seen.attested.saturating_add(u64::from(anchor.at.is_some()));
        self.seen.anchored_to = self.seen.anchored_to.max(Some(record.last));
    }

    /// Computes each signed root from the entries under it and its proof.
    fn proofs(&mut self, manifest: &Manifest, leaves: &[Hash], checkpoints: &BTreeMap<u64, Checkpoint>) {
        let mut expected = manifest.checkpoints.iter();
        let mut forged: Option<(Option<u64>, String)> = None;
        let mut covered = 0;
        let read = self.lines(PROOFS, MAX_MANIFEST, |line| {
            let Some(listed) = expected.next() else {
                forged = Some((None, "there are more proofs than checkpoints".into()));
                return false;
            };
            let first = under(manifest, listed.n).next().map(|it| it.seq);
            let Some(hashes) = line.and_then(|line| proof_of(line, listed.n)) else {
                forged = Some((first, format!("the proof for checkpoint {} is not one", listed.n)));
                return false;
            };
            // A checkpoint that is missing or forged was named already.
            let Some(checkpoint) = checkpoints.get(&listed.n) else { return true };
            let chosen: Vec<(u64, Hash)> = manifest
                .entries
                .iter()
                .zip(leaves)
                .filter(|(entry, _)| entry.checkpoint == listed.n)
                .filter_map(|(entry, leaf)| Some((entry.seq.checked_sub(checkpoint.first)?, *leaf)))
                .collect();
            let size = checkpoint.last.saturating_add(1).saturating_sub(checkpoint.first);
            let root = merkle::proved_root(size, &chosen, &hashes).map(hex::encode);
            if checkpoint.kind != RecordKind::Checkpoint || root.as_deref() != Some(&checkpoint.root) {
                let message =
                    format!("no proof leads from the entries to the root of checkpoint {}", listed.n);
                forged = Some((first, message));
                return false;
            }
            covered = under(manifest, listed.n).map(|it| it.seq).max().unwrap_or(0).max(covered);
            true
        });
        self.seen.covered = covered;
        if let Some((index, message)) = forged {
            self.add(Kind::ForgedProof, index, &message);
        } else if let Err(error) = read {
            self.add(Kind::Unreadable, None, &format!("{PROOFS}: {error}"));
        } else if let Some(missing) = expected.next() {
            let first = under(manifest, missing.n).next().map(|it| it.seq);
            self.add(Kind::ForgedProof, first, &format!("the proof for checkpoint {} is missing", missing.n));
        }
    }

    fn inputs(&mut self, manifest: &Manifest) {
        for input in &manifest.inputs {
            let place = format!("{INPUTS}/{}", input.sha256);
            let refers = |it: &&ListedEntry| it.inputs.contains(&input.sha256);
            let index = manifest.entries.iter().find(refers).map(|it| it.seq);
            let wrong = match self.plain(&place).and_then(hash_of) {
                Ok(found) if found == (input.size, input.sha256.clone()) => continue,
                Ok(_) => "is another one",
                Err(error) if error.kind() == io::ErrorKind::NotFound => "is not in the bundle",
                Err(error) => {
                    self.add(Kind::Unreadable, index, &format!("{place}: {error}"));
                    continue;
                }
            };
            let message = format!("the input `{}` ({}) {wrong}", input.name, input.sha256);
            self.add(Kind::DanglingInput, index, &message);
        }
    }

    /// Gives each line of a file to `each`, `None` for what is not a whole line, until it says stop. A
    /// missing file has no lines.
    fn lines(&self, name: &str, max: usize, mut each: impl FnMut(Option<&[u8]>) -> bool) -> io::Result<()> {
        match self.plain(name) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        let mut lines = Lines::open(&self.dir.join(name), 0, None)?;
        loop {
            let go_on = match lines.next_within(max)? {
                Piece::End => return Ok(()),
                Piece::Line(line, _) => each(Some(line)),
                Piece::Torn(..) => each(None),
            };
            if !go_on {
                return Ok(());
            }
        }
    }

    /// Opens a plain file; anything else counts as not there (and is named as unlisted).
    fn plain(&self, name: &str) -> io::Result<File> {
        let path = self.dir.join(name);
        if !path.symlink_metadata()?.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        // It may have become a link or a pipe since: neither is followed or waited for.
        crate::disk::open_to_read(&path)
    }

    /// The number of the first entry that is there, to say where a bundle without a good manifest begins.
    fn first_entry(&self) -> Option<u64> {
        let mut first = None;
        let read = self.lines(ENTRIES, crate::draft::MAX_LINE, |line| {
            first = line.and_then(|line| entry::parse(line).ok()).map(|(entry, _)| entry.seq);
            false
        });
        read.ok().and(first)
    }

    fn add(&mut self, kind: Kind, index: Option<u64>, message: &str) {
        self.findings.add(Finding { kind, index, segment: None, line: None, message: message.to_owned() });
    }

    fn add_at(&mut self, kind: Kind, index: Option<u64>, line: u64, message: String) {
        self.findings.add(Finding { kind, index, segment: None, line: Some(line), message });
    }
}

/// Whether a manifest's parts fit together.
fn makes_sense(manifest: &Manifest) -> bool {
    let Manifest { selection, entries, checkpoints, inputs, .. } = manifest;
    let known: BTreeSet<u64> = checkpoints.iter().map(|it| it.n).collect();
    let hashes: BTreeSet<&String> = inputs.iter().map(|it| &it.sha256).collect();
    let entry_fits = |it: &ListedEntry| {
        (selection.from..=selection.to).contains(&it.seq)
            && bundle::is_hash(&it.sha256)
            && known.contains(&it.checkpoint)
            && it.inputs.is_sorted_by(|one, other| one < other)
            && it.inputs.iter().all(|sha256| hashes.contains(sha256))
    };
    !entries.is_empty()
        && entries.iter().all(entry_fits)
        && entries.is_sorted_by(|one, other| one.seq < other.seq && one.checkpoint <= other.checkpoint)
        && checkpoints.is_sorted_by(|one, other| one.n < other.n)
        && checkpoints.iter().all(|it| bundle::is_hash(&it.sha256) && under(manifest, it.n).next().is_some())
        && inputs.is_sorted_by(|one, other| one.name < other.name)
        && inputs.iter().all(|it| bundle::is_hash(&it.sha256) && bundle::is_input_name(&it.name))
}

/// The entries that a checkpoint covers; the list is in the order of checkpoints.
fn under(manifest: &Manifest, n: u64) -> impl Iterator<Item = &ListedEntry> {
    let start = manifest.entries.partition_point(|it| it.checkpoint < n);
    manifest.entries.iter().skip(start).take_while(move |it| it.checkpoint == n)
}

fn references(entry: &entry::Entry) -> Vec<String> {
    bundle::references(entry).map(str::to_owned).collect()
}

/// The hashes of a proof line, if it is the one way to write it.
fn proof_of(line: &[u8], checkpoint: u64) -> Option<Vec<Hash>> {
    let proof: Proof = serde_json::from_slice(line).ok()?;
    let again = serde_json::to_vec(&proof).ok()?;
    if proof.checkpoint != checkpoint || again != line {
        return None;
    }
    proof.hashes.iter().map(|hex| from_hex(hex.as_bytes())).collect()
}

fn read_up_to(file: File, most: usize) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

fn hash_of(mut file: File) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut size = 0u64;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok((size, hex::encode(hash.finalize())));
        }
        hash.update(buffer.get(..count).unwrap_or_default());
        size = size.saturating_add(u64::try_from(count).unwrap_or(0));
    }
}
