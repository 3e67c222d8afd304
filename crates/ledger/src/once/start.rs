//! Turns a directory into a writer that is ready, reading its end and nothing else.
//!
//! The same steps in the same order as [`crate::startup`], without what a long-lived process does at its start:
//! directories are synced only when a file is new, an empty reserve is not read, open entries are left alone.
//! Invariant: a file that entries go to has a durable name before the first of them is written.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Clock, Millis};

use crate::disk;
use crate::draft::MAX_LINE;
use crate::error::OpenError;
use crate::keys::{ChainKey, Keys};
use crate::ledger::Options;
use crate::lock::{Lock, NotLocked};
use crate::recover::{self, Resume};
use crate::reserve::{self, Reserve};
use crate::segment::{self, Lines, Piece};
use crate::startup::{self, Recovery};
use crate::writer::{Files, Writer};
use crate::{checkpoint, entry};

/// The first and the longest pause before the lock is tried again.
const PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// Holds most lines.
const SHORT: u64 = 4096;

/// A ledger that was taken.
pub(super) struct Started {
    pub(super) lock: Lock,
    pub(super) writer: Writer,
    /// The last entry under a checkpoint.
    pub(super) covered: u64,
    /// What was found; a torn write is not marked in the chain yet.
    pub(super) recovery: Recovery,
}

/// Takes the ledger in `dir`; what waits in its reserve is chained.
pub(super) fn start(
    dir: &Path,
    keys: Arc<Keys>,
    clock: Arc<dyn Clock>,
    options: Options,
) -> Result<Started, OpenError> {
    let io = |source| OpenError::Io { path: dir.to_owned(), source };
    disk::make_dirs(dir, segment::FOLDER).map_err(io)?;
    let lock = wait_for_lock(dir, options.lock_wait)?;
    let mut resume = recover::resume(dir, &keys)?;
    let torn = resume.torn.take();
    let covered = resume.records.last.as_ref().map_or(0, |last| last.last);
    let mut reserve = open_reserve(dir, options.reserve_bytes, &keys.chain)
        .map_err(|source| OpenError::Io { path: dir.join(reserve::FILE), source })?;
    let tickets = startup::forget_chained(dir, &mut reserve, resume.seq)?;
    let late = reserve.waiting.len();
    let mut writer = writer_at(dir, keys, clock, options, reserve, resume).map_err(io)?;
    writer.tickets = tickets;
    writer.fold_reserve();
    Ok(Started { lock, writer, covered, recovery: Recovery { torn, interrupted: Vec::new(), late } })
}

/// Waits for those who are writing a few entries, with growing pauses; a daemon is not waited for in vain for long.
pub(super) fn wait_for_lock(dir: &Path, wait: Duration) -> Result<Lock, OpenError> {
    let begun = Instant::now();
    let mut pause = PAUSE;
    loop {
        match Lock::take(dir, Duration::ZERO) {
            Ok(lock) => return Ok(lock),
            Err(NotLocked::Io(source)) => return Err(OpenError::Io { path: dir.to_owned(), source }),
            Err(NotLocked::Held(_)) if begun.elapsed() < wait => std::thread::sleep(pause),
            Err(NotLocked::Held(pid)) => return Err(OpenError::Locked { pid }),
        }
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

/// Opens the reserve; one that begins with a zero holds no record, whatever its size, and is not read.
fn open_reserve(dir: &Path, size: u64, key: &ChainKey) -> io::Result<Reserve> {
    let file = disk::open_file(&dir.join(reserve::FILE))?;
    let length = file.metadata()?.len();
    let mut first = [1];
    if length >= size && length > 0 && file.read_at(&mut first, 0)? == 1 && first == [0] {
        return Ok(Reserve { file, size: length, used: 0, ticket: 0, waiting: Vec::new() });
    }
    Reserve::open(dir, size, key)
}

fn writer_at(
    dir: &Path,
    keys: Arc<Keys>,
    clock: Arc<dyn Clock>,
    options: Options,
    reserve: Reserve,
    resume: Resume,
) -> io::Result<Writer> {
    let path = segment::path(dir, resume.segment);
    let segment = disk::open_file(&path)?;
    let records = disk::open_file(&dir.join(checkpoint::FILE))?;
    // Entries and records are written only after this, so files that hold some have durable names.
    if resume.bytes == 0 {
        disk::sync_dir(&dir.join(segment::FOLDER))?;
    }
    if resume.records.n == 0 {
        disk::sync_dir(dir)?;
    }
    let files = Files { segment, records, since: first_at(&path, resume.bytes) };
    Writer::with(files, dir.to_owned(), keys, clock, options, reserve, resume)
}

/// The time a segment starts with, from its first line alone.
fn first_at(path: &Path, bytes: u64) -> Option<Millis> {
    let longest = u64::try_from(MAX_LINE).unwrap_or(u64::MAX).saturating_add(1);
    [SHORT, longest].into_iter().find_map(|most| {
        let mut lines = Lines::open(path, 0, Some(bytes.min(most))).ok()?;
        match lines.next().ok()? {
            Piece::Line(line, _) => entry::parse(line).ok().map(|(entry, _)| entry.at),
            Piece::Torn(..) | Piece::End => None,
        }
    })
}
