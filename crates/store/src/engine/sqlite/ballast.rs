//! Room that is kept back, so that acts which only narrow happen also when the disk is full.
//!
//! A file of fixed size beside the store. Given up, its blocks are what such an act is written with.
//! Invariant: while it is given up the store counts as full for everything else, so that nobody else uses the
//! room. Not here: which acts only narrow (`runtime`).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, StatVfsMountFlags};

/// With less free space than this the store counts as full: the next larger write would fail.
const FLOOR: u64 = 1024 * 1024;
/// Enough for some hundred narrowing acts.
const SIZE: u64 = 4 * 1024 * 1024;
const FILE: &str = "room";

/// The room kept back.
pub(crate) struct Ballast {
    directory: PathBuf,
    /// Somebody asked for room to be kept.
    wanted: AtomicBool,
    stocked: AtomicBool,
}

impl Ballast {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            wanted: AtomicBool::new(false),
            stocked: AtomicBool::new(false),
        }
    }

    /// Whether only narrowing acts should be written now.
    pub(crate) fn is_tight(&self) -> bool {
        let given_up = self.wanted.load(Ordering::Acquire) && !self.stocked.load(Ordering::Acquire);
        given_up || self.free().is_none_or(|free| free < FLOOR)
    }

    /// Bytes that can be written, none on a disk that is read-only.
    pub(crate) fn free(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.directory).ok()?;
        let writable = !disk.f_flag.contains(StatVfsMountFlags::RDONLY);
        writable.then(|| disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Gives the room to whoever writes next.
    pub(crate) fn give_up(&self) {
        self.stocked.store(false, Ordering::Release);
        // If this fails, the act that needs the room will say so.
        drop(self.file().and_then(|file| file.set_len(0)));
    }

    /// Takes the room, again if need be, once there is more than enough.
    pub(crate) fn restock(&self) {
        self.wanted.store(true, Ordering::Release);
        if self.stocked.load(Ordering::Acquire) {
            return;
        }
        let held = self.file().and_then(|file| file.metadata()).map_or(0, |meta| meta.len());
        let missing = SIZE.saturating_sub(held);
        if self.free().is_some_and(|free| free >= missing + 2 * FLOOR) && self.take().is_ok() {
            self.stocked.store(true, Ordering::Release);
        }
    }

    fn take(&self) -> io::Result<()> {
        let mut file = self.file()?;
        if file.metadata()?.len() >= SIZE {
            return Ok(());
        }
        file.set_len(0)?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, SIZE) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP) => file.write_all(&vec![0; usize::try_from(SIZE).unwrap_or(0)]),
            Err(error) => Err(error.into()),
        }
    }

    fn file(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.open(self.directory.join(FILE))
    }
}
