//! Where the tree of a worktree stood when a task began, and when it ended.

use access::{Permit, ReadSession};
use model::{Millis, RepoId, TaskId};

use crate::engine::{EngineError, Row};
use crate::store::parsed;
use crate::{AtWork, Store, StoreError};

/// When a tree was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the agent was started.
    Began,
    /// After what it changed was carried over.
    Ended,
}

impl Moment {
    const fn word(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Ended => "ended",
        }
    }
}

/// Where a tree stood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The branch that was checked out, if it was one.
    pub branch: Option<String>,
    /// Its commit.
    pub commit: Option<String>,
    /// Whether something lay there that was in no commit, as git would say; none if that could not be told.
    pub dirty: Option<bool>,
    /// When it was looked at.
    pub at: Millis,
}

/// Where the tree stood at both ends of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTree {
    /// Of which task.
    pub task: TaskId,
    /// When it began.
    pub began: Option<Standing>,
    /// When it ended.
    pub ended: Option<Standing>,
}

impl Store {
    /// The repository that a task works on.
    pub async fn repo_at_work(&self, work: &AtWork) -> Result<RepoId, StoreError> {
        let sql = "SELECT w.repo FROM sessions s JOIN worktrees w ON w.id = s.worktree WHERE s.id = $1";
        let row = self.engine.row(sql, &[work.session().to_string().into()]).await?;
        Ok(parsed(&row.ok_or(StoreError::Missing("session"))?, 0)?)
    }

    /// Keeps where the tree of a task stands; the first word for a moment counts.
    pub async fn keep_standing(
        &self,
        work: &AtWork,
        moment: Moment,
        stands: &Standing,
    ) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        let sql = "INSERT INTO task_trees (task, moment, at, branch, commit_id, dirty) VALUES ($1, $2, $3, $4, $5, $6) \
                   ON CONFLICT DO NOTHING";
        let args = [
            work.task().to_string().into(),
            moment.word().into(),
            self.clock.now().into(),
            stands.branch.clone().into(),
            stands.commit.clone().into(),
            stands.dirty.map(i64::from).into(),
        ];
        tx.exec(sql, &args).await?;
        Ok(tx.commit().await?)
    }

    /// Where the tree stood for tasks of a session after a place in the order.
    pub async fn task_trees(
        &self,
        permit: Permit<ReadSession>,
        after: i64,
        limit: i64,
    ) -> Result<Vec<TaskTree>, StoreError> {
        let sql = "SELECT t.id, b.at, b.branch, b.commit_id, b.dirty, e.at, e.branch, e.commit_id, e.dirty FROM tasks t \
                   LEFT JOIN task_trees b ON b.task = t.id AND b.moment = 'began' \
                   LEFT JOIN task_trees e ON e.task = t.id AND e.moment = 'ended' \
                   WHERE t.session = $1 AND t.seq > $2 ORDER BY t.seq LIMIT $3";
        let args = [permit.into_act().session.to_string().into(), after.into(), limit.into()];
        let rows = self.engine.rows(sql, &args).await?;
        let each = |row: &Row| -> Result<TaskTree, EngineError> {
            Ok(TaskTree { task: parsed(row, 0)?, began: standing(row, 1)?, ended: standing(row, 5)? })
        };
        Ok(rows.iter().map(each).collect::<Result<_, _>>()?)
    }
}

fn standing(row: &Row, from: usize) -> Result<Option<Standing>, EngineError> {
    let Some(at) = row.opt_int(from)? else { return Ok(None) };
    Ok(Some(Standing {
        at,
        branch: row.opt_text(from + 1)?.map(str::to_owned),
        commit: row.opt_text(from + 2)?.map(str::to_owned),
        dirty: row.opt_int(from + 3)?.map(|dirty| dirty != 0),
    }))
}
