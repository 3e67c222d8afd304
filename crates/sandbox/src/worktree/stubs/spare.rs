//! Empty directories that wait to be stubs: moving one costs a quarter of making and removing it.
//!
//! Invariant: what waits is an empty directory of ours that no sandbox reached: it was covered as long as it was a
//! stub, and has the owner and the mode it was made with and no attributes. Whatever is not so, or is on another file
//! system, is made by `mkdir` and removed by `rmdir` as ever.

use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags, RawDir, RenameFlags, SeekFrom};
use rustix::io::Errno;

/// The most that wait.
const MOST: usize = 64;

pub(super) const MODE: u32 = 0o755;

/// Where they wait.
#[derive(Debug)]
pub(super) struct Spare {
    folder: OwnedFd,
    names: RefCell<Vec<OsString>>,
    kept: Cell<usize>,
}

impl Spare {
    /// None if they cannot be used; that is no error.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                rustix::fs::mkdir(path, Mode::from_raw_mode(0o700)).ok()?;
                rustix::fs::open(path, flags, Mode::empty()).ok()?
            }
            other => other.ok()?,
        };
        let names = names(folder.as_fd()).ok()?;
        let kept = Cell::new(names.len());
        Some(Self { folder, names: RefCell::new(names), kept })
    }

    /// Moves one to a place where nothing is; whether it did.
    pub(super) fn give(&self, above: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<bool> {
        while let Some(spare) = self.names.borrow_mut().pop() {
            self.kept.set(self.kept.get().saturating_sub(1));
            match rustix::fs::renameat_with(&self.folder, &spare, above, name, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(true),
                // Another run was quicker.
                Err(Errno::NOENT) => {}
                Err(Errno::EXIST) => return Err(Errno::EXIST),
                Err(_) => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Takes one back, if it is as it was; whether it is gone from there.
    pub(super) fn take(&self, above: BorrowedFd<'_>, name: &OsStr) -> bool {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(stub) = rustix::fs::openat(above, name, flags, Mode::empty()) else { return false };
        if self.kept.get() >= MOST || !is_as_made(stub.as_fd()) || !is_empty(stub.as_fd()) {
            return false;
        }
        let own = OsString::from_vec(format!("{}.{}", std::process::id(), self.kept.get()).into_bytes());
        let keep = RenameFlags::NOREPLACE;
        if rustix::fs::renameat_with(above, name, &self.folder, &own, keep).is_err() {
            return false;
        }
        // What somebody put into it goes back, and so does what took its place in the last moment.
        let again = rustix::fs::seek(&stub, SeekFrom::Start(0)).is_ok();
        if again && is_empty(stub.as_fd()) && same(&self.folder, &own, stub.as_fd()) {
            self.kept.set(self.kept.get() + 1);
            return true;
        }
        let _ = rustix::fs::renameat_with(&self.folder, &own, above, name, keep);
        false
    }
}

/// Whether it has nothing that we did not give it, besides what is in it.
fn is_as_made(stub: BorrowedFd<'_>) -> bool {
    let is_plain = rustix::fs::fstat(stub).is_ok_and(|found| {
        found.st_mode & 0o7777 == MODE && found.st_uid == rustix::process::geteuid().as_raw()
    });
    let mut none: [u8; 0] = [];
    is_plain && matches!(rustix::fs::flistxattr(stub, &mut none[..]), Ok(0) | Err(Errno::OPNOTSUPP))
}

/// Whether nothing is in a directory, from where it was read to.
fn is_empty(folder: BorrowedFd<'_>) -> bool {
    let mut buffer = [MaybeUninit::uninit(); 512];
    let mut entries = RawDir::new(folder, &mut buffer);
    while let Some(entry) = entries.next() {
        if !entry.is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b"..")) {
            return false;
        }
    }
    true
}

fn same(folder: &OwnedFd, name: &OsStr, stub: BorrowedFd<'_>) -> bool {
    let there = rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    let (Ok(there), Ok(own)) = (there, rustix::fs::fstat(stub)) else { return false };
    (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)
}

/// What is in a directory.
fn names(folder: BorrowedFd<'_>) -> rustix::io::Result<Vec<OsString>> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(folder, &mut buffer);
    let mut found = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            found.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(found)
}
