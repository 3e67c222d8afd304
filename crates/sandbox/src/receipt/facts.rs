//! The facts about a running sandbox, each with how it is known.
//!
//! Filled by the measuring part from `/proc` and from what the kernel accepted; everything here is plain data.
//! Invariants: sets are ordered and without repetition, hashes and capability sets have one spelling, numbers are
//! whole, so equal facts give equal bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

/// How a fact is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// The kernel told us.
    Measured,
    /// It was tried, and refused.
    Probed,
    /// The kernel took our bytes, and offers no way to read them back.
    Applied,
}

impl How {
    /// The word stored in the receipt.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Probed => "probed",
            Self::Applied => "applied",
        }
    }
}

/// A fact and how it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured<T> {
    /// What was found.
    pub value: T,
    /// How.
    pub how: How,
}

impl<T> Measured<T> {
    /// What the kernel told us.
    pub const fn read(value: T) -> Self {
        Self { value, how: How::Measured }
    }

    /// What was tried and refused.
    pub const fn probed(value: T) -> Self {
        Self { value, how: How::Probed }
    }

    /// What the kernel took from us.
    pub const fn applied(value: T) -> Self {
        Self { value, how: How::Applied }
    }
}

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// The user the processes are on the host.
    pub host_uid: Measured<u32>,
    /// The group they are on the host.
    pub host_gid: Measured<u32>,
    /// The user they think they are.
    pub inside_uid: Measured<u32>,
    /// The namespaces, by inode.
    pub namespaces: Namespaces,
    /// The mount table.
    pub mounts: Measured<Mounts>,
    /// Landlock.
    pub landlock: Landlock,
    /// The system call filter.
    pub seccomp: Seccomp,
    /// Whether no program can gain privileges.
    pub no_new_privs: Measured<bool>,
    /// The capability sets.
    pub capabilities: Capabilities,
    /// Limits, by name.
    pub limits: BTreeMap<String, Measured<Limit>>,
    /// The program that was started.
    pub binary: Measured<Binary>,
    /// What the three standard streams are.
    pub streams: Streams,
    /// What can be reached.
    pub network: Measured<Network>,
}

/// The seven namespaces, by inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Namespaces {
    /// Users and groups.
    pub user: Measured<u64>,
    /// Mounts.
    pub mount: Measured<u64>,
    /// Processes.
    pub pid: Measured<u64>,
    /// Network.
    pub network: Measured<u64>,
    /// System V and POSIX messages.
    pub ipc: Measured<u64>,
    /// Host name.
    pub uts: Measured<u64>,
    /// Control groups.
    pub cgroup: Measured<u64>,
}

/// A mount table in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mounts {
    /// The hash over the normalised table.
    pub sha256: Digest,
    /// How many mounts there are.
    pub count: u32,
}

/// One mount without what differs from run to run: no mount ids, no device numbers, no peer groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MountEntry {
    /// Where it is, as seen inside.
    pub target: String,
    /// The kind of file system.
    pub kind: String,
    /// Which part of that file system is there.
    pub root: String,
    /// `ro`, `nosuid`, `nodev` and the like, of the mount and of the file system.
    pub flags: BTreeSet<String>,
}

impl MountEntry {
    /// What it is besides its place.
    fn words(&self) -> Vec<&str> {
        let Self { target: _, kind, root, flags } = self;
        [kind, root].into_iter().chain(flags).map(String::as_str).collect()
    }
}

impl Mounts {
    /// The table in short. Mounts over each other stay in their order; otherwise the order does not matter.
    #[must_use]
    pub fn over(table: &[MountEntry]) -> Self {
        Self::of_rows(table.iter().map(|mount| (mount.target.as_str(), mount.words())).collect())
    }

    /// The same from what each entry is called and its other words: what it is, its part, its flags in order.
    pub(crate) fn of_rows(mut rows: Vec<(&str, Vec<&str>)>) -> Self {
        rows.sort_by_key(|(target, _)| *target); // stable
        let mut bytes = b"palisade mount table v1\n".to_vec();
        for (target, words) in &rows {
            for text in std::iter::once(target).chain(words) {
                bytes.extend(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
                bytes.extend(text.as_bytes());
            }
            bytes.extend(u64::MAX.to_be_bytes()); // no text is that long: the mount ends here
        }
        let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        Self { sha256: Digest::of(&bytes), count }
    }
}

/// What Landlock was asked to enforce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Landlock {
    /// The kernel's version of it.
    pub abi: Measured<u32>,
    /// The names of the rights that need a rule.
    pub handled: Measured<BTreeSet<String>>,
    /// The names of the scopes that end at the sandbox.
    pub scopes: Measured<BTreeSet<String>>,
}

/// The system call filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seccomp {
    /// The hash over the filters' instructions, in the order in which they were installed.
    pub filter: Measured<Digest>,
    /// The mode: 2 is a filter.
    pub mode: Measured<u32>,
    /// How many filters there are.
    pub filters: Measured<u32>,
}

/// The five capability sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    /// Kept over an exec.
    pub inheritable: Measured<CapSet>,
    /// What may be used.
    pub permitted: Measured<CapSet>,
    /// What is used.
    pub effective: Measured<CapSet>,
    /// What an exec may give.
    pub bounding: Measured<CapSet>,
    /// Kept over an exec of any program.
    pub ambient: Measured<CapSet>,
}

/// A limit and who sees to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// The value, in the unit that the name tells.
    pub value: u64,
    /// Who sees to it.
    pub by: Enforcement,
}

/// Who sees to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforcement {
    /// The kernel, for the whole sandbox.
    Enforced,
    /// The launcher looks now and then.
    Watched,
    /// The kernel, for each process or user.
    Rlimit,
    /// Nobody.
    Absent,
}

impl Enforcement {
    /// The word stored in the receipt.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Watched => "watched",
            Self::Rlimit => "rlimit",
            Self::Absent => "absent",
        }
    }
}

/// A program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binary {
    /// Where it is.
    pub path: String,
    /// The hash of its content.
    pub sha256: Digest,
}

/// What the three standard streams are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Streams {
    /// What is read.
    pub stdin: Measured<Stream>,
    /// What is written.
    pub stdout: Measured<Stream>,
    /// Where errors go.
    pub stderr: Measured<Stream>,
}

/// What a standard stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// `/dev/null`.
    Null,
    /// A pipe.
    Pipe,
    /// A terminal of the sandbox's own.
    Pty,
    /// A file.
    File,
    /// A socket.
    Socket,
    /// Nothing: it is closed.
    Closed,
}

/// What can be reached over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Nothing but the sandbox itself.
    None,
    /// The launcher's proxy: everything that it sends ends there.
    Captured,
}

/// A SHA-256 value; 64 lower-case hex digits in text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The hash of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The hash of what came in pieces.
    pub(crate) fn of_all(pieces: sha2::Sha256) -> Self {
        Self(pieces.finalize().into())
    }
}

/// A set of capabilities as the kernel's bits; 16 lower-case hex digits in text, as in `/proc`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CapSet(pub u64);

/// Why a text is no hash or set of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0} lower-case hex digits")]
pub struct BadHex(usize);

/// One value has one spelling, or a changed case would go unseen.
fn from_hex<const N: usize>(text: &str) -> Result<[u8; N], BadHex> {
    let bad = BadHex(N.saturating_mul(2));
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).map_err(|_| bad)?;
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) { Err(bad) } else { Ok(bytes) }
}

impl TryFrom<String> for Digest {
    type Error = BadHex;

    fn try_from(text: String) -> Result<Self, BadHex> {
        from_hex(&text).map(Self)
    }
}

impl TryFrom<String> for CapSet {
    type Error = BadHex;

    fn try_from(text: String) -> Result<Self, BadHex> {
        from_hex(&text).map(|bytes| Self(u64::from_be_bytes(bytes)))
    }
}

macro_rules! shown_as_hex {
    ($name:ident, $bytes:expr) => {
        impl From<$name> for String {
            fn from(it: $name) -> Self {
                it.to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                let bytes: fn(&Self) -> _ = $bytes;
                out.write_str(&hex::encode(bytes(self)))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

shown_as_hex!(Digest, |it| it.0);
shown_as_hex!(CapSet, |it| it.0.to_be_bytes());
