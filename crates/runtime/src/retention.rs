//! Lets go of what is older than the ledger is kept for, in the ledger and in the search index.
//!
//! Invariant: the index loses only what the ledger dropped and signed for. Not here: how segments go
//! (`ledger`), for how long they are kept (`ledger::Options::keep_for`).

use std::time::Duration;

use ::ledger::DropError;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::{Runtime, StoreError};

/// Not at once: a start has better things to do.
const FIRST: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_secs(60 * 60);

/// Why old entries are still there.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    /// The ledger kept them.
    #[error("the ledger kept its old segments")]
    Ledger(#[from] DropError),
    /// The search index kept them.
    #[error("the search index kept entries that the ledger dropped")]
    Index(#[from] StoreError),
    /// The task that did it died.
    #[error("dropping old entries was interrupted; it is tried again")]
    Interrupted,
}

/// When it is time to look for old entries.
pub(crate) fn times() -> Interval {
    let begin = Instant::now().checked_add(FIRST).unwrap_or_else(Instant::now);
    let mut times = tokio::time::interval_at(begin, EVERY);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    times
}

impl Runtime {
    /// Drops segments that are older than the ledger is kept for, and forgets their entries in the search index;
    /// returns how many entries went. The ledger records it.
    pub async fn drop_old_entries(&self) -> Result<u64, RetentionError> {
        // What goes was to be found until now. A store that takes no writes keeps nothing from going: that makes room.
        if let Err(error) = self.index.catch_up().await {
            tracing::warn!(%error, "the ledger's search index is behind");
        }
        let dropped = self.ledger.drop_old().await;
        let (count, first) = dropped.map_err(|_| RetentionError::Interrupted)??;
        if let Some(first) = first {
            self.store.forget_entries_before(i64::try_from(first).unwrap_or(0)).await?;
        }
        if count > 0 {
            tracing::info!(count, "old entries of the ledger were dropped; that is recorded there");
        }
        Ok(count)
    }
}
