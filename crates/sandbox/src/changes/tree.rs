//! A directory, and what is beneath it, without ever following a link.
//!
//! Invariant: every path is resolved by the kernel beneath the root's descriptor, and a link on the way is an
//! error; a swap of a directory for a link therefore leads nowhere. Opening never blocks: the type is looked at
//! first and again afterwards.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{Face, What};

/// The longest path that is handled; longer ones are reported.
pub(super) const MOST_PATH: usize = 4_000;

/// What a file was when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    /// Whether it has more names than one.
    pub(crate) shared: bool,
    /// Nanoseconds since 1970.
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
}

impl Seen {
    pub(super) fn of(stat: &Stat) -> Self {
        let nanos = |seconds: i64, nanos: u64| {
            seconds.saturating_mul(1_000_000_000).saturating_add(i64::try_from(nanos).unwrap_or(0))
        };
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            mode: stat.st_mode,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            shared: stat.st_nlink > 1,
            mtime: nanos(stat.st_mtime, stat.st_mtime_nsec),
            ctime: nanos(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    pub(super) fn what(&self) -> What {
        match FileType::from_raw_mode(self.mode) {
            FileType::RegularFile => What::File,
            FileType::Directory => What::Directory,
            FileType::Symlink => What::Link,
            FileType::Fifo => What::Fifo,
            FileType::Socket => What::Socket,
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => What::Device,
        }
    }

    pub(super) fn face(self) -> Face {
        Face { what: self.what(), mode: self.mode & 0o777, size: self.size, seen: self }
    }

    /// The same file, whatever happened to it.
    pub(super) fn is(&self, other: &Self) -> bool {
        (self.dev, self.ino, self.what()) == (other.dev, other.ino, other.what())
    }

    /// The same file with the same content, as far as its times tell.
    pub(super) fn is_untouched(&self, now: &Self) -> bool {
        let content = |one: &Self| (one.size, one.mtime);
        self.is(now) && (self.what() == What::Directory || content(self) == content(now))
    }
}

const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// A directory beneath which everything happens.
#[derive(Debug)]
pub(super) struct Root(OwnedFd);

impl Root {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    pub(super) fn of(directory: OwnedFd) -> Self {
        Self(directory)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub(super) fn itself(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.0)?)
    }

    fn beneath(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            match rustix::fs::openat2(&self.0, path, flags, Mode::empty(), RESOLVE) {
                // Somebody renames things at this moment; the kernel asks for another try.
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    /// A directory, to list it.
    pub(super) fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        self.beneath(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// A directory, to name things in it; it may be unreadable.
    pub(super) fn place(&self, path: &Path) -> io::Result<OwnedFd> {
        self.beneath(path, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// The directory that a path is in, and its name there.
    pub(super) fn parent<'p>(&self, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::INVAL.into());
        };
        Ok((self.place(parent)?, name))
    }

    /// What is at a path; none if nothing is.
    pub(super) fn seen(&self, path: &Path) -> io::Result<Option<Seen>> {
        match self.parent(path).and_then(|(parent, name)| seen_in(parent.as_fd(), name)) {
            Err(error) if is_nothing(&error) => Ok(None),
            other => other,
        }
    }

    /// A file with content, to read it.
    pub(super) fn file(&self, path: &Path) -> io::Result<File> {
        let (parent, name) = self.parent(path)?;
        file_in(parent.as_fd(), name)
    }

    /// Anything, merely as a place.
    pub(super) fn anything(&self, path: &Path) -> io::Result<OwnedFd> {
        self.beneath(path, OFlags::PATH)
    }

    /// Where a link points.
    pub(super) fn link(&self, path: &Path) -> io::Result<PathBuf> {
        let (parent, name) = self.parent(path)?;
        Ok(OsString::from_vec(rustix::fs::readlinkat(parent, name, Vec::new())?.into_bytes()).into())
    }

    /// Changes the permissions of what a path leads to, which is not a link.
    pub(super) fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        set_mode(self.anything(path)?.as_fd(), mode)
    }
}

pub(super) fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Changes the permissions of what a mere place is.
pub(super) fn set_mode(place: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    if FileType::from_raw_mode(rustix::fs::fstat(place)?.st_mode) == FileType::Symlink {
        return Err(Errno::LOOP.into());
    }
    // A descriptor that is a mere place cannot be changed itself; its name in /proc leads to the very same file.
    let name = format!("/proc/self/fd/{}", place.as_raw_fd());
    Ok(rustix::fs::chmodat(CWD, name, Mode::from_raw_mode(mode), AtFlags::empty())?)
}

/// Changes the permissions of what has a name, unless it is a link.
pub(super) fn set_mode_in(parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    set_mode(rustix::fs::openat(parent, name, flags, Mode::empty())?.as_fd(), mode)
}

pub(super) fn seen_in(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<Seen>> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Seen::of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a file with content; anything else is refused, and nothing blocks.
pub(super) fn file_in(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<File> {
    let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file(&rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?) {
        return Err(io::Error::other("is not a file with content"));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    if !is_file(&rustix::fs::fstat(&file)?) {
        return Err(io::Error::other("is not a file with content"));
    }
    Ok(file.into())
}

/// The names in a directory, in order.
pub(super) fn names(directory: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Gives something another name; nothing may have it.
pub(super) fn rename(from: BorrowedFd<'_>, name: &OsStr, to: BorrowedFd<'_>, new: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(from, name, to, new, RenameFlags::NOREPLACE)?)
}

/// Exchanges what two names in one directory stand for.
pub(super) fn exchange(parent: BorrowedFd<'_>, one: &OsStr, other: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(parent, one, parent, other, RenameFlags::EXCHANGE)?)
}

/// An extended attribute, if it is there; at most 64 KiB, which is the kernel's own limit.
pub(super) fn attribute(file: BorrowedFd<'_>, name: &str) -> io::Result<Option<Vec<u8>>> {
    let mut room = vec![0u8; 1 << 16];
    match rustix::fs::fgetxattr(file, name, room.as_mut_slice()) {
        Ok(length) => {
            room.truncate(length);
            Ok(Some(room))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The names of all extended attributes.
pub(super) fn attributes(file: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    let mut room = vec![0u8; 1 << 16];
    let length = match rustix::fs::flistxattr(file, room.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(error.into()),
    };
    let listed = room.get(..length).unwrap_or_default();
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| OsStr::from_bytes(name).to_owned()).collect())
}

/// Whether a path is the root's `.git` or in it, however it is written.
pub(super) fn is_git(path: &Path) -> bool {
    let first = path.components().next();
    first.is_some_and(|first| first.as_os_str().as_bytes().eq_ignore_ascii_case(b".git"))
}
