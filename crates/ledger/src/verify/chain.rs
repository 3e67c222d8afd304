//! Checks the entries: the segments that must be there, their lines, and what the records say about them.
//!
//! Goes through one segment at a time, in constant memory as long as its lines follow from each other
//! ([`super::pass`]). Invariants: an entry counts as covered only under a valid record whose root and head fit the
//! stored lines; every valid record about a kept segment is compared with that segment, or the report says why not;
//! what is neither covered nor checked by the chain key is reported, never passed over; what cannot be read is a
//! doubt and the check goes on after it. Not here: the records themselves ([`super::records`]), the words
//! ([`super::order`]), what else lies in the folder ([`super::folder`]).

use std::collections::BTreeMap;
use std::path::Path;

use super::Limits;
use super::folder;
use super::order::{self, Place};
use super::pass::{Loaded, MAX_BAD_LINES, Passed};
use super::records::{Record, Records};
use super::report::{Finding, Findings, Gap, Kind};
use crate::checkpoint::RecordKind;
use crate::keys::{ChainKey, Code, GENESIS};

/// What going through the entries gave.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) entries: u64,
    pub(crate) last: u64,
    pub(crate) head: Option<Code>,
    pub(crate) covered: u64,
    pub(crate) decisions: bool,
    pub(crate) gaps: Vec<Gap>,
    /// Whether the files were read to their end, so that it is known what the last entry is.
    pub(crate) end_known: bool,
}

/// The valid checkpoints, by the segment they are about.
pub(crate) type BySegment<'a> = BTreeMap<u32, Vec<&'a Record>>;

pub(crate) struct Chain<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) key: Option<&'a ChainKey>,
    records: &'a Records,
    about: BySegment<'a>,
    pub(crate) limits: Option<Limits>,
    pub(crate) findings: &'a mut Findings,
    pub(crate) outcome: Outcome,
    /// The newest record there is, or that an entry named.
    pub(crate) newest_record: u64,
    /// The time of the entry before.
    pub(crate) latest: i64,
    /// Nothing says what the next entry must be: what came before could not be read.
    lost: bool,
    /// The first record that was compared with nothing.
    unmatched: Option<&'a Record>,
    /// The first entry that is under no root although later ones are.
    unsigned: Option<u64>,
}

/// Where a segment stands among the others.
#[derive(Clone, Copy)]
struct Rank {
    is_last: bool,
    /// Another one with lines follows, so that the writer closed this one.
    is_closed: bool,
}

/// Goes through all segments.
pub(crate) fn check(
    dir: &Path,
    key: Option<&ChainKey>,
    records: &Records,
    limits: Option<Limits>,
    findings: &mut Findings,
) -> Outcome {
    let list = &records.list;
    let retention = list.iter().rfind(|it| it.valid && it.checkpoint.kind == RecordKind::Retention);
    let (from, last, head) = retention.map_or((1, 0, Some(GENESIS)), |it| {
        (it.checkpoint.from, it.checkpoint.last, it.checkpoint.head_code())
    });
    let mut about = BySegment::new();
    for it in list.iter().filter(|it| it.valid && it.checkpoint.kind == RecordKind::Checkpoint) {
        about.entry(it.checkpoint.segment).or_default().push(it);
    }
    let gaps = if last > 0 { vec![Gap { first: 1, last, reason: "retention" }] } else { Vec::new() };
    let outcome = Outcome { entries: 0, last, head, covered: last, decisions: false, gaps, end_known: true };
    // Of a file that cannot be read nobody knows what was in it.
    let newest =
        if records.whole { list.iter().map(|it| it.checkpoint.n).max().unwrap_or(0) } else { u64::MAX };
    let mut chain = Chain {
        dir,
        key,
        records,
        about,
        limits,
        findings,
        outcome,
        newest_record: newest,
        latest: i64::MIN,
        lost: !records.whole,
        unmatched: None,
        unsigned: None,
    };
    match folder::look(dir, from, chain.findings) {
        Some(found) => chain.go_through(from, &found),
        None => chain.outcome.end_known = false,
    }
    chain.outcome
}

impl<'a> Chain<'a> {
    fn go_through(&mut self, from: u32, found: &folder::Folder) {
        if self.records.whole {
            for number in &found.dropped {
                let about = self.about.get(number).and_then(|all| all.last()).copied();
                folder::check_dropped(self.dir, *number, about, self.findings);
            }
        }
        let end = self.limits.map_or(u32::MAX, |limits| limits.segment);
        let kept: Vec<u32> = found.kept.iter().copied().filter(|number| *number <= end).collect();
        let last_with_lines = kept.iter().copied().rfind(|number| !folder::is_empty(self.dir, *number));
        // Without the records nobody knows which segment is the first that is kept.
        let mut due = if self.records.whole { from } else { kept.first().copied().unwrap_or(from) };
        for number in &kept {
            let rank = Rank {
                is_last: Some(number) == kept.last(),
                is_closed: last_with_lines.is_some_and(|last| *number < last),
            };
            let before = (self.findings.tampering, self.outcome.last);
            self.check_segment(*number, rank);
            if *number != due && self.findings.tampering == before.0 {
                self.misplaced(*number, due, before.1);
            }
            due = number.saturating_add(1);
        }
        let never_seen = |number: &u32| *number >= from && kept.binary_search(number).is_err();
        if self.records.whole
            && let Some((_, records)) = self.about.iter().find(|(number, _)| never_seen(number))
        {
            self.unmatched = self.unmatched.or(records.first().copied());
        }
        self.check_end(from, kept.last().copied());
    }

    /// The lines follow from what came before, the number of the segment does not.
    fn misplaced(&mut self, number: u32, due: u32, last: u64) {
        let index = Some(last.saturating_add(1));
        let (kind, what) = match self.outcome.last == last {
            true => (Kind::Inserted, "was added"),
            false => (Kind::Reordered, "stands in its place"),
        };
        let message = format!("segment {due} is missing, and segment {number} {what}");
        self.add(kind, index, Some(number), None, message);
    }

    fn check_segment(&mut self, number: u32, rank: Rank) {
        let known = self.outcome.last;
        let about = self.about.get(&number).cloned().unwrap_or_default();
        let start = self.lost.then(|| about.first().map(|it| it.checkpoint.first)).flatten();
        let place = Place { expected: known.saturating_add(1), prev: self.outcome.head };
        let passed = match self.pass(number, place, (self.lost, start), &about) {
            Ok(passed) => passed,
            Err(error) => {
                self.add(Kind::Unreadable, None, Some(number), None, error.to_string());
                return self.skip(known, &about);
            }
        };
        (self.lost, self.outcome.end_known) = (false, true);
        self.outcome.covered = self.outcome.covered.max(passed.covered.unwrap_or(0));
        self.unmatched = self.unmatched.or(passed.unmatched);
        let torn = match passed.broken {
            None => {
                self.outcome.entries = self.outcome.entries.saturating_add(passed.lines);
                self.outcome.last = passed.place.expected.saturating_sub(1);
                self.outcome.head = passed.place.prev;
                self.sound(number, rank, &about, passed)
            }
            Some(broken) => match self.name_changes(number, passed.start, broken) {
                Ok(loaded) if loaded.cut => return self.skip(known, &about),
                Ok(loaded) => loaded.torn,
                Err(error) => {
                    self.add(Kind::Unreadable, None, Some(number), None, error.to_string());
                    return self.skip(known, &about);
                }
            },
        };
        let Some(line) = torn else { return };
        let index = Some(self.outcome.last.saturating_add(1));
        let (kind, message) = match rank.is_last {
            true => (Kind::TornTail, "an unfinished write is at the end; opening the ledger mends it"),
            false => (Kind::Truncated, "the segment ends in the middle of a line"),
        };
        self.add(kind, index, Some(number), Some(line), message.to_owned());
    }

    /// Goes on after a segment that was not read to its end, where a record says that it ended.
    fn skip(&mut self, known: u64, about: &[&Record]) {
        let end = about.last().map(|it| &it.checkpoint).filter(|it| it.last > known);
        self.outcome.last = end.map_or(known, |it| it.last);
        self.outcome.head = end.and_then(|it| it.head_code());
        self.lost = end.is_none();
        self.outcome.end_known = false;
    }

    /// The lines follow from each other: do the records say the same? Returns the line of a torn write.
    fn sound(&mut self, number: u32, rank: Rank, about: &[&Record], passed: Passed<'_>) -> Option<u64> {
        let before = self.findings.tampering;
        let covered = passed.covered.unwrap_or(passed.start.expected.saturating_sub(1));
        if let Some(record) = passed.misfit {
            self.root_misfit(record, number, covered);
        }
        let is_proved = self.findings.tampering == 0 && self.records.whole && !self.about.is_empty();
        if passed.lines == 0 && about.is_empty() && !rank.is_last {
            let index = Some(self.outcome.last.saturating_add(1));
            let message = format!("segment {number} is empty, and another one follows");
            self.add(Kind::Inserted, index, Some(number), None, message);
        } else if rank.is_closed && is_proved && covered != self.outcome.last {
            let (index, last) = (covered.saturating_add(1), self.outcome.last);
            let later = self.about.range(number.saturating_add(1)..).next();
            match later.and_then(|(_, all)| all.first()).map(|it| it.checkpoint.first) {
                // Nothing after this is signed either.
                None => {}
                // The writer signed that the next one begins here: it could not sign these before it went on.
                Some(first) if first == last.saturating_add(1) => {
                    self.unsigned = self.unsigned.or(Some(index));
                }
                Some(_) => {
                    let message = format!(
                        "entries {index} to {last} are in segment {number}, which ended before them when it was signed"
                    );
                    self.add(Kind::Reordered, Some(index), Some(number), None, message);
                }
            }
        }
        if self.findings.tampering == before {
            passed.jumps.into_iter().for_each(|jump| self.findings.add(jump));
        }
        passed.torn
    }

    /// Reads the segment again, into memory, and says what was done to its lines. `broken` is the first that is wrong.
    fn name_changes(&mut self, number: u32, start: Place, broken: (u64, u64)) -> std::io::Result<Loaded> {
        let (index, line) = broken;
        let not_written = format!("entry {index}: the line is not the entry that was written");
        let loaded = match self.load(number) {
            Ok(loaded) => loaded,
            Err(error) => {
                self.add(Kind::Edited, Some(index), Some(number), Some(line), not_written);
                return Err(error);
            }
        };
        if loaded.cut {
            let message = format!(
                "segment {number}: stopped after line {}: over {MAX_BAD_LINES} lines are no entries, or it is too long",
                loaded.lines()
            );
            self.add(Kind::Unreadable, Some(index), Some(number), Some(line), message);
        }
        let before = self.findings.tampering;
        let place = order::follow(&loaded.seen, number, start, self.findings);
        if self.findings.tampering == before {
            self.add(Kind::Edited, Some(index), Some(number), Some(line), not_written);
        }
        self.outcome.last = place.expected.saturating_sub(1);
        self.outcome.head = place.prev;
        self.outcome.entries = self.outcome.entries.saturating_add(loaded.lines());
        Ok(loaded)
    }

    /// The lines seem sound and a signed root says otherwise.
    fn root_misfit(&mut self, record: &Record, number: u32, covered: u64) {
        let it = &record.checkpoint;
        let from = covered.saturating_add(1);
        if self.key.is_some() {
            let message = format!("checkpoint {} does not describe the entries up to {}", it.n, it.last);
            self.add(Kind::ForgedRoot, Some(it.last), None, Some(record.line), message);
        } else {
            let message = format!(
                "an entry from {from} to {} is not what checkpoint {} signed; the chain key would tell which",
                it.last, it.n
            );
            self.add(Kind::Edited, Some(from), Some(number), None, message);
        }
    }

    /// What should be there after the last line.
    fn check_end(&mut self, from: u32, last_segment: Option<u32>) {
        let list = &self.records.list;
        let claimed = list.iter().filter(|it| it.valid || self.key.is_none()).map(|it| &it.checkpoint);
        let claimed = claimed.filter(|it| it.segment >= from).max_by_key(|it| it.last);
        if let Some(it) = claimed.filter(|it| self.outcome.end_known && it.last > self.outcome.last) {
            let index = self.outcome.last.saturating_add(1);
            let message = format!(
                "checkpoint {} covers entries up to {}, from {index} on they are missing",
                it.n, it.last
            );
            self.add(Kind::Truncated, Some(index), last_segment, None, message);
        }
        if let Some(record) = self.unmatched.filter(|_| self.findings.tampering == 0) {
            let it = &record.checkpoint;
            let message = format!(
                "entries {} to {} are not in segment {}, where checkpoint {} signed them",
                it.first, it.last, it.segment, it.n
            );
            self.add(Kind::Reordered, Some(it.first), Some(it.segment), None, message);
        }
        if !list.iter().any(|it| it.valid) {
            let message = "no valid checkpoint: nothing proves these entries".to_owned();
            return self.add(Kind::NoCheckpoint, None, None, None, message);
        }
        // Entries under a valid checkpoint were compared with it, or a finding says why not.
        let signed = list.iter().filter(|it| it.valid).map(|it| it.checkpoint.last).max().unwrap_or(0);
        let covered = if self.outcome.end_known { self.outcome.covered } else { signed };
        let first = (covered < self.outcome.last).then(|| covered.saturating_add(1));
        if let Some(first) =
            self.unsigned.or(first).filter(|_| self.key.is_none() && self.findings.tampering == 0)
        {
            let message =
                format!("entries from {first} on have no checkpoint yet, and there is no chain key");
            self.add(Kind::NotCovered, Some(first), last_segment, None, message);
        }
    }

    pub(crate) fn add(
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
