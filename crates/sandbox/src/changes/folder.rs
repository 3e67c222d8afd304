//! The folder of one run, `<state>/runs/<run>`, and who may touch it.
//!
//! In it: `run.json`, `lock`, `worktree/{changes,work,stubs,modes}` (the layer), `applies/<n>/{journal,before,after}`.
//! Invariant: whoever writes holds the lock; the launcher holds it as long as the command runs, so a lock that is
//! free means that nobody uses the layer.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::read::{self, ReadError};
use super::record::{self, Record, State};
use super::tree::Root;
use super::upper::Upper;
use super::{Change, names::escaped};
use crate::RunId;
use crate::plan::Layer;
use crate::repo::Branch;

/// How long the apply of another run is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a run cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is none of this name.
    #[error("there is no run `{0}` that kept its changes; `palisade runs` lists those that did")]
    NotFound(String),
    /// The command still runs, or another command of ours works on it.
    #[error(
        "run `{0}` is in use: its command still runs, or another `palisade` works on it; wait, or end it"
    )]
    Busy(String),
    /// The state is inside the worktree.
    #[error("the state directory `{}` is inside the worktree; set XDG_STATE_HOME to a place outside", escaped(.0))]
    Inside(PathBuf),
    /// A file of the folder cannot be used.
    #[error("`{name}`: {1}", name = escaped(.0))]
    File(PathBuf, #[source] io::Error),
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> RunError {
    let path = path.to_owned();
    move |error| RunError::File(path, error)
}

/// Where a run keeps what it keeps.
#[must_use]
pub fn folder(state: &Path, run: &RunId) -> PathBuf {
    state.join("runs").join(run.as_str())
}

/// What goes when the layer goes.
pub(crate) fn room(run_folder: &Path) -> PathBuf {
    run_folder.join("worktree")
}

/// The places of a run's layer over its worktree.
pub(crate) fn layer_of(run_folder: &Path) -> Layer {
    let layer = room(run_folder);
    Layer { stubs: Some(layer.join("stubs")), changes: layer.join("changes"), work: layer.join("work") }
}

/// A run in a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// What is known of it.
    pub record: Record,
    /// Whether somebody uses it at this moment.
    pub in_use: bool,
    /// Whether an apply was cut off and waits to be rolled back.
    pub is_torn: bool,
}

/// Every run that keeps its changes, the newest first.
///
/// # Errors
/// When the folder of runs cannot be read.
pub fn runs(state: &Path) -> Result<Vec<Listed>, RunError> {
    let all = state.join("runs");
    let entries = match std::fs::read_dir(&all) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(&all)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed(&all))?.path();
        // What is not a run, or kept no changes, is not ours to list.
        let Ok(record) = Record::load(&path) else { continue };
        let in_use = lock(&path).is_ok_and(|lock| lock.is_none());
        found.push(Listed { record, in_use, is_torn: super::journal::is_torn(&path) });
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.record.started));
    Ok(found)
}

/// The lock of a run; none if somebody has it.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(folder.join("lock"))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The folder of one run, for as long as this value lives.
#[derive(Debug)]
pub struct Kept {
    pub(super) folder: PathBuf,
    pub(super) record: Record,
    lock: Option<File>,
    /// In tests: how many moments an apply lives.
    #[cfg(test)]
    pub(super) lives: Option<u32>,
}

impl Kept {
    /// Makes the folder of a run that is about to begin, with an empty layer.
    ///
    /// # Errors
    /// When it cannot be made, or lies inside the worktree.
    pub fn create(run_folder: &Path, record: Record) -> Result<Self, RunError> {
        if run_folder.starts_with(&record.worktree) {
            return Err(RunError::Inside(run_folder.to_owned()));
        }
        let make = |path: &Path, mode: u32| {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)))
                .map_err(failed(path))
        };
        make(run_folder, 0o700)?;
        let lock = lock(run_folder).map_err(failed(run_folder))?;
        let lock = lock.ok_or_else(|| RunError::Busy(record.run.clone()))?;
        let layer = layer_of(run_folder);
        // The root of the layer is shown as the root of the worktree.
        let root = std::fs::symlink_metadata(&record.worktree).map_err(failed(&record.worktree))?;
        make(&layer.changes, root.mode() & 0o777 | 0o700)?;
        make(&layer.work, 0o700)?;
        layer.stubs.iter().try_for_each(|stubs| make(stubs, 0o755))?;
        record.save(run_folder).map_err(failed(run_folder))?;
        Ok(Self {
            folder: run_folder.to_owned(),
            record,
            lock: Some(lock),
            #[cfg(test)]
            lives: None,
        })
    }

    /// Takes a run, alone.
    ///
    /// # Errors
    /// When there is none, or somebody else uses it.
    pub fn take(state: &Path, run: &RunId) -> Result<Self, RunError> {
        let mut kept = Self::look(state, run)?;
        let lock = lock(&kept.folder).map_err(failed(&kept.folder))?;
        kept.lock = Some(lock.ok_or_else(|| RunError::Busy(run.as_str().to_owned()))?);
        // Once more, now that nobody else writes.
        kept.record = Record::load(&kept.folder).map_err(failed(&kept.folder))?;
        if kept.record.state == State::Running {
            kept.set(State::Ended)?;
        }
        Ok(kept)
    }

    /// Looks at a run that others may use.
    ///
    /// # Errors
    /// When there is none.
    pub fn look(state: &Path, run: &RunId) -> Result<Self, RunError> {
        let folder = folder(state, run);
        match Record::load(&folder) {
            Ok(record) => Ok(Self {
                folder,
                record,
                lock: None,
                #[cfg(test)]
                lives: None,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(RunError::NotFound(run.as_str().to_owned()))
            }
            Err(error) => Err(failed(&folder)(error)),
        }
    }

    /// What is known of it.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// It committed to the branch that was checked out, which moves when its changes are applied.
    pub fn committed(&mut self, branch: Branch) {
        self.record.branch = Some(branch);
    }

    /// The command has ended.
    ///
    /// # Errors
    /// When that cannot be written down.
    pub fn ended(&mut self) -> Result<(), RunError> {
        self.record.ended = Some(record::now());
        self.set(State::Ended)
    }

    pub(super) fn set(&mut self, state: State) -> Result<(), RunError> {
        self.record.state = state;
        self.record.save(&self.folder).map_err(failed(&self.folder))
    }

    /// What the layer changes, as the worktree is now.
    ///
    /// # Errors
    /// When the layer or the worktree cannot be read.
    pub fn changes(&self) -> Result<Vec<Change>, ReadError> {
        read::read(&mut self.upper()?, &self.worktree()?)
    }

    /// A file of the layer, for showing it.
    ///
    /// # Errors
    /// When it is not a file with content.
    pub fn new_content(&self, path: &Path) -> io::Result<File> {
        self.upper().map_err(io::Error::other)?.file(path)
    }

    /// A file of the worktree, for showing it.
    ///
    /// # Errors
    /// When it is not a file with content.
    pub fn old_content(&self, path: &Path) -> io::Result<File> {
        self.worktree().map_err(io::Error::other)?.file(path)
    }

    /// Where a link of the layer points.
    ///
    /// # Errors
    /// When it is not a link.
    pub fn new_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.upper().map_err(io::Error::other)?.link(path)
    }

    /// Where a link of the worktree points.
    ///
    /// # Errors
    /// When it is not a link.
    pub fn old_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.worktree().map_err(io::Error::other)?.link(path)
    }

    pub(super) fn upper(&self) -> Result<Upper, ReadError> {
        let layer = self.folder.join("worktree");
        match Upper::open(&layer, self.lock.is_some()) {
            Ok(upper) => Ok(upper),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ReadError::NoLayer),
            Err(error) => Err(ReadError::File(layer, error)),
        }
    }

    /// The worktree, if it still is the directory that the run worked in.
    pub(super) fn worktree(&self) -> Result<Root, ReadError> {
        let gone = || ReadError::NoWorktree(self.record.worktree.clone());
        let root = Root::open(&self.record.worktree).map_err(|_| gone())?;
        let found = root.itself().map_err(|_| gone())?;
        let is_it = (found.st_dev, found.st_ino) == (self.record.device, self.record.inode);
        if is_it { Ok(root) } else { Err(gone()) }
    }

    /// Nobody else changes this worktree by a run's layer while the value lives; false if somebody does so for long.
    pub(super) fn alone(root: &Root) -> io::Result<bool> {
        locked(root.fd(), FlockOperation::NonBlockingLockExclusive)
    }
}

/// Nobody changes this worktree by a run's layer while the value lives.
pub(crate) fn quiet(worktree: &Path) -> io::Result<OwnedFd> {
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let root = rustix::fs::open(worktree, flags, rustix::fs::Mode::empty())?;
    if !locked(root.as_fd(), FlockOperation::NonBlockingLockShared)? {
        let why = "an apply is at work in it, and takes long; wait for it";
        return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
    }
    Ok(root)
}

/// Whether the lock was had in time.
fn locked(root: BorrowedFd<'_>, lock: FlockOperation) -> io::Result<bool> {
    let until = Instant::now() + PATIENCE;
    loop {
        match rustix::fs::flock(root, lock) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}
