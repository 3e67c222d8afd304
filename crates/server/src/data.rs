//! The data directory: ours alone, held by one daemon.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

/// Why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataError {
    #[error("`{0}` cannot be used")]
    Io(PathBuf, #[source] io::Error),
    #[error("`{0}` is open to others (mode {1:o}); run `chmod 700 {0}`")]
    Open(PathBuf, u32),
    #[error("`{0}` belongs to uid {1}, not to this process")]
    Foreign(PathBuf, u32),
    #[error("another daemon (process {0}) uses `{1}`; stop it, or give this one another `data_dir`")]
    Held(String, PathBuf),
}

/// The lock on the data directory; it ends with the process.
#[derive(Debug)]
pub(crate) struct Held(#[expect(dead_code, reason = "holding it is its use")] File);

/// Makes the data directory, or checks that it is ours alone.
pub(crate) fn prepare(data: &Path) -> Result<(), DataError> {
    let io = |error| DataError::Io(data.to_owned(), error);
    DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(io)?;
    let meta = std::fs::symlink_metadata(data).map_err(io)?;
    let own = rustix::process::geteuid().as_raw();
    if meta.uid() != own {
        return Err(DataError::Foreign(data.to_owned(), meta.uid()));
    }
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(DataError::Open(data.to_owned(), mode));
    }
    Ok(())
}

/// Takes the data directory, or names the daemon that has it.
pub(crate) fn hold(data: &Path) -> Result<Held, DataError> {
    let path = data.join("palisaded.lock");
    let io = |error| DataError::Io(path.clone(), error);
    let mut options = OpenOptions::new();
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed());
    let mut file = options.open(&path).map_err(io)?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut pid = String::new();
        (&mut file).take(32).read_to_string(&mut pid).map_err(io)?;
        return Err(DataError::Held(pid.trim().to_owned(), data.to_owned()));
    }
    // The lock counts; the number is a courtesy that a full disk may refuse.
    let told =
        file.rewind().and_then(|()| file.set_len(0)).and_then(|()| writeln!(file, "{}", std::process::id()));
    if let Err(error) = told {
        tracing::warn!(%error, "the process id could not be noted beside the lock");
    }
    Ok(Held(file))
}

/// A file without a name, for what must not outlive its use.
pub(crate) fn scratch(data: &Path) -> io::Result<File> {
    let run = data.join("run");
    DirBuilder::new().recursive(true).mode(0o700).create(&run)?;
    let path = run.join(format!("scratch-{}", model::RequestId::random()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
