//! Turns old segments into one signed statement that they were dropped on purpose.
//!
//! Order: opening entry, continuity record, checkpoint, removal, closing entry. Invariants: nothing is removed
//! before entry and records are durable; the current segment and segments with open entries stay; a crash
//! between is finished at the next start. Not here: when it is time to look (`runtime`).

use std::io;
use std::sync::Arc;

use model::Millis;

use crate::checkpoint::RecordKind;
use crate::draft::{Decision, Draft};
use crate::entry::{self, Entry};
use crate::error::DropError;
use crate::keys::Code;
use crate::merkle::Tree;
use crate::queue::Fallback;
use crate::writer::Writer;
use crate::{disk, read, segment};

const DAY: Millis = 24 * 60 * 60 * 1000;
/// A segment that began this long ago is closed even if it is small, or a quiet ledger would keep all for ever.
const LONGEST: Millis = 30 * DAY;

/// The last segment that goes, with its last entry.
struct Cut {
    segment: u32,
    bytes: u64,
    last: u64,
    head: Code,
}

impl Writer {
    /// Drops whole segments whose last entry is older than entries are kept; returns how many entries went.
    pub(crate) fn drop_old(&mut self) -> Result<u64, DropError> {
        let oldest = self.clock.now().saturating_sub(self.options.keep_for);
        let why = format!("older than {} days", self.options.keep_for / DAY);
        self.drop_while(|entry| entry.at < oldest, &why)
    }

    /// Drops whole segments that end before `seq`; returns how many entries went.
    pub(crate) fn drop_before(&mut self, seq: u64) -> Result<u64, DropError> {
        self.drop_while(|entry| entry.seq < seq, &format!("before entry {seq}"))
    }

    /// Whether the current segment began so long ago that another one must follow.
    pub(crate) fn is_long(&self, now: Millis) -> bool {
        let longest = LONGEST.min(self.options.keep_for);
        self.current.since.is_some_and(|since| now.saturating_sub(since) >= longest)
    }

    fn drop_while(&mut self, goes: impl Fn(&Entry) -> bool, why: &str) -> Result<u64, DropError> {
        // The ledger and this writer have one each; any other belongs to someone who copies.
        if Arc::strong_count(&self.held) > 2 {
            return Ok(0);
        }
        let Some(cut) = self.cut(goes).map_err(storage)? else { return Ok(0) };
        let first = read::first_of(&self.dir, self.records.from).unwrap_or(1);
        let entry = |decision, why: &str| {
            Draft::new("ledger", "ledger.retention", decision)
                .on(segment::name(cut.segment))
                .because(why)
                .with("first", first.to_string())
                .with("last", cut.last.to_string())
        };
        let opened = self.note(&entry(Decision::Allowed, why).opens(), Fallback::None)?;
        let done = self.write_continuity(&cut, first).and_then(|()| self.remove_dropped());
        let closing = match &done {
            Ok(()) => entry(Decision::Done, ""),
            Err(error) => entry(Decision::Failed, &error.to_string()),
        };
        // A closing entry that not even the reserve holds is made good at recovery.
        let _ = self.note(&closing.closes_recorded(opened), Fallback::Reserve);
        // So that a verifier without the chain key finds all of it signed; a failure shows in the health.
        let _ = self.checkpoint();
        done.map(|()| cut.last.saturating_sub(first).saturating_add(1))
    }

    fn remove_dropped(&self) -> Result<(), DropError> {
        for number in (1..self.records.from).rev() {
            match std::fs::remove_file(segment::path(&self.dir, number)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(storage(error)),
            }
        }
        disk::sync_dir(&self.dir.join(segment::FOLDER)).map_err(storage)
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

    /// The last of the oldest segments whose last entry goes, and all before it.
    fn cut(&self, goes: impl Fn(&Entry) -> bool) -> io::Result<Option<Cut>> {
        let mut cut = None;
        for number in self.records.from..self.current.number {
            let path = segment::path(&self.dir, number);
            let bytes = std::fs::metadata(&path)?.len();
            let Some(line) = segment::line_before(&path, bytes)? else { break };
            let Ok((entry, head)) = entry::parse(&line) else { break };
            if !goes(&entry) || self.open.first().is_some_and(|open| open <= entry.seq) {
                break;
            }
            cut = Some(Cut { segment: number, bytes, last: entry.seq, head });
        }
        Ok(cut)
    }
}

fn storage(error: io::Error) -> DropError {
    DropError::Storage(Arc::new(error))
}
