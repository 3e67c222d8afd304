//! Turns named documents into the shape of one sandbox.
//!
//! Flow: TOML -> `Draft` (what one layer says) -> [`Profile`] (what holds on this machine, no choice left).
//! Layers: built-in, the person's own, the project's `.palisade/profile.toml`, the command line.
//!
//! Invariant: a document is used whole or refused whole, with file and line; a project's file only narrows, and
//! what it asks for waits for the person's consent to these very bytes. Nothing here reads a file, looks at the
//! machine or starts anything. Not here: enforcement (`launch`), system calls (`filter`), what held (`receipt`).

mod builtin;
mod consent;
mod control;
mod document;
mod draft;
mod environment;
mod flags;
mod key;
mod limits;
mod names;
mod place;
mod project;
mod reach;
mod reachable;
mod resolve;
mod show;
mod table;
mod toolchain;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub use builtin::{built_in, built_in_names};
pub use consent::{Consent, ConsentError, Consents};
pub use control::{At, Class, Control, controls};
pub use document::DocumentError;
pub use draft::{Draft, Layer, Network, Worktree};
pub(crate) use environment::{Certificates, OURS, certificates};
pub use flags::{FlagError, Flags};
pub use key::{InProject, KEYS, Key, reference};
pub use limits::{Cpu, Host, Limits};
pub use names::{BadText, Hidden, Name, NamePattern, Variable};
pub use place::{Entry, Kind, Place, Protected, Roots};
pub use project::{Ask, ContentHash, Project};
pub use resolve::{Document, Layers, ResolveError, check, pending_notice};
pub use show::rules_as_toml;
pub use toolchain::{Found, Toolchain, find_toolchains, toolchains};

/// The shape of one sandbox, with nothing left to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What it was asked for by.
    pub name: Name,
    /// How the worktree can be used.
    pub worktree: Worktree,
    /// What else can be read, in order; of nested paths the most exact counts.
    pub read: Vec<Entry>,
    /// What else can be written.
    pub write: Vec<Entry>,
    /// File names that do not exist inside.
    pub hidden: Hidden,
    /// Control files at the worktree's root that cannot be made, changed or moved.
    pub protect: Vec<Protected>,
    /// Control files that a person gave up.
    pub unprotect: Vec<Protected>,
    /// Variables that are passed in.
    pub environment: Vec<Variable>,
    /// Whether all others are passed in too, but for those that hold a credential or steer programs.
    pub inherit: bool,
    /// Variables with a value of their own; they win over those that are passed in.
    pub set: BTreeMap<String, String>,
    /// Whether toolchains under the home can be used.
    pub toolchains: bool,
    /// Whether a process may trace its own children.
    pub trace: bool,
    /// What can be reached.
    pub network: Network,
    /// What may be reached and what may not, if anything can be.
    pub rules: Vec<rules::Rule>,
    /// Sets of rules that hold besides.
    pub presets: BTreeSet<String>,
    /// How much may be used.
    pub limits: Limits,
    /// Layers without which nothing starts.
    pub require: BTreeSet<Layer>,
    /// Whether the worktree is the person's home.
    at_home: bool,
}

/// A profile, and what its project asked for in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// What holds.
    pub profile: Profile,
    /// What the person was not asked about yet; none of it is applied.
    pub pending: Vec<Ask>,
}

impl Profile {
    /// Whether a variable of this name is passed in.
    #[must_use]
    pub fn passes(&self, variable: &str) -> bool {
        (self.inherit && Variable::any_may_pass(variable))
            || self.environment.iter().any(|name| name.passes(variable))
    }

    /// Whether a variable goes in with this value. Whoever wrote its very name wants it as it is.
    #[must_use]
    pub fn lets_in(&self, variable: &str, value: &[u8]) -> bool {
        if !self.passes(variable) {
            return false;
        }
        if environment::is_proxy(variable) {
            return !environment::proxy_holds_credential(variable, value);
        }
        self.environment.iter().any(|name| name.is(variable)) || !environment::holds_credential(value)
    }

    /// The control file that a path below the worktree is, or lies in, as far as this profile cares.
    #[must_use]
    pub fn control_of(&self, path: &Path) -> Option<&'static Control> {
        use std::os::unix::ffi::OsStrExt;
        let given_up = |control: &Control| {
            control.at != At::Nested
                && self.unprotect.iter().any(|open| open.path.eq_ignore_ascii_case(control.path))
        };
        control::control_of(path.as_os_str().as_bytes(), self.at_home, |control| !given_up(control))
    }
}
