//! What tables a store has, asked of the store itself; needed to tell a fresh store and to copy a whole one.
//!
//! Invariant: every name given out is lower-case letters, digits and `_`, so it may be put into SQL.

use super::error::EngineError;
use super::value::{Row, Value};
use super::{Kind, Tx};

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
}

/// One column, in the order of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// `bigint`, `text` or `bytea`.
    pub(crate) kind: String,
    /// Position in the primary key, from 1; 0 if not part of it.
    pub(crate) key: i64,
}

impl Table {
    /// The columns of the primary key, in its order.
    pub(crate) fn key(&self) -> Vec<&Column> {
        let mut key: Vec<_> = self.columns.iter().filter(|column| column.key > 0).collect();
        key.sort_by_key(|column| column.key);
        key
    }
}

const SQLITE_COLUMNS: &str = "
    SELECT t.name, c.name, lower(c.type), c.pk FROM pragma_table_list AS t, pragma_table_info(t.name) AS c
    WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT GLOB 'sqlite_*' ORDER BY t.name, c.cid";

const POSTGRES_COLUMNS: &str = "
    SELECT CAST(t.relname AS TEXT), CAST(c.attname AS TEXT), format_type(c.atttypid, c.atttypmod),
           CAST(coalesce(array_position(CAST(k.conkey AS SMALLINT[]), c.attnum), 0) AS BIGINT)
    FROM pg_catalog.pg_class t
    JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace AND n.nspname = current_schema()
    JOIN pg_catalog.pg_attribute c ON c.attrelid = t.oid AND c.attnum > 0 AND NOT c.attisdropped
    LEFT JOIN pg_catalog.pg_constraint k ON k.conrelid = t.oid AND k.contype = 'p'
    WHERE t.relkind IN ('r', 'p') ORDER BY CAST(t.relname AS TEXT) COLLATE \"C\", c.attnum";

/// Every table of the store, ordered by name.
pub(crate) async fn tables(tx: &mut Tx) -> Result<Vec<Table>, EngineError> {
    let sql = match tx.kind() {
        Kind::Sqlite => SQLITE_COLUMNS,
        Kind::Postgres => POSTGRES_COLUMNS,
    };
    let mut tables: Vec<Table> = Vec::new();
    for row in tx.rows(sql, &[]).await? {
        let name = plain_name(row.text(0)?)?;
        let column = column(&row)?;
        match tables.last_mut() {
            Some(table) if table.name == name => table.columns.push(column),
            Some(_) | None => tables.push(Table { name, columns: vec![column] }),
        }
    }
    Ok(tables)
}

fn column(row: &Row) -> Result<Column, EngineError> {
    let kind = row.text(2)?;
    if !["bigint", "text", "bytea"].contains(&kind) {
        return Err(EngineError::misuse("a column is neither BIGINT, TEXT nor BYTEA"));
    }
    Ok(Column { name: plain_name(row.text(1)?)?, kind: kind.to_owned(), key: row.int(3)? })
}

fn plain_name(name: &str) -> Result<String, EngineError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if !name.is_empty() && name.bytes().all(plain) {
        return Ok(name.to_owned());
    }
    Err(EngineError::misuse("a table or column has a name with other characters than a-z, 0-9 and _"))
}

/// Whether the store has a table of this name.
pub(crate) async fn has_table(tx: &mut Tx, name: &'static str) -> Result<bool, EngineError> {
    let sql = match tx.kind() {
        Kind::Sqlite => "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1",
        Kind::Postgres => {
            "SELECT 1 FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
             WHERE n.nspname = current_schema() AND t.relkind IN ('r', 'p') AND t.relname = CAST($1 AS TEXT)"
        }
    };
    Ok(tx.row(sql, &[Value::from(name)]).await?.is_some())
}
