//! The user's own record: the ledger of runs that no daemon knows of, and the receipts it names.
//!
//! On disk, below the state directory: `ledger.key` (the one secret, 0600, made at the first run), `ledger/`,
//! `receipts/RUN.json`, `rules/HASH.json` (what networks were to reach). Invariant: a command starts only after the entry that names its receipt is durable.

use std::cell::Cell;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ledger::{Draft, Once, Resting, Seed};
use sandbox::receipt::{RunId, Sealed, signing_key};

use crate::failure::Failure;
use crate::output;

/// The user's own record.
pub(crate) struct OwnRecord {
    state: PathBuf,
    seed: Seed,
    /// The ledger, as this process left it.
    resting: Cell<Option<Resting>>,
}

/// That the state is the caller's own, before anything is put there: `sudo` can leave the home of whoever called, and files of
/// root there would lock that person out.
pub(crate) fn is_own(state: &Path) -> Result<(), Failure> {
    let there = || state.ancestors().find_map(|path| std::fs::metadata(path).ok());
    if !rustix::process::geteuid().is_root() || there().is_none_or(|found| found.uid() == 0) {
        return Ok(());
    }
    let state = state.display();
    Err(Failure::Program(format!("the state directory `{state}` is not root's; try again with `sudo -H`")))
}

impl OwnRecord {
    /// Takes it, or makes it at the first run.
    pub(crate) fn open(state: &Path) -> Result<Self, Failure> {
        is_own(state)?;
        Self::opened(state)
    }

    fn opened(state: &Path) -> Result<Self, Failure> {
        directory(state)?;
        let path = state.join("ledger.key");
        let secret = match read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => made(&path),
            other => other,
        };
        let secret = secret.map_err(Failure::file(&path))?;
        let seed = Seed::new(secret.into()).map_err(|error| Failure::Sandbox(error.to_string(), 125))?;
        Ok(Self { state: state.to_owned(), seed, resting: Cell::new(None) })
    }

    /// The record as it is; none if nothing was ever run.
    pub(crate) fn existing(state: &Path) -> Result<Option<Self>, Failure> {
        if state.join("ledger.key").exists() { Self::opened(state).map(Some) } else { Ok(None) }
    }

    /// The key of receipts.
    pub(crate) fn receipt_key(&self) -> ed25519_dalek::SigningKey {
        signing_key(&self.seed)
    }

    /// The secret that its keys come from.
    pub(crate) fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Where the ledger is.
    pub(crate) fn ledger(&self) -> PathBuf {
        self.state.join("ledger")
    }

    /// Where the receipt of a run is.
    pub(crate) fn receipt(&self, run: &RunId) -> PathBuf {
        self.state.join("receipts").join(format!("{run}.json"))
    }

    /// Makes an entry durable, or says why it is not.
    pub(crate) fn append(&self, draft: &Draft) -> Result<u64, Failure> {
        let mut once = self.once()?;
        let numbers = once.append(std::slice::from_ref(draft)).map_err(|error| refused(&error))?;
        self.resting.set(Some(once.rest()));
        Ok(numbers.first().copied().unwrap_or_default())
    }

    /// Makes several entries durable at once.
    pub(crate) fn append_all(&self, drafts: &[Draft]) -> Result<(), Failure> {
        let mut once = self.once()?;
        once.append(drafts).map_err(|error| refused(&error))?;
        self.resting.set(Some(once.rest()));
        Ok(())
    }

    /// Records what has happened anyway; a full disk is no reason to hide it.
    pub(crate) fn append_narrowing(&self, draft: &Draft) -> Result<(), Failure> {
        let mut once = self.once()?;
        once.append_narrowing(draft).map_err(|error| refused(&error))?;
        self.resting.set(Some(once.rest()));
        Ok(())
    }

    /// Reads what the next entry needs, while something else is waited for.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        self.resting.set(Some(self.once()?.rest()));
        directory(&self.state.join("receipts"))
    }

    fn once(&self) -> Result<Once, Failure> {
        let scrub = Box::new(output::kept);
        let opened = match self.resting.take() {
            Some(resting) => resting.again(),
            None => Once::open(&self.ledger(), &Arc::new(self.seed.keys()), scrub),
        };
        opened.map(|(once, _)| once).map_err(|error| refused(&error))
    }

    /// Keeps a receipt beside the ledger.
    pub(crate) fn keep(&self, run: &RunId, sealed: &Sealed) -> Result<(), Failure> {
        let path = self.receipt(run);
        let mut new = OpenOptions::new();
        new.write(true).create_new(true).mode(0o600);
        let mut file = new.open(&path).map_err(Failure::file(&path))?;
        file.write_all(sealed.to_text().as_bytes()).map_err(Failure::file(&path))
    }
}

impl OwnRecord {
    /// Where the rules of a network are, by their hash.
    pub(crate) fn rules(&self, hash: &str) -> PathBuf {
        self.state.join("rules").join(format!("{hash}.json"))
    }

    /// Keeps the rules of a network beside the ledger; the same ones once.
    pub(crate) fn keep_rules(&self, hash: &str, text: &[u8]) -> Result<(), Failure> {
        let path = self.rules(hash);
        if path.exists() {
            return Ok(());
        }
        directory(&self.state.join("rules"))?;
        let whole = path.with_extension(std::process::id().to_string());
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&whole);
        let written = file.and_then(|mut file| file.write_all(text));
        written.and_then(|()| std::fs::rename(&whole, &path)).map_err(Failure::file(&path))
    }
}

fn refused(error: &dyn std::error::Error) -> Failure {
    let mut text = format!("the run could not be recorded: {error}");
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    Failure::Sandbox(text, 125)
}

fn directory(path: &Path) -> Result<(), Failure> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(Failure::file(path))
}

fn read(path: &Path) -> std::io::Result<[u8; 32]> {
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut text = String::new();
    file.take(128).read_to_string(&mut text)?;
    let mut secret = [0u8; 32];
    hex::decode_to_slice(text.trim_end(), &mut secret).map_err(|_| std::io::Error::other("is not a key"))?;
    Ok(secret)
}

/// A new secret; when another run was quicker, that one's.
fn made(path: &Path) -> std::io::Result<[u8; 32]> {
    let mut secret = [0u8; 32];
    getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
    let whole = path.with_extension(format!("key.{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&whole)?;
    file.write_all(format!("{}\n", hex::encode(secret)).as_bytes())?;
    file.sync_all()?;
    // A link is there whole or not at all, and never takes the place of another.
    let linked = std::fs::hard_link(&whole, path);
    std::fs::remove_file(&whole)?;
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => read(path),
    }
}
