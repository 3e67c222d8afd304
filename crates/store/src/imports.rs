//! Sessions made from a transcript, a page of it at a time.
//!
//! Invariants: a page is kept whole or not at all, and once: it says how many lines came before it; what is made is closed from
//! the beginning, so that nothing is ever begun in it, and nobody else writes there.

use access::{ImportSession, Permit};
use model::{EventKind, Millis, SessionId, StepKind, TaskId, UserId, WorktreeId};
use serde_json::Value as Json;

use crate::endings::lock_in_use;
use crate::engine::{EngineError, Tx, Value};
use crate::store::parsed;
use crate::{Session, Store, StoreError};

/// Lines of one transcript.
const MOST_LINES: i64 = 200_000;
/// The agent whose transcripts are understood.
const AGENT: &str = "claude";

/// A task that a transcript tells of.
#[derive(Clone, Debug)]
pub struct ImportedTask {
    /// Minted here.
    pub id: TaskId,
    /// What was asked, without secrets.
    pub shown: String,
    /// When.
    pub at: Millis,
}

/// A step that a transcript tells of.
#[derive(Clone, Debug)]
pub struct ImportedStep {
    /// Of which task of this page; the last of the pages before if none is named.
    pub task: Option<TaskId>,
    /// When.
    pub at: Millis,
    /// What it is.
    pub kind: StepKind,
    /// What there is to say of it, without secrets.
    pub body: Json,
}

/// What a page tells, in order.
#[derive(Clone, Debug, Default)]
pub struct ImportedPage {
    /// The tasks.
    pub tasks: Vec<ImportedTask>,
    /// The steps.
    pub steps: Vec<ImportedStep>,
}

impl Store {
    /// Keeps a page of a transcript; the first makes the session.
    pub async fn import_page(
        &self,
        permit: Permit<ImportSession>,
        page: ImportedPage,
    ) -> Result<Session, StoreError> {
        let who = permit.user();
        let act = permit.into_act();
        let lines = act.after.saturating_add(act.lines);
        if lines > MOST_LINES {
            return Err(StoreError::Full("lines of one transcript", MOST_LINES));
        }
        let id: Value = act.session.to_string().into();
        let mut tx = self.engine.write().await?;
        // Nothing is added either to what is being ended.
        lock_in_use(&mut tx, act.worktree).await?;
        let kind = if act.begins {
            self.begin_import(&mut tx, &act, who).await?;
            EventKind::SessionCreated
        } else {
            goes_on(&mut tx, act.session, act.worktree, who, act.after).await?;
            EventKind::SessionChanged
        };
        let sql = "SELECT id FROM tasks WHERE session = $1 ORDER BY seq DESC LIMIT 1";
        let carried = tx.row(sql, std::slice::from_ref(&id)).await?;
        let carried: Option<TaskId> = carried.as_ref().map(|row| parsed(row, 0)).transpose()?;
        for task in &page.tasks {
            let seq = tx.next("tasks").await?;
            let args: [Value; 6] = [
                task.id.to_string().into(),
                seq.into(),
                id.clone(),
                who.to_string().into(),
                task.shown.as_str().into(),
                task.at.into(),
            ];
            let sql = "INSERT INTO tasks (id, seq, session, asked_by, state, shown, epoch, claim, why, created_at, started_at, ended_at) \
                       VALUES ($1, $2, $3, $4, 'done', $5, 0, '', 'it is from a transcript', $6, $6, $6)";
            tx.exec(sql, &args).await?;
        }
        let row = tx.row("SELECT steps FROM sessions WHERE id = $1", std::slice::from_ref(&id)).await?;
        let mut seq = row.map_or(Ok(0), |row| row.int(0))?;
        for step in &page.steps {
            seq += 1;
            let task = step.task.or(carried).map(|task| task.to_string());
            let args: [Value; 6] = [
                id.clone(),
                seq.into(),
                step.at.into(),
                task.clone().into(),
                step.kind.word().into(),
                step.body.to_string().into(),
            ];
            let sql =
                "INSERT INTO steps (session, seq, at, task, kind, body) VALUES ($1, $2, $3, $4, $5, $6)";
            tx.exec(sql, &args).await?;
            if let Some(task) = task {
                let sql = "UPDATE tasks SET ended_at = $2 WHERE id = $1 AND ended_at < $2";
                tx.exec(sql, &[task.into(), step.at.into()]).await?;
            }
        }
        let sql = "UPDATE sessions SET steps = $2, imported = $3, importing = $4 WHERE id = $1";
        let more: Value = (!act.last).then_some(1_i64).into();
        tx.exec(sql, &[id, seq.into(), lines.into(), more]).await?;
        let event = self.session_event(&mut tx, kind, act.worktree, act.session).await?;
        self.commit(tx, event).await?;
        self.session_row(act.session).await
    }

    async fn begin_import(&self, tx: &mut Tx, act: &ImportSession, who: UserId) -> Result<(), StoreError> {
        if act.after != 0 {
            return Err(StoreError::Unusable("the first page of a transcript has nothing before it".into()));
        }
        let seq = tx.next("sessions").await?;
        let args: [Value; 7] = [
            act.session.to_string().into(),
            seq.into(),
            act.worktree.to_string().into(),
            who.to_string().into(),
            AGENT.into(),
            act.title.as_str().into(),
            self.clock.now().into(),
        ];
        let sql = "INSERT INTO sessions (id, seq, worktree, creator, agent, title, command, steps, created_at, closed_at, imported) \
                   VALUES ($1, $2, $3, $4, $5, $6, '[]', 0, $7, $7, 0)";
        tx.exec(sql, &args).await.map(drop).map_err(|error| match error {
            EngineError::Reference => StoreError::Missing("worktree"),
            other => other.into(),
        })
    }
}

/// Whether a further page fits: to an import of this person's, in this worktree, that stands at this place.
async fn goes_on(
    tx: &mut Tx,
    session: SessionId,
    worktree: WorktreeId,
    who: UserId,
    after: i64,
) -> Result<(), StoreError> {
    let id: Value = session.to_string().into();
    // Others who bring the same page wait.
    tx.exec("UPDATE sessions SET steps = steps WHERE id = $1", std::slice::from_ref(&id)).await?;
    let sql = "SELECT imported, importing FROM sessions WHERE id = $1 AND worktree = $2 AND creator = $3";
    let row = tx.row(sql, &[id, worktree.to_string().into(), who.to_string().into()]).await?;
    let row = row.ok_or(StoreError::Dangling("session"))?;
    match (row.opt_int(0)?, row.opt_int(1)?) {
        (Some(lines), Some(_)) if lines == after => Ok(()),
        (Some(lines), Some(_)) => {
            Err(StoreError::Unusable(format!("{lines} lines of the transcript are kept; go on behind them")))
        }
        (Some(_), None) => Err(StoreError::Unusable("the whole transcript is kept; import another".into())),
        (None, _) => Err(StoreError::Unusable("the session is no transcript; import one by itself".into())),
    }
}
