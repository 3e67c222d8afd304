//! Files that hold a master key, and programs that print one.
//!
//! Invariants: a key file is a regular file, not reached through a symbolic link at its last step,
//! owned by us or root, and closed to everyone else; a new one appears whole or not at all, and never
//! replaces another. A program is started without a shell, has a deadline, and nothing it says but the key is used or shown.
//!
//! Not here: where the file should be, and whether it may lie beside the data (the daemon's choice).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawMode, Stat, Statx, StatxAttributes, StatxFlags};
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

/// Reads a key file.
///
/// # Errors
/// [`SourceError`] when it is missing, unsafe to trust, or not a key.
pub fn read_file(path: &Path) -> Result<MasterKey, SourceError> {
    let text = read_private(path, MAX_TEXT + 1)?;
    let bad = |cause| SourceError::BadKey { path: path.into(), cause };
    let text = std::str::from_utf8(&text).map_err(|_| bad(BadKey::NotEncoded))?;
    MasterKey::from_hex_or_base64(text).map_err(bad)
}

/// Up to `most` bytes of a file that is ours alone.
pub(crate) fn read_private(path: &Path, most: usize) -> Result<Zeroizing<Vec<u8>>, SourceError> {
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
    let mut text = Zeroizing::new(Vec::with_capacity(most + 1));
    File::from(file)
        .take(most as u64)
        .read_to_end(&mut text)
        .map_err(|cause| SourceError::Io { path: path.into(), cause })?;
    Ok(text)
}

/// Takes the key from what a program prints. It is started without a shell, and ended when `patience` is over.
///
/// # Errors
/// [`SourceError`] when it cannot be started, does not end well or in time, or prints no key.
pub fn read_program(argv: &[String], patience: Duration) -> Result<MasterKey, SourceError> {
    let (program, arguments) = argv
        .split_first()
        .ok_or_else(|| SourceError::Program { program: String::new(), why: "no program is named".into() })?;
    let failed = |why: String| SourceError::Program { program: program.clone(), why };
    // What it says on standard error may repeat what it was asked for, so nobody hears it.
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PALISADE_") {
            command.env_remove(name);
        }
    }
    let mut child = command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| failed(format!("it cannot be started: {}", error.kind())))?;
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let deadline = Instant::now() + patience;
    let (tell, told) = mpsc::channel();
    let out = child.stdout.take();
    std::thread::spawn(move || {
        let mut text = Zeroizing::new(Vec::with_capacity(MAX_TEXT + 2));
        let read = out.map(|out| out.take(MAX_TEXT as u64 + 1).read_to_end(&mut text));
        drop(tell.send(read.and_then(Result::ok).map(|_| text)));
    });
    let text = told.recv_timeout(patience).ok().flatten();
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < deadline && text.is_some() => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(None) | Err(_) => break None,
        }
    };
    // Whatever it left behind goes with it.
    if let Some(group) = group {
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap_or_default();
    }
    drop(child.wait());
    let status = ended.ok_or_else(|| failed(format!("it did not end within {} s", patience.as_secs())))?;
    if !status.success() {
        return Err(failed(format!("it failed ({status}); run it by hand to see why")));
    }
    let text = text.ok_or_else(|| failed("what it printed could not be read".into()))?;
    let bad = |cause| SourceError::BadOutput { program: program.clone(), cause };
    let text = std::str::from_utf8(&text).map_err(|_| bad(BadKey::NotEncoded))?;
    MasterKey::from_hex_or_base64(text).map_err(bad)
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
pub(crate) fn closed_folder(path: &Path) -> Result<rustix::fd::OwnedFd, SourceError> {
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
