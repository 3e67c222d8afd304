//! What others may know about the writer: its head and its health.

use model::Millis;

use crate::keys::Code;

/// The end of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The last entry; 0 before the first.
    pub seq: u64,
    /// Its code, in hex.
    pub mac: String,
    /// The segment being written.
    pub segment: u32,
    /// The number of the last checkpoint; 0 before the first.
    pub checkpoint: u64,
}

/// Whether entries can be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The last durable entry.
    pub last_seq: u64,
    /// Since when writes fail; `None` while they work.
    pub failing_since: Option<Millis>,
    /// The last error, and when it happened; it stays after recovery.
    pub last_error: Option<(Millis, String)>,
    /// Entries that wait in the reserve.
    pub reserved: usize,
    /// Since when the oldest entry waits that no checkpoint covers; `None` while all are signed.
    pub unsigned_since: Option<Millis>,
    /// Whether the writer still runs.
    pub running: bool,
}

impl Health {
    /// Whether an entry would be recorded now, as far as is known.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.running && self.failing_since.is_none()
    }
}

/// What the writer shows after each batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    pub(crate) seq: u64,
    pub(crate) head: Code,
    pub(crate) segment: u32,
    pub(crate) bytes: u64,
    pub(crate) checkpoint: u64,
    pub(crate) record_bytes: u64,
    /// The first segment that is kept.
    pub(crate) from: u32,
    pub(crate) reserved: usize,
    pub(crate) uncovered_since: Option<Millis>,
    pub(crate) failing_since: Option<Millis>,
    pub(crate) last_error: Option<(Millis, String)>,
    pub(crate) stopped: bool,
}

impl Shared {
    pub(crate) fn head(&self) -> Head {
        Head {
            seq: self.seq,
            mac: hex::encode(self.head),
            segment: self.segment,
            checkpoint: self.checkpoint,
        }
    }

    pub(crate) fn health(&self) -> Health {
        Health {
            last_seq: self.seq,
            failing_since: self.failing_since,
            last_error: self.last_error.clone(),
            reserved: self.reserved,
            unsigned_since: self.uncovered_since,
            running: !self.stopped,
        }
    }
}
