//! Turns drafts into recorded entries: the handle that everyone holds.
//!
//! Flow: [`Draft`] -> body (scrubbed and encoded by the caller's thread) -> queue -> writer thread -> answer.
//! Invariant: an `Ok` means that the entry is durable. No async here: [`Ledger::append_with`] calls back from
//! the writer's thread. Not here: what must be recorded, and by whom (`access`, `server`).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use model::{Clock, Millis};

use crate::bundle::{Bundle, BundleError, Selected, Selection, select};
use crate::disk::Faults;
use crate::draft::{Draft, Scrub};
use crate::error::{AppendError, CheckpointError, DropError, OpenError};
use crate::keys::Keys;
use crate::queue::{Append, Control, Fallback, Queue, Recorded};
use crate::read;
use crate::startup::{self, Recovery};
use crate::state::{Head, Health, Shared};
use crate::verify::{self, Anchors, Report, Trust};

/// How a ledger is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// A segment of this size is closed and the next one begun.
    pub segment_bytes: u64,
    /// An entry waits at most this long for a checkpoint.
    pub checkpoint_every: Millis,
    /// A segment goes when its last entry is older than this, in milliseconds, and [`Ledger::drop_old`] is called.
    pub keep_for: Millis,
    /// The size of the reserve.
    pub reserve_bytes: u64,
    /// How long to wait for another process to let go of the ledger.
    pub lock_wait: Duration,
    /// Lets a test make storage fail.
    #[doc(hidden)]
    pub faults: Option<Arc<Faults>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 * 1024 * 1024,
            // A little under the promised minute: the writer looks every few seconds.
            checkpoint_every: 55_000,
            keep_for: 365 * 24 * 60 * 60 * 1000,
            reserve_bytes: 1024 * 1024,
            lock_wait: Duration::ZERO,
            faults: None,
        }
    }
}

/// While it lives, no segment is dropped.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "it is counted, not read")] Arc<()>);

/// An open ledger. Closing or dropping it writes what is queued and a last checkpoint.
pub struct Ledger {
    dir: PathBuf,
    keys: Arc<Keys>,
    scrub: Scrub,
    queue: Arc<Queue>,
    shared: Arc<Mutex<Shared>>,
    held: Arc<()>,
    thread: Mutex<Option<JoinHandle<Result<u64, CheckpointError>>>>,
}

impl Ledger {
    /// Opens or creates the ledger in `dir`, mends what a crash left, and says what that was.
    pub fn open(
        dir: &Path,
        keys: Keys,
        clock: Arc<dyn Clock>,
        scrub: Scrub,
        options: Options,
    ) -> Result<(Self, Recovery), OpenError> {
        let keys = Arc::new(keys);
        let (lock, writer, recovery) = startup::start(dir, Arc::clone(&keys), clock, options)?;
        let queue = Arc::<Queue>::default();
        let (shared, held) = (Arc::clone(&writer.shared), Arc::clone(&writer.held));
        let thread = {
            let queue = Arc::clone(&queue);
            let run = move || {
                let _lock = lock;
                writer.run(&queue)
            };
            std::thread::Builder::new().name("ledger".into()).spawn(run).map_err(OpenError::Thread)?
        };
        let ledger =
            Self { dir: dir.to_owned(), keys, scrub, queue, shared, held, thread: Mutex::new(Some(thread)) };
        Ok((ledger, recovery))
    }

    /// Records one entry and waits until it is durable; returns its sequence number.
    pub fn append(&self, draft: Draft) -> Result<u64, AppendError> {
        self.record(&draft, Fallback::None).and_then(seq_of)
    }

    /// Records one entry and calls `done` from the writer's thread once it is durable; `done` must be quick.
    /// A full queue is answered at once with [`AppendError::Busy`], from this thread.
    pub fn append_with(&self, draft: Draft, done: impl FnOnce(Result<u64, AppendError>) + Send + 'static) {
        let done = |answer: Result<Recorded, AppendError>| done(answer.and_then(seq_of));
        self.queue.try_push(self.job(&draft, Fallback::None, Box::new(done)));
    }

    /// Like [`Ledger::append`], for an act that only narrows: if the disk refuses, the reserve will do.
    pub fn append_narrowing(&self, draft: Draft) -> Result<Recorded, AppendError> {
        self.record(&draft, Fallback::Reserve)
    }

    /// Like [`Ledger::append_with`], for an act that only narrows.
    pub fn append_narrowing_with(
        &self,
        draft: Draft,
        done: impl FnOnce(Result<Recorded, AppendError>) + Send + 'static,
    ) {
        self.queue.try_push(self.job(&draft, Fallback::Reserve, Box::new(done)));
    }

    fn record(&self, draft: &Draft, fallback: Fallback) -> Result<Recorded, AppendError> {
        let (answer, answered) = sync_channel(1);
        let done = move |result| {
            // The caller waits below, so there is someone to hear it.
            let _ = answer.send(result);
        };
        self.queue.push(self.job(draft, fallback, Box::new(done)));
        answered.recv().unwrap_or(Err(AppendError::Closed))
    }

    fn job(
        &self,
        draft: &Draft,
        fallback: Fallback,
        done: Box<dyn FnOnce(Result<Recorded, AppendError>) + Send>,
    ) -> Append {
        Append { body: draft.encode(&self.scrub), fallback, done }
    }

    /// Signs the chain as it is now; returns the number of the checkpoint that covers it.
    pub fn checkpoint_now(&self) -> Result<u64, CheckpointError> {
        let (answer, answered) = sync_channel(1);
        self.queue.control(Control::Checkpoint(answer));
        answered.recv().unwrap_or(Err(CheckpointError::Closed))
    }

    /// Has the writer look at the clock now, and waits until it did.
    pub fn tick(&self) {
        let (answer, answered) = sync_channel(1);
        self.queue.control(Control::Tick(answer));
        let _ = answered.recv(); // a closed ledger has nothing to do
    }

    /// Drops whole segments that are older than [`Options::keep_for`] and hold no open entry, after recording that in
    /// an entry and a signed continuity record; returns how many entries went.
    pub fn drop_old(&self) -> Result<u64, DropError> {
        let (answer, answered) = sync_channel(1);
        self.queue.control(Control::DropOld(answer));
        answered.recv().unwrap_or(Err(DropError::Closed))
    }

    /// Keeps retention from removing segments as long as the answer lives: for whoever copies the directory.
    #[must_use]
    pub fn hold_segments(&self) -> Held {
        let held = Held(Arc::clone(&self.held));
        // A removal that is under way ends first.
        let (answer, answered) = sync_channel(1);
        self.queue.control(Control::EndsFit(answer));
        let _ = answered.recv(); // a closed ledger removes nothing
        held
    }

    /// The first entry that is kept, if there is any.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        let from = self.shared().from;
        read::first_of(&self.dir, from)
    }

    /// Drops whole segments that end before entry `seq` and hold no open entry, after recording that in an
    /// entry and a signed continuity record; returns how many entries went.
    pub fn drop_before(&self, seq: u64) -> Result<u64, DropError> {
        let (answer, answered) = sync_channel(1);
        self.queue.control(Control::DropBefore(seq, answer));
        answered.recv().unwrap_or(Err(DropError::Closed))
    }

    /// The end of the chain.
    #[must_use]
    pub fn head(&self) -> Head {
        self.shared().head()
    }

    /// Whether entries can be recorded.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared().health()
    }

    /// The directory, for [`crate::read()`] and [`crate::export`].
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The daemon's own check: the verifier, run on what is durable now, with the chain key and the head that
    /// this process knows.
    #[must_use]
    pub fn verify_live(&self, trust: &Trust, anchors: Option<&Anchors>) -> Report {
        loop {
            let (answer, answered) = sync_channel(1);
            self.queue.control(Control::EndsFit(answer));
            // Files that are longer than what was written are read to their end, as the verifier does.
            let ends_fit = answered.recv().unwrap_or(false);
            let shared = self.shared().clone();
            let live = verify::Live::new(&shared, ends_fit);
            let report = verify::verify_live(&self.dir, trust, &self.keys.chain, anchors, &live);
            // Segments that retention dropped meanwhile would look deleted.
            if self.shared().from == shared.from {
                return report;
            }
        }
    }

    /// The same on a thread of its own, which yields to all others; `done` is called from it.
    pub fn verify_in_background(
        self: &Arc<Self>,
        trust: Trust,
        done: impl FnOnce(Report) + Send + 'static,
    ) -> io::Result<()> {
        let ledger = Arc::clone(self);
        let work = move || {
            // On Linux this is about the calling thread alone. Without it the check is only less polite.
            let _ = rustix::process::nice(10);
            // What is not signed yet cannot be proved; a disk that takes nothing shows elsewhere.
            drop(ledger.checkpoint_now());
            done(ledger.verify_live(&trust, None));
        };
        std::thread::Builder::new().name("ledger-check".into()).spawn(work).map(drop)
    }

    /// Signs the chain as it is now and selects entries for a bundle.
    pub fn select(&self, selection: Selection) -> Result<Selected, BundleError> {
        // What cannot be signed now is not looked at; what was signed before still is.
        drop(self.checkpoint_now());
        select(&self.dir, &self.keys, selection)
    }

    /// Makes the files of a bundle and signs their list as of `at`.
    pub fn seal(&self, selected: Selected, at: Millis) -> Result<Bundle, BundleError> {
        selected.seal(&self.keys, at)
    }

    /// Writes what is queued and a last checkpoint; returns that checkpoint's number.
    pub fn close(self) -> Result<u64, CheckpointError> {
        self.stop()
    }

    fn stop(&self) -> Result<u64, CheckpointError> {
        self.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        thread.and_then(|thread| thread.join().ok()).unwrap_or(Err(CheckpointError::Closed))
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of an entry that had no leave to go to the reserve.
fn seq_of(recorded: Recorded) -> Result<u64, AppendError> {
    match recorded {
        Recorded::Entry(seq) => Ok(seq),
        Recorded::Reserved(_) => Err(AppendError::Closed), // the writer never answers so
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // Nobody is left to hear of an error; the next start finds what is missing.
        let _ = self.stop();
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Ledger").field("dir", &self.dir).field("head", &self.head()).finish_non_exhaustive()
    }
}
