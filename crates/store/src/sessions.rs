//! Sessions: rows, lists cut to what a caller may know of, and what begins and ends them.
//!
//! Not here: their tasks (`tasks`), what happened in them (`steps`).

use std::sync::Arc;

use access::{
    CloseSession, CreateSession, ListSessions, Permit, ReadSession, ResumeSession, SessionFacts,
    WorktreeFacts,
};
use model::{
    AgentName, Born, DisplayName, EventKind, EventSeq, HoldCause, Millis, Role, SessionId, TaskId, TaskState,
    UserId, WorktreeId,
};

use crate::credentials::owners;
use crate::endings::{being, lock_in_use};
use crate::engine::{EngineError, Row, Tx, Value};
use crate::store::{odd, parsed};
use crate::{Store, StoreError};

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// What decisions need to know of it: which, where, whose.
    pub facts: SessionFacts,
    /// Which agent works there.
    pub agent: AgentName,
    /// How it is shown.
    pub title: DisplayName,
    /// What the agent may do without asking.
    pub mode: Option<String>,
    /// Which model it uses, unless it chooses.
    pub model: Option<String>,
    /// What a program without a protocol of its own is started as.
    pub command: Vec<String>,
    /// What the agent itself calls the conversation.
    pub agent_session: Option<String>,
    /// In whose home that is; the creator's unless told.
    pub agent_session_of: Option<UserId>,
    /// What the agent told last that this conversation cost, in millionths of a dollar.
    pub agent_told: i64,
    /// Why nothing of its queue is begun.
    pub held: Option<HoldCause>,
    /// The last thing that happened.
    pub steps: i64,
    /// When it was opened.
    pub created_at: Millis,
    /// When it was finished.
    pub closed_at: Option<Millis>,
    /// What is at work.
    pub at_work: Option<TaskId>,
    /// How many tasks wait.
    pub queued: i64,
    /// Where it comes from, if from another.
    pub origin: Option<Origin>,
    /// How many were opened for one another before it.
    pub depth: i64,
    /// How many lines of a transcript it was made from, if it was.
    pub imported: Option<i64>,
}

impl Session {
    /// Which.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.facts.id
    }

    /// Where.
    #[must_use]
    pub fn worktree(&self) -> WorktreeId {
        self.facts.worktree.id
    }

    /// Who opened it.
    #[must_use]
    pub fn creator(&self) -> UserId {
        self.facts.creator
    }
}

/// Which sessions a list is about.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// In this worktree only.
    pub worktree: Option<WorktreeId>,
    /// Of this person only.
    pub creator: Option<UserId>,
    /// Also those that are finished.
    pub closed: bool,
}

/// Where a session comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// From which.
    pub parent: SessionId,
    /// How.
    pub born: Born,
    /// The last step that it has of the other, where it goes on from there.
    pub at: Option<i64>,
}

/// The columns of a session, for [`session`].
macro_rules! session_columns {
    ($rest:literal) => {
        concat!(
            "SELECT s.id, s.worktree, s.creator, s.agent, s.title, s.mode, s.model, s.command, s.agent_session, s.held, ",
            "s.steps, s.created_at, s.closed_at, ",
            "(SELECT t.id FROM tasks t WHERE t.session = s.id AND t.state IN ('running', 'held')), ",
            "(SELECT COUNT(*) FROM tasks t WHERE t.session = s.id AND t.state = 'queued'), ",
            "w.tier, w.archived_at, ",
            "(SELECT string_agg(o.user_id, ' ') FROM worktree_owners o WHERE o.worktree = w.id), ",
            "s.parent, s.born, s.forked_at, s.depth, s.imported, w.shares, s.agent_session_of, s.agent_told ",
            "FROM sessions s JOIN worktrees w ON w.id = s.worktree ",
            $rest
        )
    };
}
pub(crate) use session_columns;

/// How a session comes from another.
pub(crate) struct ComesFrom {
    pub(crate) parent: SessionId,
    pub(crate) born: Born,
    /// The place of the other's conversation, of a fork.
    pub(crate) at: Option<i64>,
    pub(crate) depth: i64,
    /// Whether its end is told there.
    pub(crate) reports: bool,
}

/// A session before it has a row.
pub(crate) struct NewRow<'a> {
    pub(crate) id: SessionId,
    pub(crate) worktree: WorktreeId,
    pub(crate) creator: UserId,
    pub(crate) agent: &'a str,
    pub(crate) title: &'a DisplayName,
    pub(crate) mode: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) command: &'a [String],
    /// Where it comes from, if that is another.
    pub(crate) from: Option<ComesFrom>,
}

impl Store {
    /// One session.
    pub async fn read_session(&self, permit: Permit<ReadSession>) -> Result<Session, StoreError> {
        self.session_row(permit.into_act().session).await
    }

    /// Sessions before a cursor, the newest first, that this caller may know of, as far as owners, tiers and roles tell.
    /// The gate judges each again.
    pub async fn list_sessions(
        &self,
        permit: Permit<ListSessions>,
        worktree_rbac: bool,
        filter: &SessionFilter,
        before: Option<SessionId>,
        limit: i64,
    ) -> Result<Vec<Session>, StoreError> {
        let who = permit.who();
        let sees_all = who.role() >= Role::Admin || !worktree_rbac;
        let sql = session_columns!(
            "WHERE w.deleted_at IS NULL \
             AND s.seq < COALESCE((SELECT seq FROM sessions WHERE id = $1), 9223372036854775807) \
             AND ($2 = 1 OR w.tier <> 'none' OR EXISTS \
                  (SELECT 1 FROM worktree_owners o WHERE o.worktree = w.id AND o.user_id = $3)) \
             AND ($4 = '' OR s.worktree = $4) AND ($5 = '' OR s.creator = $5) \
             AND ($6 = 1 OR s.closed_at IS NULL) ORDER BY s.seq DESC LIMIT $7"
        );
        let args = [
            before.map(|id| id.to_string()).into(),
            sees_all.into(),
            who.user().to_string().into(),
            filter.worktree.map(|id| id.to_string()).unwrap_or_default().into(),
            filter.creator.map(|id| id.to_string()).unwrap_or_default().into(),
            filter.closed.into(),
            limit.into(),
        ];
        let rows = self.engine.rows(sql, &args).await?;
        Ok(rows.iter().map(session).collect::<Result<_, _>>()?)
    }

    /// Opens a session; the caller is its creator.
    pub async fn create_session(&self, permit: Permit<CreateSession>) -> Result<Session, StoreError> {
        let creator = permit.user();
        let act = permit.into_act();
        let mut tx = self.engine.write().await?;
        lock_in_use(&mut tx, act.worktree).await?;
        let new = NewRow {
            id: act.session,
            worktree: act.worktree,
            creator,
            agent: act.agent.as_str(),
            title: &act.title,
            mode: act.mode,
            model: act.model,
            command: &act.command,
            from: None,
        };
        self.insert_session(&mut tx, new).await?;
        let event = self.session_event(&mut tx, EventKind::SessionCreated, act.worktree, act.session).await?;
        self.commit(tx, event).await?;
        self.session_row(act.session).await
    }

    /// Makes the row of a session.
    pub(crate) async fn insert_session(&self, tx: &mut Tx, new: NewRow<'_>) -> Result<(), StoreError> {
        let seq = tx.next("sessions").await?;
        let command = serde_json::to_string(new.command).unwrap_or_default();
        let from = new.from.as_ref();
        let args: [Value; 16] = [
            new.id.to_string().into(),
            seq.into(),
            new.worktree.to_string().into(),
            new.creator.to_string().into(),
            new.agent.into(),
            new.title.as_str().into(),
            new.mode.into(),
            new.model.into(),
            command.into(),
            from.and_then(|from| from.at).unwrap_or(0).into(),
            self.clock.now().into(),
            from.map(|from| from.parent.to_string()).into(),
            from.map(|from| from.born.word().to_owned()).into(),
            from.and_then(|from| from.at).into(),
            from.map_or(0, |from| from.depth).into(),
            from.is_some_and(|from| from.reports).into(),
        ];
        let sql = "INSERT INTO sessions (id, seq, worktree, creator, agent, title, mode, model, command, steps, created_at, \
                   parent, born, forked_at, depth, reports) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
        tx.exec(sql, &args).await.map(drop).map_err(|error| match error {
            EngineError::Reference => StoreError::Missing("worktree"),
            other => other.into(),
        })
    }

    /// Lets a session go on with its queue.
    pub async fn resume_session(&self, permit: Permit<ResumeSession>) -> Result<Session, StoreError> {
        let session = permit.into_act().session;
        let mut tx = self.engine.write().await?;
        lock_open(&mut tx, session).await?;
        tx.exec("UPDATE sessions SET held = NULL WHERE id = $1", &[session.to_string().into()]).await?;
        self.session_changed(tx, session).await?;
        self.session_row(session).await
    }

    /// Finishes a session: nothing waits any more. What is at work is ended by whoever runs it.
    /// Tells which tasks will not be begun.
    pub async fn close_session(
        &self,
        permit: Permit<CloseSession>,
    ) -> Result<(Session, Vec<TaskId>), StoreError> {
        let session = permit.into_act().session;
        let now = self.clock.now();
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE sessions SET closed_at = COALESCE(closed_at, $2), archived_at = NULL WHERE id = $1";
        if tx.exec(sql, &[session.to_string().into(), now.into()]).await? == 0 {
            return Err(StoreError::Missing("session"));
        }
        let sql = "SELECT id FROM tasks WHERE session = $1 AND state = 'queued' ORDER BY seq";
        let rows = tx.rows(sql, &[session.to_string().into()]).await?;
        let dropped = rows.iter().map(|row| parsed(row, 0)).collect::<Result<_, _>>()?;
        let sql = "UPDATE tasks SET state = 'stopped', why = $2, ended_at = $3, prompt = NULL \
                   WHERE session = $1 AND state = 'queued'";
        let why = "the session was closed before its turn came";
        tx.exec(sql, &[session.to_string().into(), why.into(), now.into()]).await?;
        let sql = "SELECT 1 FROM tasks WHERE session = $1 AND state IN ('running', 'held')";
        if tx.row(sql, &[session.to_string().into()]).await?.is_none() {
            self.expire_approvals(&mut tx, session).await?;
        }
        self.note_end(&mut tx, session).await?;
        self.session_changed(tx, session).await?;
        Ok((self.session_row(session).await?, dropped))
    }

    pub(crate) async fn session_changed(&self, mut tx: Tx, session: SessionId) -> Result<(), StoreError> {
        let event = self.tell_of(&mut tx, EventKind::SessionChanged, session).await?;
        Ok(self.commit(tx, event).await?)
    }

    /// Adds an event about a session to a change that is not committed yet.
    pub(crate) async fn tell_of(
        &self,
        tx: &mut Tx,
        kind: EventKind,
        session: SessionId,
    ) -> Result<EventSeq, StoreError> {
        let sql = "SELECT worktree FROM sessions WHERE id = $1";
        let row = tx.row(sql, &[session.to_string().into()]).await?.ok_or(StoreError::Missing("session"))?;
        Ok(self.session_event(tx, kind, parsed(&row, 0)?, session).await?)
    }

    pub(crate) async fn session_row(&self, id: SessionId) -> Result<Session, StoreError> {
        let sql = session_columns!("WHERE s.id = $1 AND w.deleted_at IS NULL");
        let row = self.engine.row(sql, &[id.to_string().into()]).await?;
        row.as_ref().map_or(Err(StoreError::Missing("session")), |row| Ok(session(row)?))
    }
}

/// For whoever changes an open session: others wait.
pub(crate) async fn lock_open(tx: &mut Tx, session: SessionId) -> Result<(), StoreError> {
    let id: Value = session.to_string().into();
    if tx.exec("UPDATE sessions SET steps = steps WHERE id = $1", std::slice::from_ref(&id)).await? == 0 {
        return Err(StoreError::Missing("session"));
    }
    let sql =
        "SELECT s.closed_at, w.ending FROM sessions s JOIN worktrees w ON w.id = s.worktree WHERE s.id = $1";
    let row = tx.row(sql, &[id]).await?.ok_or(StoreError::Missing("session"))?;
    match (row.opt_int(0)?, row.opt_text(1)?) {
        (None, None) => Ok(()),
        (_, Some(ending)) => Err(being(ending)),
        (Some(_), None) => Err(StoreError::Unusable("the session is closed; open another".into())),
    }
}

fn origin(row: &Row) -> Result<Option<Origin>, EngineError> {
    let Some(parent) = row.opt_text(18)? else { return Ok(None) };
    let parent = parent.parse().map_err(|_| odd(18))?;
    Ok(Some(Origin { parent, born: parsed(row, 19)?, at: row.opt_int(20)? }))
}

pub(crate) fn session(row: &Row) -> Result<Session, EngineError> {
    let worktree = WorktreeFacts {
        id: parsed(row, 1)?,
        owners: owners(row, 17)?,
        tier: parsed(row, 15)?,
        archived: row.opt_int(16)?.is_some(),
        shares: row.flag(23)?,
        deleted: false,
    };
    Ok(Session {
        facts: SessionFacts { id: parsed(row, 0)?, worktree: Arc::new(worktree), creator: parsed(row, 2)? },
        agent: parsed(row, 3)?,
        title: parsed(row, 4)?,
        mode: row.opt_text(5)?.map(str::to_owned),
        model: row.opt_text(6)?.map(str::to_owned),
        command: serde_json::from_str(row.text(7)?).map_err(|_| odd(7))?,
        agent_session: row.opt_text(8)?.map(str::to_owned),
        held: row.opt_text(9)?.map(str::parse).transpose().map_err(|_| odd(9))?,
        steps: row.int(10)?,
        created_at: row.int(11)?,
        closed_at: row.opt_int(12)?,
        at_work: row.opt_text(13)?.map(str::parse).transpose().map_err(|_| odd(13))?,
        queued: row.int(14)?,
        origin: origin(row)?,
        depth: row.int(21)?,
        imported: row.opt_int(22)?,
        agent_session_of: row.opt_text(24)?.map(str::parse).transpose().map_err(|_| odd(24))?,
        agent_told: row.int(25)?,
    })
}

/// The word for a state as the table has it.
pub(crate) fn state(of: TaskState) -> Value {
    of.word().into()
}
