//! Takes back what an apply did, whole or half done: from the last step to the first.
//!
//! Flow: a journal -> for each step, where is what was there before? -> back in its place -> times of directories.
//! Invariant: every step looks at the files before it acts, so an undo that was cut off is simply done once more.
//! What an undo takes out of the worktree is kept in the journal's `after`; after a cut it is dropped, because the
//! layer still has it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;

use super::What;
use super::branch::Followed;
use super::carry::{shift, stash};
use super::copy;
use super::folder::{Kept, RunError};
use super::journal::{Act, Journal, Progress, Step};
use super::names::escaped;
use super::read::ReadError;
use super::record::State;
use super::tree::{self, Root, Seen};
use crate::repo::FollowError;

/// What a person asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Undo {
    /// Also where the worktree was changed since the apply.
    pub force: bool,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Paths that are as they were.
    pub restored: Vec<PathBuf>,
    /// Directories that stayed, because something else is in them now.
    pub kept: Vec<PathBuf>,
    /// What became of the branch that had moved.
    pub branch: Option<Followed>,
}

/// Why nothing, or not everything, was taken back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The run cannot be used.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The worktree is not there.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There is nothing to take back.
    #[error("nothing of run `{0}` is applied; `palisade runs` shows what is")]
    NotApplied(String),
    /// Files were changed since.
    #[error("changed since the apply: {}; nothing was taken back. Keep a copy, then use `--force`", listed(.0))]
    Changed(Vec<PathBuf>),
    /// The branch, or the index, went on since.
    #[error(
        "`{0}` cannot go back: {1}; nothing was taken back. With `--force` files go back and the branch stays"
    )]
    Branch(String, String),
    /// The branch cannot be looked after.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// Another apply is at work.
    #[error("another apply is at work in `{}`; wait for it", escaped(.0))]
    Busy(PathBuf),
    /// The journal cannot be used.
    #[error("the journal cannot be used: {0}")]
    Journal(#[source] io::Error),
    /// A step failed; the others can be tried again.
    #[error("`{name}`: {1}; what is left can be taken back by the same command once this is mended", name = escaped(.0))]
    Failed(PathBuf, #[source] io::Error),
}

fn listed(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().take(10).map(|path| format!("`{}`", escaped(path))).collect();
    format!("{}{}", names.join(", "), if paths.len() > names.len() { " and others" } else { "" })
}

/// Why things are taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// An apply did not come to its end.
    CutOff,
    /// A person wants it.
    Asked,
}

impl Kept {
    /// Makes the worktree as it was before anything of this run was applied.
    ///
    /// # Errors
    /// When files were changed since, or cannot be restored.
    pub fn undo(&mut self, asked: Undo) -> Result<Undone, UndoError> {
        let host = self.worktree()?;
        if !Self::alone(&host).map_err(UndoError::Journal)? {
            return Err(UndoError::Busy(self.record.worktree.clone()));
        }
        let was_torn = self.mend(&host)?;
        let all = Journal::all(&self.folder).map_err(UndoError::Journal)?;
        let done: Vec<Journal> = all.into_iter().filter(|one| one.progress == Progress::Done).collect();
        if done.is_empty() && !was_torn {
            return Err(UndoError::NotApplied(self.record.run.clone()));
        }
        let changed: Vec<PathBuf> = done.iter().flat_map(|journal| changed_since(journal, &host)).collect();
        if !changed.is_empty() && !asked.force {
            return Err(UndoError::Changed(changed));
        }
        if !asked.force {
            self.branch_can_go_back(&done)?;
        }
        let mut undone = Undone::default();
        for mut journal in done.into_iter().rev() {
            undone.branch = self.branch_back(&mut journal)?.or(undone.branch);
            undone.kept.extend(roll_back(&mut journal, &host, Mode::Asked)?);
            if !asked.force {
                self.learn(&host, &journal);
            }
            undone.restored.extend(journal.steps.into_iter().map(|step| step.path));
        }
        undone.restored.sort();
        undone.restored.dedup();
        let state = if self.folder.join("worktree").exists() { State::Ended } else { State::Discarded };
        self.set(state)?;
        Ok(undone)
    }
}

/// Paths that are no longer as the apply left them.
fn changed_since(journal: &Journal, host: &Root) -> Vec<PathBuf> {
    let is_changed = |(number, step): &(usize, &Step)| {
        let now = host.seen(&step.path).ok().flatten();
        match &step.act {
            Act::Put { .. } => match (journal.made.get(number), now) {
                (Some(made), Some(now)) => !made.is_untouched(&now),
                (Some(_) | None, None) | (None, Some(_)) => false,
            },
            Act::Remove { .. } => now.is_some(),
            Act::Mode { .. } => false,
        }
    };
    journal.steps.iter().enumerate().filter(is_changed).map(|(_, step)| step.path.clone()).collect()
}

/// Takes every step of a journal back; gives the directories that had to stay.
pub(super) fn roll_back(journal: &mut Journal, host: &Root, mode: Mode) -> Result<Vec<PathBuf>, UndoError> {
    journal.reached(Progress::Undoing).map_err(UndoError::Journal)?;
    let open = |name: &str| Root::open(&journal.folder.join(name)).map_err(UndoError::Journal);
    let (before, after) = (open("before")?, open("after")?);
    let mut kept = Vec::new();
    for (number, step) in journal.steps.iter().enumerate().rev() {
        let back = Back { journal, host, before: &before, after: &after, mode, number };
        match back.step(step) {
            Ok(true) => {}
            Ok(false) => kept.push(step.path.clone()),
            Err(error) => return Err(UndoError::Failed(step.path.clone(), error)),
        }
    }
    // Inner directories first: setting their times does not touch those above.
    for (path, seen) in journal.folders.iter().rev() {
        let _ = restore_times(host, path, seen);
    }
    journal.reached(Progress::Undone).map_err(UndoError::Journal)?;
    Ok(kept)
}

fn restore_times(host: &Root, path: &Path, seen: &Seen) -> io::Result<()> {
    let directory = host.place(path)?;
    if !Seen::of(&rustix::fs::fstat(&directory)?).is(seen) {
        return Ok(());
    }
    copy::set_modified(directory.as_fd(), OsStr::new("."), seen.mtime)
}

/// One step on its way back.
struct Back<'a> {
    journal: &'a Journal,
    host: &'a Root,
    before: &'a Root,
    after: &'a Root,
    mode: Mode,
    number: usize,
}

impl Back<'_> {
    /// Whether nothing of the step is left.
    fn step(&self, step: &Step) -> io::Result<bool> {
        let (parent, name) = match self.host.parent(&step.path) {
            Ok(found) => found,
            // The root itself has only permissions.
            Err(_) if step.path.as_os_str().is_empty() => {
                if let Act::Mode { from, to } = step.act {
                    self.permissions(self.host.itself()?.st_mode, from, to, |mode| {
                        Ok(rustix::fs::fchmod(self.host.fd(), rustix::fs::Mode::from_raw_mode(mode))?)
                    })?;
                }
                return Ok(true);
            }
            // A directory of this journal that was not made yet, or is gone again.
            Err(error) if tree::is_nothing(&error) => return Ok(true),
            Err(error) => return Err(error),
        };
        let parent = parent.as_fd();
        match &step.act {
            Act::Mode { from, to } => {
                if let Some(seen) = tree::seen_in(parent, name)?.filter(|seen| seen.what() != What::Link) {
                    self.permissions(seen.mode, *from, *to, |mode| self.host.set_mode(&step.path, mode))?;
                }
                Ok(true)
            }
            Act::Remove { old } => self.restore(parent, name, None, old).map(|()| true),
            Act::Put { old: Some(old), .. } => {
                self.restore(parent, name, Some(self.journal.made.get(&self.number)), old).map(|()| true)
            }
            Act::Put { old: None, .. } => self.take_away(parent, name),
        }
    }

    fn permissions(
        &self,
        now: u32,
        from: u32,
        to: u32,
        set: impl Fn(u32) -> io::Result<()>,
    ) -> io::Result<()> {
        // Somebody else's permissions stay.
        if now & 0o7777 == to { set(from) } else { Ok(()) }
    }

    /// Takes what the step added out of the worktree; false if it must stay.
    fn take_away(&self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<bool> {
        let temporary = self.journal.temporary(self.number);
        let now = tree::seen_in(parent, name)?;
        let made = self.journal.made.get(&self.number);
        let stays = match (made, now) {
            (Some(made), Some(now)) if made.is(&now) || self.mode == Mode::Asked => {
                !self.drop(parent, name, &now)?
            }
            _ => false,
        };
        copy::remove(parent, &temporary)?;
        Ok(!stays)
    }

    /// Removes a directory that is empty, or anything else; false if there is something in it.
    fn drop(&self, parent: BorrowedFd<'_>, name: &OsStr, now: &Seen) -> io::Result<bool> {
        if now.what() == What::Directory {
            return match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
                Ok(()) => Ok(true),
                Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST) => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
        self.set_aside(parent, name)?;
        Ok(true)
    }

    /// What leaves the worktree: kept if a person asked, dropped if the layer has it anyway.
    fn set_aside(&self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        match self.mode {
            Mode::CutOff => copy::remove(parent, name),
            Mode::Asked => {
                copy::remove(self.after.fd(), OsStr::new(&self.number.to_string()))?;
                stash(parent, name, self.after.fd(), self.number, &mut || Ok(()))
            }
        }
    }

    /// Brings back what was there.
    /// `puts`: whether the step puts something in its place, and what, once it was made.
    fn restore(
        &self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        puts: Option<Option<&Seen>>,
        old: &Seen,
    ) -> io::Result<()> {
        let (temporary, kept) = (self.journal.temporary(self.number), self.number.to_string());
        let kept = OsStr::new(&kept);
        let in_before = tree::seen_in(self.before.fd(), kept)?;
        if let Some(found) = in_before {
            // Whatever has the temporary name is what is left of something that was copied, or is new.
            copy::remove(parent, &temporary)?;
            match shift(self.before.fd(), kept, parent, &temporary) {
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                    copy::copy(self.before.fd(), kept, parent, &temporary)?;
                }
                other => other?,
            }
            if found.what() == What::Directory {
                tree::set_mode_in(parent, &temporary, old.mode & 0o7777)?;
            }
        } else {
            let made = puts.map(|made| made.map(|made| (made.dev, made.ino)));
            match tree::seen_in(parent, &temporary)? {
                // Not begun, or back already.
                None => return Ok(()),
                // What is new, and has not taken its place.
                Some(found)
                    if made.is_some_and(|made| made.is_none_or(|made| made == (found.dev, found.ino))) =>
                {
                    return copy::remove(parent, &temporary);
                }
                // What was there when the step was done, `old` or whatever had replaced it by then.
                Some(_) => {}
            }
        }
        match tree::seen_in(parent, name)? {
            None => tree::rename(parent, &temporary, parent, name)?,
            Some(now) => {
                tree::exchange(parent, &temporary, name)?;
                if self.mode == Mode::CutOff && !puts.flatten().is_some_and(|made| made.is(&now)) {
                    // Not ours: somebody put it there since. It is not lost.
                    copy::remove(self.after.fd(), kept)?;
                    stash(parent, &temporary, self.after.fd(), self.number, &mut || Ok(()))?;
                } else {
                    self.set_aside(parent, &temporary)?;
                }
            }
        }
        // Only a copy is still here.
        copy::remove(self.before.fd(), kept)
    }
}
