//! What is told of sessions to those who watch: that something was refused in a network, and how many of what there are.

use model::{EventKind, Millis};

use crate::tasks::AtWork;
use crate::{Store, StoreError};

/// How many sessions, tasks and questions there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Sessions that are open and behind no hold.
    pub open: i64,
    /// Sessions that are behind a hold.
    pub held: i64,
    /// Sessions that are over.
    pub closed: i64,
    /// Tasks that wait for their turn.
    pub queued: i64,
    /// Tasks that are at work.
    pub running: i64,
    /// Tasks that stand still.
    pub frozen: i64,
    /// Effects that wait for a person.
    pub approvals: i64,
    /// Since when the oldest of them waits; 0 if none does.
    pub waits_since: Millis,
}

impl Store {
    /// Tells those who follow events that something was refused, or found, in the network of a task.
    pub async fn tell_of_network(&self, work: &AtWork, kind: EventKind) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        let event = self.tell_of(&mut tx, kind, work.session()).await?;
        Ok(self.commit(tx, event).await?)
    }

    /// How many of what there are now.
    pub async fn tallies(&self) -> Result<Tallies, StoreError> {
        let mut found = Tallies::default();
        let sql = "SELECT CASE WHEN closed_at IS NOT NULL THEN 'closed' WHEN held IS NOT NULL THEN 'held' ELSE 'open' END AS stands, \
                   COUNT(*) FROM sessions GROUP BY stands";
        for row in self.engine.rows(sql, &[]).await? {
            match row.text(0)? {
                "closed" => found.closed = row.int(1)?,
                "held" => found.held = row.int(1)?,
                _ => found.open = row.int(1)?,
            }
        }
        let sql =
            "SELECT state, COUNT(*) FROM tasks WHERE state IN ('queued', 'running', 'held') GROUP BY state";
        for row in self.engine.rows(sql, &[]).await? {
            match row.text(0)? {
                "queued" => found.queued = row.int(1)?,
                "running" => found.running = row.int(1)?,
                _ => found.frozen = row.int(1)?,
            }
        }
        let sql = "SELECT COUNT(*), COALESCE(MIN(created_at), 0) FROM approvals WHERE state = 'open'";
        if let Some(row) = self.engine.row(sql, &[]).await? {
            (found.approvals, found.waits_since) = (row.int(0)?, row.int(1)?);
        }
        Ok(found)
    }
}
