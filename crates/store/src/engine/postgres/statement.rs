//! Runs one statement on one connection: types the arguments, reads rows, and translates failures.
//!
//! An argument's type is its value's (`BIGINT`, `TEXT`, `BYTEA`); the type of a `NULL` is what the server infers.

use deadpool_postgres::ClientWrapper;
use deadpool_postgres::tokio_postgres::types::{ToSql, Type};
use deadpool_postgres::tokio_postgres::{Error, Row as PgRow, Statement};
use std::error::Error as _;

use crate::engine::error::{EngineError, Fault};
use crate::engine::value::{Row, RowError, Value};

/// Runs `sql` and gives all its rows.
pub(super) async fn query(
    client: &ClientWrapper,
    sql: &str,
    args: &[Value],
) -> Result<Vec<Row>, EngineError> {
    let statement = prepare(client, sql, args).await?;
    let rows = client.query(&statement, &bound(&statement, args)?).await.map_err(running)?;
    rows.iter().map(row).collect()
}

/// Runs `sql` and says how many rows it changed.
pub(super) async fn execute(client: &ClientWrapper, sql: &str, args: &[Value]) -> Result<u64, EngineError> {
    let statement = prepare(client, sql, args).await?;
    client.execute(&statement, &bound(&statement, args)?).await.map_err(running)
}

async fn prepare(client: &ClientWrapper, sql: &str, args: &[Value]) -> Result<Statement, EngineError> {
    let types = args.iter().enumerate().map(|(index, value)| match value {
        Value::Null => Ok(Type::UNKNOWN),
        Value::Int(_) => Ok(Type::INT8),
        Value::Text(text) if text.contains('\0') => {
            Err(EngineError::Unfit { index: index + 1, why: "text with a NUL character" })
        }
        Value::Text(_) => Ok(Type::TEXT),
        Value::Blob(_) => Ok(Type::BYTEA),
    });
    let types = types.collect::<Result<Vec<_>, _>>()?;
    // The server has not seen a value yet, so its message cannot quote one.
    let statement = client.prepare_typed_cached(sql, &types).await.map_err(fault)?;
    if statement.params().len() != args.len() || highest(sql) != args.len() {
        return Err(EngineError::misuse("the statement has other parameters than arguments"));
    }
    Ok(statement)
}

/// The highest `$n` in `sql`: the server takes arguments that no placeholder uses, SQLite and we do not.
fn highest(sql: &str) -> usize {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let numbers = sql.split('$').skip(1).filter_map(|text| text.get(..digits(text))?.parse().ok());
    numbers.max().unwrap_or(0)
}

fn bound<'a>(statement: &Statement, args: &'a [Value]) -> Result<Vec<&'a (dyn ToSql + Sync)>, EngineError> {
    let pairs = args.iter().zip(statement.params()).enumerate();
    let bound = pairs.map(|(index, (value, wanted))| {
        Ok(match value {
            Value::Null => {
                null(wanted).ok_or(EngineError::Unfit { index: index + 1, why: "a column type" })?
            }
            Value::Int(value) => value as &(dyn ToSql + Sync),
            Value::Text(value) => value,
            Value::Blob(value) => value,
        })
    });
    bound.collect()
}

fn null(wanted: &Type) -> Option<&'static (dyn ToSql + Sync)> {
    match *wanted {
        Type::INT8 => Some(&None::<i64>),
        Type::INT4 => Some(&None::<i32>),
        Type::TEXT | Type::VARCHAR => Some(&None::<&str>),
        Type::BYTEA => Some(&None::<&[u8]>),
        _ => None,
    }
}

fn row(row: &PgRow) -> Result<Row, EngineError> {
    let cells = row.columns().iter().enumerate().map(|(index, column)| match *column.type_() {
        Type::INT8 => row.try_get::<_, Option<i64>>(index).map(Value::from).map_err(running),
        Type::INT4 => {
            row.try_get::<_, Option<i32>>(index).map(|cell| cell.map(i64::from).into()).map_err(running)
        }
        Type::BOOL => row.try_get::<_, Option<bool>>(index).map(Value::from).map_err(running),
        Type::TEXT | Type::VARCHAR | Type::NAME => {
            row.try_get::<_, Option<String>>(index).map(Value::from).map_err(running)
        }
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(index).map(Value::from).map_err(running),
        _ => {
            let (expected, found) = ("int, text or blob", "another type; cast it");
            Err(RowError::Type { column: index, expected, found }.into())
        }
    });
    cells.collect::<Result<_, _>>().map(Row::new)
}

/// Translates a failure that happened with values bound: only codes and names are kept.
pub(super) fn running(error: Error) -> EngineError {
    translate(error, false)
}

/// Translates a failure in which no value can be quoted.
pub(super) fn fault(error: Error) -> EngineError {
    translate(error, true)
}

fn translate(error: Error, quotable: bool) -> EngineError {
    let fault = describe(&error, quotable);
    let Some(said) = error.as_db_error() else {
        let io = error.source().is_some_and(|cause| cause.is::<std::io::Error>());
        return if io || error.is_closed() {
            EngineError::Gone(Some(fault))
        } else {
            EngineError::Other(fault)
        };
    };
    match said.code().code() {
        "23505" => {
            let columns = said.detail().and_then(key_columns).unwrap_or_default();
            let what = match said.table() {
                Some(table) if !columns.is_empty() => columns
                    .split(", ")
                    .map(|column| format!("{table}.{column}"))
                    .collect::<Vec<_>>()
                    .join(", "),
                Some(_) | None => said.constraint().unwrap_or_default().to_owned(),
            };
            EngineError::Unique { what }
        }
        "23503" => EngineError::Reference,
        // serialization failure, deadlock, lock timeout, statement timeout, too many connections
        "40001" | "40P01" | "55P03" | "57014" | "53300" => EngineError::Busy,
        // disk full, read-only transaction (a standby, or a server its owner made read-only)
        "53100" | "25006" => EngineError::Full,
        // shutdown, crash, not yet up, idle too long inside a transaction
        "57P01" | "57P02" | "57P03" | "25P03" => EngineError::Gone(Some(fault)),
        code if code.starts_with("08") => EngineError::Gone(Some(fault)),
        _ => EngineError::Other(fault),
    }
}

/// `Key (a, b)=(1, 2) already exists.` -> `a, b`: the part with values is cut off.
fn key_columns(detail: &str) -> Option<&str> {
    let (columns, _) = detail.split_once(")=(")?;
    columns.split_once('(').map(|(_, columns)| columns)
}

/// What may be told of an error: the message only if no value was bound; else the code and names.
pub(super) fn describe(error: &Error, quotable: bool) -> Fault {
    let Some(said) = error.as_db_error() else {
        let cause = error.source().filter(|_| quotable).map(|cause| format!(": {cause}"));
        return Fault { code: "client".into(), text: format!("{error}{}", cause.unwrap_or_default()) };
    };
    let names = [said.table(), said.column(), said.constraint()];
    let text = match quotable {
        true => said.message().to_owned(),
        false => names.into_iter().flatten().collect::<Vec<_>>().join(" "),
    };
    Fault { code: said.code().code().to_owned(), text }
}
