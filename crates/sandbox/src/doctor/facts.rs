//! Everything the judgement needs to know, gathered once.
//!
//! Invariant: plain values, so that a test can say "what if"; of files only their presence, mode and owner, of
//! variables only `PATH` and the places of toolchains.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::clues::Clues;
use super::trial::{self, NAMESPACES, Trial};
use crate::groups::{Groups, Wanted};
use crate::profile::find_toolchains;
use crate::sys;

/// Agents that are looked for.
const AGENTS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];
/// Directories of programs that every sandbox has.
const PROGRAMS: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/opt", "/nix/store"];

/// Where this installation keeps things.
#[derive(Clone, Debug)]
pub struct Places {
    /// The directory of states.
    pub state: PathBuf,
    /// The directory of configuration.
    pub config: PathBuf,
    /// The caller's home.
    pub home: PathBuf,
}

/// A directory of Palisade's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// `state` or `config`.
    pub name: &'static str,
    /// Where.
    pub path: PathBuf,
    /// Permission bits; none if it does not exist yet.
    pub mode: Option<u32>,
    /// Whether the caller or root owns it.
    pub is_own: bool,
}

/// An agent that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its command.
    pub name: &'static str,
    /// Where it is on the path, links followed.
    pub path: Option<PathBuf>,
    /// Whether the profile `dev` shows that place.
    pub is_inside: bool,
}

/// What can be limited for all processes together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Names of limits that held when they were tried.
    pub held: BTreeSet<String>,
    /// Whether all processes can be stopped at once.
    pub freezes: bool,
}

/// What is known about this host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the trial of the layer that it is named for")]
pub struct Facts {
    pub clues: Clues,
    pub user_namespaces: Trial,
    pub namespaces: Vec<(&'static str, Trial)>,
    pub mounts: Trial,
    pub processes: Trial,
    pub terminals: Trial,
    pub overlay: Trial,
    /// The version, or the error number.
    pub landlock: Result<u32, i32>,
    pub filter: Trial,
    pub no_new_privs: Trial,
    /// Only for root.
    pub owners: Option<Trial>,
    pub limits: Limits,
    /// How many watches of files one user may have at once, where that bounds this user's sandboxes.
    pub watches: Option<u64>,
    /// Free bytes where states are kept.
    pub free: Option<u64>,
    pub directories: Vec<Directory>,
    /// Whether the user's own ledger and its key are there.
    pub ledger: bool,
    pub key: Option<u32>,
    pub agents: Vec<Agent>,
    /// What `git --version` says.
    pub git: Option<String>,
}

impl Facts {
    /// Looks and tries. The caller has one thread.
    #[must_use]
    pub fn gather(places: &Places) -> Self {
        let user_namespaces = trial::child(libc::CLONE_NEWUSER, || Ok(()));
        let there = user_namespaces.works();
        let then = |works: bool, what: &dyn Fn() -> Trial| if works { what() } else { Trial::Untried };
        let namespaces: Vec<_> =
            NAMESPACES.map(|(name, kind)| (name, then(there, &|| trial::namespace(kind)))).to_vec();
        let mounts = then(there, &trial::mounts);
        let clues = Clues::read();
        let existing = existing(&places.state);
        let writable = rustix::fs::access(&existing, rustix::fs::Access::WRITE_OK).is_ok();
        let scratch = if writable { existing.clone() } else { std::env::temp_dir() };
        Self {
            user_namespaces,
            namespaces,
            mounts,
            processes: then(mounts.works(), &trial::processes),
            terminals: then(mounts.works(), &trial::terminals),
            overlay: then(mounts.works(), &|| trial::overlay(&scratch)),
            landlock: sys::probe::landlock(),
            filter: trial::filter(),
            no_new_privs: trial::no_new_privs(),
            owners: clues.root.then(|| then(there, &|| trial::other_owners(&scratch))),
            limits: limits(),
            watches: watches().filter(|_| !clues.root),
            free: rustix::fs::statvfs(&existing)
                .ok()
                .map(|found| found.f_bavail.saturating_mul(found.f_frsize)),
            directories: vec![directory("state", &places.state), directory("config", &places.config)],
            ledger: places.state.join("ledger").is_dir(),
            key: mode(&places.state.join("ledger.key")),
            agents: agents(&places.home),
            git: git(),
            clues,
        }
    }
}

/// The nearest directory that is there.
fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn mode(path: &Path) -> Option<u32> {
    fs::symlink_metadata(path).ok().map(|found| found.mode() & 0o7777)
}

fn directory(name: &'static str, path: &Path) -> Directory {
    let user = rustix::process::geteuid().as_raw();
    let is_own = fs::metadata(path).map_or(true, |found| found.uid() == user || found.uid() == 0);
    Directory { name, path: path.to_owned(), mode: mode(path), is_own }
}

fn limits() -> Limits {
    let wanted = Wanted { memory: Some(1 << 30), pids: Some(512), cpu: Some(1_000), io: None };
    let mut groups =
        Groups::unified(&format!("palisade-doctor-{}", rustix::process::getpid().as_raw_pid()), wanted);
    groups.more(wanted);
    groups.limit(wanted);
    let held = groups.enforced.iter().map(|limit| limit.name.to_owned()).collect();
    Limits { held, freezes: groups.freeze(false).is_some_and(|done| done.is_ok()) }
}

fn watches() -> Option<u64> {
    fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").ok()?.trim().parse().ok()
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let is_program = |path: &PathBuf| {
        let runs = rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
        runs && path.is_file()
    };
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(is_program)
}

fn agents(home: &Path) -> Vec<Agent> {
    let variable = |name: &str| std::env::var_os(OsStr::new(name)).map(PathBuf::from);
    let tools = find_toolchains(home, home, &variable, &Path::exists);
    let inside = |path: &Path| {
        PROGRAMS.iter().any(|folder| path.starts_with(folder))
            || tools.iter().any(|found| path.starts_with(&found.host))
    };
    let look = |name| {
        let typed = on_path(name);
        let real = typed.as_ref().and_then(|path| path.canonicalize().ok());
        let is_inside = typed.as_deref().is_some_and(inside) && real.as_deref().is_some_and(inside);
        Agent { name, path: real.or(typed), is_inside }
    };
    AGENTS.map(look).to_vec()
}

fn git() -> Option<String> {
    let program = on_path("git")?;
    let output = Command::new(program).arg("--version").env_clear().output();
    let text =
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    Some(text.strip_prefix("git version ").unwrap_or("of an unknown version").to_owned())
}
