//! Who is calling, as far as it was proved.

use std::sync::Arc;

use model::{Grant, KeyId, PassId, Role, UserId};

use crate::Scope;

/// How the caller proved who they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Via {
    /// A login; the word names its family of tokens.
    Login(Arc<str>),
    /// An API key of the user.
    Key(KeyId),
    /// A Pass, with the ids of the Passes it was derived from, the oldest first.
    Pass(Arc<[PassId]>),
}

impl Via {
    /// The one word for how: `login`, `key` or `pass`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Login(_) => "login",
            Self::Key(_) => "key",
            Self::Pass(_) => "pass",
        }
    }
}

/// An authenticated actor. Only `access` can make one.
#[derive(Clone, Debug)]
pub struct Principal {
    pub(crate) user: UserId,
    pub(crate) role: Role,
    pub(crate) scope: Scope,
    pub(crate) grant: Arc<Grant>,
    pub(crate) via: Via,
    /// The user's credential version when this was proved.
    pub(crate) version: i64,
    /// When the credential itself ends.
    pub(crate) expires: model::Millis,
}

impl Principal {
    /// The user who acts, or on whose behalf.
    #[must_use]
    pub fn user(&self) -> UserId {
        self.user
    }

    /// The user's role when the credential was checked.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The widest scope this credential reaches.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// How they proved it.
    #[must_use]
    pub fn via(&self) -> &Via {
        &self.via
    }

    /// What they may use, at the most.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// When the credential ends by itself.
    #[must_use]
    pub fn expires(&self) -> model::Millis {
        self.expires
    }

    /// How the ledger names them: the user, and the credential where it is not a login.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.via {
            Via::Login(_) => self.user.to_string(),
            Via::Key(key) => format!("{}/{key}", self.user),
            Via::Pass(chain) => match chain.last() {
                Some(pass) => format!("{}/{pass}", self.user),
                None => self.user.to_string(),
            },
        }
    }
}
