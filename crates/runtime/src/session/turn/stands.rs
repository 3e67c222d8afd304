//! Where the tree stands when a task begins and when it ends, written down with it.

use access::{Principal, ReadSession};
use model::SessionId;
use store::{Moment, TaskTree};

use super::Turn;
use crate::{ActError, Runtime};

impl Turn<'_> {
    /// Writes down where the tree stands. A task goes on without: it is about what the agent does.
    pub(super) async fn keep_standing(&self, moment: Moment) {
        let worktree = self.session.worktree();
        if !self.runtime.trees.tree(worktree).is_dir() {
            return;
        }
        let kept = async {
            let repo = self.runtime.store.repo_at_work(self.work).await?;
            let stands = self.runtime.trees.stands(repo, worktree).await?;
            self.runtime.store.keep_standing(self.work, moment, &stands).await
        };
        if let Err(error) = kept.await {
            tracing::warn!(%error, "where the tree of a task stands could not be kept");
        }
    }
}

impl Runtime {
    /// Where the tree stood for tasks of a session after a place in the order.
    pub async fn task_trees(
        &self,
        who: &Principal,
        session: SessionId,
        after: i64,
        limit: i64,
    ) -> Result<Vec<TaskTree>, ActError> {
        let permit = self.look(who, ReadSession { session }).await?;
        Ok(self.store.task_trees(permit, after, limit).await?)
    }
}
