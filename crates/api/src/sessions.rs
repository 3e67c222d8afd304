//! Sessions, their tasks, what happened in them, and what waits there for a person.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An agent that sessions can be opened with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Agent {
    /// How it is named here.
    pub name: String,
    /// What people call it.
    pub title: String,
    /// The modes that it has.
    pub modes: Vec<String>,
    /// Names of secrets that it uses, if they are in the vault.
    pub secrets: Vec<String>,
    /// Those of which it needs one.
    pub needs: Vec<String>,
    /// The program by which it speaks the protocol.
    pub program: String,
    /// Whether that is there.
    pub installed: bool,
    /// The hosts that its secrets go to.
    pub hosts: Vec<String>,
    /// The sets of rules that it has.
    pub presets: Vec<String>,
    /// What it says that its version is, if that was asked for.
    pub version: Option<String>,
    /// Why it could not be started, if that was tried.
    pub fault: Option<String>,
}

/// The agents that are known; `command`, which is any program, aside.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AgentList {
    /// The agents.
    pub items: Vec<Agent>,
}

/// A session: one agent's conversation in one worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// `ses_…`
    pub id: String,
    /// Where.
    pub worktree: String,
    /// Who opened it.
    pub creator: String,
    /// Which agent works there.
    pub agent: String,
    /// How it is shown.
    pub title: String,
    /// What the agent may do without asking, in its own words.
    pub mode: Option<String>,
    /// Which model it uses, unless it chooses.
    pub model: Option<String>,
    /// What is run, where the agent is any program.
    pub command: Vec<String>,
    /// Why nothing of its queue is begun: failed, stopped, refused or interrupted.
    pub held: Option<String>,
    /// The task that is at work.
    pub at_work: Option<String>,
    /// How many tasks wait.
    pub queued: i64,
    /// The place of the last thing that happened.
    pub steps: i64,
    /// Milliseconds since the epoch.
    pub created_at: i64,
    /// When it was finished.
    pub closed_at: Option<i64>,
}

/// A page of sessions, the newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SessionPage {
    /// The sessions.
    pub items: Vec<Session>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// Opens a session; the caller is its creator.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSessionRequest {
    /// Where.
    #[schema(pattern = r#"^wt_[0-9a-f]{32}$"#)]
    pub worktree: String,
    /// Which agent: a name of `GET /api/v1/agents`, or `auto` for one that is installed and has a secret in the vault.
    #[schema(min_length = 1, max_length = 80, pattern = r#"^[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?$"#)]
    pub agent: String,
    /// How it is shown; the agent's name unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 80, pattern = r#"^[!-~](?:[ -~]*[!-~])?$"#)]
    pub title: Option<String>,
    /// What the agent may do without asking, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 80, pattern = r#"^[A-Za-z0-9._:-]+$"#)]
    pub mode: Option<String>,
    /// Which model it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 80, pattern = r#"^[A-Za-z0-9._:/-]+$"#)]
    pub model: Option<String>,
    /// What is run, where the agent is `command`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    pub command: Vec<String>,
}

/// Asks a session's agent for something.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptRequest {
    /// What: 1 to 256,000 characters.
    #[schema(value_type = String, min_length = 1, max_length = 256000, pattern = r#"[^\s]"#)]
    pub prompt: crate::Hidden,
}

/// A task: one thing that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    /// `tsk_…`
    pub id: String,
    /// Of which session.
    pub session: String,
    /// Its place in the order; grows.
    pub seq: i64,
    /// Who asked.
    pub asked_by: String,
    /// queued, running, held, done, failed or stopped.
    pub state: String,
    /// What was asked, without what is secret in it.
    pub prompt: String,
    /// The run of its sandbox, once that stands.
    pub run: Option<String>,
    /// How it ended, in words.
    pub why: String,
    /// Milliseconds since the epoch.
    pub created_at: i64,
    /// When it began.
    pub started_at: Option<i64>,
    /// Since when it is being ended.
    pub stopping_at: Option<i64>,
    /// When it ended.
    pub ended_at: Option<i64>,
}

/// A page of tasks, the oldest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TaskPage {
    /// The tasks.
    pub items: Vec<Task>,
    /// Where the next page begins, if there is one.
    pub next: Option<i64>,
}

/// What became of a wish to end something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stopping {
    /// The task that ends, if there is one.
    pub task: Option<String>,
    /// cancelled (it had not begun), ending (it is at work and being ended) or nothing.
    pub state: String,
}

/// One thing that happened in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Its place; the first is 1, and none is left out.
    pub seq: i64,
    /// Milliseconds since the epoch.
    pub at: i64,
    /// The task it belongs to.
    pub task: Option<String>,
    /// system, user, assistant, tool_use, tool_result, result, error or subagent.
    pub kind: String,
    /// What there is to say of it.
    #[schema(value_type = Object)]
    pub body: serde_json::Value,
}

/// A page of steps, the oldest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StepPage {
    /// The steps.
    pub items: Vec<Step>,
    /// Where the next page begins, if there is one.
    pub next: Option<i64>,
}

/// An effect that waits for a person, or waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    /// `apr_…`
    pub id: String,
    /// Of which session.
    pub session: String,
    /// Of which task.
    pub task: String,
    /// The digest of the effect as it will be; whoever decides repeats it.
    pub effect: String,
    /// The effect as it is shown, and what can be chosen.
    #[schema(value_type = Object)]
    pub asks: serde_json::Value,
    /// open, allowed, denied or expired.
    pub state: String,
    /// What was chosen.
    pub choice: Option<String>,
    /// By whom.
    pub decided_by: Option<String>,
    /// Milliseconds since the epoch.
    pub created_at: i64,
    /// When it was decided.
    pub decided_at: Option<i64>,
}

/// What waits for a person in a session, the newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ApprovalList {
    /// The approvals.
    pub items: Vec<Approval>,
}

/// Allows an effect that waits.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowRequest {
    /// The digest of the effect that was looked at.
    #[schema(pattern = r#"^[0-9a-f]{64}$"#)]
    pub effect: String,
    /// The id of one of the choices that allow it.
    #[schema(min_length = 1, max_length = 200, pattern = r#"^[!-~]+$"#)]
    pub choice: String,
}

/// Denies an effect that waits.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DenyRequest {
    /// The digest of the effect that was looked at.
    #[schema(pattern = r#"^[0-9a-f]{64}$"#)]
    pub effect: String,
}
