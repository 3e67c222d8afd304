//! A directory, and what is beneath it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::FileError;

/// How often the kernel may say that the tree changed while it looked.
const TRIES: usize = 128;

/// Whose a file must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Anybody's.
    Any,
    /// The caller's or root's, open to nobody else, under one name: a key.
    Private,
}

/// What is in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub kind: Kind,
    /// How long it is.
    pub size: u64,
}

/// What something in a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A plain file.
    File,
    /// A directory.
    Folder,
    /// A link, wherever it leads.
    Link,
    /// A pipe, device or socket.
    Other,
}

/// A directory that paths are beneath.
#[derive(Debug)]
pub struct Root(OwnedFd);

impl Root {
    /// The directory at a path, links followed: it is named by somebody who may.
    ///
    /// # Errors
    /// When there is none, or it may not be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
    }

    /// A directory beneath this one.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn folder(&self, path: &Path) -> Result<Self, FileError> {
        if path.as_os_str().is_empty() {
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
            return Ok(Self(rustix::fs::openat(&self.0, ".", flags, Mode::empty())?));
        }
        Ok(Self(self.found(path, OFlags::DIRECTORY | OFlags::CLOEXEC)?))
    }

    /// A plain file beneath, for reading.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn file(&self, path: &Path, rule: Rule) -> Result<File, FileError> {
        let there = self.found(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)?;
        opened(there.as_fd(), rule)
    }

    /// What is in a plain file beneath, if that is at most `most` bytes.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(&self, path: &Path, most: u64, rule: Rule) -> Result<Vec<u8>, FileError> {
        bounded(self.file(path, rule)?, most)
    }

    /// What is in a directory beneath, in order of names, if that is at most `most`.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn list(&self, path: &Path, most: usize) -> Result<Vec<Entry>, FileError> {
        let folder = self.folder(path)?;
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(&folder.0)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if found.len() == most {
                return Err(FileError::Many(most));
            }
            let stat = match rustix::fs::statat(&folder.0, name, AtFlags::SYMLINK_NOFOLLOW) {
                // It went meanwhile.
                Err(Errno::NOENT) => continue,
                other => other?,
            };
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                FileType::Symlink => Kind::Link,
                _ => Kind::Other,
            };
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            found.push(Entry { name: OsStr::from_bytes(name.to_bytes()).to_owned(), kind, size });
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// What is at a path beneath, opened; the path has only names in it.
    fn found(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, FileError> {
        let names = path.components().all(|part| matches!(part, Component::Normal(_)));
        if !names || path.as_os_str().is_empty() {
            return Err(FileError::Outside);
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..TRIES {
            match rustix::fs::openat2(&self.0, path, flags, Mode::empty(), resolve) {
                // Something was renamed meanwhile, and the kernel cannot tell whether that mattered.
                Err(Errno::AGAIN | Errno::INTR) => {}
                // Inside a sandbox: a filter cannot look at this call's arguments, so it is not there.
                Err(Errno::NOSYS) => return self.walked(path, flags),
                other => return Ok(other?),
            }
        }
        // Much is renamed on this machine, perhaps none of it here.
        self.walked(path, flags)
    }

    /// The same by single steps, each from the descriptor of the one before and through no link. There is no `..` among
    /// them, so what is found was beneath; a directory that is moved meanwhile takes what is in it along.
    fn walked(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, FileError> {
        let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at: Option<OwnedFd> = None;
        let mut steps = path.components().peekable();
        while let Some(step) = steps.next() {
            let from = at.as_ref().map_or(self.0.as_fd(), AsFd::as_fd);
            let how = if steps.peek().is_some() { way } else { flags | OFlags::NOFOLLOW };
            let name = step.as_os_str();
            let next = match rustix::fs::openat(from, name, how, Mode::empty()) {
                // A link is no directory either; it is told apart, as the one call would.
                Err(Errno::NOTDIR) if is_link(from, name) => return Err(Errno::LOOP.into()),
                other => other?,
            };
            at = Some(next);
        }
        at.ok_or(FileError::Outside)
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn is_link(folder: BorrowedFd<'_>, name: &OsStr) -> bool {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// Opens what was found, if it is a plain file. By the descriptor and not by a name: it is this file or none.
pub(crate) fn opened(there: BorrowedFd<'_>, rule: Rule) -> Result<File, FileError> {
    let stat = rustix::fs::fstat(there)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(FileError::NotPlain);
    }
    match rule {
        Rule::Any => {}
        Rule::Private if is_private(&stat) => {}
        Rule::Private => return Err(FileError::Shared),
    }
    let again = format!("/proc/self/fd/{}", there.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(CWD, again, flags, Mode::empty())?))
}

fn is_private(stat: &Stat) -> bool {
    let own = rustix::process::geteuid().as_raw();
    (stat.st_uid == own || stat.st_uid == 0) && stat.st_mode & 0o077 == 0 && stat.st_nlink == 1
}

/// All of a file, or nothing if it is too long; it may be growing.
pub(crate) fn bounded(file: File, most: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()) {
        Ok(count) if count <= most => Ok(bytes),
        Ok(_) | Err(_) => Err(FileError::Long(most)),
    }
}
