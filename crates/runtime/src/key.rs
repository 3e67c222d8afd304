//! API keys.

use std::sync::Arc;

use access::{AuthError, CreateKey, ListKeys, OfferPairing, Principal, RevokeKey, Scope};
use model::{DisplayName, KeyId, Millis, UserId};
use store::ApiKey;
use vault::Secret;

use crate::{ActError, Page, Runtime};

impl Runtime {
    /// Keys of a user.
    pub async fn keys(
        &self,
        who: &Principal,
        user: UserId,
        after: Option<KeyId>,
        limit: i64,
    ) -> Result<Page<ApiKey, KeyId>, ActError> {
        let permit = self.look(who, ListKeys { user }).await?;
        let rows = self.store.list_keys(permit, after, limit.saturating_add(1)).await?;
        Ok(Page::cut(rows, limit, |row| row.id))
    }

    /// Makes a key for the caller, no wider than the credential it is asked with; its text is told once.
    pub async fn create_key(
        self: &Arc<Self>,
        who: &Principal,
        label: DisplayName,
        scope: Scope,
        life: Millis,
    ) -> Result<Result<(ApiKey, Secret<String>), ActError>, AuthError> {
        let key = KeyId::random();
        let made = self.auth.new_key(key)?;
        let expires = self.clock.now().saturating_add(life);
        let scope = scope.min(who.scope());
        let act = CreateKey { user: who.user(), key, label, scope, expires, digest: made.digest };
        let kept = self
            .perform(who, act, async |store: Arc<store::Store>, permit| store.create_key(permit).await)
            .await;
        Ok(kept.map(|key| (key, made.text)))
    }

    /// Shows a code that signs one more device of the caller in, with a key no wider than the credential it
    /// is asked with. The code and when it ends.
    pub async fn offer_pairing(
        self: &Arc<Self>,
        who: &Principal,
        label: DisplayName,
        scope: Scope,
        key_life: Millis,
    ) -> Result<Result<(Secret<String>, Millis), ActError>, AuthError> {
        let made = self.auth.new_pairing_code()?;
        let expires = self.clock.now().saturating_add(self.auth.pairing_life());
        let scope = scope.min(who.scope());
        let (user, version, digest) = (who.user(), who.version(), made.digest);
        let act = OfferPairing { user, label, scope, version, key_life, expires, digest };
        let kept = self
            .perform(who, act, async |store: Arc<store::Store>, permit| store.offer_pairing(permit).await)
            .await;
        Ok(kept.map(|()| (made.text, expires)))
    }

    /// Trades a pairing code for a key, as a device that is not signed in.
    pub async fn pair(&self, code: &str, peer: &str) -> Result<(ApiKey, Secret<String>), AuthError> {
        let made = self.auth.pair(code, peer).await?;
        Ok((made.paired.into(), made.secret))
    }

    /// Revokes a key.
    pub async fn revoke_key(self: &Arc<Self>, who: &Principal, key: KeyId) -> Result<(), ActError> {
        self.perform(who, RevokeKey { key }, async |store: Arc<store::Store>, permit| {
            store.revoke_key(permit).await
        })
        .await
    }
}
