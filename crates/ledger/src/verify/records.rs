//! Checks the checkpoint file: numbering, links, signatures, anchors.
//!
//! Turns its lines into [`Record`]s, each known to be valid or not; only valid ones prove anything later.
//! Invariant: a record with a finding is never valid. Not here: whether the entries fit ([`super::chain`]).

use std::collections::HashMap;
use std::path::Path;

use super::report::{Finding, Findings, Kind};
use super::trust::{Anchors, Trust};
use crate::checkpoint::{self, Checkpoint};
use crate::merkle::Hash;
use crate::segment::{Lines, Piece};

/// One record of the checkpoint file.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) hash: Hash,
    pub(crate) line: u64,
    /// Signed by a trusted key, in its place, undisputed.
    pub(crate) valid: bool,
}

/// The checkpoint file.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) list: Vec<Record>,
    /// Whether it could be read to its end.
    pub(crate) whole: bool,
}

/// Lines that are no records, before the rest of the file is not looked at any more.
const MAX_BAD_LINES: u32 = 100;

/// Reads and checks the file, up to byte `limit`.
pub(crate) fn check(dir: &Path, trust: &Trust, limit: Option<u64>, findings: &mut Findings) -> Records {
    let mut records = Records { list: Vec::new(), whole: true };
    let mut bad = 0u32;
    let path = dir.join(checkpoint::FILE);
    let mut lines = match Lines::open(&path, 0, limit) {
        Ok(lines) => lines,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return records,
        Err(error) => {
            findings.add(about(Kind::Unreadable, None, 0, format!("the checkpoint file: {error}")));
            return Records { whole: false, ..records };
        }
    };
    for number in 1u64.. {
        match lines.next_within(checkpoint::MAX_RECORD) {
            Err(error) => {
                findings.add(about(Kind::Unreadable, None, number, format!("the checkpoint file: {error}")));
                return Records { whole: false, ..records };
            }
            Ok(Piece::End) => break,
            Ok(Piece::Torn(..)) => {
                findings.add(about(Kind::TornTail, None, number, "the last checkpoint is not whole".into()));
            }
            Ok(Piece::Line(line, _)) => {
                let record = check_line(line, number, records.list.last(), trust, findings);
                bad = bad.saturating_add(u32::from(record.is_none()));
                records.list.extend(record);
                if bad > MAX_BAD_LINES {
                    let message =
                        "the checkpoint file: stopped, too many lines are no checkpoints".to_owned();
                    findings.add(about(Kind::Unreadable, None, number, message));
                    return Records { whole: false, ..records };
                }
            }
        }
    }
    records
}

fn check_line(
    line: &[u8],
    number: u64,
    before: Option<&Record>,
    trust: &Trust,
    findings: &mut Findings,
) -> Option<Record> {
    let hash = checkpoint::hash(line);
    let Some(checkpoint) = checkpoint::parse(line) else {
        findings.add(about(Kind::ForgedCheckpoint, None, number, "the line is not a checkpoint".into()));
        return None;
    };
    let last = Some(checkpoint.last);
    let mut valid = !trust.is_empty();
    if valid && let Err((kind, why)) = trust.check(line, &checkpoint) {
        valid = false;
        let message = format!("checkpoint {} by key `{}`: {why}", checkpoint.n, checkpoint.key);
        findings.add(about(kind, last, number, message));
    }
    let (expected, prev) = before.map_or((1, [0; 32]), |it| (it.checkpoint.n.saturating_add(1), it.hash));
    if checkpoint.n > expected {
        let message = format!("checkpoints {expected} to {} are missing", checkpoint.n.saturating_sub(1));
        findings.add(about(Kind::CheckpointsCut, last, number, message));
    } else if checkpoint.n < expected {
        valid = false;
        findings.add(about(Kind::Fork, last, number, format!("checkpoint {} is there twice", checkpoint.n)));
    } else if checkpoint.prev != hex::encode(prev) {
        let message = format!("checkpoint {} does not follow from the one before", checkpoint.n);
        // Two genuine signatures over different pasts are two writers; anything else is a forgery.
        let kind =
            if valid && before.is_none_or(|it| it.valid) { Kind::Fork } else { Kind::ForgedCheckpoint };
        valid = false;
        findings.add(about(kind, last, number, message));
    }
    Some(Record { checkpoint: slim(checkpoint), hash, line: number, valid })
}

/// Without what only a writer needs: a long ledger has very many records.
fn slim(checkpoint: Checkpoint) -> Checkpoint {
    let none = String::new;
    let (peaks, open) = (Vec::new(), Vec::new());
    Checkpoint { prev: none(), key: none(), sig: none(), peaks, open, ..checkpoint }
}

/// The newest anchored record, after comparing all anchors.
pub(crate) fn check_anchors<'a>(
    records: &'a [Record],
    anchors: &Anchors,
    findings: &mut Findings,
) -> Option<(&'a Record, Option<i64>)> {
    let mut newest = None;
    let mut by_number: HashMap<u64, &Record> = HashMap::with_capacity(records.len());
    for record in records {
        by_number.entry(record.checkpoint.n).or_insert(record); // the first of several
    }
    for (number, anchor) in &anchors.list {
        match by_number.get(number).copied() {
            Some(record) if record.hash == anchor.hash => newest = Some((record, anchor.at)),
            Some(record) => {
                let message = format!("checkpoint {number} is not the one that was anchored");
                findings.add(about(Kind::RolledBack, Some(record.checkpoint.last), record.line, message));
            }
            None => {
                let last = records.last().map(|record| record.checkpoint.last);
                let message = format!("checkpoint {number} was anchored and is not there");
                findings.add(about(Kind::RolledBack, last, 0, message));
            }
        }
    }
    newest
}

fn about(kind: Kind, index: Option<u64>, line: u64, message: String) -> Finding {
    Finding { kind, index, segment: None, line: (line > 0).then_some(line), message }
}
