//! What tasks of a session go through, and what is told of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::role::words;
use crate::{BadWord, Millis, SessionId, TaskId};

/// Where a task is. It moves along [`TaskState::may_become`] and no other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Waits for its turn.
    Queued,
    /// An agent works on it.
    Running,
    /// An agent would, and stands still until somebody decides.
    Held,
    /// The agent came to its end.
    Done,
    /// It came to no good end.
    Failed,
    /// Somebody ended it.
    Stopped,
}

/// Why a session begins nothing of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldCause {
    /// The last task failed.
    Failed,
    /// Somebody stopped the last task.
    Stopped,
    /// Whoever prompted may not any more.
    Refused,
    /// The daemon ended while the last task ran.
    Interrupted,
    /// What may be spent is spent.
    Budget,
}

/// How a session came from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Born {
    /// It goes on from a place of the other's conversation.
    Fork,
    /// It begins anew, for the other, and within what that may.
    Spawn,
}

/// Where a consent holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsentScope {
    /// In the session that asked.
    Session,
    /// In all sessions of the same creator in the same worktree.
    Worktree,
}

/// What became of an effect that waited for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// It waits.
    Open,
    /// Somebody allowed it.
    Allowed,
    /// Somebody denied it.
    Denied,
    /// Nobody decided in time, or whoever asked is gone.
    Expired,
}

/// Kinds of effects that are about the paths that they name and nothing else, as agents call them: only these can be allowed
/// beneath a directory.
pub const ON_PATHS: [&str; 5] = ["read", "edit", "delete", "move", "search"];

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// What happened to the session or a task.
    System,
    /// What a person said.
    User,
    /// What the agent said.
    Assistant,
    /// What the agent is about to do, or does.
    ToolUse,
    /// What came of it.
    ToolResult,
    /// How a task ended.
    Result,
    /// What could not be understood, or went wrong.
    Error,
    /// What another session that this one began did.
    Subagent,
}

/// One thing that happened in a session, at its place in the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// In which session.
    pub session: SessionId,
    /// Its place; the first is 1, and none is left out.
    pub seq: i64,
    /// When.
    pub at: Millis,
    /// The task it belongs to.
    pub task: Option<TaskId>,
    /// What it is.
    pub kind: StepKind,
    /// What there is to say of it, without secrets.
    pub body: Value,
}

words!(
    TaskState,
    "queued, running, held, done, failed, stopped",
    Queued = "queued",
    Running = "running",
    Held = "held",
    Done = "done",
    Failed = "failed",
    Stopped = "stopped"
);
words!(
    HoldCause,
    "failed, stopped, refused, interrupted, budget",
    Failed = "failed",
    Stopped = "stopped",
    Refused = "refused",
    Interrupted = "interrupted",
    Budget = "budget"
);
words!(ConsentScope, "session, worktree", Session = "session", Worktree = "worktree");
words!(Born, "fork, spawn", Fork = "fork", Spawn = "spawn");
words!(
    ApprovalState,
    "open, allowed, denied, expired",
    Open = "open",
    Allowed = "allowed",
    Denied = "denied",
    Expired = "expired"
);
words!(
    StepKind,
    "system, user, assistant, tool_use, tool_result, result, error, subagent",
    System = "system",
    User = "user",
    Assistant = "assistant",
    ToolUse = "tool_use",
    ToolResult = "tool_result",
    Result = "result",
    Error = "error",
    Subagent = "subagent"
);

impl TaskState {
    /// Whether nothing becomes of it any more.
    #[must_use]
    pub const fn is_over(self) -> bool {
        match self {
            Self::Queued | Self::Running | Self::Held => false,
            Self::Done | Self::Failed | Self::Stopped => true,
        }
    }

    /// The declared edges.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        match self {
            Self::Queued => matches!(next, Self::Running | Self::Stopped),
            Self::Running => matches!(next, Self::Held | Self::Done | Self::Failed | Self::Stopped),
            Self::Held => matches!(next, Self::Running | Self::Failed | Self::Stopped),
            Self::Done | Self::Failed | Self::Stopped => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SES-07: a task moves along the declared edges, and what is over stays so.
    #[test]
    fn ses_07_what_is_over_stays_over_and_nothing_runs_that_did_not_wait() {
        for from in TaskState::EVERY {
            for to in TaskState::EVERY {
                let may = from.may_become(*to);
                assert!(!(from.is_over() && may), "{from} became {to}");
                assert!(!(may && *to == TaskState::Queued), "{from} went back into the queue");
                assert!(!may || from != to, "{from} became itself");
            }
        }
        assert!(!TaskState::Queued.may_become(TaskState::Done));
    }
}
