//! Secrets: what is told of them, what is kept of them sealed, and how they are carried from one epoch to the next.
//!
//! Invariant: a value is here only as it was sealed, for this row and no other. Nothing that lists gives even that out;
//! lending and rotating do, and take permits of their own.

use access::{AddSecret, LeaseSecret, ListSecrets, Permit, RemoveSecret, RotateKeys};
use model::{
    ContentHash, HostPattern, Millis, Pattern, SecretId, SecretName, SecretOwner, SessionId, TaskId, UserId,
};

use crate::artifacts::{Damaged, damaged, reseal_artifacts};
use crate::engine::{EngineError, Row, Tx};
use crate::store::{odd, parsed, taken};
use crate::tasks::reseal_prompts;
use crate::{Store, StoreError};

/// Most secrets of one owner.
const MOST: i64 = 1_000;

/// A secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRow {
    /// Which.
    pub id: SecretId,
    /// Whose.
    pub owner: SecretOwner,
    /// Its name.
    pub name: SecretName,
    /// Where it may be sent.
    pub hosts: Vec<HostPattern>,
    /// Who added it.
    pub created_by: UserId,
    /// When.
    pub created_at: Millis,
    /// When it ends.
    pub expires: Option<Millis>,
    /// When it was last lent.
    pub used_at: Option<Millis>,
}

/// A secret with its sealed value, for whoever lends it or carries it over.
#[derive(Clone, Debug)]
pub struct SealedSecret {
    /// What is told of it.
    pub about: SecretRow,
    /// Its value, sealed for its row.
    pub sealed: Vec<u8>,
}

/// Seals again, under the current epoch, what was sealed under an earlier one.
pub trait Reseal: Send + Sync {
    /// A secret's value; an error says why it cannot be opened.
    fn secret(&self, old: &SealedSecret) -> Result<Vec<u8>, String>;
    /// A user's one-time-password seed; none if it is current.
    fn seed(&self, user: UserId, old: &[u8]) -> Result<Option<Vec<u8>>, String>;
    /// What was asked in a task.
    fn prompt(&self, task: TaskId, session: SessionId, old: &[u8]) -> Result<Vec<u8>, String>;
    /// The document of an artifact; none if it cannot be opened.
    fn document(&self, hash: ContentHash, old: &[u8]) -> Result<Option<Vec<u8>>, String>;
    /// A part of the content of a file; none if it cannot be opened.
    fn part(&self, blob: ContentHash, part: i64, old: &[u8]) -> Result<Option<Vec<u8>>, String>;
}

/// How far a rotation came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Values that were sealed again in this step.
    pub done: u64,
    /// Values that are still sealed under an earlier epoch.
    pub left: u64,
    /// What of the registry could not be opened, in this step and those before it, and is not waited for.
    pub damaged: Damaged,
}

/// Whether what is bound to these hosts may go to this one; what is bound to none may go to any.
fn may_go(bound: &[HostPattern], host: &HostPattern) -> bool {
    bound.is_empty() || bound.iter().any(|one| one.covers(host))
}

const REMOVE: &str = "DELETE FROM secrets WHERE owner = $1 AND name = $2 RETURNING id";

macro_rules! secret_columns {
    ($rest:literal) => {
        concat!(
            "SELECT id, owner, name, hosts, created_by, created_at, expires, used_at, sealed FROM secrets ",
            $rest
        )
    };
}

impl Store {
    /// The secrets of an owner, by name.
    pub async fn list_secrets(&self, permit: Permit<ListSecrets>) -> Result<Vec<SecretRow>, StoreError> {
        let sql = secret_columns!("WHERE owner = $1 ORDER BY name");
        let rows = self.engine.rows(sql, &[permit.into_act().owner.to_string().into()]).await?;
        Ok(rows.iter().map(about).collect::<Result<_, _>>()?)
    }

    /// Keeps a secret. The one of this name goes if that was asked for; otherwise it stays and the new one is refused. The
    /// second is the one that went.
    pub async fn add_secret(
        &self,
        permit: Permit<AddSecret>,
    ) -> Result<(SecretRow, Option<SecretId>), StoreError> {
        let created_by = permit.user();
        let act = permit.into_act();
        let created_at = self.clock.now();
        let (owner, name) = (act.owner.to_string(), act.name.as_str());
        let mut tx = self.engine.write().await?;
        self.hold_ring(&mut tx).await?;
        let replaced = match act.replace {
            true => tx.row(REMOVE, &[owner.as_str().into(), name.into()]).await?,
            false => None,
        };
        let replaced = replaced.map(|row| parsed(&row, 0)).transpose()?;
        room_for_secret(&mut tx, &owner).await?;
        let seq = tx.next("secrets").await?;
        let args = [
            act.secret.to_string().into(),
            seq.into(),
            owner.into(),
            name.into(),
            hosts_text(&act.hosts).into(),
            created_by.to_string().into(),
            created_at.into(),
            act.expires.into(),
            i64::from(act.epoch).into(),
            act.sealed.into(),
        ];
        let sql = "INSERT INTO secrets (id, seq, owner, name, hosts, created_by, created_at, expires, epoch, sealed) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        tx.exec(sql, &args).await.map_err(taken("name"))?;
        tx.commit().await?;
        let row = SecretRow {
            id: act.secret,
            owner: act.owner,
            name: act.name,
            hosts: act.hosts,
            created_by,
            created_at,
            expires: act.expires,
            used_at: None,
        };
        Ok((row, replaced))
    }

    /// Removes a secret; which it was.
    pub async fn remove_secret(&self, permit: Permit<RemoveSecret>) -> Result<SecretId, StoreError> {
        let act = permit.into_act();
        let mut tx = self.engine.write().await?;
        let row = tx.row(REMOVE, &[act.owner.to_string().into(), act.name.as_str().into()]).await?;
        let removed = parsed(&row.ok_or(StoreError::Missing("secret"))?, 0)?;
        tx.commit().await?;
        Ok(removed)
    }

    /// The secret that counts for a user, perhaps in a worktree: theirs before the worktree's before the
    /// installation's. That it was used is kept.
    pub async fn lease_secret(
        &self,
        permit: Permit<LeaseSecret>,
    ) -> Result<Option<SealedSecret>, StoreError> {
        let act = permit.into_act();
        let worktree = act.worktree.map(|id| id.to_string());
        let sql = secret_columns!(
            "WHERE name = $1 AND owner IN ($2, COALESCE($3, ''), 'daemon') \
             ORDER BY CASE WHEN owner = $2 THEN 0 WHEN owner = 'daemon' THEN 2 ELSE 1 END LIMIT 1"
        );
        let args = [act.name.as_str().into(), act.user.to_string().into(), worktree.into()];
        let mut tx = self.engine.write().await?;
        let Some(row) = tx.row(sql, &args).await? else { return Ok(None) };
        let found = SealedSecret { about: about(&row)?, sealed: row.blob(8)?.to_vec() };
        let now = self.clock.now();
        if found.about.expires.is_some_and(|expires| expires <= now) {
            return Err(StoreError::Expired { name: act.name, owner: found.about.owner });
        }
        if let Some(host) = act.hosts.into_iter().find(|host| !may_go(&found.about.hosts, host)) {
            let bound = found.about.hosts.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ");
            return Err(StoreError::Bound { name: act.name, owner: found.about.owner, bound, host });
        }
        let sql = "UPDATE secrets SET used_at = $2 WHERE id = $1";
        tx.exec(sql, &[found.about.id.to_string().into(), now.into()]).await?;
        tx.commit().await?;
        Ok(Some(found))
    }

    /// Carries at most `most` secrets from earlier epochs to this one; with the last of them, every seed and prompt. The permit comes
    /// back for what else belongs to the same step.
    pub async fn reseal(
        &self,
        permit: Permit<RotateKeys>,
        epoch: u32,
        most: i64,
        seal: &dyn Reseal,
    ) -> Result<(Carried, Permit<RotateKeys>), StoreError> {
        let mut tx = self.engine.write().await?;
        self.hold_ring(&mut tx).await?;
        let epoch = i64::from(epoch);
        let sql = secret_columns!("WHERE epoch < $1 ORDER BY seq LIMIT $2");
        let rows = tx.rows(sql, &[epoch.into(), most.into()]).await?;
        let mut done = 0;
        for row in &rows {
            let old = SealedSecret { about: about(row)?, sealed: row.blob(8)?.to_vec() };
            let sealed = seal.secret(&old).map_err(|why| {
                let (name, owner) = (&old.about.name, old.about.owner);
                StoreError::Unusable(format!(
                    "the secret `{name}` of {owner} cannot be carried over: {why}; remove it and rotate again"
                ))
            })?;
            let sql = "UPDATE secrets SET sealed = $2, epoch = $3 WHERE id = $1";
            done += tx.exec(sql, &[old.about.id.to_string().into(), sealed.into(), epoch.into()]).await?;
        }
        let left = tx.row("SELECT COUNT(*) FROM secrets WHERE epoch < $1", &[epoch.into()]).await?;
        let mut left = u64::try_from(left.map_or(Ok(0), |row| row.int(0))?).unwrap_or(0);
        if left == 0 {
            let room = most.saturating_sub(i64::try_from(done).unwrap_or(most));
            let (carried, waiting) = reseal_artifacts(&mut tx, epoch, room, seal).await?;
            (done, left) = (done + carried, waiting);
        }
        let damaged = damaged(&mut tx, epoch).await?;
        if left == 0 {
            done += reseal_seeds(&mut tx, seal).await?;
            done +=
                reseal_prompts(&mut tx, epoch, |task, session, old| seal.prompt(task, session, old)).await?;
        }
        tx.commit().await?;
        Ok((Carried { done, left, damaged }, permit))
    }
}

/// Nobody has more than so many.
pub(crate) async fn room_for_secret(tx: &mut Tx, owner: &str) -> Result<(), StoreError> {
    let count = tx.row("SELECT COUNT(*) FROM secrets WHERE owner = $1", &[owner.into()]).await?;
    match count.map_or(Ok(0), |row| row.int(0))? {
        count if count >= MOST => Err(StoreError::Full("secrets", MOST)),
        _ => Ok(()),
    }
}

async fn reseal_seeds(tx: &mut Tx, seal: &dyn Reseal) -> Result<u64, StoreError> {
    let mut done = 0;
    for row in tx.rows("SELECT id, totp FROM users WHERE totp IS NOT NULL ORDER BY id", &[]).await? {
        let user: UserId = parsed(&row, 0)?;
        let sealed = seal.seed(user, row.blob(1)?).map_err(|why| {
            StoreError::Unusable(format!(
                "the one-time-password seed of {user} cannot be carried over: {why}; reset it and rotate again"
            ))
        })?;
        if let Some(sealed) = sealed {
            // One that was changed meanwhile is of the current epoch, and stays.
            let sql = "UPDATE users SET totp = $2 WHERE id = $1 AND totp = $3";
            let old = row.blob(1)?.to_vec();
            done += tx.exec(sql, &[user.to_string().into(), sealed.into(), old.into()]).await?;
        }
    }
    Ok(done)
}

/// What belonged to someone, or to a worktree, goes with them.
pub(crate) async fn forget_secrets(tx: &mut Tx, owner: SecretOwner) -> Result<u64, EngineError> {
    tx.exec("DELETE FROM secrets WHERE owner = $1", &[owner.to_string().into()]).await
}

fn hosts_text(hosts: &[HostPattern]) -> String {
    hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn about(row: &Row) -> Result<SecretRow, EngineError> {
    let hosts = row.text(3)?.split(' ').filter(|host| !host.is_empty());
    Ok(SecretRow {
        id: parsed(row, 0)?,
        owner: parsed(row, 1)?,
        name: parsed(row, 2)?,
        hosts: hosts.map(str::parse).collect::<Result<_, _>>().map_err(|_| odd(3))?,
        created_by: parsed(row, 4)?,
        created_at: row.int(5)?,
        expires: row.opt_int(6)?,
        used_at: row.opt_int(7)?,
    })
}
