//! Values that go into a statement and rows that come out, the same for both engines.
//!
//! Invariant: neither `Debug` nor an error here shows a value; they show what kind it is. Columns are read by
//! index with the type the caller expects, and a wrong guess is an error, never a conversion.

use std::fmt;

/// One argument of a statement, or one cell of a row.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// SQL `NULL`.
    Null,
    /// A `BIGINT`; also booleans (0 and 1) and times (milliseconds since 1970, UTC).
    Int(i64),
    /// A `TEXT`; may not contain the NUL character, which PostgreSQL cannot store.
    Text(String),
    /// A `BYTEA`.
    Blob(Vec<u8>),
}

impl Value {
    /// The word used for this kind of value in errors and `Debug`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Int(_) => "int",
            Self::Text(_) => "text",
            Self::Blob(_) => "blob",
        }
    }
}

/// Shows the kind only: values are often secrets, and `Debug` ends up in logs.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Int(i64::from(value))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Self {
        Self::Blob(value.to_vec())
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Self::Blob(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// One row of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(Vec<Value>);

impl Row {
    pub(crate) fn new(cells: Vec<Value>) -> Self {
        Self(cells)
    }

    /// How many columns the row has.
    pub fn width(&self) -> usize {
        self.0.len()
    }

    /// The cells in order.
    pub fn values(&self) -> &[Value] {
        &self.0
    }

    /// The integer in column `index`.
    pub fn int(&self, index: usize) -> Result<i64, RowError> {
        self.opt_int(index)?.ok_or(RowError::null(index, "int"))
    }

    /// The text in column `index`.
    pub fn text(&self, index: usize) -> Result<&str, RowError> {
        self.opt_text(index)?.ok_or(RowError::null(index, "text"))
    }

    /// The bytes in column `index`.
    pub fn blob(&self, index: usize) -> Result<&[u8], RowError> {
        self.opt_blob(index)?.ok_or(RowError::null(index, "blob"))
    }

    /// The truth value in column `index`: 0 or 1, anything else is an error.
    pub fn flag(&self, index: usize) -> Result<bool, RowError> {
        match self.int(index)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(RowError::Type { column: index, expected: "0 or 1", found: "int" }),
        }
    }

    /// The integer in column `index`, or `None` for `NULL`.
    pub fn opt_int(&self, index: usize) -> Result<Option<i64>, RowError> {
        match self.cell(index)? {
            Value::Null => Ok(None),
            Value::Int(value) => Ok(Some(*value)),
            other @ (Value::Text(_) | Value::Blob(_)) => Err(RowError::found(index, "int", other)),
        }
    }

    /// The text in column `index`, or `None` for `NULL`.
    pub fn opt_text(&self, index: usize) -> Result<Option<&str>, RowError> {
        match self.cell(index)? {
            Value::Null => Ok(None),
            Value::Text(value) => Ok(Some(value)),
            other @ (Value::Int(_) | Value::Blob(_)) => Err(RowError::found(index, "text", other)),
        }
    }

    /// The bytes in column `index`, or `None` for `NULL`.
    pub fn opt_blob(&self, index: usize) -> Result<Option<&[u8]>, RowError> {
        match self.cell(index)? {
            Value::Null => Ok(None),
            Value::Blob(value) => Ok(Some(value)),
            other @ (Value::Int(_) | Value::Text(_)) => Err(RowError::found(index, "blob", other)),
        }
    }

    fn cell(&self, index: usize) -> Result<&Value, RowError> {
        self.0.get(index).ok_or(RowError::Missing { column: index, width: self.0.len() })
    }
}

/// Why a cell could not be read as asked; names the column, never the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The statement returned fewer columns.
    #[error("column {column} was asked of a row with {width} columns")]
    Missing {
        /// The index asked for.
        column: usize,
        /// How many columns there are.
        width: usize,
    },
    /// The column holds something else.
    #[error("column {column} holds {found} where {expected} was expected")]
    Type {
        /// The index asked for.
        column: usize,
        /// What the caller wanted.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
}

impl RowError {
    fn null(column: usize, expected: &'static str) -> Self {
        Self::Type { column, expected, found: "null" }
    }

    fn found(column: usize, expected: &'static str, value: &Value) -> Self {
        Self::Type { column, expected, found: value.kind() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_read_only_as_what_it_is() {
        let row = Row::new(vec![7.into(), "x".into(), Value::Blob(vec![1]), Value::Null]);
        assert_eq!((row.int(0), row.text(1), row.blob(2)), (Ok(7), Ok("x"), Ok(&[1u8][..])));
        assert_eq!((row.opt_int(3), row.opt_text(3), row.opt_blob(3)), (Ok(None), Ok(None), Ok(None)));
        assert_eq!(row.int(3), Err(RowError::Type { column: 3, expected: "int", found: "null" }));
        assert_eq!(row.text(0), Err(RowError::Type { column: 0, expected: "text", found: "int" }));
        assert_eq!(row.blob(1), Err(RowError::Type { column: 1, expected: "blob", found: "text" }));
        assert_eq!(row.int(4), Err(RowError::Missing { column: 4, width: 4 }));
        assert!(row.flag(0).is_err());
    }

    #[test]
    fn debug_shows_no_value() {
        let row = Row::new(vec![424_242.into(), "hunter2".into(), Value::Blob(b"hunter2".to_vec())]);
        assert_eq!(format!("{row:?}"), "Row([int, text, blob])");
    }
}
