//! Turns a ledger directory into entries, in order, for a tail, a search index or an export.
//!
//! Invariant: reading needs no key and no lock and changes nothing; an unfinished last line ends the reading
//! quietly. Not here: whether the entries are genuine ([`crate::verify`]).

use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::entry::{self, Entry};
use crate::error::ReadError;
use crate::segment::{self, Lines, Piece};

/// One stored entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its place.
    pub seq: u64,
    /// The exact stored bytes, without the line feed.
    pub line: Vec<u8>,
    /// What they say.
    pub entry: Entry,
}

/// Entries in order; ends after the first error.
#[derive(Debug)]
pub struct Entries {
    dir: PathBuf,
    segments: std::vec::IntoIter<u32>,
    current: Option<(u32, Lines, u64)>,
    from: u64,
    failed: bool,
}

/// Reads the entries of `dir` from sequence `from` on.
pub fn read(dir: &Path, from: u64) -> Result<Entries, ReadError> {
    let numbers =
        segment::list(dir).map_err(|source| ReadError::Io { path: dir.join(segment::FOLDER), source })?;
    let skip = numbers.partition_point(|number| first_of(dir, *number).is_some_and(|first| first <= from));
    let kept: Vec<u32> = numbers.into_iter().skip(skip.saturating_sub(1)).collect();
    Ok(Entries { dir: dir.to_owned(), segments: kept.into_iter(), current: None, from, failed: false })
}

/// Copies the stored lines of a range to `out`, one per line; returns how many.
pub fn export(dir: &Path, range: RangeInclusive<u64>, out: &mut impl Write) -> Result<u64, ExportError> {
    let mut count = 0u64;
    for stored in read(dir, *range.start())? {
        let stored = stored?;
        if stored.seq > *range.end() {
            break;
        }
        out.write_all(&stored.line).and_then(|()| out.write_all(b"\n")).map_err(ExportError::Write)?;
        count = count.saturating_add(1);
    }
    Ok(count)
}

/// Why an export stopped.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The ledger could not be read.
    #[error("the ledger could not be read")]
    Read(#[from] ReadError),
    /// The output could not be written.
    #[error("the export could not be written")]
    Write(#[source] io::Error),
}

/// The sequence number a segment starts with.
pub(crate) fn first_of(dir: &Path, number: u32) -> Option<u64> {
    first_entry(dir, number).map(|entry| entry.seq)
}

/// The time a segment starts with.
pub(crate) fn first_at(dir: &Path, number: u32) -> Option<i64> {
    first_entry(dir, number).map(|entry| entry.at)
}

fn first_entry(dir: &Path, number: u32) -> Option<Entry> {
    let mut lines = Lines::open(&segment::path(dir, number), 0, None).ok()?;
    match lines.next().ok()? {
        Piece::Line(line, _) => entry::parse(line).ok().map(|(entry, _)| entry),
        Piece::Torn(..) | Piece::End => None,
    }
}

impl Entries {
    fn step(&mut self) -> Result<Option<Stored>, ReadError> {
        loop {
            let Some((segment, lines, count)) = &mut self.current else {
                let Some(number) = self.segments.next() else { return Ok(None) };
                let path = segment::path(&self.dir, number);
                let lines = Lines::open(&path, 0, None).map_err(|source| ReadError::Io { path, source })?;
                self.current = Some((number, lines, 0));
                continue;
            };
            let path = || segment::path(&self.dir, *segment);
            match lines.next().map_err(|source| ReadError::Io { path: path(), source })? {
                Piece::End | Piece::Torn(..) => self.current = None,
                Piece::Line(line, _) => {
                    *count = count.saturating_add(1);
                    let bad = ReadError::NotAnEntry { segment: *segment, line: *count };
                    let (entry, _) = entry::parse(line).map_err(|_| bad)?;
                    if entry.seq >= self.from {
                        return Ok(Some(Stored { seq: entry.seq, line: line.to_vec(), entry }));
                    }
                }
            }
        }
    }
}

impl Iterator for Entries {
    type Item = Result<Stored, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step().transpose();
        self.failed = matches!(step, Some(Err(_)) | None);
        step
    }
}
