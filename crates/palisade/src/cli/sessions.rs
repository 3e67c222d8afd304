//! `palisade session`, `palisade approval` and `palisade acp`.

use clap::{Args, Subcommand};

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
        /// Show what happens until that task is over; what it asks is denied where there is no terminal
        #[arg(long, short)]
        follow: bool,
        /// Leave what it asks to others, where there is no terminal
        #[arg(long, requires = "follow")]
        leave_questions: bool,
    },
    /// Go on from a place of its conversation, in a session of your own
    Fork {
        session: String,
        /// The place of the last step that the new one has; the last there is unless told
        #[arg(long)]
        at: Option<i64>,
        /// How it is shown; like the other unless told
        #[arg(long)]
        title: Option<String>,
    },
    /// Open a session for it, within what it may, and ask that for something; it is told of the end
    Spawn {
        session: String,
        /// What; standard input if it is left out
        prompt: Option<String>,
        /// Which agent; the same unless told
        #[arg(long)]
        agent: Option<String>,
        /// How it is shown; the agent's name unless told
        #[arg(long)]
        title: Option<String>,
        /// What the agent may do without asking; no more than the other's
        #[arg(long)]
        mode: Option<String>,
        /// Which model it uses
        #[arg(long)]
        model: Option<String>,
        /// Do not tell the session of the end
        #[arg(long)]
        silent: bool,
    },
    /// Show what was spent in it, and the budgets that are about it
    Usage { session: String },
    /// Show where it comes from and what comes from it
    Lineage { session: String },
    /// Put what waits in it in another order: all tasks that wait, the first first
    Reorder {
        session: String,
        /// The tasks (tsk_…)
        #[arg(required = true)]
        tasks: Vec<String>,
    },
    /// Take back what its last task changed in the tree, and nothing else
    Undo {
        session: String,
        /// This task; the last that can be unless told
        #[arg(long)]
        task: Option<String>,
        /// Bring back what was taken back
        #[arg(long)]
        again: bool,
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
    /// Make a session of a transcript of Claude Code (JSON lines): closed, for reading
    Import {
        file: std::path::PathBuf,
        /// Where, by id or name
        #[arg(long)]
        worktree: String,
        /// How it is shown
        #[arg(long)]
        title: Option<String>,
    },
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

/// Which agent an editor gets, and where it works.
#[derive(Clone, Debug, Args)]
pub(crate) struct AcpArgs {
    /// Which agent
    #[arg(long, default_value = "palisade")]
    pub(crate) agent: String,
    /// Where it works, by id or name; the one of the editor's directory unless told
    #[arg(long)]
    pub(crate) worktree: Option<String>,
    /// What the agent may do without asking, in its own words
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// Which model it uses
    #[arg(long)]
    pub(crate) model: Option<String>,
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
    /// List what waits for a person
    List {
        /// In this session; in all that you may read unless named
        session: Option<String>,
        /// Also what is over
        #[arg(long, requires = "session")]
        all: bool,
    },
    /// Allow an effect that waits, as it was shown
    Allow {
        session: String,
        /// Which (apr_…), as `palisade approval list` shows it
        approval: String,
        /// The id of a choice; the one that allows once unless named
        #[arg(long)]
        choice: Option<String>,
        /// Also the same again: `session`, or `worktree` for all sessions of its creator there
        #[arg(long, value_parser = ["session", "worktree"])]
        scope: Option<String>,
        /// Also effects of its kind on paths beneath this directory of the worktree
        #[arg(long, requires = "scope", value_name = "DIR")]
        beneath: Option<String>,
        /// How often; 100 unless told
        #[arg(long, requires = "scope")]
        uses: Option<i64>,
        /// For how many hours; 8 unless told
        #[arg(long, requires = "scope")]
        hours: Option<i64>,
    },
    /// List consents that hold in a session beyond one question
    Consents { session: String },
    /// Take a consent back: the next question is asked again
    Revoke {
        session: String,
        /// Which (con_…)
        consent: String,
    },
    /// Deny an effect that waits
    Deny {
        session: String,
        /// Which (apr_…); the only one that waits unless named
        approval: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum BudgetCommand {
    /// List budgets that were set; the usual ones are in the configuration
    List,
    /// Set one: a task that spends it stands still, and somebody is asked
    Set {
        /// Whose: `user`, `worktree` or `session`
        #[arg(value_parser = ["user", "worktree", "session"])]
        scope: String,
        /// Which, by id or name
        owner: String,
        /// Of what: `tokens`, `cost` (hundredths of a dollar), `calls`, `wall` (seconds), `egress` (bytes), `cpu` (seconds) or `sessions` (at work at once)
        #[arg(value_parser = ["tokens", "cost", "calls", "wall", "egress", "cpu", "sessions"])]
        kind: String,
        /// How much
        most: i64,
        /// In which time up to now: `minute`, `hour`, `day` or `ever`
        #[arg(long, default_value = "day", value_parser = ["minute", "hour", "day", "ever"])]
        per: String,
    },
    /// Take one away: what is usual holds again
    Remove {
        #[arg(value_parser = ["user", "worktree", "session"])]
        scope: String,
        owner: String,
        #[arg(value_parser = ["tokens", "cost", "calls", "wall", "egress", "cpu", "sessions"])]
        kind: String,
        #[arg(long, default_value = "day", value_parser = ["minute", "hour", "day", "ever"])]
        per: String,
    },
    /// Show what was spent in the whole installation, the most expensive first
    Usage {
        /// Summed up by `user`, `worktree`, `session` or `agent`
        #[arg(long, default_value = "user", value_parser = ["user", "worktree", "session", "agent"])]
        by: String,
        /// How many days are looked back
        #[arg(long, default_value_t = 30)]
        days: i64,
    },
}
