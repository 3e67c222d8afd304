//! The data directory: ours alone, held by one daemon, and the master key beside or outside it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use api::Places;
use runtime::{Mode, Source};
use rustix::fs::FlockOperation;
use vault::source::{SourceError, create_file, read_file};
use vault::{BadKey, MasterKey};

use crate::settings::Settings;

/// Why the data directory or the key cannot be used.
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
    #[error(
        "there is a store in `{0}` but no master key at `{1}`; put the key back, or name it with `key.file` or \
         PALISADE_MASTER_KEY. Without it the store cannot be read."
    )]
    KeyLost(PathBuf, PathBuf),
    #[error(
        "{0} needs a master key that was given to it: set `key.file`, PALISADE_MASTER_KEY or the systemd \
         credential `palisade-master-key` (make one with `openssl rand -base64 32`)"
    )]
    KeyNeeded(&'static str),
    #[error("PALISADE_MASTER_KEY is not text; give the key in hex or base64")]
    KeyNotText,
    #[error("PALISADE_MASTER_KEY cannot be used")]
    BadKey(#[from] BadKey),
    #[error(transparent)]
    Key(#[from] SourceError),
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

/// The file that the master key is read from, if it is a file.
pub(crate) fn key_file(places: &Places, settings: &Settings) -> Option<PathBuf> {
    if std::env::var_os("PALISADE_MASTER_KEY").is_some() {
        return None;
    }
    if let Some(file) = &settings.key_file {
        return Some(file.clone());
    }
    let credential = std::env::var_os("CREDENTIALS_DIRECTORY")
        .map(|folder| Path::new(&folder).join("palisade-master-key"))
        .filter(|file| file.exists());
    Some(credential.unwrap_or_else(|| places.master_key()))
}

/// The master key: given, or in solo mode made at first start. The second is where a new one was put.
pub(crate) fn master_key(
    places: &Places,
    settings: &Settings,
) -> Result<(MasterKey, Option<PathBuf>), DataError> {
    if let Some(text) = std::env::var_os("PALISADE_MASTER_KEY") {
        let text = text.into_string().map_err(|_| DataError::KeyNotText)?;
        return Ok((MasterKey::from_hex_or_base64(&text)?, None));
    }
    let file = key_file(places, settings).unwrap_or_else(|| places.master_key());
    if settings.key_file.is_some() || file.exists() {
        return Ok((read_file(&file)?, None));
    }
    let begun = settings.data.join("store").join("palisade.db").exists()
        || settings.data.join("ledger").exists()
        || runtime::unfinished(&settings.data).is_err();
    if begun {
        return Err(DataError::KeyLost(settings.data.clone(), file));
    }
    match (settings.mode, &settings.source) {
        (Mode::Solo, Source::Embedded) => Ok((create_file(&file)?, Some(file))),
        (Mode::Solo, Source::Postgres(_)) => Err(DataError::KeyNeeded("a store on PostgreSQL (`store.url`)")),
        (Mode::Team, _) => Err(DataError::KeyNeeded("mode `team`")),
    }
}
