//! Carries the changes of a layer into the worktree: everything that was asked for, or nothing.
//!
//! Flow: what was cut off is rolled back -> changes -> steps, conflicts, what is left out, what the branch does -> journal -> steps
//! -> the branch -> done.
//! Invariants: with a conflict nothing is done, unless forced; a step that fails rolls everything back; what was in
//! the worktree is kept for [`Kept::undo`].

use std::io;
use std::path::{Path, PathBuf};

use super::branch::{Followed, Following};
use super::carry::{Carrier, Owner};
use super::folder::{Kept, RunError};
use super::journal::{Act, Journal, Progress};
use super::names::escaped;
use super::read::{self, ReadError};
use super::record::{self, State};
use super::steps::{Known, Question};
use super::tree::Root;
use super::undo::{self, UndoError};
use super::{Kind, What};
use crate::profile::Control;
use crate::repo::FollowError;

/// So many files wait for the disk one by one; more wait once, for all that the disk has to do.
const FEW: usize = 64;

/// What a person asked for.
pub struct Apply<'a> {
    /// Only these, and what is below them, relative to the worktree; none: everything.
    pub paths: Vec<PathBuf>,
    /// Also what the host changed since the run began.
    pub force: bool,
    /// Also control files.
    pub with_control: bool,
    /// The control file that a path is, or lies in.
    pub control: &'a dyn Fn(&Path) -> Option<&'static Control>,
}

/// A path that both the run and the host changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Relative to the worktree.
    pub path: PathBuf,
}

/// A change that was not carried over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Relative to the worktree.
    pub path: PathBuf,
    /// Why.
    pub why: Why,
}

/// Why a change is not carried over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// A program on the host acts on it.
    Control(&'static Control),
    /// It is no file, directory or link.
    NotPlain(What),
    /// A part of it was not asked for.
    NotChosen,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Paths that are now as in the layer, with the word for how.
    pub carried: Vec<(PathBuf, &'static str)>,
    /// What was left out.
    pub left: Vec<Left>,
    /// What became of the branch that the run committed to.
    pub branch: Option<Followed>,
    /// Whether a former apply was cut off and had to be rolled back first.
    pub rolled_back: bool,
}

/// Why nothing was carried over.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The run cannot be used.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Its changes cannot be told.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A path has no change.
    #[error("nothing changed at `{}`; `palisade diff --stat` lists what did", escaped(.0))]
    NoChange(PathBuf),
    /// The host changed the same files.
    #[error("{}", conflicting(.0))]
    Conflicts(Vec<Conflict>),
    /// What is staged keeps the branch from moving.
    #[error(
        "what is staged is in the way of the commits ({0}); nothing was applied. Commit it or take it back, or use `--force`: then the branch stays"
    )]
    Staged(String),
    /// The branch cannot be looked after.
    #[error("{0}; nothing was applied. With `--force` the branch stays where it is")]
    Branch(#[from] FollowError),
    /// Another apply is at work.
    #[error("another apply is at work in `{}`; wait for it", escaped(.0))]
    Busy(PathBuf),
    /// A step failed; everything is as before.
    #[error("`{name}`: {1}; nothing was applied", name = escaped(.0))]
    Failed(PathBuf, #[source] io::Error),
    /// A step failed, and so did taking the others back.
    #[error("`{name}`: {1}; taking back what was done failed, too ({2}); `palisade apply --undo` tries again", name = escaped(.0))]
    Stuck(PathBuf, #[source] io::Error, Box<UndoError>),
    /// A former apply was cut off and cannot be taken back.
    #[error("an apply that was cut off cannot be taken back: {0}")]
    Torn(#[source] Box<UndoError>),
    /// The journal cannot be written.
    #[error("the journal cannot be written: {0}; nothing was applied")]
    Journal(#[source] io::Error),
}

fn conflicting(conflicts: &[Conflict]) -> String {
    let names: Vec<String> =
        conflicts.iter().take(10).map(|one| format!("`{}`", escaped(&one.path))).collect();
    let more = if conflicts.len() > names.len() { " and others" } else { "" };
    format!(
        "changed on the host since the run began: {}{more}; nothing was applied. Look with `palisade diff`, name \
         other paths, or use `--force`: what is overwritten can be brought back by `palisade apply --undo`",
        names.join(", ")
    )
}

impl Kept {
    /// Carries changes into the worktree.
    ///
    /// # Errors
    /// When nothing was carried over, and why.
    pub fn apply(&mut self, asked: &Apply<'_>) -> Result<Applied, ApplyError> {
        let host = self.worktree()?;
        if !Self::alone(&host).map_err(ApplyError::Journal)? {
            return Err(ApplyError::Busy(self.record.worktree.clone()));
        }
        let rolled_back = self.mend(&host).map_err(|error| ApplyError::Torn(Box::new(error)))?;
        let mut upper = self.upper()?;
        let changes = read::read(&mut upper, &host)?;
        let is_changed = |path: &Path| changes.iter().any(|change| change.path.starts_with(path));
        if let Some(path) = asked.paths.iter().find(|path| !is_changed(path)) {
            return Err(ApplyError::NoChange(path.clone()));
        }
        let is_root = rustix::process::geteuid().is_root();
        let known = self.known();
        let question = Question {
            changes: &changes,
            asked,
            host: &host,
            started: self.record.started,
            known: &known,
            is_root,
        };
        let planned = question.plan().map_err(ApplyError::Journal)?;
        let Following { moving, followed } = self.following(asked, planned.conflicts)?;
        if planned.steps.is_empty() && moving.is_none() {
            return Ok(Applied { carried: Vec::new(), left: planned.left, branch: followed, rolled_back });
        }
        let mut journal = Journal::begin(&self.folder, planned.steps, planned.folders, moving.as_ref())
            .map_err(ApplyError::Journal)?;
        let before = Root::open(&journal.folder.join("before")).map_err(ApplyError::Journal)?;
        let owner = owner(&host, is_root).map_err(ApplyError::Journal)?;
        let waits = journal.steps.len() <= FEW;
        let mut carrier = Carrier {
            host: &host,
            upper: &mut upper,
            journal: &mut journal,
            before: &before,
            owner,
            waits,
            #[cfg(test)]
            lives: self.lives,
        };
        let done = carrier.carry().and_then(|()| {
            moving
                .map_or(Ok(()), |moving| moving.go(&mut journal))
                .map_err(|error| (".git".into(), error))?;
            // For many, one wait for the whole disk, before the journal says that all is done.
            let synced = if waits { Ok(()) } else { rustix::fs::syncfs(host.fd()).map_err(io::Error::from) };
            synced.and_then(|()| journal.reached(Progress::Done)).map_err(|error| (PathBuf::new(), error))
        });
        #[cfg(test)]
        if let (true, Err((path, error))) = (self.lives.is_some(), &done) {
            // Killed: nobody is left to roll anything back.
            return Err(ApplyError::Failed(path.clone(), io::Error::other(error.to_string())));
        }
        if let Err((path, error)) = done {
            let taken_back = self
                .branch_back(&mut journal)
                .and_then(|_| undo::roll_back(&mut journal, &host, undo::Mode::CutOff));
            return Err(match taken_back {
                Ok(_) => ApplyError::Failed(path, error),
                Err(stuck) => ApplyError::Stuck(path, error, Box::new(stuck)),
            });
        }
        self.set(State::Applied)?;
        if !asked.force {
            self.learn(&host, &journal);
        }
        let carried = carried(&journal, &changes);
        Ok(Applied { carried, left: planned.left, branch: followed, rolled_back })
    }

    /// Rolls back an apply, or goes on with an undo, that was cut off; whether there was one.
    pub(super) fn mend(&mut self, host: &Root) -> Result<bool, UndoError> {
        let all = Journal::all(&self.folder).map_err(UndoError::Journal)?;
        let mut found = false;
        // What is taken out of the worktree is dropped only if the layer still has it.
        let has_layer = self.folder.join("worktree").join("changes").exists();
        let mode = if has_layer { undo::Mode::CutOff } else { undo::Mode::Asked };
        for mut journal in all.into_iter().rev().filter(Journal::is_torn) {
            self.branch_back(&mut journal)?;
            undo::roll_back(&mut journal, host, mode)?;
            self.learn(host, &journal);
            found = true;
        }
        Ok(found)
    }

    /// Files of the worktree that are newer than the run because of ourselves.
    pub(super) fn known(&self) -> Known {
        let bytes = std::fs::read(self.folder.join("known")).unwrap_or_default();
        let listed: Vec<(String, u64, i64)> = serde_json::from_slice(&bytes).unwrap_or_default();
        let path = |(path, ino, ctime): (String, u64, i64)| Some((super::unescaped(&path)?, (ino, ctime)));
        listed.into_iter().filter_map(path).collect()
    }

    /// Remembers what is newer than the run because of a journal's steps, so that it is no conflict later. Without
    /// it, there are conflicts that are none; so a failure is not worth an error.
    pub(super) fn learn(&self, host: &Root, journal: &Journal) {
        let Ok(mut upper) = self.upper() else { return };
        let Ok(changes) = read::read(&mut upper, host) else { return };
        let mut known = self.known();
        let steps: std::collections::HashSet<&Path> =
            journal.steps.iter().map(|step| step.path.as_path()).collect();
        let parents: std::collections::HashSet<&Path> =
            steps.iter().filter_map(|path| path.parent()).collect();
        for change in &changes {
            let is_ours = parents.contains(change.path.as_path())
                || change.path.ancestors().any(|above| steps.contains(above));
            if let Some(before) =
                change.before.filter(|before| is_ours && before.seen.ctime > self.record.started)
            {
                known.insert(change.path.clone(), (before.seen.ino, before.seen.ctime));
            }
        }
        let listed: Vec<_> = known.iter().map(|(path, (ino, ctime))| (escaped(path), ino, ctime)).collect();
        if let Ok(bytes) = serde_json::to_vec(&listed) {
            let _ = record::replace(&self.folder.join("known"), &bytes);
        }
    }
}

/// As root, files get the owner of the worktree.
fn owner(host: &Root, is_root: bool) -> io::Result<Option<Owner>> {
    let found = host.itself()?;
    Ok(is_root.then_some(Owner { user: found.st_uid, group: found.st_gid }))
}

/// What the steps did, in the words of the changes.
fn carried(journal: &Journal, changes: &[super::Change]) -> Vec<(PathBuf, &'static str)> {
    let words: std::collections::HashMap<&Path, &Kind> =
        changes.iter().map(|change| (change.path.as_path(), &change.kind)).collect();
    let mut carried = Vec::new();
    for step in &journal.steps {
        match (words.get(step.path.as_path()), &step.act) {
            (Some(kind), Act::Put { .. } | Act::Remove { .. }) => {
                carried.push((step.path.clone(), kind.word()))
            }
            (Some(Kind::ModeChanged), Act::Mode { .. }) => carried.push((step.path.clone(), "mode_changed")),
            // Permissions around other steps.
            (_, Act::Mode { .. }) | (None, _) => {}
        }
    }
    carried
}
