//! The store as the rest of the program sees it: facts to read, and effects that take a permit.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use access::Unavailable;
use model::{
    Clock, EventKind, EventSeq, HostPattern, SecretName, SecretOwner, SessionId, UserId, WorktreeId,
};
use tokio::sync::watch;

use crate::engine::{Engine, EngineError, MigrateError, Migration, Row, RowError, Tx, Value};
use crate::key_ring::RingWatch;

/// The history of the schema, for both engines.
pub const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "foundation", sql: include_str!("../migrations/0001_foundation.sql") },
    Migration {
        number: 2,
        name: "pairing and names",
        sql: include_str!("../migrations/0002_pairing_and_names.sql"),
    },
    Migration { number: 3, name: "installation", sql: include_str!("../migrations/0003_installation.sql") },
    Migration { number: 4, name: "secrets", sql: include_str!("../migrations/0004_secrets.sql") },
    Migration { number: 5, name: "key ring", sql: include_str!("../migrations/0005_key_ring.sql") },
    Migration { number: 6, name: "trees", sql: include_str!("../migrations/0006_trees.sql") },
    Migration { number: 7, name: "sessions", sql: include_str!("../migrations/0007_sessions.sql") },
    Migration { number: 8, name: "bounds", sql: include_str!("../migrations/0008_bounds.sql") },
    Migration {
        number: 9,
        name: "imported sessions",
        sql: include_str!("../migrations/0009_imported_sessions.sql"),
    },
    Migration { number: 10, name: "leaving", sql: include_str!("../migrations/0010_leaving.sql") },
    Migration { number: 11, name: "sharing", sql: include_str!("../migrations/0011_sharing.sql") },
    Migration {
        number: 12,
        name: "bounds of sessions",
        sql: include_str!("../migrations/0012_bounds_of_sessions.sql"),
    },
    Migration { number: 13, name: "registry", sql: include_str!("../migrations/0013_registry.sql") },
    Migration {
        number: 14,
        name: "spent by passes",
        sql: include_str!("../migrations/0014_spent_by_passes.sql"),
    },
    Migration {
        number: 15,
        name: "spent and carried",
        sql: include_str!("../migrations/0015_spent_and_carried.sql"),
    },
    Migration {
        number: 16,
        name: "damaged artifacts",
        sql: include_str!("../migrations/0016_damaged_artifacts.sql"),
    },
];

/// Why an effect did not happen, in terms of what the caller can do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The name or address is in use.
    #[error("`{0}` is taken; choose another")]
    Taken(&'static str),
    /// What the act is about is not there (any more).
    #[error("there is no such {0}")]
    Missing(&'static str),
    /// What it is about is there; something else that it names is not.
    #[error("there is no such {0}")]
    Dangling(&'static str),
    /// Someone must be left in charge.
    #[error("the last {0} cannot be removed, disabled or demoted; name another first")]
    Last(&'static str),
    /// Something still uses it.
    #[error("the {0} is still in use")]
    InUse(&'static str),
    /// There is room for so many.
    #[error("there are {1} {0} already, which is the most; remove one first")]
    Full(&'static str, i64),
    /// It is there and cannot be used; the text says why and what to do.
    #[error("{0}")]
    Unusable(String),
    /// A secret that is there and is over.
    #[error("the secret `{name}` of {owner} has expired; add it again, or remove it")]
    Expired {
        /// Its name.
        name: SecretName,
        /// Whose it is.
        owner: SecretOwner,
    },
    /// A secret that is there and may not go where it is wanted.
    #[error("the secret `{name}` of {owner} is bound to {bound}, so it is not lent for `{host}`")]
    Bound {
        /// Its name.
        name: SecretName,
        /// Whose it is.
        owner: SecretOwner,
        /// Where it may go.
        bound: String,
        /// Where it was to go.
        host: HostPattern,
    },
    /// It was finished before.
    #[error("the {0} is archived")]
    Archived(&'static str),
    /// The database did not take it.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<RowError> for StoreError {
    fn from(error: RowError) -> Self {
        Self::Engine(error.into())
    }
}

/// What went wrong at start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The schema is not what this program knows.
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    /// The database did not answer.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The store.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<dyn Clock>,
    /// The newest event that is committed.
    committed: Arc<AtomicI64>,
    /// The newest event that followers may be told, so that they wake.
    newest: watch::Sender<EventSeq>,
    /// The ring that values here are sealed under.
    pub(crate) ring: Arc<RingWatch>,
}

impl Store {
    /// A store over an open database whose schema is, or now becomes, current.
    pub async fn start(engine: Engine, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        engine.ready(MIGRATIONS, clock.now()).await?;
        let (committed, newest, ring) = (Arc::default(), watch::Sender::new(0), Arc::default());
        let store = Self { engine, clock, committed, newest, ring };
        let newest = store.newest_event().await?;
        store.committed.store(newest, Ordering::Release);
        store.publish();
        Ok(store)
    }

    /// Tells followers of everything that is committed. Whoever changed rights calls it when they are changed.
    pub fn publish(&self) {
        let committed = self.committed.load(Ordering::Acquire);
        self.newest.send_if_modified(|newest| {
            let more = committed > *newest;
            *newest = committed.max(*newest);
            more
        });
    }

    /// Wakes when an event was published.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<EventSeq> {
        self.newest.subscribe()
    }

    /// Adds an event to a change that is not committed yet.
    pub(crate) async fn event(
        &self,
        tx: &mut Tx,
        kind: EventKind,
        worktree: Option<WorktreeId>,
        user: Option<UserId>,
    ) -> Result<EventSeq, EngineError> {
        self.event_of(tx, kind, worktree, user, None).await
    }

    /// The same, about a session of a worktree.
    pub(crate) async fn session_event(
        &self,
        tx: &mut Tx,
        kind: EventKind,
        worktree: WorktreeId,
        session: SessionId,
    ) -> Result<EventSeq, EngineError> {
        self.event_of(tx, kind, Some(worktree), None, Some(session)).await
    }

    async fn event_of(
        &self,
        tx: &mut Tx,
        kind: EventKind,
        worktree: Option<WorktreeId>,
        user: Option<UserId>,
        session: Option<SessionId>,
    ) -> Result<EventSeq, EngineError> {
        let seq = tx.next("events").await?;
        let args = [
            Value::from(seq),
            self.clock.now().into(),
            kind.word().into(),
            worktree.map(|id| id.to_string()).into(),
            user.map(|id| id.to_string()).into(),
            session.map(|id| id.to_string()).into(),
        ];
        let sql =
            "INSERT INTO events (seq, at, kind, worktree, user_id, session) VALUES ($1, $2, $3, $4, $5, $6)";
        tx.exec(sql, &args).await?;
        Ok(seq)
    }

    /// Commits a change with its event; [`Self::publish`] wakes the followers.
    pub(crate) async fn commit(&self, tx: Tx, event: EventSeq) -> Result<(), EngineError> {
        tx.commit().await?;
        self.committed.fetch_max(event, Ordering::AcqRel);
        Ok(())
    }
}

/// Reads a column that must parse: what we wrote, or a damaged row.
pub(crate) fn parsed<T: std::str::FromStr>(row: &Row, index: usize) -> Result<T, EngineError> {
    row.text(index)?.parse().map_err(|_| odd(index).into())
}

pub(crate) fn unavailable(error: impl std::error::Error + Send + Sync + 'static) -> Unavailable {
    Unavailable(Box::new(error))
}

/// Names what a unique key was about.
pub(crate) fn taken(what: &'static str) -> impl Fn(EngineError) -> StoreError {
    move |error| match error {
        EngineError::Unique { .. } => StoreError::Taken(what),
        other => StoreError::Engine(other),
    }
}

/// A column that holds a word we never wrote.
pub(crate) fn odd(column: usize) -> RowError {
    RowError::Type { column, expected: "a known word", found: "another" }
}
