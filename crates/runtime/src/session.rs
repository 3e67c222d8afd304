//! Sessions: conversations with agents that work in worktrees.
//!
//! Flow: a session is opened -> what is asked becomes a task of its queue -> [`desk`] begins it -> [`turn`] carries it out ->
//! [`journal`] keeps and tells what happened.
//!
//! Invariants: a prompt is on the disk before it is acknowledged, sealed; one task of a session is at work at a time; a step
//! is told after it is on the disk.

mod agents;
mod bounds;
mod budget;
mod check;
mod consents;
mod cut;
mod desk;
mod follow;
mod import;
mod journal;
mod lineage;
mod measured;
mod programs;
mod recall;
mod sandbox;
mod seen;
mod tidy;
mod told;
mod turn;
mod undo;

use std::sync::Arc;

use access::{
    AllowApproval, CloseSession, CreateSession, DenyApproval, ListSessions, Principal, PromptSession,
    ReadSession, ReorderTasks, ResumeSession, StopSession, WiderConsent,
};
use model::{AgentName, ApprovalId, ConsentId, DisplayName, SessionId, Step, StepKind, TaskId, WorktreeId};
use serde_json::json;
use store::{Approval, Session, SessionFilter, Stopping, StoreError, Task};
use vault::{KeyRing, Place, SealedRecord};
use zeroize::Zeroizing;

pub use bounds::{Notice, SessionBounds, UnknownWord};
pub use budget::UsualBudgets;
pub use check::AgentView;
pub(crate) use check::Checks;
pub(crate) use desk::Desk;
pub use follow::SessionFollower;
pub use import::{ImportLine, ImportPage};
pub(crate) use journal::Journal;
pub use lineage::NewChild;
pub use measured::announce;
pub(crate) use told::clean as shown;

use self::agents::{AUTO, Kind};
use self::turn::Wish;
use crate::{ActError, Page, Runtime};

/// What is said of a prompt that does not open.
const SEALED: &str = "what was asked cannot be opened any more";
/// Characters of a prompt.
pub const MOST_PROMPT: usize = 256_000;
/// Approvals that are read at once.
const APPROVALS_AT_ONCE: i64 = 200;

/// A session to open.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Where.
    pub worktree: WorktreeId,
    /// Which agent.
    pub agent: AgentName,
    /// How it is shown.
    pub title: DisplayName,
    /// What the agent may do without asking, in its own words.
    pub mode: Option<String>,
    /// Which model it uses.
    pub model: Option<String>,
    /// What is run, where the agent is any program.
    pub command: Vec<String>,
}

/// Where a prompt is sealed for.
fn place<R>(task: TaskId, session: SessionId, with: impl FnOnce(&Place<'_>) -> R) -> R {
    let (record, owner) = (format!("tasks/{task}"), session.to_string());
    with(&Place { record: &record, owner: &owner, field: "prompt" })
}

fn opened(
    ring: &KeyRing,
    task: TaskId,
    session: SessionId,
    sealed: &[u8],
) -> Result<Zeroizing<String>, String> {
    let sealed = SealedRecord::parse(sealed.to_vec()).map_err(|error| error.to_string())?;
    let bytes =
        place(task, session, |place| ring.open_record(place, &sealed)).map_err(|error| error.to_string())?;
    let text = std::str::from_utf8(bytes.expose()).map_err(|error| error.to_string())?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// The same prompt, sealed under the current epoch.
pub(crate) fn carry_over(
    ring: &KeyRing,
    task: TaskId,
    session: SessionId,
    old: &[u8],
) -> Result<Vec<u8>, String> {
    let text = opened(ring, task, session, old)?;
    let sealed = place(task, session, |place| ring.seal_record(place, text.as_bytes()));
    sealed.map(SealedRecord::into_bytes).map_err(|error| error.to_string())
}

impl Runtime {
    /// One session.
    pub async fn session(&self, who: &Principal, session: SessionId) -> Result<Session, ActError> {
        let permit = self.look(who, ReadSession { session }).await?;
        Ok(self.store.read_session(permit).await?)
    }

    /// The sessions this caller may know of, the newest first.
    pub async fn sessions(
        &self,
        who: &Principal,
        filter: &SessionFilter,
        before: Option<SessionId>,
        limit: i64,
    ) -> Result<Page<Session, SessionId>, ActError> {
        let rbac = self.gate.worktree_rbac();
        let as_of = self.gate.epoch().now();
        // A cursor that names what the caller may not know of is like one that names nothing.
        let before = match before {
            Some(id) => {
                let facts = self.gate.session(id).await.map_err(|_| ActError::Interrupted)?;
                facts.filter(|facts| self.gate.may_read_session(who, facts, as_of)).map(|_| id)
            }
            None => None,
        };
        Page::filled(
            limit,
            before,
            Session::id,
            |before, take| async move {
                let permit = self.look(who, ListSessions {}).await?;
                Ok(self.store.list_sessions(permit, rbac, filter, before, take).await?)
            },
            |row, as_of| self.gate.may_read_session(who, &row.facts, as_of),
            self.gate.epoch(),
        )
        .await
    }

    /// Opens a session; nothing runs before something is asked.
    pub async fn create_session(
        self: &Arc<Self>,
        who: &Principal,
        new: NewSession,
    ) -> Result<Session, ActError> {
        let NewSession { worktree, agent, title, mode, model, command } = new;
        let launcher = self.trees.launcher();
        let (agent, fits) = match agent.as_str() == AUTO && command.is_empty() {
            true => match self.ready_agent(who, worktree, mode.as_deref()).await {
                Ok(ready) => (ready, Ok(())),
                Err(why) => (agent, Err(why)),
            },
            false => {
                let fits = Kind::fits(&self.agents, launcher, agent.as_str(), mode.as_deref(), &command);
                (agent, fits)
            }
        };
        let fits = fits.map_err(StoreError::Unusable);
        let act =
            CreateSession { session: SessionId::random(), worktree, agent, title, mode, model, command };
        let tree = self.trees.tree(worktree);
        let effect = async move |store: Arc<store::Store>, permit| {
            fits?;
            if !tree.is_dir() {
                let why = "the worktree has no tree: its repository was not fetched when it was made";
                return Err(StoreError::Unusable(why.into()));
            }
            store.create_session(permit).await
        };
        self.perform(who, act, effect).await
    }

    /// Asks a session's agent for something: on the disk when this returns, begun when its turn comes.
    pub async fn prompt_session(
        self: &Arc<Self>,
        who: &Principal,
        session: SessionId,
        prompt: Zeroizing<String>,
    ) -> Result<Task, ActError> {
        self.queue_prompt(who, session, prompt, None).await
    }

    /// The same; `child` is the session whose end it tells of.
    async fn queue_prompt(
        self: &Arc<Self>,
        who: &Principal,
        session: SessionId,
        prompt: Zeroizing<String>,
        child: Option<SessionId>,
    ) -> Result<Task, ActError> {
        let task = TaskId::random();
        let shown = told::clean(&self.redactor, &prompt);
        let sealing = Arc::clone(&self.sealing).read_owned().await;
        let sealed = place(task, session, |place| self.ring.seal_record(place, prompt.as_bytes()));
        let sealed = sealed.map_err(|error| StoreError::Unusable(error.to_string()))?;
        let claim = self.auth.claim(who, &task.to_string());
        let act = PromptSession { session, task, epoch: sealed.epoch(), prompt: sealed.into_bytes(), claim };
        let messages = self.bounds.usual.messages;
        let effect = async move |store: Arc<store::Store>, permit| {
            let queued = store.queue_task(permit, shown, child, messages).await;
            drop(sealing);
            queued
        };
        let task = self.perform(who, act, effect).await?;
        self.desk.look();
        Ok(task)
    }

    /// Puts what waits in another order; `tasks` names all of it.
    pub async fn reorder_tasks(
        self: &Arc<Self>,
        who: &Principal,
        session: SessionId,
        tasks: Vec<TaskId>,
    ) -> Result<Vec<Task>, ActError> {
        let effect = async |store: Arc<store::Store>, permit| store.reorder_tasks(permit).await;
        self.perform(who, ReorderTasks { session, tasks }, effect).await
    }

    /// Tasks of a session after a place in the order, the oldest first.
    pub async fn tasks(
        &self,
        who: &Principal,
        session: SessionId,
        after: i64,
        limit: i64,
    ) -> Result<Page<Task, i64>, ActError> {
        let permit = self.look(who, ReadSession { session }).await?;
        let rows = self.store.list_tasks(permit, after, limit.saturating_add(1)).await?;
        Ok(Page::cut(rows, limit, |task| task.seq))
    }

    /// What happened in a session after a place.
    pub async fn steps(
        &self,
        who: &Principal,
        session: SessionId,
        after: i64,
        limit: i64,
    ) -> Result<Page<Step, i64>, ActError> {
        let permit = self.look(who, ReadSession { session }).await?;
        let rows = self.store.steps_after(permit, after, limit.saturating_add(1)).await?;
        Ok(Page::cut(rows, limit, |step| step.seq))
    }

    /// Ends what is at work in a session, or one task of it.
    pub async fn stop_session(
        self: &Arc<Self>,
        who: &Principal,
        session: SessionId,
        task: Option<TaskId>,
    ) -> Result<Stopping, ActError> {
        let this = Arc::clone(self);
        let effect = async move |store: Arc<store::Store>, permit| {
            let stopping = store.stop_task(permit).await?;
            match stopping {
                Stopping::AtWork(task) => this.desk.end(session, Some(task), Wish::Person),
                Stopping::Cancelled(task) => {
                    let body = json!({ "state": "stopped", "text": "it was cancelled before its turn came" });
                    this.journal.write_soon(session, Some(task), StepKind::Result, body).await;
                }
                Stopping::Nothing => {}
            }
            Ok(stopping)
        };
        self.perform(who, StopSession { session, task }, effect).await
    }

    /// Lets a session go on with its queue.
    pub async fn resume_session(
        self: &Arc<Self>,
        who: &Principal,
        session: SessionId,
    ) -> Result<Session, ActError> {
        let effect = async |store: Arc<store::Store>, permit| store.resume_session(permit).await;
        let row = self.perform(who, ResumeSession { session }, effect).await?;
        self.desk.look();
        Ok(row)
    }

    /// Finishes a session: what is at work ends, and nothing is begun any more.
    pub async fn close_session(
        self: &Arc<Self>,
        who: &Principal,
        session: SessionId,
    ) -> Result<Session, ActError> {
        let this = Arc::clone(self);
        let effect = async move |store: Arc<store::Store>, permit| {
            let (row, dropped) = store.close_session(permit).await?;
            this.desk.end(session, None, Wish::Closed);
            for task in dropped {
                let body =
                    json!({ "state": "stopped", "text": "the session was closed before its turn came" });
                this.journal.write_soon(session, Some(task), StepKind::Result, body).await;
            }
            Ok(row)
        };
        let row = self.perform(who, CloseSession { session }, effect).await?;
        self.desk.are_over([session]);
        Ok(row)
    }

    /// What waits for a person in a session, or all that ever did.
    pub async fn approvals(
        &self,
        who: &Principal,
        session: SessionId,
        all: bool,
        limit: i64,
    ) -> Result<Vec<Approval>, ActError> {
        let permit = self.look(who, ReadSession { session }).await?;
        Ok(self.store.list_approvals(permit, all, limit).await?)
    }

    /// What waits for a person in any session that the caller may read, the newest first.
    pub async fn open_approvals(&self, who: &Principal, limit: usize) -> Result<Vec<Approval>, ActError> {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let as_of = self.gate.epoch().now();
            let permit = self.look(who, ListSessions {}).await?;
            let rbac = self.gate.worktree_rbac();
            let rows = self.store.list_open_approvals(permit, rbac, before, APPROVALS_AT_ONCE).await?;
            let Some(last) = rows.last().map(|row| row.id) else { return Ok(found) };
            for row in rows {
                let facts = self.gate.session(row.session).await.map_err(|_| ActError::Interrupted)?;
                if facts.is_some_and(|facts| self.gate.may_read_session(who, &facts, as_of)) {
                    found.push(row);
                }
                if found.len() >= limit {
                    return Ok(found);
                }
            }
            before = Some(last);
        }
    }

    /// Allows an effect that waits, by one of the choices that were shown with it, and those that are like it if that is
    /// wanted. `effect` is the digest of what the caller saw.
    pub async fn allow_approval(
        self: &Arc<Self>,
        who: &Principal,
        session: SessionId,
        approval: ApprovalId,
        effect: String,
        choice: String,
        wider: Option<WiderConsent>,
    ) -> Result<Approval, ActError> {
        let consent = ConsentId::random();
        let claim = self.auth.claim(who, &consent.to_string());
        let act = AllowApproval { session, approval, effect, choice, wider, consent, claim, by: None };
        self.decide_to_allow(who, act).await
    }

    async fn decide_to_allow(
        self: &Arc<Self>,
        who: &Principal,
        act: AllowApproval,
    ) -> Result<Approval, ActError> {
        let (this, approval) = (Arc::clone(self), act.approval);
        let allowed = async move |store: Arc<store::Store>, permit| {
            let allowed = store.allow_approval(permit, this.bounds.four_eyes).await?;
            this.desk.answer(approval, allowed.choice.clone());
            Ok(allowed)
        };
        self.perform(who, act, allowed).await
    }

    /// Denies an effect that waits.
    pub async fn deny_approval(
        self: &Arc<Self>,
        who: &Principal,
        session: SessionId,
        approval: ApprovalId,
        effect: String,
    ) -> Result<Approval, ActError> {
        let this = Arc::clone(self);
        let denied = async move |store: Arc<store::Store>, permit| {
            let denied = store.deny_approval(permit).await?;
            this.desk.answer(approval, None);
            Ok(denied)
        };
        self.perform(who, DenyApproval { session, approval, effect }, denied).await
    }
}
