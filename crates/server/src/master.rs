//! The master key: where it comes from, and the ring that it opens.
//!
//! Flow: settings and environment -> [`MasterFrom`] -> [`MasterFrom::read`] -> [`key_ring`]. Invariants: the strongest
//! source that is named counts, and there is no weaker one behind it; only solo mode on the embedded database makes a key
//! by itself, and only where nothing was made under another. Not here: what a key or a ring is (`vault`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::Places;
use runtime::{FindRingError, KeptRing, Mode, Source};
use tokio::sync::Mutex;
use vault::source::{
    Closed, SourceError, create_file, read_credential, read_file, read_passphrase, read_program, replace_file,
};
use vault::{BadKey, Fingerprint, KeyRing, Master, MasterKey, RingError, Secret};

use crate::settings::Settings;

/// Why there is no key or no ring.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MasterError {
    #[error(
        "there is a store in `{0}` but no master key at `{1}`; put the key back, or name it with `key.file` or \
         PALISADE_MASTER_KEY. Without it the store cannot be read."
    )]
    KeyLost(PathBuf, PathBuf),
    #[error(
        "there is a store in `{0}`, and the service was given no credential `palisade-master-key` or \
         `palisade-master-passphrase` and has no key at `{1}`; see LoadCredential= in its unit, put the key back, or name it \
         with `key.file` or PALISADE_MASTER_KEY. Without it the store cannot be read."
    )]
    CredentialLost(PathBuf, PathBuf),
    #[error(
        "{0} needs a master key that was given to it: set `key.file`, `key.passphrase_file`, `key.command`, \
         PALISADE_MASTER_KEY, PALISADE_MASTER_PASSPHRASE or the systemd credential `palisade-master-key` or \
         `palisade-master-passphrase` (make a key with `openssl rand -base64 32`)"
    )]
    KeyNeeded(&'static str),
    #[error("{0} is not text; {1}")]
    NotText(&'static str, &'static str),
    #[error("PALISADE_MASTER_KEY cannot be used")]
    BadKey(#[from] BadKey),
    #[error(
        "a passphrase opens a key ring, and this store was made without one; give the key that it was made under"
    )]
    NoRing,
    #[error(transparent)]
    Key(#[from] SourceError),
    #[error(transparent)]
    Ring(#[from] RingError),
    #[error(transparent)]
    Find(#[from] FindRingError),
}

/// How long a program may take to print the master key.
const KEY_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

const KEY: &str = "PALISADE_MASTER_KEY";
const PASSPHRASE: &str = "PALISADE_MASTER_PASSPHRASE";
/// The directory of a service's credentials, as systemd names it.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

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
    /// A passphrase.
    Passphrase(PassphraseFrom),
}

/// Where a passphrase comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PassphraseFrom {
    /// PALISADE_MASTER_PASSPHRASE.
    Environment,
    /// A file of ours.
    File(PathBuf),
    /// A credential that systemd put there.
    Credential(PathBuf),
}

impl MasterFrom {
    /// What the settings and the environment say, the strongest first.
    pub(crate) fn find(places: &Places, settings: &Settings) -> Self {
        if std::env::var_os(KEY).is_some() {
            return Self::Environment;
        }
        if std::env::var_os(PASSPHRASE).is_some() {
            return Self::Passphrase(PassphraseFrom::Environment);
        }
        if let Some(file) = &settings.key_file {
            return Self::File(file.clone());
        }
        if let Some(file) = &settings.passphrase_file {
            return Self::Passphrase(PassphraseFrom::File(file.clone()));
        }
        if !settings.key_command.is_empty() {
            return Self::Program(settings.key_command.clone());
        }
        let credential = |name: &str| {
            let folder = std::env::var_os(CREDENTIALS)?;
            Some(Path::new(&folder).join(name)).filter(|file| file.exists())
        };
        if let Some(file) = credential("palisade-master-key") {
            return Self::Credential(file);
        }
        match credential("palisade-master-passphrase") {
            Some(file) => Self::Passphrase(PassphraseFrom::Credential(file)),
            None => Self::File(places.master_key()),
        }
    }

    /// The file that it is read from, if it is a file.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(file)
            | Self::Credential(file)
            | Self::Passphrase(PassphraseFrom::File(file) | PassphraseFrom::Credential(file)) => Some(file),
            Self::Environment | Self::Program(_) | Self::Passphrase(PassphraseFrom::Environment) => None,
        }
    }

    /// Reads it.
    pub(crate) fn read(&self) -> Result<Master, MasterError> {
        let key = match self {
            Self::Environment => {
                let text = variable(KEY, "give the key in hex or base64")?;
                MasterKey::from_hex_or_base64(text.expose())?
            }
            Self::Program(argv) => read_program(argv, KEY_PATIENCE)?,
            Self::Credential(file) => read_credential(file)?,
            Self::File(file) => read_file(file)?,
            Self::Passphrase(from) => return Ok(Master::Passphrase(from.read()?)),
        };
        Ok(Master::Key(key))
    }

    /// What is wrong with what the next start would find: it goes on being needed.
    pub(crate) async fn fault(&self, ring: &KeyRing, tried: &Tried) -> Option<&'static str> {
        let same = |key: MasterKey| KeyRing::new(key).fingerprint() == ring.master();
        let found = match self {
            Self::File(file) => read_file(file).is_ok_and(same),
            Self::Credential(file) => read_credential(file).is_ok_and(same),
            Self::Passphrase(from) => match from.read() {
                Ok(text) => tried.opens(text, ring).await,
                Err(_) => false,
            },
            Self::Environment | Self::Program(_) => true,
        };
        (!found).then_some("the master key is gone or another one; put it back before the next start")
    }
}

/// The passphrase that was last tried, and on which ring: what Argon2id costs is not spent for everyone who asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tried(Arc<Mutex<Option<Trial>>>);

#[derive(Debug)]
struct Trial {
    text: Secret<String>,
    master: Fingerprint,
    opens: bool,
}

impl Tried {
    /// Whether this passphrase opens the ring. One at a time: whoever asks meanwhile has the answer of the first.
    async fn opens(&self, text: Secret<String>, ring: &KeyRing) -> bool {
        let mut last = self.0.lock().await;
        let master = ring.master();
        if let Some(last) = last.as_ref()
            && last.master == master
            && last.text.matches(text.expose().as_bytes())
        {
            return last.opens;
        }
        let Some(kept) = ring.kept() else { return false };
        let attempt = move || {
            let given = Master::Passphrase(text);
            let opens = given.open(&kept).is_ok();
            (given, opens)
        };
        match tokio::task::spawn_blocking(attempt).await {
            Ok((Master::Passphrase(text), opens)) => {
                *last = Some(Trial { text, master, opens });
                opens
            }
            Ok((Master::Key(_), _)) | Err(_) => false,
        }
    }
}

impl PassphraseFrom {
    pub(crate) fn read(&self) -> Result<Secret<String>, MasterError> {
        let text = match self {
            Self::Environment => return variable(PASSPHRASE, "give the passphrase in UTF-8"),
            Self::File(file) => read_passphrase(file, Closed::Private)?,
            Self::Credential(file) => read_passphrase(file, Closed::Credential)?,
        };
        Ok(text)
    }
}

fn variable(name: &'static str, hint: &'static str) -> Result<Secret<String>, MasterError> {
    let text = std::env::var_os(name).unwrap_or_default();
    text.into_string().map(Secret::new).map_err(|_| MasterError::NotText(name, hint))
}

/// The master: given, or in solo mode made at first start. The second is where a new one was put.
pub(crate) fn master(places: &Places, settings: &Settings) -> Result<(Master, Option<PathBuf>), MasterError> {
    let from = MasterFrom::find(places, settings);
    let MasterFrom::File(file) = &from else { return Ok((from.read()?, None)) };
    if settings.key_file.is_some() || file.exists() {
        return Ok((from.read()?, None));
    }
    if runtime::begun(&settings.data) || runtime::ring_file(&settings.data).exists() {
        // Where a service is given credentials, its key may have been one of them.
        return Err(match std::env::var_os(CREDENTIALS) {
            Some(_) => MasterError::CredentialLost(settings.data.clone(), file.clone()),
            None => MasterError::KeyLost(settings.data.clone(), file.clone()),
        });
    }
    match (settings.mode, &settings.source) {
        (Mode::Solo, Source::Embedded) => Ok((Master::Key(create_file(file)?), Some(file.clone()))),
        (Mode::Solo, Source::Postgres(_)) => {
            Err(MasterError::KeyNeeded("a store on PostgreSQL (`store.url`)"))
        }
        (Mode::Team, _) => Err(MasterError::KeyNeeded("mode `team`")),
    }
}

/// The ring that the master opens. A new installation gets one with a root of its own, so that the master can be replaced
/// later; what was made before there were rings has the master as its root.
pub(crate) async fn key_ring(
    places: &Places,
    settings: &Settings,
    master: Master,
) -> Result<KeyRing, MasterError> {
    let kept = match runtime::kept_ring(&settings.data, &settings.source).await? {
        KeptRing::Ring(kept) => kept,
        KeptRing::New => {
            let ring = master.make_ring()?;
            // A database is given its ring by the start that takes it.
            if let (Source::Embedded, Some(kept)) = (&settings.source, ring.kept()) {
                runtime::ring_file(&settings.data).put(&kept)?;
            }
            return Ok(ring);
        }
        KeptRing::Older => {
            return match master {
                Master::Key(key) => Ok(KeyRing::new(key)),
                Master::Passphrase(_) => Err(MasterError::NoRing),
            };
        }
    };
    let opened = master.open(&kept);
    if let (Err(RingError::OtherMaster { .. }), MasterFrom::File(present)) =
        (&opened, MasterFrom::find(places, settings))
    {
        // A rotation was interrupted after the ring was sealed under the new key and before that was in its place.
        let waiting = runtime::next_file(&present);
        if waiting.exists()
            && let Ok(ring) = Master::Key(read_file(&waiting)?).open(&kept)
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
