//! Users: rows, lists, and what changes them.

use access::{
    ChangePassword, ChangeTotp, CreateUser, DeleteUser, DisableUser, EndAllSignIns, EndSignIn, ListUsers,
    Permit, ReadUser, ResetPassword, UpdateUser, Via,
};
use model::{DisplayName, Email, EventKind, Millis, Role, SecretOwner, UserId};

use crate::engine::{EngineError, Row, Tx, Value};
use crate::keys::end_key;
use crate::secrets::forget_secrets;
use crate::store::{parsed, taken};
use crate::{Store, StoreError};

/// A user as others may see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Which.
    pub id: UserId,
    /// Address.
    pub email: Email,
    /// How they are shown.
    pub name: DisplayName,
    /// What they are.
    pub role: Role,
    /// Whether they may act.
    pub enabled: bool,
    /// Whether they use one-time passwords.
    pub totp: bool,
    /// Since when.
    pub created_at: Millis,
}

macro_rules! user_columns {
    ($rest:literal) => {
        concat!("SELECT id, email, name, role, enabled, CASE WHEN totp IS NULL THEN 0 ELSE 1 END, created_at FROM users ", $rest)
    };
}

impl Store {
    /// One user.
    pub async fn read_user(&self, permit: Permit<ReadUser>) -> Result<User, StoreError> {
        self.user_row(permit.into_act().user).await?.ok_or(StoreError::Missing("user"))
    }

    /// Users after a cursor, in the order they came.
    pub async fn list_users(
        &self,
        _permit: Permit<ListUsers>,
        after: Option<UserId>,
        prefix: &str,
        limit: i64,
    ) -> Result<Vec<User>, StoreError> {
        let sql = user_columns!(
            "WHERE deleted_at IS NULL AND seq > COALESCE((SELECT seq FROM users WHERE id = $1), 0) \
             AND substr(id, 1, length($2)) = $2 ORDER BY seq LIMIT $3"
        );
        let args = [after.map(|id| id.to_string()).into(), prefix.into(), limit.into()];
        let rows = self.engine.rows(sql, &args).await?;
        Ok(rows.iter().map(user).collect::<Result<_, _>>()?)
    }

    /// Creates a user.
    pub async fn create_user(&self, permit: Permit<CreateUser>) -> Result<User, StoreError> {
        let act = permit.into_act();
        let mut tx = self.engine.write().await?;
        let new = NewUser {
            id: act.user,
            email: &act.email,
            name: &act.name,
            role: act.role,
            password: act.hash.stored(),
        };
        insert_user(&mut tx, new, self.clock.now()).await?;
        let event = self.event(&mut tx, EventKind::UserCreated, None, Some(act.user)).await?;
        let row = user_in(&mut tx, act.user).await?;
        self.commit(tx, event).await?;
        Ok(row)
    }

    /// Changes name or role, or enables.
    pub async fn update_user(&self, permit: Permit<UpdateUser>) -> Result<User, StoreError> {
        let act = permit.into_act();
        let id = act.user.to_string();
        let mut tx = self.engine.write().await?;
        if let Some(name) = &act.name {
            let sql = "UPDATE users SET name = $2 WHERE id = $1 AND deleted_at IS NULL";
            tx.exec(sql, &[id.as_str().into(), name.as_str().into()]).await?;
        }
        if let Some(role) = act.role {
            if role != Role::Owner {
                keep_an_owner(&mut tx, act.user).await?;
            }
            let sql = "UPDATE users SET role = $2, version = version + 1 WHERE id = $1 AND role <> $2 AND deleted_at IS NULL";
            if tx.exec(sql, &[id.as_str().into(), role.word().into()]).await? > 0 {
                self.sign_out(&mut tx, act.user).await?;
            }
        }
        if act.enable {
            let sql = "UPDATE users SET enabled = 1 WHERE id = $1 AND deleted_at IS NULL";
            tx.exec(sql, &[id.as_str().into()]).await?;
        }
        let event = self.event(&mut tx, EventKind::UserChanged, None, Some(act.user)).await?;
        let row = user_in(&mut tx, act.user).await?;
        self.commit(tx, event).await?;
        Ok(row)
    }

    /// Disables a user; what they have open ends.
    pub async fn disable_user(&self, permit: Permit<DisableUser>) -> Result<(), StoreError> {
        let user = permit.into_act().user;
        let mut tx = self.engine.write().await?;
        keep_an_owner(&mut tx, user).await?;
        let sql = "UPDATE users SET enabled = 0, version = version + 1 WHERE id = $1";
        tx.exec(sql, &[user.to_string().into()]).await?;
        self.sign_out(&mut tx, user).await?;
        let event = self.event(&mut tx, EventKind::UserChanged, None, Some(user)).await?;
        Ok(self.commit(tx, event).await?)
    }

    /// Deletes a user: the row stays so that the record keeps its meaning, everything personal goes.
    pub async fn delete_user(&self, permit: Permit<DeleteUser>) -> Result<(), StoreError> {
        let user = permit.into_act().user;
        let (id, now) = (user.to_string(), self.clock.now());
        let mut tx = self.engine.write().await?;
        keep_an_owner(&mut tx, user).await?;
        let sql = "UPDATE users SET enabled = 0, version = version + 1, email = NULL, name = 'deleted', password = '', \
                   totp = NULL, deleted_at = $2 WHERE id = $1";
        tx.exec(sql, &[id.as_str().into(), now.into()]).await?;
        forget_secrets(&mut tx, SecretOwner::User(user)).await?;
        self.sign_out(&mut tx, user).await?;
        let event = self.event(&mut tx, EventKind::UserDeleted, None, Some(user)).await?;
        Ok(self.commit(tx, event).await?)
    }

    /// Changes the caller's own password; every login ends.
    pub async fn change_password(&self, permit: Permit<ChangePassword>) -> Result<(), StoreError> {
        let act = permit.into_act();
        self.put_password(act.user, act.hash.stored()).await
    }

    /// Sets another user's password; every login of theirs ends.
    pub async fn reset_password(&self, permit: Permit<ResetPassword>) -> Result<(), StoreError> {
        let act = permit.into_act();
        self.put_password(act.user, act.hash.stored()).await
    }

    /// Turns one-time passwords on or off. One seed does not replace another: it is turned off first.
    pub async fn change_totp(&self, permit: Permit<ChangeTotp>) -> Result<(), StoreError> {
        let act = permit.into_act();
        let mut tx = self.engine.write().await?;
        if act.sealed_seed.is_some() {
            self.hold_ring(&mut tx).await?;
        }
        let sql = match act.sealed_seed {
            Some(_) => "UPDATE users SET totp = $2, totp_step = $3 WHERE id = $1 AND totp IS NULL",
            None => "UPDATE users SET totp = $2, totp_step = $3 WHERE id = $1",
        };
        let args = [act.user.to_string().into(), act.sealed_seed.into(), act.used_step.into()];
        if tx.exec(sql, &args).await? == 0 {
            return Err(StoreError::InUse("one-time password"));
        }
        Ok(tx.commit().await?)
    }

    /// Ends one login.
    pub async fn end_sign_in(&self, permit: Permit<EndSignIn>) -> Result<(), StoreError> {
        let act = permit.into_act();
        let mut tx = self.engine.write().await?;
        match act.via {
            Via::Login(family) => {
                let sql =
                    "UPDATE families SET ended_at = $3 WHERE id = $1 AND user_id = $2 AND ended_at IS NULL";
                let args = [(*family).into(), act.user.to_string().into(), self.clock.now().into()];
                tx.exec(sql, &args).await?;
            }
            Via::Key(key) => end_key(&mut tx, key, self.clock.now()).await?,
            // The policies let no Pass do this.
            Via::Pass(_) => return Err(StoreError::Missing("pass")),
        }
        Ok(tx.commit().await?)
    }

    /// Ends every login of a user.
    pub async fn end_all_sign_ins(&self, permit: Permit<EndAllSignIns>) -> Result<(), StoreError> {
        let user = permit.into_act().user;
        let mut tx = self.engine.write().await?;
        tx.exec("UPDATE users SET version = version + 1 WHERE id = $1", &[user.to_string().into()]).await?;
        self.sign_out(&mut tx, user).await?;
        Ok(tx.commit().await?)
    }

    async fn put_password(&self, user: UserId, stored: &str) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        let sql =
            "UPDATE users SET password = $2, version = version + 1 WHERE id = $1 AND deleted_at IS NULL";
        if tx.exec(sql, &[user.to_string().into(), stored.into()]).await? == 0 {
            return Err(StoreError::Missing("user"));
        }
        self.sign_out(&mut tx, user).await?;
        Ok(tx.commit().await?)
    }

    /// Ends all that a user has open: logins, keys, pairing codes, and the Passes that carry a part of their
    /// authority.
    async fn sign_out(&self, tx: &mut Tx, user: UserId) -> Result<(), EngineError> {
        for sql in [
            "UPDATE families SET ended_at = $2 WHERE user_id = $1 AND ended_at IS NULL",
            "UPDATE api_keys SET revoked_at = $2 WHERE user_id = $1 AND revoked_at IS NULL",
            "UPDATE passes SET revoked_at = $2 WHERE user_id = $1 AND revoked_at IS NULL",
        ] {
            tx.exec(sql, &[user.to_string().into(), self.clock.now().into()]).await?;
        }
        tx.exec("DELETE FROM pairings WHERE user_id = $1", &[user.to_string().into()]).await?;
        Ok(())
    }

    async fn user_row(&self, id: UserId) -> Result<Option<User>, EngineError> {
        let sql = user_columns!("WHERE id = $1 AND deleted_at IS NULL");
        self.engine.row(sql, &[id.to_string().into()]).await?.as_ref().map(user).transpose()
    }
}

/// The row as the change leaves it: read before the commit, so that nothing can fail after it.
async fn user_in(tx: &mut Tx, id: UserId) -> Result<User, StoreError> {
    let sql = user_columns!("WHERE id = $1 AND deleted_at IS NULL");
    let row = tx.row(sql, &[id.to_string().into()]).await?.as_ref().map(user).transpose()?;
    row.ok_or(StoreError::Missing("user"))
}

pub(crate) struct NewUser<'a> {
    pub(crate) id: UserId,
    pub(crate) email: &'a Email,
    pub(crate) name: &'a DisplayName,
    pub(crate) role: Role,
    pub(crate) password: &'a str,
}

pub(crate) async fn insert_user(tx: &mut Tx, new: NewUser<'_>, now: Millis) -> Result<(), StoreError> {
    let seq = tx.next("users").await?;
    let args: [Value; 7] = [
        new.id.to_string().into(),
        seq.into(),
        new.email.as_str().into(),
        new.name.as_str().into(),
        new.role.word().into(),
        new.password.into(),
        now.into(),
    ];
    let sql = "INSERT INTO users (id, seq, email, name, role, enabled, version, password, totp_step, created_at) \
               VALUES ($1, $2, $3, $4, $5, 1, 0, $6, 0, $7)";
    tx.exec(sql, &args).await.map_err(taken("email"))?;
    Ok(())
}

/// Refuses to take the last enabled owner away. The counter's row lock makes this hold under concurrency.
async fn keep_an_owner(tx: &mut Tx, without: UserId) -> Result<(), StoreError> {
    tx.next("owner-changes").await?;
    let sql =
        "SELECT COUNT(*) FROM users WHERE role = 'owner' AND enabled = 1 AND deleted_at IS NULL AND id <> $1";
    let id: Value = without.to_string().into();
    let others = tx.row(sql, std::slice::from_ref(&id)).await?.map_or(Ok(0), |row| row.int(0))?;
    let sql = "SELECT COUNT(*) FROM users WHERE id = $1 AND role = 'owner' AND enabled = 1";
    let is_owner = tx.row(sql, &[id]).await?.map_or(Ok(0), |row| row.int(0))? > 0;
    if is_owner && others == 0 { Err(StoreError::Last("owner")) } else { Ok(()) }
}

fn user(row: &Row) -> Result<User, EngineError> {
    Ok(User {
        id: parsed(row, 0)?,
        email: parsed(row, 1)?,
        name: parsed(row, 2)?,
        role: parsed(row, 3)?,
        enabled: row.flag(4)?,
        totp: row.flag(5)?,
        created_at: row.int(6)?,
    })
}
