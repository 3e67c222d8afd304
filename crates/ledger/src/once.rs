//! Turns drafts into recorded entries from a process that lives for a moment: no thread, no queue, no callback.
//!
//! Flow: [`Once::open`] (lock, last checkpoint, what came after it) -> [`Once::append`] (one write, one sync) ->
//! [`Once::close`] (a checkpoint if one is due; the lock goes). The same writer, files and formats as
//! [`crate::Ledger`]: either can go on where the other stopped, and the verifier sees no difference.
//!
//! Invariants: an `Ok` means that the entries are durable, all of them, next to each other; processes take turns by
//! the lock; what opening costs does not grow with the ledger, because at most [`MOST_UNSIGNED`] entries and what one
//! batch adds stand behind the last checkpoint. Open entries are left alone: they may belong to a process that still
//! runs, and [`crate::Ledger::open`] is the one that closes them. Not here: dropping old segments, where the
//! secret is kept.

mod resting;
mod seed;
mod start;

use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use model::{Clock, SystemClock};

pub use resting::Resting;
pub use seed::{BadSeed, Seed};

use crate::draft::{Draft, Scrub};
use crate::error::{AppendError, CheckpointError, OpenError};
use crate::keys::Keys;
use crate::ledger::Options;
use crate::lock::Lock;
use crate::queue::{Append, Fallback, Recorded};
use crate::startup::Recovery;
use crate::state::Head;
use crate::writer::Writer;

/// Closing signs as soon as this many entries are under no checkpoint.
const DUE_UNSIGNED: u64 = 16;
/// Appending itself signs when this many are, for processes that never come to close.
const MOST_UNSIGNED: u64 = 64;

/// A ledger held for one or a few entries. Dropping it lets go of the lock and signs nothing.
///
/// Whoever forks or clones while holding it shares the lock with the child: let go before.
pub struct Once {
    writer: Writer,
    scrub: Scrub,
    /// The last entry under a checkpoint.
    covered: u64,
    /// Whether this process has synced the segment, so that all of it is durable.
    synced: bool,
    _lock: Lock,
}

impl Once {
    /// How a ledger of one-shot processes is kept: they wait for each other, and the reserve is small.
    #[must_use]
    pub fn options() -> Options {
        Options { lock_wait: Duration::from_secs(2), reserve_bytes: 64 * 1024, ..Options::default() }
    }

    /// Takes the ledger in `dir`, or creates it, mends what a crash left, and says what that was.
    ///
    /// # Errors
    /// [`OpenError::Locked`] with the holder's pid if another process does not let go within two seconds; otherwise
    /// what [`crate::Ledger::open`] refuses is refused here.
    pub fn open(dir: &Path, keys: &Arc<Keys>, scrub: Scrub) -> Result<(Self, Recovery), OpenError> {
        Self::open_with(dir, Arc::clone(keys), Arc::new(SystemClock), scrub, Self::options())
    }

    /// The same with another clock or other options.
    ///
    /// # Errors
    /// As [`Once::open`].
    pub fn open_with(
        dir: &Path,
        keys: Arc<Keys>,
        clock: Arc<dyn Clock>,
        scrub: Scrub,
        options: Options,
    ) -> Result<(Self, Recovery), OpenError> {
        let start::Started { lock, writer, covered, recovery } = start::start(dir, keys, clock, options)?;
        let mut once = Self { writer, scrub, covered, synced: false, _lock: lock };
        once.mark(recovery.torn.as_ref())?;
        Ok((once, recovery))
    }

    /// Makes `drafts` durable as one batch, with one sync; returns their numbers. All are recorded or none.
    ///
    /// # Errors
    /// [`AppendError`]; nothing of the batch is left, and nothing may happen on its behalf.
    pub fn append(&mut self, drafts: &[Draft]) -> Result<Vec<u64>, AppendError> {
        let recorded = self.record(drafts, Fallback::None)?;
        let number = |it| match it {
            Recorded::Entry(seq) => Ok(seq),
            Recorded::Reserved(_) => Err(AppendError::Closed), // the writer never answers so
        };
        recorded.into_iter().map(number).collect()
    }

    /// Records what happens anyway, such as an end: if the disk refuses, the reserve will do.
    ///
    /// # Errors
    /// [`AppendError`] if the reserve is full, too, or cannot be written.
    pub fn append_narrowing(&mut self, draft: &Draft) -> Result<Recorded, AppendError> {
        let recorded = self.record(std::slice::from_ref(draft), Fallback::Reserve)?;
        recorded.into_iter().next().ok_or(AppendError::Closed)
    }

    /// Signs the chain as it is now; returns the number of the checkpoint that covers it.
    ///
    /// # Errors
    /// [`CheckpointError`] if the disk refuses; entries stay as they are.
    pub fn checkpoint(&mut self) -> Result<u64, CheckpointError> {
        if !self.synced && self.writer.uncovered_since.is_some() {
            // Whoever wrote the last entries may have been killed before they were durable.
            let synced = self.writer.current.file.sync_data();
            synced.map_err(|error| CheckpointError::Storage(Arc::new(error)))?;
            self.synced = true;
        }
        let number = self.writer.checkpoint()?;
        self.covered = self.writer.seq;
        Ok(number)
    }

    /// Signs the chain if that is due, and lets go; returns the number of the last checkpoint.
    ///
    /// # Errors
    /// [`CheckpointError`] if a checkpoint is due and the disk refuses it; a later process tries again.
    pub fn close(mut self) -> Result<u64, CheckpointError> {
        if self.is_due() { self.checkpoint() } else { Ok(self.writer.records.n) }
    }

    /// The end of the chain.
    #[must_use]
    pub fn head(&self) -> Head {
        self.writer.shared.lock().unwrap_or_else(PoisonError::into_inner).head()
    }

    fn is_due(&self) -> bool {
        let now = self.writer.clock.now();
        let every = self.writer.options.checkpoint_every;
        let late = |since| now < since || now.saturating_sub(since) >= every;
        self.unsigned() >= DUE_UNSIGNED || self.writer.uncovered_since.is_some_and(late)
    }

    fn unsigned(&self) -> u64 {
        self.writer.seq.saturating_sub(self.covered)
    }

    fn record(&mut self, drafts: &[Draft], fallback: Fallback) -> Result<Vec<Recorded>, AppendError> {
        let bodies: Vec<_> = drafts.iter().map(|draft| draft.encode(&self.scrub)).collect();
        let opening = bodies.iter().filter(|body| body.opens).count();
        if fallback == Fallback::None && opening > 0 && !self.writer.open.has_room(opening.saturating_sub(1))
        {
            return Err(AppendError::TooManyOpen);
        }
        let (answer, answered) = sync_channel(bodies.len());
        let append = |body| {
            let answer = answer.clone();
            // There is room for every answer, and they are read below.
            Append { body, fallback, done: Box::new(move |result| drop(answer.send(result))) }
        };
        let mut appends: Vec<Append> = bodies.into_iter().map(append).collect();
        drop(answer);
        let (records, seq) = (self.writer.records.n, self.writer.seq);
        self.writer.commit(&mut appends);
        if self.writer.records.n != records {
            self.covered = seq; // a full segment was signed and the next one begun
        }
        let recorded: Vec<Recorded> = answered.into_iter().collect::<Result<_, _>>()?;
        if self.writer.seq > seq {
            self.synced = true;
            self.sign_if_overdue();
        }
        Ok(recorded)
    }

    /// The first entries are signed at once, so that every later start finds a checkpoint.
    fn sign_if_overdue(&mut self) {
        if self.writer.records.n == 0 || self.unsigned() >= MOST_UNSIGNED {
            // The entries are durable; a checkpoint that fails is tried again by the next process.
            let _ = self.checkpoint();
        }
    }

    /// Marks the break in the chain, before anyone can append.
    fn mark(&mut self, torn: Option<&crate::recover::Torn>) -> Result<(), OpenError> {
        let Some(torn) = torn else { return Ok(()) };
        let mark = crate::startup::mark_of(torn);
        self.writer.note(&mark, Fallback::Reserve).map_err(OpenError::Unrecorded)?;
        Ok(())
    }
}

impl std::fmt::Debug for Once {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Once").field("head", &self.head()).finish_non_exhaustive()
    }
}
