//! Brings the tables of a store to what this build needs, in one history for both engines.
//!
//! Invariant: a migration is applied whole or not at all, once, by one process; a store with data is never
//! migrated without being asked; what was applied is never silently different from what this build knows.

use sha2::{Digest as _, Sha256};

use super::error::EngineError;
use super::schema::{has_table, tables};
use super::{Engine, Kind, Tx};

/// One step of the history.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// Its place in the history; strictly ascending.
    pub number: i64,
    /// What it does, for people.
    pub name: &'static str,
    /// Statements both engines take, separated by `;`.
    pub sql: &'static str,
}

/// Tables the engine itself needs. `counters` feeds [`Tx::next`].
const OWN_TABLES: &str = "
    CREATE TABLE IF NOT EXISTS migrations (
        number BIGINT PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL, at BIGINT NOT NULL);
    CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
";

/// One migrating process at a time; the time a migration may take replaces the deadline of a statement.
const POSTGRES_LOCK: &str = "SET LOCAL statement_timeout = '1h'; SELECT pg_advisory_xact_lock(7083771717)";

/// Why a store was not brought up to date. Nothing was changed by the step that failed.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The store has data and needs steps that nobody asked for yet.
    #[error(
        "the store needs {count} migration(s), next {number} `{name}`; make a backup, then run `palisade backup migrate-store`"
    )]
    Pending {
        /// How many are missing.
        count: usize,
        /// The first of them.
        number: i64,
        /// Its name.
        name: String,
    },
    /// The store was made by a newer build.
    #[error(
        "the store has migration {number} `{name}`, which this build does not know; install the newer version again or restore a backup"
    )]
    Newer {
        /// The unknown step.
        number: i64,
        /// Its name.
        name: String,
    },
    /// A step that was applied reads differently in this build.
    #[error(
        "migration {number} `{name}` was applied with other text than this build has; install the version that made the store"
    )]
    Changed {
        /// The step.
        number: i64,
        /// Its name in this build.
        name: &'static str,
    },
    /// A missing step lies before one that was applied.
    #[error(
        "migration {number} `{name}` was skipped by the build that made the store; install the version that made it"
    )]
    Skipped {
        /// The missing step.
        number: i64,
        /// Its name.
        name: &'static str,
    },
    /// The store has tables but no history: it is not one of ours.
    #[error("the database has tables that are not ours; use an empty one")]
    Foreign,
    /// The history itself is wrong: a mistake in this build.
    #[error("migration numbers must ascend, and {0} does not")]
    Disorder(i64),
    /// A step failed and was rolled back.
    #[error("migration {number} `{name}` failed and was rolled back")]
    Step {
        /// The step.
        number: i64,
        /// Its name.
        name: &'static str,
        /// Why.
        #[source]
        source: EngineError,
    },
    /// The store failed.
    #[error("the store could not be migrated")]
    Engine(#[from] EngineError),
}

impl Engine {
    /// Makes a fresh store ready, accepts a current one, and refuses every other.
    pub async fn ready(&self, history: &[Migration], now_ms: i64) -> Result<(), MigrateError> {
        let mut tx = self.lock().await?;
        let applied = applied(&mut tx).await?;
        let missing = missing(&applied, history)?;
        match (missing.first(), applied.is_empty()) {
            (None, _) => Ok(tx.rollback().await?),
            (Some(next), false) => {
                let (count, number, name) = (missing.len(), next.number, next.name.to_owned());
                tx.rollback().await?;
                Err(MigrateError::Pending { count, number, name })
            }
            // All in one transaction: an interrupted first start leaves an empty store, not a half-made one.
            (Some(_), true) => {
                for step in missing {
                    apply(&mut tx, step, now_ms).await?;
                }
                self.settle(tx).await
            }
        }
    }

    /// The steps of `history` that this store lacks, in order.
    pub async fn pending(&self, history: &[Migration]) -> Result<Vec<Migration>, MigrateError> {
        let mut tx = self.snapshot().await?;
        let missing = missing(&applied(&mut tx).await?, history)?;
        tx.rollback().await?;
        Ok(missing)
    }

    /// Applies what is pending, each step in a transaction of its own, and says how many there were. Interrupted,
    /// it goes on where it stopped.
    pub async fn migrate(&self, history: &[Migration], now_ms: i64) -> Result<usize, MigrateError> {
        let mut count = 0;
        loop {
            // Asked again each time, under the lock: another process may have been faster.
            let mut tx = self.lock().await?;
            let Some(step) = missing(&applied(&mut tx).await?, history)?.into_iter().next() else {
                tx.rollback().await?;
                return Ok(count);
            };
            apply(&mut tx, step, now_ms).await?;
            self.settle(tx).await?;
            count += 1;
        }
    }

    /// A transaction during which nobody else migrates. SQLite has only one writer anyway.
    pub(crate) async fn lock(&self) -> Result<Tx, EngineError> {
        let mut tx = self.write().await?;
        match tx.kind() {
            Kind::Sqlite => {}
            Kind::Postgres => tx.batch(POSTGRES_LOCK).await?,
        }
        Ok(tx)
    }

    async fn settle(&self, tx: Tx) -> Result<(), MigrateError> {
        tx.commit().await?;
        self.forget_statements();
        Ok(())
    }
}

/// A step the store remembers.
pub(crate) struct Applied {
    pub(crate) number: i64,
    pub(crate) name: String,
    pub(crate) digest: String,
}

/// What the store remembers; nothing for a fresh one.
pub(crate) async fn applied(tx: &mut Tx) -> Result<Vec<Applied>, MigrateError> {
    if !has_table(tx, "migrations").await? {
        return if tables(tx).await?.is_empty() { Ok(Vec::new()) } else { Err(MigrateError::Foreign) };
    }
    let rows = tx.rows("SELECT number, name, digest FROM migrations ORDER BY number", &[]).await?;
    let step = |row: &super::Row| -> Result<Applied, EngineError> {
        Ok(Applied { number: row.int(0)?, name: row.text(1)?.to_owned(), digest: row.text(2)?.to_owned() })
    };
    Ok(rows.iter().map(step).collect::<Result<_, _>>()?)
}

/// The steps of `history` after those applied, if both tell the same story.
pub(crate) fn missing(applied: &[Applied], history: &[Migration]) -> Result<Vec<Migration>, MigrateError> {
    for (one, next) in history.iter().zip(history.iter().skip(1)) {
        if next.number <= one.number {
            return Err(MigrateError::Disorder(next.number));
        }
    }
    for done in applied {
        match history.iter().find(|step| step.number == done.number) {
            None => return Err(MigrateError::Newer { number: done.number, name: done.name.clone() }),
            Some(step) if digest(step) != done.digest => {
                return Err(MigrateError::Changed { number: step.number, name: step.name });
            }
            Some(_) => {}
        }
    }
    let last = applied.iter().map(|done| done.number).max();
    let lacks = |step: &&Migration| applied.iter().all(|done| done.number != step.number);
    let missing: Vec<_> = history.iter().filter(lacks).copied().collect();
    match missing.first() {
        Some(step) if last.is_some_and(|last| step.number < last) => {
            Err(MigrateError::Skipped { number: step.number, name: step.name })
        }
        Some(_) | None => Ok(missing),
    }
}

/// Applies one step inside `tx` and remembers it.
pub(crate) async fn apply(tx: &mut Tx, step: Migration, now_ms: i64) -> Result<(), MigrateError> {
    let failed = |source| MigrateError::Step { number: step.number, name: step.name, source };
    tx.batch(OWN_TABLES).await.map_err(failed)?;
    tx.batch(step.sql).await.map_err(failed)?;
    let sql = "INSERT INTO migrations (number, name, digest, at) VALUES ($1, $2, $3, $4)";
    let args = [step.number.into(), step.name.into(), digest(&step).into(), now_ms.into()];
    tx.exec(sql, &args).await.map_err(failed)?;
    Ok(())
}

/// Notices an edited step (FNV-1a, 128 bits over the SQL). It guards against mistakes; whoever can write the
/// store needs no forged digest.
fn digest(step: &Migration) -> String {
    hex::encode(Sha256::digest(step.sql.as_bytes()))
}
