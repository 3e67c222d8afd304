//! What can be typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::output::Place;

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
    Run(RunArgs),
    /// Say which layers this machine has, what stands in the way of the others, and what to do
    ///
    /// Exit codes: 0 sandboxes can be made; 1 something required is missing, or an attack got through.
    Doctor(DoctorArgs),
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

/// `run` alone, as it is typed most often.
#[derive(Debug, Parser)]
#[command(name = "palisade run", disable_help_flag = true)]
pub(crate) struct RunOnly {
    #[arg(long, env = "PALISADE_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) args: RunArgs,
}

impl RunOnly {
    /// What was typed, if it is `run` and nothing else; whatever is strange is for the whole parser to explain.
    pub(crate) fn parse_quickly() -> Option<Self> {
        let mut words = std::env::args_os();
        let name = words.next()?;
        (words.next()? == "run").then_some(())?;
        Self::try_parse_from(std::iter::once(name).chain(words)).ok()
    }
}

/// A command, and what it is given.
#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// The shape of the sandbox: `dev`, `strict`, `read-only`, or one of your own
    #[arg(long, default_value = "dev", value_name = "NAME")]
    pub(crate) profile: String,
    /// Also show this path, read-only
    #[arg(long, value_name = "PATH")]
    pub(crate) ro: Vec<String>,
    /// Also give this path, writable
    #[arg(long, value_name = "PATH")]
    pub(crate) rw: Vec<String>,
    /// Pass this variable, or set it
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Show files of this name that the profile hides, such as `.env`
    #[arg(long, value_name = "NAME")]
    pub(crate) show: Vec<String>,
    /// Limits, such as `memory=2g,pids=512`
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub(crate) limit: Vec<String>,
    /// Keep every change in a layer of its own
    #[arg(long)]
    pub(crate) overlay: bool,
    /// Go on without this layer; the run is weaker, and every report of it says so
    #[arg(long, value_name = "LAYER,…", value_delimiter = ',')]
    pub(crate) allow_degraded: Vec<Degradable>,
    /// Afterwards, say what was refused, by which rule, and what would allow it
    ///
    /// The command is traced for it: it is slower, and debuggers such as strace and gdb do not work in it.
    #[arg(long)]
    pub(crate) explain: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// A layer that a person can go without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Degradable {
    Landlock,
    Seccomp,
}

/// What is to be looked at.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Also attack a sandbox of this machine, and show every attack
    #[arg(long)]
    pub(crate) self_test: bool,
    /// The shape of the sandbox that is attacked
    #[arg(long, default_value = "dev", value_name = "NAME", requires = "self_test")]
    pub(crate) profile: String,
}

/// Which sandbox a shell is opened in.
#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    /// The shape of the sandbox
    #[arg(long, default_value = "dev", value_name = "NAME")]
    pub(crate) profile: String,
    /// Keep every change in a layer of its own
    #[arg(long)]
    pub(crate) overlay: bool,
    /// Join this run, or the only one there is
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["profile", "overlay"])]
    pub(crate) join: Option<String>,
}

impl ShellArgs {
    /// The same for `run`, without a command.
    pub(crate) fn run_args(self) -> RunArgs {
        RunArgs { profile: self.profile, overlay: self.overlay, ..RunArgs::default() }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReceiptCommand {
    /// Show what was measured, and how it is known
    Show {
        #[command(flatten)]
        of: ReceiptOf,
    },
    /// Check the signature, the entry of the ledger that names it, and the ledger
    Verify {
        #[command(flatten)]
        of: ReceiptOf,
    },
    /// Print the public key that signs the receipts made here
    Key,
}

/// Which receipt.
#[derive(Debug, Args)]
pub(crate) struct ReceiptOf {
    /// The run (run_…); the last one if none is named
    pub(crate) run: Option<String>,
    /// A receipt in a file of its own
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
    pub(crate) file: Option<PathBuf>,
    /// The key of whoever ran it, when that was somebody else
    #[arg(long, value_name = "HEX")]
    pub(crate) key: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Every profile there is
    List,
    /// A profile as it holds here, with what this project narrows
    Show {
        /// Which
        #[arg(default_value = "dev")]
        name: String,
    },
    /// Every key that a profile can have
    Keys,
    /// Check a profile in a file
    Check {
        /// Which
        file: PathBuf,
    },
    /// Give this project what its `.palisade/profile.toml` asks for, as it is now
    Consent {
        /// Take it back
        #[arg(long)]
        withdraw: bool,
    },
}

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
    Password,
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
        /// A Grant: {"paths":{"allow":["rw:/work"]},"tools":{"allow":["api.worktree.read"]},…}
        #[arg(long, value_name = "FILE")]
        grant: PathBuf,
        /// Minutes until it ends, at most 43200
        #[arg(long, default_value_t = 60)]
        minutes: u32,
    },
    /// Revoke a Pass and everything made from it
    Revoke { pass: String },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Repo {
    /// List repositories
    List,
    /// Register a repository
    Add {
        /// a-z, 0-9 and `-`
        name: String,
        /// https://… or ssh://…, without credentials
        origin: String,
    },
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
    },
    /// Show one, by id or name
    Show { worktree: String },
    /// Change what it says of itself
    Update { worktree: String, about: String },
    /// Change what non-owners may do
    Tier { worktree: String, tier: Tier },
    /// Add an owner
    AddOwner { worktree: String, user: String },
    /// Remove an owner; the last one stays
    RemoveOwner { worktree: String, user: String },
    /// Archive; it stays readable
    Archive { worktree: String },
    /// Delete
    Delete { worktree: String },
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
        let nested =
            ["receipt", "profile", "account", "user", "key", "pass", "repo", "worktree", "policy", "ledger", "config", "backup"];
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
