//! The writer's loop: takes all that waits, commits it, does what else was asked, and sleeps.
//!
//! Invariant: it ends only when the queue is closed and empty, or by a panic; in both cases the queue is
//! closed and nobody is left waiting.

use std::sync::PoisonError;
use std::time::Duration;

use crate::error::CheckpointError;
use crate::queue::{Control, Queue};
use crate::writer::Writer;

/// How often the clock is looked at while something may become due.
const LOOK: Duration = Duration::from_secs(2);

impl Writer {
    /// Serves the queue until it is closed; returns the last checkpoint.
    pub(crate) fn run(mut self, queue: &Queue) -> Result<u64, CheckpointError> {
        let _stop = StopOnExit { queue, shared: std::sync::Arc::clone(&self.shared) };
        let mut spare = Vec::new();
        loop {
            let something_due =
                self.uncovered_since.is_some() || self.failing || !self.reserve.waiting.is_empty();
            let mut batch = queue.take(something_due.then_some(LOOK), spare);
            if batch.appends.is_empty() {
                self.tick();
            } else {
                self.commit(&mut batch.appends);
                self.checkpoint_if_due();
            }
            for control in batch.controls {
                self.serve(control);
            }
            if batch.closed {
                self.commit(&mut Vec::new()); // what waits in the reserve, if it can be
                return self.checkpoint();
            }
            spare = batch.appends;
        }
    }

    /// Answers one request; whoever asked may have left.
    fn serve(&mut self, control: Control) {
        match control {
            Control::Checkpoint(answer) => {
                let _ = answer.send(self.checkpoint());
            }
            Control::EndsFit(answer) => {
                let _ = answer.send(self.ends_fit());
            }
            Control::Tick(answer) => {
                self.tick();
                let _ = answer.send(());
            }
            Control::DropOld(answer) => {
                let _ = answer.send(self.drop_old());
            }
            Control::DropBefore(seq, answer) => {
                let _ = answer.send(self.drop_before(seq));
            }
        }
    }
}

struct StopOnExit<'a> {
    queue: &'a Queue,
    shared: std::sync::Arc<std::sync::Mutex<crate::state::Shared>>,
}

impl Drop for StopOnExit<'_> {
    fn drop(&mut self) {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.queue.close();
        // What is left is dropped unanswered, which its callers hear as "closed".
        drop(self.queue.take(Some(Duration::ZERO), Vec::new()));
    }
}
