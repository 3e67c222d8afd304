//! Makes Passes and verifies them: the only part that holds a key.

use std::fmt;
use std::sync::Arc;

use model::{Grant, Millis, PassId, UserId};
use quick_cache::sync::Cache;
use subtle::ConstantTimeEq;
use vault::Secret;

use super::chain::{self, Root, Signature};
use super::effect::{Effect, IDENTIFIER, Whole, identified};
use super::token::AttenuateError;
use super::{Caveat, PassError, PassToken};

/// How long a Pass lives unless told: one hour.
pub const DEFAULT_LIFE: Millis = 60 * 60 * 1000;
/// The longest life of a Pass: thirty days.
pub const MAX_LIFE: Millis = 30 * 24 * 60 * 60 * 1000;

/// What a new Pass is to be.
#[derive(Debug)]
pub struct PassSpec<'a> {
    /// Its new id.
    pub id: PassId,
    /// Whose authority it carries.
    pub user: UserId,
    /// What it allows.
    pub grant: Grant,
    /// When it ends; an hour from now, or when its parent ends, unless told.
    pub expires: Option<Millis>,
    /// The Pass it is made from. Then it is revoked with that, and is no wider.
    pub parent: Option<&'a PassToken>,
}

/// Why a Pass was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    /// It would be over before it begins.
    #[error("the pass would already be over; ask for a later end")]
    AlreadyOver,
    /// It would live too long.
    #[error("a pass lives for at most 30 days; ask for an earlier end")]
    TooLong,
    /// The parent is not accepted.
    #[error("the pass it is to be made from is not accepted")]
    Parent(#[source] PassError),
    /// It asks for more than its parent has.
    #[error("a pass can only be narrowed, and this would be wider than the one it is made from")]
    WouldWiden,
    /// The parent may not be handed on.
    #[error("the pass it is to be made from may not be handed on")]
    LastDepth,
    /// The grant does not fit into a token.
    #[error("the grant is too large for a pass; name fewer things")]
    TooLarge,
}

/// What a Pass allows, proven by its signature. Ask for each id whether it was revoked.
#[derive(Debug)]
pub struct VerifiedPass(Arc<Whole>);

impl VerifiedPass {
    /// The Pass itself, as it is known last.
    #[must_use]
    pub fn id(&self) -> PassId {
        self.0.last
    }

    /// Every Pass it was made from, the root first, and itself last. Revoking any of them revokes it.
    #[must_use]
    pub fn ids(&self) -> &[PassId] {
        &self.0.ids
    }

    /// Whose authority it carries.
    #[must_use]
    pub fn user(&self) -> UserId {
        self.0.user
    }

    /// What it allows: what all of its caveats allow.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.0.grant
    }

    /// When it ends: the earliest end of all.
    #[must_use]
    pub fn expires(&self) -> Millis {
        self.0.expires
    }
}

/// How many Passes' meanings are remembered. A small one takes about 1 KiB, the largest about 16.
const REMEMBERED: usize = 512;

/// Makes and verifies Passes. Whoever has one can make any Pass.
pub struct Mint {
    root: Root,
    /// What a signed Pass adds up to, by its signature, which stands for every byte of it. Only what was
    /// just proven is looked up, so this saves reading, never proving.
    read: Cache<Signature, Arc<Whole>>,
}

impl Mint {
    /// From the ring's key for Passes. A shorter key does not compile:
    ///
    /// ```compile_fail
    /// access::pass::Mint::new(&vault::Secret::new([0_u8; 31]));
    /// ```
    #[must_use]
    pub fn new(key: &Secret<[u8; 32]>) -> Self {
        Self { root: Root::new(key), read: Cache::new(REMEMBERED) }
    }

    /// Makes a Pass: a new one, or one from a parent, which it can never exceed.
    ///
    /// # Errors
    /// [`MintError`]; no Pass was made.
    pub fn mint(&self, spec: PassSpec<'_>, now: Millis) -> Result<PassToken, MintError> {
        let expires = spec.expires.unwrap_or(now.saturating_add(DEFAULT_LIFE));
        if expires > now.saturating_add(MAX_LIFE) {
            return Err(MintError::TooLong);
        }
        if expires <= now {
            return Err(MintError::AlreadyOver);
        }
        match spec.parent {
            None => self.root(&spec, expires),
            Some(parent) => self.child(&spec, parent, now, expires),
        }
    }

    fn root(&self, spec: &PassSpec<'_>, expires: Millis) -> Result<PassToken, MintError> {
        let name = spec.id.to_string();
        let identifier = format!("{IDENTIFIER}{name}");
        let signature = self.root.begin(name.as_bytes(), identifier.as_bytes());
        let token = PassToken::begin(identifier.as_bytes(), &signature);
        let caveats =
            [Caveat::User(spec.user), Caveat::Before(expires), Caveat::Grant(Box::new(spec.grant.clone()))];
        extended(Ok(token), &caveats)
    }

    fn child(
        &self,
        spec: &PassSpec<'_>,
        parent: &PassToken,
        now: Millis,
        expires: Millis,
    ) -> Result<PassToken, MintError> {
        let made_from = self.verify(parent, now).map_err(MintError::Parent)?;
        // An end that was asked for must fit; one that was not is cut to fit.
        let expires = if spec.expires.is_none() { expires.min(made_from.expires()) } else { expires };
        if spec.user != made_from.user() {
            return Err(MintError::WouldWiden);
        }
        let caveats =
            [Caveat::Id(spec.id), Caveat::Before(expires), Caveat::Grant(Box::new(spec.grant.clone()))];
        let raw = parent.raw().map_err(MintError::Parent)?;
        let mut effect = Effect::of(&raw).map_err(MintError::Parent)?;
        for caveat in &caveats {
            effect.apply(caveat.clone()).map_err(|refused| match refused {
                PassError::LastDepth => MintError::LastDepth,
                _ => MintError::WouldWiden,
            })?;
        }
        let [handed_on, rest @ ..] = &caveats;
        extended(parent.with(handed_on), rest)
    }

    /// Verifies a Pass: its signature first, then what it says.
    ///
    /// # Errors
    /// [`PassError`] when it is not ours, not whole, over, or tries to be more than it was made for.
    pub fn verify(&self, token: &PassToken, now: Millis) -> Result<VerifiedPass, PassError> {
        let raw = token.raw()?;
        let name = identified(raw.identifier).ok_or(PassError::Malformed)?;
        let begun = self.root.begin(name.as_bytes(), raw.identifier);
        let signature = raw.caveats().fold(begun, |signature, caveat| chain::step(&signature, caveat));
        let is_ours: bool = signature.ct_eq(raw.signature).into();
        if !is_ours {
            return Err(PassError::Forged);
        }
        let whole = self.read.get_or_insert_with(&signature, || Effect::of(&raw)?.whole().map(Arc::new))?;
        if now >= whole.expires {
            return Err(PassError::Expired);
        }
        Ok(VerifiedPass(whole))
    }
}

fn extended(token: Result<PassToken, AttenuateError>, caveats: &[Caveat]) -> Result<PassToken, MintError> {
    let all = token.and_then(|token| caveats.iter().try_fold(token, |token, caveat| token.with(caveat)));
    all.map_err(|refused| match refused {
        AttenuateError::Full => MintError::TooLarge,
        AttenuateError::Unusable(cause) => MintError::Parent(cause),
        AttenuateError::WouldWiden(_) => MintError::WouldWiden,
    })
}

impl fmt::Debug for Mint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mint(***)")
    }
}
