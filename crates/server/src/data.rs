//! The data directory: ours alone, held by one daemon, and the master key beside or outside it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use api::Places;
use runtime::{Mode, Source};
use rustix::fs::FlockOperation;
use vault::source::{SourceError, create_file, read_file, read_program, replace_file};
use vault::{BadKey, KeyRing, MasterKey, RingError};

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
        "{0} needs a master key that was given to it: set `key.file`, `key.command`, PALISADE_MASTER_KEY or the \
         systemd credential `palisade-master-key` (make one with `openssl rand -base64 32`)"
    )]
    KeyNeeded(&'static str),
    #[error("PALISADE_MASTER_KEY is not text; give the key in hex or base64")]
    KeyNotText,
    #[error("PALISADE_MASTER_KEY cannot be used")]
    BadKey(#[from] BadKey),
    #[error(transparent)]
    Key(#[from] SourceError),
    #[error(transparent)]
    Ring(#[from] RingError),
}

/// How long a program may take to print the master key.
const KEY_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Where the master key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MasterFrom {
    /// PALISADE_MASTER_KEY.
    Environment,
    /// A file of ours, in which a new key can take the place of this one.
    File(PathBuf),
    /// A credential that systemd put there, for this run of the daemon.
    Credential(PathBuf),
    /// A program that prints it.
    Program(Vec<String>),
}

impl MasterFrom {
    /// What the settings and the environment say, the strongest first.
    pub(crate) fn find(places: &Places, settings: &Settings) -> Self {
        if std::env::var_os("PALISADE_MASTER_KEY").is_some() {
            return Self::Environment;
        }
        if let Some(file) = &settings.key_file {
            return Self::File(file.clone());
        }
        if !settings.key_command.is_empty() {
            return Self::Program(settings.key_command.clone());
        }
        let credential = std::env::var_os("CREDENTIALS_DIRECTORY")
            .map(|folder| Path::new(&folder).join("palisade-master-key"))
            .filter(|file| file.exists());
        credential.map_or_else(|| Self::File(places.master_key()), Self::Credential)
    }

    /// The file that it is read from, if it is a file.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(file) | Self::Credential(file) => Some(file),
            Self::Environment | Self::Program(_) => None,
        }
    }
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

/// The master key: given, or in solo mode made at first start. The second is where a new one was put.
pub(crate) fn master_key(
    places: &Places,
    settings: &Settings,
) -> Result<(MasterKey, Option<PathBuf>), DataError> {
    let file = match MasterFrom::find(places, settings) {
        MasterFrom::Environment => {
            let text = std::env::var_os("PALISADE_MASTER_KEY").unwrap_or_default();
            let text = text.into_string().map_err(|_| DataError::KeyNotText)?;
            return Ok((MasterKey::from_hex_or_base64(&text)?, None));
        }
        MasterFrom::Program(argv) => return Ok((read_program(&argv, KEY_PATIENCE)?, None)),
        MasterFrom::Credential(file) => return Ok((read_file(&file)?, None)),
        MasterFrom::File(file) => file,
    };
    if settings.key_file.is_some() || file.exists() {
        return Ok((read_file(&file)?, None));
    }
    if begun(settings) {
        return Err(DataError::KeyLost(settings.data.clone(), file));
    }
    match (settings.mode, &settings.source) {
        (Mode::Solo, Source::Embedded) => Ok((create_file(&file)?, Some(file))),
        (Mode::Solo, Source::Postgres(_)) => Err(DataError::KeyNeeded("a store on PostgreSQL (`store.url`)")),
        (Mode::Team, _) => Err(DataError::KeyNeeded("mode `team`")),
    }
}

/// Whether there is anything here that was made under a key.
fn begun(settings: &Settings) -> bool {
    settings.data.join("store").join("palisade.db").exists()
        || settings.data.join("ledger").exists()
        || runtime::ring_file(&settings.data).exists()
        || runtime::unfinished(&settings.data).is_err()
}

/// The ring that the master key opens. A new embedded store gets one with a root of its own, so that the master can be
/// replaced later; a database elsewhere, and what was made before there were such files, has the master as its root
/// until keys are rotated.
pub(crate) fn key_ring(
    places: &Places,
    settings: &Settings,
    master: MasterKey,
) -> Result<KeyRing, DataError> {
    let file = runtime::ring_file(&settings.data);
    if !file.exists() {
        return match (&settings.source, begun(settings)) {
            (Source::Embedded, false) => Ok(file.create(&master)?),
            (Source::Embedded, true) | (Source::Postgres(_), _) => Ok(KeyRing::new(master)),
        };
    }
    let opened = file.open(&master);
    if let (Err(RingError::OtherMaster { .. }), MasterFrom::File(present)) =
        (&opened, MasterFrom::find(places, settings))
    {
        // A rotation was interrupted after the ring was sealed under the new key and before that was in its place.
        let waiting = runtime::next_file(&present);
        if waiting.exists()
            && let Ok(ring) = file.open(&read_file(&waiting)?)
        {
            // Where it waits, the next start finds it too.
            if let Err(error) = replace_file(&present, &waiting) {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                tracing::warn!(%error, cause, waiting = %waiting.display(), "the new master key is not in its place; put it there");
            }
            return Ok(ring);
        }
    }
    Ok(opened?)
}
