//! API keys and Passes: what is kept of them, and how they end.

use access::{
    CreateKey, KeptKey, ListKeys, ListPasses, MintPass, OfferPairing, Permit, RevokeKey, RevokePass, Scope,
};
use model::{DisplayName, Grant, KeyId, Millis, PassId, UserId};

use crate::engine::{EngineError, Row, Tx};
use crate::store::{odd, parsed};
use crate::{Store, StoreError};

/// An API key, without what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Which.
    pub id: KeyId,
    /// Whose.
    pub user: UserId,
    /// What it is for.
    pub label: DisplayName,
    /// What it may be used for.
    pub scope: Scope,
    /// Since when.
    pub created_at: Millis,
    /// Until when.
    pub expires: Millis,
    /// When it was revoked.
    pub revoked_at: Option<Millis>,
    /// When it was last used, to the minute.
    pub used_at: Option<Millis>,
}

/// A Pass, without what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassRow {
    /// Which.
    pub id: PassId,
    /// Whose.
    pub user: UserId,
    /// The Pass it was made from.
    pub parent: Option<PassId>,
    /// What it is for.
    pub label: DisplayName,
    /// What it allows.
    pub grant: Grant,
    /// Since when.
    pub created_at: Millis,
    /// Until when.
    pub expires: Millis,
    /// When it was revoked.
    pub revoked_at: Option<Millis>,
}

impl Store {
    /// Keys of a user after a cursor.
    pub async fn list_keys(
        &self,
        permit: Permit<ListKeys>,
        after: Option<KeyId>,
        limit: i64,
    ) -> Result<Vec<ApiKey>, StoreError> {
        let sql = "SELECT id, user_id, label, scope, created_at, expires, revoked_at, used_at FROM api_keys \
                   WHERE user_id = $1 AND seq > COALESCE((SELECT seq FROM api_keys WHERE id = $2 AND user_id = $1), 0) ORDER BY seq LIMIT $3";
        let args =
            [permit.into_act().user.to_string().into(), after.map(|id| id.to_string()).into(), limit.into()];
        let rows = self.engine.rows(sql, &args).await?;
        Ok(rows.iter().map(api_key).collect::<Result<_, _>>()?)
    }

    /// Keeps a new key.
    pub async fn create_key(&self, permit: Permit<CreateKey>) -> Result<ApiKey, StoreError> {
        let act = permit.into_act();
        let (key, user, label, scope) = (act.key, act.user, act.label, act.scope);
        let made = KeptKey { key, user, label, scope, created_at: self.clock.now(), expires: act.expires };
        let mut tx = self.engine.write().await?;
        insert_key(&mut tx, &made, &act.digest).await?;
        tx.commit().await?;
        Ok(made.into())
    }

    /// Keeps a pairing code; those that are over are forgotten.
    pub async fn offer_pairing(&self, permit: Permit<OfferPairing>) -> Result<(), StoreError> {
        let act = permit.into_act();
        let mut tx = self.engine.write().await?;
        tx.exec("DELETE FROM pairings WHERE expires <= $1", &[self.clock.now().into()]).await?;
        let args = [
            act.digest.as_str().into(),
            act.user.to_string().into(),
            act.label.as_str().into(),
            act.scope.word().into(),
            act.version.into(),
            act.key_life.into(),
            act.expires.into(),
        ];
        let sql = "INSERT INTO pairings (digest, user_id, label, scope, version, key_life, expires) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7)";
        tx.exec(sql, &args).await?;
        Ok(tx.commit().await?)
    }

    /// Revokes a key and every Pass made with it; revoking it again changes nothing.
    pub async fn revoke_key(&self, permit: Permit<RevokeKey>) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        end_key(&mut tx, permit.into_act().key, self.clock.now()).await?;
        Ok(tx.commit().await?)
    }

    /// Passes of a user after a cursor.
    pub async fn list_passes(
        &self,
        permit: Permit<ListPasses>,
        after: Option<PassId>,
        limit: i64,
    ) -> Result<Vec<PassRow>, StoreError> {
        let sql = "SELECT id, user_id, parent, label, authority, created_at, expires, revoked_at FROM passes \
                   WHERE user_id = $1 AND seq > COALESCE((SELECT seq FROM passes WHERE id = $2 AND user_id = $1), 0) ORDER BY seq LIMIT $3";
        let args =
            [permit.into_act().user.to_string().into(), after.map(|id| id.to_string()).into(), limit.into()];
        let rows = self.engine.rows(sql, &args).await?;
        Ok(rows.iter().map(pass).collect::<Result<_, _>>()?)
    }

    /// Keeps a new Pass. One made from a revoked Pass, or with a revoked key, is not kept.
    pub async fn mint_pass(&self, permit: Permit<MintPass>) -> Result<PassRow, StoreError> {
        let act = permit.into_act();
        let created_at = self.clock.now();
        let mut tx = self.engine.write().await?;
        if let Some(parent) = act.parent {
            // Locks the parent's row against a revocation that is under way.
            let sql = "UPDATE passes SET label = label WHERE id = $1 AND user_id = $2 AND revoked_at IS NULL";
            if tx.exec(sql, &[parent.to_string().into(), act.user.to_string().into()]).await? == 0 {
                return Err(StoreError::Missing("pass"));
            }
        }
        if let Some(key) = act.made_with {
            let sql =
                "UPDATE api_keys SET label = label WHERE id = $1 AND user_id = $2 AND revoked_at IS NULL";
            if tx.exec(sql, &[key.to_string().into(), act.user.to_string().into()]).await? == 0 {
                return Err(StoreError::Dangling("key"));
            }
        }
        let seq = tx.next("passes").await?;
        let authority = serde_json::to_string(&act.grant).map_err(|_| odd(4))?;
        let args = [
            act.pass.to_string().into(),
            seq.into(),
            act.user.to_string().into(),
            act.parent.map(|id| id.to_string()).into(),
            act.made_with.map(|id| id.to_string()).into(),
            act.label.as_str().into(),
            authority.into(),
            created_at.into(),
            act.expires.into(),
        ];
        let sql = "INSERT INTO passes (id, seq, user_id, parent, made_with, label, authority, created_at, expires) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        tx.exec(sql, &args).await?;
        tx.commit().await?;
        Ok(PassRow {
            id: act.pass,
            user: act.user,
            parent: act.parent,
            label: act.label,
            grant: act.grant,
            created_at,
            expires: act.expires,
            revoked_at: None,
        })
    }

    /// Revokes a Pass and everything made from it.
    pub async fn revoke_pass(&self, permit: Permit<RevokePass>) -> Result<u64, StoreError> {
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE passes SET revoked_at = $2 WHERE revoked_at IS NULL AND id IN ( \
                   WITH RECURSIVE line(id) AS (SELECT id FROM passes WHERE id = $1 \
                   UNION SELECT p.id FROM passes p JOIN line ON p.parent = line.id) SELECT id FROM line)";
        let revoked =
            tx.exec(sql, &[permit.into_act().pass.to_string().into(), self.clock.now().into()]).await?;
        tx.commit().await?;
        Ok(revoked)
    }
}

impl From<KeptKey> for ApiKey {
    fn from(made: KeptKey) -> Self {
        Self {
            id: made.key,
            user: made.user,
            label: made.label,
            scope: made.scope,
            created_at: made.created_at,
            expires: made.expires,
            revoked_at: None,
            used_at: None,
        }
    }
}

/// Keeps a key, whichever way it was made.
pub(crate) async fn insert_key(tx: &mut Tx, key: &KeptKey, digest: &str) -> Result<(), EngineError> {
    let seq = tx.next("api_keys").await?;
    let args = [
        key.key.to_string().into(),
        seq.into(),
        key.user.to_string().into(),
        key.label.as_str().into(),
        key.scope.word().into(),
        digest.into(),
        key.created_at.into(),
        key.expires.into(),
    ];
    let sql = "INSERT INTO api_keys (id, seq, user_id, label, scope, digest, created_at, expires) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    tx.exec(sql, &args).await?;
    Ok(())
}

/// Ends a key and every Pass made with it.
pub(crate) async fn end_key(tx: &mut Tx, key: KeyId, now: Millis) -> Result<(), EngineError> {
    for sql in [
        "UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL",
        "UPDATE passes SET revoked_at = $2 WHERE revoked_at IS NULL AND id IN ( \
         WITH RECURSIVE line(id) AS (SELECT id FROM passes WHERE made_with = $1 \
         UNION SELECT p.id FROM passes p JOIN line ON p.parent = line.id) SELECT id FROM line)",
    ] {
        tx.exec(sql, &[key.to_string().into(), now.into()]).await?;
    }
    Ok(())
}

fn api_key(row: &Row) -> Result<ApiKey, EngineError> {
    Ok(ApiKey {
        id: parsed(row, 0)?,
        user: parsed(row, 1)?,
        label: parsed(row, 2)?,
        scope: Scope::from_word(row.text(3)?).ok_or(odd(3))?,
        created_at: row.int(4)?,
        expires: row.int(5)?,
        revoked_at: row.opt_int(6)?,
        used_at: row.opt_int(7)?,
    })
}

fn pass(row: &Row) -> Result<PassRow, EngineError> {
    Ok(PassRow {
        id: parsed(row, 0)?,
        user: parsed(row, 1)?,
        parent: row.opt_text(2)?.map(str::parse).transpose().map_err(|_| odd(2))?,
        label: parsed(row, 3)?,
        grant: serde_json::from_str(row.text(4)?).map_err(|_| odd(4))?,
        created_at: row.int(5)?,
        expires: row.int(6)?,
        revoked_at: row.opt_int(7)?,
    })
}
