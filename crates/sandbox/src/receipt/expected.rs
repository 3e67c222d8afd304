//! What a plan says must hold: the same facts as [`super::Facts`], before anything was started.
//!
//! Equal shape, plain values. Only namespaces differ: nobody knows the inode of one that does not exist yet, so the
//! plan says which inode of the launcher it must not be.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{Binary, CapSet, Digest, Limit, Mounts, Network, Stream};

/// What must be found, or the launch is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the one of the same name in `Facts`")]
pub struct Expected {
    pub host_uid: u32,
    pub host_gid: u32,
    pub inside_uid: u32,
    pub namespaces: PlannedNamespaces,
    pub mounts: Mounts,
    pub landlock: PlannedLandlock,
    pub seccomp: PlannedSeccomp,
    pub no_new_privs: bool,
    pub capabilities: PlannedCapabilities,
    pub limits: BTreeMap<String, Limit>,
    pub binary: Binary,
    pub streams: PlannedStreams,
    pub network: Network,
}

/// What a namespace must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedNamespace {
    /// One of the sandbox's own: another one than the launcher's, which has this inode.
    Own {
        /// The launcher's.
        not: u64,
    },
    /// The one with this inode.
    This(u64),
}

/// The seven namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the one of the same name in `Namespaces`")]
pub struct PlannedNamespaces {
    pub user: PlannedNamespace,
    pub mount: PlannedNamespace,
    pub pid: PlannedNamespace,
    pub network: PlannedNamespace,
    pub ipc: PlannedNamespace,
    pub uts: PlannedNamespace,
    pub cgroup: PlannedNamespace,
}

/// What Landlock must enforce.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the one of the same name in `Landlock`")]
pub struct PlannedLandlock {
    pub abi: u32,
    pub handled: BTreeSet<String>,
    pub scopes: BTreeSet<String>,
}

/// The system call filter that must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the one of the same name in `Seccomp`")]
pub struct PlannedSeccomp {
    pub filter: Digest,
    pub mode: u32,
    pub filters: u32,
}

/// The five capability sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the one of the same name in `Capabilities`")]
pub struct PlannedCapabilities {
    pub inheritable: CapSet,
    pub permitted: CapSet,
    pub effective: CapSet,
    pub bounding: CapSet,
    pub ambient: CapSet,
}

impl PlannedCapabilities {
    /// None at all, which is what every sandbox has.
    pub const NONE: Self = Self {
        inheritable: CapSet(0),
        permitted: CapSet(0),
        effective: CapSet(0),
        bounding: CapSet(0),
        ambient: CapSet(0),
    };
}

/// What the three standard streams must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the one of the same name in `Streams`")]
pub struct PlannedStreams {
    pub stdin: Stream,
    pub stdout: Stream,
    pub stderr: Stream,
}
