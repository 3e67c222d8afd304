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
    /// Why nothing of its queue is begun: failed, stopped, refused, interrupted or budget.
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
    /// How many lines of a transcript it was made from, if it was.
    #[serde(default)]
    pub imported: Option<i64>,
    /// Where it comes from, if from another session.
    pub origin: Option<Origin>,
    /// How many sessions were opened for one another before it.
    pub depth: i64,
}

/// Where a session comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Origin {
    /// From which.
    pub parent: String,
    /// fork (it goes on with the other's conversation) or spawn (it was opened for the other).
    pub born: String,
    /// The last step that it has of the other's.
    pub at: Option<i64>,
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

/// A page of a transcript of Claude Code that becomes a session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportRequest {
    /// Where.
    #[schema(pattern = r#"^wt_[0-9a-f]{32}$"#)]
    pub worktree: String,
    /// The session that the first page made; none with the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r#"^ses_[0-9a-f]{32}$"#)]
    pub session: Option<String>,
    /// How it is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 80, pattern = r#"^[!-~](?:[ -~]*[!-~])?$"#)]
    pub title: Option<String>,
    /// How many lines came before this page.
    #[serde(default)]
    #[schema(minimum = 0)]
    pub after: i64,
    /// The lines, as they stand in the file.
    #[schema(value_type = Vec<String>, max_items = 500)]
    pub lines: Vec<crate::Hidden>,
    /// The places in this page, from 0, of lines that cannot be sent; what stands there says why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 500)]
    pub lost: Vec<i64>,
    /// Whether nothing more comes.
    #[serde(default)]
    pub last: bool,
}

/// Asks a session's agent for something.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptRequest {
    /// What: 1 to 256,000 characters.
    #[schema(value_type = String, min_length = 1, max_length = 256000, pattern = r#"[^\s\u0085]"#)]
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
    /// When what it changed in the tree was taken back.
    pub undone_at: Option<i64>,
    /// Where the tree stood when it began; told where tasks are listed.
    pub tree_before: Option<TreeState>,
    /// Where the tree stood when it ended.
    pub tree_after: Option<TreeState>,
}

/// Where a tree stood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TreeState {
    /// The branch that was checked out, if it was one.
    pub branch: Option<String>,
    /// Its commit.
    pub commit: Option<String>,
    /// Whether something lay there that was in no commit; none if that could not be told.
    pub dirty: Option<bool>,
    /// When it was looked at.
    pub at: i64,
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
    /// The consent by which it was, if nobody was asked.
    pub consent: Option<String>,
}

/// What waits for a person, the newest first.
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
    /// once, session (the same in this session) or worktree (in all sessions of its creator there); once unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r#"^(?:once|session|worktree)$"#)]
    pub scope: Option<String>,
    /// Not only the same effect, but those of its kind on paths beneath this directory of the worktree; with a scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1000)]
    pub beneath: Option<String>,
    /// How often; 100 unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub uses: Option<i64>,
    /// For how many hours; 8 unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 720)]
    pub hours: Option<i64>,
}

impl AllowRequest {
    /// Only this effect, only now.
    #[must_use]
    pub fn once(effect: String, choice: String) -> Self {
        Self { effect, choice, scope: None, beneath: None, uses: None, hours: None }
    }
}

/// A consent that holds for more than one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Consent {
    /// `con_…`
    pub id: String,
    /// session or worktree.
    pub scope: String,
    /// The question that it was given with.
    pub approval: String,
    /// What kind of effect.
    pub kind: String,
    /// Effects on paths beneath this directory; exactly the same effect, if there is none.
    pub beneath: Option<String>,
    /// How often it can be used still.
    pub left: i64,
    /// Who gave it.
    pub given_by: String,
    /// Milliseconds since the epoch.
    pub created_at: i64,
    /// When it ends by itself.
    pub expires_at: i64,
}

/// Consents that hold in a session, the newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ConsentList {
    /// The consents.
    pub items: Vec<Consent>,
}

/// Denies an effect that waits.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DenyRequest {
    /// The digest of the effect that was looked at.
    #[schema(pattern = r#"^[0-9a-f]{64}$"#)]
    pub effect: String,
}

/// Goes on from a place of a session's conversation.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkRequest {
    /// The place of the last step that the new session has; the last there is unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub at: Option<i64>,
    /// How it is shown; like the other unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 80, pattern = r#"^[!-~](?:[ -~]*[!-~])?$"#)]
    pub title: Option<String>,
}

/// Opens a session for another, and asks it for something.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SpawnRequest {
    /// What: 1 to 256,000 characters.
    #[schema(value_type = String, min_length = 1, max_length = 256000, pattern = r#"[^\s\u0085]"#)]
    pub prompt: crate::Hidden,
    /// Which agent; the other's unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 80, pattern = r#"^[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?$"#)]
    pub agent: Option<String>,
    /// How it is shown; the agent's name unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 80, pattern = r#"^[!-~](?:[ -~]*[!-~])?$"#)]
    pub title: Option<String>,
    /// What the agent may do without asking; no more than the other's.
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
    /// Whether the other is told of its end, as a task of its queue; it is unless told.
    #[serde(default = "yes")]
    #[schema(default = true)]
    pub report: bool,
}

fn yes() -> bool {
    true
}

/// A session that was opened for another, and what it was asked.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Spawned {
    /// The session.
    pub session: Session,
    /// Its first task.
    pub task: Task,
}

/// Where a session stands among those it comes from and those that come from it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Lineage {
    /// Where it comes from, the first of all first.
    pub ancestors: Vec<Session>,
    /// What comes from it, in the order in which they were opened.
    pub descendants: Vec<Session>,
    /// Whether there are more than are told.
    pub more: bool,
}

/// Puts what waits in another order.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReorderRequest {
    /// All tasks that wait, in the order that is wanted.
    #[schema(max_items = 1000)]
    pub tasks: Vec<String>,
}

/// Tasks, in order.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TaskList {
    /// The tasks.
    pub items: Vec<Task>,
}

/// Takes back what a task changed in the tree.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UndoRequest {
    /// Which; the last that can be unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r#"^tsk_[0-9a-f]{32}$"#)]
    pub task: Option<String>,
    /// Bring back what was taken back.
    #[serde(default)]
    pub again: bool,
}
