//! Turns a directory, as the last process left it, into the place where the chain goes on.
//!
//! Starts at the last checkpoint and reads only what came after it. Invariants: what a signed checkpoint
//! claims must be there, or opening is refused; only bytes that are no entry at all, at the very end, are
//! taken for a torn write and cut off (they are kept aside). A whole line that does not verify is never cut:
//! no crash writes one. Nothing is cut or removed before all of this is known. Not here: writing the marks of
//! a recovery ([`crate::writer`]), the checkpoint file ([`crate::records`]).

use std::io;
use std::path::{Path, PathBuf};

use crate::error::OpenError;
use crate::keys::{Code, GENESIS, Keys};
use crate::merkle::{Tree, leaf};
use crate::open::OpenEntries;
use crate::records::{self, Records};
use crate::segment::{self, Lines, Piece};
use crate::{checkpoint, disk, entry};

/// Bytes at the end of the last segment that a crash left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The segment they were in.
    pub segment: u32,
    /// How many there were.
    pub bytes: u64,
    /// Where they are kept now, if they could be.
    pub kept: Option<PathBuf>,
}

/// Where the chain goes on.
#[derive(Debug)]
pub(crate) struct Resume {
    pub(crate) records: Records,
    pub(crate) segment: u32,
    pub(crate) bytes: u64,
    pub(crate) first: u64,
    pub(crate) tree: Tree,
    pub(crate) seq: u64,
    pub(crate) head: Code,
    /// The newest record that an entry names.
    pub(crate) claimed: u64,
    pub(crate) open: OpenEntries,
    /// The time of the first entry that no checkpoint covers.
    pub(crate) uncovered_since: Option<i64>,
    pub(crate) torn: Option<Torn>,
}

/// Finds the place where the chain in `dir` goes on, and then removes what does not belong to it.
pub(crate) fn resume(dir: &Path, keys: &Keys) -> Result<Resume, OpenError> {
    let records = records::read(dir, keys)?;
    let Segments { dropped, kept } = segments(dir, records.from)?;
    let mut resume = start(dir, keys, records)?;
    let last = kept.last().copied().unwrap_or(resume.segment).max(resume.segment);
    let torn = scan(dir, keys, &mut resume, last)?;
    // Everything is read and fits. Only now is anything changed.
    if resume.records.torn {
        let path = dir.join(checkpoint::FILE);
        disk::cut_aside(dir, &path, resume.records.bytes).map_err(at(path))?;
    }
    if let Some(offset) = torn {
        let path = segment::path(dir, resume.segment);
        let cut = disk::cut_aside(dir, &path, offset).map_err(at(path))?;
        resume.torn = Some(Torn { segment: resume.segment, bytes: cut.bytes, kept: cut.kept });
    }
    finish_retention(dir, &dropped)?;
    Ok(resume)
}

fn at(path: PathBuf) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Io { path, source }
}

/// The segments that are there.
struct Segments {
    /// Those that a signed record says were dropped.
    dropped: Vec<u32>,
    kept: Vec<u32>,
}

/// Lists the segments and refuses holes.
fn segments(dir: &Path, from: u32) -> Result<Segments, OpenError> {
    let numbers = segment::list(dir).map_err(at(dir.join(segment::FOLDER)))?;
    let (kept, dropped): (Vec<u32>, Vec<u32>) = numbers.into_iter().partition(|number| *number >= from);
    for (expected, found) in (from..).zip(&kept) {
        if expected != *found {
            return Err(OpenError::SegmentMissing(expected));
        }
    }
    Ok(Segments { dropped, kept })
}

/// Removes segments whose dropping a crash interrupted.
fn finish_retention(dir: &Path, dropped: &[u32]) -> Result<(), OpenError> {
    for number in dropped {
        let path = segment::path(dir, *number);
        std::fs::remove_file(&path).map_err(at(path))?;
    }
    if dropped.is_empty() {
        return Ok(());
    }
    let folder = dir.join(segment::FOLDER);
    disk::sync_dir(&folder).map_err(at(folder))
}

/// The state at the last checkpoint, after comparing it with the segment.
fn start(dir: &Path, keys: &Keys, records: Records) -> Result<Resume, OpenError> {
    let mut resume = Resume {
        segment: records.from.max(1),
        records,
        bytes: 0,
        first: 1,
        tree: Tree::default(),
        seq: 0,
        head: GENESIS,
        claimed: 0,
        open: OpenEntries::default(),
        uncovered_since: None,
        torn: None,
    };
    let Some(last) = resume.records.last.clone() else { return Ok(resume) };
    let rolled_back = |found| OpenError::RolledBack { checkpoint: last.n, claimed: last.last, found };
    let path = segment::path(dir, last.segment);
    let line = match segment::line_before(&path, last.bytes) {
        Ok(Some(line)) => line,
        Ok(None) => return Err(rolled_back(count_entries(dir))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(rolled_back(count_entries(dir))),
        Err(error) => return Err(at(path)(error)),
    };
    let broken = OpenError::Broken { seq: last.last, segment: last.segment };
    let Ok((found, code)) = entry::parse(&line) else { return Err(broken) };
    if found.seq != last.last || Some(code) != last.head_code() || !code_fits(&line, keys) {
        return Err(broken);
    }
    resume.tree = last.tree().ok_or(OpenError::BadCheckpoint(last.n))?;
    resume.segment = last.segment;
    resume.bytes = last.bytes;
    resume.first = last.first;
    resume.seq = last.last;
    resume.head = code;
    resume.claimed = found.checkpoint;
    resume.open = OpenEntries::from_list(&last.open);
    Ok(resume)
}

fn code_fits(line: &[u8], keys: &Keys) -> bool {
    entry::split(line).is_some_and(|(covered, code)| keys.chain.code(covered) == code)
}

/// Whole entries in the directory, for a message.
fn count_entries(dir: &Path) -> u64 {
    let numbers = segment::list(dir).unwrap_or_default();
    let lines = |number| {
        let mut lines = Lines::open(&segment::path(dir, number), 0, None).ok()?;
        let mut last = 0;
        while let Ok(Piece::Line(line, _)) = lines.next() {
            last = entry::parse(line).map_or(last, |(entry, _)| entry.seq);
        }
        Some(last)
    };
    numbers.into_iter().rev().find_map(lines).unwrap_or(0)
}

/// Reads on from the start to the end of segment `last`; says where a torn write begins.
fn scan(dir: &Path, keys: &Keys, resume: &mut Resume, last: u32) -> Result<Option<u64>, OpenError> {
    loop {
        let path = segment::path(dir, resume.segment);
        if !path.exists() {
            return Ok(None);
        }
        let mut lines = Lines::open(&path, resume.bytes, None).map_err(at(path.clone()))?;
        let torn = loop {
            match lines.next().map_err(at(path.clone()))? {
                Piece::End => break None,
                Piece::Torn(offset) => break Some(offset),
                Piece::Line(line, offset) if entry::parse(line).is_err() => break Some(offset),
                Piece::Line(line, _) => follow(line, keys, resume)?,
            }
        };
        if let Some(offset) = torn {
            refuse_entries(&path, offset, lines, resume, last)?;
            return Ok(torn);
        }
        if resume.segment >= last || begun_in_vain(dir, resume, last) {
            return Ok(None);
        }
        resume.segment = resume.segment.saturating_add(1);
        resume.bytes = 0;
        resume.first = resume.seq.saturating_add(1);
        resume.tree = Tree::default();
    }
}

/// Whether the last segment was begun and never used while entries that no checkpoint covers stand before it:
/// the chain goes on where they are, so that they are signed.
fn begun_in_vain(dir: &Path, resume: &Resume, last: u32) -> bool {
    let empty = || std::fs::symlink_metadata(segment::path(dir, last)).is_ok_and(|file| file.len() == 0);
    resume.uncovered_since.is_some() && resume.segment.saturating_add(1) == last && empty()
}

/// Takes one more entry, which must follow from the last.
fn follow(line: &[u8], keys: &Keys, resume: &mut Resume) -> Result<(), OpenError> {
    let expected = resume.seq.saturating_add(1);
    let broken = OpenError::Broken { seq: expected, segment: resume.segment };
    let Ok((entry, code)) = entry::parse(line) else { return Err(broken) };
    let follows = entry.seq == expected && entry::from_hex(entry.prev.as_bytes()) == Some(resume.head);
    if !follows || !code_fits(line, keys) {
        return Err(broken);
    }
    if entry.checkpoint > resume.records.n {
        let (claimed, found) = (entry.checkpoint, resume.records.n);
        return Err(OpenError::CheckpointsCut { seq: entry.seq, claimed, found });
    }
    resume.seq = expected;
    resume.head = code;
    resume.claimed = entry.checkpoint;
    resume.bytes = resume.bytes.saturating_add(u64::try_from(line.len()).unwrap_or(0)).saturating_add(1);
    resume.tree.push(leaf(line));
    resume.open.note(entry.seq, entry.opens, entry.closes);
    resume.uncovered_since.get_or_insert(entry.at);
    Ok(())
}

/// What follows a torn write must hold no entry, or more than the last write is damaged.
///
/// A power loss in the middle of one write can leave that too. But the file does not say where one write ended
/// and the next began, so entries that were acknowledged may stand behind the damage: a person must look.
fn refuse_entries(
    path: &Path,
    offset: u64,
    mut lines: Lines,
    resume: &Resume,
    last: u32,
) -> Result<(), OpenError> {
    let (seq, segment) = (resume.seq.saturating_add(1), resume.segment);
    let damaged = || OpenError::Damaged { seq, segment, offset };
    if resume.segment < last {
        return Err(damaged());
    }
    loop {
        match lines.next().map_err(at(path.to_owned()))? {
            Piece::End => return Ok(()),
            Piece::Line(line, _) if entry::parse(line).is_ok() => return Err(damaged()),
            Piece::Line(..) | Piece::Torn(..) => {}
        }
    }
}
