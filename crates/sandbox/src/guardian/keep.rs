//! The process that watches: an event -> everyone inside stops -> look -> cover -> they go on.
//!
//! It has no descriptor of the launcher's but those it needs, is in no session of anybody's, and ends with the sandbox. A launcher
//! that is killed takes its sandbox along; that this is over is noted then, for whoever ends the run in its place.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::cover::{How, Is, cover, identity, reads};
use super::tree::Seen;
use super::{Guardian, Told, What, end};
use crate::begun::Filled;
use crate::freeze::{Still, inhabitants};
use crate::sys;
use crate::worktree::Stubs;

/// How long the host may take to put something back where it took something away: editors and `git` do both.
const GRACE: Duration = Duration::from_millis(200);
/// How often what is not watched is looked through.
const ROUND: Duration = Duration::from_secs(1);
/// How long the kernel may take to end a sandbox whose launcher was killed.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// The most that is told.
const MOST_TOLD: usize = 1000;
/// The most stubs that are held open; those beyond are only removed more slowly.
const MOST_HELD: usize = 256;

/// Waits for the word to begin, watches until the sandbox is gone, then tells what happened.
pub(super) fn keep(
    guardian: Guardian,
    held: &Filled,
    stubs: &Stubs,
    tells: OwnedFd,
    waits: &OwnedFd,
    launcher: Pid,
) {
    let mut keeper =
        Keeper { guardian, held, stubs, known: BTreeSet::new(), told: BTreeMap::new(), pending: None };
    let mut word = [0u8; 1];
    let alone = keeper.alone(&tells, waits, launcher);
    let stubs_held = held_open(&keeper.guardian, stubs);
    let (Ok(ends), Ok(1)) = (alone, rustix::io::read(waits, &mut word)) else {
        // Nothing is told, so the launcher takes it for lost.
        return end(held);
    };
    let is_late = word == *b"L";
    let kept = keeper.watch(is_late.then_some(tells.as_fd()), &ends);
    if is_gone(ends.as_fd()) {
        return keeper.widowed();
    }
    // From here on there is nothing left to note, and no reason to outlive the launcher.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if let Err((path, error)) = kept {
        keeper.tell(&path, What::Failed, Duration::ZERO).error = Some(error.to_string());
        end(held);
    }
    let told: Vec<Told> = std::mem::take(&mut keeper.told).into_values().collect();
    let text = serde_json::to_vec(&told).unwrap_or_default();
    let mut rest = text.as_slice();
    while let Ok(written @ 1..) = rustix::io::write(&tells, rest) {
        rest = rest.get(written..).unwrap_or_default();
    }
    // Closed first: the kernel takes ten milliseconds to forget what was watched, and nobody need wait for that.
    drop(tells);
    drop(keeper.guardian);
    // Only now: until then the launcher has removed the stubs' names, and what lay behind them is given back here.
    drop(stubs_held);
}

/// Stubs and their book, held open: a file system frees what a removed directory took (and some tell the disk of each
/// block, and wait) when the last who holds it lets go, and that need not be the launcher at the end of a run.
fn held_open(guardian: &Guardian, stubs: &Stubs) -> Vec<OwnedFd> {
    let items = guardian.items.iter().filter(|item| item.must && item.how == How::Nothing);
    let open = |item: &super::Item| guardian.tree.open(&item.host, OFlags::PATH | OFlags::DIRECTORY).ok();
    items.take(MOST_HELD).filter_map(open).chain(stubs.hold_book()).collect()
}

/// Something that could not be done, and where.
type Lost = (PathBuf, io::Error);

struct Keeper<'a> {
    guardian: Guardian,
    held: &'a Filled,
    stubs: &'a Stubs,
    /// Hidden names that appeared.
    known: BTreeSet<PathBuf>,
    told: BTreeMap<(Vec<u8>, u8), Told>,
    /// When to look again for what a layer does not show yet, and the pause after that.
    pending: Option<(Instant, Duration)>,
}

impl Keeper<'_> {
    /// Leaves the launcher's company and closes what is the launcher's. What tells of the launcher's end.
    fn alone(&self, tells: &OwnedFd, waits: &OwnedFd, launcher: Pid) -> io::Result<OwnedFd> {
        let ends = rustix::process::pidfd_open(launcher, PidfdFlags::empty())?;
        // After it is held: its number cannot be another's from now on.
        if rustix::process::getppid() != Some(launcher) {
            return Err(Errno::SRCH.into());
        }
        rustix::process::setsid()?;
        let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let mut kept = self.guardian.tree.descriptors();
        kept.extend([tells.as_fd(), waits.as_fd(), self.held.tree.pidfd.as_fd(), ends.as_fd()]);
        kept.extend(self.stubs.descriptor());
        kept.extend(self.guardian.note.as_ref().map(AsFd::as_fd));
        sys::watch::keep_only(&kept, nothing.as_fd())?;
        std::mem::forget(nothing);
        Ok(ends)
    }

    /// The launcher was killed. Its sandbox goes with it, and when that is over is noted.
    fn widowed(&self) {
        end(self.held);
        let mut waiting = [PollFd::new(&self.held.tree.pidfd, PollFlags::IN)];
        let is_gone = matches!(poll(&mut waiting, Some(&PATIENCE)), Ok(1..));
        if let Some(note) = self.guardian.note.as_ref().filter(|_| is_gone) {
            crate::note::gone(note);
        }
    }

    /// Until the sandbox is gone, or the launcher.
    fn watch(&mut self, first: Option<BorrowedFd<'_>>, launcher: &OwnedFd) -> Result<(), Lost> {
        if let Some(tells) = first {
            self.see()?;
            let _ = rustix::io::write(tells, b"!");
        }
        let mut round = Instant::now() + ROUND;
        loop {
            let root = |error: io::Error| (self.guardian.worktree.clone(), error);
            let is_partial = self.guardian.tree.is_partial();
            let due =
                [is_partial.then_some(round), self.pending.map(|(at, _)| at)].into_iter().flatten().min();
            let left = due.map(|at| at.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut waiting = [
                PollFd::new(&self.guardian.tree, PollFlags::IN),
                PollFd::new(&self.held.tree.pidfd, PollFlags::IN),
                PollFd::new(launcher, PollFlags::IN),
            ];
            match poll(&mut waiting, left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(root(error.into())),
            }
            let [events, ended, widowed] = waiting.map(|one| !one.revents().is_empty());
            if ended || widowed {
                return Ok(());
            }
            if events {
                self.see()?;
            }
            if self.pending.is_some_and(|(at, _)| at <= Instant::now()) {
                self.cover(Instant::now(), BTreeSet::new())?;
            }
            if is_partial && round <= Instant::now() {
                let path = self.guardian.worktree.clone();
                self.tell(&path, What::Partly, Duration::ZERO);
                let found = self.rescan()?;
                let new: BTreeSet<PathBuf> = found.into_iter().filter(|path| !self.is_known(path)).collect();
                if !new.is_empty() {
                    self.still(Instant::now(), new, false)?;
                }
                round = Instant::now() + ROUND;
            }
        }
    }

    fn is_known(&self, path: &Path) -> bool {
        self.known.contains(path) || self.guardian.items.iter().any(|item| item.host == path)
    }

    /// Looks at what happened, and acts if it concerns a cover.
    fn see(&mut self) -> Result<(), Lost> {
        let since = Instant::now();
        let seen = self.guardian.tree.seen().map_err(|error| (self.guardian.worktree.clone(), error))?;
        let (mut concerns, mut everything, mut new) = (false, false, BTreeSet::new());
        let mut moved: Vec<PathBuf> = Vec::new();
        for seen in seen {
            match seen {
                Seen::Overflow => everything = true,
                Seen::Entry { path, is_folder, is_gone } => {
                    concerns |= self.guardian.items.iter().any(|item| item.host.starts_with(&path));
                    // A file that a hidden link leads to has a name of its own.
                    concerns |= !is_gone && self.known.contains(&path);
                    if is_gone {
                        self.known.remove(&path);
                        let below = self.known.iter().filter(|known| is_folder && known.starts_with(&path));
                        moved.extend(below.cloned());
                    }
                    let name = path.file_name().unwrap_or_default();
                    let is_hidden = self.guardian.hidden.hides(name.as_bytes());
                    let is_installed = super::tree::INSTALLED.iter().any(|own| name == *own);
                    if is_hidden && !is_gone {
                        new.extend(self.guardian.tree.leads_to(&path));
                        new.insert(path);
                    } else if is_folder
                        && !is_gone
                        && !is_installed
                        && !self.guardian.hidden.hide().is_empty()
                    {
                        let mut found = Vec::new();
                        let scanned = self.guardian.tree.scan(&path, &self.guardian.hidden, &mut found);
                        scanned.map_err(|error| (path, error))?;
                        new.extend(found);
                        new.extend(self.guardian.tree.linked());
                    }
                }
            }
        }
        for path in moved {
            let is_there = self.guardian.tree.open(&path, OFlags::PATH).is_ok();
            if !is_there && !new.iter().any(|other| other.file_name() == path.file_name()) {
                self.tell(&path, What::Moved, Duration::ZERO);
            }
        }
        if concerns || everything || !new.is_empty() { self.still(since, new, everything) } else { Ok(()) }
    }

    /// Every hidden name that is there.
    fn rescan(&mut self) -> Result<Vec<PathBuf>, Lost> {
        let mut found = Vec::new();
        if !self.guardian.hidden.hide().is_empty() {
            for root in self.guardian.tree.roots() {
                let scanned = self.guardian.tree.scan(&root, &self.guardian.hidden, &mut found);
                scanned.map_err(|error| (root, error))?;
            }
            found.extend(self.guardian.tree.linked());
        }
        Ok(found)
    }

    /// Stops everyone inside, looks, covers, and lets them go on.
    fn still(&mut self, since: Instant, mut new: BTreeSet<PathBuf>, everything: bool) -> Result<(), Lost> {
        let held = self.held;
        // Who does not stand still in time is covered from all the same.
        let (_still, _all) = Still::new(&held.groups, held.tree.pid);
        if everything {
            new.extend(self.rescan()?);
        }
        // What is there first; what the host may still put back can wait.
        self.cover(since, new)?;
        if self.hold()? { self.cover(since, BTreeSet::new()) } else { Ok(()) }
    }

    /// Puts stubs where something must be and nothing is; whether anything was missing.
    fn hold(&mut self) -> Result<bool, Lost> {
        let is_there = |keeper: &Self, path: &Path| {
            !matches!(keeper.guardian.tree.open(path, OFlags::PATH), Err(Errno::NOENT))
        };
        let deadline = Instant::now() + GRACE;
        let must: Vec<PathBuf> =
            self.guardian.items.iter().filter(|item| item.must).map(|item| item.host.clone()).collect();
        let mut missing: Vec<PathBuf> = must.into_iter().filter(|path| !is_there(self, path)).collect();
        let any = !missing.is_empty();
        while !missing.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
            missing.retain(|path| !is_there(self, path));
        }
        for path in missing {
            match self.stubs.make(&path) {
                Ok(()) => drop(self.tell(&path, What::Removed, Duration::ZERO)),
                // Somebody was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // The worktree itself is gone: there is nothing to plant in.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err((path, error)),
            }
        }
        Ok(any)
    }

    /// Covers what is not covered.
    fn cover(&mut self, since: Instant, new: BTreeSet<PathBuf>) -> Result<(), Lost> {
        let Self { guardian, known, held, .. } = self;
        known.extend(new.into_iter().filter(|path| !guardian.items.iter().any(|item| item.host == *path)));
        known.retain(|path| guardian.tree.open(path, OFlags::PATH).is_ok());
        let was_stub =
            |path: &Path| std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        let items = guardian.items.iter().map(|item| {
            // A stub that became something is shown as it is, and cannot be written.
            let how = match item.how {
                How::Nothing if item.must && !is_git(&item.host) && !was_stub(&item.host) => How::Read,
                // A directory that was there and is only ours now.
                How::Read if item.must && was_stub(&item.host) => How::Nothing,
                how => how,
            };
            (item.host.clone(), item.at.clone(), how)
        });
        let all: Vec<(PathBuf, PathBuf, How)> =
            items.chain(known.iter().map(|path| (path.clone(), path.clone(), How::Nothing))).collect();
        let places: Vec<(&Path, How)> = all.iter().map(|(_, at, how)| (at.as_path(), *how)).collect();
        let told = match cover(held.tree.pidfd.as_fd(), &places) {
            Ok(told) => told,
            // It ended meanwhile.
            Err(_) if is_gone(held.tree.pidfd.as_fd()) => return Ok(()),
            Err(error) => return Err((guardian.worktree.clone(), error)),
        };
        let took = since.elapsed();
        let mut covered = Vec::new();
        let mut is_pending = false;
        for ((host, at, how), is) in all.iter().zip(&told) {
            match is {
                Is::CoveredNow => covered.push((host.clone(), *how)),
                Is::Absent => is_pending |= self.guardian.is_layered && self.known.contains(at),
                Is::Covered | Is::Link => {}
            }
        }
        let pause = self
            .pending
            .map_or(Duration::from_millis(100), |(_, pause)| (pause * 2).min(Duration::from_secs(5)));
        self.pending = is_pending.then(|| (Instant::now() + pause, pause));
        self.account(&covered, took);
        Ok(())
    }

    /// Notes what was covered, and ends who still has something open that is hidden now.
    fn account(&mut self, covered: &[(PathBuf, How)], took: Duration) {
        let hidden = covered.iter().filter(|(_, how)| *how == How::Nothing);
        let files: Vec<(u64, u64)> = hidden
            .filter_map(|(path, _)| self.guardian.tree.open(path, OFlags::PATH).ok())
            .filter_map(|there| identity(&there).ok())
            .map(|(device, number, _)| (device, number))
            .collect();
        let mut ended = 0;
        if !files.is_empty() {
            for (pid, _) in inhabitants(self.held.tree.pid) {
                if reads(pid, &files) && rustix::process::kill_process(pid, Signal::KILL).is_ok() {
                    ended += 1;
                }
            }
        }
        for (path, how) in covered {
            let links = self
                .guardian
                .tree
                .open(path, OFlags::PATH)
                .ok()
                .and_then(|there| identity(&there).ok())
                .map_or(1, |(.., links)| links);
            let made = (path.as_os_str().as_bytes().to_vec(), What::Removed as u8);
            if self.told.contains_key(&made) && *how == How::Nothing {
                continue;
            }
            let what = if self.known.contains(path) { What::Appeared } else { What::Replaced };
            let told = self.tell(path, what, took);
            told.is_linked |= *how == How::Nothing && links > 1;
            told.ended += if *how == How::Nothing { ended } else { 0 };
        }
    }

    fn tell(&mut self, path: &Path, what: What, took: Duration) -> &mut Told {
        let bytes = path.to_owned().into_os_string().into_vec();
        let key = (bytes.clone(), what as u8);
        // Beyond the most, what is left is counted together.
        let (key, bytes) = if self.told.len() < MOST_TOLD || self.told.contains_key(&key) {
            (key, bytes)
        } else {
            let root = self.guardian.worktree.as_os_str().as_bytes().to_vec();
            ((root.clone(), what as u8), root)
        };
        let told = self.told.entry(key).or_insert_with(|| Told {
            path: bytes,
            what,
            times: 0,
            micros: 0,
            ended: 0,
            is_linked: false,
            error: None,
        });
        told.times += 1;
        told.micros = told.micros.max(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        told
    }
}

/// The repository's own directory: without its layer it is not shown at all.
fn is_git(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == ".git")
}

fn is_gone(pidfd: BorrowedFd<'_>) -> bool {
    let mut waiting = [PollFd::new(&pidfd, PollFlags::IN)];
    !matches!(poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
}
