//! Users, and what a user does to the own account.

use std::sync::Arc;

use access::{
    AuthError, BadPassword, ChangePassword, ChangeTotp, CreateUser, DeleteUser, DisableUser, EndAllSignIns,
    EndSignIn, ListUsers, PasswordHash, Principal, ReadUser, ResetPassword, TotpSeed, UpdateUser, Via,
};
use model::{DisplayName, Email, Role, UserId};
use store::{Store, User};
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

impl Runtime {
    /// Turns what was given into what is stored.
    pub async fn hash(&self, source: PasswordSource) -> Result<PasswordHash, BadPassword> {
        match source {
            PasswordSource::Plain(password) => self.auth.passwords().hash(password).await,
            PasswordSource::Bcrypt(hash) => self.auth.passwords().import_bcrypt(hash).await,
        }
    }

    /// One user.
    pub async fn user(&self, who: &Principal, user: UserId) -> Result<User, ActError> {
        let permit = self.look(who, ReadUser { user }).await?;
        Ok(self.store.read_user(permit).await?)
    }

    /// All users whose id begins so.
    pub async fn users(
        &self,
        who: &Principal,
        prefix: &str,
        after: Option<UserId>,
        limit: i64,
    ) -> Result<Page<User, UserId>, ActError> {
        let permit = self.look(who, ListUsers {}).await?;
        let rows = self.store.list_users(permit, after, prefix, limit.saturating_add(1)).await?;
        Ok(Page::cut(rows, limit, |row| row.id))
    }

    /// Creates a user.
    pub async fn create_user(
        self: &Arc<Self>,
        who: &Principal,
        email: Email,
        name: DisplayName,
        role: Role,
        hash: PasswordHash,
    ) -> Result<User, ActError> {
        let act = CreateUser { user: UserId::random(), email, name, role, hash };
        self.perform(who, act, async |store: Arc<Store>, permit| store.create_user(permit).await).await
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
        hash: PasswordHash,
    ) -> Result<(), ActError> {
        let act = ResetPassword { user, hash };
        self.perform(who, act, async |store: Arc<Store>, permit| store.reset_password(permit).await).await
    }

    /// Changes the caller's own password.
    pub async fn change_password(
        self: &Arc<Self>,
        who: &Principal,
        hash: PasswordHash,
    ) -> Result<(), ActError> {
        let act = ChangePassword { user: who.user(), hash };
        self.perform(who, act, async |store: Arc<Store>, permit| store.change_password(permit).await).await
    }

    /// Signs out the login this call came with. Other credentials have none.
    pub async fn sign_out(self: &Arc<Self>, who: &Principal) -> Result<(), ActError> {
        let Via::Login(family) = who.via() else { return Ok(()) };
        let act = EndSignIn { user: who.user(), family: family.to_string() };
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
        let seed = TotpSeed::random().map_err(|_| ActError::Interrupted)?;
        let sealed = seed.seal(&self.ring, who.user()).ok_or(ActError::Interrupted)?;
        Ok((seed.link(&user.email), sealed))
    }

    /// Turns one-time passwords on, once a code shows that the app has the seed.
    pub async fn confirm_totp(
        self: &Arc<Self>,
        who: &Principal,
        sealed: Vec<u8>,
        code: &str,
    ) -> Result<Result<(), ActError>, AuthError> {
        let seed = TotpSeed::open(&self.ring, who.user(), sealed.clone()).ok_or(AuthError::Invalid)?;
        let used_step = seed.step_of(code, self.clock.now()).ok_or(AuthError::Invalid)?;
        Ok(self.change_totp(who, Some(sealed), used_step).await)
    }

    /// Turns one-time passwords off.
    pub async fn remove_totp(self: &Arc<Self>, who: &Principal) -> Result<(), ActError> {
        self.change_totp(who, None, 0).await
    }

    async fn change_totp(
        self: &Arc<Self>,
        who: &Principal,
        sealed_seed: Option<Vec<u8>>,
        used_step: i64,
    ) -> Result<(), ActError> {
        let act = ChangeTotp { user: who.user(), sealed_seed, used_step };
        self.perform(who, act, async |store: Arc<Store>, permit| store.change_totp(permit).await).await
    }
}
