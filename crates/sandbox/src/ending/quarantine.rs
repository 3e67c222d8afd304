//! Moves what was planted out of the tree, into the run's folder.
//!
//! Flow: a path below the root -> the same path below `<run>/quarantine`, its last name with `.quarantined` after it,
//! so that it is no control file there either. Invariants: everything goes by descriptors of directories that were
//! opened without following links; what cannot be moved stays whole where it is, and that is told.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use super::walk::make_readable;

/// How deep a tree may be that has to be copied.
const DEEPEST: usize = 100;

/// Where things of one root go.
pub(super) struct Quarantine {
    folder: PathBuf,
}

impl Quarantine {
    pub(super) fn new(run_folder: &Path, other: Option<usize>) -> Self {
        let name = other.map_or_else(|| "quarantine".to_owned(), |number| format!("quarantine-{number}"));
        Self { folder: run_folder.join(name) }
    }

    /// Moves one thing; where it is now.
    pub(super) fn take(&self, root: BorrowedFd<'_>, path: &Path) -> io::Result<PathBuf> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::INVAL.into());
        };
        let name = CString::new(name.as_bytes())?;
        let from = beneath(root, above)?;
        let seen = rustix::fs::statat(&from, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let (to, to_path) = self.place(above)?;
        let mut there = name.as_bytes().to_vec();
        there.truncate(255 - ".quarantined-00".len());
        there.extend_from_slice(b".quarantined");
        let (moved, there) = moved(from.as_fd(), &name, to.as_fd(), &there)?;
        if !moved {
            copied(from.as_fd(), &name, to.as_fd(), &there, 0)?;
            ::files::remove::entry_of(from.as_fd(), &name)?;
        }
        match FileType::from_raw_mode(seen.st_mode) {
            // Where git finds no HEAD it finds no repository, also not when somebody looks at this place.
            FileType::Directory => {
                if let Ok(inner) = rustix::fs::openat(&to, &there, FOLDER, Mode::empty()) {
                    let _ = rustix::fs::renameat(&inner, "HEAD", &inner, "HEAD.quarantined");
                }
            }
            FileType::RegularFile => {
                let _ = rustix::fs::chmodat(&to, &there, Mode::from_raw_mode(0o600), AtFlags::empty());
            }
            _ => {}
        }
        Ok(to_path.join(OsStr::from_bytes(there.to_bytes())))
    }

    /// The directory of the same name as the one that something is taken from.
    fn place(&self, above: &Path) -> io::Result<(OwnedFd, PathBuf)> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut folder = rustix::fs::open(&self.folder, FOLDER, Mode::empty())?;
        let mut path = self.folder.clone();
        for part in above.components() {
            let Component::Normal(name) = part else { return Err(Errno::INVAL.into()) };
            // A directory that would be a control file by its name must not be one here.
            let mut there = name.to_owned();
            if name.as_bytes().first() == Some(&b'.') {
                there.push(".in");
            }
            match rustix::fs::mkdirat(&folder, &there, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = rustix::fs::openat(&folder, &there, FOLDER, Mode::empty())?;
            path.push(there);
        }
        Ok((folder, path))
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn beneath(root: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    rustix::fs::openat2(root, path, FOLDER, Mode::empty(), resolve)
}

/// Renames it to a name that is free; whether that was possible, and the name.
fn moved(from: BorrowedFd<'_>, name: &CStr, to: BorrowedFd<'_>, there: &[u8]) -> io::Result<(bool, CString)> {
    let mut number = 1u32;
    let mut was_opened = false;
    let mut target = CString::new(there)?;
    loop {
        match rustix::fs::renameat_with(from, name, to, &target, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok((true, target)),
            Err(Errno::XDEV) => return Ok((false, target)),
            Err(Errno::EXIST) if number < 100 => {
                number += 1;
                target = CString::new([there, format!("-{number}").as_bytes()].concat())?;
            }
            // Whoever may not write a directory may not take things out of it, nor move it.
            Err(Errno::ACCESS) if !was_opened => {
                was_opened = true;
                make_readable(from)?;
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let it = rustix::fs::openat(from, name, flags, Mode::empty())?;
                if FileType::from_raw_mode(rustix::fs::fstat(&it)?.st_mode) == FileType::Directory {
                    make_readable(it.as_fd())?;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Copies it to another file system: files, directories and links; pipes and sockets are dropped.
fn copied(
    from: BorrowedFd<'_>,
    name: &CStr,
    to: BorrowedFd<'_>,
    there: &CStr,
    depth: usize,
) -> io::Result<()> {
    if depth > DEEPEST {
        return Err(io::Error::other("is nested too deep to be copied to another file system"));
    }
    let seen = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(seen.st_mode) {
        FileType::RegularFile => {
            let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut input = std::fs::File::from(rustix::fs::openat(from, name, read, Mode::empty())?);
            let mut out =
                std::fs::File::from(rustix::fs::openat(to, there, write, Mode::from_raw_mode(0o600))?);
            io::copy(&mut input, &mut out)?;
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(from, name, Vec::new())?;
            rustix::fs::symlinkat(&target, to, there)?;
        }
        FileType::Directory => {
            rustix::fs::mkdirat(to, there, Mode::from_raw_mode(0o700))?;
            let place = rustix::fs::openat(
                from,
                name,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            if seen.st_mode & 0o700 != 0o700 {
                make_readable(place.as_fd())?;
            }
            let inner = rustix::fs::openat(from, name, FOLDER, Mode::empty())?;
            let outer = rustix::fs::openat(to, there, FOLDER, Mode::empty())?;
            for entry in Dir::read_from(&inner)? {
                let entry = entry?;
                let name = entry.file_name();
                if !matches!(name.to_bytes(), b"." | b"..") {
                    copied(inner.as_fd(), name, outer.as_fd(), name, depth + 1)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}
