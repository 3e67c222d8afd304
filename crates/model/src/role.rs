//! Roles of people in the installation, and tiers of non-owners in a worktree.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A word that is not one of a closed set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of {expected}")]
pub struct BadWord {
    pub(crate) expected: &'static str,
}

/// What a person is in this installation. The order is the order of authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads what a worktree's tier shows.
    Viewer,
    /// Works: creates worktrees and sessions.
    Member,
    /// Looks after people, repositories and policy.
    Admin,
    /// Everything an admin may, and the care of admins.
    Owner,
}

/// What people who do not own a worktree may do in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Not even that it exists.
    None,
    /// Read.
    View,
    /// Own sessions.
    Session,
    /// Prompt the sessions of others.
    Prompt,
    /// Everything short of owning.
    All,
}

macro_rules! words {
    ($type:ident, $expected:literal, $($variant:ident = $word:literal),+) => {
        impl $type {
            /// Every value, in order.
            pub const EVERY: &'static [Self] = &[$(Self::$variant),+];

            /// The one word for this value.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
        impl FromStr for $type {
            type Err = BadWord;
            fn from_str(text: &str) -> Result<Self, BadWord> {
                match text { $($word => Ok(Self::$variant),)+ _ => Err(BadWord { expected: $expected }) }
            }
        }
    };
}

pub(crate) use words;

words!(
    Role,
    "viewer, member, admin, owner",
    Viewer = "viewer",
    Member = "member",
    Admin = "admin",
    Owner = "owner"
);
words!(
    Tier,
    "none, view, session, prompt, all",
    None = "none",
    View = "view",
    Session = "session",
    Prompt = "prompt",
    All = "all"
);
