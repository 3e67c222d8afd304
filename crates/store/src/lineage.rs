//! Sessions that come from others: opened within bounds, told of as a tree, and their ends told to where they come from.
//!
//! Invariant: a child's end is one row, made with the end itself and settled with the task that tells it: it is told once,
//! whenever anybody is killed.

use access::{ForkSession, Permit, ReadSession, SpawnSession};
use model::{AgentName, Born, DisplayName, EventKind, SessionId, TaskId};

use crate::endings::lock_in_use;
use crate::engine::{EngineError, Row, Tx, Value};
use crate::sessions::{ComesFrom, NewRow, Session, lock_open, session, session_columns};
use crate::store::parsed;
use crate::{Store, StoreError};

/// Sessions of one tree that are told at once.
const MOST_TOLD: i64 = 1_000;

/// Steps that a fork takes along.
const MOST_COPIED: i64 = 50_000;

/// How far sessions may open others.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// How many for one another.
    pub depth: i64,
    /// How many that are open for one.
    pub fan_out: i64,
}

/// What a child is, by what was wanted of it and what its parent is.
#[derive(Clone, Debug)]
pub struct Child {
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
}

/// Where a session stands among those it comes from and those that come from it.
#[derive(Clone, Debug)]
pub struct Lineage {
    /// Where it comes from, the first of all first.
    pub ancestors: Vec<Session>,
    /// What comes from it, in the order in which they were opened.
    pub descendants: Vec<Session>,
    /// Whether there are more than are told.
    pub more: bool,
}

/// A child's end that its parent was not told of yet.
#[derive(Clone, Debug)]
pub struct Notice {
    /// Which ended.
    pub child: SessionId,
    /// Who is told.
    pub parent: SessionId,
    /// How the child is shown.
    pub title: String,
    /// Its last task, how that ended and why, and who asked for it.
    pub task: TaskId,
    /// done, failed or stopped.
    pub state: String,
    /// In words.
    pub why: String,
    /// Who asked.
    pub claim: String,
}

/// Sessions of a tree, in the order in which they were opened: by the tree's own rows. Joined, or ordered by what has an index,
/// SQLite walks through all sessions that there are. They are found by their places, which lie beside one another: ids are drawn, so each
/// would be in a page of its own, to be read and opened for it.
macro_rules! of_tree {
    ($name:literal, $tree:literal) => {
        concat!(
            "WITH RECURSIVE ",
            $tree,
            session_columns!("WHERE s.seq IN (SELECT seq FROM "),
            $name,
            " LIMIT $2) AND w.deleted_at IS NULL ORDER BY s.seq + 0"
        )
    };
}

/// Where a session comes from.
macro_rules! up {
    () => {
        of_tree!(
            "up",
            "up(seq, parent) AS (SELECT p.seq, p.parent FROM sessions s JOIN sessions p ON p.id = s.parent WHERE s.id = $1 \
             UNION ALL SELECT p.seq, p.parent FROM up JOIN sessions p ON p.id = up.parent) "
        )
    };
}

/// What comes from it.
macro_rules! down {
    () => {
        of_tree!(
            "down",
            "down(id, seq) AS (SELECT id, seq FROM sessions WHERE parent = $1 \
             UNION ALL SELECT s.id, s.seq FROM sessions s JOIN down ON s.parent = down.id) "
        )
    };
}

impl Store {
    /// Goes on from a place of another's conversation: what happened until then is the new one's as well.
    pub async fn fork_session(&self, permit: Permit<ForkSession>) -> Result<Session, StoreError> {
        let creator = permit.user();
        let act = permit.into_act();
        let parent = self.session_row(act.parent).await?;
        let at = act.at.unwrap_or(parent.steps);
        if !(0..=parent.steps).contains(&at) {
            return Err(StoreError::Unusable(format!(
                "there is no step {at}; the last is {} (`palisade session export` tells them)",
                parent.steps
            )));
        }
        if at > MOST_COPIED {
            return Err(StoreError::Unusable(format!(
                "a fork has {MOST_COPIED} steps at most; name an earlier place, or open a session and say what it needs to know"
            )));
        }
        let mut tx = self.engine.write().await?;
        lock_in_use(&mut tx, parent.worktree()).await?;
        let title = act.title.unwrap_or_else(|| parent.title.clone());
        let from = ComesFrom {
            parent: act.parent,
            born: Born::Fork,
            at: Some(at),
            depth: parent.depth,
            reports: false,
        };
        let new = NewRow {
            id: act.session,
            worktree: parent.worktree(),
            creator,
            agent: parent.agent.as_str(),
            title: &title,
            mode: parent.mode.clone(),
            model: parent.model.clone(),
            command: &parent.command,
            from: Some(from),
        };
        self.insert_session(&mut tx, new).await?;
        let sql = "INSERT INTO steps (session, seq, at, task, kind, body) \
                   SELECT $1, seq, at, NULL, kind, body FROM steps WHERE session = $2 AND seq <= $3";
        tx.exec(sql, &[act.session.to_string().into(), act.parent.to_string().into(), at.into()]).await?;
        let event =
            self.session_event(&mut tx, EventKind::SessionCreated, parent.worktree(), act.session).await?;
        self.commit(tx, event).await?;
        self.session_row(act.session).await
    }

    /// The session that another is to be opened for.
    pub async fn parent_of_new(
        &self,
        permit: Permit<SpawnSession>,
    ) -> Result<(Permit<SpawnSession>, Session), StoreError> {
        let parent = self.session_row(permit.act().parent).await?;
        Ok((permit, parent))
    }

    /// Opens a session for another, as long as that one may have more.
    pub async fn spawn_session(
        &self,
        permit: Permit<SpawnSession>,
        child: Child,
        reach: Reach,
    ) -> Result<Session, StoreError> {
        let creator = permit.user();
        let act = permit.into_act();
        let worktree = self.session_row(act.parent).await?.worktree();
        let mut tx = self.engine.write().await?;
        // The worktree first, as whoever ends it.
        lock_in_use(&mut tx, worktree).await?;
        lock_open(&mut tx, act.parent).await?;
        let parent = self.session_row(act.parent).await?;
        if parent.depth >= reach.depth {
            return Err(StoreError::Unusable(format!(
                "sessions are opened for one another {} deep at most, and this one is the last",
                reach.depth
            )));
        }
        let sql = "SELECT COUNT(*) FROM sessions WHERE parent = $1 AND born = 'spawn' AND closed_at IS NULL";
        let row = tx.row(sql, &[act.parent.to_string().into()]).await?;
        if row.map_or(Ok(0), |row| row.int(0))? >= reach.fan_out {
            return Err(StoreError::Full("open sessions that were opened for this one", reach.fan_out));
        }
        let depth = parent.depth.saturating_add(1);
        let from = ComesFrom { parent: act.parent, born: Born::Spawn, at: None, depth, reports: act.reports };
        let new = NewRow {
            id: act.session,
            worktree,
            creator,
            agent: child.agent.as_str(),
            title: &child.title,
            mode: child.mode,
            model: child.model,
            command: &child.command,
            from: Some(from),
        };
        self.insert_session(&mut tx, new).await?;
        let event =
            self.session_event(&mut tx, EventKind::SessionCreated, parent.worktree(), act.session).await?;
        self.commit(tx, event).await?;
        self.session_row(act.session).await
    }

    /// Where a session comes from and what comes from it, by what is kept; the gate judges each again.
    pub async fn lineage(&self, permit: Permit<ReadSession>) -> Result<Lineage, StoreError> {
        let id: Value = permit.into_act().session.to_string().into();
        let read = |rows: Vec<Row>| rows.iter().map(session).collect::<Result<Vec<_>, _>>();
        let most: Value = (MOST_TOLD + 1).into();
        let mut ancestors = read(self.engine.rows(up!(), &[id.clone(), most.clone()]).await?)?;
        let mut descendants = read(self.engine.rows(down!(), &[id, most]).await?)?;
        let told = usize::try_from(MOST_TOLD).unwrap_or(usize::MAX);
        let more = ancestors.len() > told || descendants.len() > told;
        // The nearest are told.
        ancestors.drain(..ancestors.len().saturating_sub(told));
        descendants.truncate(told);
        Ok(Lineage { ancestors, descendants, more })
    }

    /// Keeps that a session came to its end, if that is to be told and nothing of it waits or is at work.
    pub(crate) async fn note_end(&self, tx: &mut Tx, child: SessionId) -> Result<(), StoreError> {
        let child: Value = child.to_string().into();
        let sql = "SELECT s.parent, (SELECT t.id FROM tasks t WHERE t.session = s.id ORDER BY t.seq DESC LIMIT 1) \
                   FROM sessions s WHERE s.id = $1 AND s.reports = 1 AND NOT EXISTS \
                   (SELECT 1 FROM tasks t WHERE t.session = s.id AND t.state IN ('queued', 'running', 'held'))";
        let Some(row) = tx.row(sql, std::slice::from_ref(&child)).await? else { return Ok(()) };
        let (Some(parent), Some(task)) = (row.opt_text(0)?, row.opt_text(1)?) else { return Ok(()) };
        let seq = tx.next("notices").await?;
        let args = [child, seq.into(), parent.into(), task.into(), self.clock.now().into()];
        let sql = "INSERT INTO notices (child, seq, parent, task, state, created_at) VALUES ($1, $2, $3, $4, 'due', $5) \
                   ON CONFLICT (child) DO NOTHING";
        tx.exec(sql, &args).await?;
        Ok(())
    }

    /// Ends that are to be told, the first first.
    pub async fn due_notices(&self, most: i64) -> Result<Vec<Notice>, StoreError> {
        let sql = "SELECT n.child, n.parent, c.title, n.task, t.state, t.why, t.claim FROM notices n \
                   JOIN sessions c ON c.id = n.child JOIN tasks t ON t.id = n.task WHERE n.state = 'due' ORDER BY n.seq LIMIT $1";
        let notice = |row: &Row| -> Result<Notice, EngineError> {
            Ok(Notice {
                child: parsed(row, 0)?,
                parent: parsed(row, 1)?,
                title: row.text(2)?.to_owned(),
                task: parsed(row, 3)?,
                state: row.text(4)?.to_owned(),
                why: row.text(5)?.to_owned(),
                claim: row.text(6)?.to_owned(),
            })
        };
        let rows = self.engine.rows(sql, &[most.into()]).await?;
        Ok(rows.iter().map(notice).collect::<Result<_, _>>()?)
    }

    /// Nobody is told of this end any more: whoever would be may not, or is closed.
    pub async fn drop_notice(&self, child: SessionId) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        self.settle_notice(&mut tx, child, false).await?;
        Ok(tx.commit().await?)
    }

    pub(crate) async fn settle_notice(
        &self,
        tx: &mut Tx,
        child: SessionId,
        told: bool,
    ) -> Result<(), StoreError> {
        let to = if told { "told" } else { "dropped" };
        let sql = "UPDATE notices SET state = $2, settled_at = $3 WHERE child = $1 AND state = 'due'";
        match tx.exec(sql, &[child.to_string().into(), to.into(), self.clock.now().into()]).await? {
            0 => Err(StoreError::Unusable("it was told before".into())),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::Engine;
    use crate::sessions::session_columns;

    /// A tree costs what it has, not what the installation has.
    #[tokio::test]
    async fn a_tree_is_read_by_its_own_rows() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::open_sqlite(&folder.path().join("own/store.db"), &[7; 32]).await.unwrap();
        engine.migrate(crate::store::MIGRATIONS, 0).await.unwrap();
        let mut tx = engine.write().await.unwrap();
        for sql in [concat!("EXPLAIN QUERY PLAN ", up!()), concat!("EXPLAIN QUERY PLAN ", down!())] {
            let rows = tx.rows(sql, &["x".into(), 1.into()]).await.unwrap();
            let plan: Vec<&str> = rows.iter().map(|row| row.text(3).unwrap()).collect();
            let through_all =
                plan.iter().any(|step| step.starts_with("SCAN s") || step.starts_with("SCAN p"));
            assert!(!plan.is_empty() && !through_all, "{plan:#?}");
        }
    }
}
