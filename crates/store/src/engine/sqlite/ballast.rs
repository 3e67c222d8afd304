//! Room that is kept back, so that acts which only narrow happen also when the disk is full.
//!
//! Blocks beyond the end of the store's log, and a file of fixed size beside the store. Before such an act a little is moved from the
//! file to the log, if it has none left: room on the disk as such would go to whatever fills it.
//! Invariant: while something was given the store counts as full for everything else. Not here: which acts only
//! narrow (`runtime`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{FallocateFlags, StatVfsMountFlags};

use super::place::sibling;

/// With less free space than this the store counts as full: the next larger write would fail.
const FLOOR: u64 = 1024 * 1024;
/// Enough for about a hundred narrowing acts.
const SIZE: u64 = 4 * 1024 * 1024;
/// More than one narrowing act writes.
const NEED: u64 = 128 * 1024;
/// What the log has beyond its end while the disk is not full: enough for some forty narrowing acts.
const AHEAD: u64 = 1280 * 1024;
/// What is moved at a time: enough for several acts, and little to lose to whoever is faster.
const STEP: u64 = 256 * 1024;
/// How long is waited for a whole turn of the processor; only on a disk that is full.
const TURN: Duration = Duration::from_millis(1);
const FILE: &str = "room";

/// The room kept back.
pub(crate) struct Ballast {
    directory: PathBuf,
    /// The store's log.
    log: PathBuf,
    /// Somebody asked for room to be kept.
    wanted: AtomicBool,
    stocked: AtomicBool,
    /// Two who give at once would give twice.
    giving: Mutex<()>,
}

impl Ballast {
    /// For the store at `path`.
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            directory: path.parent().unwrap_or(Path::new("/")).to_owned(),
            log: sibling(path, "-wal"),
            wanted: AtomicBool::new(false),
            stocked: AtomicBool::new(false),
            giving: Mutex::new(()),
        }
    }

    /// Whether only narrowing acts should be written now.
    pub(crate) fn is_tight(&self) -> bool {
        self.is_given() || self.free().is_none_or(|free| free < FLOOR)
    }

    /// Whether some of what is kept back was given, and is for narrowing acts alone.
    pub(crate) fn is_given(&self) -> bool {
        self.wanted.load(Ordering::Acquire) && !self.stocked.load(Ordering::Acquire)
    }

    /// Bytes that can be written, none on a disk that is read-only.
    pub(crate) fn free(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.directory).ok()?;
        let writable = !disk.f_flag.contains(StatVfsMountFlags::RDONLY);
        writable.then(|| disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Makes sure that the log can take one narrowing act: from what is free, else from the room. If that fails,
    /// the act that needs it will say so.
    pub(crate) fn give(&self) {
        let _one = self.giving.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(log) = OpenOptions::new().read(true).write(true).open(&self.log) else {
            // There is no log yet: it is made with what becomes free.
            let _gave = self.shrink(STEP);
            return;
        };
        let Ok(meta) = log.metadata() else { return };
        let end = meta.len().max(meta.blocks().saturating_mul(512));
        if end.saturating_sub(meta.len()) >= NEED || reserve(&log, meta.len().saturating_add(NEED)) {
            return;
        }
        // What is left of this turn of the processor may be too little to be faster than whoever fills the disk.
        std::thread::sleep(TURN);
        while self.shrink(STEP) {
            // All that was given up, or what whoever fills the disk has left of it.
            let parts = [STEP, STEP / 2, STEP / 4, STEP / 8];
            if parts.into_iter().any(|part| reserve(&log, end.saturating_add(part))) {
                return;
            }
            std::thread::sleep(TURN);
        }
    }

    /// Gives some of the room back to the disk; false if none is left.
    fn shrink(&self, by: u64) -> bool {
        let shrunk = || -> io::Result<bool> {
            let file = self.file()?;
            let held = file.metadata()?.len();
            self.stocked.store(false, Ordering::Release);
            file.set_len(held.saturating_sub(by))?;
            Ok(held > 0)
        };
        shrunk().unwrap_or(false)
    }

    /// Takes the room, again if need be, once there is more than enough.
    pub(crate) fn restock(&self) {
        self.wanted.store(true, Ordering::Release);
        self.reach_ahead();
        if self.stocked.load(Ordering::Acquire) {
            return;
        }
        let held = self.file().and_then(|file| file.metadata()).map_or(0, |meta| meta.len());
        let missing = SIZE.saturating_sub(held);
        if self.free().is_some_and(|free| free >= missing + 2 * FLOOR) && self.take(held).is_ok() {
            self.stocked.store(true, Ordering::Release);
        }
    }

    /// Gives the log blocks beyond its end while there is more than enough: these nobody can be faster for.
    fn reach_ahead(&self) {
        let Ok(log) = OpenOptions::new().read(true).write(true).open(&self.log) else { return };
        let Ok(meta) = log.metadata() else { return };
        let has = meta.blocks().saturating_mul(512) >= meta.len().saturating_add(AHEAD);
        if !has && self.free().is_some_and(|free| free >= AHEAD + 2 * FLOOR) {
            let _ = reserve(&log, meta.len().saturating_add(AHEAD));
        }
    }

    /// Adds what is missing, and keeps what is there.
    fn take(&self, held: u64) -> io::Result<()> {
        let file = self.file()?;
        let missing = SIZE.saturating_sub(held);
        if missing == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), held, missing) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP) => {
                file.write_all_at(&vec![0; usize::try_from(missing).unwrap_or(0)], held)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn file(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.open(self.directory.join(FILE))
    }
}

/// Takes blocks for a file up to `end` without making it longer.
fn reserve(file: &File, end: u64) -> bool {
    rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, end).is_ok()
}
