//! The ring as it is kept: root and epochs, sealed under the master key; and how it changes.
//!
//! Flow: [`KeyRing::with_own_root`] or [`KeyRing::read`]; [`KeyRing::turn`] is a [`Change`] to a new master and a new epoch,
//! [`KeyRing::settle`] one that lets the earlier epochs go. Whoever keeps the ring makes the change durable and then lets
//! the ring adopt it.
//!
//! Invariants: a change that is not adopted changes nothing: no record was sealed under its epoch, so another may take
//! its place. After a turn the earlier master does not open the ring, after settling no key opens what was sealed in
//! earlier epochs. The root stays. A ring says whether its root is its own: if not, a master key of earlier is the root,
//! and still derives what hangs on it, with no ring at all.
//!
//! Not here: where the bytes are kept ([`crate::RingFile`], or a database).

use std::collections::BTreeMap;
use std::sync::PoisonError;

use zeroize::Zeroizing;

use crate::ring::{EpochKey, Epochs, Root};
use crate::source::SourceError;
use crate::{BadKey, Fingerprint, KeyRing, MasterKey, OpenError, Place, SealError, Sealed, Secret, Stretch};

/// Most bytes of the first line.
const MAX_HEAD: usize = 160;

impl Root {
    /// How a ring of this root begins, and what it is sealed for: one cannot pass for the other.
    const fn form(self) -> (&'static str, Place<'static>) {
        let field = match self {
            Self::Master => "ring",
            Self::Own => "ring with a root of its own",
        };
        let place = Place { record: "keyring", owner: "installation", field };
        match self {
            Self::Master => ("palisade-keyring-1", place),
            Self::Own => ("palisade-keyring-2", place),
        }
    }
}

/// Why a ring was not read or not written.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The file itself.
    #[error(transparent)]
    File(#[from] SourceError),
    /// It is sealed under another master key.
    #[error(
        "the key does not open the store: its key ring was sealed under master key `{found}`, and `{given}` was given; give \
         the right one, nothing was changed"
    )]
    OtherMaster {
        /// The master that it is sealed under.
        found: Fingerprint,
        /// The master that was given.
        given: Fingerprint,
    },
    /// It is sealed under a master of another kind.
    #[error(
        "the key does not open the store: its key ring is sealed under {sealed}, and {given} was given; nothing was changed"
    )]
    OtherKind {
        /// What it is sealed under.
        sealed: &'static str,
        /// What was given.
        given: &'static str,
    },
    /// The master itself cannot be used.
    #[error("the master key cannot be used: {0}")]
    Master(#[from] BadKey),
    /// It is not a ring, or not whole.
    #[error("the key ring is damaged or no key ring; restore it from a backup, nothing was changed")]
    Damaged,
    /// A rotation is under way.
    #[error("an earlier rotation is not finished; run it to its end first")]
    Unfinished,
    /// Another rotation was begun.
    #[error("keys are at epoch {0} by now: another rotation was begun; run it to its end")]
    OtherEpoch(u32),
    /// The new master key is the present one.
    #[error("the new master key is the present one; make another with `openssl rand -base64 32`")]
    SameMaster,
    /// No key could be made.
    #[error("no new keys could be made; nothing was changed")]
    Sealing(#[from] SealError),
}

/// A change of a ring that is not in use yet.
#[must_use = "a change that is not adopted is none"]
pub struct Change {
    bytes: Vec<u8>,
    wrap: KeyRing,
    epoch: u32,
    step: Step,
}

enum Step {
    Turn(EpochKey),
    Settle,
}

impl Change {
    /// The ring as it is to be kept.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Change(to epoch {})", self.epoch)
    }
}

impl KeyRing {
    /// A new ring with a random root, sealed under this master; [`Self::kept`] is to be kept before it is used.
    ///
    /// # Errors
    /// [`RingError`] when no keys could be made.
    pub fn with_own_root(master: &MasterKey) -> Result<Self, RingError> {
        let origin = MasterKey::random().map_err(SealError::from)?;
        let epochs = Epochs { current: 1, keys: BTreeMap::from([(1, fresh()?)]), wrap: None, kept: None };
        let ring = Self::of(origin, Root::Own, epochs);
        let wrap = wrap_of(master)?;
        let plain = written(&ring, 1, ring.read_epochs().keys.iter())?;
        let bytes = sealed(Root::Own, &wrap, &plain)?;
        {
            let mut epochs = ring.epochs.write().unwrap_or_else(PoisonError::into_inner);
            epochs.wrap = Some(Box::new(wrap));
            epochs.kept = Some(bytes);
        }
        Ok(ring)
    }

    /// Reads a ring from the bytes that were kept of it.
    ///
    /// # Errors
    /// [`RingError`] when they are not a whole ring, or sealed under another master.
    pub fn read(bytes: &[u8], master: &MasterKey) -> Result<Self, RingError> {
        let wrap = wrap_of(master)?;
        let (root, _, sealed) = head(bytes).ok_or(RingError::Damaged)?;
        let (_, place) = root.form();
        let sealed = Sealed::parse(sealed.to_vec()).map_err(|_| RingError::Damaged)?;
        let plain = wrap.open(&place, &sealed).map_err(|error| match error {
            OpenError::OtherKey { found, ring } => RingError::OtherMaster { found, given: ring },
            OpenError::NotSealed | OpenError::NoEpoch(_) | OpenError::Tampered => RingError::Damaged,
        })?;
        let (origin, current, keys) = parse(plain.expose()).ok_or(RingError::Damaged)?;
        let epochs = Epochs { current, keys, wrap: Some(Box::new(wrap)), kept: Some(bytes.to_vec()) };
        Ok(Self::of(origin, root, epochs))
    }

    /// How a passphrase becomes the master key of this ring; none where the master is a key.
    ///
    /// # Errors
    /// [`RingError::Damaged`] when these bytes are no ring.
    pub fn stretch_of(bytes: &[u8]) -> Result<Option<Stretch>, RingError> {
        head(bytes).map(|(_, stretch, _)| stretch).ok_or(RingError::Damaged)
    }

    /// A new master and a new epoch, in one step: once it is adopted the earlier master opens nothing, and new records are
    /// sealed under the new epoch.
    ///
    /// # Errors
    /// [`RingError`] when a rotation is under way, or the master is the present one.
    pub fn turn(&self, next: &MasterKey) -> Result<Change, RingError> {
        if self.is_rotating() {
            return Err(RingError::Unfinished);
        }
        let wrap = wrap_of(next)?;
        if wrap.fingerprint() == self.master() {
            return Err(RingError::SameMaster);
        }
        let epoch = self.epoch().checked_add(1).ok_or(RingError::Damaged)?;
        let new = fresh()?;
        let plain = written(self, epoch, self.read_epochs().keys.iter().chain([(&epoch, &new)]))?;
        let bytes = sealed(self.root_kind, &wrap, &plain)?;
        Ok(Change { bytes, wrap, epoch, step: Step::Turn(new) })
    }

    /// Every epoch before this one, which must be the current one, goes: what is still sealed under them opens never
    /// again.
    ///
    /// # Errors
    /// [`RingError`] when this is not the current epoch.
    pub fn settle(&self, epoch: u32) -> Result<Change, RingError> {
        let epochs = self.read_epochs();
        if epochs.current != epoch {
            return Err(RingError::OtherEpoch(epochs.current));
        }
        let wrap = wrap_of(&epochs.wrap.as_ref().ok_or(RingError::Damaged)?.origin)?;
        let last = epochs.keys.iter().filter(|(number, _)| **number == epoch);
        let bytes = sealed(self.root_kind, &wrap, &written(self, epoch, last)?)?;
        Ok(Change { bytes, wrap, epoch, step: Step::Settle })
    }

    /// Uses the ring as this change of it says, because that is durable.
    pub fn adopt(&self, change: Change) {
        let mut epochs = self.epochs.write().unwrap_or_else(PoisonError::into_inner);
        match change.step {
            Step::Turn(new) => drop(epochs.keys.insert(change.epoch, new)),
            Step::Settle => epochs.keys.retain(|number, _| *number == change.epoch),
        }
        epochs.current = change.epoch;
        epochs.wrap = Some(Box::new(change.wrap));
        epochs.kept = Some(change.bytes);
    }
}

fn wrap_of(master: &MasterKey) -> Result<KeyRing, RingError> {
    let again = MasterKey::again(master.bytes()).ok_or(RingError::Damaged)?;
    Ok(KeyRing::new(again.stretched_by(master.stretch().copied())))
}

fn fresh() -> Result<EpochKey, SealError> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes)?;
    EpochKey::new(Secret::new(*bytes)).ok_or(SealError::Cipher)
}

/// `root length 2 | root | current 4 | count 2 | (epoch 4 | key 32)…`
fn written<'a>(
    ring: &KeyRing,
    current: u32,
    keys: impl Iterator<Item = (&'a u32, &'a EpochKey)>,
) -> Result<Zeroizing<Vec<u8>>, RingError> {
    let root = ring.origin.bytes();
    // Room for a rotation's two epochs and more, so that the bytes are not moved and left behind.
    let mut plain = Zeroizing::new(Vec::with_capacity(root.len() + 512));
    plain.extend_from_slice(&u16::try_from(root.len()).map_err(|_| RingError::Damaged)?.to_be_bytes());
    plain.extend_from_slice(root);
    plain.extend_from_slice(&current.to_be_bytes());
    let keys: Vec<_> = keys.collect();
    plain.extend_from_slice(&u16::try_from(keys.len()).map_err(|_| RingError::Damaged)?.to_be_bytes());
    for (number, key) in keys {
        plain.extend_from_slice(&number.to_be_bytes());
        plain.extend_from_slice(key.bytes.expose());
    }
    Ok(plain)
}

fn parse(plain: &[u8]) -> Option<(MasterKey, u32, BTreeMap<u32, EpochKey>)> {
    let (length, rest) = plain.split_first_chunk::<2>()?;
    let (root, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let (current, rest) = rest.split_first_chunk::<4>()?;
    let (count, mut rest) = rest.split_first_chunk::<2>()?;
    let mut keys = BTreeMap::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (number, more) = rest.split_first_chunk::<4>()?;
        let (key, more) = more.split_first_chunk::<32>()?;
        keys.insert(u32::from_be_bytes(*number), EpochKey::new(Secret::new(*key))?);
        rest = more;
    }
    let current = u32::from_be_bytes(*current);
    (rest.is_empty() && keys.contains_key(&current)).then_some(())?;
    Some((MasterKey::again(root)?, current, keys))
}

/// A first line, which says of what kind the ring is and how a passphrase becomes its master; then the sealed ring.
fn sealed(root: Root, wrap: &KeyRing, plain: &[u8]) -> Result<Vec<u8>, RingError> {
    let (magic, place) = root.form();
    let stretch = wrap.origin.stretch().map_or_else(String::new, |stretch| format!(" {stretch}"));
    let sealed = wrap.seal(&place, plain)?;
    Ok([format!("{magic}{stretch}\n").as_bytes(), sealed.as_bytes()].concat())
}

/// The kind of a ring, how its master is made from a passphrase if it is, and what is sealed.
fn head(bytes: &[u8]) -> Option<(Root, Option<Stretch>, &[u8])> {
    let end = bytes.iter().take(MAX_HEAD).position(|byte| *byte == b'\n')?;
    let (line, sealed) = (bytes.get(..end)?, bytes.get(end + 1..)?);
    let line = std::str::from_utf8(line).ok()?;
    let (magic, stretch) = line.split_once(' ').map_or((line, None), |(magic, rest)| (magic, Some(rest)));
    let root = [Root::Master, Root::Own].into_iter().find(|root| root.form().0 == magic)?;
    let stretch = stretch.map(|text| text.parse().map_err(drop)).transpose().ok()?;
    Some((root, stretch, sealed))
}
