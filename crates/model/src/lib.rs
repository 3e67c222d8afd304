//! The vocabulary of Palisade: ids, roles, tiers, grants, actions, events, time.
//!
//! Nouns only. Invariant: nothing here opens a file, a socket or a database, and every type that
//! comes from outside is parsed once, by `FromStr` or a constructor that can refuse.
//!
//! Not here: who may do what (`access`), wire shapes (`api`), rows (`store`).

mod artifact;
mod budget;
mod clock;
mod event;
mod grant;
mod host;
mod ids;
mod names;
mod path;
mod role;
mod secret;
mod session;
mod worktree;

pub use artifact::{ArtifactKind, BadHash, BadKind, ContentHash, Reference};
pub use budget::{Allowance, BudgetKind, BudgetScope, Spending};
pub use clock::{Clock, FixedClock, Millis, SystemClock};
pub use event::{Event, EventKind};
pub use grant::{Access, Budget, Grant, Pattern, Patterns, Rights};
pub use host::{BadHost, HostPattern};
pub use ids::{
    ApprovalId, BadId, ConsentId, EventSeq, KeyId, PassId, RepoId, RequestId, SecretId, SessionId, TaskId,
    UserId, WorktreeId,
};
pub use names::{AgentName, ArtifactName, BadName, DisplayName, Email, RepoName, SecretName, WorktreeName};
pub use path::{BadPath, GrantPath};
pub use role::{BadWord, Role, Tier};
pub use secret::{BadOwner, SecretOwner, SecretSource};
pub use session::{ApprovalState, Born, ConsentScope, HoldCause, ON_PATHS, Step, StepKind, TaskState};
pub use worktree::{BadLink, Link, Links, TreeFiles};
