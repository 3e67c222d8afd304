//! Directories of the host that are watched, and the walk that finds hidden names in them.
//!
//! Flow: [`Tree::scan`] (each directory is watched before it is read, so nothing falls between) -> [`Tree::seen`].
//!
//! Invariant: no link is followed below a root, whatever an agent puts there meanwhile. What cannot be watched, because
//! there is too much of it or the kernel gives no more watches, makes the tree partial: it is walked from time to time.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::Uid;

use crate::profile::Hidden;

/// Directories that are not searched for hidden names: what is in them was installed or built, not written by
/// the person.
pub(super) const INSTALLED: [&str; 6] = [".git", "node_modules", "target", ".venv", "venv", "__pycache__"];

/// The most that is looked at in one walk; beyond it the run is refused rather than left half hidden.
const MOST_ENTRIES: usize = 2_000_000;

/// The most directories that are watched.
const MOST_WATCHED: usize = 20_000;

/// The most links that are followed one after the other.
const MOST_LINKS: usize = 8;

/// The first of the users that are nobody: beyond those that people, services and containers are given.
const NOBODIES: u32 = 0x7000_0000;

/// Something happened at this place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// An entry came, went or changed.
    Entry {
        /// Where.
        path: PathBuf,
        /// Whether it is a directory.
        is_folder: bool,
        /// Whether it went.
        is_gone: bool,
    },
    /// More happened than the kernel could keep.
    Overflow,
}

/// Watched directories.
#[derive(Debug)]
pub(super) struct Tree {
    inotify: OwnedFd,
    roots: Vec<(PathBuf, OwnedFd)>,
    folders: HashMap<i32, PathBuf>,
    most: usize,
    is_partial: bool,
    /// Empty directories of ours, which the first walk passes by.
    pub(super) stubs: HashSet<PathBuf>,
    /// Sockets that are given by name: others, of services of the host, are hidden. None after the first walk, when those
    /// that appear may be the sandbox's own.
    pub(super) sockets: Option<HashSet<PathBuf>>,
    /// Links with hidden names that were found, until [`Tree::linked`].
    links: Vec<PathBuf>,
}

fn wanted() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE
        | WatchFlags::ATTRIB
        | WatchFlags::ONLYDIR
}

/// Does it as a user that nobody is: the kernel lets each user watch so many times (128 unless somebody raised it), so
/// that root's many sandboxes would take them from one another and from the host's services.
fn on_own_account<T>(begin: impl FnOnce() -> T) -> io::Result<T> {
    let process = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
    let (real, nobody) = (rustix::process::getuid(), Uid::from_raw(NOBODIES.saturating_add(process)));
    // A change of the user undoes these.
    let with_parent = rustix::process::parent_process_death_signal()?;
    let dumpable = rustix::process::dumpable_behavior()?;
    let parent = rustix::process::getppid();
    if rustix::thread::set_thread_res_uid(real, nobody, Uid::ROOT).is_err() {
        // In a container that has not that many users.
        return Ok(begin());
    }
    let begun = begin();
    if rustix::thread::set_thread_res_uid(real, Uid::ROOT, Uid::ROOT).is_err() {
        // Nobody may go on as somebody else.
        std::process::abort();
    }
    rustix::process::set_parent_process_death_signal(with_parent)?;
    rustix::process::set_dumpable_behavior(dumpable)?;
    // A parent that went meanwhile told nobody.
    if with_parent.is_some() && rustix::process::getppid() != parent {
        Err(Errno::SRCH.into())
    } else {
        Ok(begun)
    }
}

impl Tree {
    pub(super) fn new() -> io::Result<Self> {
        let begin = || inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let begun = match begin() {
            Err(Errno::MFILE) if rustix::process::geteuid().is_root() => on_own_account(begin)?,
            other => other,
        };
        let inotify = begun.map_err(|error| match error {
            Errno::MFILE => io::Error::other("no watch can be begun; raise `fs.inotify.max_user_instances`"),
            other => other.into(),
        })?;
        let (roots, folders, most, is_partial) = (Vec::new(), HashMap::new(), MOST_WATCHED, false);
        let sockets = Some(HashSet::new());
        let (stubs, links) = (HashSet::new(), Vec::new());
        Ok(Self { inotify, roots, folders, most, is_partial, stubs, sockets, links })
    }

    /// Whether some of it is not watched.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    pub(super) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// What tells that something happened, and what the roots are reached by: kept when all else is closed.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        std::iter::once(&self.inotify).chain(self.roots.iter().map(|(_, fd)| fd)).map(AsFd::as_fd).collect()
    }

    pub(super) fn roots(&self) -> Vec<PathBuf> {
        self.roots.iter().map(|(path, _)| path.clone()).collect()
    }

    /// Opens a directory from which on no link is followed.
    pub(super) fn root(&mut self, path: &Path) -> io::Result<()> {
        if !self.roots.iter().any(|(root, _)| path.starts_with(root)) {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            self.roots.push((path.to_owned(), rustix::fs::open(path, flags, Mode::empty())?));
        }
        Ok(())
    }

    /// Something below a root, without following any link.
    pub(super) fn open(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let root = self.roots.iter().find_map(|(root, fd)| Some((fd, path.strip_prefix(root).ok()?)));
        let (root, rest) = root.ok_or(Errno::NOENT)?;
        let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(root, rest, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), resolve)
    }

    /// Watches one directory without looking through it; it must be watched.
    pub(super) fn watch(&mut self, path: &Path) -> io::Result<()> {
        let folder = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        match self.add(folder.as_fd(), path)? {
            true => Ok(()),
            false => Err(io::Error::other("no more can be watched; raise `fs.inotify.max_user_watches`")),
        }
    }

    /// Whether there was room for the watch.
    fn add(&mut self, folder: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<bool> {
        if self.folders.len() >= self.most {
            return Ok(false);
        }
        match inotify::add_watch(&self.inotify, format!("/proc/self/fd/{}", folder.as_raw_fd()), wanted()) {
            // A directory that was moved has the number that it had.
            Ok(number) => drop(self.folders.insert(number, path.to_owned())),
            Err(Errno::NOSPC) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Watches a directory and all below it, and finds what has a hidden name.
    pub(super) fn scan(&mut self, path: &Path, hidden: &Hidden, found: &mut Vec<PathBuf>) -> io::Result<()> {
        let (mut folders, mut entries) = (vec![path.to_owned()], 0usize);
        while let Some(path) = folders.pop() {
            let folder = match self.open(&path, OFlags::RDONLY | OFlags::DIRECTORY) {
                Ok(folder) => folder,
                // What we may not read, the inside may not either; what is no directory any more is told by an event.
                Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => continue,
                // Deeper than a path can say.
                Err(Errno::NAMETOOLONG) => {
                    self.is_partial = true;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            match self.add(folder.as_fd(), &path) {
                Ok(true) => {}
                Ok(false) => self.is_partial = true,
                // It was closed to us a moment ago; an event tells when it opens.
                Err(Errno::ACCESS) => continue,
                Err(error) => return Err(error.into()),
            }
            for entry in Dir::new(folder)? {
                let entry = match entry {
                    Err(Errno::NOENT) => break,
                    other => other?,
                };
                let name = entry.file_name().to_bytes();
                if matches!(name, b"." | b"..") {
                    continue;
                }
                entries += 1;
                if entries > MOST_ENTRIES {
                    return Err(io::Error::other(
                        "too many files to look for hidden ones; use a profile that hides none",
                    ));
                }
                let at = path.join(OsStr::from_bytes(name));
                let kind = match entry.file_type() {
                    FileType::Unknown => self.kind(&at).unwrap_or(FileType::Unknown),
                    known => known,
                };
                if kind == FileType::Symlink {
                    if hidden.hides(name) {
                        self.links.push(at);
                    }
                    continue;
                }
                let is_service = kind == FileType::Socket
                    && self.sockets.as_ref().is_some_and(|given| !given.contains(&at));
                if is_service || hidden.hides(name) {
                    found.push(at);
                } else if kind == FileType::Directory
                    && !INSTALLED.iter().any(|own| own.as_bytes() == name)
                    && !self.stubs.contains(&at)
                {
                    folders.push(at);
                }
            }
        }
        Ok(())
    }

    /// The files that links with hidden names lead to, of all that were found since the last time.
    pub(super) fn linked(&mut self) -> Vec<PathBuf> {
        let links = std::mem::take(&mut self.links);
        links.iter().filter_map(|link| self.leads_to(link)).collect()
    }

    /// The file that a link leads to, if it is one and that lies below a root. Directories are let be: what is in one has
    /// names of its own, and whoever makes a link inside could make it lead to the whole project.
    pub(super) fn leads_to(&self, link: &Path) -> Option<PathBuf> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = link.to_owned();
        for _ in 0..MOST_LINKS {
            let there = self.open(&at, OFlags::PATH).ok()?;
            let text = rustix::fs::readlinkat(&there, "", Vec::new()).ok()?;
            let to = at.parent()?.join(OsStr::from_bytes(text.to_bytes()));
            let below = self.roots.iter().find_map(|(root, fd)| Some((fd, to.strip_prefix(root).ok()?)));
            let (root, rest) = below?;
            // Links on the way are followed, but never out of the root.
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            let found = rustix::fs::openat2(root, rest, flags, Mode::empty(), resolve).ok()?;
            at = std::fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd())).ok()?;
            match FileType::from_raw_mode(rustix::fs::fstat(&found).ok()?.st_mode) {
                FileType::Symlink => {}
                FileType::RegularFile => {
                    let is_git = at.components().any(|part| part.as_os_str() == INSTALLED[0]);
                    return Some(at).filter(|_| !is_git);
                }
                _ => return None,
            }
        }
        None
    }

    fn kind(&self, path: &Path) -> Option<FileType> {
        let there = self.open(path, OFlags::PATH).ok()?;
        let found = rustix::fs::statat(&there, "", AtFlags::EMPTY_PATH).ok()?;
        Some(FileType::from_raw_mode(found.st_mode))
    }

    /// What happened since the last time; nothing if nothing did.
    pub(super) fn seen(&mut self) -> io::Result<Vec<Seen>> {
        let mut buffer = [MaybeUninit::uninit(); 32 * 1024];
        let mut reader = Reader::new(self.inotify.as_fd(), &mut buffer);
        let (mut seen, mut forgotten) = (Vec::new(), HashSet::new());
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                seen.push(Seen::Overflow);
            } else if flags.contains(ReadFlags::IGNORED) {
                forgotten.insert(event.wd());
            } else if let (Some(folder), Some(name)) = (self.folders.get(&event.wd()), event.file_name()) {
                let path = folder.join(OsStr::from_bytes(name.to_bytes()));
                let is_folder = flags.contains(ReadFlags::ISDIR);
                // Of a file only that it came or went matters; a directory may have become readable.
                let is_gone = flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM);
                if is_folder || is_gone || flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                    seen.push(Seen::Entry { path, is_folder, is_gone });
                }
            }
        }
        self.folders.retain(|number, _| !forgotten.contains(number));
        Ok(seen)
    }

    #[cfg(test)]
    pub(super) fn at_most(mut self, most: usize) -> Self {
        self.most = most;
        self
    }
}

impl AsFd for Tree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}
