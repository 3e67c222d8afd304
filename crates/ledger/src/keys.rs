//! The ledger's two secrets and what they make: entry codes and checkpoint signatures.
//!
//! Turns 32 bytes given by the caller into a [`ChainKey`] (HMAC-SHA256 over entries) and a signer
//! (ed25519 over checkpoints). Invariant: neither is printed, cloned out or written by this crate; the
//! bytes are wiped on drop. Not here: where keys are kept (`vault`), which public keys count
//! ([`crate::verify::Trust`]).

use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use hmac::{Hmac, KeyInit, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// The code of one entry: HMAC-SHA256 over its stored bytes.
pub(crate) type Code = [u8; 32];

/// What the first entry names as its predecessor.
pub(crate) const GENESIS: Code = [0; 32];

/// The keys a ledger is opened with.
pub struct Keys {
    pub(crate) chain: ChainKey,
    pub(crate) signer: SigningKey,
    pub(crate) signer_id: String,
}

impl Keys {
    /// Keys from a chain key, an ed25519 seed and the id the trust root knows the signer by.
    #[must_use]
    pub fn new(
        chain: Zeroizing<[u8; 32]>,
        signer: &Zeroizing<[u8; 32]>,
        signer_id: impl Into<String>,
    ) -> Self {
        let signer = SigningKey::from_bytes(signer);
        Self { chain: ChainKey::new(chain), signer, signer_id: signer_id.into() }
    }

    /// The id under which checkpoints are signed.
    #[must_use]
    pub fn signer_id(&self) -> &str {
        &self.signer_id
    }

    /// The signer's public half, for a trust root.
    #[must_use]
    pub fn public_key(&self) -> [u8; 32] {
        self.signer.verifying_key().to_bytes()
    }

    pub(crate) fn verifying_key(&self) -> VerifyingKey {
        self.signer.verifying_key()
    }

    pub(crate) fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        self.signer.sign(bytes).to_bytes()
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Keys").field("signer_id", &self.signer_id).finish_non_exhaustive()
    }
}

/// The key of the entry chain. Keyed once; every entry starts from a copy, which saves two hash blocks each.
#[derive(Clone)]
pub struct ChainKey(Hmac<Sha256>);

impl ChainKey {
    /// A chain key from its bytes, which are wiped.
    #[must_use]
    pub fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        let mut block = Zeroizing::new([0; 64]);
        for (to, from) in block.iter_mut().zip(bytes.iter()) {
            *to = *from;
        }
        Self(Hmac::new((&*block).into()))
    }

    pub(crate) fn code(&self, bytes: &[u8]) -> Code {
        let mut mac = self.0.clone();
        mac.update(bytes);
        mac.finalize().into_bytes().into()
    }

    /// The code of a reserve record: the same key under another label, so that a record can never
    /// pass for an entry.
    pub(crate) fn reserve_code(&self, bytes: &[u8]) -> Code {
        let mut mac = self.0.clone();
        mac.update(b"palisade ledger reserve\0");
        mac.update(bytes);
        mac.finalize().into_bytes().into()
    }
}

impl std::fmt::Debug for ChainKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ChainKey(..)")
    }
}
