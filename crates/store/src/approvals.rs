//! Effects that wait for a person: shown once, bound to their digest, decided once.
//!
//! Invariant: of all who decide one wins, by one statement of the database; what is over stays so.

use access::{AllowApproval, DenyApproval, Permit, ReadSession};
use model::{ApprovalId, ApprovalState, Millis, SessionId, TaskId, TaskState, UserId};
use serde_json::Value as Json;

use crate::engine::{EngineError, Row, Value};
use crate::sessions::state;
use crate::store::{odd, parsed};
use crate::tasks::AtWork;
use crate::{Store, StoreError};

/// An effect that waits, or waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Which.
    pub id: ApprovalId,
    /// Of which session.
    pub session: SessionId,
    /// Of which task.
    pub task: TaskId,
    /// The digest of the effect as it will be.
    pub effect: String,
    /// The effect as it is shown, and what can be answered.
    pub body: Json,
    /// Whether it still waits.
    pub state: ApprovalState,
    /// What was chosen.
    pub choice: Option<String>,
    /// By whom.
    pub decided_by: Option<UserId>,
    /// Since when it waits.
    pub created_at: Millis,
    /// When it was decided.
    pub decided_at: Option<Millis>,
}

/// An effect to ask about.
#[derive(Clone, Debug)]
pub struct NewApproval {
    /// Its id.
    pub id: ApprovalId,
    /// The digest of the effect as it will be.
    pub effect: String,
    /// How it is shown.
    pub body: Json,
}

/// What somebody decided.
struct Decided {
    session: SessionId,
    approval: ApprovalId,
    effect: String,
    choice: Option<String>,
    who: UserId,
}

/// Whether this choice was shown with the effect, as one that allows it.
fn offers(body: &Json, choice: &str) -> bool {
    let choices = body.get("choices").and_then(Json::as_array).into_iter().flatten();
    let text = |one: &Json, name: &str| one.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
    choices.into_iter().any(|one| text(one, "id") == choice && text(one, "kind").starts_with("allow"))
}

macro_rules! approval_columns {
    ($rest:literal) => {
        concat!(
            "SELECT id, session, task, effect, body, state, choice, decided_by, created_at, decided_at FROM approvals ",
            $rest
        )
    };
}

impl Store {
    /// Keeps what a task asks for until somebody decides.
    pub async fn open_approval(&self, work: &AtWork, new: NewApproval) -> Result<Approval, StoreError> {
        let mut tx = self.engine.write().await?;
        let seq = tx.next("approvals").await?;
        let args: [Value; 7] = [
            new.id.to_string().into(),
            seq.into(),
            work.session().to_string().into(),
            work.task().to_string().into(),
            new.effect.into(),
            new.body.to_string().into(),
            self.clock.now().into(),
        ];
        let sql = "INSERT INTO approvals (id, seq, session, task, effect, body, state, created_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, 'open', $7)";
        tx.exec(sql, &args).await?;
        self.session_changed(tx, work.session()).await?;
        self.publish();
        self.approval_row(new.id).await
    }

    /// Allows; the effect must be the one that was shown.
    pub async fn allow_approval(&self, permit: Permit<AllowApproval>) -> Result<Approval, StoreError> {
        let who = permit.user();
        let AllowApproval { session, approval, effect, choice } = permit.into_act();
        self.decide(Decided { session, approval, effect, choice: Some(choice), who }).await
    }

    /// Denies; the effect must be the one that was shown.
    pub async fn deny_approval(&self, permit: Permit<DenyApproval>) -> Result<Approval, StoreError> {
        let who = permit.user();
        let DenyApproval { session, approval, effect } = permit.into_act();
        self.decide(Decided { session, approval, effect, choice: None, who }).await
    }

    async fn decide(&self, decided: Decided) -> Result<Approval, StoreError> {
        let Decided { session, approval, effect, choice, who } = decided;
        let mut tx = self.engine.write().await?;
        let sql = "SELECT effect, state, body FROM approvals WHERE id = $1 AND session = $2";
        let row = tx.row(sql, &[approval.to_string().into(), session.to_string().into()]).await?;
        let row = row.ok_or(StoreError::Dangling("approval"))?;
        let unusable = |why: &str| Err(StoreError::Unusable(why.to_owned()));
        if row.text(1)? != ApprovalState::Open.word() {
            return unusable("it was decided before");
        }
        if row.text(0)? != effect {
            return unusable("that is not the effect that waits; look at it again");
        }
        let body: Json = serde_json::from_str(row.text(2)?).map_err(|_| EngineError::from(odd(2)))?;
        if choice.as_deref().is_some_and(|choice| !offers(&body, choice)) {
            return unusable("that is none of the choices that allow it");
        }
        let to = if choice.is_some() { ApprovalState::Allowed } else { ApprovalState::Denied };
        let sql = "UPDATE approvals SET state = $2, choice = $3, decided_by = $4, decided_at = $5 \
                   WHERE id = $1 AND state = 'open'";
        let args: [Value; 5] = [
            approval.to_string().into(),
            to.word().into(),
            choice.into(),
            who.to_string().into(),
            self.clock.now().into(),
        ];
        if tx.exec(sql, &args).await? == 0 {
            return unusable("it was decided before");
        }
        self.session_changed(tx, session).await?;
        self.approval_row(approval).await
    }

    /// Ends what nobody decided; false if somebody had.
    pub async fn expire_approval(&self, work: &AtWork, id: ApprovalId) -> Result<bool, StoreError> {
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE approvals SET state = 'expired', decided_at = $3 \
                   WHERE id = $1 AND session = $2 AND state = 'open'";
        let args = [id.to_string().into(), work.session().to_string().into(), self.clock.now().into()];
        if tx.exec(sql, &args).await? == 0 {
            return Ok(false);
        }
        self.session_changed(tx, work.session()).await?;
        self.publish();
        Ok(true)
    }

    /// A task stands still until somebody decides, or goes on.
    pub async fn hold_task(&self, work: &AtWork, holds: bool) -> Result<(), StoreError> {
        let (from, to) = match holds {
            true => (TaskState::Running, TaskState::Held),
            false => (TaskState::Held, TaskState::Running),
        };
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE tasks SET state = $3 WHERE id = $1 AND state = $2";
        tx.exec(sql, &[work.task().to_string().into(), state(from), state(to)]).await?;
        self.session_changed(tx, work.session()).await?;
        self.publish();
        Ok(())
    }

    /// What waits in a session, or all that ever did, the newest first.
    pub async fn list_approvals(
        &self,
        permit: Permit<ReadSession>,
        all: bool,
        limit: i64,
    ) -> Result<Vec<Approval>, StoreError> {
        let sql =
            approval_columns!("WHERE session = $1 AND ($2 = 1 OR state = 'open') ORDER BY seq DESC LIMIT $3");
        let args = [permit.into_act().session.to_string().into(), all.into(), limit.into()];
        let rows = self.engine.rows(sql, &args).await?;
        Ok(rows.iter().map(approval).collect::<Result<_, _>>()?)
    }

    async fn approval_row(&self, id: ApprovalId) -> Result<Approval, StoreError> {
        let row = self.engine.row(approval_columns!("WHERE id = $1"), &[id.to_string().into()]).await?;
        row.as_ref().map_or(Err(StoreError::Missing("approval")), |row| Ok(approval(row)?))
    }
}

fn approval(row: &Row) -> Result<Approval, EngineError> {
    Ok(Approval {
        id: parsed(row, 0)?,
        session: parsed(row, 1)?,
        task: parsed(row, 2)?,
        effect: row.text(3)?.to_owned(),
        body: serde_json::from_str(row.text(4)?).map_err(|_| odd(4))?,
        state: parsed(row, 5)?,
        choice: row.opt_text(6)?.map(str::to_owned),
        decided_by: row.opt_text(7)?.map(str::parse).transpose().map_err(|_| odd(7))?,
        created_at: row.int(8)?,
        decided_at: row.opt_int(9)?,
    })
}
