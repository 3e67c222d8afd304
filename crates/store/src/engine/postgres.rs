//! The PostgreSQL engine: a pool of connections with cached statements.
//!
//! Transactions are READ COMMITTED and order themselves by row locks. Every wait has a deadline: for a
//! connection, for the server (there and, should it fall silent, here), for a lock.
//!
//! Invariant: a connection whose state is not known to be clean (a transaction dropped, a wait given up) never
//! goes back to the pool; closing it makes the server roll back.

mod address;
mod hold;
mod statement;

use std::sync::Mutex;
use std::time::Duration;

use deadpool_postgres::tokio_postgres::{Config, NoTls};
use deadpool_postgres::{
    ClientWrapper, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
    Timeouts,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use self::address::Tls;
use self::hold::Holding;
use super::error::EngineError;
use super::open::OpenError;
use super::value::{Row, Value};

/// How many connections one daemon holds.
const CONNECTIONS: usize = 16;
/// How long to connect, and how long to wait for a free connection.
const CONNECT: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_secs(10);
/// When a server that should have given up by itself is taken for gone.
const SILENCE: Duration = Duration::from_secs(40);
/// The server's own deadlines in milliseconds, and how soon it notices that we died in the middle of a statement
/// (PostgreSQL 14 or newer). A commit that returned is on its disk.
const OPTIONS: &str = "-c statement_timeout=30000 -c lock_timeout=10000 -c client_connection_check_interval=1000 \
     -c idle_in_transaction_session_timeout=60000 -c synchronous_commit=on";

/// An open PostgreSQL store.
pub(super) struct Postgres {
    pool: Pool,
    /// What holds the database for this daemon.
    holding: Mutex<Holding>,
}

impl Postgres {
    /// Connects to the database that `url` names.
    pub(super) async fn open(url: &str) -> Result<Self, OpenError> {
        let address = address::parse(url)?;
        let mut config = address.config;
        let options = config.get_options().map_or(OPTIONS.to_owned(), |own| format!("{OPTIONS} {own}"));
        config.options(options).connect_timeout(CONNECT).tcp_user_timeout(SILENCE);
        config.keepalives_idle(SILENCE);
        if config.get_application_name().is_none() {
            config.application_name("palisade");
        }
        let store = Self { pool: pool(config, address.tls)?, holding: Mutex::default() };
        store.check().await?;
        Ok(store)
    }

    async fn check(&self) -> Result<(), OpenError> {
        let client = self.pool.get().await.map_err(refused)?;
        let sql = "SELECT current_setting('server_encoding')";
        let rows = within(statement::query(&client, sql, &[])).await?;
        match rows.first().map(|row| row.text(0)).transpose().map_err(EngineError::from)? {
            Some("UTF8") => Ok(()),
            other => Err(OpenError::Encoding(other.unwrap_or_default().to_owned())),
        }
    }

    /// Runs a statement that only reads.
    pub(super) async fn rows(&self, sql: &str, args: &[Value]) -> Result<Vec<Row>, EngineError> {
        let mut lease = Lease::new(self.client().await?);
        let result = within(statement::query(lease.client()?, sql, args)).await;
        lease.settle(&result);
        result
    }

    /// Begins a transaction that writes, unless the database was taken for this daemon and that hold is lost.
    pub(super) async fn write(&self) -> Result<PostgresTx, EngineError> {
        self.may_write()?;
        self.begin("BEGIN ISOLATION LEVEL READ COMMITTED").await
    }

    /// Begins a transaction that sees the store as it is now and only reads.
    pub(super) async fn snapshot(&self) -> Result<PostgresTx, EngineError> {
        let mut tx = self.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        tx.rows("SELECT 1", &[]).await?; // the first statement fixes what is seen
        Ok(tx)
    }

    async fn begin(&self, sql: &str) -> Result<PostgresTx, EngineError> {
        let tx = PostgresTx { lease: Lease::new(self.client().await?) };
        within(tx.batch(sql)).await?;
        Ok(tx)
    }

    /// Says whether the store can be read *and* written: the message is a durable write without a table.
    pub(super) async fn ping(&self) -> Result<(), EngineError> {
        let mut tx = self.write().await?;
        let rows = tx.rows("SELECT current_setting('transaction_read_only')", &[]).await?;
        if rows.first().map(|row| row.text(0)).transpose()? != Some("off") {
            return Err(EngineError::Full);
        }
        tx.rows("SELECT 1 FROM pg_logical_emit_message(true, 'palisade', 'ping')", &[]).await?;
        tx.commit().await
    }

    /// Forgets prepared statements; needed after the tables changed.
    pub(super) fn forget_statements(&self) {
        self.pool.manager().statement_caches.clear();
    }

    pub(super) fn close(&self) {
        self.let_go();
        self.pool.close();
    }

    async fn client(&self) -> Result<Object, EngineError> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Timeout(TimeoutType::Wait) => EngineError::Busy,
            PoolError::Backend(error) => match statement::fault(error) {
                EngineError::Other(fault) => EngineError::Gone(Some(fault)),
                known => known,
            },
            PoolError::Timeout(_)
            | PoolError::Closed
            | PoolError::NoRuntimeSpecified
            | PoolError::PostCreateHook(_) => EngineError::Gone(None),
        })
    }
}

fn pool(config: Config, tls: Tls) -> Result<Pool, OpenError> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = match tls {
        Tls::Off => Manager::from_config(config, NoTls, recycling),
        Tls::Verified(tls) => Manager::from_config(config, MakeRustlsConnect::new(*tls), recycling),
    };
    let timeouts = Timeouts { wait: Some(WAIT), create: Some(CONNECT), recycle: Some(CONNECT) };
    let pool =
        Pool::builder(manager).max_size(CONNECTIONS).timeouts(timeouts).runtime(Runtime::Tokio1).build();
    pool.map_err(|_| EngineError::misuse("the pool has no runtime").into())
}

fn refused(error: PoolError) -> OpenError {
    let PoolError::Backend(error) = error else { return EngineError::Gone(None).into() };
    let fault = statement::describe(&error, true);
    match error.code().map(|state| state.code()) {
        // bad password or authorization, no such database, not allowed to connect
        Some("28P01" | "28000" | "3D000" | "42501") => OpenError::Refused(fault),
        Some(_) | None => OpenError::Unreachable(fault),
    }
}

async fn within<T>(work: impl Future<Output = Result<T, EngineError>>) -> Result<T, EngineError> {
    tokio::time::timeout(SILENCE, work).await.unwrap_or(Err(EngineError::Gone(None)))
}

/// A connection on loan. It goes back to the pool only if it was settled clean.
struct Lease {
    client: Option<Object>,
    clean: bool,
}

impl Lease {
    fn new(client: Object) -> Self {
        Self { client: Some(client), clean: false }
    }

    fn client(&self) -> Result<&ClientWrapper, EngineError> {
        self.client.as_deref().ok_or(EngineError::Gone(None))
    }

    /// Outside a transaction a statement that merely failed leaves the connection usable.
    fn settle<T>(&mut self, result: &Result<T, EngineError>) {
        self.clean = !matches!(result, Err(EngineError::Gone(_)));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let (Some(client), false) = (self.client.take(), self.clean) {
            drop(Object::take(client)); // closes the connection
        }
    }
}

/// A running transaction. Dropped without commit, its connection is closed and the server rolls back.
pub(super) struct PostgresTx {
    lease: Lease,
}

impl PostgresTx {
    pub(super) async fn exec(&mut self, sql: &str, args: &[Value]) -> Result<u64, EngineError> {
        within(statement::execute(self.lease.client()?, sql, args)).await
    }

    pub(super) async fn rows(&mut self, sql: &str, args: &[Value]) -> Result<Vec<Row>, EngineError> {
        within(statement::query(self.lease.client()?, sql, args)).await
    }

    /// Runs several statements without arguments. The server's deadline counts, which a migration may have moved.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), EngineError> {
        self.lease.client()?.batch_execute(sql).await.map_err(statement::fault)
    }

    pub(super) async fn commit(self) -> Result<(), EngineError> {
        self.end("COMMIT").await.map_err(|error| match error {
            EngineError::Gone(fault) => EngineError::Unknown(fault),
            known => known,
        })
    }

    /// Rolls back and keeps the connection.
    pub(super) async fn rollback(self) -> Result<(), EngineError> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, sql: &str) -> Result<(), EngineError> {
        within(self.batch(sql)).await?;
        self.lease.clean = true;
        Ok(())
    }
}
