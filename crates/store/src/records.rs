//! Events, the ledger's search index and added policies.

use access::{AddPolicy, FollowEvents, Permit, ReadLedger, ReadWholeLedger, RemovePolicy};
use model::{Event, EventKind, EventSeq, Millis, SessionId, UserId, WorktreeId};

use crate::engine::{EngineError, Row, Value};
use crate::store::{odd, taken};
use crate::{Store, StoreError};

/// One line of the ledger, cut for searching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedEntry {
    /// Its sequence number.
    pub seq: i64,
    /// When.
    pub at: Millis,
    /// Who, as the ledger names them.
    pub who: String,
    /// The user behind it.
    pub user: String,
    /// What.
    pub action: String,
    /// On what.
    pub resource: String,
    /// What came of it.
    pub decision: String,
    /// The stored line itself.
    pub line: String,
}

/// Which entries a search is about; empty text means any.
#[derive(Clone, Debug, Default)]
pub struct LedgerFilter {
    /// The user who acted.
    pub user: String,
    /// The action.
    pub action: String,
    /// The resource.
    pub resource: String,
    /// The decision.
    pub decision: String,
    /// From this time on.
    pub since: Millis,
    /// Before this time.
    pub until: Millis,
    /// Older than this entry.
    pub before: i64,
}

impl LedgerFilter {
    /// Whether this entry is one of those.
    #[must_use]
    pub fn fits(&self, entry: &IndexedEntry) -> bool {
        let same = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        same(&self.user, &entry.user)
            && same(&self.action, &entry.action)
            && same(&self.resource, &entry.resource)
            && same(&self.decision, &entry.decision)
            && (self.since..self.until).contains(&entry.at)
            && entry.seq < self.before
    }
}

/// A search of the ledger's index: one condition that stands bare, how time is named, and the order. What is named
/// with a sum is not looked up by its index.
macro_rules! search {
    ($bare:literal, $at:literal, $order:literal) => {
        concat!(
            "SELECT seq, at, who, user_id, action, resource, decision, line FROM ledger_index WHERE ",
            $bare,
            " AND ($1 = '' OR user_id = $1) AND ($2 = '' OR action = $2) AND ($3 = '' OR resource = $3) \
             AND ($4 = '' OR decision = $4) AND ",
            $at,
            " >= $5 AND ",
            $at,
            " < $6 AND seq < $7 ORDER BY ",
            $order,
            " DESC LIMIT $8"
        )
    };
}

impl Store {
    /// Events after a cursor, uncut: the caller shows each only to those who may read it.
    pub async fn events_after(
        &self,
        _permit: Permit<FollowEvents>,
        after: EventSeq,
        limit: i64,
    ) -> Result<Vec<Event>, StoreError> {
        let sql = "SELECT seq, at, kind, worktree, user_id, session FROM events WHERE seq > $1 ORDER BY seq LIMIT $2";
        let rows = self.engine.rows(sql, &[after.into(), limit.into()]).await?;
        Ok(rows.iter().map(event).collect::<Result<_, _>>()?)
    }

    /// The first event that is kept, and the last one that ever was.
    pub async fn event_range(
        &self,
        _permit: Permit<FollowEvents>,
    ) -> Result<(EventSeq, EventSeq), StoreError> {
        let sql = "SELECT COALESCE((SELECT MIN(seq) FROM events), 0), \
                   COALESCE((SELECT value FROM counters WHERE name = 'events'), 0)";
        let Some(row) = self.engine.row(sql, &[]).await? else { return Ok((1, 0)) };
        let (first, last) = (row.int(0)?, row.int(1)?);
        // Where all are forgotten, the next one is the first.
        Ok((if first == 0 { last.saturating_add(1) } else { first }, last))
    }

    /// Forgets events before a time; followers further behind are told.
    pub async fn forget_events(&self, before: Millis) -> Result<u64, StoreError> {
        let mut tx = self.engine.write().await?;
        let forgotten = tx.exec("DELETE FROM events WHERE at < $1", &[before.into()]).await?;
        tx.commit().await?;
        Ok(forgotten)
    }

    pub(crate) async fn newest_event(&self) -> Result<EventSeq, EngineError> {
        let row = self.engine.row("SELECT value FROM counters WHERE name = 'events'", &[]).await?;
        row.map_or(Ok(0), |row| Ok(row.int(0)?))
    }

    /// Adds ledger lines to the search index; those already there stay.
    pub async fn index_entries(&self, entries: &[IndexedEntry]) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        for entry in entries {
            let sql = "INSERT INTO ledger_index (seq, at, who, user_id, action, resource, decision, line) \
                       VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (seq) DO NOTHING";
            let args: [Value; 8] = [
                entry.seq.into(),
                entry.at.into(),
                entry.who.as_str().into(),
                entry.user.as_str().into(),
                entry.action.as_str().into(),
                entry.resource.as_str().into(),
                entry.decision.as_str().into(),
                entry.line.as_str().into(),
            ];
            tx.exec(sql, &args).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Removes lines before `seq` from the search index, a few at a time: others write between.
    pub async fn forget_entries_before(&self, seq: i64) -> Result<u64, StoreError> {
        let mut forgotten = 0u64;
        loop {
            let mut tx = self.engine.write().await?;
            let sql = "DELETE FROM ledger_index WHERE seq < $1 \
                       AND seq < (SELECT MIN(seq) FROM ledger_index) + 2000";
            let count = tx.exec(sql, &[seq.into()]).await?;
            tx.commit().await?;
            if count == 0 {
                return Ok(forgotten);
            }
            forgotten = forgotten.saturating_add(count);
        }
    }

    /// The last ledger line in the index.
    pub async fn indexed_up_to(&self) -> Result<i64, StoreError> {
        let row = self.engine.row("SELECT COALESCE(MAX(seq), 0) FROM ledger_index", &[]).await?;
        row.map_or(Ok(0), |row| Ok(row.int(0)?))
    }

    /// Ledger lines of everyone, newest first.
    pub async fn search_ledger(
        &self,
        _permit: Permit<ReadWholeLedger>,
        filter: &LedgerFilter,
        limit: i64,
    ) -> Result<Vec<IndexedEntry>, StoreError> {
        self.search(filter, limit).await
    }

    /// Ledger lines of the caller alone, newest first, whomever the filter names.
    pub async fn search_own_entries(
        &self,
        permit: Permit<ReadLedger>,
        filter: &LedgerFilter,
        limit: i64,
    ) -> Result<Vec<IndexedEntry>, StoreError> {
        let own = permit.user().to_string();
        if !filter.user.is_empty() && filter.user != own {
            return Ok(Vec::new());
        }
        self.search(&LedgerFilter { user: own, ..filter.clone() }, limit).await
    }

    async fn search(&self, filter: &LedgerFilter, limit: i64) -> Result<Vec<IndexedEntry>, StoreError> {
        // The condition that leaves the fewest stands bare, so that its index is used.
        let sql = if !filter.resource.is_empty() {
            search!("resource = $3", "at + 0", "seq")
        } else if self.is_short(filter).await? {
            // Looked up by time and then ordered, instead of walking back from the end.
            search!("1 = 1", "at", "seq + 0")
        } else if !filter.user.is_empty() {
            search!("user_id = $1", "at + 0", "seq")
        } else if !filter.action.is_empty() {
            search!("action = $2", "at + 0", "seq")
        } else {
            search!("1 = 1", "at + 0", "seq")
        };
        let args = [
            filter.user.as_str().into(),
            filter.action.as_str().into(),
            filter.resource.as_str().into(),
            filter.decision.as_str().into(),
            filter.since.into(),
            filter.until.into(),
            filter.before.into(),
            limit.into(),
        ];
        let rows = self.engine.rows(sql, &args).await?;
        Ok(rows.iter().map(indexed).collect::<Result<_, _>>()?)
    }

    /// Whether the time that is asked for holds few entries.
    async fn is_short(&self, filter: &LedgerFilter) -> Result<bool, StoreError> {
        const FEW: i64 = 10_000;
        if filter.since == i64::MIN && filter.until == i64::MAX {
            return Ok(false);
        }
        let sql =
            "SELECT COUNT(*) FROM (SELECT 1 FROM ledger_index WHERE at >= $1 AND at < $2 LIMIT $3) AS few";
        let args = [filter.since.into(), filter.until.into(), (FEW + 1).into()];
        let count = self.engine.row(sql, &args).await?.map_or(Ok(0), |row| row.int(0))?;
        Ok(count <= FEW)
    }

    /// Keeps a `forbid` policy.
    pub async fn add_policy(&self, permit: Permit<AddPolicy>) -> Result<(), StoreError> {
        let creator = permit.user();
        let act = permit.into_act();
        let mut tx = self.engine.write().await?;
        let sql = "INSERT INTO added_policies (id, text, created_by, created_at) VALUES ($1, $2, $3, $4)";
        let args = [act.id.into(), act.text.into(), creator.to_string().into(), self.clock.now().into()];
        tx.exec(sql, &args).await.map_err(taken("id"))?;
        Ok(tx.commit().await?)
    }

    /// Removes an added policy.
    pub async fn remove_policy(&self, permit: Permit<RemovePolicy>) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        if tx.exec("DELETE FROM added_policies WHERE id = $1", &[permit.into_act().id.into()]).await? == 0 {
            return Err(StoreError::Missing("added policy"));
        }
        Ok(tx.commit().await?)
    }
}

fn event(row: &Row) -> Result<Event, EngineError> {
    let worktree: Option<WorktreeId> = row.opt_text(3)?.map(str::parse).transpose().map_err(|_| odd(3))?;
    let user: Option<UserId> = row.opt_text(4)?.map(str::parse).transpose().map_err(|_| odd(4))?;
    let kind = EventKind::from_word(row.text(2)?).ok_or(odd(2))?;
    let session: Option<SessionId> = row.opt_text(5)?.map(str::parse).transpose().map_err(|_| odd(5))?;
    Ok(Event { seq: row.int(0)?, at: row.int(1)?, kind, worktree, user, session })
}

fn indexed(row: &Row) -> Result<IndexedEntry, EngineError> {
    Ok(IndexedEntry {
        seq: row.int(0)?,
        at: row.int(1)?,
        who: row.text(2)?.to_owned(),
        user: row.text(3)?.to_owned(),
        action: row.text(4)?.to_owned(),
        resource: row.text(5)?.to_owned(),
        decision: row.text(6)?.to_owned(),
        line: row.text(7)?.to_owned(),
    })
}
