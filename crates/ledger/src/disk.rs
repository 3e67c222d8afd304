//! Turns "write this and make it last" into system calls, and lets a test make them fail.
//!
//! Invariant: [`Disk::append`] either makes all bytes durable at the given offset or reports an error, after
//! which the caller cuts the file back. Not here: what the bytes mean.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A way in which storage can fail, for tests.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No space is left.
    NoSpace,
    /// The device reports an error.
    Io,
    /// The file system turned read-only.
    ReadOnly,
    /// Only some bytes arrive, then no space is left.
    Short(usize),
    /// Everything is written, but the sync fails.
    Sync,
    /// Even the reserve cannot be written.
    Everything,
}

/// A switch by which a test makes storage fail.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Faults(Mutex<Option<Fault>>);

impl Faults {
    /// From now on every write fails so, or works again.
    pub fn set(&self, fault: Option<Fault>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    fn now(&self) -> Option<Fault> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way to the disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    faults: Option<Arc<Faults>>,
}

impl Disk {
    pub(crate) fn new(faults: Option<Arc<Faults>>) -> Self {
        Self { faults }
    }

    /// Writes `bytes` at `offset` and waits until they are durable.
    pub(crate) fn append(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.faults.as_ref().and_then(|faults| faults.now()) {
            None => {
                file.write_all_at(bytes, offset)?;
                file.sync_data()
            }
            Some(Fault::NoSpace | Fault::Everything) => Err(rustix::io::Errno::NOSPC.into()),
            Some(Fault::Io) => Err(rustix::io::Errno::IO.into()),
            Some(Fault::ReadOnly) => Err(rustix::io::Errno::ROFS.into()),
            Some(Fault::Short(count)) => {
                file.write_all_at(bytes.get(..count).unwrap_or(bytes), offset)?;
                Err(rustix::io::Errno::NOSPC.into())
            }
            Some(Fault::Sync) => {
                file.write_all_at(bytes, offset)?;
                Err(rustix::io::Errno::IO.into())
            }
        }
    }

    /// Overwrites bytes of a file whose blocks exist already (the reserve).
    pub(crate) fn overwrite(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.faults.as_ref().and_then(|faults| faults.now()) == Some(Fault::Everything) {
            return Err(rustix::io::Errno::IO.into());
        }
        file.write_all_at(bytes, offset)?;
        file.sync_data()
    }
}

/// Opens a file of the ledger for reading and writing, readable by its owner alone.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Makes a new or removed name in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
