//! What can be typed about secrets. No value is ever an argument.

use std::path::PathBuf;

use clap::Subcommand;

use crate::when;

#[derive(Debug, Subcommand)]
pub(crate) enum Secret {
    /// Keep a secret; its value comes from standard input, or is typed unseen
    Add {
        /// As a program finds it in its environment, like OPENAI_API_KEY
        name: String,
        /// Whose: `me`, `daemon`, or a worktree by id or name
        #[arg(long, default_value = "me")]
        owner: String,
        /// A host that it may be sent to, like api.example.org or *.example.org; may be given again
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<String>,
        /// When it ends: 2027-01-31, 2027-01-31T09:00:00Z, or how long from now: 12h, 30d
        #[arg(long, value_name = "WHEN", value_parser = when::ahead)]
        expires: Option<i64>,
        /// Replace the one of this name, if there is one
        #[arg(long)]
        replace: bool,
    },
    /// List secrets that could count for you, and which of one name does; never a value
    List {
        /// Only those of `me`, `daemon`, or a worktree by id or name
        #[arg(long, conflicts_with = "worktree")]
        owner: Option<String>,
        /// As they count in this worktree, by id or name
        #[arg(long)]
        worktree: Option<String>,
    },
    /// Remove a secret
    Remove {
        name: String,
        /// Whose: `me`, `daemon`, or a worktree by id or name
        #[arg(long, default_value = "me")]
        owner: String,
    },
    /// Take in the secrets of a .env file; without --yes only their names are listed
    Import {
        /// Lines like NAME=value
        file: PathBuf,
        /// Whose they are to be: `me`, `daemon`, or a worktree by id or name
        #[arg(long, default_value = "me")]
        owner: String,
        /// Only these names; may be given again
        #[arg(long = "only", value_name = "NAME")]
        only: Vec<String>,
        /// Do it
        #[arg(long)]
        yes: bool,
        /// Replace those that are there already
        #[arg(long)]
        replace: bool,
        /// Put handles (secret://NAME) in the place of the values in the file, once they are kept
        #[arg(long, requires = "yes")]
        rewrite: bool,
    },
    /// Give the installation a new master key and every value a new data key; goes on with one that was interrupted
    Rotate {
        /// A file on the daemon's machine with the new master key, where the daemon cannot replace the present one
        #[arg(long, value_name = "FILE")]
        new_key_file: Option<PathBuf>,
    },
}
