//! The SQLite engine: one writer, a few readers, one connection for snapshots, all under SQLCipher.
//!
//! Reads and the statements of a transaction run inline on the calling task: a reader of a write-ahead log
//! never waits for the writer, and a hop to another thread costs more than the read. What waits for the disk
//! (a commit, opening, closing) runs on the blocking pool.
//!
//! Invariant: no connection is held across an `.await` by a std lock, and an abandoned transaction is rolled
//! back before anybody else gets its connection.

mod ballast;
pub(super) mod connect;
pub(super) mod place;
mod statement;

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{Mutex, OwnedMutexGuard, Semaphore};
use tokio::time::{sleep, timeout};

use self::ballast::Ballast;
use self::place::Found;
pub(super) use self::statement::fault;
use super::error::EngineError;
use super::open::OpenError;
use super::value::{Row, Value};

/// How long a caller waits for a connection or a lock before it is told the store is busy.
const WAIT: Duration = Duration::from_secs(10);
/// How long to pause before asking again for a lock another process holds.
const PAUSE: Duration = Duration::from_millis(2);
/// A write that worked this recently answers for `ping`.
const FRESH: Duration = Duration::from_secs(1);

type Slot = Arc<Mutex<Option<Connection>>>;

/// An open SQLite store.
pub(super) struct Sqlite {
    writer: Slot,
    snapshots: Slot,
    readers: Readers,
    ballast: Ballast,
    written: Arc<LastWrite>,
}

impl Sqlite {
    /// Opens the store at `path`, making it if there is nothing.
    pub(super) async fn open(path: &Path, key: &[u8; 32]) -> Result<Self, OpenError> {
        let (path, key) = (path.to_owned(), *key);
        let opened = tokio::task::spawn_blocking(move || Self::open_blocking(&path, &key));
        opened.await.map_err(|_| EngineError::Gone(None))?
    }

    fn open_blocking(path: &Path, key: &[u8; 32]) -> Result<Self, OpenError> {
        let path = place::private_directory(path)?;
        if place::examine(&path, key)? == Found::Nothing {
            connect::create(&path, key)?;
            place::examine(&path, key)?;
        }
        let slot = |conn| Arc::new(Mutex::new(Some(conn)));
        // The writer comes first: it recovers the log, which a reader may not.
        let writer = slot(connect::writer(&path, key)?);
        let count = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
        let readers = (0..count).map(|_| connect::reader(&path, key)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            writer,
            snapshots: slot(connect::reader(&path, key)?),
            readers: Readers { slots: Semaphore::new(count), idle: StdMutex::new(readers) },
            ballast: Ballast::new(&path),
            written: Arc::default(),
        })
    }

    /// Runs a statement that only reads.
    pub(super) async fn rows(&self, sql: &str, args: &[Value]) -> Result<Vec<Row>, EngineError> {
        let mut deadline = None;
        loop {
            match self.readers.run(|conn| statement::query_only(conn, sql, args)).await {
                // Only while another process recovers or closes the file.
                Err(EngineError::Busy) if still_time(&mut deadline) => sleep(PAUSE).await,
                done => return done,
            }
        }
    }

    /// Begins a transaction that writes.
    pub(super) async fn write(&self) -> Result<SqliteTx, EngineError> {
        self.begin(&self.writer, "BEGIN IMMEDIATE").await
    }

    /// Begins a transaction that sees the store as it is now and only reads.
    pub(super) async fn snapshot(&self) -> Result<SqliteTx, EngineError> {
        let mut tx = self.begin(&self.snapshots, "BEGIN").await?;
        tx.rows("SELECT count(*) FROM sqlite_master", &[])?; // the first read fixes what is seen
        Ok(tx)
    }

    async fn begin(&self, slot: &Slot, sql: &str) -> Result<SqliteTx, EngineError> {
        let guard = timeout(WAIT, slot.clone().lock_owned()).await.map_err(|_| EngineError::Busy)?;
        let held = Held(guard);
        let mut deadline = None;
        loop {
            match held.batch(sql) {
                Err(EngineError::Busy) if still_time(&mut deadline) => sleep(PAUSE).await,
                Err(error) => return Err(error),
                Ok(()) => return Ok(SqliteTx { held: Some(held), written: self.written.clone() }),
            }
        }
    }

    /// Says whether the store can be read *and* written, by doing both.
    pub(super) async fn ping(&self) -> Result<(), EngineError> {
        self.rows("PRAGMA schema_version", &[]).await?;
        if self.ballast.is_tight() {
            return Err(EngineError::Full);
        }
        if self.written.age().is_some_and(|age| age < FRESH) {
            return Ok(());
        }
        let tx = self.write().await?;
        tx.batch("PRAGMA user_version = 0")?; // never used for anything else; dirties page 1
        tx.commit().await
    }

    /// The room kept back for narrowing acts.
    pub(super) fn ballast(&self) -> &Ballast {
        &self.ballast
    }

    /// Closes every connection once the running transactions are over; the log is folded into the file.
    pub(super) async fn close(&self) -> Result<(), EngineError> {
        self.readers.close();
        for slot in [&self.snapshots, &self.writer] {
            let mut guard = timeout(WAIT, slot.clone().lock_owned()).await.map_err(|_| EngineError::Busy)?;
            let Some(conn) = guard.take() else { continue };
            let closed = tokio::task::spawn_blocking(move || conn.close().map_err(|(_, error)| fault(error)));
            closed.await.map_err(|_| EngineError::Gone(None))??;
        }
        Ok(())
    }
}

fn still_time(deadline: &mut Option<Instant>) -> bool {
    let now = Instant::now();
    now < *deadline.get_or_insert(now + WAIT)
}

/// The connections that read.
struct Readers {
    slots: Semaphore,
    idle: StdMutex<Vec<Connection>>,
}

impl Readers {
    async fn run<T>(
        &self,
        act: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let _slot = match self.slots.try_acquire() {
            Ok(slot) => slot,
            Err(_) => {
                let slot = timeout(WAIT, self.slots.acquire()).await.map_err(|_| EngineError::Busy)?;
                slot.map_err(|_| EngineError::Gone(None))?
            }
        };
        let conn = self.idle().pop().ok_or(EngineError::Gone(None))?;
        let result = act(&conn);
        if !self.slots.is_closed() {
            self.idle().push(conn);
        }
        result
    }

    fn close(&self) {
        self.slots.close();
        self.idle().clear();
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running transaction. Dropped without commit, it is rolled back.
pub(super) struct SqliteTx {
    held: Option<Held>,
    written: Arc<LastWrite>,
}

impl SqliteTx {
    pub(super) fn exec(&mut self, sql: &str, args: &[Value]) -> Result<u64, EngineError> {
        statement::execute(self.open()?, sql, args)
    }

    pub(super) fn rows(&mut self, sql: &str, args: &[Value]) -> Result<Vec<Row>, EngineError> {
        statement::query(self.open()?, sql, args)
    }

    /// Runs several statements without arguments.
    pub(super) fn batch(&self, sql: &str) -> Result<(), EngineError> {
        self.open()?.execute_batch(sql).map_err(fault)
    }

    /// Like [`Self::rows`], on the blocking pool: for results that take long to read.
    pub(super) async fn rows_aside(
        &mut self,
        sql: String,
        args: Vec<Value>,
    ) -> Result<Vec<Row>, EngineError> {
        let held = self.held.take().ok_or(EngineError::Failed)?;
        let aside = tokio::task::spawn_blocking(move || {
            let result = held.conn().and_then(|conn| statement::query(conn, &sql, &args));
            (held, result)
        });
        let (held, result) = aside.await.map_err(|_| EngineError::Gone(None))?;
        self.held = Some(held);
        result
    }

    /// Commits; returns when the disk has it. If the caller goes away meanwhile, the commit still finishes.
    pub(super) async fn commit(mut self) -> Result<(), EngineError> {
        self.open()?;
        let held = self.held.take().ok_or(EngineError::Failed)?;
        let written = self.written.clone();
        let committed = tokio::task::spawn_blocking(move || {
            let result = held.batch("COMMIT");
            written.note(result.is_ok());
            result
        });
        committed.await.map_err(|_| EngineError::Unknown(None))?
    }

    /// The connection, as long as the transaction is alive: a full disk makes SQLite roll back by itself, and
    /// what came after would be written without a transaction.
    fn open(&self) -> Result<&Connection, EngineError> {
        let conn = self.held.as_ref().ok_or(EngineError::Failed)?.conn()?;
        if conn.is_autocommit() { Err(EngineError::Failed) } else { Ok(conn) }
    }
}

/// A connection that is ours until this is dropped, and then has no open transaction.
struct Held(OwnedMutexGuard<Option<Connection>>);

impl Held {
    fn conn(&self) -> Result<&Connection, EngineError> {
        self.0.as_ref().ok_or(EngineError::Gone(None))
    }

    fn batch(&self, sql: &str) -> Result<(), EngineError> {
        self.conn()?.execute_batch(sql).map_err(fault)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(conn) = self.0.as_ref()
            && !conn.is_autocommit()
            && conn.execute_batch("ROLLBACK").is_err()
            && !conn.is_autocommit()
        {
            // Nobody may inherit a transaction. Without a connection the store says it is gone.
            *self.0 = None;
        }
    }
}

/// When a commit last worked; forgotten when one fails.
struct LastWrite {
    start: Instant,
    millis: AtomicI64,
}

impl Default for LastWrite {
    fn default() -> Self {
        Self { start: Instant::now(), millis: AtomicI64::new(-1) }
    }
}

impl LastWrite {
    fn note(&self, worked: bool) {
        let now = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.millis.store(if worked { now } else { -1 }, Ordering::Relaxed);
    }

    fn age(&self) -> Option<Duration> {
        let millis = u64::try_from(self.millis.load(Ordering::Relaxed)).ok()?;
        Some(self.start.elapsed().saturating_sub(Duration::from_millis(millis)))
    }
}
