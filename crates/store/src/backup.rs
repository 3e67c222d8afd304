//! Turns a whole store into a stream of bytes and a stream into a store, whatever the engines.
//!
//! The stream (see `format`) holds rows, not pages: what SQLite wrote PostgreSQL reads, and equal stores give
//! equal bytes. It is one moment of the store, taken while others go on writing.
//!
//! Invariant: a restore happens whole or not at all, and only into a store without tables. Not here: sealing
//! the stream (the caller encrypts and signs), and files beside the store.

mod format;
#[cfg(test)]
pub(crate) mod tests;

use std::io::{Read, Write};

use access::{CreateBackup, Permit};

use self::format::{BadRecord, Record};
use crate::Store;
use crate::engine::{Engine, EngineError, Kind, MigrateError, Migration, Row, Table, Tx, Value, tables};
use crate::engine::{applied, apply, has_table, missing};

/// Rows fetched at once.
const PAGE: usize = 128;

/// Why a store could not be copied out.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The stream could not be written.
    #[error("the backup could not be written")]
    Io(#[from] std::io::Error),
    /// A table cannot be read in order.
    #[error("the table `{0}` has no primary key, or a row without one")]
    NoKey(String),
    /// A value is longer than a gibibyte.
    #[error("a row of `{0}` is too long for a backup")]
    TooLong(String),
    /// The store failed.
    #[error("the store could not be read")]
    Engine(#[from] EngineError),
    /// The history of the store could not be read.
    #[error("the store's history could not be read")]
    History(#[from] MigrateError),
}

/// Why a stream did not become a store. The store is as empty as before.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There are tables already.
    #[error("the store is not empty; restore into a new one")]
    NotEmpty,
    /// The stream is cut, altered, or not a backup.
    #[error("the backup is damaged: {0}")]
    Damaged(&'static str),
    /// The tables in the stream are not those its history makes.
    #[error("the backup's table `{0}` is not what its history makes")]
    OtherTable(String),
    /// The history in the stream is not ours.
    #[error("the backup was made by another version")]
    History(#[from] MigrateError),
    /// The store failed.
    #[error("the store could not be written")]
    Engine(#[from] EngineError),
}

impl Store {
    /// Writes one moment of the whole store to `out`. Others go on meanwhile. The permit comes back for what else
    /// belongs to the same copy.
    ///
    /// `out` is written between reads, on the calling task, in pieces of a page of rows.
    pub async fn dump(
        &self,
        permit: Permit<CreateBackup>,
        out: &mut (impl Write + Send),
    ) -> Result<Permit<CreateBackup>, DumpError> {
        self.engine.dump(out).await?;
        Ok(permit)
    }
}

impl Engine {
    /// Writes one moment of the whole store to `out` and says how many rows it has.
    pub(crate) async fn dump(&self, out: &mut (impl Write + Send)) -> Result<u64, DumpError> {
        let mut tx = self.snapshot().await?;
        let mut bytes = format::MAGIC.to_vec();
        for step in applied(&mut tx).await? {
            let record = Record::Migration { number: step.number, name: step.name, digest: step.digest };
            put(&record, "migrations", &mut bytes)?;
        }
        let mut rows = 0;
        for table in tables(&mut tx).await? {
            let columns = table.columns.iter().map(|column| column.name.clone()).collect();
            put(&Record::Table { name: table.name.clone(), columns }, &table.name, &mut bytes)?;
            rows += dump_rows(&mut tx, &table, out, &mut bytes).await?;
        }
        put(&Record::End { rows }, "", &mut bytes)?;
        out.write_all(&bytes)?;
        out.flush()?;
        tx.rollback().await?;
        Ok(rows)
    }

    /// Fills this store, which must have no tables, from a stream made by [`Store::dump`], and says how many rows
    /// there were. Its tables are those of the stream's own history, a beginning of `history`; what is pending
    /// afterwards is for [`Engine::migrate`].
    pub async fn restore(
        &self,
        input: &mut (impl Read + Send),
        history: &[Migration],
    ) -> Result<u64, RestoreError> {
        let written = self.refill(input, history).await?;
        let rows = written.rows();
        written.commit().await?;
        Ok(rows)
    }

    /// Like [`Self::restore`], up to the commit: nothing is there before [`Refilled::commit`].
    pub async fn refill(
        &self,
        input: &mut (impl Read + Send),
        history: &[Migration],
    ) -> Result<Refilled, RestoreError> {
        let mut tx = self.lock().await?;
        if !tables(&mut tx).await?.is_empty() {
            return Err(RestoreError::NotEmpty);
        }
        format::read_magic(input).map_err(damaged)?;
        let mut record = make_tables(&mut tx, input, history).await?;
        let made = tables(&mut tx).await?;
        let keys = Keys::loosen(&mut tx).await?;
        let mut rows = 0;
        for table in &made {
            tx.exec_text(&format!("DELETE FROM {}", table.name), &[]).await?; // what migrations put in
        }
        for table in &made {
            expect(table, &record)?;
            let insert = insert_into(table);
            record = loop {
                match format::read(input).map_err(damaged)? {
                    Record::Row(cells) => restore_row(&mut tx, table, &insert, &cells).await?,
                    other => break other,
                }
                rows += 1;
                if rows % 256 == 0 {
                    tokio::task::yield_now().await;
                }
            };
        }
        if record != (Record::End { rows }) || input.read(&mut [0]).map_or(true, |more| more > 0) {
            return Err(RestoreError::Damaged("its end is not where it should be"));
        }
        keys.tighten(&mut tx).await?;
        Ok(Refilled { engine: self.clone(), tx, rows })
    }
}

/// A stream that was read into a store and is not committed yet.
#[must_use = "without a commit nothing was restored"]
pub struct Refilled {
    engine: Engine,
    tx: Tx,
    rows: u64,
}

impl Refilled {
    /// How many rows there were.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Puts this ring, or none, in the place of the one that the stream held. False if the stream is older than rings in a
    /// database.
    pub async fn keep_ring(&mut self, kept: Option<&[u8]>) -> Result<bool, RestoreError> {
        if !has_table(&mut self.tx, "key_ring").await? {
            return Ok(false);
        }
        self.tx.exec("DELETE FROM key_ring", &[]).await?;
        if let Some(kept) = kept {
            let sql = "INSERT INTO key_ring (id, kept) VALUES (1, $1)";
            self.tx.exec(sql, &[kept.to_vec().into()]).await?;
        }
        Ok(true)
    }

    /// Makes them durable.
    pub async fn commit(self) -> Result<(), RestoreError> {
        self.tx.commit().await?;
        self.engine.forget_statements();
        Ok(())
    }
}

fn put(record: &Record, table: &str, bytes: &mut Vec<u8>) -> Result<(), DumpError> {
    format::write(record, bytes).map_err(|_| DumpError::TooLong(table.to_owned()))
}

fn damaged(bad: BadRecord) -> RestoreError {
    RestoreError::Damaged(match bad {
        BadRecord::Io(_) => "it ends too early or cannot be read",
        BadRecord::Malformed => "a record is malformed",
        BadRecord::TooLong => "a record is too long",
    })
}

/// Writes all rows of one table, a page at a time, each page going on after the key of the last row.
async fn dump_rows(
    tx: &mut Tx,
    table: &Table,
    out: &mut (impl Write + Send),
    bytes: &mut Vec<u8>,
) -> Result<u64, DumpError> {
    let pages = Pages::of(table, tx.kind()).ok_or_else(|| DumpError::NoKey(table.name.clone()))?;
    let (mut sql, mut args, mut count) = (pages.first.clone(), Vec::new(), 0);
    loop {
        let page = tx.rows_aside(sql, args).await?;
        for row in &page {
            // SQLite lets a key be NULL; rows after one would be passed over in silence.
            if pages.key_of(row).contains(&Value::Null) {
                return Err(DumpError::NoKey(table.name.clone()));
            }
            put(&Record::Row(row.values().to_vec()), &table.name, bytes)?;
        }
        out.write_all(bytes)?;
        bytes.clear();
        count += page.len() as u64;
        match page.last() {
            Some(last) if page.len() == PAGE => (sql, args) = (pages.next.clone(), pages.key_of(last)),
            Some(_) | None => return Ok(count),
        }
    }
}

/// The statements that read a table in the order of its key.
struct Pages {
    first: String,
    next: String,
    key: Vec<usize>,
}

impl Pages {
    fn of(table: &Table, kind: Kind) -> Option<Self> {
        let key = table.key();
        if key.is_empty() {
            return None;
        }
        let ordered = |name: &str, text: bool| match kind {
            // Bytes, not the language of the server, decide the order: both engines give the same.
            Kind::Postgres if text => format!("{name} COLLATE \"C\""),
            Kind::Postgres | Kind::Sqlite => name.to_owned(),
        };
        let order: Vec<_> = key.iter().map(|column| ordered(&column.name, column.kind == "text")).collect();
        let order = order.join(", ");
        let columns: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
        let select = format!("SELECT {} FROM {}", columns.join(", "), table.name);
        let after: Vec<_> = (1..=key.len()).map(|number| format!("${number}")).collect();
        let tail = format!("ORDER BY {order} LIMIT {PAGE}");
        let key = key.iter().filter_map(|part| columns.iter().position(|name| *name == part.name));
        Some(Self {
            first: format!("{select} {tail}"),
            next: format!("{select} WHERE ({order}) > ({}) {tail}", after.join(", ")),
            key: key.collect(),
        })
    }

    fn key_of(&self, row: &Row) -> Vec<Value> {
        self.key.iter().filter_map(|index| row.values().get(*index).cloned()).collect()
    }
}

/// Applies the migrations the stream begins with, and gives the record after them.
async fn make_tables(
    tx: &mut Tx,
    input: &mut impl Read,
    history: &[Migration],
) -> Result<Record, RestoreError> {
    let mut done = Vec::new();
    let next = loop {
        match format::read(input).map_err(damaged)? {
            Record::Migration { number, name, digest } => {
                done.push(crate::engine::Applied { number, name, digest });
            }
            other => break other,
        }
    };
    missing(&done, history)?; // refuses unknown, changed and skipped steps
    for step in history.iter().filter(|step| done.iter().any(|done| done.number == step.number)) {
        apply(tx, *step, 0).await?;
    }
    Ok(next)
}

fn expect(table: &Table, record: &Record) -> Result<(), RestoreError> {
    let same = |name: &String, columns: &Vec<String>| {
        *name == table.name && columns.iter().eq(table.columns.iter().map(|column| &column.name))
    };
    match record {
        Record::Table { name, columns } if same(name, columns) => Ok(()),
        Record::Table { name, .. } => Err(RestoreError::OtherTable(name.clone())),
        Record::Migration { .. } | Record::Row(_) | Record::End { .. } => {
            Err(RestoreError::OtherTable(table.name.clone()))
        }
    }
}

fn insert_into(table: &Table) -> String {
    let columns: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let places: Vec<_> = (1..=columns.len()).map(|number| format!("${number}")).collect();
    format!("INSERT INTO {} ({}) VALUES ({})", table.name, columns.join(", "), places.join(", "))
}

async fn restore_row(tx: &mut Tx, table: &Table, insert: &str, cells: &[Value]) -> Result<(), RestoreError> {
    let fits = |(cell, kind): (&Value, &str)| match cell {
        Value::Null => true,
        Value::Int(_) => kind == "bigint",
        Value::Text(_) => kind == "text",
        Value::Blob(_) => kind == "bytea",
    };
    let kinds = table.columns.iter().map(|column| column.kind.as_str());
    if cells.len() != table.columns.len() || !cells.iter().zip(kinds).all(fits) {
        return Err(RestoreError::OtherTable(table.name.clone()));
    }
    tx.exec_text(insert, cells).await?;
    Ok(())
}

/// Foreign keys, checked at the end instead of row by row: rows come by table name, not by dependency.
struct Keys(Vec<(String, String)>);

impl Keys {
    async fn loosen(tx: &mut Tx) -> Result<Self, EngineError> {
        match tx.kind() {
            Kind::Sqlite => {
                tx.batch("PRAGMA defer_foreign_keys = ON").await?; // until the end of the transaction
                Ok(Self(Vec::new()))
            }
            Kind::Postgres => {
                let sql =
                    "SELECT CAST(t.relname AS TEXT), quote_ident(k.conname) FROM pg_catalog.pg_constraint k
                           JOIN pg_catalog.pg_class t ON t.oid = k.conrelid
                           WHERE k.contype = 'f' AND NOT k.condeferrable
                             AND k.connamespace = CAST(current_schema() AS regnamespace)";
                let mut keys = Vec::new();
                for row in tx.rows(sql, &[]).await? {
                    keys.push((row.text(0)?.to_owned(), row.text(1)?.to_owned()));
                }
                let keys = Self(keys);
                keys.alter(tx, "DEFERRABLE INITIALLY DEFERRED").await?;
                Ok(keys)
            }
        }
    }

    async fn tighten(&self, tx: &mut Tx) -> Result<(), EngineError> {
        match tx.kind() {
            Kind::Sqlite => Ok(()), // checked by the commit
            Kind::Postgres => {
                tx.batch("SET CONSTRAINTS ALL IMMEDIATE").await?;
                self.alter(tx, "NOT DEFERRABLE").await
            }
        }
    }

    async fn alter(&self, tx: &mut Tx, how: &str) -> Result<(), EngineError> {
        for (table, key) in &self.0 {
            tx.batch(&format!("ALTER TABLE {table} ALTER CONSTRAINT {key} {how}")).await?;
        }
        Ok(())
    }
}
