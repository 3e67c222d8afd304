//! Runs one statement on one connection: binds `$1`…, reads rows, and translates failures.
//!
//! `$2` is a *name* to SQLite, numbered by first appearance; so arguments are bound by the digits of the name,
//! which gives PostgreSQL's meaning.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, Error, ErrorCode, ToSql, ffi};

use crate::engine::error::{EngineError, Fault};
use crate::engine::value::{Row, RowError, Value};

/// Runs `sql` and gives all its rows.
pub(super) fn query(conn: &Connection, sql: &str, args: &[Value]) -> Result<Vec<Row>, EngineError> {
    let mut statement = prepare(conn, sql, args)?;
    fetch(&mut statement)
}

/// Like [`query`], for connections that only read: a statement that writes is a mistake in our code.
pub(super) fn query_only(conn: &Connection, sql: &str, args: &[Value]) -> Result<Vec<Row>, EngineError> {
    let mut statement = prepare(conn, sql, args)?;
    if !statement.readonly() {
        return Err(EngineError::misuse("a statement that writes needs a transaction"));
    }
    fetch(&mut statement)
}

/// Runs `sql` and says how many rows it changed.
pub(super) fn execute(conn: &Connection, sql: &str, args: &[Value]) -> Result<u64, EngineError> {
    let mut statement = prepare(conn, sql, args)?;
    statement.raw_execute().map(|count| count as u64).map_err(running)
}

fn prepare<'c>(conn: &'c Connection, sql: &str, args: &[Value]) -> Result<CachedStatement<'c>, EngineError> {
    // No value is bound yet, so SQLite's message cannot quote one.
    let mut statement = conn.prepare_cached(sql).map_err(fault)?;
    let mut highest = 0;
    for position in 1..=statement.parameter_count() {
        let number = statement.parameter_name(position).and_then(|name| name.strip_prefix('$')?.parse().ok());
        let number: usize = number.ok_or(EngineError::misuse("parameters are written $1, $2, ..."))?;
        let value = number.checked_sub(1).and_then(|index| args.get(index));
        let value = value.ok_or(EngineError::misuse("the statement has more parameters than arguments"))?;
        highest = highest.max(number);
        fits(number, value)?;
        statement.raw_bind_parameter(position, Bound(value)).map_err(running)?;
    }
    if highest != args.len() {
        return Err(EngineError::misuse("the statement has fewer parameters than arguments"));
    }
    Ok(statement)
}

/// Refuses here what PostgreSQL would refuse, so that both engines hold the same.
fn fits(index: usize, value: &Value) -> Result<(), EngineError> {
    match value {
        Value::Text(text) if text.contains('\0') => {
            Err(EngineError::Unfit { index, why: "text with a NUL character" })
        }
        Value::Null | Value::Int(_) | Value::Text(_) | Value::Blob(_) => Ok(()),
    }
}

struct Bound<'a>(&'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Int(value) => ValueRef::Integer(*value),
            Value::Text(value) => ValueRef::Text(value.as_bytes()),
            Value::Blob(value) => ValueRef::Blob(value),
        }))
    }
}

fn fetch(statement: &mut CachedStatement<'_>) -> Result<Vec<Row>, EngineError> {
    let mut cursor = statement.raw_query();
    let mut rows = Vec::new();
    while let Some(row) = cursor.next().map_err(running)? {
        // Counted here: a statement from before a migration gets its new columns with the first row.
        let cells = (0..row.as_ref().column_count())
            .map(|column| cell(column, row.get_ref(column).map_err(running)?));
        rows.push(Row::new(cells.collect::<Result<_, EngineError>>()?));
    }
    Ok(rows)
}

fn cell(column: usize, value: ValueRef<'_>) -> Result<Value, EngineError> {
    let odd = |found| RowError::Type { column, expected: "int, text or blob", found };
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Int(value),
        ValueRef::Real(_) => return Err(odd("real").into()),
        ValueRef::Text(bytes) => {
            Value::Text(str::from_utf8(bytes).map_err(|_| odd("text that is not UTF-8"))?.to_owned())
        }
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    })
}

/// Translates a failure that happened with values bound: only the code, and names of columns, are kept.
pub(super) fn running(error: Error) -> EngineError {
    const NAMES_ONLY: [&str; 2] = ["NOT NULL constraint failed: ", "CHECK constraint failed: "];
    translate(error, |code, message| match message {
        Some(text) if NAMES_ONLY.iter().any(|start| text.starts_with(start)) => text,
        Some(_) | None => code.to_string(),
    })
}

/// Translates a failure in which no value can be quoted.
pub(crate) fn fault(error: Error) -> EngineError {
    translate(error, |code, message| message.unwrap_or_else(|| code.to_string()))
}

fn translate(error: Error, describe: impl FnOnce(ffi::Error, Option<String>) -> String) -> EngineError {
    let (code, message) = match error {
        Error::SqliteFailure(code, message) => (code, message),
        Error::SqlInputError { error, msg, .. } => (error, Some(msg)),
        Error::ExecuteReturnedResults => {
            return EngineError::misuse("the statement returns rows; ask for them");
        }
        Error::MultipleStatement => return EngineError::misuse("one statement at a time"),
        _ => return EngineError::misuse("the client library refused the call"),
    };
    match (code.code, code.extended_code) {
        (
            _,
            ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID,
        ) => {
            let what = message.as_deref().and_then(|text| text.split_once(": ")).map(|(_, names)| names);
            EngineError::Unique { what: what.unwrap_or_default().to_owned() }
        }
        (_, ffi::SQLITE_CONSTRAINT_FOREIGNKEY) => EngineError::Reference,
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => EngineError::Busy,
        (ErrorCode::DiskFull | ErrorCode::ReadOnly, _) => EngineError::Full,
        // A quota, a file size limit or no room for the log's index are reported as these.
        (_, ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE) => EngineError::Full,
        _ => EngineError::Other(Fault {
            code: format!("sqlite {}", code.extended_code),
            text: describe(code, message),
        }),
    }
}
