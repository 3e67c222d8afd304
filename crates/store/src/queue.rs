//! The order of what waits in a session, and what is taken back of what was done.

use access::{Permit, ReorderTasks, UndoTask};

use crate::engine::Value;
use crate::sessions::lock_open;
use crate::tasks::{Task, task, task_columns};
use crate::{Store, StoreError};

impl Store {
    /// Puts what waits in this order. It names exactly what waits now: whoever saw another queue looks again.
    pub async fn reorder_tasks(&self, permit: Permit<ReorderTasks>) -> Result<Vec<Task>, StoreError> {
        let act = permit.into_act();
        let session: Value = act.session.to_string().into();
        let mut tx = self.engine.write().await?;
        lock_open(&mut tx, act.session).await?;
        let sql = task_columns!("WHERE session = $1 AND state = 'queued' ORDER BY seq");
        let rows = tx.rows(sql, std::slice::from_ref(&session)).await?;
        let places: Vec<i64> = rows.iter().map(|row| row.int(2)).collect::<Result<_, _>>()?;
        let mut now: Vec<String> =
            rows.iter().map(|row| row.text(0).map(str::to_owned)).collect::<Result<_, _>>()?;
        let wanted: Vec<String> = act.tasks.iter().map(ToString::to_string).collect();
        let mut named = wanted.clone();
        now.sort();
        named.sort();
        if now != named {
            return Err(StoreError::Unusable("what waits has changed; look at the queue again".into()));
        }
        // A place is nobody's twice, not even in between.
        for (id, place) in wanted.iter().zip(&places) {
            tx.exec("UPDATE tasks SET seq = $2 WHERE id = $1", &[id.as_str().into(), (-place).into()])
                .await?;
        }
        for id in &wanted {
            tx.exec("UPDATE tasks SET seq = -seq WHERE id = $1", &[id.as_str().into()]).await?;
        }
        let rows = tx.rows(sql, &[session]).await?;
        let tasks = rows.iter().map(task).collect::<Result<_, _>>()?;
        self.session_changed(tx, act.session).await?;
        Ok(tasks)
    }

    /// The task whose changes are to be taken back, or brought back: the one that is named, or the last that can be.
    pub async fn task_to_undo(
        &self,
        permit: Permit<UndoTask>,
    ) -> Result<(Permit<UndoTask>, Task), StoreError> {
        let act = permit.act();
        let id: Value = act.task.map(|task| task.to_string()).unwrap_or_default().into();
        let sql = task_columns!(
            "WHERE session = $1 AND ($2 = '' OR id = $2) AND run IS NOT NULL AND carried = 1 AND ended_at IS NOT NULL \
             AND ($2 <> '' OR ($3 = 1 AND undone_at IS NOT NULL) OR ($3 = 0 AND undone_at IS NULL)) \
             ORDER BY CASE WHEN $3 = 1 THEN seq ELSE -seq END LIMIT 1"
        );
        let args = [act.session.to_string().into(), id, act.again.into()];
        let row = self.engine.row(sql, &args).await?;
        let found = row.as_ref().map(task).transpose()?;
        let none = match (act.task, act.again) {
            (Some(named), _) => {
                let ended = "SELECT 1 FROM tasks WHERE id = $1 AND session = $2 AND run IS NOT NULL AND ended_at IS NOT NULL";
                let named = [named.to_string().into(), act.session.to_string().into()];
                if found.is_none() && self.engine.row(ended, &named).await?.is_none() {
                    return Err(StoreError::Dangling("task that ran and ended"));
                }
                "nothing that this task changed is in the worktree"
            }
            (None, true) => "nothing was taken back in this session",
            (None, false) => "no task of this session changed anything that can be taken back",
        };
        found.map(|task| (permit, task)).ok_or(StoreError::Unusable(none.into()))
    }

    /// Keeps that this task's changes were taken back, or brought back.
    pub async fn undid_task(&self, permit: Permit<UndoTask>, which: &Task) -> Result<Task, StoreError> {
        let act = permit.into_act();
        let mut tx = self.engine.write().await?;
        let at: Value = (!act.again).then(|| self.clock.now()).into();
        let sql = "UPDATE tasks SET undone_at = $2 WHERE id = $1";
        tx.exec(sql, &[which.id.to_string().into(), at]).await?;
        self.session_changed(tx, act.session).await?;
        self.task_row(which.id).await
    }
}
