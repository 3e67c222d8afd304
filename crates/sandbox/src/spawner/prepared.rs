//! Sandboxes that stand before they are ordered: the next order is likely shaped like the last one.
//!
//! Flow: an order is a command and a [`Shape`] -> when nobody waits, another sandbox of that shape is made, up to process
//! 1 -> the next order of the shape only tells process 1 what the command is.
//!
//! Invariants: it is measured when it has its command, like any other, but for its mounts if the kernel says that they are
//! those of the look before; it is used only if every place it was given is
//! still the one that an order would give, and nothing was mounted on the host since; nothing has run in it but process 1;
//! it is not used after [`LONGEST`].

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags};
use rustix::io::Errno;

use super::message::Order;
use crate::begun::Filled;
use crate::launch::{LaunchError, comes, ready};
use crate::line::Told;
use crate::measure::Table;
use crate::plan::Plan;
use crate::receipt::RunId;
use crate::{root, spec};

/// How long one waits for its order.
pub(super) const LONGEST: Duration = Duration::from_secs(30);

/// What an order is besides its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) directory: PathBuf,
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    pub(super) home: (PathBuf, PathBuf),
    pub(super) user: String,
    pub(super) files: u64,
    pub(super) file_size: u64,
    pub(super) pids: u64,
    pub(super) memory: Option<u64>,
    pub(super) cpu: Option<u64>,
    pub(super) tmp: u64,
    pub(super) trace: bool,
}

/// The command of an order, with its variables.
#[derive(Debug, Default)]
pub(super) struct Command {
    pub(super) words: Vec<OsString>,
    pub(super) variables: Vec<(OsString, OsString)>,
}

/// An order in its parts.
pub(super) fn parts(order: Order) -> (RunId, Command, Shape) {
    let Order { run, command, directory, read, write, home, user, environment, .. } = order;
    let Order { files, file_size, pids, memory, cpu, tmp, trace, .. } = order;
    let command = Command { words: command, variables: environment };
    let shape = Shape { directory, read, write, home, user, files, file_size, pids, memory, cpu, tmp, trace };
    (run, command, shape)
}

/// A sandbox that stands, or soon will, without a command.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) shape: Shape,
    pub(super) plan: Plan,
    pub(super) standing: Filled,
    pub(super) since: Instant,
    /// What is mounted in it, looked at when there was time.
    pub(super) looked: Option<Looked>,
}

/// What was seen of one that stands.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) table: Table,
    /// The number of the mount at each place that it was given.
    mounts: Vec<u64>,
}

impl Prepared {
    /// Whether nobody has to wait for it.
    pub(super) fn stands(&self) -> bool {
        self.looked.is_some() || comes(self.standing.line.as_fd(), Duration::ZERO).unwrap_or(true)
    }

    /// Looks at it ahead; false if it is of no use.
    pub(super) fn look(&mut self) -> bool {
        if ready(&self.standing.line).is_err() {
            return false;
        }
        let table = Table::of(self.standing.tree.pid, &self.plan).ok();
        let mounts = self.inside().and_then(|inside| self.mounts(inside.as_fd()));
        self.looked = table.zip(mounts).map(|(table, mounts)| Looked { table, mounts });
        self.looked.is_some()
    }

    /// Its root, from here.
    fn inside(&self) -> Option<OwnedFd> {
        self.open("root")
    }

    fn open(&self, name: &str) -> Option<OwnedFd> {
        let pid = self.standing.tree.pid.as_raw_pid();
        let open = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(format!("/proc/{pid}/{name}"), open, Mode::empty()).ok()
    }

    /// The numbers of its mounts, if they are what an order would find now.
    fn mounts(&self, inside: BorrowedFd<'_>) -> Option<Vec<u64>> {
        self.plan.own_mounts().map(|mount| root::current(mount, inside)).collect()
    }

    /// Whether it stands in the directory that an order would stand in.
    fn is_in_place(&self, inside: BorrowedFd<'_>) -> bool {
        let same = || {
            let (own, there) = (self.open("cwd")?, root::beneath(inside, &self.plan.directory).ok()?);
            let (own, there) = (rustix::fs::fstat(own).ok()?, rustix::fs::fstat(there).ok()?);
            Some((own.st_dev, own.st_ino) == (there.st_dev, there.st_ino))
        };
        same() == Some(true)
    }

    /// Gives it its command; process 1 says when it has taken it. The program's path; none if it cannot have this command,
    /// and then it is of no more use.
    ///
    /// # Errors
    /// When process 1 does not answer.
    pub(super) fn take(
        &mut self,
        command: &Command,
        standard: &[OwnedFd; 3],
    ) -> Result<Option<PathBuf>, LaunchError> {
        if self.looked.is_none() {
            ready(&self.standing.line)?;
        }
        let Some(root) = self.inside() else { return Ok(None) };
        let Some(mounts) = self.mounts(root.as_fd()) else { return Ok(None) };
        if !self.is_in_place(root.as_fd()) {
            return Ok(None);
        }
        // Something has another name than it had: what was read of it is of no use.
        self.looked.take_if(|looked| looked.mounts != mounts);
        let Some(path) = self.program(root.as_fd(), command) else { return Ok(None) };
        let variables = spec::lines(command.variables.clone(), &self.shape.home.1);
        let told = Told { path: &path, words: &command.words, variables: &variables };
        if !told.fits() {
            return Ok(None);
        }
        let line = &self.standing.line;
        let said = line.command(&told, standard.each_ref().map(AsFd::as_fd));
        said.map_err(|error| LaunchError::Line(error.into()))?;
        Ok(Some(path))
    }

    /// The program of a command, as the inside sees it; none if that is not certain from here.
    fn program(&self, root: BorrowedFd<'_>, command: &Command) -> Option<PathBuf> {
        let name = command.words.first()?.as_os_str();
        if name.as_bytes().contains(&b'/') {
            let path = self.plan.directory.join(name);
            return (is_program(root, &path) == Some(true)).then_some(path);
        }
        let search = command.variables.iter().find(|(name, _)| name == "PATH");
        let search = search.map(|(_, value)| value.as_os_str()).unwrap_or(OsStr::new(""));
        for folder in std::env::split_paths(search).filter(|folder| folder.is_absolute()) {
            let path = folder.join(name);
            if is_program(root, &path)? {
                return Some(path);
            }
        }
        None
    }
}

/// Whether a path is a program that everyone may start; none where that depends on who asks.
fn is_program(root: BorrowedFd<'_>, path: &Path) -> Option<bool> {
    let open = |path: &Path| {
        let path = path.strip_prefix("/").unwrap_or(path);
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
    };
    let found = match open(path) {
        Ok(found) => found,
        Err(Errno::NOENT | Errno::NOTDIR) => return Some(false),
        Err(_) => return None,
    };
    // Of the system, so that its mode says all.
    let flags = rustix::fs::fstatvfs(&found).ok()?.f_flag;
    let is_system = flags.contains(StatVfsMountFlags::RDONLY) && !flags.contains(StatVfsMountFlags::NOEXEC);
    let found = rustix::fs::fstat(&found).ok()?;
    let above = rustix::fs::fstat(open(path.parent()?).ok()?).ok()?;
    let is_plain = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_uid == 0;
    (is_system && is_plain && found.st_mode & 0o111 == 0o111 && above.st_mode & 0o001 != 0).then_some(true)
}
