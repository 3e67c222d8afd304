//! Reads from the kernel what really holds around process 1, and says what the plan wanted to hold.
//!
//! Flow: [`Held`] -> [`Facts`] (measured outside, where the sandbox cannot lie) and [`Expected`] ->
//! [`receipt::compare`](crate::receipt::compare). Invariant: a fact is `measured` only if the kernel gave it back;
//! what it merely accepted is `applied`. Not here: comparing, signing, recording.

mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::{Mode, OFlags};
use sha2::Digest as _;

use crate::filter::Filter;
use crate::groups::Groups;
use crate::launch::Held;
use crate::line::Line;
use crate::plan::{Limited, Part, Plan};
use crate::receipt::{
    Binary, CapSet, Capabilities, Digest, Enforcement, Expected, Facts, Landlock, Limit, Measured,
    Namespaces, Network, PlannedCapabilities, PlannedLandlock, PlannedNamespace, PlannedNamespaces,
    PlannedSeccomp, PlannedStreams, Seccomp, Stream, Streams,
};
use crate::standard::Kind;
use crate::wall;

pub(crate) use self::table::Table;

/// Above this size the hash of a program is remembered on disk.
const SMALL: u64 = 512 * 1024;

/// What was found, and what was to be found.
#[derive(Debug)]
pub struct Account {
    /// What was found.
    pub facts: Facts,
    /// What was planned.
    pub expected: Expected,
}

impl Held {
    /// Measures the sandbox. `remembered` is a directory of the caller's own for hashes of large programs.
    ///
    /// # Errors
    /// When the kernel does not tell; the launch must then be refused.
    pub fn measure(&self, remembered: &Path) -> io::Result<Account> {
        let Self { plan, tree, standard, groups, table, .. } = self;
        let (kinds, host) = (standard.kinds, &standard.host);
        let (pid, table, program, takes, watches) = (tree.pid, table.as_ref(), None, None, true);
        Measuring { plan, pid, groups, kinds, host, table, program, takes, watches }.measure(Some(remembered))
    }
}

/// A sandbox that stands, to be measured.
#[derive(Clone, Copy)]
pub(crate) struct Measuring<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) pid: rustix::process::Pid,
    pub(crate) groups: &'a Groups,
    pub(crate) kinds: [Kind; 3],
    pub(crate) host: &'a [OwnedFd; 3],
    /// Its mounts, if they were looked at before.
    pub(crate) table: Option<&'a Table>,
    /// What it will start, if process 1 was not begun with it.
    pub(crate) program: Option<&'a Path>,
    /// Where process 1 will say that it has its three descriptors, if it is still taking them.
    pub(crate) takes: Option<&'a Line>,
    /// Whether the launcher looks after limits that the kernel does not.
    pub(crate) watches: bool,
}

impl Measuring<'_> {
    /// Everything that the kernel tells, and what was planned.
    pub(crate) fn measure(&self, remembered: Option<&Path>) -> io::Result<Account> {
        let process = Process::of(self.pid)?;
        let status = process.text("status")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(str::trim).ok_or_else(|| strange(name))
        };
        let number = |name: &str| {
            let first = field(name)?.split_whitespace().next().and_then(|text| text.parse::<u32>().ok());
            first.ok_or_else(|| strange(name))
        };
        let set = |name: &str| {
            let bits = u64::from_str_radix(field(name)?, 16).map_err(|_| strange(name))?;
            Ok::<_, io::Error>(Measured::read(CapSet(bits)))
        };
        let capabilities = Capabilities {
            inheritable: set("CapInh")?,
            permitted: set("CapPrm")?,
            effective: set("CapEff")?,
            bounding: set("CapBnd")?,
            ambient: set("CapAmb")?,
        };
        let read;
        let table = match self.table.filter(|table| table.holds()) {
            Some(known) => known,
            None => {
                read = Table::read(&process, self.plan)?;
                &read
            }
        };
        let (own_namespaces, own_filters) = own()?;
        let (limits, planned_limits) = limits(self, &process)?;
        let binary = process.binary(self.program, remembered)?;
        let plan = self.plan;
        let filter = filter(plan);
        let network = match (process.network()?, &plan.captured) {
            // That it has no other device was read; that its rules lead everything to us, the kernel only acknowledged.
            (Network::None, Some(_)) => Measured::applied(Network::Captured),
            (read, _) => Measured::read(read),
        };
        let namespaces = process.namespaces()?;
        if let Some(line) = self.takes {
            crate::launch::ready(line).map_err(io::Error::other)?;
        }
        let facts = Facts {
            host_uid: Measured::read(number("Uid")?),
            host_gid: Measured::read(number("Gid")?),
            inside_uid: Measured::read(process.inside_user()?),
            namespaces,
            mounts: Measured::read(table.found),
            landlock: landlock(plan),
            seccomp: Seccomp {
                filter: Measured::applied(filter),
                mode: Measured::read(number("Seccomp")?),
                filters: Measured::read(number("Seccomp_filters")?),
            },
            no_new_privs: Measured::read(number("NoNewPrivs")? == 1),
            capabilities,
            limits,
            binary: Measured::read(binary.clone()),
            streams: process.streams()?,
            network,
        };
        let expected = Expected {
            host_uid: plan.identity.host_user,
            host_gid: plan.identity.host_group,
            inside_uid: plan.identity.user,
            namespaces: planned(own_namespaces),
            mounts: table.planned,
            landlock: {
                let Landlock { abi, handled, scopes } = landlock(plan);
                PlannedLandlock { abi: abi.value, handled: handled.value, scopes: scopes.value }
            },
            seccomp: PlannedSeccomp {
                filter,
                mode: if plan.has(Part::Seccomp) { 2 } else { 0 },
                filters: own_filters + u32::from(plan.has(Part::Seccomp)),
            },
            no_new_privs: true,
            capabilities: PlannedCapabilities::NONE,
            limits: planned_limits,
            binary,
            streams: PlannedStreams { stdin: self.stream(0), stdout: self.stream(1), stderr: self.stream(2) },
            network: if plan.captured.is_some() { Network::Captured } else { Network::None },
        };
        Ok(Account { facts, expected })
    }

    /// What one of the three is to be inside.
    fn stream(&self, number: usize) -> Stream {
        match self.kinds.get(number) {
            Some(Kind::Terminal) => Stream::Pty,
            Some(Kind::Carried) => Stream::Pipe,
            Some(Kind::Passed) => match self.host.get(number).map(rustix::fs::fstat) {
                Some(Ok(found)) if rustix::fs::FileType::from_raw_mode(found.st_mode).is_fifo() => {
                    Stream::Pipe
                }
                _ => Stream::Null,
            },
            None => Stream::Closed,
        }
    }
}

/// This process' own namespaces and filters, which never change.
fn own() -> io::Result<(Namespaces, u32)> {
    static KNOWN: OnceLock<(Namespaces, u32)> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(*known);
    }
    let own = Process::of(rustix::process::getpid())?;
    let found = (own.namespaces()?, own.filters()?);
    Ok(*KNOWN.get_or_init(|| found))
}

/// Reads what does not depend on any sandbox, while something else is waited for.
pub(crate) fn prepare(plan: &Plan) {
    let _ = own();
    let _ = filter(plan);
}

fn strange(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the kernel did not tell `{what}` of process 1"))
}

fn bytes(file: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(8 * 1024);
    loop {
        bytes.reserve(4 * 1024);
        match rustix::io::read(file, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(0) => return Ok(bytes),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Names need not be text; what is planned is compared in the same spelling.
fn text(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(strange) => String::from_utf8_lossy(strange.as_bytes()).into_owned(),
    }
}

/// A process, through its directory in `/proc`.
struct Process(OwnedFd);

impl Process {
    fn of(pid: rustix::process::Pid) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(format!("/proc/{}", pid.as_raw_pid()), flags, Mode::empty())?))
    }

    fn bytes(&self, name: &str) -> io::Result<Vec<u8>> {
        bytes(&self.open(name)?)
    }

    fn open(&self, name: &str) -> io::Result<OwnedFd> {
        Ok(rustix::fs::openat(&self.0, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn text(&self, name: &str) -> io::Result<String> {
        Ok(text(self.bytes(name)?))
    }

    fn link(&self, name: &str) -> rustix::io::Result<std::ffi::CString> {
        rustix::fs::readlinkat(&self.0, name, Vec::with_capacity(64))
    }

    fn filters(&self) -> io::Result<u32> {
        let status = self.text("status")?;
        let count = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
        count.and_then(|text| text.trim().parse().ok()).ok_or_else(|| strange("Seccomp_filters"))
    }

    fn namespace(&self, kind: &str) -> io::Result<Measured<u64>> {
        let link = self.link(&format!("ns/{kind}"))?;
        let text = link.to_str().unwrap_or_default();
        let inode = text.split_once(":[").and_then(|(_, rest)| rest.strip_suffix(']')?.parse().ok());
        inode.map(Measured::read).ok_or_else(|| strange(kind))
    }

    fn namespaces(&self) -> io::Result<Namespaces> {
        Ok(Namespaces {
            user: self.namespace("user")?,
            mount: self.namespace("mnt")?,
            pid: self.namespace("pid")?,
            network: self.namespace("net")?,
            ipc: self.namespace("ipc")?,
            uts: self.namespace("uts")?,
            cgroup: self.namespace("cgroup")?,
        })
    }

    /// The one user that there is inside.
    fn inside_user(&self) -> io::Result<u32> {
        let map = self.text("uid_map")?;
        let mut lines = map.lines();
        let only = (lines.next(), lines.next());
        let (Some(line), None) = only else { return Err(strange("uid_map")) };
        let mut numbers = line.split_whitespace();
        match (numbers.next().and_then(|text| text.parse().ok()), numbers.nth(1)) {
            (Some(inside), Some("1")) => Ok(inside),
            _ => Err(strange("uid_map")),
        }
    }

    /// Whether there is a way out: only the loopback device counts as none.
    fn network(&self) -> io::Result<Network> {
        let devices = self.text("net/dev")?;
        let names =
            devices.lines().skip(2).filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
        match names.into_iter().all(|name| name == "lo") {
            true => Ok(Network::None),
            false => Err(strange("net/dev: more than the loopback device")),
        }
    }

    fn stream(&self, number: u8) -> io::Result<Measured<Stream>> {
        let Ok(link) = self.link(&format!("fd/{number}")) else {
            return Ok(Measured::read(Stream::Closed));
        };
        let text = link.to_string_lossy();
        let stream = match &*text {
            "/dev/null" => Stream::Null,
            text if text.starts_with("pipe:[") => Stream::Pipe,
            text if text.starts_with("socket:[") => Stream::Socket,
            text if text.starts_with("/dev/pts/") => Stream::Pty,
            _ => Stream::File,
        };
        Ok(Measured::read(stream))
    }

    fn streams(&self) -> io::Result<Streams> {
        Ok(Streams { stdin: self.stream(0)?, stdout: self.stream(1)?, stderr: self.stream(2)? })
    }

    /// The program that process 1 will start, as it is inside.
    fn binary(&self, program: Option<&Path>, remembered: Option<&Path>) -> io::Result<Binary> {
        let path = match program {
            Some(path) => path.as_os_str().to_owned(),
            None => {
                let words = self.bytes("cmdline")?;
                let path = words.split(|byte| *byte == 0).nth(1).ok_or_else(|| strange("cmdline"))?;
                OsStr::from_bytes(path).to_owned()
            }
        };
        // A link is followed as the inside would follow it: beneath its root.
        let base = rustix::fs::openat(&self.0, "root", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let raw = Path::new(&path);
        let name = raw.strip_prefix("/").unwrap_or(raw);
        let open = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let beneath = rustix::fs::ResolveFlags::IN_ROOT;
        let file = match rustix::fs::openat2(&base, name, open, Mode::empty(), beneath) {
            Ok(fd) => std::fs::File::from(fd),
            // A program that may be executed and not read has no hash; that it cannot be read is told instead.
            Err(rustix::io::Errno::ACCESS) => {
                let path = raw.to_string_lossy().into_owned();
                return Ok(Binary { path, sha256: Digest([0; 32]) });
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Binary { path: raw.to_string_lossy().into_owned(), sha256: hash(file, remembered)? })
    }
}

/// Hashes of programs that this process saw.
static SEEN: Mutex<BTreeMap<String, Digest>> = Mutex::new(BTreeMap::new());

/// The most of them.
const MOST_SEEN: usize = 1024;

/// The hash of a program. One of the system's own is remembered under what would change with it; a large one also for
/// later processes, if there is a folder for that.
fn hash(file: std::fs::File, remembered: Option<&Path>) -> io::Result<Digest> {
    use std::os::unix::fs::MetadataExt;
    let found = file.metadata()?;
    let key = format!(
        "{:x}-{:x}-{:x}-{:x}.{:x}",
        found.dev(),
        found.ino(),
        found.size(),
        found.ctime(),
        found.ctime_nsec()
    );
    // What somebody can write to may change under its time: a mapping sets that once and is then written to at will.
    let is_read = rustix::fs::fstatvfs(&file)?.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
    let is_fixed = is_read && found.uid() == 0 && found.mode() & 0o022 == 0;
    if !is_fixed {
        return hashed(file);
    }
    let seen = || SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(digest) = seen().get(&key) {
        return Ok(*digest);
    }
    let place = remembered.filter(|_| found.size() > SMALL).map(|folder| (folder, folder.join(&key)));
    let known = place.as_ref().and_then(|(_, place)| std::fs::read_to_string(place).ok());
    let digest = match known.and_then(|text| Digest::try_from(text).ok()) {
        Some(digest) => digest,
        None => {
            let digest = hashed(file)?;
            if let Some((folder, place)) = place {
                // Only a help: without it the next run hashes again.
                let _ = std::fs::create_dir_all(folder);
                let _ = std::fs::write(&place, digest.to_string());
            }
            digest
        }
    };
    let mut seen = seen();
    if seen.len() < MOST_SEEN {
        seen.insert(key, digest);
    }
    Ok(digest)
}

fn hashed(mut file: std::fs::File) -> io::Result<Digest> {
    let (mut hash, mut bytes) = (sha2::Sha256::new(), vec![0u8; 16 * 1024]);
    loop {
        match file.read(&mut bytes) {
            Ok(0) => return Ok(Digest(hash.finalize().into())),
            Ok(got) => hash.update(bytes.get(..got).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn landlock(plan: &Plan) -> Landlock {
    let version = if plan.has(Part::Landlock) { plan.landlock } else { 0 };
    let bits = wall::handled(version);
    let handled =
        (0..).zip(wall::RIGHTS).filter(|(bit, _)| bits & (1 << bit) != 0).map(|(_, name)| name.to_owned());
    let scopes = if wall::scopes(version) == 0 { Vec::new() } else { vec!["abstract_unix_socket", "signal"] };
    Landlock {
        abi: Measured::read(version),
        handled: Measured::applied(handled.collect()),
        scopes: Measured::applied(scopes.into_iter().map(str::to_owned).collect::<BTreeSet<_>>()),
    }
}

fn filter(plan: &Plan) -> Digest {
    if plan.has(Part::Seccomp) { Digest(Filter::of(plan.tracing).1) } else { Digest([0; 32]) }
}

fn planned(own: Namespaces) -> PlannedNamespaces {
    let not = |inode: Measured<u64>| PlannedNamespace::Own { not: inode.value };
    PlannedNamespaces {
        user: not(own.user),
        mount: not(own.mount),
        pid: not(own.pid),
        network: not(own.network),
        ipc: not(own.ipc),
        uts: not(own.uts),
        cgroup: not(own.cgroup),
    }
}

type Limits = BTreeMap<String, Measured<Limit>>;

/// Limits as they hold, and as they were planned.
fn limits(held: &Measuring<'_>, process: &Process) -> io::Result<(Limits, BTreeMap<String, Limit>)> {
    let text = process.text("limits")?;
    let (mut found, mut wanted) = (BTreeMap::new(), BTreeMap::new());
    for limit in &held.plan.limits {
        let (name, line) = match limit.of {
            Limited::Files => ("files", "Max open files"),
            Limited::FileSize => ("file_size", "Max file size"),
            Limited::Processes => ("processes_of_user", "Max processes"),
            Limited::Core => ("core_size", "Max core file size"),
            Limited::Realtime => ("realtime_priority", "Max realtime priority"),
            Limited::Nice => ("nice", "Max nice priority"),
        };
        let row = text.lines().find_map(|row| row.strip_prefix(line)).ok_or_else(|| strange(line))?;
        let mut numbers = row.split_whitespace();
        let hard = numbers.nth(1).and_then(|hard| hard.parse::<u64>().ok());
        let value = hard.ok_or_else(|| strange(line))?;
        found.insert(name.to_owned(), Measured::read(Limit { value, by: Enforcement::Rlimit }));
        // A caller who has less cannot give more.
        let most = rustix::process::getrlimit(limit.of.resource())
            .maximum
            .map_or(limit.most, |own| own.min(limit.most));
        wanted.insert(name.to_owned(), Limit { value: most, by: Enforcement::Rlimit });
    }
    let groups = process.text("cgroup")?;
    // In the group of that very controller, or in that of the version that has them all.
    let is_member = |controller: &str| {
        let fits = |line: &str| {
            let (controllers, place) = line.split_once(':')?.1.split_once(':')?;
            let counts = controllers.is_empty() || controllers.split(',').any(|one| one == controller);
            (counts && place.ends_with(held.groups.name())).then_some(controllers.is_empty())
        };
        let found: Vec<bool> = groups.lines().filter_map(fits).collect();
        found.contains(&false) || (found.contains(&true) && held.groups.is_unified(controller))
    };
    let together = held.plan.together;
    for (name, value) in [("memory", together.memory), ("pids", together.pids), ("cpu", together.cpu)] {
        let Some(value) = value else { continue };
        let holds = is_member(name) && held.groups.holds(name);
        let by = match (holds, name) {
            (true, _) => Enforcement::Enforced,
            (false, "memory") if held.watches => Enforcement::Watched,
            (false, _) => Enforcement::Absent,
        };
        found.insert(name.to_owned(), Measured::read(Limit { value, by }));
        let by = if held.plan.requires_groups { Enforcement::Enforced } else { by };
        wanted.insert(name.to_owned(), Limit { value, by });
    }
    if let Some(io) = together.io {
        // Without it nothing is started, so there is no `watched`.
        let holds = is_member("blkio") && held.groups.holds("io");
        let by = if holds { Enforcement::Enforced } else { Enforcement::Absent };
        found.insert("io".to_owned(), Measured::read(Limit { value: io.bytes, by }));
        wanted.insert("io".to_owned(), Limit { value: io.bytes, by: Enforcement::Enforced });
    }
    for (name, value) in
        held.plan.added.iter().flat_map(|added| [("disk", added.bytes), ("inodes", added.inodes)])
    {
        let limit = Limit { value, by: Enforcement::Watched };
        found.insert(name.to_owned(), Measured::applied(limit));
        wanted.insert(name.to_owned(), limit);
    }
    if let Some(wall) = held.plan.wall {
        let limit = Limit { value: wall.as_secs(), by: Enforcement::Watched };
        found.insert("wall_seconds".to_owned(), Measured::applied(limit));
        wanted.insert("wall_seconds".to_owned(), limit);
    }
    Ok((found, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an agent could write to is hashed every time: its times say nothing about its content.
    #[test]
    fn only_what_nobody_inside_can_write_to_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, vec![7; 600 * 1024]).unwrap();
        let kept = folder.path().join("kept");
        let open = || std::fs::File::open(&path).unwrap();
        assert_eq!(hash(open(), Some(&kept)).unwrap(), hashed(open()).unwrap());
        assert!(!kept.exists(), "a file of the disk that can be written");
    }
}
