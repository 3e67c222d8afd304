//! Turns a directory into one that this process alone writes.
//!
//! Invariant: while a [`Lock`] lives, no other process holds one on the same directory; it ends with the
//! process, however that ends. The holder's pid is in the file for people to read; it decides nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::disk;

const FILE: &str = "lock";
const RETRY: Duration = Duration::from_millis(5);

/// The right to write a ledger.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Why the lock was not taken.
#[derive(Debug)]
pub(crate) enum NotLocked {
    /// Another process holds it; its pid, if it could be read.
    Held(Option<u32>),
    Io(io::Error),
}

impl Lock {
    /// Takes the lock, waiting for at most `wait`.
    pub(crate) fn take(dir: &Path, wait: Duration) -> Result<Self, NotLocked> {
        let file = disk::open_file(&dir.join(FILE)).map_err(NotLocked::Io)?;
        let until = Instant::now().checked_add(wait);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) if until.is_some_and(|until| Instant::now() < until) => {
                    std::thread::sleep(RETRY);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(NotLocked::Held(holder(&file))),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(NotLocked::Io(error.into())),
            }
        }
        // A full disk must not keep a ledger closed, so a pid that cannot be written is left out.
        // Written over what was there, at one length: cutting a file first makes short-lived holders wait for the disk.
        let _ = file.write_all_at(format!("{:<10}\n", std::process::id()).as_bytes(), 0);
        Ok(Self { _file: file })
    }
}

fn holder(file: &File) -> Option<u32> {
    let mut bytes = [0; 16];
    let count = file.read_at(&mut bytes, 0).ok()?;
    std::str::from_utf8(bytes.get(..count)?).ok()?.trim().parse().ok()
}
