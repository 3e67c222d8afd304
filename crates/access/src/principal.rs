//! Who is calling, as far as it was proved.

use std::sync::Arc;

use model::{Grant, KeyId, PassId, Role, UserId};
use sha2::{Digest, Sha256};

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
    /// Whether a fresh one-time password came with this very request.
    pub(crate) code_shown: bool,
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

    /// The user's credential version when this was proved.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.version
    }

    /// When the credential ends by itself.
    #[must_use]
    pub fn expires(&self) -> model::Millis {
        self.expires
    }

    /// Whether both have the same rights, whichever of its tokens showed a credential.
    #[must_use]
    pub fn has_rights_of(&self, other: &Self) -> bool {
        let Self { user, role, scope, grant, via, version, expires: _, code_shown } = self;
        (user, role, scope, version, via, code_shown)
            == (&other.user, &other.role, &other.scope, &other.version, &other.via, &other.code_shown)
            && (Arc::ptr_eq(grant, &other.grant) || grant == &other.grant)
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

    /// Stands for this very credential: one that was narrowed since has another mark. What was answered to
    /// one is not for the other.
    #[must_use]
    pub fn mark(&self) -> String {
        let mut digest = Sha256::new();
        match &self.via {
            Via::Login(family) => digest.update(family.as_bytes()),
            Via::Key(key) => digest.update(key.to_string()),
            Via::Pass(chain) => {
                for pass in chain.iter() {
                    digest.update(pass.to_string());
                }
                digest.update(serde_json::to_vec(self.grant.as_ref()).unwrap_or_default());
                digest.update(self.expires.to_be_bytes());
            }
        }
        format!("{}#{}", self.user, hex::encode(digest.finalize()))
    }
}
