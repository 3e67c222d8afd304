//! The live stream: events after a cursor, cut to what the caller may read at that moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use access::{FollowEvents, Principal};
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
    #[error("there is no event {0}")]
    Ahead(EventSeq),
}

/// One caller's place in the stream.
#[derive(Debug)]
pub struct Follower {
    runtime: Arc<Runtime>,
    who: Principal,
    cursor: EventSeq,
    newest: watch::Receiver<EventSeq>,
    epoch: watch::Receiver<u64>,
    judged: Instant,
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
        let (first, last) = self.store.event_range(permit).await.map_err(ActError::from)?;
        let cursor = match cursor {
            Some(cursor) if cursor < 0 || cursor > last => return Err(EventError::Ahead(cursor)),
            Some(cursor) if cursor.saturating_add(1) < first => return Err(EventError::TooOld(first)),
            Some(cursor) => cursor,
            None => last,
        };
        let judged = Instant::now();
        Ok(Follower { runtime: Arc::clone(self), who: who.clone(), cursor, newest, epoch, judged })
    }
}

impl Follower {
    /// Where the stream stands: everything up to here was shown or is not for this caller.
    pub fn cursor(&self) -> EventSeq {
        self.cursor
    }

    /// Whether what [`Self::next`] gave may no longer be true for this caller: what was not delivered yet
    /// goes back with [`Self::back_to`] and is judged again.
    pub fn is_stale(&self) -> bool {
        self.judged.elapsed() >= RECHECK || self.epoch.has_changed().unwrap_or(true)
    }

    /// Goes back to just after `seq`, the last event that was delivered.
    pub fn back_to(&mut self, seq: EventSeq) {
        self.cursor = self.cursor.min(seq);
    }

    /// Waits for the next events this caller may read. An empty answer means: still here, nothing new.
    /// Dropped before it answers, it has not moved.
    pub async fn next(&mut self) -> Result<Vec<Event>, EventError> {
        let newest = *self.newest.borrow_and_update();
        let _ = self.epoch.borrow_and_update();
        self.judged = Instant::now();
        // Whether the caller is still signed in and may still follow.
        let permit = self.runtime.look(&self.who, FollowEvents {}).await?;
        let batch =
            self.runtime.store.events_after(permit, self.cursor, BATCH).await.map_err(ActError::from)?;
        // What is not published yet changed rights that are still being taken away.
        let batch: Vec<Event> = batch.into_iter().take_while(|event| event.seq <= newest).collect();
        if batch.is_empty() {
            tokio::select! {
                _ = self.newest.changed() => {}
                _ = self.epoch.changed() => {}
                () = tokio::time::sleep(RECHECK) => {}
            }
            return Ok(Vec::new());
        }
        let reached = batch.last().map_or(self.cursor, |event| event.seq);
        let mut shown = Vec::with_capacity(batch.len());
        for event in batch {
            if self.may_see(&event).await? {
                shown.push(event);
            }
        }
        self.cursor = reached;
        Ok(shown)
    }

    async fn may_see(&self, event: &Event) -> Result<bool, EventError> {
        let gate = &self.runtime.gate;
        match (event.worktree, event.user) {
            (Some(worktree), _) => {
                let as_of = gate.epoch().now();
                let facts = gate.worktree(worktree).await.map_err(|_| ActError::Interrupted)?;
                Ok(facts.is_some_and(|facts| gate.may_read(&self.who, &facts, as_of)))
            }
            (None, Some(user)) => {
                let concerns = user == self.who.user() || self.who.role() >= Role::Admin;
                let as_of = gate.epoch().now();
                let facts = gate.user(user).await.map_err(|_| ActError::Interrupted)?;
                // Someone who is gone is no longer there to be hidden.
                let hidden =
                    facts.is_some_and(|facts| !gate.may_read_user(&self.who, user, facts.role, as_of));
                Ok(concerns && !hidden)
            }
            (None, None) => Ok(false),
        }
    }
}
