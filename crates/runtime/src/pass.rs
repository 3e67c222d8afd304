//! Passes.

use std::sync::Arc;

use access::pass::PassSpec;
use access::{ListPasses, MintPass, Principal, RevokePass, Via};
use model::{DisplayName, Grant, Millis, PassId, UserId};
use store::PassRow;
use vault::Secret;

use crate::{ActError, Page, Runtime};

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

    /// Mints a Pass: what was asked for, cut to what the caller has, and no longer than the caller lasts.
    pub async fn mint_pass(
        self: &Arc<Self>,
        who: &Principal,
        label: DisplayName,
        requested: &Grant,
        life: Millis,
    ) -> Result<(PassRow, Secret<String>), ActError> {
        let grant = who.grant().child(requested).unwrap_or_else(Grant::nothing);
        let asked = self.clock.now().saturating_add(life);
        let (parent, expires) = match who.via() {
            Via::Pass(chain) => (chain.last().copied(), asked.min(who.expires())),
            Via::Login(_) | Via::Key(_) => (None, asked),
        };
        let pass = PassId::random();
        let act = MintPass { user: who.user(), pass, parent, label, grant: grant.clone(), expires };
        let row = self
            .perform(who, act, async |store: Arc<store::Store>, permit| store.mint_pass(permit).await)
            .await?;
        let spec = PassSpec { id: pass, user: who.user(), grant, expires: Some(expires), parent: None };
        let token = self.auth.mint().mint(spec, self.clock.now()).map_err(|_| ActError::Interrupted)?;
        Ok((row, token.to_text()))
    }

    /// Revokes a Pass and everything made from it; tells how many that were.
    pub async fn revoke_pass(self: &Arc<Self>, who: &Principal, pass: PassId) -> Result<u64, ActError> {
        self.perform(who, RevokePass { pass }, async |store: Arc<store::Store>, permit| {
            store.revoke_pass(permit).await
        })
        .await
    }
}
