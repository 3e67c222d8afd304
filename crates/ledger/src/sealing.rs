//! Turns the writer's state into signed records, when they are due.
//!
//! Invariants: a record is durable before the writer relies on it; after a failed write the checkpoint file
//! ends where it ended before, and the next tick tries again. Not here: the record's format
//! ([`crate::checkpoint`]).

use std::fs::File;
use std::io;
use std::sync::Arc;

use model::Millis;

use crate::checkpoint::{self, Checkpoint, RecordKind};
use crate::entry;
use crate::error::CheckpointError;
use crate::merkle::Hash;
use crate::writer::Writer;

/// The checkpoint file being written.
pub(crate) struct RecordFile {
    pub(crate) file: File,
    pub(crate) bytes: u64,
    pub(crate) n: u64,
    pub(crate) hash: Hash,
    pub(crate) from: u32,
    pub(crate) cut_owed: bool,
    /// A record could not be written the last time it was tried.
    pub(crate) failing: bool,
}

impl Writer {
    /// Signs the state if an entry has waited long enough, or the clock went back.
    pub(crate) fn checkpoint_if_due(&mut self) {
        let now = self.clock.now();
        let late = |since| now < since || now.saturating_sub(since) >= self.options.checkpoint_every;
        let due = |since: Millis| self.records.failing || late(since);
        if self.uncovered_since.is_some_and(due) {
            // A failure shows in the health and is tried again at the next tick.
            let _ = self.checkpoint();
        }
    }

    /// Signs the state of the chain, unless the last checkpoint covers it; returns that checkpoint's number.
    pub(crate) fn checkpoint(&mut self) -> Result<u64, CheckpointError> {
        if self.uncovered_since.is_none() {
            return Ok(self.records.n);
        }
        self.write_record(self.describe(RecordKind::Checkpoint))?;
        self.uncovered_since = None;
        self.publish(None);
        Ok(self.records.n)
    }

    pub(crate) fn describe(&self, kind: RecordKind) -> Checkpoint {
        let tree = &self.current.tree;
        Checkpoint {
            v: entry::VERSION,
            kind,
            n: self.records.n.saturating_add(1),
            prev: hex::encode(self.records.hash),
            from: self.records.from,
            segment: self.current.number,
            bytes: self.current.bytes,
            count: self.seq,
            first: self.current.first,
            last: self.seq,
            root: hex::encode(tree.root()),
            peaks: tree.peaks().iter().map(hex::encode).collect(),
            head: hex::encode(self.head),
            open: self.open.list(),
            at: self.clock.now(),
            key: String::new(),
            sig: String::new(),
        }
    }

    /// Appends one signed record, or leaves the file as it was and says so in the health.
    pub(crate) fn write_record(&mut self, record: Checkpoint) -> Result<(), CheckpointError> {
        let written = self.try_write_record(record);
        self.records.failing = written.is_err();
        written.map_err(|error| {
            let error = Arc::new(error);
            self.publish(Some(&error));
            CheckpointError::Storage(error)
        })
    }

    fn try_write_record(&mut self, mut record: Checkpoint) -> io::Result<()> {
        let records = &mut self.records;
        let mut line = record.seal(&self.keys)?;
        let hash = checkpoint::hash(&line);
        line.push(b'\n');
        if records.cut_owed {
            records.file.set_len(records.bytes)?;
            records.cut_owed = false;
        }
        if let Err(error) = self.disk.append_record(&records.file, &line, records.bytes) {
            records.cut_owed = records.file.set_len(records.bytes).is_err();
            return Err(error);
        }
        records.bytes = records.bytes.saturating_add(u64::try_from(line.len()).unwrap_or(0));
        records.n = record.n;
        records.hash = hash;
        records.from = record.from;
        Ok(())
    }
}
