//! Whose a secret is, and which of several with one name counts.

use std::fmt;
use std::str::FromStr;

use crate::{UserId, WorktreeId};

/// Text that names no owner of a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `daemon`, a user (`usr_…`) or a worktree (`wt_…`)")]
pub struct BadOwner;

/// Whose a secret is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecretOwner {
    /// Of one user: it counts in what that user starts.
    User(UserId),
    /// Of one worktree: it counts for everyone who works there.
    Worktree(WorktreeId),
    /// Of the installation.
    Daemon,
}

impl fmt::Display for SecretOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(id) => id.fmt(f),
            Self::Worktree(id) => id.fmt(f),
            Self::Daemon => f.write_str("daemon"),
        }
    }
}

impl FromStr for SecretOwner {
    type Err = BadOwner;
    fn from_str(text: &str) -> Result<Self, BadOwner> {
        if text == "daemon" {
            return Ok(Self::Daemon);
        }
        let user = text.parse().map(Self::User);
        user.or_else(|_| text.parse().map(Self::Worktree)).map_err(|_| BadOwner)
    }
}

/// Where a value comes from, the strongest first: what stands earlier hides what stands later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretSource {
    /// The user who owns the session.
    User,
    /// The worktree.
    Worktree,
    /// The installation.
    Daemon,
    /// A variable of the daemon's own environment, `PALISADE_SECRET_` and the name.
    Environment,
}

impl SecretSource {
    /// The one word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Worktree => "worktree",
            Self::Daemon => "daemon",
            Self::Environment => "environment",
        }
    }
}

impl From<SecretOwner> for SecretSource {
    fn from(owner: SecretOwner) -> Self {
        match owner {
            SecretOwner::User(_) => Self::User,
            SecretOwner::Worktree(_) => Self::Worktree,
            SecretOwner::Daemon => Self::Daemon,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_one_spelling() {
        let (user, worktree) = (UserId::random(), WorktreeId::random());
        for owner in [SecretOwner::User(user), SecretOwner::Worktree(worktree), SecretOwner::Daemon] {
            assert_eq!(owner.to_string().parse(), Ok(owner));
        }
        for bad in ["", "Daemon", "environment", "usr_", "key_00000000000000000000000000000000"] {
            assert_eq!(bad.parse::<SecretOwner>(), Err(BadOwner), "{bad}");
        }
    }

    #[test]
    fn sec_05_the_sources_stand_in_their_order() {
        use SecretSource::{Daemon, Environment, User, Worktree};
        let mut all = [Environment, Daemon, Worktree, User];
        all.sort();
        assert_eq!(all, [User, Worktree, Daemon, Environment]);
    }
}
