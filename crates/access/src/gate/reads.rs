//! Whether somebody may know of a thing: for pages and events, which are judged row by row. No entry, no permit.

use model::{RepoId, Role, UserId};

use super::Gate;
use crate::act;
use crate::policy::Target;
use crate::{Asks, Backing, Principal, Resource, SessionFacts, WorktreeFacts};

impl<B: Backing> Gate<B> {
    /// Whether this user may read this worktree now. For pages and events: no entry, no permit. `as_of` is
    /// the epoch from before the facts were read.
    pub fn may_read(&self, who: &Principal, facts: &WorktreeFacts, as_of: u64) -> bool {
        let decision = self.decide(
            who,
            &act::WORKTREE_READ,
            Resource::Worktree(facts.id),
            || Target::Worktree(facts),
            Asks::default(),
            as_of,
        );
        who.scope >= act::WORKTREE_READ.scope && decision.is_ok_and(|decision| decision.allowed)
    }

    /// Whether this user may read this session now; as [`Self::may_read`].
    pub fn may_read_session(&self, who: &Principal, facts: &SessionFacts, as_of: u64) -> bool {
        let target = || Target::Session(facts);
        let resource = Resource::Session(facts.id);
        let decision = self.decide(who, &act::SESSION_READ, resource, target, Asks::default(), as_of);
        who.scope >= act::SESSION_READ.scope && decision.is_ok_and(|decision| decision.allowed)
    }

    /// Whether this user may read this repository now; as [`Self::may_read`].
    pub fn may_read_repo(&self, who: &Principal, repo: RepoId, as_of: u64) -> bool {
        let target = || Target::Repo(repo);
        let decision =
            self.decide(who, &act::REPO_READ, Resource::Repo(repo), target, Asks::default(), as_of);
        who.scope >= act::REPO_READ.scope && decision.is_ok_and(|decision| decision.allowed)
    }

    /// Whether this user may read that one now; as [`Self::may_read`].
    pub fn may_read_user(&self, who: &Principal, id: UserId, role: Role, as_of: u64) -> bool {
        let target = || Target::User { id, role };
        let decision = self.decide(who, &act::USER_READ, Resource::User(id), target, Asks::default(), as_of);
        who.scope >= act::USER_READ.scope && decision.is_ok_and(|decision| decision.allowed)
    }
}
