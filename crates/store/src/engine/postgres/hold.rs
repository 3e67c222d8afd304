//! Holds the database for one daemon: an advisory lock on a connection of its own.
//!
//! The server lets go when that connection ends, whoever ended it. So it is watched, and taken again when lost.
//! Invariant: between loss and the word that what was found then is ours nothing is written. Not here: what a daemon does when another one
//! was faster (`runtime`).

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::{ClientWrapper, Object};

use super::{Postgres, statement};
use crate::engine::Hold;
use crate::engine::error::EngineError;

/// How often the server is asked over the connection; between, only its end is noticed.
const PROVE: Duration = Duration::from_secs(5);
/// How long the server may take to answer that.
const ANSWER: Duration = Duration::from_secs(5);

/// How long a daemon that just ended may still have the database: the server lets go only when it sees the connection's end.
const ENDING: Duration = Duration::from_secs(2);
/// How often it is asked for meanwhile.
const AGAIN: Duration = Duration::from_millis(50);

/// What holds the database.
#[derive(Default)]
pub(super) enum Holding {
    /// Nobody asked for it.
    #[default]
    Unasked,
    /// The connection that has the lock, and when the server last answered on it.
    Held(Arc<ClientWrapper>, Instant),
    /// Taken again; nobody looked yet what others did meanwhile.
    Unproven(Arc<ClientWrapper>),
    /// The connection fell silent and was given up.
    Lost,
}

impl Postgres {
    /// Takes the database for this daemon; false if another has it and is not just ending.
    pub(in crate::engine) async fn hold(&self) -> Result<bool, EngineError> {
        let taken = self.take(ENDING).await?;
        let is_taken = taken.is_some();
        if let Some(client) = taken {
            *self.holding() = Holding::Held(Arc::new(client), Instant::now());
        }
        Ok(is_taken)
    }

    async fn take(&self, wait: Duration) -> Result<Option<ClientWrapper>, EngineError> {
        let client = Object::take(self.client().await?);
        let (sql, begun) = ("SELECT pg_try_advisory_lock(7083771718)", Instant::now());
        loop {
            let rows = super::within(statement::query(&client, sql, &[])).await?;
            if rows.first().map_or(Ok(false), |row| row.flag(0))? {
                return Ok(Some(client));
            }
            if begun.elapsed() >= wait {
                return Ok(None);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Looks whether the hold stands, and takes it again if not; then nothing is written until [`Self::confirm_hold`].
    pub(in crate::engine) async fn keep_hold(&self) -> Result<Hold, EngineError> {
        let proved = match &*self.holding() {
            Holding::Unasked => return Ok(Hold::Kept),
            Holding::Held(client, at) if !client.is_closed() => Some((Arc::clone(client), *at)),
            Holding::Unproven(client) if !client.is_closed() => return Ok(Hold::Retaken),
            Holding::Held(..) | Holding::Unproven(_) | Holding::Lost => None,
        };
        if let Some((client, at)) = proved {
            if at.elapsed() < PROVE {
                return Ok(Hold::Kept);
            }
            let answer = tokio::time::timeout(ANSWER, statement::query(&client, "SELECT 1", &[])).await;
            if matches!(answer, Ok(Ok(_))) {
                *self.holding() = Holding::Held(client, Instant::now());
                return Ok(Hold::Kept);
            }
            *self.holding() = Holding::Lost; // and the connection closes
        }
        Ok(match self.take(Duration::ZERO).await? {
            Some(client) => {
                *self.holding() = Holding::Unproven(Arc::new(client));
                Hold::Retaken
            }
            None => Hold::Taken,
        })
    }

    /// What was found when the database was taken again is ours: changes may begin.
    pub(in crate::engine) fn confirm_hold(&self) {
        let mut holding = self.holding();
        if let Holding::Unproven(client) = &*holding {
            *holding = Holding::Held(Arc::clone(client), Instant::now());
        }
    }

    /// Whether a change may begin.
    pub(super) fn may_write(&self) -> Result<(), EngineError> {
        match &*self.holding() {
            Holding::Unasked => Ok(()),
            Holding::Held(client, _) if !client.is_closed() => Ok(()),
            Holding::Held(..) | Holding::Unproven(_) | Holding::Lost => Err(EngineError::Gone(None)),
        }
    }

    pub(super) fn let_go(&self) {
        *self.holding() = Holding::Unasked;
    }

    fn holding(&self) -> MutexGuard<'_, Holding> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
