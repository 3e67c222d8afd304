//! Turns the facts about a sandbox that really started into a signed receipt, and a receipt back into facts.
//!
//! Flow: [`Expected`] (the plan) and [`Facts`] (what was found) -> [`compare`] (any difference refuses the launch) ->
//! [`Receipt`] -> [`Receipt::seal`] -> [`Sealed`] (text, stored and exported) -> [`Sealed::verify`]. The ledger names
//! the sealed text by its hash ([`launch_draft`], [`check_in_ledger`]), so a receipt can be neither swapped nor lost
//! unseen.
//!
//! Invariants: there is one way to write a receipt (order of the fields, no floats, no spaces), and a text in any
//! other way is refused; every fact says how it is known. Not here: reading `/proc` (`measure`), where keys and
//! receipts are kept, taking secrets out of the command (the caller).

mod compare;
mod drafts;
mod expected;
mod facts;
mod seal;
mod show;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use compare::{Difference, compare};
pub use drafts::{End, Exit, NotInLedger, Refusal, check_in_ledger, end_draft, launch_draft, refused_draft};
pub use expected::{
    Expected, PlannedCapabilities, PlannedLandlock, PlannedNamespace, PlannedNamespaces, PlannedSeccomp,
    PlannedStreams,
};
pub use facts::{
    BadHex, Binary, CapSet, Capabilities, Digest, Enforcement, Facts, How, Landlock, Limit, Measured,
    MountEntry, Mounts, Namespaces, Network, Seccomp, Stream, Streams,
};
pub use seal::{ReceiptError, Sealed, key_id, signing_key};
pub use show::show;

/// The version of the receipt's format.
pub const VERSION: u32 = 1;

/// What held when a sandbox started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// Version of the format: [`VERSION`].
    pub version: u32,
    /// The run.
    pub run: RunId,
    /// When, in milliseconds since the epoch, as this machine's clock said.
    pub at: i64,
    /// The machine.
    pub host: HostInfo,
    /// Which build of Palisade launched it.
    pub build: String,
    /// The command and its arguments, without secrets.
    pub command: Vec<String>,
    /// The working directory, as seen inside.
    pub cwd: String,
    /// The worktree on the host, if the run has one.
    pub worktree: Option<String>,
    /// The profile that was asked for.
    pub profile: ProfileRef,
    /// What is weaker than usual by an administrator's explicit setting; empty in the normal case.
    pub degraded: Vec<Degraded>,
    /// Which of its ports are reached from the host's loopback, and where there: `3000 at 127.0.0.1:3000`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<String>,
    /// The hash of the rules of its network, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Digest>,
    /// What was found.
    pub facts: Facts,
}

/// The machine a sandbox ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostInfo {
    /// The kernel's release, as `uname -r` says it.
    pub kernel: String,
    /// The kernel's id of this boot.
    pub boot_id: String,
}

/// A profile, by name and content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileRef {
    /// Its name.
    pub name: String,
    /// The hash of the resolved profile.
    pub sha256: Digest,
}

/// A layer of the sandbox that can be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The user namespace.
    UserNamespace,
    /// The mount namespace and its table.
    Mounts,
    /// Landlock.
    Landlock,
    /// The system call filter.
    Seccomp,
    /// The control group and its limits.
    Cgroup,
    /// The network namespace.
    Network,
    /// The overlay over the worktree or its `.git`.
    Overlay,
}

impl Layer {
    /// The word stored in the receipt.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::UserNamespace => "user_namespace",
            Self::Mounts => "mounts",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Cgroup => "cgroup",
            Self::Network => "network",
            Self::Overlay => "overlay",
        }
    }
}

/// A layer that does less than usual, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Degraded {
    /// The layer.
    pub layer: Layer,
    /// What is missing and who allowed it.
    pub reason: String,
}

/// Names one run, as `run_` and up to 60 lower-case letters, digits and `-`. The launcher mints; everyone else
/// parses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// Why a text is no run id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no run id; expected `run_` and 1 to 60 lower-case letters, digits or `-`", .0.escape_debug())]
pub struct BadRunId(String);

impl RunId {
    /// A name that nothing has: 128 random bits.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn new() -> std::io::Result<Self> {
        let mut bytes = [0u8; 16];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(format!("run_{}", hex::encode(bytes))))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = BadRunId;

    fn from_str(text: &str) -> Result<Self, BadRunId> {
        Self::try_from(text.to_owned())
    }
}

impl TryFrom<String> for RunId {
    type Error = BadRunId;

    fn try_from(text: String) -> Result<Self, BadRunId> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let rest = text.strip_prefix("run_").filter(|rest| (1..=60).contains(&rest.len()));
        match rest.is_some_and(|rest| rest.bytes().all(fits)) {
            true => Ok(Self(text)),
            false => Err(BadRunId(text.chars().take(80).collect())),
        }
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
