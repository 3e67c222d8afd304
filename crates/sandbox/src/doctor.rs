//! Says, for this host, which layers of the sandbox there are, what stands in the way of the others, and what to do.
//!
//! Flow: [`Facts::gather`] (reads `/proc` and `/sys`, and tries each layer in a child) -> [`judge`] (pure) ->
//! [`Finding`]s. The same judgement explains a launch that failed ([`remedy`]).
//!
//! Invariant: a finding that fails names a cause and something to do; nothing here is a secret, and no variable's
//! value is shown. Not here: whether a shape holds against attacks ([`crate::probe`]), printing (`palisade`).

mod clues;
mod facts;
mod judge;
#[cfg(test)]
mod tests;
mod trial;

use std::fmt;

use serde::Serialize;

pub use clues::{Clues, Remedy, Wall};
pub use facts::{Agent, Directory, Facts, Limits, Places};
pub use judge::judge;
pub use trial::Trial;

use crate::inside::Step;

/// How much a check matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing is started without it.
    Required,
    /// Something works less well without it.
    Recommended,
    /// Good to know.
    Info,
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is there.
    Ok,
    /// It is not.
    Fails,
    /// It could not be tried, because of another check.
    Unknown,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// For programs; never changes.
    pub id: &'static str,
    /// The layer it belongs to.
    pub layer: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What came of it.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// What stands in the way.
    pub cause: Option<String>,
    /// What to do: a command, or a setting.
    pub fix: Option<String>,
}

impl Finding {
    /// Whether nothing can be started because of it.
    #[must_use]
    pub fn blocks(&self) -> bool {
        self.severity == Severity::Required && self.status == Status::Fails
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; to fix it: {}", self.layer, self.cause, self.fix)
    }
}

/// Why the kernel refused the namespaces of a launch.
pub(crate) fn no_namespaces(error: i32) -> Remedy {
    // They are made together, so the kernel does not say of which kind there are too many.
    let is_the_other = error == libc::ENOSPC && trial::child(libc::CLONE_NEWUSER, || Ok(())).works();
    let wall = if is_the_other { Wall::Namespace("pid") } else { Wall::UserNamespaces };
    Clues::read().blame(wall, error)
}

/// Why a launcher's own preparation failed.
pub(crate) fn unprepared(what: &str, error: &std::io::Error) -> String {
    let wall = match what {
        "owners" => Wall::UserNamespaces,
        "mounts" => Wall::Mounts,
        "process 1" => Wall::Init,
        _ => return format!("{what}: {error}"),
    };
    format!("{what}: {}", Clues::read().blame(wall, error.raw_os_error().unwrap_or(0)))
}

/// Why limits that the profile requires cannot be set.
pub(crate) fn no_groups() -> Remedy {
    Clues::read().blame(Wall::ControlGroups, 0)
}

/// Why there is no Landlock.
pub(crate) fn no_landlock() -> Remedy {
    Clues::read().blame(Wall::Landlock, crate::sys::probe::landlock().err().unwrap_or(0))
}

/// Why a step of a launch failed: which layer, what stands in the way, what to do.
pub(crate) fn remedy(step: Step, what: &str, error: i32) -> Remedy {
    let wall = match step {
        Step::Namespaces => Wall::Namespace(match what {
            "mount" => "mount",
            "network" => "network",
            "ipc" => "ipc",
            _ => "uts",
        }),
        Step::Owners => Wall::UserNamespaces,
        Step::Host => Wall::Namespace("uts"),
        Step::Loopback | Step::Capture => Wall::Namespace("network"),
        Step::Mount if what == "/proc" => Wall::Processes,
        Step::Root | Step::Mount => Wall::Mounts,
        Step::Layer => Wall::Overlay,
        Step::Terminal => Wall::Terminal,
        Step::Limits if what == "control group namespace" => Wall::Namespace("cgroup"),
        Step::Limits if what == "control group" => Wall::ControlGroups,
        Step::Privileges | Step::Limits => Wall::Privileges,
        Step::Landlock => Wall::Landlock,
        Step::Seccomp => Wall::Seccomp,
        Step::Init | Step::Command | Step::Directory => Wall::Init,
    };
    Clues::read().blame(wall, error)
}
