//! Effects that wait for a person: shown once, bound to their digest, decided once.
//!
//! Invariant: of all who decide one wins, by one statement of the database; what is over stays so.

use access::{AllowApproval, DenyApproval, ListSessions, Permit, ReadSession};
use model::{
    ApprovalId, ApprovalState, ConsentId, ConsentScope, EventKind, Millis, Role, SessionId, TaskId,
    TaskState, UserId,
};
use serde_json::Value as Json;

use crate::consents::Keep;
use crate::engine::{EngineError, Row, Tx, Value};
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
    /// The consent by which it was, if nobody was asked.
    pub consent: Option<ConsentId>,
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
    /// What kind of effect.
    pub kind: String,
    /// What effects that are the same have in common; nothing, if too little is known of it.
    pub likeness: Option<String>,
}

/// What a consent to one effect that nobody waits for any more is good for: once, for a day.
const LATER: (i64, Millis) = (1, 24 * 60 * 60 * 1_000);

/// Whether this choice was shown with the effect, as one that allows it once: no agent is told to ask no more.
fn offers(body: &Json, choice: &str) -> bool {
    let choices = body.get("choices").and_then(Json::as_array).into_iter().flatten();
    let text = |one: &Json, name: &str| one.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
    choices.into_iter().any(|one| text(one, "id") == choice && text(one, "kind") == "allow_once")
}

macro_rules! approval_columns {
    ($rest:literal) => {
        concat!(
            "SELECT id, session, task, effect, body, state, choice, decided_by, created_at, decided_at, consent FROM approvals ",
            $rest
        )
    };
}

impl Store {
    /// Keeps what a task asks for until somebody decides.
    pub async fn open_approval(&self, work: &AtWork, new: NewApproval) -> Result<Approval, StoreError> {
        let mut tx = self.engine.write().await?;
        let seq = tx.next("approvals").await?;
        let args: [Value; 9] = [
            new.id.to_string().into(),
            seq.into(),
            work.session().to_string().into(),
            work.task().to_string().into(),
            new.effect.into(),
            new.body.to_string().into(),
            self.clock.now().into(),
            new.kind.into(),
            new.likeness.unwrap_or_default().into(),
        ];
        let sql = "INSERT INTO approvals (id, seq, session, task, effect, body, state, created_at, kind, likeness) \
                   VALUES ($1, $2, $3, $4, $5, $6, 'open', $7, $8, $9)";
        tx.exec(sql, &args).await?;
        self.tell_of(&mut tx, EventKind::ApprovalOpened, work.session()).await?;
        self.session_changed(tx, work.session()).await?;
        self.publish();
        self.approval_row(new.id).await
    }

    /// Allows; the effect must be the one that was shown. With four eyes whoever asked for the task does not.
    pub async fn allow_approval(
        &self,
        permit: Permit<AllowApproval>,
        four_eyes: bool,
    ) -> Result<Approval, StoreError> {
        let (who, role) = (permit.user(), permit.who().role());
        let act = permit.into_act();
        let mut tx = self.engine.write().await?;
        let asked = open(&mut tx, act.session, act.approval, &act.effect).await?;
        if !offers(&asked.body, &act.choice) {
            return unusable("that is none of the choices that allow it");
        }
        let is_shared = |scope: &Json| scope.as_str() != Some("session");
        if asked.body.pointer("/budget/scope").is_some_and(is_shared) && role < Role::Admin {
            return unusable("a budget of a person or a worktree is extended by an administrator");
        }
        if four_eyes && asked.asked_by == who {
            return unusable(
                "whoever asked for a task does not decide what it asks for; somebody else has to",
            );
        }
        if let Some(consent) = act.by {
            self.use_consent(&mut tx, consent).await?;
        }
        let same = Keep {
            id: act.consent,
            scope: ConsentScope::Session,
            session: act.session,
            approval: act.approval,
            kind: asked.kind,
            likeness: asked.likeness.clone(),
            beneath: None,
            uses: LATER.0,
            lasts: LATER.1,
            given_by: who,
            claim: act.claim,
        };
        let keep = match act.wider {
            Some(wider) if wider.beneath.is_some() && !model::ON_PATHS.contains(&same.kind.as_str()) => {
                return unusable(
                    "only effects on files can be allowed beneath a directory; allow this one itself",
                );
            }
            Some(wider) => {
                let likeness = same.likeness.clone().filter(|_| wider.beneath.is_none());
                let (scope, beneath, uses, lasts) = (wider.scope, wider.beneath, wider.uses, wider.lasts);
                Some(Keep { scope, likeness, beneath, uses, lasts, ..same })
            }
            // The agent that asked is gone; when it asks the same again, this is its answer.
            None if asked.is_left => Some(same).filter(|keep| keep.likeness.is_some()),
            None => None,
        };
        if let Some(keep) = keep {
            if keep.likeness.is_none() && keep.beneath.is_none() {
                return unusable("too little is known of this effect to say what is like it; allow it once");
            }
            self.keep_consent(&mut tx, keep).await?;
        }
        let by = act.by.map(|id| id.to_string());
        self.decided(tx, act.session, act.approval, Some(act.choice), who, by).await
    }

    /// Denies; the effect must be the one that was shown.
    pub async fn deny_approval(&self, permit: Permit<DenyApproval>) -> Result<Approval, StoreError> {
        let who = permit.user();
        let DenyApproval { session, approval, effect } = permit.into_act();
        let mut tx = self.engine.write().await?;
        open(&mut tx, session, approval, &effect).await?;
        self.decided(tx, session, approval, None, who, None).await
    }

    async fn decided(
        &self,
        mut tx: Tx,
        session: SessionId,
        approval: ApprovalId,
        choice: Option<String>,
        who: UserId,
        by: Option<String>,
    ) -> Result<Approval, StoreError> {
        let to = if choice.is_some() { ApprovalState::Allowed } else { ApprovalState::Denied };
        let sql = "UPDATE approvals SET state = $2, choice = $3, decided_by = $4, decided_at = $5, consent = $6 \
                   WHERE id = $1 AND state = 'open'";
        let args: [Value; 6] = [
            approval.to_string().into(),
            to.word().into(),
            choice.into(),
            who.to_string().into(),
            self.clock.now().into(),
            by.into(),
        ];
        if tx.exec(sql, &args).await? == 0 {
            return unusable("it was decided before");
        }
        self.tell_of(&mut tx, EventKind::ApprovalDecided, session).await?;
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
        self.tell_of(&mut tx, EventKind::ApprovalDecided, work.session()).await?;
        self.session_changed(tx, work.session()).await?;
        self.publish();
        Ok(true)
    }

    /// What was decided, if it was: the choice, or that it may not be.
    pub async fn decision(
        &self,
        work: &AtWork,
        id: ApprovalId,
    ) -> Result<Option<Option<String>>, StoreError> {
        let sql = "SELECT state, choice FROM approvals WHERE id = $1 AND session = $2";
        let row = self.engine.row(sql, &[id.to_string().into(), work.session().to_string().into()]).await?;
        let Some(row) = row else { return Ok(None) };
        Ok(match parsed(&row, 0)? {
            ApprovalState::Open => None,
            ApprovalState::Allowed => Some(row.opt_text(1)?.map(str::to_owned)),
            ApprovalState::Denied | ApprovalState::Expired => Some(None),
        })
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

    /// What waits before one of them, the newest first, in sessions that this caller may know of, as far as owners, tiers and roles tell.
    /// The gate judges each again.
    pub async fn list_open_approvals(
        &self,
        permit: Permit<ListSessions>,
        worktree_rbac: bool,
        before: Option<ApprovalId>,
        limit: i64,
    ) -> Result<Vec<Approval>, StoreError> {
        let who = permit.who();
        let sees_all = who.role() >= Role::Admin || !worktree_rbac;
        let sql = approval_columns!(
            "WHERE state = 'open' \
             AND seq < COALESCE((SELECT seq FROM approvals WHERE id = $1), 9223372036854775807) \
             AND EXISTS (SELECT 1 FROM sessions s JOIN worktrees w ON w.id = s.worktree \
                  WHERE s.id = approvals.session AND w.deleted_at IS NULL \
                  AND ($2 = 1 OR w.tier <> 'none' OR EXISTS \
                       (SELECT 1 FROM worktree_owners o WHERE o.worktree = w.id AND o.user_id = $3))) \
             ORDER BY seq DESC LIMIT $4"
        );
        let args = [
            before.map(|id| id.to_string()).into(),
            sees_all.into(),
            who.user().to_string().into(),
            limit.into(),
        ];
        let rows = self.engine.rows(sql, &args).await?;
        Ok(rows.iter().map(approval).collect::<Result<_, _>>()?)
    }

    async fn approval_row(&self, id: ApprovalId) -> Result<Approval, StoreError> {
        let row = self.engine.row(approval_columns!("WHERE id = $1"), &[id.to_string().into()]).await?;
        row.as_ref().map_or(Err(StoreError::Missing("approval")), |row| Ok(approval(row)?))
    }
}

fn unusable<T>(why: &str) -> Result<T, StoreError> {
    Err(StoreError::Unusable(why.to_owned()))
}

/// What is known of a question that waits.
struct Asked {
    body: Json,
    kind: String,
    likeness: Option<String>,
    asked_by: UserId,
    /// Whether the task that asked is over.
    is_left: bool,
}

/// The question, if it waits and is the one that was shown.
async fn open(
    tx: &mut Tx,
    session: SessionId,
    approval: ApprovalId,
    effect: &str,
) -> Result<Asked, StoreError> {
    let sql = "SELECT a.effect, a.state, a.body, a.kind, a.likeness, t.asked_by, t.state \
               FROM approvals a JOIN tasks t ON t.id = a.task WHERE a.id = $1 AND a.session = $2";
    let row = tx.row(sql, &[approval.to_string().into(), session.to_string().into()]).await?;
    let row = row.ok_or(StoreError::Dangling("approval"))?;
    if row.text(1)? != ApprovalState::Open.word() {
        return unusable("it was decided before");
    }
    if row.text(0)? != effect {
        return unusable("that is not the effect that waits; look at it again");
    }
    let state: TaskState = parsed(&row, 6)?;
    Ok(Asked {
        body: serde_json::from_str(row.text(2)?).map_err(|_| EngineError::from(odd(2)))?,
        kind: row.text(3)?.to_owned(),
        likeness: Some(row.text(4)?.to_owned()).filter(|text| !text.is_empty()),
        asked_by: parsed(&row, 5)?,
        is_left: !matches!(state, TaskState::Running | TaskState::Held),
    })
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
        consent: row.opt_text(10)?.map(str::parse).transpose().map_err(|_| odd(10))?,
    })
}
