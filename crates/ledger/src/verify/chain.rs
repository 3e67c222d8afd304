//! Checks the entries: each segment's lines, and what the records say about them.
//!
//! Reads one segment at a time. Invariants: an entry counts as covered only under a valid record whose root and
//! head fit the stored lines; what is neither covered nor checked by the chain key is reported, never passed
//! over. Not here: the records themselves ([`super::records`]), the words ([`super::order`]).

use std::path::Path;

use super::Limits;
use super::order::{self, Place, Seen, SeenEntry};
use super::records::Record;
use super::report::{Finding, Findings, Gap, Kind};
use crate::checkpoint::RecordKind;
use crate::draft::Decision;
use crate::entry;
use crate::keys::{ChainKey, Code, GENESIS};
use crate::merkle::{Hash, Tree, leaf};
use crate::segment::{self, Lines, Piece};

/// What going through the entries gave.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) entries: u64,
    pub(crate) last: u64,
    pub(crate) head: Option<Code>,
    pub(crate) covered: u64,
    pub(crate) decisions: bool,
    pub(crate) gaps: Vec<Gap>,
}

/// One segment in memory.
#[derive(Default)]
struct Loaded {
    seen: Vec<Seen>,
    leaves: Vec<Hash>,
    /// Where the clock went back; worth saying only if the lines are in their order.
    jumps: Vec<Finding>,
    torn: Option<u64>,
}

struct Chain<'a> {
    dir: &'a Path,
    key: Option<&'a ChainKey>,
    records: &'a [Record],
    limits: Option<Limits>,
    findings: &'a mut Findings,
    outcome: Outcome,
    newest_record: u64,
    latest: i64,
}

/// Goes through all segments.
pub(crate) fn check(
    dir: &Path,
    key: Option<&ChainKey>,
    records: &[Record],
    limits: Option<Limits>,
    findings: &mut Findings,
) -> Outcome {
    let retention = records.iter().rfind(|it| it.valid && it.checkpoint.kind == RecordKind::Retention);
    let (from, last, head) = retention.map_or((1, 0, Some(GENESIS)), |it| {
        (it.checkpoint.from, it.checkpoint.last, it.checkpoint.head_code())
    });
    let gaps = if last > 0 { vec![Gap { first: 1, last, reason: "retention" }] } else { Vec::new() };
    let outcome = Outcome { entries: 0, last, head, covered: last, decisions: false, gaps };
    let newest_record = records.iter().map(|it| it.checkpoint.n).max().unwrap_or(0);
    let mut chain = Chain { dir, key, records, limits, findings, outcome, newest_record, latest: i64::MIN };
    let numbers = segment::list(dir).unwrap_or_else(|error| {
        chain.add(Kind::Unreadable, None, None, None, format!("the segments: {error}"));
        Vec::new()
    });
    let end = limits.map_or(u32::MAX, |limits| limits.segment);
    let numbers: Vec<u32> = numbers.into_iter().filter(|number| *number >= from && *number <= end).collect();
    for number in &numbers {
        chain.check_segment(*number, Some(number) == numbers.last());
    }
    chain.check_end(from, numbers.last().copied());
    chain.outcome
}

impl Chain<'_> {
    fn check_segment(&mut self, number: u32, is_last: bool) {
        let loaded = match self.load(number) {
            Ok(loaded) => loaded,
            Err(error) => {
                self.add(Kind::Unreadable, None, Some(number), None, error.to_string());
                return;
            }
        };
        let before = self.findings.tampering;
        let place = Place { expected: self.outcome.last.saturating_add(1), prev: self.outcome.head };
        let first = place.expected;
        let place = order::follow(&loaded.seen, number, place, self.findings);
        self.outcome.last = place.expected.saturating_sub(1);
        self.outcome.head = place.prev;
        let count = u64::try_from(loaded.seen.len()).unwrap_or(0);
        self.outcome.entries = self.outcome.entries.saturating_add(count);
        let sound = self.findings.tampering == before;
        self.check_roots(number, first, &loaded, sound);
        if self.findings.tampering == before {
            loaded.jumps.into_iter().for_each(|jump| self.findings.add(jump));
        }
        match loaded.torn {
            Some(line) if is_last => {
                let message = "an unfinished write is at the end; opening the ledger mends it".to_owned();
                self.add(Kind::TornTail, Some(place.expected), Some(number), Some(line), message);
            }
            Some(line) => {
                let message = "the segment ends in the middle of a line".to_owned();
                self.add(Kind::Truncated, Some(place.expected), Some(number), Some(line), message);
            }
            None => {}
        }
    }

    fn load(&mut self, number: u32) -> std::io::Result<Loaded> {
        let limit = self.limits.filter(|limits| limits.segment == number).map(|limits| limits.bytes);
        let mut lines = Lines::open(&segment::path(self.dir, number), 0, limit)?;
        let mut loaded = Loaded::default();
        for line_number in 1u64.. {
            match lines.next()? {
                Piece::End => break,
                Piece::Line(line, _) => {
                    let entry = self.look_at(line, number, line_number, &mut loaded.jumps);
                    // What was torn was not the end after all.
                    if let Some(line) = loaded.torn.take() {
                        loaded.seen.push(Seen { line, entry: None });
                        loaded.leaves.push(Hash::default());
                    }
                    loaded.seen.push(Seen { line: line_number, entry });
                    loaded.leaves.push(leaf(line));
                }
                Piece::Torn(..) => loaded.torn = loaded.torn.or(Some(line_number)),
            }
        }
        Ok(loaded)
    }

    /// Reads one line, and notes what it says beyond its place.
    fn look_at(
        &mut self,
        line: &[u8],
        segment: u32,
        number: u64,
        jumps: &mut Vec<Finding>,
    ) -> Option<SeenEntry> {
        let (entry, code) = entry::parse(line).ok()?;
        let genuine =
            self.key.map(|key| entry::split(line).is_some_and(|(covered, code)| key.code(covered) == code));
        self.outcome.decisions |= matches!(entry.decision, Decision::Allowed | Decision::Refused);
        if entry.checkpoint > self.newest_record && genuine != Some(false) {
            let message = format!(
                "entry {} was written after checkpoint {}, the last one there is {}",
                entry.seq, entry.checkpoint, self.newest_record
            );
            self.newest_record = entry.checkpoint; // said once
            self.add(Kind::CheckpointsCut, Some(entry.seq), Some(segment), Some(number), message);
        }
        if !entry.is_late() {
            if entry.at < self.latest {
                let back = self.latest.saturating_sub(entry.at);
                let message = format!("entry {}: the clock went back {back} ms", entry.seq);
                let (index, segment, line) = (Some(entry.seq), Some(segment), Some(number));
                jumps.push(Finding { kind: Kind::ClockJump, index, segment, line, message });
            }
            self.latest = entry.at;
        }
        Some(SeenEntry { seq: entry.seq, prev: entry::from_hex(entry.prev.as_bytes()), code, genuine })
    }

    /// Compares the segment with every record about it; stops at the first that does not fit.
    fn check_roots(&mut self, number: u32, first: u64, loaded: &Loaded, sound: bool) {
        let mut tree = Tree::default();
        let mut leaves = loaded.leaves.iter();
        let about_this = |it: &&Record| {
            it.valid && it.checkpoint.kind == RecordKind::Checkpoint && it.checkpoint.segment == number
        };
        let mut covered = first.saturating_sub(1);
        for record in self.records.iter().filter(about_this) {
            let it = &record.checkpoint;
            let size = it.last.saturating_add(1).saturating_sub(it.first);
            while tree.size() < size
                && let Some(leaf) = leaves.next()
            {
                tree.push(*leaf);
            }
            let last = usize::try_from(size).ok().and_then(|size| loaded.seen.get(size.checked_sub(1)?));
            let head = last.and_then(|seen| seen.entry.as_ref()).map(|entry| entry.code);
            let fits = it.first == first
                && tree.size() == size
                && it.root == hex::encode(tree.root())
                && head == it.head_code();
            if fits {
                covered = it.last;
                continue;
            }
            if sound {
                self.root_misfit(record, number, covered, tree.size() == size);
            }
            break;
        }
        self.outcome.covered = self.outcome.covered.max(covered);
    }

    /// The lines seem sound and a signed root says otherwise.
    fn root_misfit(&mut self, record: &Record, number: u32, covered: u64, complete: bool) {
        let it = &record.checkpoint;
        let from = covered.saturating_add(1);
        match (complete, self.key) {
            // Fewer lines than signed for: the end says which are missing.
            (false, _) => {}
            (true, Some(_)) => {
                let message = format!("checkpoint {} does not describe the entries up to {}", it.n, it.last);
                self.add(Kind::ForgedRoot, Some(it.last), None, Some(record.line), message);
            }
            (true, None) => {
                let message = format!(
                    "an entry from {from} to {} is not what checkpoint {} signed; the chain key would tell which",
                    it.last, it.n
                );
                self.add(Kind::Edited, Some(from), Some(number), None, message);
            }
        }
    }

    /// What should be there after the last line.
    fn check_end(&mut self, from: u32, last_segment: Option<u32>) {
        let claimed =
            self.records.iter().filter(|it| it.valid || self.key.is_none()).map(|it| &it.checkpoint);
        let claimed = claimed.filter(|it| it.segment >= from).max_by_key(|it| it.last);
        if let Some(it) = claimed.filter(|it| it.last > self.outcome.last) {
            let index = self.outcome.last.saturating_add(1);
            let message = format!(
                "checkpoint {} covers entries up to {}, from {index} on they are missing",
                it.n, it.last
            );
            self.add(Kind::Truncated, Some(index), last_segment, None, message);
        }
        if !self.records.iter().any(|it| it.valid) {
            self.add(
                Kind::NoCheckpoint,
                None,
                None,
                None,
                "no valid checkpoint: nothing proves these entries".into(),
            );
        } else if self.key.is_none()
            && self.findings.tampering == 0
            && self.outcome.covered < self.outcome.last
        {
            let first = self.outcome.covered.saturating_add(1);
            let message =
                format!("entries from {first} on have no checkpoint yet, and there is no chain key");
            self.add(Kind::NotCovered, Some(first), last_segment, None, message);
        }
    }

    fn add(
        &mut self,
        kind: Kind,
        index: Option<u64>,
        segment: Option<u32>,
        line: Option<u64>,
        message: String,
    ) {
        self.findings.add(Finding { kind, index, segment, line, message });
    }
}
