//! Files that hold a master key: the only place in this crate that touches the disk.
//!
//! Invariants: a key file is a regular file, not reached through a symbolic link at its last step,
//! owned by us or root, and closed to everyone else; a new one appears whole or not at all, and never
//! replaces another.
//!
//! Not here: where the file should be, and whether it may lie beside the data (the daemon's choice).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::master::MAX_TEXT;
use crate::{BadKey, MasterKey};

/// Why a key file was not read or not made.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is nothing at this path.
    #[error("there is no key file at `{0}`; create it, or name another")]
    Missing(PathBuf),
    /// A key file is there already and is kept.
    #[error("`{0}` exists already; it was left alone")]
    Exists(PathBuf),
    /// A directory, link, pipe or device.
    #[error("`{0}` is not a regular file")]
    NotAFile(PathBuf),
    /// Someone else's file or directory.
    #[error("`{path}` belongs to uid {uid}; it must belong to this user or root")]
    Owner {
        /// What was looked at.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// Open to others.
    #[error("`{path}` has mode {mode:04o}; close it with `chmod {wanted:o} {path}`")]
    TooOpen {
        /// What was looked at.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The widest bits that are accepted.
        wanted: u32,
    },
    /// The content is not a key.
    #[error("the content of `{path}` is not a usable key")]
    BadKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with its content.
        #[source]
        cause: BadKey,
    },
    /// Anything else the operating system said.
    #[error("`{path}` could not be used as a key file")]
    Io {
        /// The file or its directory.
        path: PathBuf,
        /// What went wrong.
        #[source]
        cause: io::Error,
    },
}

/// Reads a key file.
///
/// # Errors
/// [`SourceError`] when it is missing, unsafe to trust, or not a key.
pub fn read_file(path: &Path) -> Result<MasterKey, SourceError> {
    // NONBLOCK: a pipe planted at the path must not hang the start.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOENT => SourceError::Missing(path.into()),
        Errno::LOOP | Errno::NXIO => SourceError::NotAFile(path.into()),
        other => io_error(path, other),
    })?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| io_error(path, errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(SourceError::NotAFile(path.into()));
    }
    trusted(path, &stat, 0o600)?;

    // Room for one byte too many up front, so that the text is never moved and left behind unwiped.
    let mut text = Zeroizing::new(Vec::with_capacity(MAX_TEXT + 2));
    let limit = MAX_TEXT as u64 + 1;
    File::from(file)
        .take(limit)
        .read_to_end(&mut text)
        .map_err(|cause| SourceError::Io { path: path.into(), cause })?;
    let bad = |cause| SourceError::BadKey { path: path.into(), cause };
    let text = std::str::from_utf8(&text).map_err(|_| bad(BadKey::NotEncoded))?;
    MasterKey::from_hex_or_base64(text).map_err(bad)
}

/// Makes a new random key and writes it to a new file: 0600, in a directory that is 0700.
///
/// The directory is made if it is missing. Two racing callers: one makes the key, the other is told
/// [`SourceError::Exists`] and can read a whole file.
///
/// # Errors
/// [`SourceError`]; then no key file was made.
pub fn create_file(path: &Path) -> Result<MasterKey, SourceError> {
    let name = path.file_name().ok_or_else(|| SourceError::NotAFile(path.into()))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = closed_folder(parent)?;

    let failed = |cause: io::Error| SourceError::Io { path: path.into(), cause };
    let key = MasterKey::random().map_err(|error| failed(io::Error::other(error)))?;
    let tag = getrandom::u64().map_err(|error| failed(io::Error::other(error)))?;
    let draft = format!(".new-key-{tag:016x}");
    let written = write_draft(&folder, &draft, &key);
    // A link, unlike a rename, refuses to replace what is there.
    let placed = written.and_then(|()| rustix::fs::linkat(&folder, &draft, &folder, name, AtFlags::empty()));
    let removed = rustix::fs::unlinkat(&folder, &draft, AtFlags::empty());
    match placed {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(SourceError::Exists(path.into())),
        Err(errno) => return Err(io_error(path, errno)),
    }
    removed.and_then(|()| rustix::fs::fsync(&folder)).map_err(|errno| io_error(path, errno))?;
    Ok(key)
}

fn write_draft(folder: &impl rustix::fd::AsFd, draft: &str, key: &MasterKey) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let fd = rustix::fs::openat(folder, draft, flags, mode)?;
    // Whatever the umask took away or a default ACL added.
    rustix::fs::fchmod(&fd, mode)?;
    let mut file = File::from(fd);
    let text = key.to_base64();
    let written = file.write_all(text.expose().as_bytes()).and_then(|()| file.write_all(b"\n"));
    written.and_then(|()| file.sync_all()).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Opens the directory for a new key, making it if need be; refuses one that others can enter.
fn closed_folder(path: &Path) -> Result<rustix::fd::OwnedFd, SourceError> {
    let failed = |cause| SourceError::Io { path: path.into(), cause };
    let made = !path.exists();
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder =
        rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(|errno| io_error(path, errno))?;
    let stat = rustix::fs::fstat(&folder).map_err(|errno| io_error(path, errno))?;
    trusted(path, &stat, 0o700)?;
    if made && let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        File::open(above).and_then(|above| above.sync_all()).map_err(failed)?;
    }
    Ok(folder)
}

fn trusted(path: &Path, stat: &Stat, wanted: RawMode) -> Result<(), SourceError> {
    let (uid, mode) = (stat.st_uid, stat.st_mode & 0o7777);
    if uid != 0 && uid != rustix::process::geteuid().as_raw() {
        return Err(SourceError::Owner { path: path.into(), uid });
    }
    if mode & !wanted != 0 {
        return Err(SourceError::TooOpen { path: path.into(), mode, wanted });
    }
    Ok(())
}

fn io_error(path: &Path, errno: Errno) -> SourceError {
    SourceError::Io { path: path.into(), cause: errno.into() }
}
