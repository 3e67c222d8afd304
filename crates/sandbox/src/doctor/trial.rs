//! Tries each layer for real, in a child that ends at once, by the calls that a launch makes.
//!
//! Invariant: nothing is left behind, whatever a trial comes to.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags};

use crate::sys::process::{Side, fork, leave};
use crate::sys::{self, Attributes};

/// What a trial came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trial {
    /// It works.
    Works,
    /// The kernel refused it, with this error number.
    Fails(i32),
    /// It was not tried, because something that it needs is missing.
    #[default]
    Untried,
}

impl Trial {
    /// Whether it works.
    #[must_use]
    pub fn works(self) -> bool {
        self == Self::Works
    }
}

/// Namespaces by the names that people know.
pub(super) const NAMESPACES: [(&str, i32); 6] = [
    ("mount", libc::CLONE_NEWNS),
    ("pid", libc::CLONE_NEWPID),
    ("network", libc::CLONE_NEWNET),
    ("ipc", libc::CLONE_NEWIPC),
    ("uts", libc::CLONE_NEWUTS),
    ("cgroup", libc::CLONE_NEWCGROUP),
];

/// Does something in a child with these new namespaces.
pub(super) fn child(namespaces: i32, what: impl FnOnce() -> io::Result<()>) -> Trial {
    let error = |error: &io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    match fork(u64::from(namespaces.unsigned_abs()), None) {
        Err(refused) => Trial::Fails(error(&refused)),
        Ok(Side::Child) => leave(what().map_or_else(|refused| error(&refused).clamp(1, 255), |()| 0)),
        Ok(Side::Parent(pid, _)) => match sys::probe::ended(pid) {
            Ok(()) => Trial::Works,
            Err(error) => Trial::Fails(error),
        },
    }
}

/// Does something in an ordinary child, which needs nothing that could be refused.
fn plain(what: impl FnOnce() -> io::Result<()>) -> Trial {
    let what = || what().map_err(|error| error.raw_os_error().unwrap_or(libc::EIO));
    match sys::probe::in_child(what) {
        Ok(()) => Trial::Works,
        Err(error) => Trial::Fails(error),
    }
}

/// Whether a kind of namespace can be made, with a user namespace of its own.
pub(super) fn namespace(kind: i32) -> Trial {
    child(libc::CLONE_NEWUSER | kind, || Ok(()))
}

/// Becomes itself in the new user namespace, from which mounts can be made.
fn own() -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    Ok(())
}

/// What runs in namespaces where the caller is who they were.
fn mounted(namespaces: i32, what: impl FnOnce() -> io::Result<()>) -> Trial {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    child(libc::CLONE_NEWUSER | libc::CLONE_NEWNS | namespaces, move || {
        own()?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
        what()
    })
}

/// A new file system of this kind, as a mount that is nowhere.
fn new(kind: &str, options: &[(&str, &str)]) -> io::Result<OwnedFd> {
    let made = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(made.as_fd(), *key, *value)?;
    }
    if kind == "overlay" {
        rustix::mount::fsconfig_set_flag(made.as_fd(), "userxattr")?;
    }
    rustix::mount::fsconfig_create(made.as_fd())?;
    Ok(rustix::mount::fsmount(made.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// The mount interface, up to a mount that is made read-only.
pub(super) fn mounts() -> Trial {
    mounted(0, || {
        let root = new("tmpfs", &[("size", "4m")])?;
        let read_only = Attributes { set: sys::READ_ONLY, private: true, ..Attributes::default() };
        sys::set_attributes(root.as_fd(), read_only)?;
        let flags =
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        let copy = rustix::mount::open_tree(CWD, "/usr", flags)?;
        sys::set_attributes(copy.as_fd(), Attributes { recursive: true, ..read_only })
    })
}

/// A `/proc` of its own.
pub(super) fn processes() -> Trial {
    mounted(libc::CLONE_NEWPID, || new("proc", &[]).map(drop))
}

/// Terminals of its own.
pub(super) fn terminals() -> Trial {
    mounted(0, || new("devpts", &[("ptmxmode", "0666")]).map(drop))
}

/// A private layer whose changes go below this directory.
pub(super) fn overlay(place: &Path) -> Trial {
    let folder = place.join(format!("doctor-{}", rustix::process::getpid().as_raw_pid()));
    let made = ["below", "changes", "work"].iter().try_for_each(|name| fs::create_dir_all(folder.join(name)));
    let trial = match made {
        Err(error) => Trial::Fails(error.raw_os_error().unwrap_or(libc::EIO)),
        Ok(()) => mounted(0, || {
            let path = |name: &str| folder.join(name).display().to_string();
            let (below, changes, work) = (path("below"), path("changes"), path("work"));
            new("overlay", &[("lowerdir", &below), ("upperdir", &changes), ("workdir", &work)]).map(drop)
        }),
    };
    // The kernel leaves a directory without any right in `work`; it is empty.
    let _ = fs::remove_dir(folder.join("work/work"));
    let _ = fs::remove_dir_all(&folder);
    trial
}

/// A filter of system calls that refuses nothing.
pub(super) fn filter() -> Trial {
    plain(|| crate::probe::refuse_calls(&[]))
}

/// That no program gives privileges.
pub(super) fn no_new_privs() -> Trial {
    plain(|| Ok(rustix::thread::set_no_new_privs(true)?))
}

/// A mount of this directory whose owners are other ones; only root can.
pub(super) fn other_owners(place: &Path) -> Trial {
    let Ok((held, holds)) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) else {
        return Trial::Untried;
    };
    match fork(libc::CLONE_NEWUSER.unsigned_abs().into(), None) {
        Err(error) => Trial::Fails(error.raw_os_error().unwrap_or(libc::EIO)),
        Ok(Side::Child) => {
            // Stays until the other end is closed.
            drop(holds);
            let _ = rustix::io::read(&held, &mut [0u8; 1]);
            leave(0)
        }
        Ok(Side::Parent(pid, _)) => {
            let tried = change_owners(pid, place);
            drop(holds);
            let _ = sys::probe::ended(pid);
            match tried {
                Ok(()) => Trial::Works,
                Err(error) => Trial::Fails(error.raw_os_error().unwrap_or(libc::EIO)),
            }
        }
    }
}

fn change_owners(pid: i32, place: &Path) -> io::Result<()> {
    for map in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{pid}/{map}"), "0 1879048192 1")?;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let namespace = rustix::fs::open(format!("/proc/{pid}/ns/user"), flags, Mode::empty())?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = rustix::mount::open_tree(CWD, place, flags)?;
    let owners = Some(namespace.as_fd());
    sys::set_attributes(tree.as_fd(), Attributes { private: true, owners, ..Attributes::default() })
}
