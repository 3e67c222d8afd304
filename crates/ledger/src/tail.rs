//! Follows a ledger that is being written: each call gives what came since the last.
//!
//! Invariant: nothing past the entry the caller names as durable is given out, so a write that is rolled
//! back is never seen; what retention dropped meanwhile is passed over. Reading needs no key and no lock.

use std::path::{Path, PathBuf};

use crate::entry;
use crate::error::ReadError;
use crate::read::{Stored, first_of};
use crate::segment::{self, Lines, Piece};

/// A place in a ledger that grows.
#[derive(Debug)]
pub struct Tail {
    dir: PathBuf,
    /// The next entry to give.
    next: u64,
    /// Where it begins, once that is known.
    place: Option<(u32, u64)>,
    /// Whole lines before that place in its segment.
    lines: u64,
}

impl Tail {
    /// A tail that begins with entry `from`.
    #[must_use]
    pub fn new(dir: &Path, from: u64) -> Self {
        Self { dir: dir.to_owned(), next: from.max(1), place: None, lines: 0 }
    }

    /// Entries up to `durable`, at most `most` of them.
    pub fn more(&mut self, durable: u64, most: usize) -> Result<Vec<Stored>, ReadError> {
        let mut found = Vec::new();
        while self.next <= durable && found.len() < most {
            let before = (self.next, self.place);
            self.step(durable, most, &mut found)?;
            if before == (self.next, self.place) {
                break;
            }
        }
        Ok(found)
    }

    /// Reads on in the present segment, and moves to the next one at its end.
    fn step(&mut self, durable: u64, most: usize, found: &mut Vec<Stored>) -> Result<(), ReadError> {
        let (number, offset) = match self.place {
            Some(place) => place,
            None => match self.segment_of(self.next)? {
                Some(number) => self.enter(number),
                None => return Ok(()),
            },
        };
        let path = segment::path(&self.dir, number);
        let io = |source| ReadError::Io { path: path.clone(), source };
        let mut lines = match Lines::open(&path, offset, None) {
            Ok(lines) => lines,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.place.is_some() => {
                // Retention took the segment; the next step finds the one to go on with.
                self.place = None;
                return Ok(());
            }
            Err(error) => return Err(io(error)),
        };
        self.place = Some((number, offset));
        while self.next <= durable && found.len() < most {
            let (line, end) = match lines.next().map_err(io)? {
                Piece::Line(line, start) => {
                    let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
                    (line, start.saturating_add(length).saturating_add(1))
                }
                Piece::End | Piece::Torn(..) => {
                    // What is durable and not here stands in a later segment.
                    if let Some(later) = self.segment_of(self.next)?.filter(|later| *later > number) {
                        self.place = Some(self.enter(later));
                    }
                    return Ok(());
                }
            };
            let bad = ReadError::NotAnEntry { segment: number, line: self.lines.saturating_add(1) };
            let (entry, _) = entry::parse(line).map_err(|_| bad)?;
            if entry.seq > durable {
                return Ok(());
            }
            self.place = Some((number, end));
            self.lines = self.lines.saturating_add(1);
            if entry.seq >= self.next {
                self.next = entry.seq.saturating_add(1);
                found.push(Stored { seq: entry.seq, line: line.to_vec(), entry });
            }
        }
        Ok(())
    }

    /// The beginning of a segment.
    fn enter(&mut self, number: u32) -> (u32, u64) {
        self.lines = 0;
        (number, 0)
    }

    /// The last segment that begins at or before an entry.
    fn segment_of(&self, seq: u64) -> Result<Option<u32>, ReadError> {
        let list = segment::list(&self.dir)
            .map_err(|source| ReadError::Io { path: self.dir.join(segment::FOLDER), source })?;
        let mut reached = list
            .iter()
            .copied()
            .filter(|number| first_of(&self.dir, *number).is_some_and(|first| first <= seq));
        Ok(reached.next_back().or_else(|| list.first().copied()))
    }
}
