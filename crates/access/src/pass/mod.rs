//! Passes: signed tokens that carry a [`model::Grant`] and can only be attenuated.
//!
//! Flow: [`Mint::mint`] (authority -> [`PassToken`]) -> [`PassToken::attenuate`] (by anyone, without a
//! key) -> [`Mint::verify`] (token -> [`VerifiedPass`]). The form is libmacaroons' second binary format
//! with the same HMAC-SHA256 chain, so any macaroon library can attenuate a Pass; see `wire`, `chain`.
//!
//! Invariants: nothing a Pass says is read before its signature holds; every further caveat is inside
//! what the ones before it allow, at mint and at use; a caveat that is not understood refuses the Pass.
//!
//! Not here: whether a Pass was revoked. Whoever verifies asks that of every one of
//! [`VerifiedPass::ids`].

mod caveat;
mod chain;
mod effect;
mod mac;
mod mint;
mod token;
mod wire;

#[cfg(test)]
mod tests;

pub use caveat::{BadCaveat, Caveat};
pub use mint::{DEFAULT_LIFE, MAX_LIFE, Mint, MintError, PassSpec, VerifiedPass};
pub use token::{AttenuateError, PassToken};

/// Why a Pass was not accepted. Tell the client one thing for all of these, and the log which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// Not a Pass at all.
    #[error("this is not a pass")]
    Malformed,
    /// More text or caveats than a Pass may have.
    #[error("the pass is larger than {MAX_TEXT} characters or has more than {MAX_CAVEATS} caveats")]
    TooLarge,
    /// It asks for the word of someone else.
    #[error("third-party caveats are not accepted")]
    ThirdParty,
    /// The signature does not fit: changed, cut, reordered, or not ours.
    #[error("the signature does not fit")]
    Forged,
    /// Signed, but it says something we do not know.
    #[error("the pass has a caveat that is not understood")]
    UnknownCaveat,
    /// Signed, but without a user, an end or a grant before its other caveats.
    #[error("the pass does not say for whom, until when or for what it is")]
    Incomplete,
    /// A caveat asks for more than those before it.
    #[error("a caveat of the pass asks for more than the pass has")]
    WouldWiden,
    /// Handed on more often than it may be.
    #[error("the pass was handed on too often")]
    LastDepth,
    /// Over.
    #[error("the pass has expired")]
    Expired,
}

/// Longest text of a Pass.
pub const MAX_TEXT: usize = 8 * 1024;
/// Most caveats of a Pass.
pub const MAX_CAVEATS: usize = 64;
/// What every Pass begins with.
pub const PREFIX: &str = "pps_";
