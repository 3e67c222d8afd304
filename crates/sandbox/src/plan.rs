//! What will be made for one sandbox, in full, before anything is made.
//!
//! Flow: [`Spec`](crate::Spec) -> [`Plan`], a list of mounts, links, files and rules in the order in which they
//! are made. Invariant: what is not in the plan does not exist inside. Not here: how it is made
//! ([`crate::inside`], [`crate::launch`]).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::filter::Tracing;
use crate::groups::Wanted;
use crate::raw;
use crate::receipt::RunId;
use crate::sys;

/// What a mount shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// A file or directory of the host.
    Host(#[serde(with = "raw")] PathBuf),
    /// New memory of at most so many bytes, with this mode.
    Memory(u64, u32),
    /// The processes of this sandbox.
    Processes,
    /// The terminals of this sandbox.
    Terminals,
    /// Nothing: hides the file or directory that is there.
    Nothing,
    /// A private layer over what was mounted at this place before, and over `stubs` first; changes go to the layer.
    Layer(Layer),
    /// A part of the layer at this place: what is at a path in it, without following a link.
    Part {
        #[serde(with = "raw")]
        layer: PathBuf,
        path: PathBuf,
    },
    /// Empty directories (true) and files at these paths, to be covered by parts of what is below, and nothing else.
    Skeleton(Vec<(PathBuf, bool)>),
}

/// Where the changes of a private layer go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layer {
    /// What covers the place from above: names that must not be planted.
    #[serde(with = "raw::maybe")]
    pub(crate) stubs: Option<PathBuf>,
    /// Changes, and room for making them; both on one file system, empty at first.
    #[serde(with = "raw")]
    pub(crate) changes: PathBuf,
    #[serde(with = "raw")]
    pub(crate) work: PathBuf,
}

/// What may be done with what is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Access {
    /// Read and execute.
    Read,
    /// Everything.
    Write,
    /// Read and write, as a device.
    Device,
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mount {
    pub(crate) source: Source,
    #[serde(with = "raw")]
    pub(crate) at: PathBuf,
    pub(crate) access: Access,
    /// Whether the owner of the files is shown as the user inside (only with an unprivileged user of its own).
    #[serde(default, skip_serializing_if = "is_usual::<false>")]
    pub(crate) owned: bool,
    /// Whether programs may be started from it.
    #[serde(default = "usual::<true>", skip_serializing_if = "is_usual::<true>")]
    pub(crate) programs: bool,
    /// A directory of the host beneath which the source is found without following any link; none: as it is named.
    #[serde(default, with = "raw::maybe", skip_serializing_if = "Option::is_none")]
    pub(crate) within: Option<PathBuf>,
    /// Whether every sandbox has it, so that it may be there already.
    #[serde(default, skip_serializing_if = "is_usual::<false>")]
    pub(crate) base: bool,
    /// Whether the mount can be written although the plan says it is only to be read: one wall left out.
    #[serde(default, skip_serializing_if = "is_usual::<false>")]
    pub(crate) writable_anyway: bool,
}

/// What most mounts say is left out where a plan is handed over: each start waits for that.
fn usual<const VALUE: bool>() -> bool {
    VALUE
}

fn is_usual<const VALUE: bool>(value: &bool) -> bool {
    *value == VALUE
}

impl Mount {
    pub(crate) fn host(path: impl Into<PathBuf>, at: impl Into<PathBuf>, access: Access) -> Self {
        Self::own(Source::Host(path.into()), at, access)
    }

    pub(crate) fn own(source: Source, at: impl Into<PathBuf>, access: Access) -> Self {
        let (owned, programs, base, writable_anyway) = (false, true, false, false);
        Self { source, at: at.into(), access, owned, programs, within: None, base, writable_anyway }
    }

    /// The attributes that it gets.
    pub(crate) fn attributes(&self) -> u64 {
        let write = if self.access == Access::Read && !self.writable_anyway { sys::READ_ONLY } else { 0 };
        let devices = if self.access == Access::Device { 0 } else { sys::NO_DEVICES };
        let programs = if self.programs { 0 } else { sys::NO_EXEC };
        write | devices | programs | sys::NO_SUID
    }
}

/// Whether one place of a plan lies below another. Places of plans are absolute and have no needless parts, so bytes
/// tell; a plan has many of them, and each is compared with each.
pub(crate) fn is_below(path: &Path, above: &Path) -> bool {
    let (path, above) = (path.as_os_str().as_bytes(), above.as_os_str().as_bytes());
    let rest = path.strip_prefix(above).unwrap_or_default();
    rest.first() == Some(&b'/') || (above == b"/" && !rest.is_empty())
}

/// Who the processes inside are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// As the host's kernel sees them.
    pub(crate) host_user: u32,
    pub(crate) host_group: u32,
    /// As they see themselves.
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Whose files they own inside, when that is not the host user itself: needs root.
    pub(crate) owns: Option<(u32, u32)>,
}

/// What one process has a limit of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Limited {
    Files,
    FileSize,
    Processes,
    Core,
    /// Priorities before which everyone else waits.
    Realtime,
    /// Priorities above the usual one.
    Nice,
}

impl Limited {
    pub(crate) fn resource(self) -> rustix::process::Resource {
        match self {
            Self::Files => rustix::process::Resource::Nofile,
            Self::FileSize => rustix::process::Resource::Fsize,
            Self::Processes => rustix::process::Resource::Nproc,
            Self::Core => rustix::process::Resource::Core,
            Self::Realtime => rustix::process::Resource::Rtprio,
            Self::Nice => rustix::process::Resource::Nice,
        }
    }
}

/// A limit of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessLimit {
    pub(crate) of: Limited,
    pub(crate) most: u64,
}

/// What may be added on disk by all processes together, in places of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Added {
    pub(crate) bytes: u64,
    /// Files and directories.
    pub(crate) inodes: u64,
}

/// Everything about one sandbox that is still to be made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub(crate) run: RunId,
    pub(crate) left_out: Vec<Part>,
    #[serde(with = "raw::all")]
    pub(crate) command: Vec<OsString>,
    #[serde(with = "raw")]
    pub(crate) directory: PathBuf,
    #[serde(with = "raw::all")]
    pub(crate) environment: Vec<OsString>,
    /// Where the program is looked for.
    #[serde(with = "raw")]
    pub(crate) search: OsString,
    /// In the order in which they are made: what is above before what is below.
    pub(crate) mounts: Vec<Mount>,
    /// Small files of the sandbox's own, read-only.
    #[serde(with = "raw::files")]
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
    pub(crate) identity: Identity,
    pub(crate) landlock: u32,
    pub(crate) tracing: Tracing,
    pub(crate) limits: Vec<ProcessLimit>,
    pub(crate) together: Wanted,
    /// Whether limits that count all processes together must hold, or the launch is refused.
    pub(crate) requires_groups: bool,
    /// How long it may run.
    pub(crate) wall: Option<std::time::Duration>,
    /// What it may add on disk.
    pub(crate) added: Option<Added>,
    /// Whether what it sends is led to sockets that are held outside, and how.
    pub(crate) captured: Option<crate::capture::Captured>,
}

/// A part that can be left out on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// The second wall.
    Landlock,
    /// The filter of system calls.
    Seccomp,
    /// That what is only to be read is mounted read-only.
    ReadOnly,
    /// That no set-user-id program gives privileges.
    NoNewPrivs,
}

impl Part {
    /// As written on the command line and in reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::ReadOnly => "read_only",
            Self::NoNewPrivs => "no_new_privs",
        }
    }
}

impl Plan {
    /// The same plan without a part: what a degraded run does, and what tests compare with. It is in the receipt.
    #[must_use]
    pub fn without(mut self, part: Part) -> Self {
        if part == Part::ReadOnly {
            for mount in &mut self.mounts {
                mount.writable_anyway = matches!(mount.source, Source::Host(_));
            }
        }
        self.left_out.push(part);
        self
    }

    /// What was left out on purpose, for the receipt; empty in the normal case.
    #[must_use]
    pub fn left_out(&self) -> &[Part] {
        &self.left_out
    }

    /// The mounts that this plan adds to what every sandbox has.
    pub(crate) fn own_mounts(&self) -> impl Iterator<Item = &Mount> {
        self.mounts.iter().filter(|mount| !mount.base)
    }

    pub(crate) fn has(&self, part: Part) -> bool {
        !self.left_out.contains(&part)
    }

    /// The rules of the second wall: where, and what for. What lies in a place that allows as much needs none.
    pub(crate) fn rules(&self) -> Vec<(&Path, Access)> {
        // What is below a cut is out of sight: only what stands on top of it counts. Few plans have one.
        let cuts = |mount: &&Mount| matches!(mount.source, Source::Part { .. } | Source::Skeleton(_));
        let cuts: Vec<(usize, &Path)> = (self.mounts.iter().enumerate())
            .filter(|(_, mount)| cuts(mount))
            .map(|(place, mount)| (place, mount.at.as_path()))
            .collect();
        let is_cut = |place: usize, at: &Path| cuts.iter().any(|(later, cut)| *later > place && *cut == at);
        let made = self
            .mounts
            .iter()
            .enumerate()
            .filter(|(place, mount)| mount.source != Source::Nothing && !is_cut(*place, &mount.at));
        let made = made.map(|(_, mount)| (mount.at.as_path(), mount.access));
        let all: Vec<(&Path, Access)> = made.chain([(Path::new("/etc"), Access::Read)]).collect();
        let (devices, others): (Vec<_>, Vec<_>) =
            all.iter().copied().partition(|(_, access)| *access == Access::Device);
        let mut rules: Vec<(&Path, Access)> = Vec::new();
        for (at, access) in others {
            let covers = |(above, allowed): &(&Path, Access)| {
                is_below(at, above) && (*allowed == Access::Write || *allowed == access)
            };
            if !all.iter().any(covers) && !rules.contains(&(at, access)) {
                rules.push((at, access));
            }
        }
        rules.extend(devices);
        rules
    }
}
