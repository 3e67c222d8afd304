//! The use cases: each file turns a caller and a request into an act, and the act into an answer.
//!
//! Every use case reads the same: make the act, let [`Runtime::perform`] take it through the gate, carry it
//! out with the permit, close the record. Invariant: nothing here reaches the store's effects without a
//! permit, because they take one by value.
//!
//! Not here: HTTP and status codes (`server`), what is allowed (`access`), rows (`store`).

mod backup;
mod boot;
mod event;
mod index;
mod key;
mod ledger;
mod pass;
mod perform;
mod policy;
mod repo;
mod status;
mod user;
mod worktree;

pub use backup::{BackupError, RestoreError, restore};
pub use boot::{Boot, BootError, Mode, Runtime, Source, open_engine};
pub use event::{EventError, Follower};
pub use ledger::{LedgerError, LedgerQuery};
pub use perform::ActError;
pub use policy::{PolicyAnswer, PolicyFault, Question};
pub use status::{Check, Status};
pub use user::{AccountError, PasswordSource, Proof};

/// What callers outside name by these words, so that they need not know `store`.
pub use store::engine::{EngineError, encrypt_plain};
pub use store::{
    ApiKey, IndexedEntry, MIGRATIONS, PassRow, Remembered, Repo, Store, StoreError, User, Worktree,
    WorktreeFilter,
};

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page<T, C> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next one begins, if there is one.
    pub next: Option<C>,
}

impl<T, C> Page<T, C> {
    /// A page of at most `limit` from one row more than that; `cursor` names the last item shown.
    fn cut(mut items: Vec<T>, limit: i64, cursor: impl Fn(&T) -> C) -> Self {
        let limit = usize::try_from(limit).unwrap_or(0);
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(cursor);
        Self { items, next }
    }
}
