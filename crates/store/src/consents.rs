//! Consent that holds for more than one question: narrow, counted, with an end, and taken back at any time.
//!
//! Invariant: a consent is used by the statement that counts it, in the transaction that decides the question.

use access::{Permit, ReadSession, RevokeConsent};
use model::{ApprovalId, ConsentId, ConsentScope, Millis, SessionId, UserId};

use crate::engine::{EngineError, Row, Tx, Value};
use crate::store::{odd, parsed};
use crate::tasks::AtWork;
use crate::{Store, StoreError};

/// Consents that are told, or looked through for one question.
const MOST: i64 = 200;

/// A consent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    /// Which.
    pub id: ConsentId,
    /// For this session, or for all sessions of its creator in the worktree.
    pub scope: ConsentScope,
    /// The question that it was given with.
    pub approval: ApprovalId,
    /// What kind of effect.
    pub kind: String,
    /// Exactly this effect, by its likeness.
    pub likeness: Option<String>,
    /// Or effects on paths beneath this directory of the worktree.
    pub beneath: Option<String>,
    /// How often it can be used still.
    pub left: i64,
    /// Who gave it.
    pub given_by: UserId,
    /// When.
    pub created_at: Millis,
    /// When it ends by itself.
    pub expires_at: Millis,
    /// Who gave it, to be judged again.
    pub claim: String,
}

/// A consent to keep.
#[derive(Clone, Debug)]
pub(crate) struct Keep {
    pub(crate) id: ConsentId,
    pub(crate) scope: ConsentScope,
    pub(crate) session: SessionId,
    pub(crate) approval: ApprovalId,
    pub(crate) kind: String,
    pub(crate) likeness: Option<String>,
    pub(crate) beneath: Option<String>,
    pub(crate) uses: i64,
    pub(crate) lasts: Millis,
    pub(crate) given_by: UserId,
    pub(crate) claim: String,
}

macro_rules! consent_columns {
    ($rest:literal) => {
        concat!(
            "SELECT c.id, c.scope, c.approval, c.kind, c.likeness, c.beneath, c.uses_left, c.given_by, c.created_at, ",
            "c.expires_at, c.claim FROM consents c JOIN sessions g ON g.id = c.session JOIN sessions s ON s.id = $1 ",
            "WHERE c.revoked_at IS NULL AND c.uses_left > 0 AND c.expires_at > $2 AND (c.session = s.id OR ",
            "(c.scope = 'worktree' AND g.worktree = s.worktree AND g.creator = s.creator)) ",
            $rest
        )
    };
}

impl Store {
    /// Consents that hold in a session now, the newest first.
    pub async fn list_consents(&self, permit: Permit<ReadSession>) -> Result<Vec<Consent>, StoreError> {
        let sql = consent_columns!("ORDER BY c.seq DESC LIMIT $3");
        let args = [permit.into_act().session.to_string().into(), self.clock.now().into(), MOST.into()];
        let rows = self.engine.rows(sql, &args).await?;
        Ok(rows.iter().map(consent).collect::<Result<_, _>>()?)
    }

    /// Consents to effects of this kind that hold where this task is at work, the oldest first: those that were given with a
    /// question of a task that the same person asked for. What is done for one is not done for another.
    pub async fn consents_to(&self, work: &AtWork, kind: &str) -> Result<Vec<Consent>, StoreError> {
        let sql = consent_columns!(
            "AND c.kind = $4 AND (SELECT t.asked_by FROM approvals a JOIN tasks t ON t.id = a.task WHERE a.id = c.approval) = \
             (SELECT asked_by FROM tasks WHERE id = $5) ORDER BY c.seq LIMIT $3"
        );
        let args = [
            work.session().to_string().into(),
            self.clock.now().into(),
            MOST.into(),
            kind.into(),
            work.task().to_string().into(),
        ];
        let rows = self.engine.rows(sql, &args).await?;
        Ok(rows.iter().map(consent).collect::<Result<_, _>>()?)
    }

    /// Takes a consent back that holds in a session.
    pub async fn revoke_consent(&self, permit: Permit<RevokeConsent>) -> Result<(), StoreError> {
        let act = permit.into_act();
        let sql = consent_columns!("AND c.id = $3");
        let now = self.clock.now();
        let args = [act.session.to_string().into(), now.into(), act.consent.to_string().into()];
        if self.engine.row(sql, &args).await?.is_none() {
            return Err(StoreError::Dangling("consent"));
        }
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE consents SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
        tx.exec(sql, &[act.consent.to_string().into(), now.into()]).await?;
        self.session_changed(tx, act.session).await
    }

    pub(crate) async fn keep_consent(&self, tx: &mut Tx, keep: Keep) -> Result<(), StoreError> {
        let (seq, now) = (tx.next("consents").await?, self.clock.now());
        let args: [Value; 13] = [
            keep.id.to_string().into(),
            seq.into(),
            keep.scope.word().into(),
            keep.session.to_string().into(),
            keep.approval.to_string().into(),
            keep.kind.into(),
            keep.likeness.into(),
            keep.beneath.into(),
            keep.uses.into(),
            keep.given_by.to_string().into(),
            keep.claim.into(),
            now.into(),
            now.saturating_add(keep.lasts).into(),
        ];
        let sql = "INSERT INTO consents (id, seq, scope, session, approval, kind, likeness, beneath, uses_left, given_by, claim, \
                   created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
        tx.exec(sql, &args).await?;
        Ok(())
    }

    /// Counts one use, if there is one left.
    pub(crate) async fn use_consent(&self, tx: &mut Tx, id: ConsentId) -> Result<(), StoreError> {
        let sql = "UPDATE consents SET uses_left = uses_left - 1 \
                   WHERE id = $1 AND uses_left > 0 AND revoked_at IS NULL AND expires_at > $2";
        match tx.exec(sql, &[id.to_string().into(), self.clock.now().into()]).await? {
            0 => Err(StoreError::Unusable("the consent is over".into())),
            _ => Ok(()),
        }
    }
}

fn consent(row: &Row) -> Result<Consent, EngineError> {
    Ok(Consent {
        id: parsed(row, 0)?,
        scope: parsed(row, 1).map_err(|_| odd(1))?,
        approval: parsed(row, 2)?,
        kind: row.text(3)?.to_owned(),
        likeness: row.opt_text(4)?.map(str::to_owned),
        beneath: row.opt_text(5)?.map(str::to_owned),
        left: row.int(6)?,
        given_by: parsed(row, 7)?,
        created_at: row.int(8)?,
        expires_at: row.int(9)?,
        claim: row.text(10)?.to_owned(),
    })
}
