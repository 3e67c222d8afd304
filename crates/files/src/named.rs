//! Files by their whole path, named by somebody who may: settings, certificates, a backup.
//!
//! Links on the way are followed, since whoever runs a machine places files by them. What is at the end must still be a
//! plain file, and nothing is waited for.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

use crate::FileError;
use crate::root::{Rule, bounded, opened};

/// A plain file, for reading.
///
/// # Errors
/// [`FileError`].
pub fn open(path: &Path, rule: Rule) -> Result<File, FileError> {
    let there = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    opened(there.as_fd(), rule)
}

/// What is in a plain file, if that is at most `most` bytes.
///
/// # Errors
/// [`FileError`].
pub fn read(path: &Path, most: u64, rule: Rule) -> Result<Vec<u8>, FileError> {
    bounded(open(path, rule)?, most)
}
