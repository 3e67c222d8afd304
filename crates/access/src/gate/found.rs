//! What a resource turned out to be, and what the record says of acts on it besides that they were allowed.

use std::sync::Arc;

use model::{KeyId, PassId, RepoId, Tier, UserId};

use crate::act;
use crate::policy::Target;
use crate::{Action, Class, Principal, SessionFacts, UserFacts, WorktreeFacts};

/// What the ledger says of whatever runs as one person in the session of another.
const SHARED: &str = "another person's session, with the rights and the secrets of the caller";

/// What a resource turned out to be.
pub(super) enum Found {
    Installation,
    User(UserFacts),
    Key(KeyId, UserId),
    Pass(PassId, UserId),
    Repo(RepoId),
    Worktree(Arc<WorktreeFacts>),
    Session(SessionFacts),
}

/// What is remarkable about an act that is allowed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    /// An administrator acts where the tier says `none`.
    overrides: bool,
    /// A session is used by another than its creator.
    shared: bool,
}

impl Marks {
    /// The same, for the record.
    pub(super) fn told(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let overrides = self.overrides.then_some(("override", "true"));
        overrides.into_iter().chain(self.shared.then_some(("warning", SHARED)))
    }
}

impl Found {
    pub(super) fn target(&self) -> Target<'_> {
        match self {
            Self::Installation => Target::Installation,
            Self::User(facts) => Target::User { id: facts.id, role: facts.role },
            Self::Key(id, owner) => Target::Key { id: *id, owner: *owner },
            Self::Pass(id, owner) => Target::Pass { id: *id, owner: *owner },
            Self::Repo(id) => Target::Repo(*id),
            Self::Worktree(facts) => Target::Worktree(facts),
            Self::Session(facts) => Target::Session(facts),
        }
    }

    /// What is remarkable about this act of theirs. Reads leave no record.
    pub(super) fn marks(&self, who: &Principal, action: &Action, divided: bool) -> Marks {
        if action.class == Class::Read {
            return Marks::default();
        }
        let runs = [&act::SESSION_PROMPT, &act::SESSION_START, &act::SESSION_SPAWN];
        let shared = match self {
            Self::Session(facts) => facts.creator != who.user && runs.contains(&action),
            _ => false,
        };
        Marks { overrides: divided && self.overrides(who), shared }
    }

    /// An administrator acting where the tier says `none` overrides; the record says so.
    fn overrides(&self, who: &Principal) -> bool {
        let hidden = |facts: &WorktreeFacts| facts.tier == Tier::None && !facts.owners.contains(&who.user);
        match self {
            Self::Worktree(facts) => hidden(facts),
            Self::Session(facts) => hidden(&facts.worktree),
            _ => false,
        }
    }
}
