//! Turns "write this and make it last" into system calls, and lets a test make them fail.
//!
//! Invariants: [`Disk::append`] either makes all bytes durable at the given offset or reports an error, after
//! which the caller cuts the file back; a file of the ledger is a plain file, reached by no link, and its
//! owner's alone. Not here: what the bytes mean.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::OFlags;

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
    /// Entries can be written, records of the checkpoint file cannot.
    Records,
}

/// A switch by which a test makes storage fail, and sees what a power loss would leave.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Faults {
    fault: Mutex<Option<Fault>>,
    synced: Mutex<BTreeMap<u64, u64>>,
}

impl Faults {
    /// From now on every write fails so, or works again.
    pub fn set(&self, fault: Option<Fault>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// How many bytes of each file (by inode number) are surely on the disk now.
    pub fn synced(&self) -> BTreeMap<u64, u64> {
        self.synced.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn now(&self) -> Option<Fault> {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_synced(&self, file: &File) -> io::Result<()> {
        let meta = file.metadata()?;
        self.synced.lock().unwrap_or_else(PoisonError::into_inner).insert(meta.ino(), meta.len());
        Ok(())
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
            None | Some(Fault::Records) => {
                file.write_all_at(bytes, offset)?;
                self.sync(file)
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

    /// The same for a record of the checkpoint file.
    pub(crate) fn append_record(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.faults.as_ref().and_then(|faults| faults.now()) {
            Some(Fault::Records) => Err(rustix::io::Errno::IO.into()),
            _ => self.append(file, bytes, offset),
        }
    }

    /// Overwrites bytes of a file whose blocks exist already (the reserve).
    pub(crate) fn overwrite(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.faults.as_ref().and_then(|faults| faults.now()) == Some(Fault::Everything) {
            return Err(rustix::io::Errno::IO.into());
        }
        file.write_all_at(bytes, offset)?;
        self.sync(file)
    }

    /// Waits until everything in a file is durable.
    pub(crate) fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()?;
        self.faults.as_ref().map_or(Ok(()), |faults| faults.note_synced(file))
    }
}

/// Opens a file of the ledger for reading and writing, readable by its owner alone.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = plain(&mut options, path)?;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Opens a file of the ledger for reading.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    plain(OpenOptions::new().read(true), path)
}

/// Opens a plain file that is no link; a pipe is refused and not waited for.
fn plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = options.custom_flags(i32::try_from(flags).unwrap_or_default()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file"));
    }
    Ok(file)
}

/// Makes the folder `dir` with a folder `inside`, its owner's alone, and its name durable.
pub(crate) fn make_dirs(dir: &Path, inside: &str) -> io::Result<()> {
    let new = !dir.exists();
    DirBuilder::new().recursive(true).mode(0o700).create(dir.join(inside))?;
    for folder in [dir, &dir.join(inside)] {
        if std::fs::metadata(folder)?.permissions().mode() & 0o077 != 0 {
            std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        }
    }
    match dir.parent().filter(|_| new) {
        Some(parent) if parent.as_os_str().is_empty() => sync_dir(Path::new(".")),
        Some(parent) => sync_dir(parent),
        None => Ok(()),
    }
}

/// Makes a new or removed name in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// What was cut off a file.
#[derive(Debug)]
pub(crate) struct CutOff {
    pub(crate) bytes: u64,
    /// Where it is now, if there was room.
    pub(crate) kept: Option<PathBuf>,
}

/// Moves what follows `offset` into a file of its own in `dir` (if there is room) and cuts it off.
pub(crate) fn cut_aside(dir: &Path, path: &Path, offset: u64) -> io::Result<CutOff> {
    let mut file = open_file(path)?;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.read_to_end(&mut bytes)?;
    // A full disk must not keep a ledger closed.
    let kept = keep(dir, &bytes).ok();
    file.set_len(offset)?;
    file.sync_all()?;
    Ok(CutOff { bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX), kept })
}

/// Makes a durable file `torn-<number>` of `bytes`.
fn keep(dir: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    for number in 1..10_000u32 {
        let path = dir.join(format!("torn-{number}"));
        let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        };
        let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| sync_dir(dir));
        if written.is_err() {
            drop(std::fs::remove_file(&path));
        }
        return written.map(|()| path);
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
