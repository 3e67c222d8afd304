//! The ring as it lies on the disk: root and epochs, sealed under the master key.
//!
//! Flow: [`RingFile::create`] or [`RingFile::open`] -> [`KeyRing`]; [`RingFile::turn`] gives it a new master and a new
//! epoch, and [`RingFile::settle`] lets the earlier epochs go.
//!
//! Invariants: the file is ours alone and is replaced as a whole, durably, before the ring in memory is what it says; what
//! cannot be made durable is put back. A wrong master key changes nothing. After `turn` the earlier master does not open
//! the file, after `settle` no key opens what was sealed in earlier epochs. The root stays: where the first master was the
//! root itself (a ring that had no file before its first `turn`), that master still derives what hangs on the root, with
//! no file at all.
//!
//! Not here: carrying records over, which lies between the two, and that only one rotation is under way (`runtime`).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};
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
pub struct RingFile {
    path: PathBuf,
    /// Makes the folder's names durable; a test lets it fail.
    sync: fn(&OwnedFd) -> rustix::io::Result<()>,
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

impl RingFile {
    /// The file at this path; it need not be there.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path, sync: |folder| rustix::fs::fsync(folder) }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is anything at this path.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// Makes a new ring, with a random root, and keeps it.
    ///
    /// # Errors
    /// [`RingError`]; then there is no new file. One that is there already is kept.
    pub fn create(&self, master: &MasterKey) -> Result<KeyRing, RingError> {
        if self.exists() {
            return Err(SourceError::Exists(self.path.clone()).into());
        }
        let origin = MasterKey::random().map_err(SealError::from)?;
        let epochs = Epochs { current: 1, keys: BTreeMap::from([(1, fresh()?)]), wrap: None, kept: None };
        let ring = KeyRing::of(origin, epochs);
        self.keep(&ring, wrap_of(master)?, 1, None)?;
        Ok(ring)
    }

    /// Reads the ring.
    ///
    /// # Errors
    /// [`RingError`]; nothing was changed.
    pub fn open(&self, master: &MasterKey) -> Result<KeyRing, RingError> {
        Self::read(&read_private(&self.path, MAX_FILE)?, master)
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
        self.replace(bytes)
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
        self.keep(ring, wrap, epoch, Some(fresh()?))?;
        Ok(epoch)
    }

    /// Lets every epoch before this one, which must be the current one, go: what is still sealed under them opens never
    /// again.
    ///
    /// # Errors
    /// [`RingError`]; then they are still there.
    pub fn settle(&self, ring: &KeyRing, epoch: u32) -> Result<(), RingError> {
        let (wrap, plain) = {
            let epochs = ring.read_epochs();
            if epochs.current != epoch {
                return Err(RingError::OtherEpoch(epochs.current));
            }
            let wrap = epochs.wrap.as_ref().ok_or(RingError::Damaged)?;
            let last = epochs.keys.iter().filter(|(number, _)| **number == epoch);
            (wrap_of(&wrap.origin)?, written(ring, epoch, last)?)
        };
        let bytes = sealed(&wrap, &plain)?;
        self.replace(&bytes)?;
        let mut epochs = ring.epochs.write().unwrap_or_else(PoisonError::into_inner);
        epochs.keys.retain(|number, _| *number == epoch);
        epochs.kept = Some(bytes);
        Ok(())
    }

    /// Writes the ring with all its epochs, of which `current` is the one in use, and then uses it so.
    fn keep(
        &self,
        ring: &KeyRing,
        wrap: KeyRing,
        current: u32,
        new: Option<EpochKey>,
    ) -> Result<(), RingError> {
        let plain = {
            let epochs = ring.read_epochs();
            written(ring, current, epochs.keys.iter().chain(new.iter().map(|key| (&current, key))))?
        };
        let bytes = sealed(&wrap, &plain)?;
        self.replace(&bytes)?;
        let mut epochs = ring.epochs.write().unwrap_or_else(PoisonError::into_inner);
        epochs.keys.extend(new.map(|key| (current, key)));
        epochs.current = current;
        epochs.wrap = Some(Box::new(wrap));
        epochs.kept = Some(bytes);
        Ok(())
    }

    /// Writes beside the file, makes it durable, and puts it in the file's place. What cannot be made durable there is
    /// put back: whoever is told of a failure goes on with what was there before, and so does the next start.
    fn replace(&self, bytes: &[u8]) -> Result<(), SourceError> {
        let path = &self.path;
        let failed = |cause: rustix::io::Errno| SourceError::Io { path: path.clone(), cause: cause.into() };
        let name = path.file_name().ok_or_else(|| SourceError::NotAFile(path.clone()))?;
        let folder = closed_folder(path.parent().unwrap_or(Path::new(".")))?;
        let before = match read_private(path, MAX_FILE) {
            Ok(before) => Some(before),
            Err(SourceError::Missing(_)) => None,
            Err(error) => return Err(error),
        };
        put(&folder, name, bytes).map_err(|cause| SourceError::Io { path: path.clone(), cause })?;
        let Err(cause) = (self.sync)(&folder) else { return Ok(()) };
        let back = match before {
            Some(before) => put(&folder, name, &before),
            None => rustix::fs::unlinkat(&folder, name, AtFlags::empty()).map_err(Into::into),
        };
        back.map_err(|cause| SourceError::Io { path: path.clone(), cause })?;
        // As good as the disk lets it be: what it may show instead holds the earlier epochs too.
        (self.sync)(&folder).unwrap_or_default();
        Err(failed(cause))
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

/// Writes these bytes beside a file of the folder, and then in its place.
fn put(folder: &OwnedFd, name: &OsStr, bytes: &[u8]) -> std::io::Result<()> {
    let tag = getrandom::u64().map_err(std::io::Error::other)?;
    let draft = format!(".new-ring-{tag:016x}");
    let write = || -> std::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(folder, &draft, flags, Mode::RUSR | Mode::WUSR)?);
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(rustix::fs::renameat(folder, &draft, folder, name)?)
    };
    write().inspect_err(|_| rustix::fs::unlinkat(folder, &draft, AtFlags::empty()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_04_what_cannot_be_made_durable_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let good = RingFile::at(folder.path().join("keys").join("keyring"));
        let bad = RingFile { sync: |_| Err(rustix::io::Errno::IO), ..good.clone() };
        let (old, new) = (MasterKey::random().unwrap(), MasterKey::random().unwrap());
        assert!(bad.create(&old).is_err());
        assert!(!good.exists(), "there was none");

        let ring = good.create(&old).unwrap();
        assert!(bad.turn(&ring, &new).is_err());
        let kept = good.open(&old).unwrap();
        assert_eq!((ring.epoch(), ring.is_rotating(), ring.master()), (1, false, kept.master()));

        good.turn(&ring, &new).unwrap();
        assert!(bad.settle(&ring, 2).is_err());
        assert!(ring.is_rotating() && good.open(&new).unwrap().is_rotating());
        good.settle(&ring, 2).unwrap();
        assert!(!good.open(&new).unwrap().is_rotating());
        let names = std::fs::read_dir(folder.path().join("keys")).unwrap().count();
        assert_eq!(names, 1, "and no draft stays");
    }
}
