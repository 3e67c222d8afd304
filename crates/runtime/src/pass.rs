//! Passes.

use std::sync::Arc;

use access::pass::{MintError, PassSpec};
use access::{Act, ListPasses, MintPass, Principal, RevokePass, Via};
use model::{DisplayName, Grant, Millis, PassId, UserId};
use store::PassRow;
use vault::Secret;

use crate::{ActError, Page, Runtime};

/// How often a Pass may be handed on.
const MOST_DEPTH: u8 = 3;

impl Runtime {
    /// Passes of a user.
    pub async fn passes(
        &self,
        who: &Principal,
        user: UserId,
        after: Option<PassId>,
        limit: i64,
    ) -> Result<Page<PassRow, PassId>, ActError> {
        let permit = self.look(who, ListPasses { user }).await?;
        let rows = self.store.list_passes(permit, after, limit.saturating_add(1)).await?;
        Ok(Page::cut(rows, limit, |row| row.id))
    }

    /// Mints a Pass: what was asked for, cut to what the caller has, and no longer than a key or Pass it is
    /// asked for with. It is revoked with those.
    pub async fn mint_pass(
        self: &Arc<Self>,
        who: &Principal,
        label: DisplayName,
        requested: &Grant,
        life: Millis,
    ) -> Result<Result<(PassRow, Secret<String>), ActError>, MintError> {
        let (now, pass) = (self.clock.now(), PassId::random());
        let asked = now.saturating_add(life);
        let (parent, made_with, expires) = match who.via() {
            Via::Pass(chain) => (chain.last().copied(), None, asked.min(who.expires())),
            Via::Key(key) => (None, Some(*key), asked.min(who.expires())),
            Via::Login(_) => (None, None, asked),
        };
        // Signed before it is kept: what cannot be a token is not on the record as made.
        let signed = who.grant().child(requested).ok_or(MintError::LastDepth).and_then(|child| {
            let grant = Grant { depth: child.depth.min(MOST_DEPTH), ..child };
            let spec = PassSpec {
                id: pass,
                user: who.user(),
                grant: grant.clone(),
                expires: Some(expires),
                parent: None,
            };
            Ok((self.auth.mint().mint(spec, now)?, grant))
        });
        let (token, grant) = match signed {
            Ok(signed) => signed,
            Err(error) => {
                self.refuse_malformed(who, MintPass::ACTION, &error.to_string()).await;
                return Err(error);
            }
        };
        let act = MintPass { user: who.user(), pass, parent, made_with, label, grant, expires };
        let kept = self
            .perform(who, act, async |store: Arc<store::Store>, permit| store.mint_pass(permit).await)
            .await;
        Ok(kept.map(|row| (row, token.to_text())))
    }

    /// Revokes a Pass and everything made from it; tells how many that were.
    pub async fn revoke_pass(self: &Arc<Self>, who: &Principal, pass: PassId) -> Result<u64, ActError> {
        self.perform(who, RevokePass { pass }, async |store: Arc<store::Store>, permit| {
            store.revoke_pass(permit).await
        })
        .await
    }
}
