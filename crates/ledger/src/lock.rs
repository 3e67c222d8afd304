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
    file: File,
    /// Who took it.
    by: u32,
}

impl Drop for Lock {
    /// Lets it go at once. To close the file is not enough: a process that was just forked by another thread still has it, until
    /// it becomes another program. A fork of the holder does not end what the holder has.
    fn drop(&mut self) {
        if self.by == std::process::id() {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
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
        let by = std::process::id();
        let _ = file.write_all_at(format!("{by:<10}\n").as_bytes(), 0);
        Ok(Self { file, by })
    }
}

fn holder(file: &File) -> Option<u32> {
    let mut bytes = [0; 16];
    let count = file.read_at(&mut bytes, 0).ok()?;
    std::str::from_utf8(bytes.get(..count)?).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of the file's descriptor is what a process has that was just forked.
    #[test]
    fn a_lock_that_is_let_go_is_free_though_a_fork_still_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path(), Duration::ZERO).unwrap();
        let copy = lock.file.try_clone().unwrap();
        assert!(matches!(Lock::take(folder.path(), Duration::ZERO), Err(NotLocked::Held(Some(_)))));
        drop(lock);
        let again = Lock::take(folder.path(), Duration::ZERO).unwrap();
        drop((again, copy));
    }
}
