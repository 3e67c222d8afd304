//! Walks a tree that an agent had and finds what a program of the host would act on: directory -> [`Found`].
//!
//! Invariants: no link is followed and the root is never left; only what changed since the launch counts, by a time
//! that no process can set. Reads names, and looks closer only at files: a tree that was not touched costs little.
//! Not here: moving anything ([`super::quarantine`]), what makes a git directory harmful ([`super::nested`]).

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::nested;
use super::stamp::{Seen, Stamp};
use crate::profile::{Class, Control, Profile, controls};
use crate::sought::{Carried, Seeks, Sink};

/// The most that is looked at; beyond it the rest is told to be unknown.
const MOST_ENTRIES: usize = 20_000_000;

const LENDS: &str = "a program that runs with the rights of its owner or group";

/// What counts, and since when.
#[derive(Clone, Copy)]
pub(super) struct Rule<'a> {
    pub(super) profile: &'a Profile,
    pub(super) since: Stamp,
    /// Whether the root is the worktree, whose own control files were held by mounts.
    pub(super) is_worktree: bool,
    /// Whether the root's `.git` is the one that was kept apart.
    pub(super) git_is_known: bool,
    /// What no name may carry.
    pub(super) sought: Option<&'a dyn Seeks>,
}

/// Something that was planted or changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Relative to the root.
    pub(super) path: PathBuf,
    pub(super) why: String,
    /// Whether it is to be put away; else it is only told.
    pub(super) moves: bool,
}

/// What lies around a directory.
#[derive(Clone, Copy)]
enum Around {
    Plain,
    /// A control file's directory, which was there before.
    Control(&'static Control),
    /// A git directory, which was there before.
    Git,
}

/// Names that a closer look is worth: the last parts of the table's paths.
struct Names {
    whole: BTreeSet<Vec<u8>>,
    /// What they begin with: most names differ in the first letter.
    first: BTreeSet<u8>,
    /// Beginning and end.
    parts: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Names {
    fn new() -> Self {
        let mut names = Self { whole: BTreeSet::new(), first: BTreeSet::new(), parts: Vec::new() };
        for control in controls() {
            let last =
                control.path.rsplit('/').next().unwrap_or(control.path).to_ascii_lowercase().into_bytes();
            let mut around = last.split(|byte| *byte == b'*');
            match (around.next(), around.next_back()) {
                (Some(first), Some(end)) => names.parts.push((first.to_vec(), end.to_vec())),
                _ => {
                    names.first.extend(last.first());
                    names.whole.insert(last);
                }
            }
        }
        names
    }

    fn may_be(&self, name: &[u8]) -> bool {
        let begins =
            |first: &[u8]| name.get(..first.len()).is_some_and(|part| part.eq_ignore_ascii_case(first));
        let ends = |end: &[u8]| {
            let last = name.len().checked_sub(end.len()).and_then(|at| name.get(at..));
            last.is_some_and(|part| part.eq_ignore_ascii_case(end))
        };
        let may_be_whole = name.first().is_some_and(|first| self.first.contains(&first.to_ascii_lowercase()));
        (may_be_whole && self.whole.contains(&name.to_ascii_lowercase()))
            || self.parts.iter().any(|(first, end)| begins(first) && ends(end))
    }
}

pub(super) struct Walk<'a> {
    root: OwnedFd,
    rule: Rule<'a>,
    names: Names,
    /// Directories to look through: where, and what is around.
    open: Vec<(PathBuf, Around)>,
    seen: usize,
    pub(super) found: Vec<Found>,
    /// What names were found to carry.
    pub(super) carried: Vec<Carried>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(root: &Path, rule: Rule<'a>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty())?;
        let open = vec![(PathBuf::new(), Around::Plain)];
        let (found, carried) = (Vec::new(), Vec::new());
        Ok(Self { root, rule, names: Names::new(), open, seen: 0, found, carried })
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Looks through everything.
    pub(super) fn look(&mut self) -> io::Result<()> {
        while let Some((path, around)) = self.open.pop() {
            match self.folder(&path, around) {
                Ok(()) => {}
                Err(Errno::NOENT) => {}
                Err(Errno::NAMETOOLONG) => self.find(path, "nested so deep that it cannot be looked through"),
                Err(Errno::ACCESS) => self.tell(path, "cannot be read, so it was not looked through"),
                Err(error) => return Err(error.into()),
            }
            if self.seen > MOST_ENTRIES {
                return Err(io::Error::other(format!("more than {MOST_ENTRIES} files")));
            }
        }
        Ok(())
    }

    fn find(&mut self, path: PathBuf, why: impl Into<String>) {
        self.found.push(Found { path, why: why.into(), moves: true });
    }

    fn tell(&mut self, path: PathBuf, why: impl Into<String>) {
        self.found.push(Found { path, why: why.into(), moves: false });
    }

    fn folder(&mut self, path: &Path, around: Around) -> rustix::io::Result<()> {
        let folder = opened(self.root.as_fd(), path)?;
        let own = Seen::at(folder.as_fd(), c"", self.rule.since)?;
        let mut parts = nested::Parts::default();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.seen += 1;
            parts.note(name.to_bytes());
            self.entry(&folder, path, name, entry.file_type(), around, own)?;
        }
        let is_named = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
        if parts.make_a_repository() && !is_named {
            let strict = matches!(around, Around::Git);
            let found = nested::judge(folder.as_fd(), path, own, own.is_changed, strict, self.rule.since);
            self.found.extend(found);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        folder: &OwnedFd,
        above: &Path,
        name: &CStr,
        kind: FileType,
        around: Around,
        own: Seen,
    ) -> rustix::io::Result<()> {
        // Nobody knew it before the launch, so whoever wrote this name did so since.
        if let Some(of) = self.rule.sought.and_then(|sought| sought.within(name.to_bytes())) {
            let carried = Carried { name: of, sink: Sink::FileName };
            self.find(above.join(OsStr::from_bytes(name.to_bytes())), carried.to_string());
            self.carried.push(carried);
            return Ok(());
        }
        let is_named = matches!(around, Around::Plain) && self.names.may_be(name.to_bytes());
        if kind == FileType::RegularFile && !is_named && !matches!(around, Around::Control(_)) {
            // Nearly everything is this.
            return self.plain(folder, above, name);
        }
        let path = above.join(OsStr::from_bytes(name.to_bytes()));
        let control = match around {
            Around::Control(control) => Some(control),
            Around::Plain if is_named => self.control_of(&path),
            Around::Plain | Around::Git => None,
        };
        let is_git = control.is_some_and(|control| control.path == ".git");
        if is_git && self.rule.git_is_known && above.as_os_str().is_empty() {
            return Ok(());
        }
        if control.is_none() && kind == FileType::Directory {
            // Objects have no names that anybody acts on.
            let is_objects = matches!(around, Around::Git) && name == c"objects";
            if !is_objects {
                self.open.push((path, around));
            }
            return Ok(());
        }
        if control.is_none() && !matches!(kind, FileType::RegularFile | FileType::Unknown) {
            return Ok(());
        }
        let seen = match Seen::at(folder.as_fd(), name, self.rule.since) {
            Err(Errno::NOENT) => return Ok(()),
            other => other?,
        };
        let is_folder = seen.kind == FileType::Directory;
        match control {
            None if is_folder => self.open.push((path, around)),
            None => {
                if seen.lends_rights && seen.is_changed {
                    self.find(path, LENDS);
                }
            }
            Some(control) if control.class == Class::Watch => match is_folder {
                true => self.open.push((path, Around::Control(control))),
                false if seen.is_changed => self.tell(path, control.why),
                false => {}
            },
            Some(_) if is_git && is_folder => self.git(folder, path, name, seen, own)?,
            Some(control) => self.hard(path, control, seen, own, around),
        }
        Ok(())
    }

    /// A file that nobody acts on by its name.
    fn plain(&mut self, folder: &OwnedFd, above: &Path, name: &CStr) -> rustix::io::Result<()> {
        match Seen::at(folder.as_fd(), name, self.rule.since) {
            Err(Errno::NOENT) => {}
            Ok(seen) if seen.lends_rights && seen.is_changed => {
                self.find(above.join(OsStr::from_bytes(name.to_bytes())), LENDS);
            }
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A control file, or something in a directory that is one.
    fn hard(&mut self, path: PathBuf, control: &'static Control, seen: Seen, above: Seen, around: Around) {
        let is_folder = seen.kind == FileType::Directory;
        let is_held = self.rule.is_worktree
            && self.rule.profile.protect.iter().any(|held| path == Path::new(&held.path));
        if is_held && !seen.is_new {
            // A mount kept it from the agent: a change is the person's own.
            return;
        }
        let may_be_moved_here = seen.is_changed && above.is_changed && matches!(around, Around::Plain);
        if is_folder && !seen.is_new && !may_be_moved_here {
            self.open.push((path, Around::Control(control)));
        } else if seen.is_changed {
            self.find(path, control.why);
        }
    }

    /// A `.git` directory.
    fn git(
        &mut self,
        folder: &OwnedFd,
        path: PathBuf,
        name: &CStr,
        seen: Seen,
        above: Seen,
    ) -> rustix::io::Result<()> {
        if seen.is_new {
            self.find(path, nested::WHY);
            return Ok(());
        }
        let may_be_moved_here = seen.is_changed && above.is_changed;
        let inner = readable(folder.as_fd(), name)?;
        self.found.extend(nested::judge(
            inner.as_fd(),
            &path,
            seen,
            may_be_moved_here,
            true,
            self.rule.since,
        ));
        self.open.push((path, Around::Git));
        Ok(())
    }

    fn control_of(&self, path: &Path) -> Option<&'static Control> {
        let is_first = path.parent().is_some_and(|parent| parent.as_os_str().is_empty());
        let is_git = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
        if !self.rule.is_worktree || (is_first && is_git) {
            // Below another root, and for a `.git` that was not there, the same holds as deeper in a worktree.
            return self.rule.profile.control_of(&Path::new("root").join(path));
        }
        self.rule.profile.control_of(path)
    }
}

/// A directory below the root; made readable first if its owner took that away.
fn opened(root: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let named = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    match rustix::fs::openat2(root, named, flags, Mode::empty(), resolve) {
        Err(Errno::ACCESS) => {
            let place =
                rustix::fs::openat2(root, named, OFlags::PATH | OFlags::DIRECTORY, Mode::empty(), resolve)?;
            make_readable(place.as_fd())?;
            rustix::fs::openat2(root, named, flags, Mode::empty(), resolve)
        }
        other => other,
    }
}

/// A directory in a directory, likewise.
pub(super) fn readable(folder: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    opened(folder, Path::new(OsStr::from_bytes(name.to_bytes())))
}

pub(super) fn make_readable(place: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(place)?.st_mode & 0o7777 | 0o700);
    // By number: the mode of a mere place cannot be set otherwise.
    let by_number = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place));
    match rustix::fs::chmodat(CWD, by_number.as_str(), mode, AtFlags::empty()) {
        Err(Errno::PERM) => Err(Errno::ACCESS),
        other => other,
    }
}
