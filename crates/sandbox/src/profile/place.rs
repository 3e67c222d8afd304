//! Turns text into paths: as a document names them ([`Place`]), and as they are on this machine ([`Entry`]).
//!
//! Invariant: a path is absolute once it is placed, in one normal form (no `.`, `..`, `//`), and never the
//! whole machine or a kernel file system. Not here: whether it exists, and how it is opened.

use std::fmt;
use std::path::{Path, PathBuf};

use super::names::{BadText, is_plain};

/// The directories that paths are meant from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// The caller's home: what `~` stands for.
    pub home: PathBuf,
    /// The worktree: what `.` stands for.
    pub worktree: PathBuf,
}

/// A path as a document names it: `/opt/sdk`, `~/data`, `./target`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// From the root, with its slash.
    Absolute(String),
    /// Below the caller's home; empty is the home itself.
    Home(String),
    /// Below the worktree, never the worktree itself.
    Worktree(String),
}

/// Trees that the sandbox makes itself: the host's must not stand in for them.
const KERNEL: [&str; 3] = ["proc", "sys", "dev"];

impl Place {
    /// A path, or why not.
    pub fn parse(text: &str) -> Result<Self, BadText> {
        let expected = "an absolute path, `~/…` or `./…`, without `.`, `..` or `//` in it";
        let bad = || BadText::expected(expected, text);
        if text == "~" {
            return Ok(Self::Home(String::new()));
        }
        let (make, tail): (fn(String) -> Self, &str) = match text {
            "/" => {
                return Err(BadText("`/` is the whole machine; name the directories that are needed".into()));
            }
            "." | "./" => return Err(BadText("the worktree itself is set by `worktree = \"…\"`".into())),
            _ => match (text.strip_prefix("~/"), text.strip_prefix("./"), text.strip_prefix('/')) {
                (Some(tail), _, _) => (Self::Home, tail),
                (_, Some(tail), _) => (Self::Worktree, tail),
                (_, _, Some(tail)) => (|tail| Self::Absolute(format!("/{tail}")), tail),
                _ => return Err(bad()),
            },
        };
        let tail = tail.strip_suffix('/').unwrap_or(tail);
        if text.len() > 4_095 || !is_normal(tail) {
            return Err(bad());
        }
        let place = make(tail.to_owned());
        match &place {
            Self::Worktree(tail) if is_git(tail) => {
                Err(BadText(format!("`{text}`: `.git` is kept apart in every profile; take it out")))
            }
            Self::Absolute(_) if tail.split('/').next().is_some_and(|first| KERNEL.contains(&first)) => Err(
                BadText(format!("`{text}` belongs to the kernel; the sandbox brings its own, take it out")),
            ),
            _ => Ok(place),
        }
    }

    /// Where it is on this machine.
    #[must_use]
    pub fn at(&self, roots: &Roots) -> Entry {
        match self {
            Self::Absolute(path) => Entry::whole(path.into()),
            Self::Home(tail) if tail.is_empty() => Entry::whole(roots.home.clone()),
            Self::Home(tail) => Entry::whole(roots.home.join(tail)),
            // The agent writes here and can put a link in the way.
            Self::Worktree(tail) => Entry { path: roots.worktree.join(tail), within: roots.worktree.clone() },
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absolute(path) => f.write_str(path),
            Self::Home(tail) if tail.is_empty() => f.write_str("~"),
            Self::Home(tail) => write!(f, "~/{tail}"),
            Self::Worktree(tail) => write!(f, "./{tail}"),
        }
    }
}

/// A path on this machine, and what it must stay in.
///
/// Whoever opens `path` opens `within` first and goes on beneath it without following links: between the two
/// lie names that an agent or a repository chose.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The path, absolute.
    pub path: PathBuf,
    /// A path that a person named, at or above it.
    pub within: PathBuf,
}

impl Entry {
    /// A path that a person named as it is.
    #[must_use]
    pub fn whole(path: PathBuf) -> Self {
        Self { within: path.clone(), path }
    }
}

/// A path below the worktree, for control files: `.claude`, `deploy/keys`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protected {
    /// Relative to the worktree, without a slash at the end.
    pub path: String,
    /// What a host program expects there.
    pub kind: Kind,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A file.
    File,
    /// A directory: it and everything below.
    Directory,
}

impl Protected {
    /// A path with a slash at the end for a directory, or why not.
    pub fn parse(text: &str) -> Result<Self, BadText> {
        let bare = text.strip_prefix("./").unwrap_or(text);
        let (path, kind) = bare.strip_suffix('/').map_or((bare, Kind::File), |path| (path, Kind::Directory));
        if text.len() > 1_024 || !is_normal(path) {
            let expected =
                "a path below the worktree such as `.vscode/` or `deploy.toml`, without `.` or `..`";
            return Err(BadText::expected(expected, text));
        }
        if is_git(path) {
            return Err(BadText(format!("`{text}`: `.git` is kept apart in every profile; take it out")));
        }
        Ok(Self { path: path.to_owned(), kind })
    }

    /// Whether a path below the worktree is this, or lies in it. Capitals do not matter.
    #[must_use]
    pub fn holds(&self, path: &Path) -> bool {
        let mut parts = path.iter();
        self.path.split('/').all(|own| parts.next().is_some_and(|part| part.eq_ignore_ascii_case(own)))
    }
}

impl fmt::Display for Protected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.path, if self.kind == Kind::Directory { "/" } else { "" })
    }
}

/// Whether a path below the worktree is, or lies in, its `.git`.
fn is_git(path: &str) -> bool {
    path.split('/').next().is_some_and(|first| first.eq_ignore_ascii_case(".git"))
}

/// Whether a path without its root is in the one normal form.
fn is_normal(tail: &str) -> bool {
    !tail.is_empty()
        && tail.chars().all(is_plain)
        && tail.split('/').all(|part| !matches!(part, "" | "." | "..") && part.len() <= 255)
}

/// Whether a path on this machine can be a root: absolute and in the one normal form.
pub(super) fn is_rooted(path: &Path) -> bool {
    use std::path::Component;
    path.is_absolute()
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}
