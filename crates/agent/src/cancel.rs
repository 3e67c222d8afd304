//! The word to stop, given once and heard everywhere in a turn.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Clones are the same word.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancel(Arc<(Mutex<bool>, Condvar)>);

impl Cancel {
    pub(crate) fn cancel(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits that long, or until the word is given; true if it was.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let given = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.1.wait_timeout_while(given, time, |given| !*given);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
