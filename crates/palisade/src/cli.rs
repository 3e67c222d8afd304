//! What can be typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::output::Place;
use crate::when;

mod people;
mod plans;
mod registry;
mod sandbox;
mod secrets;
mod sessions;
mod trees;

pub(crate) use people::{Account, Key, NewPerson, Pass, Role, Tier, User};
pub(crate) use plans::PlanCommand;
pub(crate) use registry::{Artifact, Capability, DeployArgs, Env, Registering, Subagent};
pub(crate) use sandbox::{
    ApparmorArgs, Degradable, DoctorArgs, ProfileCommand, ReceiptCommand, ReceiptOf, RulesArgs, RunArgs,
    RunOnly, SetupCommand, ShellArgs,
};
pub(crate) use secrets::Secret;
pub(crate) use sessions::{AcpArgs, AgentCommand, ApprovalCommand, BudgetCommand, SessionCommand};
pub(crate) use trees::{Repo, Switch, TreeFiles, Worktree};

/// Runs AI agents inside a boundary that can be proved.
///
/// Exit codes: 0 done; 1 refused or failed; 2 the command was not understood, or a ledger cannot be checked.
#[derive(Debug, Parser)]
#[command(name = "palisade", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// Configuration file; everything then lives beside it
    #[arg(long, global = true, env = "PALISADE_CONFIG", hide_env_values = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address of the daemon
    #[arg(long, global = true, env = "PALISADE_URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// Certificates (PEM) to trust for the daemon
    #[arg(long, global = true, env = "PALISADE_CA", hide_env_values = true, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Send credentials without TLS to another machine
    #[arg(long, global = true, env = "PALISADE_INSECURE_HTTP", hide_env_values = true, value_parser = clap::builder::BoolishValueParser::new())]
    pub(crate) insecure_http: bool,
    /// A present one-time password, for what asks for one
    #[arg(long, global = true, value_name = "CODE")]
    pub(crate) totp: Option<String>,
    /// Print one JSON document: {ok, command, result, error}
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command in a sandbox: it works as usual and cannot see or touch what it was not given
    ///
    /// The current directory, or the repository around it, is given to it. No daemon and no root are needed.
    /// Exit codes: the command's own; 125 the sandbox could not be made; 126 the command cannot be executed;
    /// 127 the command is not found.
    Run(Box<RunArgs>),
    /// Say which layers this machine has, what stands in the way of the others, and what to do
    ///
    /// Exit codes: 0 sandboxes can be made; 1 something required is missing, or an attack got through.
    Doctor(DoctorArgs),
    /// What an administrator does once for a machine
    #[command(subcommand)]
    Setup(SetupCommand),
    /// Open a shell in a sandbox of its own, or in one that is at work
    Shell(ShellArgs),
    /// Show what is running
    Ps,
    /// Stop a run: its command is asked to end, and after five seconds everything is ended
    Stop {
        /// The run (run_…); the only one if none is named
        run: Option<String>,
        /// Do not wait for the command
        #[arg(long)]
        now: bool,
    },
    /// Cut a run off from the network: what is open is closed, and nothing more is reached
    Offline {
        /// The run (run_…); the only one if none is named
        run: Option<String>,
    },
    /// Show which rules the network of a run at work has, or put others in their place
    Rules(RulesArgs),
    /// Let every process of a run stand still
    Freeze {
        /// The run (run_…); the only one if none is named
        run: Option<String>,
    },
    /// Let a run that stands still go on
    Thaw {
        /// The run (run_…); the only one if none is named
        run: Option<String>,
    },
    /// What really held in a run of `palisade run`
    #[command(subcommand)]
    Receipt(ReceiptCommand),
    /// What sandboxes look like, and what a project may ask for
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Show what a run with `--overlay` changed; the newest of this worktree unless named
    Diff {
        /// Which run (run_…, or the beginning of it), then paths
        #[arg(value_name = "RUN|PATH")]
        words: Vec<OsString>,
        /// Only names and counts
        #[arg(long)]
        stat: bool,
    },
    /// Carry what a run with `--overlay` changed into the worktree: everything, or the paths that are named
    ///
    /// Nothing happens if the host changed one of the files meanwhile. What is overwritten or removed is kept:
    /// `--undo` brings it back.
    Apply {
        /// Which run (run_…, or the beginning of it), then paths
        #[arg(value_name = "RUN|PATH")]
        words: Vec<OsString>,
        /// Also overwrite what the host changed since the run began; with --undo, what was changed since the apply
        #[arg(long)]
        force: bool,
        /// Also carry over control files, on which programs of the host act
        #[arg(long)]
        control: bool,
        /// Make the worktree as it was before anything of the run was applied
        #[arg(long, conflicts_with = "control")]
        undo: bool,
    },
    /// Drop what a run with `--overlay` changed
    Discard {
        /// Which run (run_…, or the beginning of it)
        #[arg(value_name = "RUN")]
        words: Vec<OsString>,
        /// Also what applying saved: nothing can be undone afterwards
        #[arg(long)]
        forget: bool,
    },
    /// List the runs that kept their changes
    Runs,
    /// Mask secrets in text: standard input or files, to standard output
    ///
    /// Home paths become `~/`, and sequences that act on a terminal are taken out; colours stay.
    /// Exit codes: 0 done, or nothing found; 1 `--check` found something; 2 something could not be read or used.
    Redact(RedactArgs),
    /// Plans: many dispatches, what each waits for and may do
    #[command(subcommand)]
    Plan(PlanCommand),
    /// Start the daemon
    Up {
        /// Set a configuration key, stronger than file and environment
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Go on, and record it, although the ledger lacks entries that the store remembers
        #[arg(long)]
        accept_ledger_loss: bool,
    },
    /// Make the first owner, with the secret that the daemon printed
    Init {
        /// The one-time secret (pbs_…)
        secret: String,
        #[command(flatten)]
        who: NewPerson,
    },
    /// Sign in, with a password or with a code shown by `palisade key pair` on another device
    Login {
        /// Address
        #[arg(long)]
        email: Option<String>,
        /// A pairing code instead of a password
        #[arg(long, value_name = "CODE", conflicts_with_all = ["email", "password_stdin"])]
        code: Option<String>,
        /// Read the password from standard input
        #[arg(long)]
        password_stdin: bool,
    },
    /// Sign out here
    Logout {
        /// Everywhere else too
        #[arg(long)]
        everywhere: bool,
    },
    /// Who is signed in
    Whoami,
    /// How the daemon is
    Status,
    /// The own password and one-time passwords
    #[command(subcommand)]
    Account(Account),
    /// People
    #[command(subcommand)]
    User(User),
    /// API keys
    #[command(subcommand)]
    Key(Key),
    /// Passes: signed tokens that carry a part of your authority
    #[command(subcommand)]
    Pass(Pass),
    /// Repositories
    #[command(subcommand)]
    Repo(Repo),
    /// Worktrees: records and rights
    #[command(subcommand)]
    Worktree(Worktree),
    /// Sessions: agents at work in worktrees
    #[command(subcommand)]
    Session(SessionCommand),
    /// Agents that sessions can be opened with
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Be an agent for an editor that speaks ACP, on standard input and output
    ///
    /// The editor's directory must be the origin of a repository, or be in it, and that have one worktree; or name one.
    Acp(AcpArgs),
    /// Effects that wait for a person
    #[command(subcommand)]
    Approval(ApprovalCommand),
    /// What may be spent, and what was
    #[command(subcommand)]
    Budget(BudgetCommand),
    /// Secrets: kept sealed, lent to what runs, never shown again
    #[command(subcommand)]
    Secret(Secret),
    /// Capabilities: files and settings that workers are given
    #[command(subcommand)]
    Capability(Capability),
    /// Subagents: what workers are, and their bounds
    #[command(subcommand)]
    Subagent(Subagent),
    /// Envs: values and references to secrets that workers are given
    #[command(subcommand)]
    Env(Env),
    /// Register everything that a manifest names: capabilities, subagents, envs
    Deploy(DeployArgs),
    /// Policies: what is in force, and why it decides as it does
    #[command(subcommand)]
    Policy(Policy),
    /// The tamper-evident record
    #[command(subcommand)]
    Ledger(Ledger),
    /// Configuration
    #[command(subcommand)]
    Config(Config),
    /// Sealed copies of everything, and the care of the store
    #[command(subcommand)]
    Backup(Backup),
    /// Print a completion script
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one per command into a directory
    Man {
        /// Where to write them
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

/// What is masked, and where.
#[derive(Debug, Args)]
pub(crate) struct RedactArgs {
    /// What to read; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Pass nothing on: say where secrets are, for hooks and CI
    #[arg(long)]
    pub(crate) check: bool,
    /// Also mask what this regular expression matches within a line
    #[arg(long, value_name = "REGEX")]
    pub(crate) pattern: Vec<String>,
    /// Also mask what the regular expressions in this file match, one per line; `#` begins a comment
    #[arg(long, value_name = "FILE")]
    pub(crate) patterns: Option<PathBuf>,
    /// Also mask cards, e-mail addresses, phone and social security numbers, and addresses of hosts
    #[arg(long)]
    pub(crate) personal: bool,
    /// Leave home paths as they are
    #[arg(long, conflicts_with = "check")]
    pub(crate) keep_paths: bool,
    /// Leave sequences that act on a terminal as they are
    #[arg(long, conflicts_with = "check")]
    pub(crate) keep_escapes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Question {
    /// For whom, by id or address; you unless told
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// Which action, like worktree.read
    #[arg(long)]
    pub(crate) action: String,
    /// On what: an id, or `installation`
    #[arg(long, default_value = "installation")]
    pub(crate) resource: String,
    /// The role a user would have afterwards (user.create, user.update)
    #[arg(long)]
    pub(crate) role: Option<Role>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Show the policies in force
    Show {
        /// Only this one
        id: Option<String>,
    },
    /// Say what the gate decides, by which policy, and why
    Explain {
        #[command(flatten)]
        question: Question,
    },
    /// Say what the gate would decide with one more `forbid` policy; nothing changes
    Test {
        /// The policy's Cedar text
        file: PathBuf,
        #[command(flatten)]
        question: Question,
    },
    /// Add a `forbid` policy
    Add {
        /// a-z, 0-9 and `-`
        id: String,
        /// Its Cedar text
        file: PathBuf,
    },
    /// Remove a policy that was added
    Remove { id: String },
    /// Sets of `forbid` policies that are shipped: strict, balanced, permissive
    #[command(subcommand)]
    Template(Template),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Template {
    /// List the templates
    List,
    /// Show what a template forbids
    Show { name: String },
    /// Put a template in force: adds those of its policies that are missing
    Apply { name: String },
}

#[derive(Debug, Args)]
pub(crate) struct Criteria {
    /// The user who acted, by id or address
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// The action
    #[arg(long)]
    pub(crate) action: Option<String>,
    /// The resource
    #[arg(long)]
    pub(crate) resource: Option<String>,
    /// allowed, refused, done, failed or noted
    #[arg(long)]
    pub(crate) decision: Option<String>,
    /// From this time on: 2026-11-15T09:00:00Z, 2026-11-15 (UTC), or how long ago: 90s, 30m, 2h, 7d
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    pub(crate) since: Option<i64>,
    /// Before this time, in the same words
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    pub(crate) until: Option<i64>,
}

/// A bundle of entries.
#[derive(Debug, clap::Args)]
pub(crate) struct Chosen {
    /// A new directory for a bundle: entries, proofs, what belongs to them, and a signed manifest
    #[arg(long, value_name = "DIR", conflicts_with = "dir")]
    pub(crate) bundle: Option<PathBuf>,
    /// Only entries that name this id, as resource, as actor or in a detail
    #[arg(long, alias = "resource", value_name = "ID", requires = "bundle")]
    pub(crate) about: Option<String>,
    /// From this entry on
    #[arg(long, value_name = "SEQ", requires = "bundle")]
    pub(crate) from: Option<u64>,
    /// Up to this entry
    #[arg(long, value_name = "SEQ", requires = "bundle")]
    pub(crate) to: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Ledger {
    /// Show the newest entries
    Tail {
        /// How many, at most 1000
        #[arg(short = 'n', long, default_value_t = 20)]
        lines: u32,
        /// Go on showing entries as they come
        #[arg(short, long)]
        follow: bool,
    },
    /// Search entries, newest first
    Search {
        #[command(flatten)]
        search: Criteria,
        /// How many
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Check the ledger: the daemon's, or files with --dir or --bundle
    Verify {
        /// A directory that `export` made, or the ledger's own
        #[arg(long, requires = "trust")]
        dir: Option<PathBuf>,
        /// A directory that `export --bundle` made
        #[arg(long, value_name = "DIR", requires = "trust", conflicts_with = "dir")]
        bundle: Option<PathBuf>,
        /// The trust root, from `palisade ledger trust`
        #[arg(long)]
        trust: Option<PathBuf>,
        /// Checkpoints that were kept elsewhere
        #[arg(long, requires = "trust")]
        anchor: Option<PathBuf>,
    },
    /// Copy the ledger's files, or some entries with what proves them, into a new directory
    Export {
        /// A new directory for every file
        #[arg(required_unless_present = "bundle")]
        dir: Option<PathBuf>,
        #[command(flatten)]
        chosen: Chosen,
    },
    /// Print what a verifier elsewhere trusts
    Trust,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show what is in force and where it comes from
    Show,
    /// Say where the files of this installation are
    Path,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Backup {
    /// Write a sealed copy of everything
    Create {
        /// A new file
        file: PathBuf,
    },
    /// Make a new installation from a copy; the daemon must not run
    Restore { file: PathBuf },
    /// Encrypt a plain-text store in place, all or nothing; the daemon must not run
    EncryptStore,
    /// Bring an older store to the present schema; the daemon must not run
    MigrateStore,
}

/// The word that a value was chosen by.
pub(crate) fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

impl Cli {
    /// The parser, for completions and manual pages.
    pub(crate) fn parser() -> clap::Command {
        Self::command()
    }

    /// Which command this is, for output.
    pub(crate) fn place(&self) -> Place {
        let debug = format!("{:?}", self.command);
        let mut words = debug.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let kebab = |word: &str| {
            let mut out = String::new();
            for c in word.chars() {
                if c.is_uppercase() && !out.is_empty() {
                    out.push('-');
                }
                out.extend(c.to_lowercase());
            }
            out
        };
        let first = words.next().map(kebab).unwrap_or_default();
        let nested = [
            "receipt", "profile", "account", "user", "key", "pass", "repo", "worktree", "policy", "ledger",
            "config", "backup", "setup", "secret", "session", "approval", "agent", "plan",
        ];
        let mut command = match words.next() {
            Some(second) if nested.contains(&first.as_str()) => format!("{first} {}", kebab(second)),
            _ => first,
        };
        if let ("policy template", Some(third)) = (command.as_str(), words.next()) {
            command = format!("{command} {}", kebab(third));
        }
        Place { command, json: self.json }
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;

    fn help(command: &mut clap::Command, path: &str, out: &mut String) {
        let text = command.render_help().to_string();
        // Options that every command has are told once, at the top.
        out.push_str(&format!("## {path}\n\n```\n{}\n```\n\n", text.trim_end()));
        for inner in command.get_subcommands_mut().filter(|one| one.get_name() != "help") {
            let path = format!("{path} {}", inner.get_name());
            help(inner, &path, out);
        }
    }

    #[test]
    fn aut_14_the_committed_command_reference_is_what_help_says() {
        let mut parser = Cli::parser().term_width(100);
        parser.build();
        let mut made = "# Commands\n\nWhat `--help` says, for every command. Generated; `make commands` writes it anew.\n\n".to_owned();
        help(&mut parser, "palisade", &mut made);
        let made = made.trim_end().to_owned() + "\n";
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
        if std::env::var_os("UPDATE_COMMANDS").is_some() {
            std::fs::write(kept, &made).unwrap();
        }
        let kept = std::fs::read_to_string(kept).unwrap_or_default();
        assert!(
            kept == made,
            "docs/commands.md is not what the commands say; run `make commands` and commit it"
        );
    }
}
