//! What can be typed about what people register for workers.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What every registration can be told.
#[derive(Debug, Args)]
pub(crate) struct Registering {
    /// What looks like a credential is none; this is on the ledger
    #[arg(long)]
    pub(crate) accept_credentials: bool,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Capability {
    /// Register the files of a directory, and let a name stand for them
    ///
    /// A file `capability.toml` there says the rest and is no part of it: about, setup (one of the files), [tools], [mcp.NAME],
    /// [[notifications]].
    Register {
        name: String,
        /// The directory; at most 50 MiB, and no links
        directory: PathBuf,
        #[command(flatten)]
        how: Registering,
    },
    /// Write one file of a capability to where you say
    Fetch {
        /// A name, or sha256:…
        reference: String,
        /// Its path in the capability
        path: String,
        /// Where to; it must not be there yet
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
    },
    #[command(flatten)]
    Common(Artifact),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Subagent {
    /// Register a subagent from a TOML or JSON document, and let a name stand for it
    Register {
        name: String,
        /// The document
        file: PathBuf,
        #[command(flatten)]
        how: Registering,
    },
    #[command(flatten)]
    Common(Artifact),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Env {
    /// Register an env from a TOML or JSON document, and let a name stand for it
    Register {
        name: String,
        /// The document: [values], [secrets] (names in the vault), [inline.VARIABLE] (values for the vault)
        file: PathBuf,
        /// A variable whose value comes from standard input and goes into the vault
        #[arg(long, value_name = "VARIABLE")]
        secret: Option<String>,
        /// How long that value lasts, in seconds
        #[arg(long, value_name = "SECONDS", requires = "secret")]
        ttl: Option<i64>,
        /// Let it last so long from now on, also where the same value is kept with an earlier end
        #[arg(long, requires = "secret")]
        renew: bool,
        #[command(flatten)]
        how: Registering,
    },
    #[command(flatten)]
    Common(Artifact),
}

/// What is the same for every kind.
#[derive(Debug, Subcommand)]
pub(crate) enum Artifact {
    /// Let a name stand for a version that was registered before
    Assign {
        name: String,
        /// sha256:…, or a name that stands for it now
        to: String,
    },
    /// List the names, and what each stands for
    List,
    /// Show one version
    Show {
        /// A name, or sha256:…
        reference: String,
    },
    /// Take a version out of use, for good
    Revoke {
        /// A name, or sha256:…
        reference: String,
    },
    /// Show what a name stood for
    History { name: String },
}

/// Everything at once, from one document.
#[derive(Debug, Args)]
pub(crate) struct DeployArgs {
    /// A TOML document: [capabilities.NAME] directory, [subagents.NAME] document, [envs.NAME] document
    pub(crate) manifest: PathBuf,
    #[command(flatten)]
    pub(crate) how: Registering,
}
