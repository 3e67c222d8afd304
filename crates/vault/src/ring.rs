//! Turns a root secret into one key per [`Purpose`], by HKDF-SHA256, and holds the epochs that records are sealed under.
//!
//! Invariants: every purpose has its own fixed label; a label never changes and is never reused, so no
//! two purposes can share a key and a restart derives the same keys. A ring that is kept has a random root and random
//! epochs, sealed under the master; one that is not has the master as its root, and one epoch made from it.
//!
//! Not here: how it is kept and changed (`turn`), what is sealed (`seal`, `record`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use aws_lc_rs::hkdf;

use crate::{MasterKey, Secret};

const EXTRACT_SALT: &[u8] = b"palisade/v1/key-ring";

/// What a derived key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The raw key of the encrypted store.
    Store,
    /// The MAC that links Ledger entries.
    LedgerChain,
    /// The seed of the Ledger's signing key.
    LedgerSigner,
    /// Access and refresh tokens.
    Tokens,
    /// Passes.
    Passes,
    /// Keyed digests, such as of API keys.
    Digests,
    /// Sealed values; used inside this crate.
    Seal,
    /// Backups.
    Backup,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Self; 8] = [
        Self::Store,
        Self::LedgerChain,
        Self::LedgerSigner,
        Self::Tokens,
        Self::Passes,
        Self::Digests,
        Self::Seal,
        Self::Backup,
    ];

    const fn label(self) -> &'static [u8] {
        match self {
            Self::Store => b"palisade/v1/store",
            Self::LedgerChain => b"palisade/v1/ledger-chain",
            Self::LedgerSigner => b"palisade/v1/ledger-signer",
            Self::Tokens => b"palisade/v1/tokens",
            Self::Passes => b"palisade/v1/passes",
            Self::Digests => b"palisade/v1/digests",
            Self::Seal => b"palisade/v1/seal",
            Self::Backup => b"palisade/v1/backup",
        }
    }
}

/// Eight bytes that name a ring and tell nothing about its keys; safe to show and to store.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 8]);

impl Fingerprint {
    /// The bytes, as they stand in front of every sealed value.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// The key of one epoch: what is kept, and the same made ready for use.
pub(crate) struct EpochKey {
    pub(crate) bytes: Secret<[u8; 32]>,
    pub(crate) ready: LessSafeKey,
}

impl EpochKey {
    pub(crate) fn new(bytes: Secret<[u8; 32]>) -> Option<Self> {
        let ready = UnboundKey::new(&AES_256_GCM, bytes.expose()).ok().map(LessSafeKey::new)?;
        Some(Self { bytes, ready })
    }
}

/// What a ring's root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// A master key, perhaps one of earlier: it alone derives what hangs on the root.
    Master,
    /// Random, and in the ring alone.
    Own,
}

/// What changes when keys are rotated.
pub(crate) struct Epochs {
    /// What new records are sealed under.
    pub(crate) current: u32,
    /// By number; more than one while a rotation is under way.
    pub(crate) keys: BTreeMap<u32, EpochKey>,
    /// The ring of the master that it is kept under; none while it is not kept.
    pub(crate) wrap: Option<Box<KeyRing>>,
    /// What is kept.
    pub(crate) kept: Option<Vec<u8>>,
}

/// All keys of one daemon. Not `Clone`: share it behind an `Arc`.
pub struct KeyRing {
    root: hkdf::Prk,
    /// What `root` was made from; it is kept, sealed.
    pub(crate) origin: MasterKey,
    pub(crate) root_kind: Root,
    pub(crate) seal: Secret<[u8; 32]>,
    fingerprint: Fingerprint,
    pub(crate) epochs: RwLock<Epochs>,
}

impl KeyRing {
    /// A ring that this master key alone makes.
    #[must_use]
    pub fn new(master: MasterKey) -> Self {
        let first = hkdf::Salt::new(hkdf::HKDF_SHA256, EXTRACT_SALT).extract(master.bytes());
        let key = EpochKey::new(Secret::new(derive(&first, b"palisade/v1/epoch-1")));
        let keys = key.into_iter().map(|key| (1, key)).collect();
        Self::of(master, Root::Master, Epochs { current: 1, keys, wrap: None, kept: None })
    }

    pub(crate) fn of(origin: MasterKey, root_kind: Root, epochs: Epochs) -> Self {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, EXTRACT_SALT).extract(origin.bytes());
        let seal = Secret::new(derive(&root, Purpose::Seal.label()));
        let fingerprint = Fingerprint(derive(&root, b"palisade/v1/fingerprint"));
        Self { root, origin, root_kind, seal, fingerprint, epochs: RwLock::new(epochs) }
    }

    /// The number of the epoch that new records are sealed under.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.read_epochs().current
    }

    /// Whether records of an earlier epoch are still being carried over.
    #[must_use]
    pub fn is_rotating(&self) -> bool {
        self.read_epochs().keys.len() > 1
    }

    /// Names the master key that opens this ring.
    #[must_use]
    pub fn master(&self) -> Fingerprint {
        self.read_epochs().wrap.as_ref().map_or(self.fingerprint, |wrap| wrap.fingerprint)
    }

    /// Whether its root is random and in the ring alone, so that no master key, present or earlier, derives anything.
    #[must_use]
    pub fn has_own_root(&self) -> bool {
        self.root_kind == Root::Own
    }

    /// The ring as it is kept, sealed under the master; none for a ring that the master alone makes.
    #[must_use]
    pub fn kept(&self) -> Option<Vec<u8>> {
        self.read_epochs().kept.clone()
    }

    pub(crate) fn read_epochs(&self) -> RwLockReadGuard<'_, Epochs> {
        self.epochs.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key for one purpose; equal for equal master keys.
    #[must_use]
    pub fn subkey(&self, purpose: Purpose) -> Secret<[u8; 32]> {
        Secret::new(derive(&self.root, purpose.label()))
    }

    /// A public name for this ring, to tell one key from another.
    #[must_use]
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand to a fixed, small number of bytes.
#[expect(clippy::expect_used, reason = "HKDF-SHA256 fails only above 8,160 bytes; N is 8 or 32")]
pub(crate) fn derive<const N: usize>(root: &hkdf::Prk, label: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    let filled = root.expand(&[label], Length(N)).and_then(|okm| okm.fill(&mut out));
    filled.expect("a short HKDF output is always possible");
    out
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn ring(hex: &str) -> KeyRing {
        KeyRing::new(MasterKey::from_hex_or_base64(hex).unwrap())
    }

    const A: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    const B: &str = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752";

    #[test]
    fn every_purpose_has_its_own_key_and_a_restart_derives_the_same() {
        let (one, again, other) = (ring(A), ring(A), ring(B));
        let mut keys = HashSet::new();
        for purpose in Purpose::ALL {
            assert!(again.subkey(purpose).matches(one.subkey(purpose).expose()));
            assert!(keys.insert(*one.subkey(purpose).expose()), "{purpose:?}");
            assert!(keys.insert(*other.subkey(purpose).expose()), "{purpose:?}");
        }
        assert_eq!(one.fingerprint(), again.fingerprint());
        assert_ne!(one.fingerprint(), other.fingerprint());
    }

    #[test]
    fn a_label_never_changes() {
        // Golden values, computed by Python's hmac; changing one would orphan every existing store.
        let ring = ring(A);
        let golden = |purpose| hex::encode(ring.subkey(purpose).expose());
        assert_eq!(
            golden(Purpose::Store),
            "80207ec40dea15e46e068577fb067b9ca93e40eeef19ab0f804c05a552f19048"
        );
        assert_eq!(
            golden(Purpose::Passes),
            "299755f05d17f5598fbf09a20f81b5c9e90d7bfa6b5fd7aa4462b5318d682b8a"
        );
        assert_eq!(ring.fingerprint().to_string(), "943871a409e68bb5");
    }

    #[test]
    fn debug_shows_the_fingerprint_only() {
        let ring = ring(A);
        assert_eq!(
            format!("{ring:?}"),
            format!("KeyRing {{ fingerprint: Fingerprint({}), .. }}", ring.fingerprint())
        );
    }
}
