//! Turns 32 secret bytes into the keys of one user's ledger, and into keys for other purposes.
//!
//! HKDF-SHA256 (RFC 5869) by HMAC alone: no cryptographic library is loaded on the way to a launch. Invariants:
//! every purpose has its own fixed label, so no two share a key; a label never changes, or the ledgers that exist
//! could not be gone on with. Not here: where the bytes are kept, the daemon's keys (`vault`).

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::keys::{ChainKey, Keys};
use crate::verify::TrustedKey;

const SALT: &[u8] = b"palisade/v1/run-keys";
const CHAIN: &[u8] = b"palisade/v1/run-ledger/chain";
const SIGNER: &[u8] = b"palisade/v1/run-ledger/signer";
const FINGERPRINT: &[u8] = b"palisade/v1/run-ledger/fingerprint";
/// What stands before the purposes of others.
const PURPOSE: &[u8] = b"palisade/v1/run/";

/// Why bytes are not a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSeed {
    /// One value repeated: a file whose content never reached the disk reads as zeros.
    #[error("the secret is one byte repeated, so its file was not written whole; restore it from a backup")]
    OneByte,
}

/// The one secret of a user's runs. Wiped on drop; never shown.
pub struct Seed(Zeroizing<[u8; 32]>);

impl Seed {
    /// Takes 32 random bytes.
    ///
    /// # Errors
    /// [`BadSeed`] if they cannot be random.
    pub fn new(secret: Zeroizing<[u8; 32]>) -> Result<Self, BadSeed> {
        let [first, rest @ ..] = &*secret;
        if rest.iter().all(|byte| byte == first) {
            return Err(BadSeed::OneByte);
        }
        Ok(Self(hmac(SALT, &[&*secret])))
    }

    /// The keys of the ledger.
    #[must_use]
    pub fn keys(&self) -> Keys {
        Keys::new(self.expand(CHAIN), &self.expand(SIGNER), self.signer_id())
    }

    /// The key of the entry chain, for a check that finds changes to the entry.
    #[must_use]
    pub fn chain_key(&self) -> ChainKey {
        ChainKey::new(self.expand(CHAIN))
    }

    /// What a trust root must hold for `palisade-verify` to check this ledger.
    #[must_use]
    pub fn trusted_key(&self) -> TrustedKey {
        let keys = self.keys();
        TrustedKey::active(keys.signer_id(), keys.public_key())
    }

    /// A key for another purpose of the same user, such as `receipt`; equal for equal seeds.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        hmac(&*self.0, &[PURPOSE, purpose.as_bytes(), &[1]])
    }

    /// `run-` and eight bytes that name the seed and tell nothing about it.
    fn signer_id(&self) -> String {
        let bytes = self.expand(FINGERPRINT);
        format!("run-{}", hex::encode(bytes.first_chunk::<8>().unwrap_or(&[0; 8])))
    }

    fn expand(&self, label: &[u8]) -> Zeroizing<[u8; 32]> {
        hmac(&*self.0, &[label, &[1]])
    }
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Seed(..)")
    }
}

/// HMAC-SHA256 under a key of at most one block.
fn hmac(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut block = Zeroizing::new([0; 64]);
    for (to, from) in block.iter_mut().zip(key) {
        *to = *from;
    }
    let mut mac = Hmac::<Sha256>::new((&*block).into());
    parts.iter().for_each(|part| mac.update(part));
    Zeroizing::new(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed(byte: u8) -> Seed {
        let mut secret = Zeroizing::new([0; 32]);
        for (place, to) in secret.iter_mut().enumerate() {
            *to = byte.wrapping_add(u8::try_from(place).unwrap());
        }
        Seed::new(secret).unwrap()
    }

    #[test]
    fn a_label_never_changes() {
        // Golden values, computed by Python's hmac; changing one would orphan every user's ledger.
        let seed = seed(0);
        assert_eq!(hex::encode(*seed.expand(CHAIN)), GOLDEN[0]);
        assert_eq!(hex::encode(*seed.expand(SIGNER)), GOLDEN[1]);
        assert_eq!(hex::encode(*seed.derive("receipt")), GOLDEN[2]);
        assert_eq!(seed.keys().signer_id(), GOLDEN[3]);
    }

    const GOLDEN: [&str; 4] = [
        "58fc28c5b254d2a92d851531b874091902d778cb43a7d1fcbe7a8ddb899bdeea",
        "48107c37aaa92ad2eb4d159ecc87696ee394752f7ce01b1eb31320ce605025fa",
        "0222e821e7ed97ff9a65bc5e6f0e4cf9a5d68f3804806c19f016bb0e095b1dac",
        "run-c5f1247512e767b3",
    ];

    #[test]
    fn seeds_and_purposes_share_no_key() {
        let mut keys = std::collections::HashSet::new();
        for seed in [seed(0), seed(1)] {
            for key in [seed.expand(CHAIN), seed.expand(SIGNER), seed.derive("receipt"), seed.derive("other")]
            {
                assert!(keys.insert(*key));
            }
        }
        assert_ne!(seed(0).keys().signer_id(), seed(1).keys().signer_id());
        assert_eq!(seed(0).keys().public_key(), seed(0).keys().public_key());
        assert_eq!(format!("{:?}", seed(0)), "Seed(..)");
    }

    #[test]
    fn a_file_of_zeros_is_no_seed() {
        for byte in [0, 255] {
            assert_eq!(Seed::new(Zeroizing::new([byte; 32])).unwrap_err(), BadSeed::OneByte);
        }
    }
}
