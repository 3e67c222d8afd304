//! What one sandbox is to have, and nothing else.
//!
//! Flow: [`Spec::closed`] allows nothing; its methods add what a profile and a person gave; [`Spec::plan`] says
//! how this kernel will enforce it. Invariant: every path here is absolute and free of links, because the inside
//! follows none. Not here: reading profiles ([`crate::profile`]).

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::begun::Begun;
use crate::capture::Captured;
use crate::filter::Tracing;
use crate::groups::Wanted;
use crate::plan::{Access, Added, Identity, Limited, Mount, Part, Plan, ProcessLimit, Source};
use crate::profile::{Entry, Found};
use crate::receipt::RunId;
use crate::{files, homes, sys};

/// The first of the users that nobody has: sandboxes made by root run as one of these.
pub(crate) const FIRST_OWN_USER: u32 = 0x7000_0000;

/// Why a sandbox cannot be made as it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Unenforceable {
    /// The kernel has no Landlock, or it is switched off.
    #[error("{}", crate::doctor::no_landlock())]
    Landlock,
    /// A path cannot be used.
    #[error("`{0}`: {1}")]
    Path(PathBuf, #[source] std::io::Error),
    /// The directory holds what must stay outside.
    #[error(
        "`{0}` would give the sandbox {1}; start in the directory of a project, or give less with `--rw`"
    )]
    TooWide(PathBuf, &'static str),
    /// The repository cannot be kept apart.
    #[error(transparent)]
    Git(#[from] crate::repo::Unusable),
}

/// A place of the host, and where it is inside.
#[derive(Clone, Debug)]
struct Place {
    host: PathBuf,
    at: PathBuf,
    access: Access,
    within: Option<PathBuf>,
}

/// What one sandbox is to have.
#[derive(Clone, Debug)]
pub struct Spec {
    command: Vec<OsString>,
    directory: PathBuf,
    home: PathBuf,
    places: Vec<Place>,
    environment: Vec<(OsString, OsString)>,
    limits: Vec<ProcessLimit>,
    memory: u64,
    tracing: Tracing,
    user: String,
    more: Vec<Mount>,
    /// Certificates in the place of the host's; they last as long as the network.
    trust: Vec<Mount>,
    wanted: Wanted,
    requires_groups: bool,
    wall: Option<std::time::Duration>,
    added: Option<Added>,
    left_out: Vec<Part>,
    files: Vec<(PathBuf, Vec<u8>)>,
    captured: Option<Captured>,
}

impl Spec {
    /// Allows nothing but the system's programs, read-only, and a directory to stand in.
    #[must_use]
    pub fn closed(command: Vec<OsString>, directory: PathBuf) -> Self {
        Self {
            command,
            directory,
            home: PathBuf::from("/home/agent"),
            places: Vec::new(),
            environment: Vec::new(),
            limits: Vec::new(),
            memory: 64 << 20,
            tracing: Tracing::Refused,
            user: "agent".into(),
            more: Vec::new(),
            trust: Vec::new(),
            wanted: Wanted::default(),
            requires_groups: false,
            wall: None,
            added: None,
            left_out: Vec::new(),
            files: Vec::new(),
            captured: None,
        }
    }

    /// Shows a place of the host, read-only.
    #[must_use]
    pub fn read(mut self, path: PathBuf) -> Self {
        self.places.push(Place { host: path.clone(), at: path, access: Access::Read, within: None });
        self
    }

    /// Shows a place of the host, writable.
    #[must_use]
    pub fn write(mut self, path: PathBuf) -> Self {
        self.places.push(Place { host: path.clone(), at: path, access: Access::Write, within: None });
        self
    }

    /// Gives what a profile names, without following links that somebody else could have put on the way.
    pub(crate) fn entry(mut self, entry: &Entry, access: Access) -> Self {
        let (host, within) = (entry.path.clone(), Some(entry.within.clone()));
        self.places.push(Place { at: host.clone(), host, access, within });
        self
    }

    /// A directory of the host as the home inside, at `at`.
    #[must_use]
    pub fn home(self, host: PathBuf, at: PathBuf) -> Self {
        self.home_within(host, None, at)
    }

    /// The same, found beneath a directory without following a link.
    #[must_use]
    pub(crate) fn home_entry(self, entry: &Entry, at: PathBuf) -> Self {
        self.home_within(entry.path.clone(), Some(entry.within.clone()), at)
    }

    fn home_within(mut self, host: PathBuf, within: Option<PathBuf>, at: PathBuf) -> Self {
        self.places.push(Place { host, at: at.clone(), access: Access::Write, within });
        self.home = at;
        self
    }

    /// The name of the user inside.
    #[must_use]
    pub fn user(mut self, name: String) -> Self {
        self.user = name;
        self
    }

    /// A variable of the environment; the last one of a name counts.
    #[must_use]
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let name = name.into();
        // What two of one name mean differs from program to program.
        self.environment.retain(|(before, _)| *before != name);
        self.environment.push((name, value.into()));
        self
    }

    /// Lets processes inside trace their own children.
    #[must_use]
    pub fn tracing(mut self) -> Self {
        self.tracing = Tracing::Own;
        self
    }

    /// The most that a process may have of something.
    #[must_use]
    pub(crate) fn limit(mut self, of: Limited, most: u64) -> Self {
        self.limits.push(ProcessLimit { of, most });
        self
    }

    /// The size of `/tmp` and of `/dev/shm`, in bytes.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Leaves a part out because a person said so: what is missing is then no reason to refuse.
    #[must_use]
    pub fn without(mut self, part: Part) -> Self {
        if !self.left_out.contains(&part) {
            self.left_out.push(part);
        }
        self
    }

    /// How long it may run; without one, as long as it likes.
    #[must_use]
    pub fn wall(mut self, wall: Option<std::time::Duration>) -> Self {
        self.wall = wall;
        self
    }

    /// The most that it may add on disk, in bytes and in files and directories.
    #[must_use]
    pub fn added(mut self, bytes: u64, inodes: u64) -> Self {
        self.added = Some(Added { bytes, inodes });
        self
    }

    /// Leads what it sends to sockets that whoever launches it holds ([`Held::sockets`](crate::Held::sockets)): questions
    /// for names, and connections to addresses that stand for names or are listed here.
    #[must_use]
    pub fn captured(mut self, listed: Vec<std::net::IpAddr>) -> Self {
        self.captured = Some(Captured { listed, ..self.captured.unwrap_or_default() });
        self
    }

    /// The same, and whoever launches it can connect to what listens on its loopback
    /// ([`Sockets::ways_in`](crate::capture::Sockets::ways_in)).
    #[must_use]
    pub fn entered(mut self) -> Self {
        self.captured = Some(Captured { ways_in: true, ..self.captured.unwrap_or_default() });
        self
    }

    /// Limits that count all processes together.
    pub(crate) fn together(mut self, wanted: Wanted, required: bool) -> Self {
        self.wanted = wanted;
        self.requires_groups = required;
        self
    }

    /// The places of the host that can be read inside where they are outside, besides what every sandbox has.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Path> {
        let read = self.places.iter().filter(|place| place.access == Access::Read && place.host == place.at);
        read.map(|place| place.at.as_path())
    }

    /// Further mounts, as they are.
    pub(crate) fn mounts(mut self, mounts: Vec<Mount>) -> Self {
        self.more.extend(mounts);
        self
    }

    /// Covers over hidden files, and their directories mounted on themselves where they could be moved: a directory that
    /// was moved to `node_modules`, or into it, would not be searched by the next run.
    pub(crate) fn covers(self, covers: Vec<Mount>) -> Self {
        // Most lie in a place itself, which has a mount on it.
        let is_place = |above: &Path| self.places.iter().any(|place| place.at == above);
        if covers.iter().all(|cover| cover.at.parent().is_some_and(is_place)) {
            return self.mounts(covers);
        }
        // What can be written at each place, and where it comes from; none: nothing can be moved there.
        let mut known: HashMap<PathBuf, Option<(PathBuf, PathBuf)>> = HashMap::new();
        for place in &self.places {
            let from = || (place.host.clone(), place.within.clone().unwrap_or_else(|| place.host.clone()));
            known.insert(place.at.clone(), (place.access == Access::Write).then(from));
        }
        for mount in &self.more {
            let from = match (&mount.source, mount.access) {
                (Source::Host(host), Access::Write) => {
                    Some((host.clone(), mount.within.clone().unwrap_or_else(|| host.clone())))
                }
                _ => None,
            };
            known.insert(mount.at.clone(), from);
        }
        let mut kept = Vec::new();
        for cover in &covers {
            let over =
                cover.at.ancestors().skip(1).find_map(|above| Some((above, known.get(above)?.clone())));
            let Some((over, Some((host, within)))) = over else { continue };
            let between: Vec<&Path> =
                cover.at.ancestors().skip(1).take_while(|above| *above != over).collect();
            for above in between {
                let own = host.join(above.strip_prefix(over).unwrap_or(above));
                let mut mount = Mount::host(own.clone(), above, Access::Write);
                (mount.owned, mount.within) = (true, Some(within.clone()));
                known.insert(above.to_owned(), Some((own, within.clone())));
                kept.push(mount);
            }
        }
        self.mounts(kept).mounts(covers)
    }

    /// The same for certificates that a network needs.
    pub(crate) fn certificates(mut self, mounts: Vec<Mount>) -> Self {
        self.trust.extend(mounts);
        self
    }

    /// A small file of the sandbox's own, read-only.
    pub(crate) fn file(mut self, at: impl Into<PathBuf>, bytes: Vec<u8>) -> Self {
        self.files.push((at.into(), bytes));
        self
    }

    /// The parts that are left out.
    pub(crate) fn left_out(&self) -> &[Part] {
        &self.left_out
    }

    /// The same bounds for another command, which knows nothing of the caller's variables and has these mounts and no others.
    pub(crate) fn instead(&self, command: Vec<OsString>, directory: PathBuf, mounts: Vec<Mount>) -> Self {
        let variables = [
            ("PATH", "/usr/bin:/bin"),
            ("LC_ALL", "C"),
            ("TMPDIR", "/tmp"),
            ("GIT_CONFIG_SYSTEM", "/etc/gitconfig"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
        ];
        let environment = variables.map(|(name, value)| (name.into(), value.into())).to_vec();
        let (places, trust) = (Vec::new(), Vec::new());
        Self { command, directory, environment, captured: None, places, more: mounts, trust, ..self.clone() }
    }

    /// A toolchain of the caller's, read-only, without its credentials.
    pub(crate) fn toolchain(mut self, found: &Found) -> Self {
        self.places.push(Place {
            host: found.host.clone(),
            at: found.mount.clone(),
            access: Access::Read,
            within: None,
        });
        for path in &found.without {
            if found.host.join(path.strip_prefix(&found.mount).unwrap_or(path)).exists() {
                self.more.push(Mount { programs: false, ..Mount::own(Source::Nothing, path, Access::Read) });
            }
        }
        self
    }

    /// How this kernel will enforce it.
    ///
    /// # Errors
    /// When a required layer is missing, or a path cannot be given.
    pub fn plan(self, run: RunId) -> Result<Plan, Unenforceable> {
        let identity = identity_for(self.owner()?, 0);
        self.plan_as(run, identity, files::base().mounts)
    }

    /// The same for a sandbox that is begun.
    ///
    /// # Errors
    /// As [`Spec::plan`].
    pub fn plan_for(self, run: RunId, begun: &Begun) -> Result<Plan, Unenforceable> {
        let owns = begun.identity().owns.map(|_| self.owner()).transpose()?;
        self.plan_as(run, Identity { owns, ..begun.identity().clone() }, begun.base().to_vec())
    }

    /// The same for processes that already are somebody, over what every sandbox has.
    pub(crate) fn plan_as(
        self,
        run: RunId,
        identity: Identity,
        base: Vec<Mount>,
    ) -> Result<Plan, Unenforceable> {
        let landlock = match sys::landlock::version() {
            Some(version) => version,
            None if self.left_out.contains(&Part::Landlock) => 0,
            None => return Err(Unenforceable::Landlock),
        };
        let mut mounts = vec![
            memory("/tmp", self.memory),
            memory("/var/tmp", self.memory),
            memory("/dev/shm", self.memory),
        ];
        for place in &self.places {
            let mut mount = Mount::host(&place.host, &place.at, place.access);
            mount.owned = place.access == Access::Write;
            mount.within = place.within.clone();
            mounts.push(mount);
        }
        mounts.extend(self.more.iter().chain(&self.trust).cloned());
        for mount in &mut mounts {
            mount.at = mount.at.components().collect();
        }
        // What is above is mounted before what is below; equal places in the order in which they were given.
        mounts.sort_by_cached_key(|mount| mount.at.components().count());
        for mount in &mounts {
            if let Source::Layer(layer) = &mount.source {
                let failed = |error| Unenforceable::Path(layer.changes.clone(), error);
                crate::changes::hand_over(layer, &identity).map_err(failed)?;
            }
        }
        if let Some(own) = self.places.iter().find(|place| place.at == self.home) {
            let cleared = homes::clear(&own.host, own.within.as_deref(), &self.home, &mounts);
            cleared.map_err(|error| Unenforceable::Path(own.host.clone(), error.into()))?;
        }
        let mounts = base.into_iter().chain(mounts).collect();
        let mut files = files::made(&identity, &self.user, &self.home);
        files.extend(self.files);
        let search = self.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let environment = lines(self.environment, &self.home);
        Ok(Plan {
            run,
            left_out: self.left_out,
            command: self.command,
            directory: self.directory,
            environment,
            search: search.unwrap_or_default(),
            mounts,
            files,
            identity,
            landlock,
            tracing: self.tracing,
            limits: self.limits,
            together: self.wanted,
            requires_groups: self.requires_groups,
            wall: self.wall,
            added: self.added,
            captured: self.captured,
        })
    }

    /// Whose files are given.
    pub(crate) fn owner(&self) -> Result<(u32, u32), Unenforceable> {
        // The home is ours; the first place after it that can be written is the worktree.
        let written = self.places.iter().find(|place| place.access == Access::Write && place.at != self.home);
        // What is below a layer over the worktree is only read, and is as much theirs.
        let layered = self.more.iter().find(|mount| mount.owned && mount.access == Access::Read);
        let path = layered.map(|mount| mount.at.as_path()).or(written.map(|place| place.host.as_path()));
        let path = path.unwrap_or(&self.directory);
        let owner = std::fs::metadata(path).map_err(|error| Unenforceable::Path(path.to_owned(), error))?;
        Ok((owner.uid(), owner.gid()))
    }
}

/// Variables as a program gets them, with the home among them.
pub(crate) fn lines(variables: Vec<(OsString, OsString)>, home: &Path) -> Vec<OsString> {
    let home = (OsString::from("HOME"), home.as_os_str().to_owned());
    let line = |(mut line, value): (OsString, OsString)| {
        line.push("=");
        line.push(value);
        line
    };
    variables.into_iter().chain([home]).map(line).collect()
}

/// The caller as they are; for root, a user that nobody is, who owns what `owner` owns.
pub(crate) fn identity_for(owner: (u32, u32), which: u32) -> Identity {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if user != 0 {
        return Identity { host_user: user, host_group: group, user, group, owns: None };
    }
    let own = rustix::process::getpid().as_raw_pid().unsigned_abs().wrapping_mul(31).wrapping_add(which);
    let own = FIRST_OWN_USER + (own & 0x00ff_ffff);
    Identity { host_user: own, host_group: own, user: 1000, group: 1000, owns: Some(owner) }
}

fn memory(at: &str, size: u64) -> Mount {
    Mount::own(Source::Memory(size, 0o1777), at, Access::Write)
}
