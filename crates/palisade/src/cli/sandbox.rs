//! What can be typed about sandboxes: what a run is given, and what is asked about one.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// `run` alone, as it is typed most often.
#[derive(Debug, Parser)]
#[command(name = "palisade run", disable_help_flag = true)]
pub(crate) struct RunOnly {
    #[arg(long, env = "PALISADE_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
    #[arg(long, env = "PALISADE_URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    #[arg(long, env = "PALISADE_CA", hide_env_values = true)]
    pub(crate) ca: Option<PathBuf>,
    #[arg(long, env = "PALISADE_INSECURE_HTTP", hide_env_values = true, value_parser = clap::builder::BoolishValueParser::new())]
    pub(crate) insecure_http: bool,
    #[arg(long)]
    pub(crate) totp: Option<String>,
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
    /// Pass all other variables too, but for those that hold a credential or steer programs
    #[arg(long)]
    pub(crate) inherit_env: bool,
    /// Show files of this name that the profile hides, such as `.env`
    #[arg(long, value_name = "NAME")]
    pub(crate) show: Vec<String>,
    /// Limits, such as `memory=2g,pids=512`
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub(crate) limit: Vec<String>,
    /// Let it reach this host, on port 443 unless another is named; `*.x.y` is one label more, `**.x.y` any number
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) allow: Vec<String>,
    /// Let it reach what this set of rules allows, such as `github-read` or `npm-install`
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Vec<String>,
    /// Let it reach what the rules in this file allow (TOML, see docs/network.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Vec<PathBuf>,
    /// Lend it the secret in this variable: inside stands a word for it, and the secret itself goes to its host only
    ///
    /// `HOST:PORT` names another port than 443. With a path it goes only with requests for what that covers, as in rules
    /// (`/v1/**`).
    /// If the variable is not set, the secret of this name in the vault of your daemon is lent. `env:NAME` is never looked for
    /// there, `vault:NAME` nowhere else. Programs that start runs say it on standard input, as `stdin:NAME` (docs/network.md).
    #[arg(long, value_name = "NAME[=HOST[/PATH]]")]
    pub(crate) secret: Vec<String>,
    /// Where secrets of the vault count: in this worktree of the daemon, by id or name
    #[arg(long, value_name = "WORKTREE")]
    pub(crate) secret_worktree: Option<String>,
    /// Put a decoy into this variable, shaped like a real key: whoever sends it anywhere is stopped, and you are told
    #[arg(long, value_name = "NAME")]
    pub(crate) decoy: Vec<String>,
    /// Ask on the terminal about hosts that no rule knows, while the connection waits
    #[arg(long)]
    pub(crate) ask: bool,
    /// Let it reach every host there is, look into what it asks for, and write what it needed as a profile of this name
    ///
    /// Private and special addresses stay out of reach.
    #[arg(long, value_name = "NAME", conflicts_with = "ask")]
    pub(crate) learn: Option<String>,
    /// Let this machine reach a port inside, at the same port of its loopback or at another; it can be given again
    #[arg(long, value_name = "[HOSTPORT:]PORT")]
    pub(crate) publish: Vec<String>,
    /// The most that it may do with its network, such as `bytes=100M,requests=1000,connections=64,rate=50/s`
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub(crate) net_limit: Vec<String>,
    /// Keep everything on this machine: a rule for anything but ports of its own loopback is refused
    #[arg(long, conflicts_with_all = ["ask", "learn"])]
    pub(crate) local_only: bool,
    /// No network, also for a command whose needs are known
    #[arg(long, conflicts_with_all = ["allow", "preset", "rules", "secret", "ask", "learn", "publish", "net_limit"])]
    pub(crate) offline: bool,
    /// Say what it reaches, and what is refused, while it runs
    #[arg(long)]
    pub(crate) watch_net: bool,
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
    /// Write what becomes of the run to this file, for the program that started it (docs/sandbox.md)
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) report: Option<PathBuf>,
    /// End everything when this process ends, which must be the one that started this one
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) parent: Option<u32>,
    /// The command is the agent of this document, whatever it is called
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) known_as: Option<PathBuf>,
    /// How many seconds the command has to end by itself when it is stopped
    #[arg(long, value_name = "SECONDS", default_value_t = 5, hide = true, value_parser = clap::value_parser!(u64).range(..=60))]
    pub(crate) grace: u64,
    /// Of the worktree, give this part and nothing else; `/` is the worktree
    #[arg(long, value_name = "ro:/PATH|rw:/PATH", hide = true, requires = "overlay")]
    pub(crate) only: Vec<String>,
    /// Keep this part of the worktree out
    #[arg(long, value_name = "/PATH", hide = true, requires = "only")]
    pub(crate) except: Vec<String>,
    /// Of all that other rules allow, let it reach these hosts and nothing else
    #[arg(long, value_name = "HOST[:PORT]", hide = true)]
    pub(crate) within: Vec<String>,
    /// Let it not reach these hosts, whatever other rules allow
    #[arg(long, value_name = "HOST[:PORT]", hide = true)]
    pub(crate) never: Vec<String>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// `palisade rules`.
///
/// With `--allow`, `--preset` or `--rules` these are all the rules from then on. What is open and no longer allowed is
/// closed within a second, and everything else goes on. A set with one fault changes nothing.
#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    /// The run (run_…); the only one if none is named
    pub(crate) run: Option<String>,
    /// Let it reach this host, as in `palisade run`
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) allow: Vec<String>,
    /// Let it reach what this set of rules allows
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Vec<String>,
    /// Let it reach what the rules in this file allow (TOML, see docs/network.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Vec<PathBuf>,
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
        RunArgs { profile: self.profile, overlay: self.overlay, grace: 5, ..RunArgs::default() }
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
    /// What was allowed for good, as an answer to a run that asked
    Remembered,
    /// Take back what was allowed for good
    Forget {
        /// Which host, on port 443 unless another is named
        #[arg(value_name = "HOST[:PORT]")]
        host: String,
        /// In every project, not only in the one here
        #[arg(long)]
        everywhere: bool,
    },
    /// Give this project what its `.palisade/profile.toml` asks for, as it is now
    Consent {
        /// Take it back
        #[arg(long)]
        withdraw: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SetupCommand {
    /// Let this program use user namespaces where AppArmor keeps programs from them, as on Ubuntu
    ///
    /// Writes /etc/apparmor.d/palisade for this very program, which only root may be able to change, and loads it.
    Apparmor(ApparmorArgs),
}

/// What to do about the profile.
#[derive(Debug, Args)]
pub(crate) struct ApparmorArgs {
    /// Show the profile and change nothing
    #[arg(long)]
    pub(crate) print: bool,
    /// Take the profile back
    #[arg(long, conflicts_with = "print")]
    pub(crate) remove: bool,
    /// The directory that is taken for the whole machine
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub(crate) root: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::RunOnly;

    fn command(words: &[&str]) -> Option<Vec<String>> {
        let words = std::iter::once("palisade run").chain(words.iter().copied());
        let run = RunOnly::try_parse_from(words).ok()?;
        Some(run.args.command.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn what_looks_like_an_option_is_not_taken_for_the_command() {
        for typed in [&["--help"][..], &["-h"], &["--alow", "x.example", "--", "true"], &["--watch", "true"]]
        {
            assert_eq!(command(typed), None, "{typed:?}");
        }
        assert_eq!(command(&["sh", "-c", "x", "--json"]).unwrap(), ["sh", "-c", "x", "--json"]);
        assert_eq!(command(&["--ro", "/x", "--", "-odd", "--help"]).unwrap(), ["-odd", "--help"]);
    }
}
