//! `palisade session` and `palisade approval`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Open a session: an agent's conversation in a worktree
    New {
        /// Where, by id or name
        worktree: String,
        /// Which agent; `auto` is one that is ready, `command` any program, named behind `--`
        #[arg(long, default_value = "palisade")]
        agent: String,
        /// How it is shown; the agent's name unless told
        #[arg(long)]
        title: Option<String>,
        /// What the agent may do without asking, in its own words
        #[arg(long)]
        mode: Option<String>,
        /// Which model it uses
        #[arg(long)]
        model: Option<String>,
        /// The program and its arguments, for `--agent command`
        #[arg(last = true, value_name = "CMD")]
        command: Vec<String>,
    },
    /// List sessions that you may know of, the newest first
    List {
        /// In this worktree, by id or name
        #[arg(long)]
        worktree: Option<String>,
        /// Only those that you opened
        #[arg(long)]
        mine: bool,
        /// Also those that are finished
        #[arg(long)]
        closed: bool,
    },
    /// Show one, with its tasks
    Show { session: String },
    /// Ask its agent for something; it is begun when its turn comes
    Prompt {
        session: String,
        /// What; standard input if it is left out
        prompt: Option<String>,
        /// Show what happens until that task is over
        #[arg(long, short)]
        follow: bool,
    },
    /// Show what happens in it, as it happens
    Attach {
        session: String,
        /// Begin behind this place; 0 is the beginning, and without it what comes from now on
        #[arg(long)]
        after: Option<i64>,
    },
    /// Print everything that happened in it, one JSON document a line
    Export { session: String },
    /// End what is at work in it, or one task of its queue; what waits stays, behind a hold
    Stop {
        session: String,
        /// This task
        #[arg(long)]
        task: Option<String>,
    },
    /// Let it go on with its queue after a task failed or was stopped
    Resume { session: String },
    /// Finish it: what is at work ends, what waits is dropped
    Close { session: String },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// List them, with the modes that each has and the secrets that it uses
    List,
    /// Say of each whether it is ready here: its program, its version, its secrets, its hosts, and what to do next
    Doctor {
        /// Only this one
        name: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalCommand {
    /// List what waits for a person in a session
    List {
        session: String,
        /// Also what is over
        #[arg(long)]
        all: bool,
    },
    /// Allow an effect that waits, as it was shown
    Allow {
        session: String,
        /// Which (apr_…); the only one that waits unless named
        approval: Option<String>,
        /// The id of a choice; the one that allows once unless named
        #[arg(long)]
        choice: Option<String>,
    },
    /// Deny an effect that waits
    Deny {
        session: String,
        /// Which (apr_…); the only one that waits unless named
        approval: Option<String>,
    },
}
