//! Where Palisade keeps what it must not forget: one store, two engines.
//!
//! Flow: a permit (from `access`) -> an effect of [`Store`] -> rows, on SQLite (encrypted) or PostgreSQL.
//! [`engine`] turns SQL text and values into rows; [`backup`] turns a whole store into a stream and back.
//!
//! Invariant: everything that changes the store for a person takes that act's `Permit` by value; what
//! authentication itself keeps takes a `Warrant` that only `access` can make. A [`Store`] does not give its engine
//! away; `tests/misuse.rs` lists what takes no permit, with the reason of each.

mod answers;
mod approvals;
mod artifacts;
pub mod backup;
mod budgets;
mod consents;
mod credentials;
mod endings;
pub mod engine;
mod imports;
mod key_ring;
mod keys;
mod lineage;
mod queue;
mod records;
mod repos;
mod secrets;
mod sessions;
mod standing;
mod steps;
mod store;
mod task_trees;
mod tasks;
mod upkeep;
mod users;
mod watched;
mod worktrees;

pub use answers::{Answers, Remembered};
pub use approvals::{Approval, NewApproval};
pub use artifacts::{
    Artifact, ArtifactChange, Damaged, KeptSecrets, NamedArtifact, Registered, SealedArtifact,
};
pub use budgets::{BudgetStanding, Spender, Usage};
pub use consents::Consent;
pub use endings::{Ending, EndingOf, Interrupted};
pub use imports::{ImportedPage, ImportedStep, ImportedTask};
pub use key_ring::KeptRing;
pub use keys::{ApiKey, PassRow};
pub use lineage::{Child, Lineage, Notice, Reach};
pub use records::{IndexedEntry, LedgerFilter};
pub use repos::Repo;
pub use secrets::{Carried, Reseal, SealedSecret, SecretRow};
pub use sessions::{Origin, Session, SessionFilter};
pub use standing::RememberedLine;
pub use store::{MIGRATIONS, StartError, Store, StoreError};
pub use task_trees::{Moment, Standing, TaskTree};
pub use tasks::{AtWork, Stopping, Task, TaskEnd, Waiting};
pub use users::User;
pub use watched::Tallies;
pub use worktrees::{Tree, Worktree, WorktreeFilter};
