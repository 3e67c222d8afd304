//! What the launcher holds outside while the attacks run: sockets to be reached, places to be seen.
//!
//! Flow: [`Bait::lay`] (outside) -> [`Outside`], one line of JSON in the environment -> the attacks (inside).
//! Invariant: nothing in it is a secret; a place that the plan gives on purpose is not among the places.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::plan::{Access, Plan, Source};

/// The variable that carries it.
pub(crate) const VARIABLE: &str = "PALISADE_PROBE";
/// A file that exists inside and that no rule of the second wall allows.
pub(crate) const CANARY: &str = "/run/palisade-canary";

const NAMESPACES: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];

/// So many places of one kind are told to the inside.
const MOST_PLACES: usize = 64;

/// Directories of the system that the inside has of its own, or not at all; never given to be written.
const SYSTEM: [&str; 13] = [
    "/", "/etc", "/dev", "/proc", "/sys", "/run", "/var", "/boot", "/root", "/home", "/tmp", "/var/tmp",
    "/dev/shm",
];

/// Files and sockets that are worth most to an attacker.
const PRIZES: [&str; 11] = [
    "/var/log",
    "/var/lib",
    "/etc/shadow",
    "/etc/passwd",
    "/etc/hostname",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/user",
    "/tmp/.X11-unix",
];

/// The same below the home.
const AT_HOME: [&str; 10] = [
    "",
    ".ssh",
    ".gnupg",
    ".aws",
    ".kube",
    ".docker",
    ".netrc",
    ".config",
    ".bash_history",
    ".local/state/palisade",
];

/// What the inside is told.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outside {
    /// A port of the host's loopback where somebody listens.
    pub(crate) port: Option<u16>,
    /// A socket without a path where somebody listens.
    pub(crate) socket: Option<String>,
    /// The launcher's number on the host.
    pub(crate) launcher: i32,
    /// The launcher's namespaces.
    pub(crate) namespaces: Vec<(String, u64)>,
    /// Places inside that are given to be read only.
    pub(crate) read_only: Vec<String>,
    /// Places of the host, by device and inode.
    pub(crate) places: Vec<(String, u64, u64)>,
}

/// What is held while the attacks run.
#[derive(Debug)]
pub(crate) struct Bait {
    pub(crate) outside: Outside,
    _tcp: Option<TcpListener>,
    _socket: Option<UnixListener>,
}

impl Bait {
    /// Lays it out for this plan.
    pub(crate) fn lay(plan: &Plan, state: &Path) -> Self {
        let tcp = TcpListener::bind(("127.0.0.1", 0)).ok();
        let name = format!("palisade-probe-{}", plan.run.as_str());
        let address = SocketAddr::from_abstract_name(name.as_bytes());
        let socket = address.and_then(|address| UnixListener::bind_addr(&address)).ok();
        let inode =
            |name: &str| std::fs::metadata(Path::new("/proc/self/ns").join(name)).map(|found| found.ino());
        let namespaces = NAMESPACES.iter().filter_map(|name| Some(((*name).to_owned(), inode(name).ok()?)));
        let outside = Outside {
            port: tcp.as_ref().and_then(|held| held.local_addr().ok()).map(|address| address.port()),
            socket: socket.as_ref().map(|_| name),
            launcher: rustix::process::getpid().as_raw_pid(),
            namespaces: namespaces.collect(),
            read_only: read_only(plan),
            places: places(plan, state),
        };
        Self { outside, _tcp: tcp, _socket: socket }
    }
}

/// Most places of the host that the plan gives to be read only.
fn read_only(plan: &Plan) -> Vec<String> {
    // Where two are given at one place, the later one covers the other.
    let covered = |at: &Path| plan.own_mounts().any(|mount| mount.at == at && mount.access != Access::Read);
    let given = plan.own_mounts().filter(|mount| mount.access == Access::Read && !covered(&mount.at));
    let given = given.filter(|mount| matches!(mount.source, Source::Host(_)));
    given.filter_map(|mount| mount.at.to_str()).take(MOST_PLACES).map(str::to_owned).collect()
}

/// Places that the plan does not give on purpose.
fn places(plan: &Plan, state: &Path) -> Vec<(String, u64, u64)> {
    let system = SYSTEM.iter().map(|path| (PathBuf::from(path), true));
    let prizes = PRIZES.iter().map(|path| (PathBuf::from(path), false));
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = home.into_iter().flat_map(|home| AT_HOME.map(|path| (home.join(path), false)));
    let own = [(state.to_owned(), false)];
    let all = system.chain(prizes).chain(home).chain(own);
    let kept = all.filter(|(path, never_written)| !is_given(plan, path, *never_written));
    let found = kept.filter_map(|(path, _)| {
        let found = std::fs::symlink_metadata(&path).ok()?;
        Some((path.to_str()?.to_owned(), found.dev(), found.ino()))
    });
    found.collect()
}

/// Whether the plan shows the host's own at this path.
fn is_given(plan: &Plan, path: &Path, never_written: bool) -> bool {
    plan.mounts.iter().any(|mount| match &mount.source {
        Source::Host(host) => {
            *host == mount.at && path.starts_with(host) && !(never_written && mount.access == Access::Write)
                // A sandbox has its own of these.
                && !["/proc", "/dev", "/sys", "/"].iter().any(|own| host == Path::new(own))
        }
        Source::Memory(..)
        | Source::Processes
        | Source::Terminals
        | Source::Nothing
        | Source::Layer(_)
        | Source::Part { .. }
        | Source::Skeleton(_) => false,
    })
}
