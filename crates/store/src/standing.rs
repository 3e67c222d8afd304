//! What the store itself remembers of the things beside it: which master key it belongs to, and how far the
//! ledger had come. Starting compares them; nobody acts here.

use crate::engine::EngineError;
use crate::{Store, StoreError};

/// A line of the ledger as the store remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedLine {
    /// Its sequence number.
    pub seq: i64,
    /// The stored line itself.
    pub line: String,
}

/// What stands there stays.
pub(crate) const NAME_MASTER_KEY: &str =
    "INSERT INTO installation (id, master_key) VALUES (1, $1) ON CONFLICT (id) DO NOTHING";

impl Store {
    /// The name of the master key that this store belongs to, if it was written down yet.
    pub async fn master_key_name(&self) -> Result<Option<String>, StoreError> {
        let row = self.engine.row("SELECT master_key FROM installation WHERE id = 1", &[]).await?;
        Ok(row.map(|row| row.text(0).map(str::to_owned)).transpose()?)
    }

    /// Writes down which master key this store belongs to; what stands there stays.
    pub async fn keep_master_key_name(&self, name: &str) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        tx.exec(NAME_MASTER_KEY, &[name.into()]).await?;
        Ok(tx.commit().await?)
    }

    /// Whether anybody was ever made a user here.
    pub async fn has_users(&self) -> Result<bool, StoreError> {
        Ok(self.engine.row("SELECT 1 FROM users LIMIT 1", &[]).await?.is_some())
    }

    /// The last line of the ledger that the store remembers.
    pub async fn last_line(&self) -> Result<Option<RememberedLine>, StoreError> {
        let sql = "SELECT seq, line FROM ledger_index ORDER BY seq DESC LIMIT 1";
        Ok(self.engine.row(sql, &[]).await?.as_ref().map(line).transpose()?)
    }

    /// The remembered lines after one, in order.
    pub async fn lines_after(&self, seq: i64, limit: i64) -> Result<Vec<RememberedLine>, StoreError> {
        let sql = "SELECT seq, line FROM ledger_index WHERE seq > $1 ORDER BY seq LIMIT $2";
        let rows = self.engine.rows(sql, &[seq.into(), limit.into()]).await?;
        Ok(rows.iter().map(line).collect::<Result<_, _>>()?)
    }

    /// Forgets the remembered lines after one, because the ledger does not hold them any more.
    pub async fn forget_lines_after(&self, seq: i64) -> Result<u64, StoreError> {
        let mut tx = self.engine.write().await?;
        let forgotten = tx.exec("DELETE FROM ledger_index WHERE seq > $1", &[seq.into()]).await?;
        tx.commit().await?;
        Ok(forgotten)
    }
}

fn line(row: &crate::engine::Row) -> Result<RememberedLine, EngineError> {
    Ok(RememberedLine { seq: row.int(0)?, line: row.text(1)?.to_owned() })
}
