//! What happened in sessions, each at its place, many at a time.
//!
//! Invariant: a step is made from a task that is at work, from the daemon's own word about a session, or from a transcript
//! (`imports`); nobody else writes here, and what is written never changes.

use access::{Permit, ReadSession};
use model::{Millis, SessionId, Step, StepKind, TaskId};
use serde_json::Value as Json;

use crate::engine::{EngineError, Row};
use crate::store::{odd, parsed};
use crate::{Store, StoreError};

impl Store {
    /// Keeps steps, all or none. What is kept already stays: whoever cannot tell whether it was kept says it again.
    pub async fn append_steps(&self, steps: &[Step]) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        let mut last: Vec<(SessionId, i64)> = Vec::new();
        for step in steps {
            let args = [
                step.session.to_string().into(),
                step.seq.into(),
                step.at.into(),
                step.task.map(|task| task.to_string()).into(),
                step.kind.word().into(),
                step.body.to_string().into(),
            ];
            let sql = "INSERT INTO steps (session, seq, at, task, kind, body) VALUES ($1, $2, $3, $4, $5, $6) \
                       ON CONFLICT (session, seq) DO NOTHING";
            tx.exec(sql, &args).await?;
            match last.iter_mut().find(|(session, _)| *session == step.session) {
                Some((_, seq)) => *seq = (*seq).max(step.seq),
                None => last.push((step.session, step.seq)),
            }
        }
        for (session, seq) in last {
            let sql = "UPDATE sessions SET steps = $2 WHERE id = $1 AND steps < $2";
            tx.exec(sql, &[session.to_string().into(), seq.into()]).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Steps of a session after a place.
    pub async fn steps_after(
        &self,
        permit: Permit<ReadSession>,
        after: i64,
        limit: i64,
    ) -> Result<Vec<Step>, StoreError> {
        let session = permit.into_act().session;
        let sql = "SELECT session, seq, at, task, kind, body FROM steps WHERE session = $1 AND seq > $2 \
                   ORDER BY seq LIMIT $3";
        let rows = self.engine.rows(sql, &[session.to_string().into(), after.into(), limit.into()]).await?;
        Ok(rows.iter().map(step).collect::<Result<_, _>>()?)
    }

    /// Steps of a session before a place that somebody said or did, the newest first.
    pub async fn steps_before(
        &self,
        permit: Permit<ReadSession>,
        before: i64,
        limit: i64,
    ) -> Result<Vec<Step>, StoreError> {
        let session = permit.into_act().session;
        let sql = "SELECT session, seq, at, task, kind, body FROM steps WHERE session = $1 AND seq < $2 \
                   AND kind IN ('user', 'assistant', 'tool_use') ORDER BY seq DESC LIMIT $3";
        let rows = self.engine.rows(sql, &[session.to_string().into(), before.into(), limit.into()]).await?;
        Ok(rows.iter().map(step).collect::<Result<_, _>>()?)
    }

    /// The place of the last step of a session, for whoever goes on writing there.
    pub async fn last_step(&self, session: SessionId) -> Result<i64, StoreError> {
        let sql = "SELECT steps FROM sessions WHERE id = $1";
        let row = self.engine.row(sql, &[session.to_string().into()]).await?;
        row.map_or(Err(StoreError::Missing("session")), |row| Ok(row.int(0)?))
    }
}

fn step(row: &Row) -> Result<Step, EngineError> {
    let task: Option<TaskId> = row.opt_text(3)?.map(str::parse).transpose().map_err(|_| odd(3))?;
    let at: Millis = row.int(2)?;
    let kind: StepKind = parsed(row, 4)?;
    let body: Json = serde_json::from_str(row.text(5)?).map_err(|_| odd(5))?;
    Ok(Step { session: parsed(row, 0)?, seq: row.int(1)?, at, task, kind, body })
}
