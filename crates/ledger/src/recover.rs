//! Turns a directory, as the last process left it, into the place where the chain goes on.
//!
//! Starts at the last checkpoint and reads only what came after it. Invariants: what a signed checkpoint
//! claims must be there, or opening is refused; only bytes that are no entry at all, at the very end, are
//! taken for a torn write and cut off (they are kept aside). A whole line that does not verify is never cut:
//! no crash writes one. Not here: writing the marks of a recovery ([`crate::writer`]).

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::checkpoint::{self, Checkpoint, RecordKind};
use crate::entry;
use crate::error::OpenError;
use crate::keys::{Code, GENESIS, Keys};
use crate::merkle::{Hash, Tree, leaf};
use crate::open::OpenEntries;
use crate::segment::{self, Lines, Piece};

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
    pub(crate) open: OpenEntries,
    /// The time of the first entry that no checkpoint covers.
    pub(crate) uncovered_since: Option<i64>,
    pub(crate) torn: Option<Torn>,
}

/// What the checkpoint file ends with.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) n: u64,
    pub(crate) hash: Hash,
    pub(crate) bytes: u64,
    pub(crate) from: u32,
    last: Option<Checkpoint>,
}

/// Finds the place where the chain in `dir` goes on.
pub(crate) fn resume(dir: &Path, keys: &Keys) -> Result<Resume, OpenError> {
    let records = last_records(dir, keys)?;
    let segments = kept_segments(dir, records.from)?;
    let mut resume = start(dir, keys, records)?;
    let last = segments.last().copied().unwrap_or(resume.segment).max(resume.segment);
    scan(dir, keys, &mut resume, last)?;
    Ok(resume)
}

fn at(path: PathBuf) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Io { path, source }
}

/// Reads the end of the checkpoint file and cuts off a record that a crash tore.
fn last_records(dir: &Path, keys: &Keys) -> Result<Records, OpenError> {
    let path = dir.join(checkpoint::FILE);
    let length = match std::fs::metadata(&path) {
        Ok(meta) => meta.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Records { from: 1, ..Records::default() });
        }
        Err(error) => return Err(at(path)(error)),
    };
    // The window nearly always holds what is needed; if not, the whole file does.
    let window = u64::try_from(checkpoint::MAX_RECORD * 4).unwrap_or(u64::MAX);
    for start in [length.saturating_sub(window), 0] {
        let bytes = read_from(&path, start).map_err(at(path.clone()))?;
        if let Some(records) = parse_records(&bytes, start, keys)? {
            if records.bytes < length {
                keep_aside(dir, &path, records.bytes, length).map_err(at(path))?;
            }
            return Ok(records);
        }
    }
    if length > 0 {
        keep_aside(dir, &path, 0, length).map_err(at(path))?;
    }
    Ok(Records { from: 1, ..Records::default() })
}

/// The last record and the last checkpoint among `bytes`, which start at `offset`.
fn parse_records(bytes: &[u8], offset: u64, keys: &Keys) -> Result<Option<Records>, OpenError> {
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { return Ok(None) };
    let whole = bytes.get(..end).unwrap_or_default();
    let mut lines = whole.rsplit(|byte| *byte == b'\n').peekable();
    let Some(last_line) = lines.peek().copied() else { return Ok(None) };
    let newest = checkpoint::parse(last_line).ok_or(OpenError::BadCheckpoint(0))?;
    for line in lines {
        // The first line of a window may be cut; then the whole file is read instead.
        let Some(record) = checkpoint::parse(line) else { return Ok(None) };
        if record.kind == RecordKind::Checkpoint {
            check_signature(line, &record, keys)?;
            return Ok(Some(Records {
                n: newest.n,
                hash: checkpoint::hash(last_line),
                bytes: offset.saturating_add(u64::try_from(end).unwrap_or(0)).saturating_add(1),
                from: newest.from,
                last: Some(record),
            }));
        }
    }
    Ok(None)
}

/// A record under our own key id must carry our signature; one of an earlier key is for the verifier.
fn check_signature(line: &[u8], record: &Checkpoint, keys: &Keys) -> Result<(), OpenError> {
    if record.key != keys.signer_id {
        return Ok(());
    }
    let good = checkpoint::split(line).is_some_and(|(covered, signature)| {
        let signature = ed25519_dalek::Signature::from_bytes(&signature);
        keys.verifying_key().verify_strict(covered, &signature).is_ok()
    });
    if good { Ok(()) } else { Err(OpenError::BadCheckpoint(record.n)) }
}

/// Lists the segments, finishes an interrupted retention, and refuses holes.
fn kept_segments(dir: &Path, from: u32) -> Result<Vec<u32>, OpenError> {
    let folder = dir.join(segment::FOLDER);
    let mut numbers = segment::list(dir).map_err(at(folder))?;
    for dropped in numbers.iter().filter(|number| **number < from) {
        let path = segment::path(dir, *dropped);
        std::fs::remove_file(&path).map_err(at(path))?;
    }
    numbers.retain(|number| *number >= from);
    for (expected, found) in (from..).zip(&numbers) {
        if expected != *found {
            return Err(OpenError::SegmentMissing(expected));
        }
    }
    Ok(numbers)
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
        open: OpenEntries::default(),
        uncovered_since: None,
        torn: None,
    };
    let Some(last) = resume.records.last.take() else { return Ok(resume) };
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

/// Reads on from the start to the end of segment `last`.
fn scan(dir: &Path, keys: &Keys, resume: &mut Resume, last: u32) -> Result<(), OpenError> {
    loop {
        let path = segment::path(dir, resume.segment);
        if !path.exists() {
            return Ok(());
        }
        let mut lines = Lines::open(&path, resume.bytes, None).map_err(at(path.clone()))?;
        let bad = loop {
            match lines.next().map_err(at(path.clone()))? {
                Piece::End => break None,
                Piece::Torn(offset) => break Some(offset),
                Piece::Line(line, offset) if entry::parse(line).is_err() => break Some(offset),
                Piece::Line(line, _) => follow(line, keys, resume)?,
            }
        };
        match bad {
            Some(offset) => return cut_torn(dir, &path, offset, lines, resume, last),
            None if resume.segment < last => {
                resume.segment = resume.segment.saturating_add(1);
                resume.bytes = 0;
                resume.first = resume.seq.saturating_add(1);
                resume.tree = Tree::default();
            }
            None => return Ok(()),
        }
    }
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
    resume.bytes = resume.bytes.saturating_add(u64::try_from(line.len()).unwrap_or(0)).saturating_add(1);
    resume.tree.push(leaf(line));
    resume.open.note(entry.seq, entry.opens, entry.closes);
    resume.uncovered_since.get_or_insert(entry.at);
    Ok(())
}

/// Cuts the file at `offset`, if it is the last one and holds no entry after that.
fn cut_torn(
    dir: &Path,
    path: &Path,
    offset: u64,
    mut lines: Lines,
    resume: &mut Resume,
    last: u32,
) -> Result<(), OpenError> {
    let broken = || OpenError::Broken { seq: resume.seq.saturating_add(1), segment: resume.segment };
    if resume.segment < last {
        return Err(broken());
    }
    loop {
        match lines.next().map_err(at(path.to_owned()))? {
            Piece::End => break,
            Piece::Torn(..) => {}
            Piece::Line(line, _) if entry::parse(line).is_ok() => return Err(broken()),
            Piece::Line(..) => {}
        }
    }
    let length = std::fs::metadata(path).map_err(at(path.to_owned()))?.len();
    let kept = keep_aside(dir, path, offset, length).map_err(at(path.to_owned()))?;
    let bytes = length.saturating_sub(offset);
    resume.torn = Some(Torn { segment: resume.segment, bytes, kept });
    Ok(())
}

/// Moves what follows `offset` into a file of its own (if there is room) and cuts it off.
fn keep_aside(dir: &Path, path: &Path, offset: u64, length: u64) -> io::Result<Option<PathBuf>> {
    let bytes = read_from(path, offset)?;
    let free = (1..10_000u32).map(|number| dir.join(format!("torn-{number}"))).find(|path| !path.exists());
    let kept = free.filter(|aside| std::fs::write(aside, &bytes).is_ok());
    let file = std::fs::OpenOptions::new().write(true).open(path)?;
    if offset < length {
        file.set_len(offset)?;
        file.sync_all()?;
    }
    Ok(kept)
}

fn read_from(path: &Path, offset: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
