//! Turns a call that was refused into what refused it and what would allow it.
//!
//! Flow: [`Call`] (what was asked, what was answered, what is known of the files) + [`Rules`] -> [`Judgement`].
//! The kernel names no rule, so this finds the rule that explains the answer: the filter by asking its program, the
//! rest by looking for the first wall in the kernel's own order. What no wall explains is said to be the file's own
//! permissions, and what nobody inside could do anyway is no denial.
//!
//! Invariant: pure; the same call is judged the same. Not here: looking at processes ([`super::seen`]).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::rules::Rules;
use super::words::{amount, error_name};
use super::{Layer, Weight};
use crate::filter::{allowed, name_of, why_refused};
use crate::plan::{Access, Limited, Source};

/// What was wanted of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Want {
    Look,
    /// Whether something would be allowed.
    Ask,
    Read,
    Write,
    Make,
    Remove,
    Move,
    Change,
    Own,
    Execute,
    Enter,
    Connect,
}

impl Want {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Look => "look at",
            Self::Ask => "ask for access to",
            Self::Read => "open for reading",
            Self::Write => "write",
            Self::Make => "make or write",
            Self::Remove => "remove",
            Self::Move => "move away",
            Self::Change => "change",
            Self::Own => "change the owner of",
            Self::Execute => "execute",
            Self::Enter => "enter",
            Self::Connect => "connect to",
        }
    }

    /// Whether something is different afterwards.
    pub(super) fn changes(self) -> bool {
        match self {
            Self::Write | Self::Make | Self::Remove | Self::Move | Self::Change | Self::Own => true,
            Self::Look | Self::Ask | Self::Read | Self::Execute | Self::Enter | Self::Connect => false,
        }
    }
}

/// Owner and mode of a file, as the host's kernel sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) owner: u32,
    pub(super) group: u32,
    pub(super) mode: u32,
}

/// A file that a call names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) want: Want,
    /// Inside, without links as far as they could be followed.
    pub(super) path: PathBuf,
    /// What decides: the file, or the directory around it when names in it change.
    pub(super) node: Option<Node>,
    /// What the host has and the inside has not: the path there, and the topmost part of it that is missing.
    pub(super) absent: Option<(PathBuf, PathBuf)>,
    /// The nearest path that is there on the host, at or above.
    pub(super) nearest: PathBuf,
}

/// An address that a call names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    /// Whether the host has a server at this port.
    pub(super) host_listens: bool,
}

/// A call that came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) number: u32,
    pub(super) arguments: [u64; 6],
    /// Zero: it was done.
    pub(super) error: i32,
    pub(super) files: Vec<File>,
    pub(super) peer: Option<Peer>,
}

/// What a denial is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Target {
    File(PathBuf),
    Other(String),
}

/// What would allow it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Remedy {
    /// Giving this path, writable or not.
    Give { path: PathBuf, writable: bool },
    /// These words on the command line.
    Flag(String),
    /// Something else.
    Other(String),
}

/// What refused a call, and what would allow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    pub(super) call: String,
    pub(super) action: &'static str,
    pub(super) target: Target,
    pub(super) layer: Layer,
    pub(super) rule: String,
    pub(super) remedy: Remedy,
    pub(super) error: &'static str,
    pub(super) weight: Weight,
    /// What is told once: calls with the same layer, rule and place.
    pub(super) place: PathBuf,
}

const NEVER: &str = "nothing allows it";
const NO_NETWORK: &str = "a sandbox has only a loopback of its own";
const FORKS: [libc::c_long; 4] = [libc::SYS_fork, libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3];

/// Settings that libraries look for in every program and do without.
const PROBED: [&str; 6] = [
    "etc/locale.alias",
    "etc/ld.so.preload",
    "etc/gai.conf",
    "etc/host.conf",
    "etc/nsswitch.conf",
    "sitecustomize.py",
];

/// What refused this call; none if it was no refusal, or none of ours.
pub(super) fn judge(call: &Call, rules: &Rules<'_>) -> Option<Judgement> {
    if call.error != 0 && rules.filtered(call.number, &call.arguments) == Some(call.error) {
        return Some(filtered(call));
    }
    limited(call, rules)
        .or_else(|| call.peer.as_ref().and_then(|peer| unreachable(call, peer)))
        .or_else(|| call.files.iter().find_map(|file| of_file(call, file, rules)))
        .or_else(|| unprivileged(call))
}

fn name(call: &Call) -> String {
    name_of(call.number).map_or_else(|| format!("call {}", call.number), str::to_owned)
}

fn plain(call: &Call, layer: Layer, target: Target, rule: String, remedy: Remedy) -> Judgement {
    let place = match &target {
        Target::File(path) => path.clone(),
        Target::Other(text) => text.into(),
    };
    let error = error_name(call.error);
    let weight = Weight::Refused;
    Judgement { call: name(call), action: "call", target, layer, rule, remedy, error, weight, place }
}

/// The filter of system calls.
fn filtered(call: &Call) -> Judgement {
    let why = why_refused(call.number).unwrap_or("not on the list");
    let rule = if allowed().any(|listed| listed.number == call.number) {
        format!("the filter of system calls allows only: {why}")
    } else {
        format!("the filter of system calls refuses it: {why}")
    };
    let remedy = match libc::c_long::from(call.number) {
        libc::SYS_ptrace => Remedy::Other("a profile of your own with `trace = true` allows it".into()),
        _ => Remedy::Other(NEVER.into()),
    };
    let [first, ..] = call.arguments;
    let target = match libc::c_long::from(call.number) {
        libc::SYS_socket | libc::SYS_socketpair => format!("{} of family {}", name(call), family(first)),
        _ => name(call),
    };
    // These errors were chosen because programs then take another way.
    let weight = match call.error {
        libc::ENOSYS | libc::EPROTONOSUPPORT | libc::EINVAL => Weight::Harmless,
        _ => Weight::Refused,
    };
    Judgement { weight, ..plain(call, Layer::Seccomp, Target::Other(target), rule, remedy) }
}

fn family(number: u64) -> String {
    let known = match i32::try_from(number & 0xffff_ffff).unwrap_or(-1) {
        libc::AF_UNIX => "AF_UNIX",
        libc::AF_INET => "AF_INET",
        libc::AF_INET6 => "AF_INET6",
        libc::AF_NETLINK => "AF_NETLINK",
        libc::AF_PACKET => "AF_PACKET",
        libc::AF_VSOCK => "AF_VSOCK",
        libc::AF_ALG => "AF_ALG",
        libc::AF_BLUETOOTH => "AF_BLUETOOTH",
        other => return other.to_string(),
    };
    known.into()
}

/// A limit.
fn limited(call: &Call, rules: &Rules<'_>) -> Option<Judgement> {
    let is_fork = FORKS.contains(&call.number.into());
    let on = call.files.first().map(|file| file.path.as_path());
    let (limit, what, most) = match call.error {
        libc::EMFILE => ("files", "open files of one process", rules.limit(Limited::Files)?),
        libc::EAGAIN if is_fork => ("pids", "processes and threads", rules.limit(Limited::Processes)?),
        libc::EFBIG => ("file_size", "bytes in one file", rules.limit(Limited::FileSize)?),
        libc::ENOSPC => match on.and_then(|path| rules.cover(path)).map(|mount| &mount.source) {
            Some(Source::Memory(size, _)) => ("tmp", "bytes in `/tmp` and in `/dev/shm`", *size),
            _ => {
                let remedy = Remedy::Other("make room on the host".into());
                let target = Target::File(on?.to_owned());
                return Some(plain(call, Layer::Limit, target, "the host's disk is full".into(), remedy));
            }
        },
        _ => return None,
    };
    let (rule, more) =
        (format!("the limit `{limit}` is {} {what}", amount(most)), amount(most.saturating_mul(2)));
    let remedy = Remedy::Flag(format!("--limit {limit}={more}"));
    let target = on.map_or_else(|| Target::Other(name(call)), |path| Target::File(path.to_owned()));
    let action = call.files.first().map_or("call", |file| file.want.words());
    // However many files it is hit with, it is one limit.
    Some(Judgement { action, place: limit.into(), ..plain(call, Layer::Limit, target, rule, remedy) })
}

/// An address that is not there.
fn unreachable(call: &Call, peer: &Peer) -> Option<Judgement> {
    let (address, port) = (peer.address.ip(), peer.address.port());
    let is_bind = libc::c_long::from(call.number) == libc::SYS_bind;
    let judged = |rule: &str, remedy: &str| {
        let action = if is_bind { "listen at" } else { "connect to" };
        let target = Target::Other(peer.address.to_string());
        let made = plain(call, Layer::Network, target, rule.into(), Remedy::Other(remedy.into()));
        Some(Judgement { action, ..made })
    };
    match call.error {
        libc::EACCES | libc::EPERM if is_bind && port < 1024 => {
            let made =
                judged("ports below 1024 need a privilege, and nobody inside has one", "use a higher port")?;
            Some(Judgement { layer: Layer::Privilege, ..made })
        }
        libc::ECONNREFUSED if address.is_loopback() && peer.host_listens => judged(
            "the server listens on the host's loopback, and the sandbox has one of its own",
            "start it inside; the host's comes with egress",
        ),
        libc::EADDRNOTAVAIL if is_bind => judged(NO_NETWORK, "listen at 127.0.0.1 or 0.0.0.0"),
        libc::ENETUNREACH
        | libc::EHOSTUNREACH
        | libc::ENETDOWN
        | libc::EADDRNOTAVAIL
        | libc::EACCES
        | libc::EPERM
            if !address.is_loopback() =>
        {
            judged(NO_NETWORK, "`--allow HOST[:PORT]` lets it reach one")
        }
        _ => None,
    }
}

/// A mount, a mask, a wall, or the file's own permissions.
fn of_file(call: &Call, file: &File, rules: &Rules<'_>) -> Option<Judgement> {
    let path = file.path.as_path();
    let made = |layer, rule: String, remedy, place: &Path| {
        let made = plain(call, layer, Target::File(path.to_owned()), rule, remedy);
        Some(Judgement { action: file.want.words(), place: place.to_owned(), ..made })
    };
    if call.error == libc::ENOENT || call.error == libc::ENOTDIR {
        return not_given(call, file);
    }
    let protected = rules
        .protected(path)
        .filter(|_| file.want.changes() || file.want == Want::Ask && call.error == libc::EROFS);
    if let (Some((name, why)), true) = (protected, is_guarded(call.error)) {
        let rule = format!("`{name}` is protected, because a program of the host acts on it ({why})");
        let remedy =
            Remedy::Other(format!("a profile of your own with `unprotect = [\"{name}\"]` allows it"));
        return made(Layer::Protected, rule, remedy, Path::new(&name));
    }
    if let Some(mask) = rules.mask(path) {
        return match call.error {
            0 if file.want != Want::Read && file.want != Want::Execute => None,
            _ if rules.hides(mask) => {
                let shown = mask.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let rule = format!("files named `{shown}` are hidden by the profile: it looks empty inside");
                made(
                    Layer::Hidden,
                    rule,
                    Remedy::Flag(format!("--show {}", super::words::quoted(&shown))),
                    mask,
                )
            }
            _ if mask.starts_with("/proc") => made(
                Layer::Hidden,
                "it tells of the host and is empty in every sandbox".into(),
                Remedy::Other(NEVER.into()),
                mask,
            ),
            libc::EROFS | libc::EACCES => made(
                Layer::Hidden,
                "it holds credentials and is empty inside".into(),
                Remedy::Other(NEVER.into()),
                mask,
            ),
            _ => None,
        };
    }
    match call.error {
        libc::EROFS => read_only(call, file, rules),
        libc::EACCES => no_access(call, file, rules),
        libc::EPERM if file.want == Want::Own => made(
            Layer::Privilege,
            "there is one user inside, and files stay theirs".into(),
            Remedy::Other(NEVER.into()),
            path,
        ),
        libc::EPERM => {
            let rule = "only its owner may, or the file system forbids it".to_owned();
            made(
                Layer::Permission,
                rule,
                Remedy::Other("the sandbox has no part in it: it is the same outside".into()),
                path,
            )
        }
        libc::EXDEV if file.want == Want::Move => {
            let rule =
                "moving from one mount to another is copying; most programs do that by themselves".to_owned();
            let made = made(Layer::Mount, rule, Remedy::Other("copy and remove".into()), path)?;
            Some(Judgement { weight: Weight::Harmless, ..made })
        }
        _ => None,
    }
}

/// Errors that a mask over a protected name shows itself by.
fn is_guarded(error: i32) -> bool {
    let shown = [
        libc::EROFS,
        libc::EISDIR,
        libc::EEXIST,
        libc::EBUSY,
        libc::EXDEV,
        libc::ENOTEMPTY,
        libc::EACCES,
        libc::EPERM,
    ];
    shown.contains(&error)
}

/// Something that the host has and that was not given.
fn not_given(call: &Call, file: &File) -> Option<Judgement> {
    let (there, missing) = file.absent.as_ref()?;
    let writable = file.want.changes() || file.want == Want::Connect;
    let (remedy, weight) = if is_kernels(there) {
        (Remedy::Other("the sandbox brings its own: nothing gives it".into()), Weight::Harmless)
    } else {
        let weight = if PROBED.iter().any(|probed| there.ends_with(probed)) {
            Weight::Harmless
        } else {
            Weight::Absent
        };
        (Remedy::Give { path: there.clone(), writable }, weight)
    };
    let rule = "it is on the host and was not given".to_owned();
    let made = plain(call, Layer::Mount, Target::File(there.clone()), rule, remedy);
    // Asking to write is no mere look around.
    let weight = if writable && weight == Weight::Absent { Weight::Refused } else { weight };
    Some(Judgement { action: file.want.words(), weight, place: missing.clone(), ..made })
}

/// Trees that no path of the host can stand in for.
fn is_kernels(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|kernel| path.starts_with(kernel))
}

/// A mount that can only be read.
fn read_only(call: &Call, file: &File, rules: &Rules<'_>) -> Option<Judgement> {
    let (path, nearest) = (file.path.as_path(), file.nearest.as_path());
    let is_worktree = rules.cover(path).is_some_and(|mount| mount.at == rules.worktree);
    let remedy = if is_worktree {
        Remedy::Flag("--profile dev".into())
    } else if is_kernels(path) || nearest.parent().is_none() {
        Remedy::Other("write to the worktree, the home or `/tmp` instead".into())
    } else if let Some(node) = file.node.filter(|node| !rules.would_allow(node, file.want)) {
        let (named, mode) = (rules.named(nearest), node.mode & 0o7777);
        Remedy::Other(format!(
            "`--rw {named}` alone would not do: its owner ({}) and mode ({mode:o}) refuse it too",
            node.owner
        ))
    } else {
        Remedy::Give { path: nearest.to_owned(), writable: true }
    };
    let made = plain(call, Layer::Mount, Target::File(path.to_owned()), rules.describe(path), remedy);
    // Whether it could be written was only asked.
    let weight = if file.want == Want::Ask { Weight::Harmless } else { Weight::Refused };
    let place = path.parent().unwrap_or(path).to_owned();
    Some(Judgement { action: file.want.words(), weight, place, ..made })
}

/// Owner and mode, a mount without programs, or Landlock: in the order in which the kernel asks.
fn no_access(call: &Call, file: &File, rules: &Rules<'_>) -> Option<Judgement> {
    let path = file.path.as_path();
    let made = |layer, rule: String, remedy| {
        let weight = if file.want == Want::Ask { Weight::Harmless } else { Weight::Refused };
        let made = plain(call, layer, Target::File(path.to_owned()), rule, remedy);
        Some(Judgement { action: file.want.words(), weight, ..made })
    };
    let cover = rules.cover(path);
    let is_read_only = cover.is_some_and(|mount| mount.access == Access::Read);
    // What is given to be written is theirs, and what is only shown is not: the mount is what keeps them from it.
    if is_read_only
        && file.want.changes()
        && file.node.is_some_and(|node| rules.would_allow(&node, file.want))
    {
        return read_only(call, file, rules);
    }
    if file.want == Want::Execute && cover.is_some_and(|mount| !mount.programs) {
        let at = cover.map(|mount| mount.at.display().to_string()).unwrap_or_default();
        let rule = format!("nothing can be started from `{at}`");
        return made(Layer::Mount, rule, Remedy::Other("put it into the worktree or `/tmp`".into()));
    }
    if let Some(node) = file.node.filter(|node| !rules.mode_allows(node, file.want)) {
        let whose = match rules.plan.identity.owns {
            Some(_) => {
                "inside nobody is root, and it is readable or writable for others only as its mode says"
            }
            None => "it is the same outside",
        };
        let also = if is_read_only && file.want.changes() {
            format!("; besides, {}", rules.describe(path))
        } else {
            String::new()
        };
        let rule = format!("its owner ({}) and mode ({:o}) refuse it{also}", node.owner, node.mode & 0o7777);
        return made(Layer::Permission, rule, Remedy::Other(format!("{whose}; change its mode on the host")));
    }
    if !rules.wall_allows(path, file.want) {
        let rule = "no Landlock rule of the plan allows it there".to_owned();
        let remedy = match file.nearest.parent() {
            Some(_) if !is_kernels(path) && file.nearest == path => {
                Remedy::Give { path: path.to_owned(), writable: file.want.changes() }
            }
            _ => Remedy::Other("use the worktree, the home or `/tmp` instead".into()),
        };
        return made(Layer::Landlock, rule, remedy);
    }
    let rule = "a directory above it, or a list of access rights, refuses it; no wall of the sandbox does"
        .to_owned();
    made(Layer::Permission, rule, Remedy::Other("look at the directories above it on the host".into()))
}

/// What only a privilege allows.
fn unprivileged(call: &Call) -> Option<Judgement> {
    let number = libc::c_long::from(call.number);
    let (rule, remedy) = match (call.error, number) {
        (libc::EPERM, libc::SYS_ptrace) => (
            "what is explained is traced already, and only one can trace",
            "without `--explain` debuggers work where the profile allows tracing",
        ),
        (libc::EPERM, libc::SYS_kill | libc::SYS_tkill | libc::SYS_tgkill | libc::SYS_pidfd_send_signal) => {
            ("process 1 of the sandbox takes no signals from inside", NEVER)
        }
        (
            libc::EPERM | libc::EINVAL,
            libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setgroups,
        ) => ("there is one user inside, and nobody can become another", NEVER),
        (
            libc::EPERM | libc::EACCES,
            libc::SYS_setrlimit
            | libc::SYS_prlimit64
            | libc::SYS_setpriority
            | libc::SYS_sched_setscheduler
            | libc::SYS_sched_setattr
            | libc::SYS_sched_setparam
            | libc::SYS_ioprio_set
            | libc::SYS_mlock
            | libc::SYS_mlockall
            | libc::SYS_capset
            | libc::SYS_prctl,
        ) => ("it needs a privilege, and nobody inside has one", "limits can be set with `--limit`"),
        _ => return None,
    };
    let target = Target::Other(name(call));
    Some(plain(call, Layer::Privilege, target, rule.into(), Remedy::Other(remedy.into())))
}
