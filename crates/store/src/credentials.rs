//! What `access` keeps: logins, refresh tokens, attempts, the set-up secret. Implements [`access::Backing`].

use access::{
    Account, AddedPolicy, Admission, Attempt, Backing, KeptKey, KeyFacts, NewDevice, NewOwner, NewRefresh,
    PairingRow, PassFacts, PasswordHash, RefreshRow, Scope, Unavailable, UserFacts, Warrant, Window,
    WorktreeFacts,
};
use model::{Email, KeyId, Millis, PassId, RepoId, Role, SessionId, UserId, WorktreeId};

use crate::Store;
use crate::engine::{EngineError, Row, RowError, Tx};
use crate::keys::insert_key;
use crate::store::{odd, parsed, unavailable};
use crate::users::{NewUser, insert_user};

type Answer<T> = Result<T, Unavailable>;

/// Expired tokens are forgotten this long after their end.
const FORGET_TOKENS: Millis = 24 * 60 * 60 * 1_000;

impl Backing for Store {
    async fn user(&self, id: UserId) -> Answer<Option<UserFacts>> {
        let sql = "SELECT id, role, enabled, version FROM users WHERE id = $1 AND deleted_at IS NULL";
        let row = self.engine.row(sql, &[id.to_string().into()]).await.map_err(unavailable)?;
        row.as_ref().map(user_facts).transpose().map_err(unavailable)
    }

    async fn account(&self, email: &Email) -> Answer<Option<Account>> {
        let sql = "SELECT id, role, enabled, version, password, totp, email FROM users WHERE email = $1 AND deleted_at IS NULL";
        let row = self.engine.row(sql, &[email.as_str().into()]).await.map_err(unavailable)?;
        row.as_ref().map(account).transpose().map_err(unavailable)
    }

    async fn account_of(&self, id: UserId) -> Answer<Option<Account>> {
        let sql = "SELECT id, role, enabled, version, password, totp, email FROM users WHERE id = $1 AND deleted_at IS NULL";
        let row = self.engine.row(sql, &[id.to_string().into()]).await.map_err(unavailable)?;
        row.as_ref().map(account).transpose().map_err(unavailable)
    }

    async fn worktree(&self, id: WorktreeId) -> Answer<Option<WorktreeFacts>> {
        let sql = "SELECT id, tier, archived_at, deleted_at, \
                   (SELECT string_agg(user_id, ' ') FROM worktree_owners o WHERE o.worktree = w.id), w.shares \
                   FROM worktrees w WHERE id = $1";
        let row = self.engine.row(sql, &[id.to_string().into()]).await.map_err(unavailable)?;
        row.as_ref().map(worktree_facts).transpose().map_err(unavailable)
    }

    async fn session(&self, id: SessionId) -> Answer<Option<(WorktreeId, UserId)>> {
        let sql = "SELECT worktree, creator FROM sessions WHERE id = $1";
        let row = self.engine.row(sql, &[id.to_string().into()]).await.map_err(unavailable)?;
        let facts = |row: &Row| Ok::<_, EngineError>((parsed(row, 0)?, parsed(row, 1)?));
        row.as_ref().map(facts).transpose().map_err(unavailable)
    }

    async fn repo_exists(&self, id: RepoId) -> Answer<bool> {
        let row = self.engine.row("SELECT 1 FROM repos WHERE id = $1", &[id.to_string().into()]).await;
        Ok(row.map_err(unavailable)?.is_some())
    }

    async fn key(&self, id: KeyId) -> Answer<Option<KeyFacts>> {
        let sql = "SELECT id, user_id, scope, expires, digest, revoked_at FROM api_keys WHERE id = $1";
        let row = self.engine.row(sql, &[id.to_string().into()]).await.map_err(unavailable)?;
        row.as_ref().map(key_facts).transpose().map_err(unavailable)
    }

    async fn pass(&self, id: PassId) -> Answer<Option<PassFacts>> {
        let sql = "SELECT id, user_id, parent, authority, revoked_at FROM passes WHERE id = $1";
        let row = self.engine.row(sql, &[id.to_string().into()]).await.map_err(unavailable)?;
        row.as_ref().map(pass_facts).transpose().map_err(unavailable)
    }

    async fn added_policies(&self) -> Answer<Vec<AddedPolicy>> {
        let rows = self
            .engine
            .rows("SELECT id, text FROM added_policies ORDER BY id", &[])
            .await
            .map_err(unavailable)?;
        let policy =
            |row: &Row| Ok(AddedPolicy { id: row.text(0)?.to_owned(), text: row.text(1)?.to_owned() });
        rows.iter().map(policy).collect::<Result<_, RowError>>().map_err(unavailable)
    }

    async fn any_user(&self) -> Answer<bool> {
        let row = self.engine.row("SELECT 1 FROM users LIMIT 1", &[]).await;
        Ok(row.map_err(unavailable)?.is_some())
    }

    async fn put_bootstrap(&self, _: &Warrant, digest: &str, expires: Millis) -> Answer<()> {
        let mut tx = self.engine.write().await.map_err(unavailable)?;
        let sql = "INSERT INTO bootstrap (id, digest, expires) VALUES (1, $1, $2) \
                   ON CONFLICT (id) DO UPDATE SET digest = excluded.digest, expires = excluded.expires";
        tx.exec(sql, &[digest.into(), expires.into()]).await.map_err(unavailable)?;
        tx.commit().await.map_err(unavailable)
    }

    async fn bootstrap_fits(&self, digest: &str, now: Millis) -> Answer<bool> {
        let sql = "SELECT 1 FROM bootstrap WHERE digest = $1 AND expires > $2";
        Ok(self.engine.row(sql, &[digest.into(), now.into()]).await.map_err(unavailable)?.is_some())
    }

    async fn take_bootstrap(&self, _: &Warrant, digest: &str, owner: NewOwner) -> Answer<bool> {
        let mut tx = self.engine.write().await.map_err(unavailable)?;
        let sql = "DELETE FROM bootstrap WHERE digest = $1 AND expires > $2";
        let taken = tx.exec(sql, &[digest.into(), owner.now.into()]).await.map_err(unavailable)?;
        let users = tx.row("SELECT 1 FROM users LIMIT 1", &[]).await.map_err(unavailable)?;
        if taken != 1 || users.is_some() {
            return Ok(false);
        }
        let new = NewUser {
            id: owner.user,
            email: &owner.email,
            name: &owner.name,
            role: Role::Owner,
            password: owner.password.stored(),
        };
        insert_user(&mut tx, new, owner.now).await.map_err(unavailable)?;
        let event = self
            .event(&mut tx, model::EventKind::UserCreated, None, Some(owner.user))
            .await
            .map_err(unavailable)?;
        self.commit(tx, event).await.map_err(unavailable)?;
        self.publish();
        Ok(true)
    }

    async fn admit_attempt(&self, _: &Warrant, attempt: &Attempt) -> Answer<Admission> {
        let mut tx = self.engine.write().await.map_err(unavailable)?;
        // One at a time: the counter's row is locked until this is committed.
        tx.next("attempts").await.map_err(unavailable)?;
        let mut wait: Option<Millis> = None;
        for subject in &attempt.subjects {
            for (window, sql) in [
                (
                    attempt.failures,
                    "SELECT COUNT(*), MIN(at) FROM attempts WHERE subject = $1 AND at > $2 AND failed = 1",
                ),
                (attempt.attempts, "SELECT COUNT(*), MIN(at) FROM attempts WHERE subject = $1 AND at > $2"),
            ] {
                let until =
                    blocked_until(&mut tx, sql, subject, window, attempt.at).await.map_err(unavailable)?;
                wait = wait.max(until);
            }
        }
        if let Some(time) = wait {
            return Ok(Admission::NotBefore(time));
        }
        let forget = attempt.at.saturating_sub(attempt.attempts.span.max(attempt.failures.span));
        tx.exec("DELETE FROM attempts WHERE at <= $1", &[forget.into()]).await.map_err(unavailable)?;
        for subject in &attempt.subjects {
            let sql = "INSERT INTO attempts (id, subject, at, failed) VALUES ($1, $2, $3, 1)";
            let args = [attempt.id.as_str().into(), subject.as_str().into(), attempt.at.into()];
            tx.exec(sql, &args).await.map_err(unavailable)?;
        }
        tx.commit().await.map_err(unavailable)?;
        Ok(Admission::Admitted)
    }

    async fn clear_attempt(&self, _: &Warrant, id: &str) -> Answer<()> {
        let mut tx = self.engine.write().await.map_err(unavailable)?;
        tx.exec("UPDATE attempts SET failed = 0 WHERE id = $1", &[id.into()]).await.map_err(unavailable)?;
        tx.commit().await.map_err(unavailable)
    }

    async fn open_family(&self, _: &Warrant, first: NewRefresh) -> Answer<()> {
        let mut tx = self.engine.write().await.map_err(unavailable)?;
        let forget = first.issued.saturating_sub(FORGET_TOKENS);
        tx.exec("DELETE FROM refresh_tokens WHERE expires < $1", &[forget.into()])
            .await
            .map_err(unavailable)?;
        let sql = "INSERT INTO families (id, user_id, opened_at) VALUES ($1, $2, $3)";
        let args = [first.family.as_str().into(), first.user.to_string().into(), first.issued.into()];
        tx.exec(sql, &args).await.map_err(unavailable)?;
        insert_refresh(&mut tx, &first).await.map_err(unavailable)?;
        tx.commit().await.map_err(unavailable)
    }

    async fn refresh(&self, digest: &str) -> Answer<Option<RefreshRow>> {
        let sql = "SELECT r.family, r.user_id, r.expires, r.used_at, r.version, f.ended_at \
                   FROM refresh_tokens r JOIN families f ON f.id = r.family WHERE r.digest = $1";
        let row = self.engine.row(sql, &[digest.into()]).await.map_err(unavailable)?;
        row.as_ref().map(refresh_row).transpose().map_err(unavailable)
    }

    async fn rotate(&self, _: &Warrant, used: &str, next: NewRefresh) -> Answer<bool> {
        let mut tx = self.engine.write().await.map_err(unavailable)?;
        // Touching the family's row keeps it from being ended between this look and the commit.
        let sql = "UPDATE families SET ended_at = ended_at WHERE id = $1 AND ended_at IS NULL";
        if tx.exec(sql, &[next.family.as_str().into()]).await.map_err(unavailable)? != 1 {
            return Ok(false);
        }
        let sql = "UPDATE refresh_tokens SET used_at = $2 WHERE digest = $1 AND used_at IS NULL";
        tx.exec(sql, &[used.into(), next.issued.into()]).await.map_err(unavailable)?;
        insert_refresh(&mut tx, &next).await.map_err(unavailable)?;
        tx.commit().await.map_err(unavailable)?;
        Ok(true)
    }

    async fn end_family(&self, _: &Warrant, family: &str) -> Answer<bool> {
        let mut tx = self.engine.write().await.map_err(unavailable)?;
        let sql = "UPDATE families SET ended_at = $2 WHERE id = $1 AND ended_at IS NULL";
        let ended = tx.exec(sql, &[family.into(), self.clock.now().into()]).await.map_err(unavailable)?;
        tx.commit().await.map_err(unavailable)?;
        Ok(ended == 1)
    }

    async fn family_live(&self, family: &str) -> Answer<bool> {
        let sql = "SELECT 1 FROM families WHERE id = $1 AND ended_at IS NULL";
        Ok(self.engine.row(sql, &[family.into()]).await.map_err(unavailable)?.is_some())
    }

    async fn pairing(&self, digest: &str) -> Answer<Option<PairingRow>> {
        let sql = "SELECT digest, user_id, version, key_life, expires FROM pairings WHERE digest = $1";
        let row = self.engine.row(sql, &[digest.into()]).await.map_err(unavailable)?;
        row.as_ref().map(pairing_row).transpose().map_err(unavailable)
    }

    async fn take_pairing(&self, _: &Warrant, digest: &str, device: NewDevice) -> Answer<Option<KeptKey>> {
        let mut tx = self.engine.write().await.map_err(unavailable)?;
        let sql = "SELECT p.user_id, p.label, p.scope FROM pairings p JOIN users u ON u.id = p.user_id \
                   WHERE p.digest = $1 AND p.expires > $2 AND u.version = p.version AND u.enabled = 1 \
                   AND u.deleted_at IS NULL";
        let args = [digest.into(), device.now.into()];
        let Some(row) = tx.row(sql, &args).await.map_err(unavailable)? else { return Ok(None) };
        // Of several at once, the one that removes the row has it.
        let sql = "DELETE FROM pairings WHERE digest = $1";
        if tx.exec(sql, &[digest.into()]).await.map_err(unavailable)? != 1 {
            return Ok(None);
        }
        let paired = paired(&row, &device).map_err(unavailable)?;
        insert_key(&mut tx, &paired, &device.digest).await.map_err(unavailable)?;
        tx.commit().await.map_err(unavailable)?;
        Ok(Some(paired))
    }

    async fn use_totp_step(&self, _: &Warrant, user: UserId, step: i64) -> Answer<bool> {
        let mut tx = self.engine.write().await.map_err(unavailable)?;
        let sql = "UPDATE users SET totp_step = $2 WHERE id = $1 AND totp_step < $2";
        let used = tx.exec(sql, &[user.to_string().into(), step.into()]).await.map_err(unavailable)?;
        tx.commit().await.map_err(unavailable)?;
        Ok(used == 1)
    }

    async fn imported_cost(&self) -> Answer<Option<u32>> {
        // `bcrypt+$2b$12$…`: two digits, so the greatest text is the greatest number.
        let sql = "SELECT MAX(substr(password, 12, 2)) FROM users WHERE password LIKE 'bcrypt+%' AND deleted_at IS NULL";
        let row = self.engine.row(sql, &[]).await.map_err(unavailable)?;
        let cost = row.as_ref().map(|row| row.opt_text(0)).transpose().map_err(unavailable)?.flatten();
        cost.map(|text| text.parse().map_err(|_| unavailable(odd(0)))).transpose()
    }

    async fn rehash(&self, _: &Warrant, user: UserId, old: &str, hash: &PasswordHash) -> Answer<()> {
        let mut tx = self.engine.write().await.map_err(unavailable)?;
        let sql = "UPDATE users SET password = $2 WHERE id = $1 AND password = $3";
        let args = [user.to_string().into(), hash.stored().into(), old.into()];
        tx.exec(sql, &args).await.map_err(unavailable)?;
        tx.commit().await.map_err(unavailable)
    }

    async fn touch_key(&self, _: &Warrant, key: KeyId, at: Millis) -> Answer<()> {
        let mut tx = self.engine.write().await.map_err(unavailable)?;
        tx.exec("UPDATE api_keys SET used_at = $2 WHERE id = $1", &[key.to_string().into(), at.into()])
            .await
            .map_err(unavailable)?;
        tx.commit().await.map_err(unavailable)
    }
}

async fn insert_refresh(tx: &mut Tx, new: &NewRefresh) -> Result<(), EngineError> {
    let sql = "INSERT INTO refresh_tokens (digest, family, user_id, issued_at, expires, version) VALUES ($1, $2, $3, $4, $5, $6)";
    let args = [
        new.digest.as_str().into(),
        new.family.as_str().into(),
        new.user.to_string().into(),
        new.issued.into(),
        new.expires.into(),
        new.version.into(),
    ];
    tx.exec(sql, &args).await.map(drop)
}

/// When a subject may try again, if its window is full.
async fn blocked_until(
    tx: &mut Tx,
    sql: &'static str,
    subject: &str,
    window: Window,
    now: Millis,
) -> Result<Option<Millis>, EngineError> {
    let row = tx.row(sql, &[subject.into(), now.saturating_sub(window.span).into()]).await?;
    let Some(row) = row else { return Ok(None) };
    let oldest = row.opt_int(1)?.unwrap_or(now);
    Ok((row.int(0)? >= window.most).then(|| oldest.saturating_add(window.span)))
}

fn user_facts(row: &Row) -> Result<UserFacts, EngineError> {
    Ok(UserFacts { id: parsed(row, 0)?, role: parsed(row, 1)?, enabled: row.flag(2)?, version: row.int(3)? })
}

fn account(row: &Row) -> Result<Account, EngineError> {
    let totp = row.opt_blob(5)?.map(<[u8]>::to_vec);
    Ok(Account { facts: user_facts(row)?, email: parsed(row, 6)?, password: row.text(4)?.to_owned(), totp })
}

pub(crate) fn owners(row: &Row, index: usize) -> Result<Vec<UserId>, EngineError> {
    let names = row.opt_text(index)?.unwrap_or_default();
    let mut owners = names
        .split_ascii_whitespace()
        .map(|name| name.parse().map_err(|_| EngineError::from(odd(index))))
        .collect::<Result<Vec<UserId>, _>>()?;
    owners.sort();
    Ok(owners)
}

fn worktree_facts(row: &Row) -> Result<WorktreeFacts, EngineError> {
    Ok(WorktreeFacts {
        id: parsed(row, 0)?,
        tier: parsed(row, 1)?,
        archived: row.opt_int(2)?.is_some(),
        deleted: row.opt_int(3)?.is_some(),
        owners: owners(row, 4)?,
        shares: row.flag(5)?,
    })
}

fn key_facts(row: &Row) -> Result<KeyFacts, EngineError> {
    let scope = Scope::from_word(row.text(2)?).ok_or(odd(2))?;
    Ok(KeyFacts {
        id: parsed(row, 0)?,
        user: parsed(row, 1)?,
        scope,
        expires: row.int(3)?,
        digest: row.text(4)?.to_owned(),
        revoked: row.opt_int(5)?.is_some(),
    })
}

fn pass_facts(row: &Row) -> Result<PassFacts, EngineError> {
    let parent = row.opt_text(2)?.map(str::parse).transpose().map_err(|_| odd(2))?;
    let grant = serde_json::from_str(row.text(3)?).map_err(|_| odd(3))?;
    Ok(PassFacts {
        id: parsed(row, 0)?,
        user: parsed(row, 1)?,
        parent,
        grant,
        revoked: row.opt_int(4)?.is_some(),
    })
}

fn refresh_row(row: &Row) -> Result<RefreshRow, EngineError> {
    Ok(RefreshRow {
        family: row.text(0)?.to_owned(),
        user: parsed(row, 1)?,
        expires: row.int(2)?,
        used: row.opt_int(3)?,
        version: row.int(4)?,
        family_live: row.opt_int(5)?.is_none(),
    })
}

fn pairing_row(row: &Row) -> Result<PairingRow, EngineError> {
    Ok(PairingRow {
        digest: row.text(0)?.to_owned(),
        user: parsed(row, 1)?,
        version: row.int(2)?,
        key_life: row.int(3)?,
        expires: row.int(4)?,
    })
}

fn paired(row: &Row, device: &NewDevice) -> Result<KeptKey, EngineError> {
    Ok(KeptKey {
        key: device.key,
        user: parsed(row, 0)?,
        label: parsed(row, 1)?,
        scope: Scope::from_word(row.text(2)?).ok_or(odd(2))?,
        created_at: device.now,
        expires: device.expires,
    })
}
