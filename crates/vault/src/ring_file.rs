//! The ring in a file of its own.
//!
//! Flow: [`RingFile::create`] or [`RingFile::open`] -> [`KeyRing`]; [`RingFile::turn`] and [`RingFile::settle`] change it.
//!
//! Invariants: the file is ours alone and is replaced as a whole, durably, before the ring in memory is what it says; what
//! cannot be made durable is put back. A wrong master key changes nothing.
//!
//! Not here: what the bytes are, and what a change of keys means (`turn`); carrying records over, which lies between
//! the two changes, and that only one rotation is under way (`runtime`).

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::AtFlags;

use crate::source::{SourceError, closed_folder, open_draft, read_private, sweep};
use crate::turn::{Change, RingError};
use crate::{KeyRing, MasterKey};

/// Root, and the epochs of a rotation: far below this.
const MAX_FILE: usize = 64 * 1024;
/// How a ring is called while it is written.
const DRAFT: &str = ".new-ring-";

/// Where a ring is kept.
#[derive(Clone, Debug)]
pub struct RingFile {
    path: PathBuf,
    /// Makes the folder's names durable; a test lets it fail.
    sync: fn(&OwnedFd) -> rustix::io::Result<()>,
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
        let ring = KeyRing::with_own_root(master)?;
        self.replace(&ring.kept().unwrap_or_default())?;
        Ok(ring)
    }

    /// Reads the ring.
    ///
    /// # Errors
    /// [`RingError`]; nothing was changed.
    pub fn open(&self, master: &MasterKey) -> Result<KeyRing, RingError> {
        KeyRing::read(&read_private(&self.path, MAX_FILE)?, master)
    }

    /// What is kept, sealed.
    ///
    /// # Errors
    /// [`SourceError`] when there is none, or it is open to others.
    pub fn bytes(&self) -> Result<Vec<u8>, SourceError> {
        Ok(read_private(&self.path, MAX_FILE)?.to_vec())
    }

    /// Puts the bytes of a ring, which another place kept, here; what is here already is replaced.
    ///
    /// # Errors
    /// [`SourceError`]; then nothing was changed.
    pub fn put(&self, bytes: &[u8]) -> Result<(), SourceError> {
        self.replace(bytes)
    }

    /// [`KeyRing::turn`], kept and then used. Gives the new epoch.
    ///
    /// # Errors
    /// [`RingError`]; then nothing was changed.
    pub fn turn(&self, ring: &KeyRing, next: &MasterKey) -> Result<u32, RingError> {
        self.keep(ring, ring.turn(next)?)?;
        Ok(ring.epoch())
    }

    /// [`KeyRing::settle`], kept and then used.
    ///
    /// # Errors
    /// [`RingError`]; then the earlier epochs are still there.
    pub fn settle(&self, ring: &KeyRing, epoch: u32) -> Result<(), RingError> {
        self.keep(ring, ring.settle(epoch)?)
    }

    /// Keeps a ring as a change of it says, and then lets it be so.
    ///
    /// # Errors
    /// [`RingError`]; then nothing was changed.
    pub fn keep(&self, ring: &KeyRing, change: Change) -> Result<(), RingError> {
        self.replace(change.bytes())?;
        ring.adopt(change);
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

/// Writes these bytes beside a file of the folder, and then in its place.
fn put(folder: &OwnedFd, name: &OsStr, bytes: &[u8]) -> std::io::Result<()> {
    sweep(folder, DRAFT);
    let tag = getrandom::u64().map_err(std::io::Error::other)?;
    let draft = format!("{DRAFT}{tag:016x}");
    let write = || -> std::io::Result<()> {
        let mut file = open_draft(folder, &draft)?;
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
