//! Takes back what a task changed in the tree, or brings it back: its layer, and nothing else.

use std::sync::Arc;

use access::{Principal, UndoTask};
use model::{SessionId, StepKind, TaskId};
use serde_json::json;
use store::{StoreError, Task};

use super::sandbox;
use crate::{ActError, Runtime};

impl Runtime {
    /// Takes back what a task changed (the last that can be unless told), or brings back what was taken back.
    pub async fn undo_task(
        self: &Arc<Self>,
        who: &Principal,
        session: SessionId,
        task: Option<TaskId>,
        again: bool,
    ) -> Result<Task, ActError> {
        let this = Arc::clone(self);
        let effect = async move |store: Arc<store::Store>, permit: access::Permit<UndoTask>| {
            let (permit, found) = store.task_to_undo(permit).await?;
            let facts = this.gate.session(session).await.ok().flatten();
            let facts = facts.ok_or(StoreError::Missing("session"))?;
            let worktree = facts.worktree.id;
            let _alone = this.desk.alone(session, found.id, worktree).ok_or_else(|| {
                StoreError::Unusable(
                    "an agent is at work in this worktree; stop it, or wait for its end".into(),
                )
            })?;
            // Whoever ends the worktree says so first and then waits for us.
            store.is_settled(worktree).await?;
            let (Some(run), tree) = (found.run.as_deref(), this.trees.tree(worktree)) else {
                return Err(StoreError::Dangling("task that ran"));
            };
            let launcher = this.trees.launcher();
            let state = launcher.state_with(&facts, run);
            let count = sandbox::undo(launcher, &state, &tree, run, again).await;
            let count =
                count.map_err(|why| StoreError::Unusable(super::told::clean(&this.redactor, &why)))?;
            let row = store.undid_task(permit, &found).await?;
            let verb = if again { "brought back" } else { "taken back" };
            let body =
                json!({ "text": format!("{count} changed paths of {} were {verb}", found.id), "run": run });
            this.journal.write_soon(session, Some(found.id), StepKind::System, body).await;
            Ok(row)
        };
        self.perform(who, UndoTask { session, task, again }, effect).await
    }
}
