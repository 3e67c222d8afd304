//! A Pass as it travels: text that is a secret.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use vault::Secret;

use super::effect::Effect;
use super::wire::{self, Raw};
use super::{Caveat, MAX_CAVEATS, MAX_TEXT, PREFIX, PassError, chain};

/// A well-formed Pass, not yet verified. Whoever holds the text holds the authority.
pub struct PassToken(Secret<Vec<u8>>);

/// Why a caveat was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttenuateError {
    /// It asks for more than the Pass has.
    #[error("a pass can only be narrowed, and `{0}` would widen it")]
    WouldWiden(&'static str),
    /// There is no room for it.
    #[error("the pass has no room for another caveat")]
    Full,
    /// What the Pass says already cannot be read.
    #[error("the pass itself cannot be used")]
    Unusable(#[source] PassError),
}

impl PassToken {
    /// Parses `pps_…`; looks at the form only.
    ///
    /// # Errors
    /// [`PassError`] for anything that is not the form of a Pass.
    pub fn parse(text: &str) -> Result<Self, PassError> {
        if text.len() > MAX_TEXT {
            return Err(PassError::TooLarge);
        }
        let encoded = text.strip_prefix(PREFIX).ok_or(PassError::Malformed)?;
        let bytes = Secret::new(URL_SAFE_NO_PAD.decode(encoded).map_err(|_| PassError::Malformed)?);
        Raw::parse(bytes.expose())?;
        Ok(Self(bytes))
    }

    /// The text to hand over; shown once and never logged.
    #[must_use]
    pub fn to_text(&self) -> Secret<String> {
        let mut text = String::with_capacity(text_length(self.0.expose().len()));
        text.push_str(PREFIX);
        URL_SAFE_NO_PAD.encode_string(self.0.expose(), &mut text);
        Secret::new(text)
    }

    /// A Pass with one more caveat, made without any key.
    ///
    /// # Errors
    /// [`AttenuateError`] when the caveat would widen the Pass, or does not fit.
    pub fn attenuate(&self, caveat: &Caveat) -> Result<Self, AttenuateError> {
        let raw = self.raw().map_err(AttenuateError::Unusable)?;
        let mut effect = Effect::of(&raw).map_err(AttenuateError::Unusable)?;
        effect.apply(caveat.clone()).map_err(|refused| match refused {
            PassError::WouldWiden | PassError::LastDepth => AttenuateError::WouldWiden(caveat.word()),
            other => AttenuateError::Unusable(other),
        })?;
        self.with(caveat)
    }

    /// One more caveat that is already known to narrow.
    pub(super) fn with(&self, caveat: &Caveat) -> Result<Self, AttenuateError> {
        let raw = self.raw().map_err(AttenuateError::Unusable)?;
        let text = caveat.to_string();
        let signature = chain::step(raw.signature, text.as_bytes());
        let bytes = Secret::new(wire::append(self.0.expose(), text.as_bytes(), &signature));
        if raw.count >= MAX_CAVEATS || text_length(bytes.expose().len()) > MAX_TEXT {
            return Err(AttenuateError::Full);
        }
        Ok(Self(bytes))
    }

    pub(super) fn begin(identifier: &[u8], signature: &chain::Signature) -> Self {
        Self(Secret::new(wire::begin(identifier, signature)))
    }

    pub(super) fn raw(&self) -> Result<Raw<'_>, PassError> {
        Raw::parse(self.0.expose())
    }
}

const fn text_length(bytes: usize) -> usize {
    PREFIX.len() + (bytes * 8).div_ceil(6)
}

impl fmt::Debug for PassToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PassToken(***)")
    }
}
