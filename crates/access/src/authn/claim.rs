//! What waits: who asked, as they proved it then, to be judged again when it begins.
//!
//! Flow: a principal -> [`Authenticator::claim`] (a text that the installation vouches for) -> a row that waits ->
//! [`Authenticator::claimed`] -> the principal as they stand now, whom the gate judges.
//!
//! Invariants: a text that this installation did not write, or wrote for something else, is nobody; whoever is not enabled
//! any more is nobody; a claim is no permit.

use std::sync::Arc;

use model::{Grant, KeyId, Millis, PassId, UserId};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::Authenticator;
use crate::{Backing, Principal, Scope, Unavailable, Via};

/// How it was proved.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Proof {
    Login(String),
    Key(KeyId),
    Pass(Vec<PassId>),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    user: UserId,
    scope: String,
    proof: Proof,
    version: i64,
    /// When what proved it ends by itself; a login goes on with its next token.
    expires: Option<Millis>,
    grant: Grant,
}

impl<B: Backing> Authenticator<B> {
    /// A text by which this principal is known when `what` begins.
    pub fn claim(&self, who: &Principal, what: &str) -> String {
        let (proof, expires) = match &who.via {
            Via::Login(family) => (Proof::Login(family.to_string()), None),
            Via::Key(key) => (Proof::Key(*key), Some(who.expires)),
            Via::Pass(chain) => (Proof::Pass(chain.to_vec()), Some(who.expires)),
        };
        let claim = Claim {
            user: who.user,
            scope: who.scope.word().to_owned(),
            proof,
            version: who.version,
            expires,
            grant: who.grant.as_ref().clone(),
        };
        let text = serde_json::to_string(&claim).unwrap_or_default();
        format!("{}{text}", self.vouched(what, &text))
    }

    /// Who that is now; nobody, if the text is not ours, is not about `what`, or they are not who they were.
    pub async fn claimed(&self, text: &str, what: &str) -> Result<Option<Principal>, Unavailable> {
        let Some((mark, text)) = text.split_at_checked(64) else { return Ok(None) };
        let is_ours = bool::from(self.vouched(what, text).as_bytes().ct_eq(mark.as_bytes()));
        let Some(claim) = serde_json::from_str::<Claim>(text).ok().filter(|_| is_ours) else {
            return Ok(None);
        };
        let Some(scope) = Scope::from_word(&claim.scope) else { return Ok(None) };
        let Some(user) = self.gate.user(claim.user).await?.filter(|user| user.enabled) else {
            return Ok(None);
        };
        let via = match claim.proof {
            Proof::Login(family) => Via::Login(family.into()),
            Proof::Key(key) => Via::Key(key),
            Proof::Pass(chain) => Via::Pass(chain.into()),
        };
        Ok(Some(Principal {
            user: claim.user,
            role: user.role,
            scope,
            grant: Arc::new(claim.grant),
            via,
            version: claim.version,
            expires: claim.expires.unwrap_or(Millis::MAX),
            code_shown: false,
        }))
    }

    fn vouched(&self, what: &str, text: &str) -> String {
        self.digests.of("claim", &format!("{what}\n{text}"))
    }
}
