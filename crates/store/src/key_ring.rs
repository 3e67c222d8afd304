//! The key ring of an installation whose database is shared: one row, sealed under the master key.
//!
//! Whoever has the database and the master key has the ring. Invariant: it changes as a whole, in one transaction, and only
//! while this daemon holds the database. Not here: what its bytes mean (`vault`).

use access::{Permit, RotateKeys};

use crate::engine::{Engine, EngineError, MigrateError, Row};
use crate::{MIGRATIONS, Store, StoreError};

/// What a database says about its keys before anything is started on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptRing {
    /// Nothing was made here yet.
    New,
    /// It was made before rings were kept here.
    Older,
    /// The ring, sealed under its master.
    Ring(Vec<u8>),
}

impl Engine {
    /// Looks for the ring, and changes nothing.
    pub async fn kept_ring(&self) -> Result<KeptRing, MigrateError> {
        let missing = self.pending(MIGRATIONS).await?;
        if missing.len() == MIGRATIONS.len() {
            return Ok(KeptRing::New);
        }
        if !missing.is_empty() {
            return Ok(KeptRing::Older);
        }
        if let Some(row) = self.row(READ, &[]).await? {
            return Ok(KeptRing::Ring(bytes(&row)?));
        }
        let begun = self.row("SELECT 1 FROM installation", &[]).await?.is_some()
            || self.row("SELECT 1 FROM users LIMIT 1", &[]).await?.is_some();
        Ok(if begun { KeptRing::Older } else { KeptRing::New })
    }
}

const READ: &str = "SELECT kept FROM key_ring WHERE id = 1";
const KEEP: &str =
    "INSERT INTO key_ring (id, kept) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET kept = EXCLUDED.kept";

fn bytes(row: &Row) -> Result<Vec<u8>, EngineError> {
    Ok(row.blob(0)?.to_vec())
}

impl Store {
    /// The ring that is kept here.
    pub async fn key_ring(&self) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.engine.row(READ, &[]).await?.as_ref().map(bytes).transpose()?)
    }

    /// Keeps the first ring, and its name, if none is kept yet; gives what is kept then.
    pub async fn begin_key_ring(&self, name: &str, kept: &[u8]) -> Result<Vec<u8>, StoreError> {
        let mut tx = self.engine.write().await?;
        let sql = "INSERT INTO key_ring (id, kept) VALUES (1, $1) ON CONFLICT (id) DO NOTHING";
        if tx.exec(sql, &[kept.to_vec().into()]).await? > 0 {
            let sql = "INSERT INTO installation (id, master_key) VALUES (1, $1) ON CONFLICT (id) DO NOTHING";
            tx.exec(sql, &[name.into()]).await?;
        }
        let row = tx.row(READ, &[]).await?.ok_or(StoreError::Missing("key ring"))?;
        tx.commit().await?;
        Ok(bytes(&row)?)
    }

    /// Keeps the ring as a rotation made it. The permit comes back for what else belongs to the same step.
    pub async fn keep_key_ring(
        &self,
        permit: Permit<RotateKeys>,
        kept: &[u8],
    ) -> Result<Permit<RotateKeys>, StoreError> {
        let mut tx = self.engine.write().await?;
        tx.exec(KEEP, &[kept.to_vec().into()]).await?;
        match tx.commit().await {
            Ok(()) => Ok(permit),
            // The connection was lost; what is there now tells.
            Err(EngineError::Unknown(fault)) => match self.key_ring().await {
                Ok(Some(there)) if there == kept => Ok(permit),
                Ok(_) | Err(_) => Err(EngineError::Unknown(fault).into()),
            },
            Err(error) => Err(error.into()),
        }
    }
}
