//! What a launch is made of.
//!
//! Flow: a plan in a sandbox that is begun ([`crate::begun`]) -> [`Held`] (process 1 stands, every layer is on, the command has not been started: this is the
//! moment to measure) -> [`Running`](crate::Running).
//!
//! Invariants: the caller has one thread; when anything fails, or the value is dropped, the processes are gone
//! and reaped before control comes back. Not here: what the inside does ([`crate::inside`]).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::process::{Pid, Signal, WaitOptions};

use crate::capture::Sockets;
use crate::groups::Groups;
use crate::inside::{self, Broken};
use crate::line::{Line, Word};
use crate::measure::Table;
use crate::plan::{Identity, Mount, Plan};
use crate::root::{self, FromHost};
use crate::standard::Standard;
use crate::sys;

/// Process 1, as `build.rs` made it.
const INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/init"));

/// Namespaces that a process must be made with; the others it makes for itself, while the launcher goes on.
pub(crate) const NAMESPACES: u64 = (libc::CLONE_NEWUSER | libc::CLONE_NEWPID) as u64;

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The kernel refused new namespaces.
    #[error("{}", crate::doctor::no_namespaces(.0.raw_os_error().unwrap_or(0)))]
    Namespaces(#[source] io::Error),
    /// Limits that count all processes together are required and cannot be set.
    #[error("{}", crate::doctor::no_groups())]
    Groups,
    /// The speed of the disk is to be limited, and cannot be.
    #[error(
        "the limit `io` cannot be held here: it needs the control group controller `io` (or `blkio`) and a worktree \
         that lies on one disk; leave `io` out, or have an administrator delegate the controller"
    )]
    Speed,
    /// The file system of something that is given shows no owners but its own, and as root others are to be shown.
    #[error(
        "idmapped mounts: the file system that `{0}` lies on (an overlay, perhaps, or one of the network) cannot show its files \
         as another user's; to fix it: start palisade as the owner of the files and not as root, or put them on ext4, xfs, btrfs or \
         tmpfs (in a container: on a volume)"
    )]
    Owned(PathBuf),
    /// A step inside failed.
    #[error("{}", .0.told())]
    Inside(Refused),
    /// It took too long.
    #[error(
        "the sandbox did not stand after {} seconds and was ended: a process of it was stopped, or the machine is overloaded; \
         try again",
        LONGEST.as_secs()
    )]
    Late,
    /// The line to the inside failed.
    #[error("the sandbox went away while it was being made: {0}")]
    Line(#[source] io::Error),
    /// The launcher's own preparations failed.
    #[error("{}", crate::doctor::unprepared(.0, .1))]
    Prepare(&'static str, #[source] io::Error),
}

/// A step inside that was refused, and by which error.
#[derive(Debug)]
pub struct Refused(Broken);

impl From<Broken> for Refused {
    fn from(broken: Broken) -> Self {
        Self(broken)
    }
}

impl Refused {
    /// The program is not there, as far as the inside sees.
    #[must_use]
    pub fn is_no_command(&self) -> bool {
        self.0.step == inside::Step::Command && self.0.error == libc::ENOENT
    }

    /// The program is there and cannot be executed.
    #[must_use]
    pub fn is_not_executable(&self) -> bool {
        self.0.step == inside::Step::Command && self.0.error != libc::ENOENT
    }

    fn told(&self) -> String {
        let error = io::Error::from_raw_os_error(self.0.error);
        let what = &self.0.what;
        match self.0.step {
            inside::Step::Command if self.is_no_command() => {
                format!(
                    "`{what}` is not found inside; give its place with `--ro PATH` if it is on this machine"
                )
            }
            inside::Step::Command => format!("`{what}` cannot be executed: {error}"),
            inside::Step::Directory => format!("the current directory `{what}` is not inside: {error}"),
            step => format!("`{what}`: {}", crate::doctor::remedy(step, what, self.0.error)),
        }
    }
}

/// Processes that end with the value.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    reaped: bool,
}

impl Tree {
    pub(crate) fn new(pid: i32, pidfd: OwnedFd) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ECHILD))?;
        Ok(Self { pid, pidfd, reaped: false })
    }

    /// Kills all that is left and waits until it is gone: process 1 ends after everyone else.
    pub(crate) fn end(&mut self) -> Option<rustix::process::WaitStatus> {
        if self.reaped {
            return None;
        }
        self.reaped = true;
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
        loop {
            match rustix::process::waitpid(Some(self.pid), WaitOptions::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(Some((_, status))) => return Some(status),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

impl Tree {
    /// Lets a process that ends by itself do so; whoever comes next reaps it.
    pub(crate) fn leave(&mut self) {
        if !self.reaped {
            self.reaped = true;
            LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(self.pid);
            reap_left();
        }
    }
}

/// Processes that were left to end by themselves.
static LEFT: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Reaps those of them that have ended.
pub(crate) fn reap_left() {
    let is_there =
        |pid: &mut Pid| matches!(rustix::process::waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None));
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).retain_mut(is_there);
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.end();
    }
}

/// A sandbox whose process 1 waits for the word to go.
#[derive(Debug)]
pub struct Held {
    pub(crate) plan: Plan,
    pub(crate) tree: Tree,
    pub(crate) line: Line,
    pub(crate) standard: Standard,
    pub(crate) terminal: Option<OwnedFd>,
    pub(crate) sockets: Option<Sockets>,
    pub(crate) groups: Groups,
    /// Its mounts, read when the last of them was made.
    pub(crate) table: Option<Table>,
}

impl Held {
    /// What was left out on purpose, for the receipt; empty in the normal case.
    #[must_use]
    pub fn left_out(&self) -> &[crate::Part] {
        self.plan.left_out()
    }

    /// Where everything that it sends comes, if it was planned so ([`Spec::captured`](crate::Spec::captured)). Whoever drops
    /// them leaves it without a network.
    #[must_use]
    pub fn sockets(&mut self) -> Option<Sockets> {
        self.sockets.take()
    }
}

/// What a sandbox hands out before it stands.
#[derive(Debug, Default)]
pub(crate) struct Handed {
    pub(crate) terminal: Option<OwnedFd>,
    pub(crate) sockets: Option<Sockets>,
}

/// Waits until process 1 stands; takes what is handed out.
pub(crate) fn ready(line: &Line) -> Result<Handed, LaunchError> {
    ready_after(line, || {})
}

/// The same; `rooted` is done as soon as the root is complete, while the rest is made.
pub(crate) fn ready_after(line: &Line, mut rooted: impl FnMut()) -> Result<Handed, LaunchError> {
    let mut handed = Handed::default();
    loop {
        if !comes(line.as_fd(), LONGEST).map_err(LaunchError::Line)? {
            return Err(LaunchError::Late);
        }
        match line.hear().map_err(LaunchError::Line)? {
            Word::Terminal(fd) => handed.terminal = Some(fd),
            Word::Sockets(sockets) => handed.sockets = Some(sockets),
            Word::Rooted => rooted(),
            Word::Ready => return Ok(handed),
            Word::Broken(broken) => return Err(LaunchError::Inside(Refused(broken))),
            Word::NotExecuted(_) | Word::Ended(_) | Word::Stopped | Word::Gone => {
                return Err(LaunchError::Line(io::Error::from_raw_os_error(libc::EPIPE)));
            }
        }
    }
}

/// The longest wait for a step of a process of ours: it may be stopped by somebody.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// Waits until there is something to read, or the other end is gone; false if that takes too long.
pub(crate) fn comes(from: BorrowedFd<'_>, longest: Duration) -> io::Result<bool> {
    within(from, PollFlags::IN, longest)
}

/// Waits until this can be done; false if that takes too long.
pub(crate) fn within(on: BorrowedFd<'_>, what: PollFlags, longest: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + longest;
    loop {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now()));
        let left = left.map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        match poll(&mut [PollFd::from_borrowed_fd(on, what)], Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other? > 0),
        }
    }
}

/// Process 1 in a memory file that nobody can change any more.
pub(crate) fn sealed_init() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("palisade-init", flags)?;
    let mut rest = INIT;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// Opens, as the host's root, what the inside could not open as a mere user, with its owners changed.
pub(crate) fn opened(plan: &Plan, owners: Option<&Owners>) -> Result<Option<Vec<FromHost>>, LaunchError> {
    let Some(owners) = owners else { return Ok(None) };
    let open = |mount: &Mount| {
        root::from_host(mount, Some(owners.namespace.as_fd())).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) if mount.owned => LaunchError::Owned(mount.at.clone()),
            _ => LaunchError::Prepare("mounts", error),
        })
    };
    plan.own_mounts().map(open).collect::<Result<_, _>>().map(Some)
}

/// A user namespace that says whose files are shown as the sandbox's own.
#[derive(Debug)]
pub(crate) struct Owners {
    namespace: OwnedFd,
}

impl Owners {
    pub(crate) fn new(identity: &Identity) -> io::Result<Self> {
        let (user, group) = identity.owns.unwrap_or_default();
        let (pid, pidfd) = sys::process::hold_owners()?;
        let mut holder = Tree::new(pid, pidfd)?;
        let outside = (identity.host_user, identity.host_group);
        map(holder.pid, (user, outside.0), (group, outside.1))?;
        let path = format!("/proc/{pid}/ns/user");
        let namespace = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let _ = rustix::process::pidfd_send_signal(&holder.pidfd, Signal::KILL);
        holder.leave();
        Ok(Self { namespace })
    }
}

/// Says who inside is who outside, for another process; needs root.
pub(crate) fn map(pid: Pid, user: (u32, u32), group: (u32, u32)) -> io::Result<()> {
    let pid = pid.as_raw_pid();
    std::fs::write(format!("/proc/{pid}/uid_map"), format!("{} {} 1", user.0, user.1))?;
    std::fs::write(format!("/proc/{pid}/gid_map"), format!("{} {} 1", group.0, group.1))
}

/// The descriptors of the three for the inside; none where it is the terminal.
pub(crate) struct InsideEnds(pub(crate) [Option<OwnedFd>; 3]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_is_not_waited_for_for_ever() {
        let (near, far) = Line::pair().unwrap();
        assert!(!comes(near.as_fd(), Duration::from_millis(1)).unwrap());
        assert!(within(near.as_fd(), PollFlags::OUT, Duration::ZERO).unwrap());
        drop(far);
        // An end is something to hear.
        assert!(comes(near.as_fd(), LONGEST).unwrap());
        assert!(matches!(ready(&near), Err(LaunchError::Line(_))));
    }
}
