//! Users, and what a user does to the own account.

use std::sync::Arc;

use access::{
    Act, Action, Asks, AuthError, BadPassword, ChangePassword, ChangeTotp, CreateUser, DeleteUser,
    DisableUser, EndAllSignIns, EndSignIn, ListUsers, PasswordHash, Principal, ReadUser, ResetPassword,
    Resource, TotpSeed, UpdateUser,
};
use model::{DisplayName, Email, Role, UserId};
use store::{Store, StoreError, User};
use tokio::sync::OwnedRwLockReadGuard;
use vault::Secret;

use crate::{ActError, Page, Runtime};

/// How a new user will sign in.
#[derive(Debug)]
pub enum PasswordSource {
    /// With this password.
    Plain(Secret<String>),
    /// With the password behind this bcrypt hash of another system.
    Bcrypt(String),
}

/// Why an account was not made or changed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The gate or the store refused.
    #[error(transparent)]
    Act(#[from] ActError),
    /// The caller did not prove who they are once more.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The new password does not do.
    #[error(transparent)]
    Password(#[from] BadPassword),
}

/// What a caller shows to prove once more who they are.
#[derive(Debug)]
pub struct Proof<'a> {
    /// The present password.
    pub password: Secret<String>,
    /// The one-time password, where turned on.
    pub totp: Option<&'a str>,
    /// The address that attempts count against.
    pub peer: &'a str,
}

impl Runtime {
    /// Turns what was given into what is stored. It is costly, so the gate has been asked before.
    async fn hash(
        &self,
        who: &Principal,
        action: &'static Action,
        source: PasswordSource,
    ) -> Result<PasswordHash, BadPassword> {
        let hashed = match source {
            PasswordSource::Plain(password) => self.auth.passwords().hash(password).await,
            PasswordSource::Bcrypt(hash) => self.auth.passwords().import_bcrypt(hash).await,
        };
        if let Err(error) = &hashed {
            self.refuse_malformed(who, action, &error.to_string()).await;
        }
        hashed
    }

    /// Whether the caller may change this about themselves, and shows once more who they are.
    async fn prove(
        &self,
        who: &Principal,
        action: &'static Action,
        proof: Proof<'_>,
    ) -> Result<(), AccountError> {
        let own = Resource::User(who.user());
        self.gate.check(who, action, own, Asks::default()).await.map_err(ActError::from)?;
        let Proof { password, totp, peer } = proof;
        Ok(self.auth.reauthenticate(who, action, password, totp, peer).await?)
    }

    /// One user.
    pub async fn user(&self, who: &Principal, user: UserId) -> Result<User, ActError> {
        let permit = self.look(who, ReadUser { user }).await?;
        Ok(self.store.read_user(permit).await?)
    }

    /// Whether the caller may know of this user.
    pub(crate) async fn knows_user(&self, who: &Principal, user: UserId) -> Result<bool, ActError> {
        let as_of = self.gate.epoch().now();
        let facts = self.gate.user(user).await.map_err(|_| ActError::Interrupted)?;
        Ok(facts.is_some_and(|facts| self.gate.may_read_user(who, user, facts.role, as_of)))
    }

    /// All users whose id begins so.
    pub async fn users(
        &self,
        who: &Principal,
        prefix: &str,
        after: Option<UserId>,
        limit: i64,
    ) -> Result<Page<User, UserId>, ActError> {
        Page::filled(
            limit,
            after,
            |row: &User| row.id,
            |after, take| async move {
                let permit = self.look(who, ListUsers {}).await?;
                Ok(self.store.list_users(permit, after, prefix, take).await?)
            },
            |row, as_of| self.gate.may_read_user(who, row.id, row.role, as_of),
            self.gate.epoch(),
        )
        .await
    }

    /// Creates a user.
    pub async fn create_user(
        self: &Arc<Self>,
        who: &Principal,
        email: Email,
        name: DisplayName,
        role: Role,
        password: PasswordSource,
    ) -> Result<User, AccountError> {
        let (action, asks) = (CreateUser::ACTION, Asks { role: Some(role) });
        self.gate.check(who, action, Resource::Installation, asks).await.map_err(ActError::from)?;
        let hash = self.hash(who, action, password).await?;
        let act = CreateUser { user: UserId::random(), email, name, role, hash };
        let made = self.perform(who, act, async |store: Arc<Store>, permit| store.create_user(permit).await);
        Ok(made.await?)
    }

    /// Changes a user.
    pub async fn update_user(self: &Arc<Self>, who: &Principal, act: UpdateUser) -> Result<User, ActError> {
        self.perform(who, act, async |store: Arc<Store>, permit| store.update_user(permit).await).await
    }

    /// Disables a user.
    pub async fn disable_user(self: &Arc<Self>, who: &Principal, user: UserId) -> Result<(), ActError> {
        self.perform(who, DisableUser { user }, async |store: Arc<Store>, permit| {
            store.disable_user(permit).await
        })
        .await
    }

    /// Deletes a user.
    pub async fn delete_user(self: &Arc<Self>, who: &Principal, user: UserId) -> Result<(), ActError> {
        self.perform(who, DeleteUser { user }, async |store: Arc<Store>, permit| {
            store.delete_user(permit).await
        })
        .await
    }

    /// Sets another user's password.
    pub async fn reset_password(
        self: &Arc<Self>,
        who: &Principal,
        user: UserId,
        password: Secret<String>,
    ) -> Result<(), AccountError> {
        let action = ResetPassword::ACTION;
        self.gate.check(who, action, Resource::User(user), Asks::default()).await.map_err(ActError::from)?;
        let hash = self.hash(who, action, PasswordSource::Plain(password)).await?;
        let act = ResetPassword { user, hash };
        let put =
            self.perform(who, act, async |store: Arc<Store>, permit| store.reset_password(permit).await);
        Ok(put.await?)
    }

    /// Changes the caller's own password.
    pub async fn change_password(
        self: &Arc<Self>,
        who: &Principal,
        proof: Proof<'_>,
        new: Secret<String>,
    ) -> Result<(), AccountError> {
        self.prove(who, ChangePassword::ACTION, proof).await?;
        let hash = self.hash(who, ChangePassword::ACTION, PasswordSource::Plain(new)).await?;
        let act = ChangePassword { user: who.user(), hash };
        let put =
            self.perform(who, act, async |store: Arc<Store>, permit| store.change_password(permit).await);
        Ok(put.await?)
    }

    /// Signs out the login this call came with. A key has none; it is judged all the same.
    pub async fn sign_out(self: &Arc<Self>, who: &Principal) -> Result<(), ActError> {
        let act = EndSignIn { user: who.user(), via: who.via().clone() };
        self.perform(who, act, async |store: Arc<Store>, permit| store.end_sign_in(permit).await).await
    }

    /// Signs a user out everywhere.
    pub async fn sign_out_everywhere(
        self: &Arc<Self>,
        who: &Principal,
        user: UserId,
    ) -> Result<(), ActError> {
        let act = EndAllSignIns { user };
        self.perform(who, act, async |store: Arc<Store>, permit| store.end_all_sign_ins(permit).await).await
    }

    /// A seed for one-time passwords: the link for an app, and the sealed seed that comes back to confirm.
    pub async fn offer_totp(&self, who: &Principal) -> Result<(Secret<String>, Vec<u8>), ActError> {
        let user = self.user(who, who.user()).await?;
        if user.totp {
            return Err(StoreError::InUse("one-time password").into());
        }
        let seed = TotpSeed::random().map_err(|_| ActError::Interrupted)?;
        let sealed = seed.seal(&self.ring, who.user()).ok_or(ActError::Interrupted)?;
        Ok((seed.link(&user.email), sealed))
    }

    /// Turns one-time passwords on, once a code shows that the app has the seed.
    pub async fn confirm_totp(
        self: &Arc<Self>,
        who: &Principal,
        proof: Proof<'_>,
        sealed: Vec<u8>,
        code: &str,
    ) -> Result<(), AccountError> {
        self.prove(who, ChangeTotp::ACTION, proof).await?;
        // Until it is committed: a rotation must not let its epoch go meanwhile.
        let sealing = Arc::clone(&self.sealing).read_owned().await;
        let step = TotpSeed::open(&self.ring, who.user(), sealed.clone())
            .and_then(|seed| seed.step_of(code, self.clock.now()));
        // It was offered before: a rotation that was begun since has carried the seeds over without it.
        let current = TotpSeed::carry_over(&self.ring, who.user(), &sealed).ok();
        match step.zip(current) {
            Some((step, current)) => {
                let sealed = current.unwrap_or(sealed);
                Ok(self.change_totp(who, Some(sealed), step, Some(sealing)).await?)
            }
            None => {
                self.refuse_malformed(who, ChangeTotp::ACTION, "the code does not fit the seed").await;
                Err(AuthError::Invalid.into())
            }
        }
    }

    /// Turns one-time passwords off.
    pub async fn remove_totp(
        self: &Arc<Self>,
        who: &Principal,
        proof: Proof<'_>,
    ) -> Result<(), AccountError> {
        self.prove(who, ChangeTotp::ACTION, proof).await?;
        Ok(self.change_totp(who, None, 0, None).await?)
    }

    async fn change_totp(
        self: &Arc<Self>,
        who: &Principal,
        sealed_seed: Option<Vec<u8>>,
        used_step: i64,
        sealing: Option<OwnedRwLockReadGuard<()>>,
    ) -> Result<(), ActError> {
        let act = ChangeTotp { user: who.user(), sealed_seed, used_step };
        // The guard goes with the effect, which goes on when the caller does not wait for it.
        let effect = async move |store: Arc<Store>, permit| {
            let changed = store.change_totp(permit).await;
            drop(sealing);
            changed
        };
        self.perform(who, act, effect).await
    }
}
