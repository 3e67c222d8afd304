//! The use cases: each file turns a caller and a request into an act, and the act into an answer.
//!
//! Every use case reads the same: make the act, let [`Runtime::perform`] take it through the gate, carry it
//! out with the permit, close the record. Invariant: nothing here reaches the store's effects without a
//! permit, because they take one by value.
//!
//! Not here: HTTP and status codes (`server`), what is allowed (`access`), rows (`store`).

mod backup;
mod boot;
mod bundle;
mod event;
mod guarded;
mod hold;
mod index;
mod keeper;
mod key;
mod leaving;
mod ledger;
mod lending;
mod pass;
mod perform;
mod policy;
mod record;
mod registry;
mod repo;
mod retention;
mod rotation;
mod secret;
mod session;
mod standing;
mod status;
mod trees;
mod user;
mod worktree;

pub use backup::{BackupError, RestoreError, Unfinished, restore, unfinished};
pub use boot::{Boot, BootError, Mode, Runtime, Source, UpgradeError, open_engine, upgrade};
pub use event::{EventError, Follower};
pub use hold::HoldLost;
pub use keeper::{FindRingError, begun, kept_ring, ring_file};
pub use leaving::{WorktreeMerged, WorktreePushed};
pub use ledger::{LedgerError, LedgerQuery};
pub use perform::ActError;
pub use policy::{PolicyAnswer, PolicyFault, Question};
pub use registry::{
    ArtifactView, Fault, Faults, InlineSecret, MOST_CAPABILITY, MOST_CAPABILITY_FILES, NewArtifact,
    NewContent, NewFile, Outcome, RegisterError, masked_document, path_fault,
};
pub use repo::NewRepo;
pub use retention::RetentionError;
pub use rotation::{NextMaster, Rotation, next_file};
pub use secret::{Lent, Masking, NewSecret, SecretView, Whose, Wish};
pub use session::{
    AgentView, ImportLine, ImportPage, MOST_PROMPT, NewChild, NewSession, Notice, SessionBounds,
    SessionFollower, UnknownWord, UsualBudgets, announce,
};
pub use standing::{Loss, OnLoss, StandingError};
pub use status::{Check, MetricsReader, Status, Vitals};
pub use trees::{BadOrigin, Origin, is_login, may_be_named};
pub use user::{AccountError, PasswordSource, Proof};

/// What is shown of a repository.
pub use git::{Commit, Cut, Joined, Merged, is_branch};

/// What callers outside name by these words, so that they need not know `store`.
pub use store::engine::{EngineError, encrypt_plain};
pub use store::{
    Answers, ApiKey, Approval, Artifact, ArtifactChange, BudgetStanding, Consent, IndexedEntry, KeptRing,
    Lineage, MIGRATIONS, NamedArtifact, PassRow, Remembered, Repo, SecretRow, Session, SessionFilter,
    Standing, Stopping, Store, StoreError, Tallies, Task, TaskTree, Tree, Usage, User, Worktree,
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

/// How many rows are read at a time when policies hide what the store would show.
const REFILL: i64 = 500;

impl<T, C: Copy> Page<T, C> {
    /// A page of what the caller may know of, from as many rows as it takes. To the end if need be: a cursor
    /// must name something that the caller may know of.
    async fn filled<R: Future<Output = Result<Vec<T>, ActError>> + Send>(
        limit: i64,
        mut after: Option<C>,
        cursor: impl Fn(&T) -> C,
        more: impl Fn(Option<C>, i64) -> R,
        shows: impl Fn(&T, u64) -> bool,
        epoch: &access::Epoch,
    ) -> Result<Self, ActError> {
        let wanted = usize::try_from(limit).unwrap_or(0).saturating_add(1);
        let mut take = limit.saturating_add(1);
        let mut shown = Vec::new();
        loop {
            let as_of = epoch.now();
            let rows = more(after, take).await?;
            let last_page = rows.len() < usize::try_from(take).unwrap_or(0);
            after = rows.last().map(&cursor).or(after);
            shown.extend(rows.into_iter().filter(|row| shows(row, as_of)));
            if last_page || shown.len() >= wanted {
                return Ok(Self::cut(shown, limit, cursor));
            }
            take = take.max(REFILL);
        }
    }
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
