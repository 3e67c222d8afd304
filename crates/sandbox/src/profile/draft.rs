//! What one layer says: a document or a command line, parsed but not yet placed on a machine.
//!
//! Invariant: a [`Draft`] contradicts itself nowhere. What it does not mention is `None` or empty and stays as
//! the layer below has it. Not here: TOML (`document`), what layers come to together (`resolve`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rules::Rule;

use super::limits::Asked;
use super::names::{BadText, Name, NamePattern, Variable};
use super::place::{Place, Protected};

/// How the worktree can be used. Ordered: what comes later allows more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Worktree {
    /// Read only.
    Read,
    /// Written to through a layer of its own, which the host does not see.
    Overlay,
    /// Written to directly.
    Write,
}

/// What can be reached. Ordered: what comes later allows more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Network {
    /// The sandbox's own loopback.
    None,
    /// What rules allow.
    Rules,
}

/// One wall of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Namespaces of its own.
    Namespaces,
    /// A mount table of its own.
    Mounts,
    /// The list of system calls.
    Seccomp,
    /// No process gains privilege.
    NoNewPrivs,
    /// No process has a capability.
    Capabilities,
    /// The second wall around files.
    Landlock,
    /// Limits held by the kernel for all processes together.
    Cgroup,
}

impl Layer {
    /// Required by every profile; no document can take one away.
    pub const ALWAYS: [Self; 6] =
        [Self::Namespaces, Self::Mounts, Self::Seccomp, Self::NoNewPrivs, Self::Capabilities, Self::Landlock];
}

/// A choice among a few words.
pub(super) trait Word: Copy + Sized + 'static {
    const ALL: &'static [(Self, &'static str)];

    fn parse(text: &str) -> Result<Self, BadText> {
        let found = Self::ALL.iter().find(|(_, word)| *word == text).map(|(value, _)| *value);
        found.ok_or_else(|| {
            let words: Vec<String> = Self::ALL.iter().map(|(_, word)| format!("`{word}`")).collect();
            BadText::expected(&words.join(", "), text)
        })
    }
}

macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal),+ }) => {
        impl Word for $type {
            const ALL: &'static [(Self, &'static str)] = &[$((Self::$variant, $word)),+];
        }
        impl $type {
            /// As written in a document.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

words!(Worktree { Write = "write", Overlay = "overlay", Read = "read" });
words!(Network { None = "none", Rules = "rules" });
words!(Layer {
    Namespaces = "namespaces",
    Mounts = "mounts",
    Seccomp = "seccomp",
    NoNewPrivs = "no_new_privs",
    Capabilities = "capabilities",
    Landlock = "landlock",
    Cgroup = "cgroup"
});

/// What one layer says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    pub(super) name: Option<Name>,
    /// With its line.
    pub(super) base: Option<(Name, usize)>,
    pub(super) worktree: Option<Worktree>,
    /// An empty list differs from none where a project narrows: it leaves nothing.
    pub(super) read: Option<Vec<Place>>,
    pub(super) write: Option<Vec<Place>>,
    pub(super) hide: Vec<NamePattern>,
    pub(super) show: Vec<NamePattern>,
    pub(super) protect: Vec<Protected>,
    pub(super) unprotect: Vec<Protected>,
    pub(super) environment: Option<Vec<Variable>>,
    pub(super) inherit: Option<bool>,
    pub(super) set: BTreeMap<String, String>,
    pub(super) toolchains: Option<bool>,
    pub(super) trace: Option<bool>,
    pub(super) network: Option<Network>,
    /// What may be reached, and what may not.
    pub(super) rules: Vec<Rule>,
    /// Sets of rules, by name.
    pub(super) presets: Vec<String>,
    pub(super) require: BTreeSet<Layer>,
    pub(super) limits: Asked,
}
