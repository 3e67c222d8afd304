//! Sessions.

use super::{Called, Client, NOTHING, part, query};
use crate::*;

/// Which sessions to list.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// In this worktree only.
    pub worktree: Option<String>,
    /// Of this person only.
    pub creator: Option<String>,
    /// Also those that are finished.
    pub closed: bool,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// How many.
    pub limit: Option<u32>,
}

/// Sessions.
impl Client {
    /// The agents that are known.
    pub fn agents(&self) -> Called<AgentList> {
        self.call("GET", "/api/v1/agents", NOTHING)
    }

    /// The same, each started to hear which version it is.
    pub fn checked_agents(&self) -> Called<AgentList> {
        self.call("POST", "/api/v1/agents/check", NOTHING)
    }

    /// Lists sessions, the newest first.
    pub fn sessions(&self, filter: &SessionFilter) -> Called<SessionPage> {
        let query = query(&[
            ("worktree", filter.worktree.clone()),
            ("creator", filter.creator.clone()),
            ("closed", filter.closed.then(|| "true".to_owned())),
            ("after", filter.after.clone()),
            ("limit", filter.limit.map(|n| n.to_string())),
        ]);
        self.call("GET", &format!("/api/v1/sessions{query}"), NOTHING)
    }

    /// Opens a session.
    pub fn create_session(&self, body: &CreateSessionRequest) -> Called<Session> {
        self.call("POST", "/api/v1/sessions", Some(body))
    }

    /// Keeps a page of a transcript.
    pub fn import_session(&self, body: &ImportRequest) -> Called<Session> {
        self.call("POST", "/api/v1/sessions/import", Some(body))
    }

    /// One session.
    pub fn session(&self, id: &str) -> Called<Session> {
        self.call("GET", &format!("/api/v1/sessions/{}", part(id)), NOTHING)
    }

    /// Asks its agent for something, once: also if the connection breaks meanwhile.
    pub fn prompt_session(&self, id: &str, prompt: &str) -> Called<Task> {
        let body = PromptRequest { prompt: Hidden(prompt.to_owned()) };
        self.call_once("POST", &format!("/api/v1/sessions/{}/tasks", part(id)), &body)
    }

    /// Its tasks after a place in the order.
    pub fn tasks(&self, id: &str, after: i64) -> Called<TaskPage> {
        let query = query(&[("after", Some(after.to_string()))]);
        self.call("GET", &format!("/api/v1/sessions/{}/tasks{query}", part(id)), NOTHING)
    }

    /// Ends one of its tasks.
    pub fn stop_task(&self, id: &str, task: &str) -> Called<Stopping> {
        self.call("DELETE", &format!("/api/v1/sessions/{}/tasks/{}", part(id), part(task)), NOTHING)
    }

    /// Ends what is at work.
    pub fn stop_session(&self, id: &str) -> Called<Stopping> {
        self.call("POST", &format!("/api/v1/sessions/{}/stop", part(id)), NOTHING)
    }

    /// Lets it go on with its queue.
    pub fn resume_session(&self, id: &str) -> Called<Session> {
        self.call("POST", &format!("/api/v1/sessions/{}/resume", part(id)), NOTHING)
    }

    /// Finishes it.
    pub fn close_session(&self, id: &str) -> Called<Session> {
        self.call("POST", &format!("/api/v1/sessions/{}/close", part(id)), NOTHING)
    }

    /// Goes on from a place of a session's conversation.
    pub fn fork_session(&self, id: &str, body: &ForkRequest) -> Called<Session> {
        self.call("POST", &format!("/api/v1/sessions/{}/fork", part(id)), Some(body))
    }

    /// Opens a session for another, and asks it for something.
    pub fn spawn_session(&self, id: &str, body: &SpawnRequest) -> Called<Spawned> {
        self.call("POST", &format!("/api/v1/sessions/{}/spawn", part(id)), Some(body))
    }

    /// Where a session comes from and what comes from it.
    pub fn lineage(&self, id: &str) -> Called<Lineage> {
        self.call("GET", &format!("/api/v1/sessions/{}/lineage", part(id)), NOTHING)
    }

    /// Puts what waits in another order.
    pub fn reorder_tasks(&self, id: &str, tasks: Vec<String>) -> Called<TaskList> {
        self.call("PUT", &format!("/api/v1/sessions/{}/queue", part(id)), Some(&ReorderRequest { tasks }))
    }

    /// Takes back what a task changed in the tree.
    pub fn undo_task(&self, id: &str, body: &UndoRequest) -> Called<Task> {
        self.call("POST", &format!("/api/v1/sessions/{}/undo", part(id)), Some(body))
    }

    /// What happened after a place.
    pub fn steps(&self, id: &str, after: i64) -> Called<StepPage> {
        let query = query(&[("after", Some(after.to_string()))]);
        self.call("GET", &format!("/api/v1/sessions/{}/steps{query}", part(id)), NOTHING)
    }

    /// What happened after a place, so much at once.
    pub fn steps_page(&self, id: &str, after: i64, limit: u32) -> Called<StepPage> {
        let query = query(&[("after", Some(after.to_string())), ("limit", Some(limit.to_string()))]);
        self.call("GET", &format!("/api/v1/sessions/{}/steps{query}", part(id)), NOTHING)
    }

    /// What waits for a person there.
    pub fn approvals(&self, id: &str, all: bool) -> Called<ApprovalList> {
        let query = query(&[("all", all.then(|| "true".to_owned()))]);
        self.call("GET", &format!("/api/v1/sessions/{}/approvals{query}", part(id)), NOTHING)
    }

    /// What waits for a person in any session that the caller may read.
    pub fn open_approvals(&self) -> Called<ApprovalList> {
        self.call("GET", "/api/v1/approvals", NOTHING)
    }

    /// Allows what waits.
    pub fn allow_approval(&self, id: &str, approval: &str, body: &AllowRequest) -> Called<Approval> {
        let path = format!("/api/v1/sessions/{}/approvals/{}/allow", part(id), part(approval));
        self.call("POST", &path, Some(body))
    }

    /// Denies what waits.
    pub fn deny_approval(&self, id: &str, approval: &str, body: &DenyRequest) -> Called<Approval> {
        let path = format!("/api/v1/sessions/{}/approvals/{}/deny", part(id), part(approval));
        self.call("POST", &path, Some(body))
    }

    /// Consents that hold in a session.
    pub fn consents(&self, id: &str) -> Called<ConsentList> {
        self.call("GET", &format!("/api/v1/sessions/{}/consents", part(id)), NOTHING)
    }

    /// Takes a consent back.
    pub fn revoke_consent(&self, id: &str, consent: &str) -> Called<()> {
        let path = format!("/api/v1/sessions/{}/consents/{}", part(id), part(consent));
        self.call("DELETE", &path, NOTHING)
    }

    /// What was spent in a session, and what may be.
    pub fn session_usage(&self, id: &str) -> Called<SessionUsage> {
        self.call("GET", &format!("/api/v1/sessions/{}/usage", part(id)), NOTHING)
    }

    /// What was spent in the whole installation.
    pub fn usage(&self, by: Option<&str>, days: Option<i64>) -> Called<UsageList> {
        let query = query(&[("by", by.map(str::to_owned)), ("days", days.map(|days| days.to_string()))]);
        self.call("GET", &format!("/api/v1/usage{query}"), NOTHING)
    }

    /// Budgets that somebody set.
    pub fn budgets(&self) -> Called<BudgetList> {
        self.call("GET", "/api/v1/budgets", NOTHING)
    }

    /// Sets a budget, or takes it away.
    pub fn set_budget(&self, body: &SetBudgetRequest) -> Called<()> {
        self.call("PUT", "/api/v1/budgets", Some(body))
    }
}
