//! Turns many callers into one writer: what they ask waits here until the writer takes all of it.
//!
//! Invariants: the queue is bounded in number and bytes; every job taken or left behind is answered, by its
//! callback or by dropping it. Entries of narrowing acts may exceed the bound twofold, for they must not be
//! crowded out. Not here: what is done with a job ([`crate::writer`]).

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::draft::Body;
use crate::error::{AppendError, CheckpointError, DropError};

/// The most entries that wait, and the most bytes of them.
const MAX_JOBS: usize = 8192;
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// How an entry was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// In the chain, under this sequence number.
    Entry(u64),
    /// In the reserve; it joins the chain when the disk works again. The ticket stands for its number until then.
    Reserved(Ticket),
}

/// Names an entry that has no number yet, because it is (or was) in the reserve. Good for one process: what it
/// opened and nobody closed is closed at the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// What an act may do when the chain cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fallback {
    /// No record, no effect.
    None,
    /// It only narrows: the reserve will do.
    Reserve,
}

/// An entry on its way, with whoever waits for it.
pub(crate) struct Append {
    pub(crate) body: Body,
    pub(crate) fallback: Fallback,
    pub(crate) done: Box<dyn FnOnce(Result<Recorded, AppendError>) + Send>,
}

/// Anything else that is asked of the writer.
pub(crate) enum Control {
    Checkpoint(std::sync::mpsc::SyncSender<Result<u64, CheckpointError>>),
    EndsFit(std::sync::mpsc::SyncSender<bool>),
    Tick(std::sync::mpsc::SyncSender<()>),
    DropOld(std::sync::mpsc::SyncSender<Result<u64, DropError>>),
    DropBefore(u64, std::sync::mpsc::SyncSender<Result<u64, DropError>>),
}

#[derive(Default)]
struct Inside {
    appends: Vec<Append>,
    bytes: usize,
    controls: Vec<Control>,
    closed: bool,
}

/// What the writer takes in one go.
pub(crate) struct Batch {
    pub(crate) appends: Vec<Append>,
    pub(crate) controls: Vec<Control>,
    /// Nothing more will come.
    pub(crate) closed: bool,
}

#[derive(Default)]
pub(crate) struct Queue {
    inside: Mutex<Inside>,
    filled: Condvar,
    drained: Condvar,
}

impl Queue {
    /// Adds an entry, waiting for room.
    pub(crate) fn push(&self, append: Append) {
        let mut inside = self.lock();
        while !inside.closed && !inside.has_room(append.fallback) {
            inside = self.drained.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        self.add(inside, append);
    }

    /// Adds an entry, or answers it as refused when there is no room.
    pub(crate) fn try_push(&self, append: Append) {
        let inside = self.lock();
        if !inside.closed && !inside.has_room(append.fallback) {
            drop(inside);
            (append.done)(Err(AppendError::Busy));
            return;
        }
        self.add(inside, append);
    }

    fn add(&self, mut inside: MutexGuard<'_, Inside>, append: Append) {
        if inside.closed {
            drop(inside);
            (append.done)(Err(AppendError::Closed));
            return;
        }
        inside.bytes = inside.bytes.saturating_add(append.body.bytes.len());
        inside.appends.push(append);
        let first = inside.appends.len() == 1;
        drop(inside);
        if first {
            self.filled.notify_one();
        }
    }

    /// Asks for something else; dropped unanswered once the queue is closed.
    pub(crate) fn control(&self, control: Control) {
        let mut inside = self.lock();
        if !inside.closed {
            inside.controls.push(control);
            self.filled.notify_one();
        }
    }

    /// Takes everything, waiting for at most `wait` (or for ever) for something to come.
    pub(crate) fn take(&self, wait: Option<Duration>, spare: Vec<Append>) -> Batch {
        let mut inside = self.lock();
        let idle =
            |inside: &mut Inside| inside.appends.is_empty() && inside.controls.is_empty() && !inside.closed;
        inside = match wait {
            None => self.filled.wait_while(inside, idle).unwrap_or_else(PoisonError::into_inner),
            Some(wait) => {
                self.filled.wait_timeout_while(inside, wait, idle).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        inside.bytes = 0;
        let appends = std::mem::replace(&mut inside.appends, spare);
        let controls = std::mem::take(&mut inside.controls);
        let closed = inside.closed;
        drop(inside);
        self.drained.notify_all();
        Batch { appends, controls, closed }
    }

    /// Lets nothing more in.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
        self.drained.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn has_room(&self, fallback: Fallback) -> bool {
        let times = match fallback {
            Fallback::None => 1,
            Fallback::Reserve => 2,
        };
        self.appends.len() < MAX_JOBS * times && self.bytes < MAX_BYTES * times
    }
}
