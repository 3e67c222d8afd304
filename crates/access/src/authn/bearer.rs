//! Turns what stands in the Authorization header into a principal.

use std::sync::Arc;

use model::{Clock, Grant, KeyId, Millis, UserId};
use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};
use vault::{KeyRing, Purpose, Secret};

use super::signin::AuthError;
use super::strangers::Strangers;
use super::ticket::Tickets;
use super::{BadPassword, Digests, Lifetimes, NewSecret, Passwords, TokenKeys};
use crate::pass::{Mint, PassToken};
use crate::{Backing, Gate, Principal, Scope, Unavailable, UserFacts, Via, Warrant};

const KEY_PREFIX: &str = "pal_";
const PASS_PREFIX: &str = "pps_";
/// A key's last use is kept to the minute.
const TOUCH_EVERY: Millis = 60_000;

/// Knows who is calling.
#[derive(Debug)]
pub struct Authenticator<B> {
    pub(super) gate: Arc<Gate<B>>,
    pub(super) backing: Arc<B>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ring: Arc<KeyRing>,
    pub(super) tokens: TokenKeys,
    pub(super) digests: Digests,
    pub(super) passwords: Passwords,
    pub(super) lifetimes: Lifetimes,
    pub(super) strangers: Strangers,
    hasty: Strangers,
    tickets: Tickets,
    mint: Mint,
    /// Credentials already checked, by the hash of their text, as long as the epoch stands.
    known: Cache<[u8; 32], (u64, Principal)>,
    touched: Cache<KeyId, Millis>,
}

impl<B: Backing> Authenticator<B> {
    /// Sets up authentication under this key ring.
    pub fn new(gate: Arc<Gate<B>>, ring: Arc<KeyRing>, lifetimes: Lifetimes) -> Result<Self, BadPassword> {
        let issuer = ring.fingerprint().to_string();
        let strangers = Strangers::new(Arc::clone(gate.ledger()), "signin.refused");
        let hasty = Strangers::new(Arc::clone(gate.ledger()), "request.limited");
        Ok(Self {
            backing: Arc::clone(gate.backing()),
            clock: Arc::clone(gate.clock()),
            tokens: TokenKeys::new(&ring.subkey(Purpose::Tokens), &issuer),
            digests: Digests::new(&ring.subkey(Purpose::Digests)),
            mint: Mint::new(&ring.subkey(Purpose::Passes)),
            passwords: Passwords::new(2)?,
            lifetimes,
            strangers,
            hasty,
            tickets: Tickets::default(),
            known: Cache::new(20_000),
            touched: Cache::new(10_000),
            gate,
            ring,
        })
    }

    /// Who this credential proves, if anyone. A refusal says nothing about why.
    pub async fn authenticate(&self, bearer: &str) -> Result<Principal, AuthError> {
        let mark: [u8; 32] = Sha256::digest(bearer.as_bytes()).into();
        let now = self.clock.now();
        let epoch = self.gate.epoch().now();
        if let Some((at, who)) = self.known.get(&mark)
            && at == epoch
            && now < who.expires
        {
            self.touch(&who, now).await;
            return Ok(who);
        }
        let who = if bearer.starts_with(KEY_PREFIX) {
            self.by_key(bearer, now).await?
        } else if bearer.starts_with(PASS_PREFIX) {
            self.by_pass(bearer, now).await?
        } else {
            self.by_token(bearer, now).await?
        };
        self.gate.vouch(&who.via, epoch);
        self.known.insert(mark, (epoch, who.clone()));
        self.touch(&who, now).await;
        Ok(who)
    }

    /// Remembers that a call came without a good credential: one entry per address and minute.
    pub async fn refused_stranger(&self, address: &str, what: &str) {
        self.strangers.refused(address, what, self.clock.now()).await;
    }

    /// Remembers that a caller came too often: one entry per caller and minute.
    pub async fn limited(&self, caller: &str) {
        self.hasty.refused(caller, "too many requests", self.clock.now()).await;
    }

    /// Writes down what strangers tried since; called from time to time and at the end.
    pub async fn flush_strangers(&self) {
        self.strangers.flush(self.clock.now()).await;
        self.hasty.flush(self.clock.now()).await;
    }

    /// A ticket with which one socket can be opened, by this principal, soon.
    pub fn ticket(&self, who: &Principal) -> Result<Secret<String>, AuthError> {
        let NewSecret { text, digest } = self.digests.mint("ticket", "ptk_").map_err(|_| AuthError::Busy)?;
        let now = self.clock.now();
        let kept = self.tickets.keep(digest, who.clone(), now.saturating_add(self.lifetimes.ticket), now);
        if kept { Ok(text) } else { Err(AuthError::Busy) }
    }

    /// Uses a ticket up.
    pub async fn redeem(&self, ticket: &str) -> Result<Principal, AuthError> {
        let found = self.tickets.take(&self.digests.of("ticket", ticket), self.clock.now());
        let who = found.ok_or(AuthError::Invalid)?;
        if self.gate.still_valid(&who).await? { Ok(who) } else { Err(AuthError::Invalid) }
    }

    /// The secret part of a new API key: `pal_<id>_<secret>`.
    pub fn new_key(&self, id: KeyId) -> Result<NewSecret, AuthError> {
        self.digests.mint("key", &format!("{KEY_PREFIX}{id}_")).map_err(|_| AuthError::Busy)
    }

    /// Makes Passes.
    pub fn mint(&self) -> &Mint {
        &self.mint
    }

    /// Hashes passwords.
    pub fn passwords(&self) -> &Passwords {
        &self.passwords
    }

    /// Seals what belongs to a user.
    pub fn ring(&self) -> &KeyRing {
        &self.ring
    }

    async fn by_token(&self, text: &str, now: Millis) -> Result<Principal, AuthError> {
        let claims = self.tokens.check(text, now).ok_or(AuthError::Invalid)?;
        let user = self.active(claims.sub, claims.ver).await?;
        if !self.backing.family_live(&claims.fam).await? {
            return Err(AuthError::Invalid);
        }
        Ok(principal(&user, Scope::Admin, Grant::everything(), Via::Login(claims.fam.into()), claims.exp))
    }

    async fn by_key(&self, text: &str, now: Millis) -> Result<Principal, AuthError> {
        let id = key_id(text);
        let digest = self.digests.of("key", text);
        let found = match id {
            Some(id) => self.backing.key(id).await?,
            None => None,
        };
        let key = found.filter(|key| {
            let equal: bool = subtle::ConstantTimeEq::ct_eq(key.digest.as_bytes(), digest.as_bytes()).into();
            equal && !key.revoked && now < key.expires
        });
        let key = key.ok_or(AuthError::Invalid)?;
        let user = self.gate.user(key.user).await?.filter(|user| user.enabled).ok_or(AuthError::Invalid)?;
        Ok(principal(&user, key.scope, Grant::everything(), Via::Key(key.id), key.expires))
    }

    async fn by_pass(&self, text: &str, now: Millis) -> Result<Principal, AuthError> {
        let token = PassToken::parse(text).map_err(|_| AuthError::Invalid)?;
        let pass = self.mint.verify(&token, now).map_err(|_| AuthError::Invalid)?;
        let chain: Arc<[_]> = pass.ids().into();
        let mut before = None;
        for id in chain.iter() {
            let found = self.backing.pass(*id).await?.ok_or(AuthError::Invalid)?;
            // A holder may write any id behind the first: only a child of the one before is what it says.
            let in_line = before.is_none() || found.parent == before;
            if found.revoked || found.user != pass.user() || !in_line {
                return Err(AuthError::Invalid);
            }
            before = Some(*id);
        }
        let user =
            self.gate.user(pass.user()).await?.filter(|user| user.enabled).ok_or(AuthError::Invalid)?;
        Ok(principal(&user, Scope::Manage, pass.grant().clone(), Via::Pass(chain), pass.expires()))
    }

    pub(super) async fn active(&self, id: UserId, version: i64) -> Result<UserFacts, AuthError> {
        let user = self.gate.user(id).await?;
        user.filter(|user| user.enabled && user.version == version).ok_or(AuthError::Invalid)
    }

    async fn touch(&self, who: &Principal, now: Millis) {
        let Via::Key(key) = who.via else { return };
        if self.touched.get(&key).is_some_and(|at| now - at < TOUCH_EVERY) {
            return;
        }
        self.touched.insert(key, now);
        if let Err(error) = self.backing.touch_key(&Warrant::new(), key, now).await {
            tracing::warn!(%error, "the last use of a key could not be kept");
        }
    }
}

impl From<Unavailable> for AuthError {
    fn from(error: Unavailable) -> Self {
        tracing::error!(error = %error.0, "the store did not answer");
        Self::Busy
    }
}

/// The id inside `pal_key_<32 hex>_<secret>`.
fn key_id(text: &str) -> Option<KeyId> {
    let rest = text.strip_prefix(KEY_PREFIX)?;
    rest.get(..36)?.parse().ok()
}

fn principal(user: &UserFacts, scope: Scope, grant: Grant, via: Via, expires: Millis) -> Principal {
    Principal {
        user: user.id,
        role: user.role,
        scope,
        grant: Arc::new(grant),
        via,
        version: user.version,
        expires,
        code_shown: false,
    }
}
