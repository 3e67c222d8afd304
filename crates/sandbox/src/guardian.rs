//! Keeps covers in force while a command runs: secrets that appear later are hidden, and what the host replaces is
//! covered again.
//!
//! A mount over a file goes when a program of the host replaces or removes the file, and a file that appears after the
//! launch has none. Flow: [`Guardian`] (watches before the tree is looked through) -> [`Guardian::over`] (what the plan
//! covers) -> [`Guardian::keep`] (a process of its own) -> [`Kept::begin`] (before the command starts) -> [`Kept::end`]
//! (findings).
//!
//! On an event that concerns a cover everyone inside is stopped first; then it is looked, covered, and they go on
//! ([`keep`]). Between the event and the stop are some hundred microseconds: what was read in them was read; a process
//! that still has such a file open for reading is ended.
//!
//! Invariants: nothing of the host is changed but stubs; what cannot be covered ends the sandbox. An agent's own file
//! of a hidden name is hidden from it as well: it becomes empty and cannot be written any more. Absent: the private
//! layer of an overlay, where an agent's own files are its own.

mod cover;
mod keep;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::begun::{Coming, Filled};
use crate::ending::{Fate, Finding};
use crate::launch::{LONGEST, Tree as Processes, comes};
use crate::plan::{Access, Mount, Plan, Source, is_below};
use crate::profile::Hidden;
use crate::sys::process::{Side, fork, leave};
use crate::worktree::Stubs;
use cover::How;
use tree::Tree;

/// Why covers cannot be kept, so that nothing is started.
#[derive(Debug, thiserror::Error)]
pub enum Unguarded {
    /// A directory cannot be watched.
    #[error("`{0}` cannot be watched for what replaces a hidden or protected file: {1}")]
    Watch(PathBuf, #[source] io::Error),
    /// The process that watches cannot be started.
    #[error("hidden and protected files cannot be watched: {0}; try again when fewer processes run")]
    Start(#[source] io::Error),
}

/// A cover that must stay.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    /// Inside.
    at: PathBuf,
    /// The same on the host.
    host: PathBuf,
    how: How,
    /// Whether something must be there, so that nothing can be planted.
    must: bool,
}

/// What is watched for one run, from before its tree is looked through.
#[derive(Debug)]
pub(crate) struct Guardian {
    tree: Tree,
    hidden: Hidden,
    worktree: PathBuf,
    /// Paths at which something must be.
    must: BTreeSet<PathBuf>,
    items: Vec<Item>,
    /// Whether a private layer shows what is watched.
    is_layered: bool,
    /// Where it is noted if the launcher is killed.
    note: Option<OwnedFd>,
}

impl Guardian {
    pub(crate) fn new(worktree: &Path, hidden: &Hidden) -> io::Result<Self> {
        let mut tree = Tree::new()?;
        tree.root(worktree)?;
        let (hidden, worktree) = (hidden.clone(), worktree.to_owned());
        Ok(Self {
            tree,
            hidden,
            worktree,
            must: BTreeSet::new(),
            items: Vec::new(),
            is_layered: false,
            note: None,
        })
    }

    /// Notes there when the sandbox is gone, if the launcher is not there to see it.
    pub(crate) fn notes(&mut self, note: OwnedFd) {
        self.note = Some(note);
    }

    /// Watches a place that is shown; what in it has a hidden name, or is the socket of a service of the host.
    pub(crate) fn hidden(&mut self, place: &Path) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        if !self.hidden.hide().is_empty() {
            self.tree.root(place)?;
            self.tree.scan(place, &self.hidden, &mut found)?;
        }
        Ok(found)
    }

    /// The files that links with hidden names lead to, in all places that were looked through: their content is what the
    /// name hides.
    pub(crate) fn linked(&mut self) -> Vec<PathBuf> {
        let mut found = self.tree.linked();
        found.sort();
        found.dedup();
        found
    }

    /// Something must be at these paths and at those above them in the worktree.
    pub(crate) fn holds(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        for path in paths {
            let between = path
                .ancestors()
                .take_while(|above| *above != self.worktree && above.starts_with(&self.worktree));
            self.must.extend(between.map(Path::to_owned));
        }
    }

    /// These are given by name, also if they are sockets.
    pub(crate) fn gives<'a>(&mut self, paths: impl Iterator<Item = &'a Path>) {
        self.tree.sockets = Some(paths.map(Path::to_owned).collect());
    }

    /// These are stubs, so nothing is in them yet.
    pub(crate) fn stubs(&mut self, mounts: &[Mount]) {
        let nothing = mounts.iter().filter(|mount| mount.source == Source::Nothing);
        self.tree.stubs = nothing.map(|mount| mount.at.clone()).collect();
    }

    /// Takes the covers of a plan, and watches where they are.
    fn over(&mut self, plan: &Plan) -> Result<(), Unguarded> {
        self.tree.stubs.clear();
        self.tree.sockets = None;
        let mounts: Vec<&Mount> = plan.own_mounts().collect();
        let is_layer = |mount: &&&Mount| {
            matches!(mount.source, Source::Layer(_)) && self.worktree.starts_with(&mount.at)
        };
        self.is_layered = mounts.iter().any(|mount| is_layer(&mount));
        self.items = mounts.iter().filter_map(|mount| item(mount, &mounts, &self.must)).collect();
        let folders: BTreeSet<PathBuf> =
            self.items.iter().filter_map(|item| item.host.parent().map(Path::to_owned)).collect();
        for folder in folders {
            let watched = self.tree.root(&folder).and_then(|()| self.tree.watch(&folder));
            match watched {
                Ok(()) => {}
                // What is not ours to read cannot be replaced by the person either.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                // In a layer a stub stands for it, which nobody else replaces.
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_layered => {}
                Err(error) => return Err(Unguarded::Watch(folder, error)),
            }
        }
        Ok(())
    }

    /// Starts the process that will watch; it waits for [`Kept::begin`].
    fn keep(self, over: &Filled, stubs: &Stubs) -> Result<Option<Kept>, Unguarded> {
        if self.tree.is_empty() {
            return Ok(None);
        }
        let worktree = self.worktree.clone();
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
        let pipes = pipe().and_then(|first| Ok((first, pipe()?)));
        let ((hears, tells), (waits, begins)) = pipes.map_err(|error| Unguarded::Start(error.into()))?;
        let launcher = rustix::process::getpid();
        match fork(0, None).map_err(Unguarded::Start)? {
            Side::Child => {
                drop((hears, begins));
                keep::keep(self, over, stubs, tells, &waits, launcher);
                leave(0)
            }
            Side::Parent(pid, pidfd) => {
                drop((tells, waits));
                let process = Processes::new(pid, pidfd).map_err(Unguarded::Start)?;
                Ok(Some(Kept { process, hears, begins: Some((begins, self.tree)), worktree }))
            }
        }
    }
}

/// The cover that a mount is, if the host could take it away.
fn item(mount: &Mount, all: &[&Mount], must: &BTreeSet<PathBuf>) -> Option<Item> {
    let above = all.iter().rev().filter(|above| is_below(&mount.at, &above.at));
    let above = above.max_by_key(|above| above.at.as_os_str().len())?;
    // On a layer, and in memory of the sandbox's own, nobody else replaces anything.
    let Source::Host(base) = &above.source else { return None };
    let host = base.join(mount.at.strip_prefix(&above.at).ok()?);
    let how = match (&mount.source, mount.access) {
        (Source::Nothing | Source::Layer(_), _) => How::Nothing,
        (Source::Host(own), Access::Read) if *own == host => How::Read,
        (Source::Host(own), Access::Write) if *own == host => How::Write,
        _ => return None,
    };
    Some(Item { at: mount.at.clone(), must: must.contains(&host), host, how })
}

/// What happened to one cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum What {
    /// A hidden name appeared.
    Appeared,
    /// What had a cover was replaced.
    Replaced,
    /// What must be there was removed.
    Removed,
    /// Not everything could be watched.
    Partly,
    /// It could not be covered.
    Failed,
    /// What it is in went elsewhere.
    Moved,
}

/// What the process that watches tells at its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Told {
    /// Bytes, because a name need not be text.
    path: Vec<u8>,
    what: What,
    times: u32,
    /// The longest time from the event to the cover, in microseconds.
    micros: u64,
    /// Processes that had it open, and were ended.
    ended: u32,
    /// Whether it has other names.
    is_linked: bool,
    /// What went wrong.
    error: Option<String>,
}

impl Told {
    fn why(&self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "shown to a tenth of a millisecond")]
        let after = format!("{:.1} ms after it was seen", self.micros as f64 / 1000.0);
        let mut why = match self.what {
            What::Appeared => format!("a hidden name that appeared during the run: hidden {after}"),
            What::Replaced => format!("replaced during the run, so its cover was lost: covered again {after}"),
            What::Removed => "removed during the run and not put back: held again by an empty directory".into(),
            What::Partly => "more directories than can be watched; the rest was looked through every second for hidden names".into(),
            What::Failed => "could not be covered, so the run was ended".into(),
            What::Moved => "a hidden name that appeared during the run, and then its directory was moved to where \
                            no run looks for hidden names; move it back"
                .into(),
        };
        if let Some(error) = &self.error {
            why.push_str(&format!(": {error}"));
        }
        if self.times > 1 {
            why.push_str(&format!("; {} times", self.times));
        }
        if self.ended > 0 {
            why.push_str(&format!("; {} inside had it open and was ended", self.ended));
        }
        if self.is_linked {
            why.push_str("; it has another name, by which it can be read");
        }
        why
    }
}

/// A process that watches; ended with the value.
#[derive(Debug)]
pub struct Kept {
    process: Processes,
    hears: OwnedFd,
    /// Until it has begun: what tells it to, and what tells whether something happened since the tree was looked through.
    begins: Option<(OwnedFd, Tree)>,
    worktree: PathBuf,
}

impl Kept {
    /// Begins, around a sandbox that stands and whose command has not started. What happened since the tree was looked
    /// through is seen to when this comes back.
    ///
    /// # Errors
    /// When the process that watches is gone; the command must not start then.
    pub fn begin(&mut self) -> Result<(), Unguarded> {
        let Some((begins, tree)) = self.begins.take() else { return Ok(()) };
        let mut waiting = [PollFd::new(&tree, PollFlags::IN)];
        let is_late = !matches!(poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0));
        let failed = |error: rustix::io::Errno| Unguarded::Start(error.into());
        rustix::io::write(&begins, if is_late { b"L" } else { b"B" }).map_err(failed)?;
        let mut ready = [0u8; 1];
        if is_late {
            if !comes(self.hears.as_fd(), LONGEST).map_err(Unguarded::Start)? {
                return Err(failed(rustix::io::Errno::TIMEDOUT));
            }
            rustix::io::read(&self.hears, &mut ready).map_err(failed)?;
            if ready != *b"!" {
                return Err(failed(rustix::io::Errno::PIPE));
            }
        }
        Ok(())
    }

    /// What tells of its end.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.process.pidfd.as_fd()
    }

    /// What happened to covers; for when the sandbox is gone.
    #[must_use]
    pub fn end(mut self) -> Vec<Finding> {
        let told = cover::read(&self.hears);
        if told.is_ok() {
            // It has told everything and only closes what it watched.
            self.process.leave();
        }
        let how = match &told {
            Ok(_) => "was ended, and the run with it",
            Err(_) => "said nothing for too long",
        };
        let told = told.unwrap_or_default();
        let lost = || Finding {
            path: PathBuf::new(),
            why: format!(
                "hidden and protected files were not watched to the end: the process that watches {how}"
            ),
            fate: Fate::Reported,
        };
        // The first byte may be the word that it has begun.
        let told = told.strip_prefix(b"!").unwrap_or(&told);
        let Ok(told) = serde_json::from_slice::<Vec<Told>>(told) else { return vec![lost()] };
        let finding = |told: Told| {
            let why = told.why();
            let path = PathBuf::from(OsString::from_vec(told.path));
            let path = path.strip_prefix(&self.worktree).map(Path::to_owned).unwrap_or(path);
            Finding { path, why, fate: Fate::Reported }
        };
        told.into_iter().map(finding).collect()
    }
}

impl crate::Prepared {
    /// Watches over the covers of a plan; before it is launched.
    ///
    /// # Errors
    /// When a directory with a cover in it cannot be watched.
    pub fn watch_over(&mut self, plan: &Plan) -> Result<(), Unguarded> {
        self.guardian.as_mut().map_or(Ok(()), |guardian| guardian.over(plan))
    }

    /// Makes what will keep the covers of a sandbox that is on its way; none if there is nothing to keep.
    ///
    /// # Errors
    /// When the process that watches cannot be started; the command must not start then.
    pub fn keep_covers(&mut self, coming: &Coming) -> Result<Option<Kept>, Unguarded> {
        match self.guardian.take() {
            Some(guardian) => guardian.keep(coming.filled(), &self.stubs),
            None => Ok(None),
        }
    }
}

/// Ends a sandbox that cannot be guarded.
fn end(over: &Filled) {
    let _ = rustix::process::pidfd_send_signal(over.tree.pidfd.as_fd(), Signal::KILL);
}
