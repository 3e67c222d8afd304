//! Tasks: a queue for each session, of which one at most is at work.
//!
//! Flow: [`Store::queue_task`] -> the next in line -> [`Store::start_task`] gives an [`AtWork`] -> [`Store::end_task`] takes it.
//!
//! Invariants: what waits keeps its order; of one session one is at work, by an index of the database; only who began a task
//! can say how it ended, because [`AtWork`] is not copied, and what is over stays so.

use access::{Permit, PromptSession, ReadSession, StartTask, StopSession};
use model::{EventKind, HoldCause, Millis, SessionId, TaskId, TaskState, UserId};

use crate::engine::{EngineError, Row, Tx, Value};
use crate::sessions::{Session, lock_open, state};
use crate::store::{odd, parsed};
use crate::{Store, StoreError};

/// How many may wait in one session.
const MOST_QUEUED: i64 = 100;

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Which.
    pub id: TaskId,
    /// Of which session.
    pub session: SessionId,
    /// Its place in the order; grows.
    pub seq: i64,
    /// Who asked for it.
    pub asked_by: UserId,
    /// Where it is.
    pub state: TaskState,
    /// What was asked, without secrets.
    pub shown: String,
    /// The run of its sandbox.
    pub run: Option<String>,
    /// How it ended, in words.
    pub why: String,
    /// When it was asked for.
    pub created_at: Millis,
    /// When it began.
    pub started_at: Option<Millis>,
    /// Since when it is being ended.
    pub stopping_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// When what it changed in the tree was taken back.
    pub undone_at: Option<Millis>,
}

/// A task that was begun, until somebody says how it ended.
#[derive(Debug)]
pub struct AtWork {
    task: TaskId,
    session: SessionId,
    sealed: Vec<u8>,
}

impl AtWork {
    /// Which.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.task
    }

    /// Of which session.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// What was asked, sealed for its row.
    #[must_use]
    pub fn sealed(&self) -> &[u8] {
        &self.sealed
    }
}

/// How a task ended.
#[derive(Clone, Debug)]
pub struct TaskEnd {
    /// Done, failed or stopped.
    pub state: TaskState,
    /// How, in words.
    pub why: String,
    /// What the agent calls the conversation, if it said so.
    pub agent_session: Option<String>,
    /// What it told that this conversation cost in all, in millionths of a dollar.
    pub agent_told: i64,
    /// Whether something that it changed is in the worktree.
    pub carried: bool,
    /// Why the rest of the queue waits.
    pub holds: Option<HoldCause>,
}

/// What is next in a session.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Of which session.
    pub session: SessionId,
    /// Which.
    pub task: TaskId,
    /// Who asked.
    pub asked_by: UserId,
    /// The same, to be judged again.
    pub claim: String,
}

/// What became of a wish to end something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopping {
    /// It had not begun, and never will.
    Cancelled(TaskId),
    /// It is at work, and whoever runs it ends it.
    AtWork(TaskId),
    /// There is nothing to end.
    Nothing,
}

macro_rules! task_columns {
    ($rest:literal) => {
        concat!(
            "SELECT id, session, seq, asked_by, state, shown, run, why, created_at, started_at, stopping_at, ended_at, undone_at ",
            "FROM tasks ",
            $rest
        )
    };
}
pub(crate) use task_columns;

impl Store {
    /// Puts a task behind those that wait. One that finds nothing waiting is begun though the last one failed. What is told of
    /// a child's end ends no hold, finds room, and is told once.
    pub async fn queue_task(
        &self,
        permit: Permit<PromptSession>,
        shown: String,
        child: Option<SessionId>,
        a_minute: i64,
    ) -> Result<Task, StoreError> {
        let asked_by = permit.user();
        let act = permit.into_act();
        let session: Value = act.session.to_string().into();
        let mut tx = self.engine.write().await?;
        // The epoch that it is sealed under stays until this is committed.
        self.hold_ring(&mut tx).await?;
        lock_open(&mut tx, act.session).await?;
        let sql = "SELECT COUNT(*) FROM tasks WHERE session = $1 AND state = 'queued'";
        let waiting = tx.row(sql, std::slice::from_ref(&session)).await?.map_or(Ok(0), |row| row.int(0))?;
        if let Some(child) = child {
            self.settle_notice(&mut tx, child, true).await?;
        } else if a_minute > 0 && self.asked_lately(&mut tx, act.session).await? >= a_minute {
            return Err(StoreError::Unusable(format!(
                "this session was asked {a_minute} times in the last minute, which is the most; ask again later"
            )));
        } else if waiting >= MOST_QUEUED {
            return Err(StoreError::Full("waiting tasks", MOST_QUEUED));
        } else if waiting == 0 {
            tx.exec("UPDATE sessions SET held = NULL WHERE id = $1", std::slice::from_ref(&session)).await?;
        }
        let seq = tx.next("tasks").await?;
        let args: [Value; 9] = [
            act.task.to_string().into(),
            seq.into(),
            session,
            asked_by.to_string().into(),
            shown.into(),
            act.prompt.into(),
            i64::from(act.epoch).into(),
            act.claim.into(),
            self.clock.now().into(),
        ];
        let sql = "INSERT INTO tasks (id, seq, session, asked_by, state, shown, prompt, epoch, claim, why, created_at) \
                   VALUES ($1, $2, $3, $4, 'queued', $5, $6, $7, $8, '', $9)";
        tx.exec(sql, &args).await?;
        self.session_changed(tx, act.session).await?;
        self.task_row(act.task).await
    }

    async fn asked_lately(&self, tx: &mut Tx, session: SessionId) -> Result<i64, StoreError> {
        let since = self.clock.now().saturating_sub(60_000);
        let sql = "SELECT COUNT(*) FROM tasks WHERE session = $1 AND created_at > $2";
        let row = tx.row(sql, &[session.to_string().into(), since.into()]).await?;
        Ok(row.map_or(Ok(0), |row| row.int(0))?)
    }

    /// Tasks of a session after a place in the order, the oldest first.
    pub async fn list_tasks(
        &self,
        permit: Permit<ReadSession>,
        after: i64,
        limit: i64,
    ) -> Result<Vec<Task>, StoreError> {
        let sql = task_columns!("WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3");
        let args = [permit.into_act().session.to_string().into(), after.into(), limit.into()];
        let rows = self.engine.rows(sql, &args).await?;
        Ok(rows.iter().map(task).collect::<Result<_, _>>()?)
    }

    /// The first in line of each open session that holds nothing back and has nothing at work: so many, behind so many.
    pub async fn waiting_tasks(&self, most: i64, behind: i64) -> Result<Vec<Waiting>, StoreError> {
        // Everybody's first before anybody's second: nobody waits behind all that somebody else asked for.
        let sql = "SELECT n.session, n.id, n.claim, n.asked_by FROM (SELECT t.session, t.id, t.claim, t.asked_by, t.seq, \
                   ROW_NUMBER() OVER (PARTITION BY t.asked_by ORDER BY t.seq) AS place \
                   FROM tasks t JOIN sessions s ON s.id = t.session JOIN worktrees w ON w.id = s.worktree \
                   WHERE t.state = 'queued' AND s.held IS NULL AND s.closed_at IS NULL AND w.deleted_at IS NULL \
                   AND t.seq = (SELECT MIN(q.seq) FROM tasks q WHERE q.session = t.session AND q.state = 'queued') \
                   AND NOT EXISTS (SELECT 1 FROM tasks r WHERE r.session = t.session AND r.state IN ('running', 'held'))) n \
                   ORDER BY n.place, n.seq LIMIT $1 OFFSET $2";
        let rows = self.engine.rows(sql, &[most.into(), behind.into()]).await?;
        let waiting = |row: &Row| -> Result<Waiting, EngineError> {
            let (session, task, asked_by) = (parsed(row, 0)?, parsed(row, 1)?, parsed(row, 3)?);
            Ok(Waiting { session, task, asked_by, claim: row.text(2)?.to_owned() })
        };
        Ok(rows.iter().map(waiting).collect::<Result<_, _>>()?)
    }

    /// Begins a task, if it still waits and nothing of its session is at work.
    pub async fn start_task(&self, permit: Permit<StartTask>) -> Result<(AtWork, Session), StoreError> {
        let act = permit.into_act();
        // Before anything is begun: what cannot be read afterwards would be at work and nobody's.
        let session = self.session_row(act.session).await?;
        let mut tx = self.engine.write().await?;
        lock_open(&mut tx, act.session).await?;
        let sql = "SELECT prompt FROM tasks WHERE id = $1 AND session = $2 AND state = 'queued'";
        let key = [act.task.to_string().into(), act.session.to_string().into()];
        let row =
            tx.row(sql, &key).await?.ok_or(StoreError::Unusable("the task does not wait any more".into()))?;
        let sealed = row.opt_blob(0)?.map(<[u8]>::to_vec).unwrap_or_default();
        let sql = "UPDATE tasks SET state = 'running', started_at = $2 WHERE id = $1";
        let args = [act.task.to_string().into(), self.clock.now().into()];
        tx.exec(sql, &args).await.map_err(|error| match error {
            EngineError::Unique { .. } => {
                StoreError::Unusable("another task of the session is at work".into())
            }
            other => other.into(),
        })?;
        self.session_changed(tx, act.session).await?;
        Ok((AtWork { task: act.task, session: act.session, sealed }, session))
    }

    /// The name and the address of whoever asked for a task; none if they are gone.
    pub async fn who_asked(&self, work: &AtWork) -> Result<Option<(String, String)>, StoreError> {
        let sql = "SELECT u.name, u.email FROM tasks t JOIN users u ON u.id = t.asked_by WHERE t.id = $1";
        let Some(row) = self.engine.row(sql, &[work.task.to_string().into()]).await? else { return Ok(None) };
        let Some(address) = row.opt_text(1)? else { return Ok(None) };
        Ok(Some((row.text(0)?.to_owned(), address.to_owned())))
    }

    /// Remembers the run of a task's sandbox.
    pub async fn name_run(&self, work: &AtWork, run: &str) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE tasks SET run = $2 WHERE id = $1 AND state IN ('running', 'held')";
        tx.exec(sql, &[work.task.to_string().into(), run.into()]).await?;
        Ok(tx.commit().await?)
    }

    /// Remembers that what a task changed is about to be in its worktree.
    pub async fn carries_over(&self, work: &AtWork) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        tx.exec("UPDATE tasks SET carried = 1 WHERE id = $1", &[work.task.to_string().into()]).await?;
        Ok(tx.commit().await?)
    }

    /// Says how a task ended; it can be said again until it is kept. One that somebody wanted to end holds the rest of its
    /// queue, however it ended.
    pub async fn end_task(&self, work: &AtWork, end: &TaskEnd) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        let sql = "SELECT stopping_at FROM tasks WHERE id = $1 AND state IN ('running', 'held')";
        let Some(row) = tx.row(sql, &[work.task.to_string().into()]).await? else { return Ok(()) };
        let wanted = row.opt_int(0)?.map(|_| HoldCause::Stopped);
        let sql =
            "UPDATE tasks SET state = $2, why = $3, ended_at = $4, prompt = NULL, carried = $5 WHERE id = $1";
        let args: [Value; 5] = [
            work.task.to_string().into(),
            state(end.state),
            end.why.as_str().into(),
            self.clock.now().into(),
            end.carried.into(),
        ];
        tx.exec(sql, &args).await?;
        // A conversation is in the home of whoever asked: nobody else's agent finds it there.
        let sql = "UPDATE sessions SET held = $2, agent_session = COALESCE($3, agent_session), \
                   agent_told = CASE WHEN $3 IS NULL THEN agent_told ELSE $5 END, agent_session_of = \
                   CASE WHEN $3 IS NULL THEN agent_session_of ELSE (SELECT asked_by FROM tasks WHERE id = $4) END WHERE id = $1";
        let holds = end.holds.or(wanted).map(HoldCause::word);
        let args: [Value; 5] = [
            work.session.to_string().into(),
            holds.into(),
            end.agent_session.clone().into(),
            work.task.to_string().into(),
            end.agent_told.into(),
        ];
        tx.exec(sql, &args).await?;
        self.expire_approvals(&mut tx, work.session).await?;
        self.note_end(&mut tx, work.session).await?;
        self.session_changed(tx, work.session).await
    }

    /// Keeps a session from beginning what nobody answers for any more.
    pub async fn hold_session(&self, session: SessionId, cause: HoldCause) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        let args = [session.to_string().into(), cause.word().into()];
        tx.exec("UPDATE sessions SET held = $2 WHERE id = $1", &args).await?;
        self.session_changed(tx, session).await
    }

    /// Ends one task of a session, or what is at work there. What waits stays, behind a hold if something was at work.
    pub async fn stop_task(&self, permit: Permit<StopSession>) -> Result<Stopping, StoreError> {
        let act = permit.into_act();
        let now: Value = self.clock.now().into();
        let mut tx = self.engine.write().await?;
        // Whoever begins a task waits for this, or this for them.
        let sql = "UPDATE sessions SET steps = steps WHERE id = $1";
        if tx.exec(sql, &[act.session.to_string().into()]).await? == 0 {
            return Err(StoreError::Missing("session"));
        }
        let found = match act.task {
            Some(task) => {
                let sql = task_columns!("WHERE id = $1 AND session = $2");
                let row = tx.row(sql, &[task.to_string().into(), act.session.to_string().into()]).await?;
                Some(row.ok_or(StoreError::Dangling("task"))?)
            }
            None => {
                let sql = task_columns!("WHERE session = $1 AND state IN ('running', 'held')");
                tx.row(sql, &[act.session.to_string().into()]).await?
            }
        };
        let Some(found) = found.as_ref().map(task).transpose()? else { return Ok(Stopping::Nothing) };
        let id: Value = found.id.to_string().into();
        let stopping = match found.state {
            TaskState::Queued => {
                let sql = "UPDATE tasks SET state = 'stopped', why = $2, ended_at = $3, prompt = NULL WHERE id = $1";
                tx.exec(sql, &[id, "it was cancelled before its turn came".into(), now]).await?;
                self.note_end(&mut tx, act.session).await?;
                Stopping::Cancelled(found.id)
            }
            TaskState::Running | TaskState::Held => {
                let sql = "UPDATE tasks SET stopping_at = COALESCE(stopping_at, $2) WHERE id = $1";
                tx.exec(sql, &[id, now]).await?;
                Stopping::AtWork(found.id)
            }
            TaskState::Done | TaskState::Failed | TaskState::Stopped => return Ok(Stopping::Nothing),
        };
        self.session_changed(tx, act.session).await?;
        Ok(stopping)
    }

    /// What is at work, by what is kept of it.
    pub async fn tasks_at_work(&self) -> Result<Vec<Task>, StoreError> {
        let sql = task_columns!("WHERE state IN ('running', 'held') ORDER BY seq");
        Ok(self.engine.rows(sql, &[]).await?.iter().map(task).collect::<Result<_, EngineError>>()?)
    }

    /// Says of a task that nobody carries out that it is over; false if it was. What it asked stays: whoever allows it now is
    /// asked no more when the agent comes back to it.
    pub async fn abandon_task(&self, left: &Task) -> Result<bool, StoreError> {
        let mut tx = self.engine.write().await?;
        let (to, why, holds) = match left.stopping_at {
            Some(_) => (TaskState::Stopped, "it was being ended when the daemon ended", HoldCause::Stopped),
            None => (TaskState::Failed, "the daemon ended while it was at work", HoldCause::Interrupted),
        };
        let sql = "UPDATE tasks SET state = $2, why = $3, ended_at = $4, prompt = NULL \
                   WHERE id = $1 AND state IN ('running', 'held')";
        let args = [left.id.to_string().into(), state(to), why.into(), self.clock.now().into()];
        if tx.exec(sql, &args).await? == 0 {
            return Ok(false);
        }
        let sql = "UPDATE sessions SET held = $2 WHERE id = $1";
        tx.exec(sql, &[left.session.to_string().into(), holds.word().into()]).await?;
        self.note_end(&mut tx, left.session).await?;
        self.session_changed(tx, left.session).await?;
        self.publish();
        Ok(true)
    }

    /// Nobody waits for an answer any more: the conversation went on, or is closed.
    pub(crate) async fn expire_approvals(&self, tx: &mut Tx, session: SessionId) -> Result<(), StoreError> {
        let sql =
            "UPDATE approvals SET state = 'expired', decided_at = $2 WHERE session = $1 AND state = 'open'";
        if tx.exec(sql, &[session.to_string().into(), self.clock.now().into()]).await? > 0 {
            self.tell_of(tx, EventKind::ApprovalDecided, session).await?;
        }
        Ok(())
    }

    pub(crate) async fn task_row(&self, id: TaskId) -> Result<Task, StoreError> {
        let row = self.engine.row(task_columns!("WHERE id = $1"), &[id.to_string().into()]).await?;
        row.as_ref().map_or(Err(StoreError::Missing("task")), |row| Ok(task(row)?))
    }
}

/// Carries what was asked over to this epoch.
pub(crate) async fn reseal_prompts(
    tx: &mut Tx,
    epoch: i64,
    seal: impl Fn(TaskId, SessionId, &[u8]) -> Result<Vec<u8>, String>,
) -> Result<u64, StoreError> {
    let mut done = 0;
    let sql = "SELECT id, session, prompt FROM tasks WHERE prompt IS NOT NULL AND epoch < $1 ORDER BY seq";
    for row in tx.rows(sql, &[epoch.into()]).await? {
        let (id, session): (TaskId, SessionId) = (parsed(&row, 0)?, parsed(&row, 1)?);
        let sealed = seal(id, session, row.blob(2)?).map_err(|why| {
            StoreError::Unusable(format!(
                "what was asked in {id} cannot be carried over: {why}; stop that task"
            ))
        })?;
        let sql = "UPDATE tasks SET prompt = $2, epoch = $3 WHERE id = $1 AND prompt IS NOT NULL";
        done += tx.exec(sql, &[id.to_string().into(), sealed.into(), epoch.into()]).await?;
    }
    Ok(done)
}

pub(crate) fn task(row: &Row) -> Result<Task, EngineError> {
    Ok(Task {
        id: parsed(row, 0)?,
        session: parsed(row, 1)?,
        seq: row.int(2)?,
        asked_by: parsed(row, 3)?,
        state: parsed(row, 4).map_err(|_| odd(4))?,
        shown: row.text(5)?.to_owned(),
        run: row.opt_text(6)?.map(str::to_owned),
        why: row.text(7)?.to_owned(),
        created_at: row.int(8)?,
        started_at: row.opt_int(9)?,
        stopping_at: row.opt_int(10)?,
        ended_at: row.opt_int(11)?,
        undone_at: row.opt_int(12)?,
    })
}

#[cfg(test)]
mod tests;
