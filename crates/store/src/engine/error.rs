//! What can go wrong with an open store, and what the caller can do about it.
//!
//! Invariant: no message and no source here contains a parameter value. Server and library texts that may
//! quote one (PostgreSQL's `DETAIL`, messages made while a statement runs) are dropped; codes and names of
//! tables, columns and constraints stay. Not here: why a store did not open ([`super::OpenError`]).

use super::value::RowError;

/// Why a statement or transaction failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A row with this key exists already.
    #[error("`{what}` exists already")]
    Unique {
        /// `table.column, table.column` of the violated key, the same text on both engines where the key is
        /// made of plain columns; the constraint's name or empty where the engine does not tell.
        what: String,
    },
    /// A row points at one that does not exist, or is still pointed at.
    #[error("a referenced row is missing or still in use")]
    Reference,
    /// Somebody else held the store too long, or a deadline passed; nothing was written, try again.
    #[error("the store is busy; try again")]
    Busy,
    /// The disk is full or read-only. Reads go on; writes work again as soon as there is space.
    #[error("the store takes no writes: its disk is full or read-only; free some space and go on")]
    Full,
    /// The connection was lost or the store closed; nothing was written.
    #[error("the connection to the store is gone")]
    Gone(#[source] Option<Fault>),
    /// The connection was lost while a change was being made durable: it may or may not have happened.
    #[error(
        "the connection to the store was lost while the change was being written; it may have happened: look at \
         what there is before trying again"
    )]
    Unknown(#[source] Option<Fault>),
    /// An earlier statement of this transaction failed, so the transaction can only be dropped.
    #[error("the transaction already failed; start a new one")]
    Failed,
    /// An argument that not every engine can store.
    #[error("argument {index} does not fit: {why}")]
    Unfit {
        /// Which argument, counted from 1 as in `$1`.
        index: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The row is not what the code expected.
    #[error("unexpected shape of a row")]
    Row(#[from] RowError),
    /// Anything else: a mistake in a statement, a damaged file, a server fault.
    #[error("the store failed")]
    Other(#[source] Fault),
}

impl EngineError {
    pub(crate) fn misuse(text: &'static str) -> Self {
        Self::Other(Fault { code: "misuse".into(), text: text.into() })
    }
}

/// What an engine said, without the values it may have said it about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {text}")]
pub struct Fault {
    pub(crate) code: String,
    pub(crate) text: String,
}

impl Fault {
    /// The engine's own code: an SQLSTATE, or SQLite's extended code as `sqlite 2067`.
    pub fn code(&self) -> &str {
        &self.code
    }
}
