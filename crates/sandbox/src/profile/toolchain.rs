//! Finds the toolchains under a person's home, and which parts of them go into a sandbox.
//!
//! Source: `profiles/toolchains.toml`; `table` is made from it. Invariant: parts are named one by one and
//! mounted read-only; credentials are in none of them, or left out by name; a root that a variable moved to
//! the home itself, or above it, is not used. Nothing here touches the disk.

use std::path::{Path, PathBuf};

use super::place::is_rooted;
use super::table::TOOLCHAINS;

/// A kind of toolchain.
#[derive(Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// What it is called.
    pub name: &'static str,
    /// Where it is, from the home; empty if only a variable can say.
    pub root: &'static str,
    /// The variable that moves the root.
    pub variable: Option<&'static str>,
    /// Whether the variable goes in as well. False where the tool writes there: inside it uses a place of its own.
    pub pass: bool,
    /// Which parts of the root are mounted; `.` is all of it.
    pub mount: &'static [&'static str],
    /// What is left out of them, from the root: files with credentials.
    pub without: &'static [&'static str],
}

/// A part of a toolchain that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Of which toolchain.
    pub name: &'static str,
    /// Where it is on the host.
    pub host: PathBuf,
    /// Where it is mounted, read-only.
    pub mount: PathBuf,
    /// What is left out, as paths inside.
    pub without: Vec<PathBuf>,
    /// A variable to pass in as it is outside, because it moved the root.
    pub variable: Option<&'static str>,
}

/// Every toolchain that is known.
#[must_use]
pub fn toolchains() -> &'static [Toolchain] {
    TOOLCHAINS
}

/// The parts of toolchains that exist, each once. `inside` is the home as the sandbox has it.
pub fn find_toolchains(
    home: &Path,
    inside: &Path,
    variable: &dyn Fn(&str) -> Option<PathBuf>,
    exists: &dyn Fn(&Path) -> bool,
) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for tool in TOOLCHAINS {
        let usual = (!tool.root.is_empty()).then(|| (home.join(tool.root), None));
        let moved = tool.variable.and_then(|name| {
            let root = variable(name).filter(|root| is_rooted(root) && !home.starts_with(root))?;
            let root: PathBuf = root.components().collect();
            Some((root, tool.pass.then_some(name)))
        });
        // A root that moved to where it is anyway counts once, with its variable.
        let same = |(root, _): &(PathBuf, _)| moved.as_ref().is_none_or(|(to, _)| to != root);
        for (root, variable) in usual.filter(same).into_iter().chain(moved.clone()) {
            for part in tool.mount {
                let host = if *part == "." { root.clone() } else { root.join(part) };
                if exists(&host) && !found.iter().any(|other| other.host == host) {
                    found.push(part_of(tool, &root, host, home, inside, variable));
                }
            }
        }
    }
    found
}

fn part_of(
    tool: &Toolchain,
    root: &Path,
    host: PathBuf,
    home: &Path,
    inside: &Path,
    variable: Option<&'static str>,
) -> Found {
    let place =
        |path: &Path| path.strip_prefix(home).map_or_else(|_| path.to_owned(), |rest| inside.join(rest));
    let left_out = tool.without.iter().map(|path| root.join(path)).filter(|path| path.starts_with(&host));
    let without = left_out.map(|path| place(&path)).collect();
    Found { name: tool.name, mount: place(&host), host, without, variable }
}
