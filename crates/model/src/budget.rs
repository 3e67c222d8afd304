//! What work may spend: how much of what, by whom or where, in which time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::role::words;
use crate::{BadWord, Millis};

/// What is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetKind {
    /// Tokens of models, as agents tell them.
    Tokens,
    /// Millionths of a dollar, as agents tell them.
    Cost,
    /// Calls of tools.
    Calls,
    /// Milliseconds at work.
    Wall,
    /// Bytes to and from the network.
    Egress,
    /// Milliseconds of the processor.
    Cpu,
    /// Sessions that are at work at once; nothing of it is used up.
    Sessions,
}

/// Whose budget it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// A person's, in all sessions.
    User,
    /// A worktree's, of all who work there.
    Worktree,
    /// A session's, with all that come from it.
    Session,
    /// A Pass's, with all that were made from it; it is in the Pass, and nobody sets it.
    Pass,
}

words!(
    BudgetKind,
    "tokens, cost, calls, wall, egress, cpu, sessions",
    Tokens = "tokens",
    Cost = "cost",
    Calls = "calls",
    Wall = "wall",
    Egress = "egress",
    Cpu = "cpu",
    Sessions = "sessions"
);
words!(
    BudgetScope,
    "user, worktree, session",
    User = "user",
    Worktree = "worktree",
    Session = "session",
    Pass = "pass"
);

/// How much may be spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Whose.
    pub scope: BudgetScope,
    /// Which of these, by id; nobody in particular where it is everybody's.
    pub owner: String,
    /// Of what.
    pub kind: BudgetKind,
    /// In how many milliseconds up to now; 0 is ever.
    pub period: Millis,
    /// How much.
    pub most: i64,
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = match self.period {
            0 => String::new(),
            60_000 => " a minute".into(),
            3_600_000 => " an hour".into(),
            86_400_000 => " a day".into(),
            other => format!(" in {} s", other / 1_000),
        };
        let most = self.most;
        match self.kind {
            BudgetKind::Tokens => write!(f, "{most} tokens")?,
            BudgetKind::Cost => write!(f, "{}.{:02} USD", most / 1_000_000, most % 1_000_000 / 10_000)?,
            BudgetKind::Calls => write!(f, "{most} calls of tools")?,
            BudgetKind::Wall => write!(f, "{} s at work", most / 1_000)?,
            BudgetKind::Egress => write!(f, "{most} bytes of network")?,
            BudgetKind::Cpu => write!(f, "{} s of the processor", most / 1_000)?,
            BudgetKind::Sessions => write!(f, "{most} sessions at work at once")?,
        }
        write!(f, "{when} of the {}", self.scope)
    }
}

/// What was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spending {
    /// Tokens.
    pub tokens: i64,
    /// Millionths of a dollar.
    pub cost: i64,
    /// Calls of tools.
    pub calls: i64,
    /// Milliseconds at work.
    pub wall: i64,
    /// Bytes of network.
    pub egress: i64,
    /// Milliseconds of the processor.
    pub cpu: i64,
}

impl Spending {
    /// How much of one kind.
    #[must_use]
    pub fn of(&self, kind: BudgetKind) -> i64 {
        match kind {
            BudgetKind::Tokens => self.tokens,
            BudgetKind::Cost => self.cost,
            BudgetKind::Calls => self.calls,
            BudgetKind::Wall => self.wall,
            BudgetKind::Egress => self.egress,
            BudgetKind::Cpu => self.cpu,
            BudgetKind::Sessions => 0,
        }
    }
}
