//! Copies and removes files and whole trees, by descriptor and without following links.
//!
//! Invariants: holes stay holes; modes, times, owners (as root) and a person's own attributes come along; removing
//! needs neither stack nor descriptors per level, so a tree of any depth and of any modes goes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::tree::{self, Root, Seen};
use super::upper::own_attributes;

const NO_FOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW;

/// Copies content; what is a hole stays one.
pub(super) fn content(from: &mut File, to: &mut File) -> io::Result<()> {
    let size = from.metadata()?.len();
    let mut at = 0;
    while at < size {
        let data = match rustix::fs::seek(&*from, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(error) => return Err(error.into()),
        };
        let end = match rustix::fs::seek(&*from, SeekFrom::Hole(data)) {
            Ok(end) => end,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => size,
            Err(error) => return Err(error.into()),
        };
        from.seek(io::SeekFrom::Start(data))?;
        to.seek(io::SeekFrom::Start(data))?;
        let copied = io::copy(&mut from.take(end.saturating_sub(data)), to)?;
        if copied == 0 {
            break;
        }
        at = data.saturating_add(copied);
    }
    to.set_len(size)
}

/// A new file that nobody had.
pub(super) fn create(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o600))?.into())
}

/// Gives a file a person's own attributes of another; a file system without attributes loses them.
pub(super) fn carry_attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    for (name, value) in own_attributes(from)? {
        match rustix::fs::fsetxattr(to, name.as_os_str(), &value, XattrFlags::empty()) {
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sets the times of a file, from nanoseconds since 1970.
pub(super) fn set_modified(parent: BorrowedFd<'_>, name: &OsStr, mtime: i64) -> io::Result<()> {
    let time = |nanos: i64| Timespec {
        tv_sec: nanos.div_euclid(1_000_000_000),
        tv_nsec: nanos.rem_euclid(1_000_000_000) as _,
    };
    let times = Timestamps { last_access: time(mtime), last_modification: time(mtime) };
    Ok(rustix::fs::utimensat(parent, name, &times, NO_FOLLOW)?)
}

/// Copies whatever has a name, with all that is in it; the new name must be free.
pub(super) fn copy(from: BorrowedFd<'_>, name: &OsStr, to: BorrowedFd<'_>, new: &OsStr) -> io::Result<()> {
    let stat = rustix::fs::statat(from, name, NO_FOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return one(from, name, to, new, &stat);
    }
    let (from_root, to_root) = (open(from, name)?, {
        rustix::fs::mkdirat(to, new, Mode::RWXU)?;
        open(to, new)?
    });
    let (from_root, to_root) = (Root::of(from_root), Root::of(to_root));
    let mut directories = vec![(PathBuf::new(), stat)];
    let mut next = 0;
    while let Some((path, _)) = directories.get(next).cloned() {
        next += 1;
        let (source, target) = (from_root.directory(&path)?, to_root.directory(&path)?);
        for name in tree::names(source.as_fd())? {
            let stat = rustix::fs::statat(&source, &name, NO_FOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                rustix::fs::mkdirat(&target, &name, Mode::RWXU)?;
                directories.push((path.join(&name), stat));
            } else {
                one(source.as_fd(), &name, target.as_fd(), &name, &stat)?;
            }
        }
    }
    for (path, stat) in directories.iter().rev().filter(|(path, _)| !path.as_os_str().is_empty()) {
        let (parent, name) = to_root.parent(path)?;
        finish_directory(&to_root.directory(path)?, parent.as_fd(), name, stat)?;
    }
    finish_directory(&open(to, new)?, to, new, &stat)
}

fn finish_directory(
    directory: &OwnedFd,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    stat: &Stat,
) -> io::Result<()> {
    own(parent, name, stat)?;
    rustix::fs::fchmod(directory, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    set_modified(parent, name, Seen::of(stat).mtime)
}

/// Copies one thing that is not a directory.
fn one(from: BorrowedFd<'_>, name: &OsStr, to: BorrowedFd<'_>, new: &OsStr, stat: &Stat) -> io::Result<()> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    match kind {
        FileType::RegularFile => {
            let (mut source, mut target) = (tree::file_in(from, name)?, create(to, new)?);
            content(&mut source, &mut target)?;
            carry_attributes(source.as_fd(), target.as_fd())?;
            own(to, new, stat)?;
            rustix::fs::fchmod(&target, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
            target.sync_data()?;
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(from, name, Vec::new())?;
            rustix::fs::symlinkat(target, to, new)?;
            own(to, new, stat)?;
        }
        _ => {
            rustix::fs::mknodat(to, new, kind, Mode::from_raw_mode(stat.st_mode & 0o7777), stat.st_rdev)?;
            own(to, new, stat)?;
        }
    }
    set_modified(to, new, Seen::of(stat).mtime)
}

fn own(parent: BorrowedFd<'_>, name: &OsStr, stat: &Stat) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        let (user, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        rustix::fs::chownat(parent, name, Some(user), Some(group), NO_FOLLOW)?;
    }
    Ok(())
}

/// Opens a directory that we are about to copy from or to.
fn open(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

/// Removes whatever has a name, with all that is in it; what is not there is fine.
pub(super) fn remove(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    // Directories come up to the top before they are emptied: no level is ever deeper than the second.
    let top = open_up(parent, name)?;
    let mut waiting = empty(&top, &top, &mut 0)?;
    let mut number = 0;
    while let Some(name) = waiting.pop() {
        let directory = open_up(top.as_fd(), &name)?;
        waiting.extend(empty(&directory, &top, &mut number)?);
        rustix::fs::unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

/// Removes what is no directory, and brings directories up to the top; gives their names there.
fn empty(directory: &OwnedFd, top: &OwnedFd, number: &mut u64) -> io::Result<Vec<OsString>> {
    let is_top = Seen::of(&rustix::fs::fstat(directory)?).is(&Seen::of(&rustix::fs::fstat(top)?));
    let mut found = Vec::new();
    for name in tree::names(directory.as_fd())? {
        match rustix::fs::unlinkat(directory, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        if is_top {
            found.push(name);
            continue;
        }
        drop(open_up(directory.as_fd(), &name)?);
        loop {
            *number += 1;
            let new = OsString::from(format!("palisade-{number}"));
            match tree::rename(directory.as_fd(), &name, top.as_fd(), &new) {
                Ok(()) => {
                    found.push(new);
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

/// Opens a directory of any mode, ours to empty.
fn open_up(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    if rustix::fs::fstat(&place)?.st_mode & 0o700 != 0o700 {
        tree::set_mode(place.as_fd(), 0o700)?;
    }
    open(parent, name)
}
