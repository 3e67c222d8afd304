//! Where the tree stands when a task begins and when it ends, written down with it.

use std::time::Duration;

use access::{Principal, ReadSession};
use model::SessionId;
use store::{Moment, TaskTree};

use super::Turn;
use crate::{ActError, Runtime};

/// How long a task that was stopped waits to know whether its tree has changes.
const AFTER_STOP: Duration = Duration::from_secs(3);

impl Turn<'_> {
    /// Writes down where the tree stands. A task goes on without: it is about what the agent does. Whoever stops it does not wait for a
    /// large tree: then it is not told whether something lies there that is in no commit.
    pub(super) async fn keep_standing(&self, moment: Moment) {
        let worktree = self.session.worktree();
        let trees = &self.runtime.trees;
        if !trees.tree(worktree).is_dir() {
            return;
        }
        let kept = async {
            let repo = self.runtime.store.repo_at_work(self.work).await?;
            let mut stands = trees.stands(repo, worktree).await?;
            stands.dirty = tokio::select! {
                dirty = trees.is_dirty(worktree) => dirty,
                () = self.is_unwanted() => None,
            };
            self.runtime.store.keep_standing(self.work, moment, &stands).await
        };
        if let Err(error) = kept.await {
            tracing::warn!(%error, "where the tree of a task stands could not be kept");
        }
    }

    /// When nobody waits for a look any more: as soon as somebody wants the task to end, or, if they did before, soon.
    async fn is_unwanted(&self) {
        let mut wishes = self.wishes.clone();
        if wishes.borrow().is_some() {
            return tokio::time::sleep(AFTER_STOP).await;
        }
        if wishes.wait_for(Option::is_some).await.is_err() {
            // Nobody is left who could say so.
            std::future::pending::<()>().await;
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
