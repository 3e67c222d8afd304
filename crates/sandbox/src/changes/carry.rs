//! Does the steps of a journal, one by one.
//!
//! A step makes what is new under a temporary name in the same directory, writes down its inode, exchanges the two
//! names in one act of the kernel, and moves what was there into the journal's `before`. Invariant: at any moment
//! the path has either what was there or what is new, and what was there exists somewhere that [`super::undo`]
//! finds. Nothing is followed: the worktree may change under our hands, and then the step fails.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, Uid};

use super::What;
use super::copy;
use super::journal::{Act, Journal, Plain, Step};
use super::tree::{self, Root, Seen};
use super::upper::Upper;

/// Whose files appear in the worktree, when root carries them there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) user: u32,
    pub(super) group: u32,
}

/// Does steps.
pub(super) struct Carrier<'a> {
    pub(super) host: &'a Root,
    pub(super) upper: &'a mut Upper,
    pub(super) journal: &'a mut Journal,
    pub(super) before: &'a Root,
    /// None: files are the caller's own anyway.
    pub(super) owner: Option<Owner>,
    /// Whether each file waits for the disk by itself.
    pub(super) waits: bool,
    /// In tests: how many more moments it lives.
    #[cfg(test)]
    pub(super) lives: Option<u32>,
}

impl Carrier<'_> {
    /// Does every step; stops at the first that fails.
    pub(super) fn carry(&mut self) -> Result<(), (std::path::PathBuf, io::Error)> {
        for number in 0..self.journal.steps.len() {
            let Some(step) = self.journal.steps.get(number).cloned() else { break };
            self.step(number, &step).map_err(|error| (step.path, error))?;
        }
        Ok(())
    }

    fn step(&mut self, number: usize, step: &Step) -> io::Result<()> {
        if let Act::Mode { to, .. } = step.act {
            self.moment()?;
            return if step.path.as_os_str().is_empty() {
                Ok(rustix::fs::fchmod(self.host.fd(), Mode::from_raw_mode(to))?)
            } else {
                self.host.set_mode(&step.path, to)
            };
        }
        let (parent, name) = self.host.parent(&step.path)?;
        let (parent, temporary) = (parent.as_fd(), self.journal.temporary(number));
        self.moment()?;
        let old = match &step.act {
            Act::Mode { .. } => return Ok(()),
            Act::Remove { old } => {
                tree::rename(parent, name, parent, &temporary)?;
                Some(*old)
            }
            Act::Put { what, mode, old, same_as } => {
                self.make(parent, &temporary, &step.path, *what, *mode, *same_as)?;
                let made = tree::seen_in(parent, &temporary)?.ok_or(io::ErrorKind::NotFound)?;
                self.moment()?;
                self.journal.note_made(number, made)?;
                self.moment()?;
                match old {
                    Some(_) => tree::exchange(parent, &temporary, name)?,
                    None => tree::rename(parent, &temporary, parent, name)?,
                }
                *old
            }
        };
        self.moment()?;
        let Some(old) = old else { return Ok(()) };
        if !tree::seen_in(parent, &temporary)?.is_some_and(|found| old.is(&found)) {
            return Err(io::Error::other("was replaced on the host at this very moment; try again"));
        }
        let before = self.before;
        stash(parent, &temporary, before.fd(), number, &mut || self.moment())
    }

    /// Makes what is new, under its temporary name.
    fn make(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        path: &Path,
        what: Plain,
        mode: u32,
        same_as: Option<usize>,
    ) -> io::Result<()> {
        match what {
            Plain::Link => rustix::fs::symlinkat(self.upper.link(path)?, parent, name)?,
            Plain::Directory => {
                rustix::fs::mkdirat(parent, name, Mode::RWXU)?;
                let inherited = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode & 0o2000;
                tree::set_mode_in(parent, name, mode | 0o700 | inherited)?;
            }
            Plain::File => {
                if let Some(former) = same_as
                    && self.link(parent, name, former)?
                {
                    return Ok(());
                }
                let mut from = self.upper.file(path)?;
                let mut to = copy::create(parent, name)?;
                copy::content(&mut from, &mut to)?;
                copy::carry_attributes(from.as_fd(), to.as_fd())?;
                if let Some((user, group)) = self.owner_in(parent)? {
                    rustix::fs::fchown(&to, Some(user), Some(group))?;
                }
                rustix::fs::fchmod(&to, Mode::from_raw_mode(mode))?;
                return if self.waits { to.sync_data() } else { Ok(()) };
            }
        }
        if let Some((user, group)) = self.owner_in(parent)? {
            rustix::fs::chownat(parent, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Who owns what is new in a directory; none: the caller, by itself.
    fn owner_in(&self, parent: BorrowedFd<'_>) -> io::Result<Option<(Uid, Gid)>> {
        let Some(owner) = self.owner else { return Ok(None) };
        let above = rustix::fs::fstat(parent)?;
        // A directory that hands its group down does so here, too.
        let group = if above.st_mode & 0o2000 == 0 { owner.group } else { above.st_gid };
        Ok(Some((Uid::from_raw(owner.user), Gid::from_raw(group))))
    }

    /// The same file under one more name, if the former step's file still is where it was put.
    fn link(&self, parent: BorrowedFd<'_>, name: &OsStr, former: usize) -> io::Result<bool> {
        let (Some(step), Some(made)) = (self.journal.steps.get(former), self.journal.made.get(&former))
        else {
            return Ok(false);
        };
        let (from, old) = self.host.parent(&step.path)?;
        if rustix::fs::linkat(&from, old, parent, name, AtFlags::empty()).is_err() {
            return Ok(false);
        }
        if tree::seen_in(parent, name)?.is_some_and(|found| made.is(&found)) {
            return Ok(true);
        }
        rustix::fs::unlinkat(parent, name, AtFlags::empty())?;
        Ok(false)
    }

    /// A moment at which the process may be killed.
    #[cfg_attr(
        not(test),
        expect(
            clippy::unused_self,
            clippy::unnecessary_wraps,
            clippy::needless_pass_by_ref_mut,
            reason = "only tests stop here"
        )
    )]
    fn moment(&mut self) -> io::Result<()> {
        #[cfg(test)]
        if let Some(lives) = &mut self.lives {
            *lives = lives.checked_sub(1).ok_or_else(|| io::Error::other("killed"))?;
        }
        Ok(())
    }
}

/// Moves what was there out of the worktree, into a journal's folder; over a copy if that is another file system.
pub(super) fn stash(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    to: BorrowedFd<'_>,
    number: usize,
    moment: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let (kept, part) = (number.to_string(), format!("{number}.part"));
    match shift(parent, name, to, OsStr::new(&kept)) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        other => return other,
    }
    copy::remove(to, OsStr::new(&part))?;
    copy::copy(parent, name, to, OsStr::new(&part))?;
    moment()?;
    tree::rename(to, OsStr::new(&part), to, OsStr::new(&kept))?;
    moment()?;
    copy::remove(parent, name)
}

/// Renames; a directory that may not be written must be opened up for that, because its `..` changes.
pub(super) fn shift(from: BorrowedFd<'_>, name: &OsStr, to: BorrowedFd<'_>, new: &OsStr) -> io::Result<()> {
    match tree::rename(from, name, to, new) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let Some(seen) = tree::seen_in(from, name)?.filter(|seen: &Seen| seen.what() == What::Directory)
            else {
                return Err(error);
            };
            let mode = seen.mode & 0o7777;
            tree::set_mode_in(from, name, mode | 0o700)?;
            let renamed = tree::rename(from, name, to, new);
            let (at, name) = if renamed.is_ok() { (to, new) } else { (from, name) };
            tree::set_mode_in(at, name, mode)?;
            renamed
        }
        other => other,
    }
}
