//! The one table of actions: what each is called, what it needs, and what it does to the world.
//!
//! Everything else is derived from [`ACTIONS`]: the Cedar schema is tested against it, routes name their
//! action by it, and the ledger's `action` column holds its names and nothing else.

use model::{KeyId, PassId, RepoId, SessionId, UserId, WorktreeId};

/// What an act does to the world, which decides how it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Reads. Allowed reads leave no entry.
    Read,
    /// Widens or uses authority: no record, no effect.
    Widens,
    /// Only narrows: happens even when it cannot be recorded in the ordinary way.
    Narrows,
}

/// What an API key must carry at least; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `runs:read`
    Read,
    /// `runs:write`
    Write,
    /// `runs:manage`
    Manage,
    /// `admin`
    Admin,
}

impl Scope {
    /// Every scope, narrowest first.
    pub const EVERY: &'static [Self] = &[Self::Read, Self::Write, Self::Manage, Self::Admin];

    /// The one word for this scope.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "runs:read",
            Self::Write => "runs:write",
            Self::Manage => "runs:manage",
            Self::Admin => "admin",
        }
    }

    /// The scope with this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::EVERY.iter().copied().find(|scope| scope.word() == word)
    }
}

/// What an act is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The installation itself: lists, settings, the ledger.
    Installation,
    /// One user.
    User(UserId),
    /// One API key.
    Key(KeyId),
    /// One Pass.
    Pass(PassId),
    /// One repository.
    Repo(RepoId),
    /// One worktree.
    Worktree(WorktreeId),
    /// One session.
    Session(SessionId),
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Installation => f.write_str("installation"),
            Self::User(id) => id.fmt(f),
            Self::Key(id) => id.fmt(f),
            Self::Pass(id) => id.fmt(f),
            Self::Repo(id) => id.fmt(f),
            Self::Worktree(id) => id.fmt(f),
            Self::Session(id) => id.fmt(f),
        }
    }
}

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Action {
    /// The word for it, as in Cedar, the ledger and the API.
    pub name: &'static str,
    /// What an API key needs.
    pub scope: Scope,
    /// What it does, unless the act itself is known to do less ([`Act::class`]).
    pub class: Class,
    /// Whether some of its acts only narrow, although others widen.
    pub may_narrow: bool,
    /// Whether decisions made before it may no longer hold after it.
    pub changes_access: bool,
}

/// Something that can be asked of the gate: the whole request, so that what was judged is what is done.
pub trait Act: Send + Sync + 'static {
    /// Its row.
    const ACTION: &'static Action;
    /// What it is done to.
    fn resource(&self) -> Resource;
    /// Whether this very request can only take rights away, whatever stands now. Never by comparing with what
    /// stands: that may change between the look and the effect.
    fn only_narrows(&self) -> bool {
        false
    }
    /// What this act does to the world.
    fn class(&self) -> Class {
        if self.only_narrows() { Class::Narrows } else { Self::ACTION.class }
    }
    /// What the ledger files it under, where that is not the resource: a thing that is only being made.
    fn names(&self) -> Option<String> {
        None
    }
    /// What the policy must also know, beyond principal and resource.
    fn asks(&self) -> Asks {
        Asks::default()
    }
    /// What the ledger keeps of it besides action and resource. Never a secret.
    fn detail(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// What an act asks for that is not on the resource yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// The role a user would have afterwards.
    pub role: Option<model::Role>,
}

macro_rules! actions {
    ($($const:ident = $name:literal, $scope:ident, $class:ident $(or $narrows:ident)? $(, $changes:ident)?;)+) => {
        $(
            #[doc = concat!("`", $name, "`")]
            pub(crate) const $const: Action = Action {
                name: $name,
                scope: Scope::$scope,
                class: Class::$class,
                may_narrow: actions!(@ $($narrows)?),
                changes_access: actions!(@ $($changes)?),
            };
        )+
        /// Every action there is.
        pub const ACTIONS: &[&Action] = &[$(&$const),+];
    };
    (@ changes) => { true };
    (@ Narrows) => { true };
    (@) => { false };
}

actions! {
    STATUS_READ = "status.read", Read, Read;
    METRICS_READ = "metrics.read", Admin, Read;
    EVENT_FOLLOW = "event.follow", Read, Read;

    SIGNIN_END = "signin.end", Read, Narrows, changes;
    SIGNIN_END_ALL = "signin.end_all", Admin, Narrows, changes;
    PASSWORD_CHANGE = "password.change", Admin, Widens, changes;
    TOTP_CHANGE = "totp.change", Admin, Widens, changes;

    USER_LIST = "user.list", Manage, Read;
    USER_READ = "user.read", Read, Read;
    USER_CREATE = "user.create", Admin, Widens;
    USER_UPDATE = "user.update", Admin, Widens or Narrows, changes;
    USER_DISABLE = "user.disable", Admin, Narrows, changes;
    USER_DELETE = "user.delete", Admin, Narrows, changes;
    USER_RESET = "user.reset", Admin, Widens, changes;

    KEY_LIST = "key.list", Manage, Read;
    KEY_CREATE = "key.create", Admin, Widens;
    PAIRING_OFFER = "pairing.offer", Admin, Widens;
    KEY_REVOKE = "key.revoke", Manage, Narrows, changes;

    PASS_LIST = "pass.list", Manage, Read;
    PASS_MINT = "pass.mint", Manage, Widens;
    PASS_REVOKE = "pass.revoke", Manage, Narrows, changes;

    REPO_LIST = "repo.list", Read, Read;
    REPO_READ = "repo.read", Read, Read;
    REPO_CREATE = "repo.create", Manage, Widens;
    REPO_FETCH = "repo.fetch", Manage, Widens;
    REPO_DELETE = "repo.delete", Manage, Narrows, changes;

    WORKTREE_LIST = "worktree.list", Read, Read;
    WORKTREE_READ = "worktree.read", Read, Read;
    WORKTREE_CREATE = "worktree.create", Write, Widens;
    WORKTREE_UPDATE = "worktree.update", Write, Widens;
    WORKTREE_SET_TIER = "worktree.set_tier", Manage, Widens or Narrows, changes;
    WORKTREE_SET_OWNERS = "worktree.set_owners", Manage, Widens or Narrows, changes;
    WORKTREE_SET_SHARING = "worktree.set_sharing", Manage, Widens or Narrows, changes;
    WORKTREE_ARCHIVE = "worktree.archive", Manage, Narrows, changes;
    WORKTREE_DELETE = "worktree.delete", Manage, Narrows, changes;
    WORKTREE_RESTORE = "worktree.restore", Manage, Widens, changes;
    WORKTREE_MERGE = "worktree.merge", Write, Widens;
    WORKTREE_PUSH = "worktree.push", Manage, Widens;

    AGENT_CHECK = "agent.check", Write, Widens;
    SESSION_LIST = "session.list", Read, Read;
    SESSION_READ = "session.read", Read, Read;
    SESSION_CREATE = "session.create", Write, Widens;
    SESSION_FORK = "session.fork", Write, Widens;
    SESSION_SPAWN = "session.spawn", Write, Widens;
    SESSION_IMPORT = "session.import", Write, Widens;
    SESSION_PROMPT = "session.prompt", Write, Widens;
    SESSION_REORDER = "session.reorder", Write, Widens;
    SESSION_UNDO = "session.undo", Write, Widens;
    SESSION_START = "session.start", Write, Widens;
    SESSION_RESUME = "session.resume", Write, Widens;
    SESSION_STOP = "session.stop", Write, Narrows;
    SESSION_CLOSE = "session.close", Write, Narrows;
    APPROVAL_ALLOW = "approval.allow", Write, Widens;
    APPROVAL_DENY = "approval.deny", Write, Narrows;
    CONSENT_REVOKE = "consent.revoke", Write, Narrows, changes;

    ARTIFACT_LIST = "artifact.list", Read, Read;
    ARTIFACT_READ = "artifact.read", Read, Read;
    ARTIFACT_FETCH = "artifact.fetch", Admin, Read;
    ARTIFACT_REGISTER = "artifact.register", Admin, Widens;
    ARTIFACT_ASSIGN = "artifact.assign", Admin, Widens;
    ARTIFACT_REVOKE = "artifact.revoke", Admin, Narrows, changes;

    BUDGET_READ = "budget.read", Admin, Read;
    BUDGET_SET = "budget.set", Admin, Widens;
    USAGE_READ = "usage.read", Admin, Read;

    POLICY_READ = "policy.read", Admin, Read;
    POLICY_TRY = "policy.try", Admin, Read;
    POLICY_ADD = "policy.add", Admin, Narrows, changes;
    POLICY_REMOVE = "policy.remove", Admin, Widens, changes;

    SECRET_LIST = "secret.list", Read, Read;
    SECRET_ADD = "secret.add", Manage, Widens;
    SECRET_REMOVE = "secret.remove", Manage, Narrows;
    SECRET_LEASE = "secret.lease", Write, Widens;
    SECRET_ROTATE = "secret.rotate", Admin, Widens;

    LEDGER_READ = "ledger.read", Manage, Read;
    LEDGER_READ_ALL = "ledger.read_all", Admin, Read;
    LEDGER_VERIFY = "ledger.verify", Admin, Read;
    BACKUP_CREATE = "backup.create", Admin, Widens;
}

/// The action with this name.
#[must_use]
pub fn action_named(name: &str) -> Option<&'static Action> {
    ACTIONS.iter().copied().find(|action| action.name == name)
}
