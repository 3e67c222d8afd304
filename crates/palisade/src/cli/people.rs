//! What can be typed about people and what they sign in with.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Someone new.
#[derive(Debug, Args)]
pub(crate) struct NewPerson {
    /// Address
    #[arg(long)]
    pub(crate) email: Option<String>,
    /// How they are shown
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Read the password from standard input
    #[arg(long)]
    pub(crate) password_stdin: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Role {
    Viewer,
    Member,
    Admin,
    Owner,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Tier {
    None,
    View,
    Session,
    Prompt,
    All,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Scope {
    #[value(name = "runs:read")]
    Read,
    #[value(name = "runs:write")]
    Write,
    #[value(name = "runs:manage")]
    Manage,
    #[value(name = "admin")]
    Admin,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Account {
    /// Change your password; every login ends (`--totp CODE` where one-time passwords are on)
    Password {
        /// Read the present and the new password from standard input, one line each
        #[arg(long)]
        password_stdin: bool,
    },
    /// Turn one-time passwords on: without a code, shows the link for an app; with one, confirms it
    TotpOn {
        /// The handle that was shown
        #[arg(long, requires = "code")]
        handle: Option<String>,
        /// A code made from the link
        #[arg(long, requires = "handle")]
        code: Option<String>,
        /// Read the password from standard input
        #[arg(long)]
        password_stdin: bool,
    },
    /// Turn one-time passwords off
    TotpOff {
        /// A present code
        #[arg(long)]
        code: String,
        /// Read the password from standard input
        #[arg(long)]
        password_stdin: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum User {
    /// List people
    List,
    /// Show one person, by id, beginning of an id, or address
    Show { user: String },
    /// Add a person
    Add {
        #[command(flatten)]
        who: NewPerson,
        /// What they are
        #[arg(long, default_value = "member")]
        role: Role,
        /// Import this bcrypt hash (cost 12 or more) instead of a password
        #[arg(long, conflicts_with = "password_stdin")]
        bcrypt_stdin: bool,
    },
    /// Change a person's name or role
    Update {
        user: String,
        /// New name
        #[arg(long)]
        name: Option<String>,
        /// New role
        #[arg(long)]
        role: Option<Role>,
    },
    /// Disable a person: everything they have open ends
    Disable { user: String },
    /// Enable a person again
    Enable { user: String },
    /// Delete a person
    Delete { user: String },
    /// Set a person's password; their logins end
    ResetPassword {
        user: String,
        /// Read the password from standard input
        #[arg(long)]
        password_stdin: bool,
    },
    /// Sign a person out everywhere
    SignOut { user: String },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// List keys, your own unless told
    List {
        /// Whose
        #[arg(long)]
        user: Option<String>,
    },
    /// Make a key for yourself; it is shown this once
    Create {
        /// What it is for
        label: String,
        /// What it may be used for
        #[arg(long, default_value = "runs:read")]
        scope: Scope,
        /// Days until it ends, at most 365
        #[arg(long, default_value_t = 90)]
        days: u32,
    },
    /// Show a code that signs another device in, with a key of its own; good once, for ten minutes
    Pair {
        /// What the device is called
        label: String,
        /// What its key may be used for
        #[arg(long, default_value = "runs:manage")]
        scope: Scope,
        /// Days until its key ends, at most 365
        #[arg(long, default_value_t = 90)]
        days: u32,
    },
    /// Revoke a key
    Revoke { key: String },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Pass {
    /// List Passes, your own unless told
    List {
        /// Whose
        #[arg(long)]
        user: Option<String>,
    },
    /// Mint a Pass from a Grant in a JSON file; it is shown this once
    Mint {
        /// What it is for
        label: String,
        /// A Grant: {"paths":{"allow":["rw:/src"]},"tools":{"allow":["api.worktree.read"]},…}
        #[arg(long, value_name = "FILE")]
        grant: PathBuf,
        /// Minutes until it ends, at most 43200
        #[arg(long, default_value_t = 60)]
        minutes: u32,
    },
    /// Revoke a Pass and everything made from it
    Revoke { pass: String },
}
