//! What is written down about a run that keeps its changes: `run.json` in the run's folder, 0600.
//!
//! Invariant: it is replaced whole, never half written. A run whose file says `running` while nobody holds its lock
//! was cut off; it counts as ended.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::names::text;
use crate::repo::Branch;

/// The largest file that can be one of ours.
const MOST_BYTES: u64 = 1 << 20;

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The command runs, or the launcher was killed.
    Running,
    /// The command has ended; the layer waits for a person.
    Ended,
    /// Changes were carried into the worktree.
    Applied,
    /// The layer is gone.
    Discarded,
}

impl State {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Applied => "applied",
            Self::Discarded => "discarded",
        }
    }
}

/// What is known of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its name.
    pub run: String,
    /// Where it worked, absolute.
    #[serde(with = "text")]
    pub worktree: PathBuf,
    /// Which directory that was.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// When it began, in nanoseconds since 1970, by the clock that files are stamped with.
    pub started: i64,
    /// When it ended.
    pub ended: Option<i64>,
    /// The command, without secrets.
    pub command: Vec<String>,
    /// The name of its profile.
    pub profile: String,
    /// Control files that its profile gives up, as the profile writes them.
    pub unprotect: Vec<String>,
    /// What it made of the branch that was checked out, if it committed to it.
    #[serde(default)]
    pub branch: Option<Branch>,
    /// Where it stands.
    pub state: State,
}

impl Record {
    /// A run that begins now.
    ///
    /// # Errors
    /// When the worktree cannot be looked at.
    pub fn begin(
        run: &str,
        worktree: &Path,
        command: Vec<String>,
        profile: &str,
        unprotect: Vec<String>,
    ) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::symlink_metadata(worktree)?;
        Ok(Self {
            run: run.to_owned(),
            worktree: worktree.to_owned(),
            device: found.dev(),
            inode: found.ino(),
            started: now(),
            ended: None,
            command,
            profile: profile.to_owned(),
            unprotect,
            branch: None,
            state: State::Running,
        })
    }

    pub(super) fn load(folder: &Path) -> io::Result<Self> {
        let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
        let flags = i32::try_from(flags).unwrap_or(0);
        let file =
            std::fs::OpenOptions::new().read(true).custom_flags(flags).open(folder.join("run.json"))?;
        if !file.metadata()?.is_file() || file.metadata()?.len() > MOST_BYTES {
            return Err(io::Error::other("`run.json` is not one of ours"));
        }
        Ok(serde_json::from_reader(io::BufReader::new(file))?)
    }

    pub(super) fn save(&self, folder: &Path) -> io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        replace(&folder.join("run.json"), &bytes)
    }
}

/// Replaces a small file of our own, whole and durable.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    std::fs::rename(&new, path)
}

/// Now, by the clock that files are stamped with: what was changed before is not later than this.
pub(super) fn now() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}
