//! How a login begins, goes on and ends: bootstrap, login, refresh.

use ledger::{Decision, Draft};
use model::{DisplayName, Email, Millis, UserId};
use vault::Secret;

use super::digest::random_text;
use super::password::is_outdated;
use super::{Authenticator, BadPassword, TotpSeed};
use crate::record::{append, append_narrowing};
use crate::{
    Account, Action, Admission, Attempt, Backing, NewOwner, NewRefresh, Principal, Resource, Via, Warrant,
    Window,
};

/// Five failures a minute, fifty attempts a quarter of an hour; per account and per address.
const FAILURES: Window = Window { most: 5, span: 60_000 };
const ATTEMPTS: Window = Window { most: 50, span: 15 * 60_000 };

/// Why nobody was signed in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Wrong, unknown, expired, revoked: nobody outside learns which.
    #[error("the credential is not valid; sign in again")]
    Invalid,
    /// The password was right, and a one-time password is needed too.
    #[error("a one-time password is needed")]
    TotpNeeded,
    /// Too many tries.
    #[error("too many attempts; wait {} s", .retry_ms.saturating_add(999) / 1_000)]
    Throttled {
        /// How long to wait.
        retry_ms: Millis,
    },
    /// The new password does not do.
    #[error("a password has {} to 1024 characters", super::MIN_PASSWORD)]
    BadPassword,
    /// It cannot be decided or recorded now.
    #[error("signing in is not possible now; nothing was changed")]
    Busy,
}

/// What a login gives.
#[derive(Debug)]
pub struct Tokens {
    /// Who.
    pub user: UserId,
    /// For the Authorization header.
    pub access: Secret<String>,
    /// When the access token ends.
    pub access_expires: Millis,
    /// For the next access token, once.
    pub refresh: Secret<String>,
    /// When the refresh token ends.
    pub refresh_expires: Millis,
}

impl<B: Backing> Authenticator<B> {
    /// The one-time set-up secret of an installation that has no account yet.
    pub async fn offer_bootstrap(&self) -> Result<Option<Secret<String>>, AuthError> {
        if self.backing.any_user().await? {
            return Ok(None);
        }
        let made = self.digests.mint("bootstrap", "pbs_").map_err(|_| AuthError::Busy)?;
        let expires = self.clock.now().saturating_add(self.lifetimes.bootstrap);
        self.backing.put_bootstrap(&Warrant::new(), &made.digest, expires).await?;
        self.note("nobody", "bootstrap.offered", "", Decision::Noted).await?;
        Ok(Some(made.text))
    }

    /// Makes the first owner with the set-up secret.
    pub async fn bootstrap(
        &self,
        secret: &str,
        email: Email,
        name: DisplayName,
        password: Secret<String>,
        peer: &str,
    ) -> Result<Tokens, AuthError> {
        // Per address only: a count for all would let anyone keep the owner from setting up.
        let attempt = self.admit(&[format!("peer:{peer}")], peer).await?;
        let digest = self.digests.of("bootstrap", secret);
        if !self.backing.bootstrap_fits(&digest, self.clock.now()).await? {
            self.strangers.refused(peer, "bootstrap", self.clock.now()).await;
            return Err(AuthError::Invalid);
        }
        let password = self.passwords.hash(password).await.map_err(|error| match error {
            BadPassword::Length => AuthError::BadPassword,
            BadPassword::NotBcrypt | BadPassword::Machine => AuthError::Busy,
        })?;
        let (user, now) = (UserId::random(), self.clock.now());
        let owner = NewOwner { user, email, name, password, now };
        let opened = self.open_entry(&user, "bootstrap.used").await?;
        let taken = self.backing.take_bootstrap(&Warrant::new(), &digest, owner).await;
        let made = matches!(taken, Ok(true));
        self.close_entry(&user, "bootstrap.used", opened, made).await;
        if !taken? {
            self.strangers.refused(peer, "bootstrap", now).await;
            return Err(AuthError::Invalid);
        }
        self.backing.clear_attempt(&Warrant::new(), &attempt).await?;
        self.gate.epoch().bump();
        self.open_login(user, 0).await
    }

    /// Signs in with address and password.
    pub async fn login(
        &self,
        email: &str,
        password: Secret<String>,
        totp: Option<&str>,
        peer: &str,
    ) -> Result<Tokens, AuthError> {
        // What cannot be an address counts and costs like any other unknown account.
        let parsed = email.parse::<Email>().ok();
        let named = parsed.as_ref().map_or(email, Email::as_str);
        let attempt = self.admit(&[self.subject(named), format!("peer:{peer}")], peer).await?;
        let account = match &parsed {
            Some(email) => self.backing.account(email).await?,
            None => None,
        };
        let stored = account.as_ref().map(|account| account.password.clone());
        let rewrite =
            stored.as_deref().is_some_and(is_outdated).then(|| Secret::new(password.expose().clone()));
        // An imported password costs bcrypt too; while there is one, every failure costs as much.
        let pad = self.backing.imported_cost().await?;
        let open = account.as_ref().is_some_and(|account| account.facts.enabled);
        // Who is disabled fails, whatever the password: at the cost of a failure.
        let fits = self.passwords.verify(password, stored.filter(|_| open), pad).await;
        let account = account.filter(|account| fits && account.facts.enabled);
        let Some(account) = account else {
            self.strangers.refused(peer, "login", self.clock.now()).await;
            return Err(AuthError::Invalid);
        };
        self.check_totp(&account, totp, peer).await?;
        self.backing.clear_attempt(&Warrant::new(), &attempt).await?;
        if let Some(password) = rewrite
            && let Ok(better) = self.passwords.hash(password).await
        {
            self.backing.rehash(&Warrant::new(), account.facts.id, &account.password, &better).await?;
        }
        self.open_login(account.facts.id, account.facts.version).await
    }

    /// Trades a refresh token for new tokens. A second use after the grace time ends the whole login.
    pub async fn refresh(&self, text: &str, peer: &str) -> Result<Tokens, AuthError> {
        let digest = self.digests.of("refresh", text);
        let now = self.clock.now();
        let Some(row) = self.backing.refresh(&digest).await? else {
            self.strangers.refused(peer, "refresh", now).await;
            return Err(AuthError::Invalid);
        };
        if row.family_live && row.used.is_some_and(|used| now - used > self.lifetimes.refresh_grace) {
            // Of several who bring it back at once, one ends the login and writes the entry.
            if !self.backing.end_family(&Warrant::new(), &row.family).await? {
                return Err(AuthError::Invalid);
            }
            self.gate.epoch().bump();
            self.note(
                &row.user.to_string(),
                "signin.reuse",
                "a used refresh token came back; the login was ended",
                Decision::Refused,
            )
            .await?;
            return Err(AuthError::Invalid);
        }
        let user = self.active(row.user, row.version).await;
        if !row.family_live || now >= row.expires || user.is_err() {
            self.strangers.refused(peer, "refresh", now).await;
            return Err(AuthError::Invalid);
        }
        let next = self.digests.mint("refresh", "prt_").map_err(|_| AuthError::Busy)?;
        let fresh = self.new_refresh(&next.digest, &row.family, row.user, row.version);
        let expires = fresh.expires;
        // No record, no renewal.
        let opened = self.open_entry(&row.user, "signin.refresh").await?;
        let rotated = self.backing.rotate(&Warrant::new(), &digest, fresh).await;
        self.close_entry(&row.user, "signin.refresh", opened, matches!(rotated, Ok(true))).await;
        if !rotated? {
            return Err(AuthError::Invalid);
        }
        self.tokens_for(row.user, row.version, &row.family, next.text, expires)
    }

    /// Whether the caller, right now, knows their password (and one-time password, where there is one).
    /// It counts like signing in, and a failure is on the ledger as a refusal of `action`.
    pub async fn reauthenticate(
        &self,
        who: &Principal,
        action: &'static Action,
        password: Secret<String>,
        totp: Option<&str>,
        peer: &str,
    ) -> Result<(), AuthError> {
        let checked = self.recheck(who, password, totp, peer).await;
        if let Err(error) = &checked {
            self.gate.refused(who, action, Resource::User(who.user()), not_proved(error)).await;
        }
        checked
    }

    /// The caller with a one-time password that came with the request, for acts that ask for one. A code is
    /// used up, and a wrong one counts like a wrong password. Good for one request: nothing remembers it.
    pub async fn show_code(
        &self,
        who: &Principal,
        action: &'static Action,
        code: &str,
        peer: &str,
    ) -> Result<Principal, AuthError> {
        match self.code_fits(who, code, peer).await {
            Ok(()) => Ok(Principal { code_shown: true, ..who.clone() }),
            Err(error) => {
                self.gate.refused(who, action, Resource::User(who.user()), not_proved(&error)).await;
                Err(error)
            }
        }
    }

    async fn code_fits(&self, who: &Principal, code: &str, peer: &str) -> Result<(), AuthError> {
        if let Via::Pass(_) = who.via() {
            // Who holds a Pass is not the person.
            return Err(AuthError::Invalid);
        }
        let account = self.backing.account_of(who.user()).await?.ok_or(AuthError::Invalid)?;
        if account.totp.is_none() {
            return Err(AuthError::TotpNeeded);
        }
        let attempt = self.count(&[self.subject(account.email.as_str()), format!("peer:{peer}")]).await?;
        if !self.totp_fits(&account, Some(code)).await? {
            return Err(AuthError::Invalid);
        }
        Ok(self.backing.clear_attempt(&Warrant::new(), &attempt).await?)
    }

    async fn recheck(
        &self,
        who: &Principal,
        password: Secret<String>,
        totp: Option<&str>,
        peer: &str,
    ) -> Result<(), AuthError> {
        let Via::Login(_) = who.via() else { return Err(AuthError::Invalid) };
        let account = self.backing.account_of(who.user()).await?.ok_or(AuthError::Invalid)?;
        let subjects = [self.subject(account.email.as_str()), format!("peer:{peer}")];
        let attempt = self.count(&subjects).await?;
        if !self.passwords.verify(password, Some(account.password.clone()), None).await
            || !self.totp_fits(&account, totp).await?
        {
            return Err(AuthError::Invalid);
        }
        Ok(self.backing.clear_attempt(&Warrant::new(), &attempt).await?)
    }

    /// What attempts on an account count against, whether it exists or not.
    fn subject(&self, email: &str) -> String {
        format!("account:{}", self.digests.of("account", email))
    }

    async fn check_totp(&self, account: &Account, code: Option<&str>, peer: &str) -> Result<(), AuthError> {
        if self.totp_fits(account, code).await? {
            return Ok(());
        }
        self.strangers.refused(peer, "one-time password", self.clock.now()).await;
        Err(AuthError::Invalid)
    }

    /// Whether this is an unused code of now, or none is needed.
    async fn totp_fits(&self, account: &Account, code: Option<&str>) -> Result<bool, AuthError> {
        let Some(sealed) = &account.totp else { return Ok(true) };
        let user = account.facts.id;
        let code = code.ok_or(AuthError::TotpNeeded)?;
        let seed = TotpSeed::open(&self.ring, user, sealed.clone()).ok_or(AuthError::Busy)?;
        match seed.step_of(code, self.clock.now()) {
            Some(step) => Ok(self.backing.use_totp_step(&Warrant::new(), user, step).await?),
            None => Ok(false),
        }
    }

    /// Counts a stranger's attempt before anything is judged.
    async fn admit(&self, subjects: &[String], peer: &str) -> Result<String, AuthError> {
        self.admit_within(subjects, FAILURES, peer).await
    }

    /// The same with another limit on failures.
    pub(super) async fn admit_within(
        &self,
        subjects: &[String],
        failures: Window,
        peer: &str,
    ) -> Result<String, AuthError> {
        let counted = self.count_within(subjects, failures).await;
        if let Err(AuthError::Throttled { .. }) = counted {
            self.strangers.refused(peer, "too many attempts", self.clock.now()).await;
        }
        counted
    }

    async fn count(&self, subjects: &[String]) -> Result<String, AuthError> {
        self.count_within(subjects, FAILURES).await
    }

    async fn count_within(&self, subjects: &[String], failures: Window) -> Result<String, AuthError> {
        let id = random_text().map_err(|_| AuthError::Busy)?;
        let at = self.clock.now();
        let attempt =
            Attempt { id: id.clone(), subjects: subjects.to_vec(), at, failures, attempts: ATTEMPTS };
        match self.backing.admit_attempt(&Warrant::new(), &attempt).await? {
            Admission::Admitted => Ok(id),
            Admission::NotBefore(time) => {
                Err(AuthError::Throttled { retry_ms: time.saturating_sub(at).max(1) })
            }
        }
    }

    async fn open_login(&self, user: UserId, version: i64) -> Result<Tokens, AuthError> {
        let family = random_text().map_err(|_| AuthError::Busy)?;
        let first = self.digests.mint("refresh", "prt_").map_err(|_| AuthError::Busy)?;
        let fresh = self.new_refresh(&first.digest, &family, user, version);
        let expires = fresh.expires;
        // No record, no login.
        let opened = self.open_entry(&user, "signin.login").await?;
        let stored = self.backing.open_family(&Warrant::new(), fresh).await;
        self.close_entry(&user, "signin.login", opened, stored.is_ok()).await;
        stored?;
        self.tokens_for(user, version, &family, first.text, expires)
    }

    fn new_refresh(&self, digest: &str, family: &str, user: UserId, version: i64) -> NewRefresh {
        let issued = self.clock.now();
        let expires = issued.saturating_add(self.lifetimes.refresh);
        NewRefresh { digest: digest.to_owned(), family: family.to_owned(), user, issued, expires, version }
    }

    fn tokens_for(
        &self,
        user: UserId,
        version: i64,
        family: &str,
        refresh: Secret<String>,
        refresh_expires: Millis,
    ) -> Result<Tokens, AuthError> {
        let now = self.clock.now();
        let access =
            self.tokens.issue(user, family, version, now, self.lifetimes.access).ok_or(AuthError::Busy)?;
        let access_expires = now.saturating_add(self.lifetimes.access);
        Ok(Tokens { user, access: Secret::new(access), access_expires, refresh, refresh_expires })
    }

    pub(super) async fn open_entry(&self, user: &UserId, action: &'static str) -> Result<u64, AuthError> {
        let draft = Draft::new(user.to_string(), action, Decision::Allowed).on(user.to_string()).opens();
        append(self.gate.ledger(), draft).await.map_err(|_| AuthError::Busy)
    }

    pub(super) async fn close_entry(&self, user: &UserId, action: &'static str, opened: u64, done: bool) {
        let decision = if done { Decision::Done } else { Decision::Failed };
        let draft = Draft::new(user.to_string(), action, decision).on(user.to_string()).closes(opened);
        if let Err(error) = append_narrowing(self.gate.ledger(), draft).await {
            tracing::error!(%error, opened, "the closing entry could not be written; recovery will close it");
        }
    }

    async fn note(
        &self,
        who: &str,
        action: &'static str,
        cause: &str,
        decision: Decision,
    ) -> Result<(), AuthError> {
        let draft = Draft::new(who, action, decision).because(cause);
        append_narrowing(self.gate.ledger(), draft).await.map(drop).map_err(|_| AuthError::Busy)
    }
}

/// Why a caller did not prove anew who they are, as the ledger says it.
fn not_proved(error: &AuthError) -> &'static str {
    match error {
        AuthError::Throttled { .. } => "too many attempts",
        AuthError::TotpNeeded => "one-time password needed",
        AuthError::Invalid | AuthError::BadPassword => "wrong password or one-time password",
        AuthError::Busy => "cannot be checked now",
    }
}
