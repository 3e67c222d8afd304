//! Secrets that we hand out once and then know only by digest.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use vault::Secret;

/// A secret just made, with the digest that is kept of it.
#[derive(Debug)]
pub struct NewSecret {
    /// Shown once, then forgotten.
    pub text: Secret<String>,
    /// What is stored.
    pub digest: String,
}

/// Makes digests with the installation's own key, so that a stolen store cannot be searched for guesses.
#[derive(Clone)]
pub struct Digests(Hmac<Sha256>);

impl std::fmt::Debug for Digests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digests(***)")
    }
}

impl Digests {
    /// Digests under this key.
    #[must_use]
    pub fn new(key: &Secret<[u8; 32]>) -> Self {
        // HMAC takes keys of one block; a shorter one is padded with zeros, by definition.
        let mut block = [0u8; 64];
        for (to, from) in block.iter_mut().zip(key.expose()) {
            *to = *from;
        }
        Self(Hmac::new(&block.into()))
    }

    /// The digest of a secret, in hex; `kind` keeps digests of different things apart.
    #[must_use]
    pub fn of(&self, kind: &str, secret: &str) -> String {
        let mut mac = self.0.clone();
        mac.update(kind.as_bytes());
        mac.update(&[0]);
        mac.update(secret.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }

    /// A new random secret of 256 bits, written `prefix` + base64.
    pub fn mint(&self, kind: &str, prefix: &str) -> Result<NewSecret, getrandom::Error> {
        let text = format!("{prefix}{}", random_text()?);
        let digest = self.of(kind, &text);
        Ok(NewSecret { text: Secret::new(text), digest })
    }
}

/// 256 random bits as text.
pub(crate) fn random_text() -> Result<String, getrandom::Error> {
    let mut bytes = zeroize::Zeroizing::new([0u8; 32]);
    getrandom::fill(bytes.as_mut_slice())?;
    Ok(URL_SAFE_NO_PAD.encode(bytes.as_slice()))
}
