//! The live stream of one session: steps after a cursor, as long as the caller may read them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use access::{Act, AllowApproval, Principal, ReadSession, Resource};
use model::{SessionId, Step};
use tokio::sync::watch;

use crate::{ActError, EventError, Runtime};

/// Steps that are read at once.
const BATCH: i64 = 500;
/// A lost right stops delivery within a second, also when nobody told us that it was lost.
const RECHECK: Duration = Duration::from_millis(900);

/// One caller's place in a session.
#[derive(Debug)]
pub struct SessionFollower {
    runtime: Arc<Runtime>,
    who: Principal,
    session: SessionId,
    cursor: i64,
    newest: watch::Receiver<i64>,
    epoch: watch::Receiver<u64>,
    judged: Instant,
    /// Whether they may decide what is asked there, and since which change of rights that is known: what waits for somebody does not wait for
    /// those who may only read.
    decides: bool,
    decides_as_of: Option<u64>,
}

impl Drop for SessionFollower {
    fn drop(&mut self) {
        if self.decides {
            self.runtime.journal.leave(self.session);
        }
    }
}

impl Runtime {
    /// Follows what happens in a session after `cursor`, or from now on.
    pub async fn follow_session(
        self: &Arc<Self>,
        who: &Principal,
        session: SessionId,
        cursor: Option<i64>,
    ) -> Result<SessionFollower, EventError> {
        let permit = self.look(who, ReadSession { session }).await?;
        let last = self.store.read_session(permit).await.map_err(ActError::from)?.steps;
        let newest = self.journal.follow(session, last);
        let last = last.max(*newest.borrow());
        let cursor = match cursor {
            Some(cursor) if cursor < 0 || cursor > last => return Err(EventError::Ahead(cursor)),
            Some(cursor) => cursor,
            None => last,
        };
        let epoch = self.gate.epoch().watch();
        let (runtime, who) = (Arc::clone(self), who.clone());
        let judged = Instant::now();
        let (decides, decides_as_of) = (false, None);
        let mut follower =
            SessionFollower { runtime, who, session, cursor, newest, epoch, judged, decides, decides_as_of };
        follower.attends().await;
        Ok(follower)
    }
}

impl SessionFollower {
    /// Where the stream stands.
    #[must_use]
    pub fn cursor(&self) -> i64 {
        self.cursor
    }

    /// Whether what [`Self::next`] gave may no longer be for this caller: what was not delivered yet goes back with
    /// [`Self::back_to`] and is judged again.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.judged.elapsed() >= RECHECK || self.epoch.has_changed().unwrap_or(true)
    }

    /// Goes back to just after `seq`, the last step that was delivered.
    pub fn back_to(&mut self, seq: i64) {
        self.cursor = self.cursor.min(seq);
    }

    /// Looks whether they may decide, if rights changed since that is known. What nobody can tell now stays as it was, and is asked again.
    async fn attends(&mut self) {
        let as_of = *self.epoch.borrow();
        if self.decides_as_of == Some(as_of) {
            return;
        }
        let resource = Resource::Session(self.session);
        // Nobody follows with a code, and whoever decides shows it then.
        let gate = &self.runtime.gate;
        let decides = gate.still_allows_with_code(&self.who, AllowApproval::ACTION, resource).await;
        let Ok(decides) = decides else { return };
        self.decides_as_of = Some(as_of);
        if decides != self.decides {
            self.decides = decides;
            let journal = &self.runtime.journal;
            if decides { journal.attend(self.session) } else { journal.leave(self.session) }
        }
    }

    /// Waits for the next steps. An empty answer means: still here, nothing new. Dropped before it answers, it has not moved.
    pub async fn next(&mut self) -> Result<Vec<Arc<Step>>, EventError> {
        if *self.newest.borrow_and_update() <= self.cursor {
            tokio::select! {
                _ = self.newest.changed() => {}
                _ = self.epoch.changed() => {}
                () = tokio::time::sleep(RECHECK) => {}
            }
        }
        let _ = self.epoch.borrow_and_update();
        self.judged = Instant::now();
        // Whether the caller is still signed in and may still read it.
        let permit = self.runtime.look(&self.who, ReadSession { session: self.session }).await?;
        self.attends().await;
        if *self.newest.borrow_and_update() <= self.cursor {
            return Ok(Vec::new());
        }
        let steps = match self.runtime.journal.tail(self.session, self.cursor) {
            Some(steps) => steps,
            None => {
                let read = self.runtime.store.steps_after(permit, self.cursor, BATCH).await;
                read.map_err(ActError::from)?.into_iter().map(Arc::new).collect()
            }
        };
        self.cursor = steps.last().map_or(self.cursor, |step| step.seq);
        Ok(steps)
    }
}
