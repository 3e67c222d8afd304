//! What can be typed about repositories and worktrees.

use clap::{Subcommand, ValueEnum};

use super::Tier;

#[derive(Debug, Subcommand)]
pub(crate) enum Repo {
    /// List repositories
    List,
    /// Register a repository, and fetch it
    Add {
        /// a-z, 0-9 and `-`
        name: String,
        /// https://…, without credentials; in solo mode also a directory of this machine
        origin: String,
        /// The name of a secret in the vault, if the origin asks for one
        #[arg(long, value_name = "NAME")]
        secret: Option<String>,
        /// Who that secret is for, if the origin looks at that
        #[arg(long, value_name = "USER", requires = "secret")]
        login: Option<String>,
        /// Only write it down; `palisade repo fetch` brings what is there
        #[arg(long)]
        no_fetch: bool,
    },
    /// Fetch what its origin has now, in a sandbox that reaches nothing else
    Fetch { repo: String },
    /// Show one, by id or name
    Show { repo: String },
    /// Remove one that no worktree uses
    Delete { repo: String },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Worktree {
    /// List worktrees that you may know of
    List {
        /// Of this repository
        #[arg(long)]
        repo: Option<String>,
        /// Whose name contains this
        #[arg(long)]
        name: Option<String>,
        /// Also those that are archived
        #[arg(long)]
        archived: bool,
    },
    /// Create a worktree; you own it
    Create {
        /// Of which repository, by id or name
        repo: String,
        /// a-z, 0-9 and `-`
        name: String,
        /// What it is for
        #[arg(long, default_value = "")]
        about: String,
        /// What non-owners may do
        #[arg(long, default_value = "session")]
        tier: Tier,
        /// The branch to be on, `palisade/NAME` unless told; one that is there is taken as it is
        #[arg(long)]
        branch: Option<String>,
        /// The branch of the origin to begin at; the usual one unless told
        #[arg(long)]
        base: Option<String>,
    },
    /// Show one, by id or name
    Show { worktree: String },
    /// Show what was committed in it, the newest first
    Log {
        worktree: String,
        /// How many
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show what was committed in it, as a patch
    Diff { worktree: String },
    /// Show a directory or a file of its tree
    Files {
        worktree: String,
        /// Beneath the tree
        #[arg(default_value = "")]
        path: String,
    },
    /// Change what it says of itself
    Update { worktree: String, about: String },
    /// Change what non-owners may do
    Tier { worktree: String, tier: Tier },
    /// Let people prompt each other's sessions in it, each with their own rights and secrets, or end that
    Sharing { worktree: String, shares: Switch },
    /// Add an owner
    AddOwner { worktree: String, user: String },
    /// Remove an owner; the last one stays
    RemoveOwner { worktree: String, user: String },
    /// Say what it belongs to elsewhere; an empty link goes
    Link {
        worktree: String,
        /// The issue that it is about, `https://…`
        #[arg(long, value_name = "URL", required_unless_present = "pull_request")]
        issue: Option<String>,
        /// The pull request that came of it, `https://…`
        #[arg(long, value_name = "URL")]
        pull_request: Option<String>,
    },
    /// Join what was committed in it into a branch
    ///
    /// What both changed is named, and nothing is changed. Where the repository is a directory of this machine, the result is
    /// also brought there: the branch goes forwards, with its files if it is checked out and nothing in them is uncommitted.
    Merge {
        worktree: String,
        /// The branch; the usual one of the origin unless told
        #[arg(long, value_name = "BRANCH")]
        into: Option<String>,
        /// Leave the directory that the repository comes from as it is
        #[arg(long)]
        here: bool,
    },
    /// Push what was committed in it to where its repository comes from, forwards only
    Push {
        worktree: String,
        /// The branch there; the one of the same name unless told
        #[arg(long, value_name = "BRANCH")]
        to: Option<String>,
    },
    /// Archive, with its sessions; it stays readable
    Archive {
        worktree: String,
        /// What becomes of its files
        #[arg(long, default_value = "kept")]
        files: TreeFiles,
    },
    /// Bring an archived one back, with the sessions that were archived with it
    Restore { worktree: String },
    /// Delete
    Delete {
        worktree: String,
        /// What becomes of its files
        #[arg(long, default_value = "removed")]
        files: TreeFiles,
    },
}

/// What becomes of the files of a worktree that is archived or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TreeFiles {
    /// They stay as they are
    Kept,
    /// What is in no commit of its branch goes
    Cleaned,
    /// All of them go
    Removed,
}
