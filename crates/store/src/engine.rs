//! Turns SQL text and values into rows, on either of two engines.
//!
//! Flow: [`Engine`] (an open store) -> [`Tx`] (one change, whole or not at all) -> [`Row`].
//!
//! The same text runs on both: placeholders `$1`, types `BIGINT`, `TEXT` and `BYTEA`, no `now()`. What differs
//! in silence is not used: order by integers or in Rust (collations differ), cast sums to `BIGINT`, and cast a
//! parameter that only meets `IS NULL`.
//!
//! Invariants: SQL is `&'static str`, so no value can become SQL; a transaction that failed once can only be
//! dropped, on both engines; a commit that returned is on the disk; no error quotes a value.
//! Not here: what the tables mean (the repositories), who may ask (`access`).

mod encrypt;
mod error;
mod migrate;
mod open;
mod postgres;
mod schema;
mod sqlite;
mod value;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use self::postgres::{Postgres, PostgresTx};
use self::sqlite::{Sqlite, SqliteTx};

pub use self::encrypt::{EncryptError, EncryptStep, encrypt_plain, encrypt_plain_reporting};
pub use self::error::{EngineError, Fault};
pub(crate) use self::migrate::{Applied, applied, apply, missing};
pub use self::migrate::{MigrateError, Migration};
pub use self::open::OpenError;
pub(crate) use self::schema::{Table, has_table, tables};
pub use self::value::{Row, RowError, Value};

/// Which engine a store runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An encrypted file beside the daemon.
    Sqlite,
    /// A database server.
    Postgres,
}

/// What became of the hold on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It stands.
    Kept,
    /// It was lost, and is taken again; others may have been at the store meanwhile, so nothing is written yet.
    Retaken,
    /// It was lost, and somebody else has it.
    Taken,
}

/// An open store. Clones share it.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

enum Inner {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

impl Engine {
    /// Opens the encrypted file at `path`, making it (and its directory, 0700) if there is nothing.
    pub async fn open_sqlite(path: &Path, key: &[u8; 32]) -> Result<Self, OpenError> {
        Sqlite::open(path, key).await.map(|store| Self(Arc::new(Inner::Sqlite(store))))
    }

    /// Connects to the database at `url`: `postgres://user:password@host/database?sslmode=verify-full`.
    pub async fn open_postgres(url: &str) -> Result<Self, OpenError> {
        Postgres::open(url).await.map(|store| Self(Arc::new(Inner::Postgres(store))))
    }

    /// Which engine this is.
    pub fn kind(&self) -> Kind {
        match &*self.0 {
            Inner::Sqlite(_) => Kind::Sqlite,
            Inner::Postgres(_) => Kind::Postgres,
        }
    }

    /// Takes the store for this process as long as it lives; false if another daemon has it. A file is guarded
    /// by the data directory's own lock.
    pub async fn hold(&self) -> Result<bool, EngineError> {
        match &*self.0 {
            Inner::Sqlite(_) => Ok(true),
            Inner::Postgres(store) => store.hold().await,
        }
    }

    /// Looks whether the store is still held, and takes it again if the hold was lost. From its loss until
    /// [`Self::confirm_hold`] nothing is written.
    pub async fn keep_hold(&self) -> Result<Hold, EngineError> {
        match &*self.0 {
            Inner::Sqlite(_) => Ok(Hold::Kept),
            Inner::Postgres(store) => store.keep_hold().await,
        }
    }

    /// Says that what was found after the store was taken again is what this daemon goes on with.
    pub fn confirm_hold(&self) {
        match &*self.0 {
            Inner::Sqlite(_) => {}
            Inner::Postgres(store) => store.confirm_hold(),
        }
    }

    /// Runs a statement that only reads and gives all its rows. On SQLite it runs on the calling task: ask for
    /// pages, not for whole tables.
    pub async fn rows(&self, sql: &'static str, args: &[Value]) -> Result<Vec<Row>, EngineError> {
        if !reads(sql) {
            return Err(EngineError::misuse("a statement that writes needs a transaction"));
        }
        match &*self.0 {
            Inner::Sqlite(store) => store.rows(sql, args).await,
            Inner::Postgres(store) => store.rows(sql, args).await,
        }
    }

    /// Like [`Self::rows`], for at most one row: the first.
    pub async fn row(&self, sql: &'static str, args: &[Value]) -> Result<Option<Row>, EngineError> {
        Ok(self.rows(sql, args).await?.into_iter().next())
    }

    /// Begins a transaction that may write. SQLite has one at a time; the others wait their turn.
    pub async fn write(&self) -> Result<Tx, EngineError> {
        Ok(Tx::new(match &*self.0 {
            Inner::Sqlite(store) => Running::Sqlite(store.write().await?),
            Inner::Postgres(store) => Running::Postgres(Box::new(store.write().await?)),
        }))
    }

    /// Begins a transaction that only reads and sees one moment, however long it takes. One at a time on SQLite.
    pub(crate) async fn snapshot(&self) -> Result<Tx, EngineError> {
        Ok(Tx::new(match &*self.0 {
            Inner::Sqlite(store) => Running::Sqlite(store.snapshot().await?),
            Inner::Postgres(store) => Running::Postgres(Box::new(store.snapshot().await?)),
        }))
    }

    /// Says whether the store can be read and written, by doing both; `Full` when only reads work.
    pub async fn ping(&self) -> Result<(), EngineError> {
        match &*self.0 {
            Inner::Sqlite(store) => store.ping().await,
            Inner::Postgres(store) => store.ping().await,
        }
    }

    /// Whether there is so little room that only acts which narrow should be written.
    pub fn is_tight(&self) -> bool {
        match &*self.0 {
            Inner::Sqlite(store) => store.ballast().is_tight(),
            Inner::Postgres(_) => false, // the server keeps its own house
        }
    }

    /// Whether room that was kept back was given to acts which narrow: whatever can wait leaves it to them.
    pub fn is_rationed(&self) -> bool {
        match &*self.0 {
            Inner::Sqlite(store) => store.ballast().is_given(),
            Inner::Postgres(_) => false,
        }
    }

    /// Makes sure that an act which narrows can be written, if need be with room that was kept back for it.
    pub fn make_room(&self) {
        match &*self.0 {
            Inner::Sqlite(store) => store.ballast().give(),
            Inner::Postgres(_) => {}
        }
    }

    /// Keeps room back again, as soon as there is enough.
    pub fn restock(&self) {
        match &*self.0 {
            Inner::Sqlite(store) => store.ballast().restock(),
            Inner::Postgres(_) => {}
        }
    }

    /// Closes the store for every clone: running transactions end first, later calls get `Gone`.
    pub async fn close(self) -> Result<(), EngineError> {
        match &*self.0 {
            Inner::Sqlite(store) => store.close().await,
            Inner::Postgres(store) => {
                store.close();
                Ok(())
            }
        }
    }

    /// The tables changed: what was prepared for the old ones is dropped.
    pub(crate) fn forget_statements(&self) {
        match &*self.0 {
            Inner::Sqlite(_) => {} // SQLite prepares again by itself
            Inner::Postgres(store) => store.forget_statements(),
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Engine").field(&self.kind()).finish()
    }
}

/// Whether a statement begins like one that reads. SQLite checks for real; this keeps PostgreSQL in step.
fn reads(sql: &str) -> bool {
    let word = sql.split_whitespace().next().unwrap_or_default();
    ["SELECT", "WITH", "VALUES"].iter().any(|verb| word.eq_ignore_ascii_case(verb))
}

/// One change of the store: everything in it happens with [`Tx::commit`], or nothing does.
#[must_use = "a transaction that is not committed is rolled back"]
pub struct Tx {
    running: Running,
    failed: bool,
}

enum Running {
    Sqlite(SqliteTx),
    Postgres(Box<PostgresTx>),
}

impl Tx {
    fn new(running: Running) -> Self {
        Self { running, failed: false }
    }

    /// Which engine this runs on.
    pub(crate) fn kind(&self) -> Kind {
        match &self.running {
            Running::Sqlite(_) => Kind::Sqlite,
            Running::Postgres(_) => Kind::Postgres,
        }
    }

    /// Runs a statement and says how many rows it changed.
    pub async fn exec(&mut self, sql: &'static str, args: &[Value]) -> Result<u64, EngineError> {
        self.exec_text(sql, args).await
    }

    /// Runs a statement and gives its rows; also for `RETURNING`.
    pub async fn rows(&mut self, sql: &'static str, args: &[Value]) -> Result<Vec<Row>, EngineError> {
        self.rows_text(sql, args).await
    }

    /// Like [`Self::rows`], for at most one row: the first.
    pub async fn row(&mut self, sql: &'static str, args: &[Value]) -> Result<Option<Row>, EngineError> {
        Ok(self.rows(sql, args).await?.into_iter().next())
    }

    /// The next number of `counter`: 1, 2, 3 without gaps. Whoever takes one holds the counter until the
    /// transaction ends, so numbers are committed in their order; take it late.
    pub async fn next(&mut self, counter: &'static str) -> Result<i64, EngineError> {
        let sql = "INSERT INTO counters (name, value) VALUES ($1, 1)
                   ON CONFLICT (name) DO UPDATE SET value = counters.value + 1 RETURNING value";
        let row = self.row(sql, &[counter.into()]).await?;
        let row = row.ok_or(EngineError::misuse("a counter gave no number"))?;
        Ok(row.int(0)?)
    }

    /// Makes the change durable. After `Unknown` it may or may not have happened; after any other error it did not.
    pub async fn commit(self) -> Result<(), EngineError> {
        match (self.failed, self.running) {
            (true, _) => Err(EngineError::Failed),
            (false, Running::Sqlite(tx)) => tx.commit().await,
            (false, Running::Postgres(tx)) => tx.commit().await,
        }
    }

    /// Undoes the change. Dropping does the same; this is cheaper on PostgreSQL, which keeps the connection.
    pub async fn rollback(self) -> Result<(), EngineError> {
        match self.running {
            Running::Sqlite(tx) => {
                drop(tx);
                Ok(())
            }
            Running::Postgres(tx) => tx.rollback().await,
        }
    }

    /// For SQL made from table names of the store itself, which [`schema`] has checked.
    pub(crate) async fn exec_text(&mut self, sql: &str, args: &[Value]) -> Result<u64, EngineError> {
        self.enter()?;
        let result = match &mut self.running {
            Running::Sqlite(tx) => tx.exec(sql, args),
            Running::Postgres(tx) => tx.exec(sql, args).await,
        };
        self.leave(result)
    }

    /// Like [`Self::exec_text`], giving rows.
    pub(crate) async fn rows_text(&mut self, sql: &str, args: &[Value]) -> Result<Vec<Row>, EngineError> {
        self.enter()?;
        let result = match &mut self.running {
            Running::Sqlite(tx) => tx.rows(sql, args),
            Running::Postgres(tx) => tx.rows(sql, args).await,
        };
        self.leave(result)
    }

    /// Like [`Self::rows_text`], away from the runtime's threads: for results that take long to read.
    pub(crate) async fn rows_aside(
        &mut self,
        sql: String,
        args: Vec<Value>,
    ) -> Result<Vec<Row>, EngineError> {
        self.enter()?;
        let result = match &mut self.running {
            Running::Sqlite(tx) => tx.rows_aside(sql, args).await,
            Running::Postgres(tx) => tx.rows(&sql, &args).await,
        };
        self.leave(result)
    }

    /// Runs several statements without arguments.
    pub(crate) async fn batch(&mut self, sql: &str) -> Result<(), EngineError> {
        self.enter()?;
        let result = match &mut self.running {
            Running::Sqlite(tx) => tx.batch(sql),
            Running::Postgres(tx) => tx.batch(sql).await,
        };
        self.leave(result)
    }

    /// Counts as failed until [`Self::leave`]: a statement whose caller went away in the middle never comes back.
    fn enter(&mut self) -> Result<(), EngineError> {
        if std::mem::replace(&mut self.failed, true) { Err(EngineError::Failed) } else { Ok(()) }
    }

    fn leave<T>(&mut self, result: Result<T, EngineError>) -> Result<T, EngineError> {
        self.failed = result.is_err();
        result
    }
}
