//! The live stream: events after a cursor, cut to what the caller may read at that moment.

use std::sync::Arc;
use std::time::Duration;

use access::{FollowEvents, Permit, Principal};
use model::{Event, EventSeq, Role};
use tokio::sync::watch;

use crate::{ActError, Runtime};

const BATCH: i64 = 500;
/// A lost right stops delivery within a second, also when nobody told us that it was lost.
const RECHECK: Duration = Duration::from_millis(900);

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// The caller may no longer follow.
    #[error(transparent)]
    Act(#[from] ActError),
    /// The cursor is older than what is kept.
    #[error("events before {0} are no longer kept; read the lists again and follow from now")]
    TooOld(EventSeq),
    /// The cursor is not one that was ever given.
    #[error("there is no event {0} yet")]
    Ahead(EventSeq),
}

/// One caller's place in the stream.
#[derive(Debug)]
pub struct Follower {
    runtime: Arc<Runtime>,
    who: Principal,
    permit: Permit<FollowEvents>,
    cursor: EventSeq,
    newest: watch::Receiver<EventSeq>,
    epoch: watch::Receiver<u64>,
}

impl Runtime {
    /// Follows events after `cursor`, or from now on.
    pub async fn follow(
        self: &Arc<Self>,
        who: &Principal,
        cursor: Option<EventSeq>,
    ) -> Result<Follower, EventError> {
        let permit = self.look(who, FollowEvents {}).await?;
        let newest = self.store.follow();
        let epoch = self.gate.epoch().watch();
        let (first, last) = self.store.event_range().await.map_err(ActError::from)?;
        let cursor = match cursor {
            Some(cursor) if cursor > last => return Err(EventError::Ahead(cursor)),
            Some(cursor) if cursor.saturating_add(1) < first => return Err(EventError::TooOld(first)),
            Some(cursor) => cursor,
            None => last,
        };
        Ok(Follower { runtime: Arc::clone(self), who: who.clone(), permit, cursor, newest, epoch })
    }
}

impl Follower {
    /// Where the stream stands: everything up to here was shown or is not for this caller.
    pub fn cursor(&self) -> EventSeq {
        self.cursor
    }

    /// Waits for the next events this caller may read. An empty answer means: still here, nothing new.
    pub async fn next(&mut self) -> Result<Vec<Event>, EventError> {
        self.recheck().await?;
        let _ = self.newest.borrow_and_update();
        let _ = self.epoch.borrow_and_update();
        let batch = self
            .runtime
            .store
            .events_after(&self.permit, self.cursor, BATCH)
            .await
            .map_err(ActError::from)?;
        if batch.is_empty() {
            tokio::select! {
                _ = self.newest.changed() => {}
                _ = self.epoch.changed() => {}
                () = tokio::time::sleep(RECHECK) => {}
            }
            return Ok(Vec::new());
        }
        let mut shown = Vec::with_capacity(batch.len());
        for event in batch {
            self.cursor = event.seq;
            if self.may_see(&event).await? {
                shown.push(event);
            }
        }
        Ok(shown)
    }

    /// Whether the caller is still signed in and may still follow.
    async fn recheck(&mut self) -> Result<(), EventError> {
        self.permit = self.runtime.look(&self.who, FollowEvents {}).await?;
        Ok(())
    }

    async fn may_see(&self, event: &Event) -> Result<bool, EventError> {
        let gate = &self.runtime.gate;
        match (event.worktree, event.user) {
            (Some(worktree), _) => {
                let facts = gate.worktree(worktree).await.map_err(|_| ActError::Interrupted)?;
                Ok(facts.is_some_and(|facts| gate.may_read(&self.who, &facts)))
            }
            (None, Some(user)) => Ok(user == self.who.user() || self.who.role() >= Role::Admin),
            (None, None) => Ok(false),
        }
    }
}
