//! What `access` needs to know and keep, as a trait that `store` implements.
//!
//! Every method that writes takes a [`Warrant`], which only this crate can make: nobody else can record a
//! login, rotate a token or count a failure by calling the store directly.

use std::future::Future;
use std::sync::Arc;

use model::{Email, Grant, KeyId, Millis, PassId, RepoId, Role, SessionId, Tier, UserId, WorktreeId};

use crate::{PasswordHash, Scope};

/// Proof that `access` itself is calling.
#[derive(Debug)]
pub struct Warrant(());

impl Warrant {
    pub(crate) const fn new() -> Self {
        Self(())
    }
}

/// The store did not answer.
#[derive(Debug, thiserror::Error)]
#[error("the store did not answer")]
pub struct Unavailable(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// What decisions need to know about a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFacts {
    /// Which.
    pub id: UserId,
    /// What they are.
    pub role: Role,
    /// Whether they may act at all.
    pub enabled: bool,
    /// Grows when every credential made before must end.
    pub version: i64,
}

/// What a login needs to know.
#[derive(Debug)]
pub struct Account {
    /// The user.
    pub facts: UserFacts,
    /// Their address.
    pub email: Email,
    /// How the password is stored.
    pub password: String,
    /// The sealed one-time-password seed, if turned on.
    pub totp: Option<Vec<u8>>,
}

/// What decisions need to know about a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeFacts {
    /// Which.
    pub id: WorktreeId,
    /// Who owns it.
    pub owners: Vec<UserId>,
    /// What others may do.
    pub tier: Tier,
    /// Whether it is finished.
    pub archived: bool,
    /// Whether others than its creator may prompt a session in it, as far as the worktree says.
    pub shares: bool,
    /// Whether it is gone; only its events are still shown to those who could read it.
    pub deleted: bool,
}

/// What decisions need to know about a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFacts {
    /// Which.
    pub id: SessionId,
    /// Where it is.
    pub worktree: Arc<WorktreeFacts>,
    /// Who opened it.
    pub creator: UserId,
}

/// What is stored of an API key.
#[derive(Clone, Debug)]
pub struct KeyFacts {
    /// Which.
    pub id: KeyId,
    /// Whose.
    pub user: UserId,
    /// What it may be used for.
    pub scope: Scope,
    /// When it ends.
    pub expires: Millis,
    /// Digest of the secret part.
    pub digest: String,
    /// Whether it was revoked.
    pub revoked: bool,
}

/// What is stored of a Pass.
#[derive(Clone, Debug)]
pub struct PassFacts {
    /// Which.
    pub id: PassId,
    /// Whose.
    pub user: UserId,
    /// The Pass it was made from.
    pub parent: Option<PassId>,
    /// What it allows.
    pub grant: Grant,
    /// Whether it, or one it was made from, was revoked.
    pub revoked: bool,
}

/// A refresh token as it is stored.
#[derive(Clone, Debug)]
pub struct RefreshRow {
    /// The login it belongs to.
    pub family: String,
    /// Whose.
    pub user: UserId,
    /// When it ends.
    pub expires: Millis,
    /// When it was first used.
    pub used: Option<Millis>,
    /// The user's version when it was made.
    pub version: i64,
    /// Whether the family still stands.
    pub family_live: bool,
}

/// A new refresh token.
#[derive(Clone, Debug)]
pub struct NewRefresh {
    /// Digest of the token.
    pub digest: String,
    /// The login it belongs to.
    pub family: String,
    /// Whose.
    pub user: UserId,
    /// When it was made.
    pub issued: Millis,
    /// When it ends.
    pub expires: Millis,
    /// The user's version when it was made.
    pub version: i64,
}

/// An attempt to sign in, before it is judged.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Names it, so that its success can be told.
    pub id: String,
    /// The account and the address it counts against.
    pub subjects: Vec<String>,
    /// When.
    pub at: Millis,
    /// Failures per subject in this window, at most so many.
    pub failures: Window,
    /// Attempts per subject in this window, at most so many.
    pub attempts: Window,
}

/// So many in so long.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// How many.
    pub most: i64,
    /// In how many milliseconds.
    pub span: Millis,
}

/// Whether an attempt may be judged at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes; it counts as a failure until its success is told.
    Admitted,
    /// No, not before this time.
    NotBefore(Millis),
}

/// A pairing code as it is stored.
#[derive(Clone, Debug)]
pub struct PairingRow {
    /// Digest of the code.
    pub digest: String,
    /// Who showed it.
    pub user: UserId,
    /// The user's version when it was made.
    pub version: i64,
    /// How long the key will live.
    pub key_life: Millis,
    /// When the code ends.
    pub expires: Millis,
}

/// The key that a pairing code is traded for.
#[derive(Clone, Debug)]
pub struct NewDevice {
    /// Its id.
    pub key: KeyId,
    /// Digest of the secret part.
    pub digest: String,
    /// When.
    pub now: Millis,
    /// When the key ends.
    pub expires: Millis,
}

/// What is kept of a key that was just made, whichever way.
#[derive(Clone, Debug)]
pub struct KeptKey {
    /// The key.
    pub key: KeyId,
    /// Whose.
    pub user: UserId,
    /// What it is for.
    pub label: model::DisplayName,
    /// What it may be used for.
    pub scope: Scope,
    /// Since when.
    pub created_at: Millis,
    /// Until when.
    pub expires: Millis,
}

/// The first owner, as bootstrap makes it.
#[derive(Debug)]
pub struct NewOwner {
    /// Its id.
    pub user: UserId,
    /// Address.
    pub email: Email,
    /// How they are shown.
    pub name: model::DisplayName,
    /// How they sign in.
    pub password: PasswordHash,
    /// When.
    pub now: Millis,
}

/// A `forbid` policy that was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedPolicy {
    /// Its id.
    pub id: String,
    /// Its Cedar text.
    pub text: String,
}

type Answer<T> = Result<T, Unavailable>;

/// What `access` reads and keeps.
pub trait Backing: Send + Sync + 'static {
    /// A user.
    fn user(&self, id: UserId) -> impl Future<Output = Answer<Option<UserFacts>>> + Send;
    /// The account with this address.
    fn account(&self, email: &Email) -> impl Future<Output = Answer<Option<Account>>> + Send;
    /// The account of this user.
    fn account_of(&self, id: UserId) -> impl Future<Output = Answer<Option<Account>>> + Send;
    /// A worktree, also one that was deleted (its events are still shown to those who could read it).
    fn worktree(&self, id: WorktreeId) -> impl Future<Output = Answer<Option<WorktreeFacts>>> + Send;
    /// The worktree a session is in, and who opened it. Neither ever changes.
    fn session(&self, id: SessionId) -> impl Future<Output = Answer<Option<(WorktreeId, UserId)>>> + Send;
    /// Whether there is such a repository.
    fn repo_exists(&self, id: RepoId) -> impl Future<Output = Answer<bool>> + Send;
    /// An API key.
    fn key(&self, id: KeyId) -> impl Future<Output = Answer<Option<KeyFacts>>> + Send;
    /// A Pass, with whether its line of parents still stands.
    fn pass(&self, id: PassId) -> impl Future<Output = Answer<Option<PassFacts>>> + Send;
    /// The policies that were added.
    fn added_policies(&self) -> impl Future<Output = Answer<Vec<AddedPolicy>>> + Send;

    /// Whether anyone has an account yet.
    fn any_user(&self) -> impl Future<Output = Answer<bool>> + Send;
    /// Keeps the digest of the one-time set-up secret in place of any before.
    fn put_bootstrap(
        &self,
        w: &Warrant,
        digest: &str,
        expires: Millis,
    ) -> impl Future<Output = Answer<()>> + Send;
    /// Whether this is the digest of the set-up secret and it is not late.
    fn bootstrap_fits(&self, digest: &str, now: Millis) -> impl Future<Output = Answer<bool>> + Send;
    /// Uses the set-up secret up and makes the owner, both or neither. False if it is wrong, used or late.
    fn take_bootstrap(
        &self,
        w: &Warrant,
        digest: &str,
        owner: NewOwner,
    ) -> impl Future<Output = Answer<bool>> + Send;

    /// Counts this attempt, or tells when to come back. Counting and keeping are one step, so that parallel
    /// attempts cannot slip past a limit together.
    fn admit_attempt(&self, w: &Warrant, attempt: &Attempt)
    -> impl Future<Output = Answer<Admission>> + Send;
    /// Says that the remembered attempt succeeded.
    fn clear_attempt(&self, w: &Warrant, id: &str) -> impl Future<Output = Answer<()>> + Send;

    /// Keeps a new login with its first refresh token.
    fn open_family(&self, w: &Warrant, first: NewRefresh) -> impl Future<Output = Answer<()>> + Send;
    /// Finds a refresh token.
    fn refresh(&self, digest: &str) -> impl Future<Output = Answer<Option<RefreshRow>>> + Send;
    /// Marks a refresh token used and keeps its successor. False if the family no longer stands.
    fn rotate(&self, w: &Warrant, used: &str, next: NewRefresh) -> impl Future<Output = Answer<bool>> + Send;
    /// Ends a login. False if it had ended before.
    fn end_family(&self, w: &Warrant, family: &str) -> impl Future<Output = Answer<bool>> + Send;
    /// Whether a login still stands.
    fn family_live(&self, family: &str) -> impl Future<Output = Answer<bool>> + Send;

    /// Finds a pairing code.
    fn pairing(&self, digest: &str) -> impl Future<Output = Answer<Option<PairingRow>>> + Send;
    /// Uses a pairing code up and keeps the key it is traded for, both or neither. None if it is used or late,
    /// or its maker is not who they were.
    fn take_pairing(
        &self,
        w: &Warrant,
        digest: &str,
        device: NewDevice,
    ) -> impl Future<Output = Answer<Option<KeptKey>>> + Send;

    /// Remembers the last use of a time step; false if it was used before.
    fn use_totp_step(
        &self,
        w: &Warrant,
        user: UserId,
        step: i64,
    ) -> impl Future<Output = Answer<bool>> + Send;
    /// The highest bcrypt cost among imported passwords that nobody has signed in with yet.
    fn imported_cost(&self) -> impl Future<Output = Answer<Option<u32>>> + Send;
    /// Stores a better hash of the same password, unless it was changed in the meantime.
    fn rehash(
        &self,
        w: &Warrant,
        user: UserId,
        old: &str,
        hash: &PasswordHash,
    ) -> impl Future<Output = Answer<()>> + Send;
    /// Remembers that a key was used.
    fn touch_key(&self, w: &Warrant, key: KeyId, at: Millis) -> impl Future<Output = Answer<()>> + Send;
}
