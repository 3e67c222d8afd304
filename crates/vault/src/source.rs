//! Files that hold a master key or a passphrase.
//!
//! Invariants: a key file is a regular file, not reached through a symbolic link at its last step,
//! owned by us or root, and closed to everyone else; a new one appears whole or not at all, and never
//! replaces another. What a killed maker left of one is removed by the next.
//!
//! Not here: programs that print a key ([`program`]), where the file should be, and whether it may lie beside the data (the daemon's choice).

mod program;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, RawMode, Stat, Statx, StatxAttributes,
    StatxFlags,
};
use rustix::io::Errno;
use zeroize::Zeroizing;

pub use self::program::read_program;
use crate::master::MAX_TEXT;
use crate::{BadKey, MasterKey, Secret};

/// How a key is called while it is written.
const DRAFT: &str = ".new-key-";

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
    /// A file that a new key cannot take the place of.
    #[error(
        "the key file `{0}` cannot be replaced: it is gone, or mounted there by itself; make a new key in a file of mode \
         0600, name it with --new-key-file, and give it to the daemon from its next start on"
    )]
    Fixed(PathBuf),
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
    /// What systemd gave; its file is not one that anybody could put right.
    #[error(
        "the systemd credential `{name}` cannot be used: {why}; see LoadCredential= in the unit of the service, and start \
         the service again"
    )]
    Credential {
        /// The name of the credential.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A program that should print the key did not.
    #[error("the program `{program}` gave no master key: {why}")]
    Program {
        /// Its first word.
        program: String,
        /// What became of it; nothing that it said.
        why: String,
    },
    /// What the program printed is not a key.
    #[error("what the program `{program}` printed is not a usable key")]
    BadOutput {
        /// Its first word.
        program: String,
        /// What is wrong with it.
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

/// How closed a file must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// To everyone but its owner.
    Private,
    /// As systemd makes credentials: the same, or root's with an access list, in a directory that is closed to others.
    Credential,
}

/// Reads a key file.
///
/// # Errors
/// [`SourceError`] when it is missing, unsafe to trust, or not a key.
pub fn read_file(path: &Path) -> Result<MasterKey, SourceError> {
    key_in(path, &read_private(path, MAX_TEXT + 1)?)
}

fn key_in(path: &Path, text: &[u8]) -> Result<MasterKey, SourceError> {
    let bad = |cause| SourceError::BadKey { path: path.into(), cause };
    let text = std::str::from_utf8(text).map_err(|_| bad(BadKey::NotEncoded))?;
    MasterKey::from_hex_or_base64(text).map_err(bad)
}

/// Up to `most` bytes of a file that is ours alone.
pub(crate) fn read_private(path: &Path, most: usize) -> Result<Zeroizing<Vec<u8>>, SourceError> {
    read_closed(path, most, Closed::Private)
}

fn read_closed(path: &Path, most: usize, closed: Closed) -> Result<Zeroizing<Vec<u8>>, SourceError> {
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
    let by_list = stat.st_uid == 0 && stat.st_gid == 0 && stat.st_mode & 0o070 != 0;
    match closed {
        // Then the directory decides too: nobody else gets through it, or puts another file there.
        Closed::Credential if by_list => {
            trusted(path, &stat, 0o640)?;
            let folder = path.parent().unwrap_or(Path::new("/"));
            let stat = rustix::fs::stat(folder).map_err(|errno| io_error(folder, errno))?;
            trusted(folder, &stat, 0o750)?;
        }
        Closed::Private | Closed::Credential => trusted(path, &stat, 0o600)?,
    }

    // Room for one byte too many up front, so that the text is never moved and left behind unwiped.
    let mut text = Zeroizing::new(Vec::with_capacity(most + 1));
    File::from(file)
        .take(most as u64)
        .read_to_end(&mut text)
        .map_err(|cause| SourceError::Io { path: path.into(), cause })?;
    Ok(text)
}

/// Reads a key that systemd put into the directory of a service's credentials. Such a file is root's, and the account of
/// the service is let in by an access list: its mode then shows 0440.
///
/// # Errors
/// [`SourceError`] when it is missing, unsafe to trust, or not a key.
pub fn read_credential(path: &Path) -> Result<MasterKey, SourceError> {
    let read = read_closed(path, MAX_TEXT + 1, Closed::Credential).and_then(|text| key_in(path, &text));
    read.map_err(|error| as_credential(path, error))
}

/// The same fault in other words: nobody makes, moves or closes such a file by hand.
fn as_credential(path: &Path, error: SourceError) -> SourceError {
    let why = match error {
        SourceError::Missing(_) => "it is not there".to_owned(),
        SourceError::NotAFile(_) => "it is not a regular file".to_owned(),
        SourceError::Owner { uid, .. } => format!("it belongs to uid {uid}"),
        SourceError::TooOpen { mode, .. } => format!("others get at it (mode {mode:04o})"),
        SourceError::BadKey { cause, .. } => cause.to_string(),
        SourceError::Io { cause, .. } => cause.to_string(),
        other @ (SourceError::Exists(_)
        | SourceError::Fixed(_)
        | SourceError::Credential { .. }
        | SourceError::Program { .. }
        | SourceError::BadOutput { .. }) => return other,
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    SourceError::Credential { name, why }
}

/// Reads the passphrase that a key file or a credential holds.
///
/// # Errors
/// [`SourceError`] when it is missing, unsafe to trust, or not text.
pub fn read_passphrase(path: &Path, closed: Closed) -> Result<Secret<String>, SourceError> {
    match (passphrase_in(path, closed), closed) {
        (Err(error), Closed::Credential) => Err(as_credential(path, error)),
        (read, Closed::Private | Closed::Credential) => read,
    }
}

fn passphrase_in(path: &Path, closed: Closed) -> Result<Secret<String>, SourceError> {
    let mut text = read_closed(path, MAX_TEXT + 1, closed)?;
    let bad = |cause| SourceError::BadKey { path: path.into(), cause };
    if text.len() > MAX_TEXT {
        return Err(bad(BadKey::TooLong));
    }
    match String::from_utf8(std::mem::take(&mut *text)) {
        Ok(text) => Ok(Secret::new(text)),
        Err(error) => {
            drop(Zeroizing::new(error.into_bytes()));
            Err(bad(BadKey::NotEncoded))
        }
    }
}

/// Whether [`replace_file`] could put another file in the place of this one: it is there, in its folder, and not mounted
/// over it.
///
/// # Errors
/// [`SourceError::Fixed`] if not.
pub fn replaceable(path: &Path) -> Result<(), SourceError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let look = |path: &Path, flags| rustix::fs::statx(CWD, path, flags, StatxFlags::BASIC_STATS);
    let (Ok(file), Ok(folder)) = (look(path, AtFlags::SYMLINK_NOFOLLOW), look(parent, AtFlags::empty()))
    else {
        return Err(SourceError::Fixed(path.into()));
    };
    let is_mounted = file.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    let device = |stat: &Statx| (stat.stx_dev_major, stat.stx_dev_minor);
    match is_mounted || device(&file) != device(&folder) {
        true => Err(SourceError::Fixed(path.into())),
        false => Ok(()),
    }
}

/// Puts a key file in the place of another, in one step.
///
/// # Errors
/// [`SourceError`]; then both are as they were, or the change may not outlast a loss of power.
pub fn replace_file(path: &Path, with: &Path) -> Result<(), SourceError> {
    let failed = |cause| SourceError::Io { path: path.into(), cause };
    std::fs::rename(with, path).map_err(failed)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|folder| folder.sync_all()).map_err(failed)
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
    sweep(&folder, DRAFT);
    let tag = getrandom::u64().map_err(|error| failed(io::Error::other(error)))?;
    let draft = format!("{DRAFT}{tag:016x}");
    let written = write_draft(&folder, &draft, &key);
    // A link, unlike a rename, refuses to replace what is there.
    let placed = written
        .as_ref()
        .map_err(|errno| *errno)
        .and_then(|_| rustix::fs::linkat(&folder, &draft, &folder, name, AtFlags::empty()));
    let removed = rustix::fs::unlinkat(&folder, &draft, AtFlags::empty());
    match placed {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(SourceError::Exists(path.into())),
        Err(errno) => return Err(io_error(path, errno)),
    }
    removed.and_then(|()| rustix::fs::fsync(&folder)).map_err(|errno| io_error(path, errno))?;
    Ok(key)
}

/// Gives the file back, open: as long as it is, nobody sweeps it away.
fn write_draft(folder: &OwnedFd, draft: &str, key: &MasterKey) -> rustix::io::Result<File> {
    let mut file = open_draft(folder, draft)?;
    let text = key.to_base64();
    let written = file.write_all(text.expose().as_bytes()).and_then(|()| file.write_all(b"\n"));
    let written = written.and_then(|()| file.sync_all());
    written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)).map(|()| file)
}

/// A new file of mode 0600, locked as long as it is open.
pub(crate) fn open_draft(folder: &OwnedFd, draft: &str) -> rustix::io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    loop {
        let fd = rustix::fs::openat(folder, draft, flags, mode)?;
        rustix::fs::flock(&fd, FlockOperation::LockExclusive)?;
        // Somebody swept before the lock was there: once more.
        if rustix::fs::fstat(&fd)?.st_nlink == 0 {
            continue;
        }
        // Whatever the umask took away or a default ACL added.
        rustix::fs::fchmod(&fd, mode)?;
        return Ok(File::from(fd));
    }
}

/// Removes what was being written when its writer was killed: nobody holds its lock.
pub(crate) fn sweep(folder: &OwnedFd, prefix: &str) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let Some(tag) = name.to_bytes().strip_prefix(prefix.as_bytes()) else { continue };
        if tag.len() != 16 || !tag.iter().all(u8::is_ascii_hexdigit) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(fd) = rustix::fs::openat(folder, name, flags, Mode::empty()) else { continue };
        if rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok() {
            rustix::fs::unlinkat(folder, name, AtFlags::empty()).unwrap_or_default();
        }
    }
}

/// Opens the directory for a new key, making it if need be; refuses one that others can enter.
pub(crate) fn closed_folder(path: &Path) -> Result<OwnedFd, SourceError> {
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
