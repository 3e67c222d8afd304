//! The ring as it lies on the disk: root and epochs, sealed under the master key.
//!
//! Flow: [`RingFile::create`] or [`RingFile::open`] -> [`KeyRing`]; [`RingFile::turn`] gives it a new master and a new
//! epoch, and [`RingFile::settle`] lets the earlier epochs go.
//!
//! Invariants: the file is ours alone and is replaced as a whole, durably, before the ring in memory is what it says; a
//! wrong master key changes nothing. After `turn` the earlier master opens nothing, after `settle` no key opens what was
//! sealed in earlier epochs.
//!
//! Not here: carrying records over, which lies between the two (`runtime`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use rustix::fs::{Mode, OFlags};
use zeroize::Zeroizing;

use crate::ring::{EpochKey, Epochs};
use crate::source::{SourceError, closed_folder, read_private};
use crate::{Fingerprint, KeyRing, MasterKey, OpenError, Place, SealError, Sealed, Secret};

const MAGIC: &[u8] = b"palisade-keyring-1\n";
/// Root, and the epochs of a rotation: far below this.
const MAX_FILE: usize = 64 * 1024;
const PLACE: Place<'static> = Place { record: "keyring", owner: "installation", field: "ring" };

/// Where a ring is kept.
#[derive(Clone, Debug)]
pub struct RingFile(PathBuf);

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
    /// It is not a ring, or not whole.
    #[error("the key ring is damaged or no key ring; restore it from a backup, nothing was changed")]
    Damaged,
    /// A rotation is under way.
    #[error("an earlier rotation is not finished; run it to its end first")]
    Unfinished,
    /// The new master key is the present one.
    #[error("the new master key is the present one; make another with `openssl rand -base64 32`")]
    SameMaster,
    /// No key could be made.
    #[error("no new keys could be made; nothing was changed")]
    Sealing(#[from] SealError),
}

impl RingFile {
    /// The file at this path; it need not be there.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether there is anything at this path.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.0.symlink_metadata().is_ok()
    }

    /// Makes a new ring, with a random root, and keeps it.
    ///
    /// # Errors
    /// [`RingError`]; then there is no new file. One that is there already is kept.
    pub fn create(&self, master: &MasterKey) -> Result<KeyRing, RingError> {
        if self.exists() {
            return Err(SourceError::Exists(self.0.clone()).into());
        }
        let origin = MasterKey::random().map_err(SealError::from)?;
        let epochs = Epochs { current: 1, keys: BTreeMap::from([(1, fresh()?)]), wrap: None, kept: None };
        let ring = KeyRing::of(origin, epochs);
        self.keep(&ring, wrap_of(master)?, 1)?;
        Ok(ring)
    }

    /// Reads the ring.
    ///
    /// # Errors
    /// [`RingError`]; nothing was changed.
    pub fn open(&self, master: &MasterKey) -> Result<KeyRing, RingError> {
        Self::read(&read_private(&self.0, MAX_FILE)?, master)
    }

    /// Reads a ring from the bytes of such a file.
    ///
    /// # Errors
    /// [`RingError`] when they are not a whole ring, or sealed under another master.
    pub fn read(bytes: &[u8], master: &MasterKey) -> Result<KeyRing, RingError> {
        let wrap = wrap_of(master)?;
        let sealed = bytes.strip_prefix(MAGIC).ok_or(RingError::Damaged)?;
        let sealed = Sealed::parse(sealed.to_vec()).map_err(|_| RingError::Damaged)?;
        let plain = wrap.open(&PLACE, &sealed).map_err(|error| match error {
            OpenError::OtherKey { found, ring } => RingError::OtherMaster { found, given: ring },
            OpenError::NotSealed | OpenError::NoEpoch(_) | OpenError::Tampered => RingError::Damaged,
        })?;
        let (origin, current, keys) = parse(plain.expose()).ok_or(RingError::Damaged)?;
        let epochs = Epochs { current, keys, wrap: Some(Box::new(wrap)), kept: Some(bytes.to_vec()) };
        Ok(KeyRing::of(origin, epochs))
    }

    /// Puts the bytes of a ring, which another place kept, here; what is here already is replaced.
    ///
    /// # Errors
    /// [`SourceError`]; then nothing was changed.
    pub fn put(&self, bytes: &[u8]) -> Result<(), SourceError> {
        replace(&self.0, bytes)
    }

    /// Gives the ring a new master and a new epoch, in one step: from here on the earlier master opens nothing, and new
    /// records are sealed under the new epoch. Gives its number.
    ///
    /// # Errors
    /// [`RingError`]; then nothing was changed.
    pub fn turn(&self, ring: &KeyRing, next: &MasterKey) -> Result<u32, RingError> {
        if ring.is_rotating() {
            return Err(RingError::Unfinished);
        }
        let wrap = wrap_of(next)?;
        if wrap.fingerprint() == ring.master() {
            return Err(RingError::SameMaster);
        }
        let epoch = ring.epoch().checked_add(1).ok_or(RingError::Damaged)?;
        let key = fresh()?;
        let mut epochs = ring.epochs.write().unwrap_or_else(PoisonError::into_inner);
        epochs.keys.insert(epoch, key);
        drop(epochs);
        // Known before it is kept, and not used before: what fails here leaves a key that nothing was sealed under.
        let kept = self.keep(ring, wrap, epoch);
        if kept.is_err() {
            let mut epochs = ring.epochs.write().unwrap_or_else(PoisonError::into_inner);
            epochs.keys.remove(&epoch);
        }
        kept.map(|()| epoch)
    }

    /// Lets every epoch before the current one go: what is still sealed under them opens never again.
    ///
    /// # Errors
    /// [`RingError`]; then they are still there.
    pub fn settle(&self, ring: &KeyRing) -> Result<(), RingError> {
        let (current, wrap) = {
            let epochs = ring.read_epochs();
            let wrap = epochs.wrap.as_ref().ok_or(RingError::Damaged)?;
            (epochs.current, wrap_of(&wrap.origin)?)
        };
        let plain = {
            let epochs = ring.read_epochs();
            let last = epochs.keys.iter().filter(|(number, _)| **number == current);
            written(ring, current, last)?
        };
        let bytes = sealed(&wrap, &plain)?;
        replace(&self.0, &bytes)?;
        let mut epochs = ring.epochs.write().unwrap_or_else(PoisonError::into_inner);
        epochs.keys.retain(|number, _| *number == current);
        epochs.kept = Some(bytes);
        Ok(())
    }

    /// Writes the ring with all its epochs, of which `current` is the one in use, and then uses it so.
    fn keep(&self, ring: &KeyRing, wrap: KeyRing, current: u32) -> Result<(), RingError> {
        let plain = written(ring, current, ring.read_epochs().keys.iter())?;
        let bytes = sealed(&wrap, &plain)?;
        replace(&self.0, &bytes)?;
        let mut epochs = ring.epochs.write().unwrap_or_else(PoisonError::into_inner);
        epochs.current = current;
        epochs.wrap = Some(Box::new(wrap));
        epochs.kept = Some(bytes);
        Ok(())
    }
}

fn wrap_of(master: &MasterKey) -> Result<KeyRing, RingError> {
    MasterKey::again(master.bytes()).map(KeyRing::new).ok_or(RingError::Damaged)
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

fn sealed(wrap: &KeyRing, plain: &[u8]) -> Result<Vec<u8>, RingError> {
    let sealed = wrap.seal(&PLACE, plain)?;
    Ok([MAGIC, sealed.as_bytes()].concat())
}

/// Writes beside the file, makes it durable, and puts it in the file's place.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), SourceError> {
    let failed = |cause: std::io::Error| SourceError::Io { path: path.into(), cause };
    let name = path.file_name().ok_or_else(|| SourceError::NotAFile(path.into()))?;
    let folder = closed_folder(path.parent().unwrap_or(Path::new(".")))?;
    let tag = getrandom::u64().map_err(|error| failed(std::io::Error::other(error)))?;
    let draft = format!(".new-ring-{tag:016x}");
    let write = || -> std::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&folder, &draft, flags, Mode::RUSR | Mode::WUSR)?);
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        rustix::fs::renameat(&folder, &draft, &folder, name)?;
        Ok(rustix::fs::fsync(&folder)?)
    };
    write().map_err(|cause| {
        rustix::fs::unlinkat(&folder, &draft, rustix::fs::AtFlags::empty()).unwrap_or_default();
        failed(cause)
    })
}
