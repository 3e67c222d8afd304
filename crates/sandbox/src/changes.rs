//! Turns the layer that a run left into changes that a person can look at, keep or drop.
//!
//! Flow: a run writes into `<state>/runs/<run>/worktree/changes` through overlayfs -> [`Kept`] (the run's folder, locked)
//! -> [`Kept::changes`] (what differs from the worktree) -> [`Kept::apply`], [`Kept::undo`], [`Kept::discard`].
//!
//! Invariants: the layer was written by a hostile process, so every name is opened beneath a descriptor and no
//! link is followed, on either side. What applying overwrites or removes is kept in the run's folder, so undoing
//! is exact. An apply that was cut off is rolled back from its journal before anything else happens.
//! `.git` at the root is never carried over; the branch that was checked out, and the index, follow what a run committed by
//! git's own hand ([`crate::repo::follow`]), with the files or not at all. Not here: mounting the layer (`given`, `inside`), showing
//! changes to people (`palisade`).

mod apply;
mod branch;
mod carry;
mod copy;
mod discard;
mod folder;
mod journal;
mod mounts;
mod names;
mod read;
mod record;
mod renames;
mod steps;
mod tree;
mod undo;
mod upper;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use apply::{Applied, Apply, ApplyError, Conflict, Left, Why};
pub use branch::{Followed, Follows};
pub use discard::DiscardError;
pub use folder::{Kept, Listed, RunError, folder, runs};
pub use names::{escaped, unescaped};
pub use read::ReadError;
pub use record::{Record, State};
pub use undo::{Undo, UndoError, Undone};

pub(crate) use folder::{quiet, room};
pub(crate) use mounts::{hand_over, layered};

pub use crate::repo::{Branch, FollowError};

use tree::Seen;

/// One path that differs between the layer and the worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Relative to the worktree.
    pub path: PathBuf,
    /// How it differs.
    pub kind: Kind,
    /// What the worktree has there.
    pub before: Option<Face>,
    /// What the layer has there.
    pub after: Option<Face>,
    /// What of it is not carried over.
    pub dropped: Vec<Dropped>,
}

/// How a path differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only the layer has it.
    Added,
    /// Both have it, with other content.
    Changed,
    /// The layer says that it is gone.
    Deleted,
    /// The same content with another mode.
    ModeChanged,
    /// Added with the very content of something that was deleted.
    Renamed {
        /// What it was called.
        from: PathBuf,
    },
    /// Both have it, as different things.
    TypeChanged,
}

impl Kind {
    /// The word for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
            Self::ModeChanged => "mode_changed",
            Self::Renamed { .. } => "renamed",
            Self::TypeChanged => "type_changed",
        }
    }
}

/// What there is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Face {
    /// What it is.
    pub what: What,
    /// Its permissions, without set-id bits.
    pub mode: u32,
    /// Its size in bytes.
    pub size: u64,
    pub(crate) seen: Seen,
}

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// With content.
    File,
    /// With names.
    Directory,
    /// To somewhere, which nobody goes.
    Link,
    /// A pipe with a name.
    Fifo,
    /// A socket with a name.
    Socket,
    /// A device.
    Device,
    /// Something with a path that is too long to be named.
    TooLong,
}

impl What {
    /// Whether it can be carried into a worktree.
    #[must_use]
    pub fn is_plain(self) -> bool {
        matches!(self, Self::File | Self::Directory | Self::Link)
    }

    /// As people call it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Link => "link",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::TooLong => "path that is too long",
        }
    }
}

/// What of a change is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// A set-user-id or set-group-id bit.
    SetId,
    /// An attribute that overlayfs would act on.
    Attribute,
}

impl Dropped {
    /// As people call it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::SetId => "set-id bit",
            Self::Attribute => "overlay attribute",
        }
    }
}
