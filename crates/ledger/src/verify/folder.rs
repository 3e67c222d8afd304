//! Sorts what lies in the folder of segments: kept ones, dropped ones that are still there, and what does not belong.
//!
//! Invariants: every name in the folder is either a kept segment, or a dropped one that holds exactly what was signed
//! (a crash came between the signed record of retention and the removal), or a finding. Not here: what kept
//! segments hold ([`super::chain`]).

use std::io;
use std::path::Path;
use std::time::Duration;

use super::Limits;
use super::records::Record;
use super::report::{Finding, Findings, Kind};
use super::trust::Trust;
use crate::checkpoint;
use crate::entry;
use crate::keys::ChainKey;
use crate::merkle::{Tree, leaf};
use crate::segment::{self, Lines, Piece};

/// Names that are listed one by one.
const MAX_NAMED: usize = 100;

/// The segments that are there, in order.
pub(crate) struct Folder {
    /// Those before the first that is kept.
    pub(crate) dropped: Vec<u32>,
    pub(crate) kept: Vec<u32>,
}

/// Lists the folder, in which segments from `from` on are kept; `None` if it cannot be read. No folder means that
/// there are none.
pub(crate) fn look(dir: &Path, from: u32, findings: &mut Findings) -> Option<Folder> {
    let (numbers, mut strangers, more) = match list(dir) {
        Ok(listed) => listed,
        Err(error) => {
            findings.add(about(Kind::Unreadable, None, format!("the segments: {error}")));
            return None;
        }
    };
    strangers.sort_unstable();
    for name in strangers {
        let message = format!("`{}/{name}` is not a segment of this ledger", segment::FOLDER);
        findings.add(about(Kind::Inserted, None, message));
    }
    if more > 0 {
        let message = format!("`{}` holds {more} more files that are no segments", segment::FOLDER);
        findings.add(about(Kind::Inserted, None, message));
    }
    let (kept, dropped) = numbers.into_iter().partition(|number| *number >= from);
    Some(Folder { dropped, kept })
}

/// The numbers of segments, in order; some other names; how many more of those there are.
fn list(dir: &Path) -> io::Result<(Vec<u32>, Vec<String>, u64)> {
    let (mut numbers, mut strangers, mut more) = (Vec::new(), Vec::new(), 0u64);
    let items = match std::fs::read_dir(dir.join(segment::FOLDER)) {
        Ok(items) => items,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((numbers, strangers, more)),
        Err(error) => return Err(error),
    };
    for item in items {
        let name = item?.file_name();
        match segment::number_of(&name) {
            Some(number) => numbers.push(number),
            None if strangers.len() < MAX_NAMED => {
                strangers.push(name.to_string_lossy().escape_debug().to_string());
            }
            None => more = more.saturating_add(1),
        }
    }
    numbers.sort_unstable();
    Ok((numbers, strangers, more))
}

/// Whether a segment is a file without any byte, as the writer leaves the next one when it is stopped there.
pub(crate) fn is_empty(dir: &Path, number: u32) -> bool {
    std::fs::symlink_metadata(segment::path(dir, number)).is_ok_and(|meta| meta.is_file() && meta.len() == 0)
}

/// Checks that a dropped segment which is still there is the one that was dropped; `last` is the record that closed it.
pub(crate) fn check_dropped(dir: &Path, number: u32, last: Option<&Record>, findings: &mut Findings) {
    let is_the_same = match last {
        None => Ok(false),
        Some(record) => holds(dir, number, record),
    };
    match is_the_same {
        Ok(true) => {}
        Ok(false) => {
            let index = last.map(|it| it.checkpoint.first);
            let message =
                format!("segment {number} was dropped, and what stands in its place is another one");
            findings.add(Finding { index, ..about(Kind::Inserted, Some(number), message) });
        }
        // Retention goes on while we look.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => findings.add(about(Kind::Unreadable, Some(number), error.to_string())),
    }
}

/// Whether a segment holds exactly what a record says.
fn holds(dir: &Path, number: u32, record: &Record) -> io::Result<bool> {
    let it = &record.checkpoint;
    let size = it.last.saturating_add(1).saturating_sub(it.first);
    let mut lines = Lines::open(&segment::path(dir, number), 0, None)?;
    let mut tree = Tree::default();
    loop {
        match lines.next()? {
            Piece::End => return Ok(tree.size() == size && it.root == hex::encode(tree.root())),
            Piece::Line(line, _) if tree.size() < size => tree.push(leaf(line)),
            Piece::Line(..) | Piece::Torn(..) => return Ok(false),
        }
    }
}

/// Whether what follows the end that a running writer knew (its files, and entry `seq`) is what it may have written
/// since. If not, all is read as someone outside would.
pub(crate) fn goes_on(dir: &Path, trust: &Trust, key: &ChainKey, limits: Limits, seq: u64) -> bool {
    let genuine = |line: &[u8]| {
        entry::parse(line).is_ok_and(|(entry, _)| entry.seq > seq)
            && entry::split(line).is_some_and(|(covered, code)| key.code(covered) == code)
    };
    let signed = |line: &[u8]| {
        checkpoint::parse(line).is_some_and(|record| trust.is_empty() || trust.check(line, &record).is_ok())
    };
    let numbers = segment::list(dir).unwrap_or_default();
    let later: Vec<u32> = numbers.into_iter().filter(|number| *number > limits.segment).collect();
    let in_order = (limits.segment.saturating_add(1)..).zip(&later).all(|(due, number)| due == *number);
    // Only the last one may be empty.
    let with_lines = (limits.segment..).zip(&later).all(|(before, _)| !is_empty(dir, before));
    in_order
        && with_lines
        && follows(&dir.join(checkpoint::FILE), limits.record_bytes, signed)
        && follows(&segment::path(dir, limits.segment), limits.bytes, genuine)
        && later.iter().all(|number| follows(&segment::path(dir, *number), 0, genuine))
}

/// Whether nothing follows byte `end` of a file, or a line that is `fine`.
fn follows(path: &Path, end: u64, fine: impl Fn(&[u8]) -> bool) -> bool {
    // A line that is not whole may be on its way.
    for _ in 0..5 {
        let answer = Lines::open(path, end, None).and_then(|mut lines| {
            Ok(match lines.next_within(checkpoint::MAX_RECORD)? {
                Piece::End => Some(true),
                Piece::Line(line, _) => Some(fine(line)),
                Piece::Torn(..) => None,
            })
        });
        match answer {
            Ok(Some(answer)) => return answer,
            Ok(None) => std::thread::sleep(Duration::from_millis(10)),
            Err(_) => return false,
        }
    }
    false
}

fn about(kind: Kind, segment: Option<u32>, message: String) -> Finding {
    Finding { kind, index: None, segment, line: None, message }
}
