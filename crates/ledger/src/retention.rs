//! Turns old segments into one signed statement that they were dropped on purpose.
//!
//! Order: continuity record, checkpoint, removal. Invariants: nothing is removed before both are durable; the
//! current segment and segments with open entries stay; a crash between is finished at the next start. Not
//! here: how old is old (`server`).

use std::io;
use std::sync::Arc;

use crate::checkpoint::RecordKind;
use crate::entry;
use crate::error::DropError;
use crate::keys::Code;
use crate::merkle::Tree;
use crate::writer::Writer;
use crate::{disk, read, segment};

/// The last segment that goes, with its last entry.
struct Cut {
    segment: u32,
    bytes: u64,
    last: u64,
    head: Code,
}

impl Writer {
    /// Drops whole segments that end before `seq`; returns how many entries went.
    pub(crate) fn drop_before(&mut self, seq: u64) -> Result<u64, DropError> {
        let storage = |error: io::Error| DropError::Storage(Arc::new(error));
        let bound = self.open.first().map_or(seq, |open| open.min(seq));
        let Some(cut) = self.cut_before(bound).map_err(storage)? else { return Ok(0) };
        if self.current.tree.size() == 0 {
            return Ok(0); // the segment was just begun: a checkpoint of it has nothing to cover yet
        }
        let first = read::first_of(&self.dir, self.records.from).unwrap_or(1);
        self.write_continuity(&cut, first)?;
        let dropped = self.records.from;
        for number in (1..dropped).rev() {
            match std::fs::remove_file(segment::path(&self.dir, number)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(storage(error)),
            }
        }
        disk::sync_dir(&self.dir.join(segment::FOLDER)).map_err(storage)?;
        Ok(cut.last.saturating_sub(first).saturating_add(1))
    }

    /// Says what goes, and signs what stays.
    fn write_continuity(&mut self, cut: &Cut, first: u64) -> Result<(), DropError> {
        let mut record = self.describe(RecordKind::Retention);
        record.from = cut.segment.saturating_add(1);
        record.segment = cut.segment;
        record.bytes = cut.bytes;
        record.first = first;
        record.last = cut.last;
        record.count = cut.last;
        record.head = hex::encode(cut.head);
        record.root = hex::encode(Tree::default().root());
        record.peaks = Vec::new();
        record.open = Vec::new();
        self.write_record(record)?;
        self.write_record(self.describe(RecordKind::Checkpoint))?;
        self.uncovered_since = None;
        self.publish(None);
        Ok(())
    }

    fn cut_before(&self, bound: u64) -> io::Result<Option<Cut>> {
        let mut cut = None;
        for number in self.records.from..self.current.number {
            let path = segment::path(&self.dir, number);
            let bytes = std::fs::metadata(&path)?.len();
            let Some(line) = segment::line_before(&path, bytes)? else { break };
            let Ok((entry, head)) = entry::parse(&line) else { break };
            if entry.seq >= bound {
                break;
            }
            cut = Some(Cut { segment: number, bytes, last: entry.seq, head });
        }
        Ok(cut)
    }
}
