//! The key ring of an installation whose database is shared: one row, sealed under the master key.
//!
//! Whoever has the database and the master key has the ring. Invariants: it changes as a whole, in one transaction, and only
//! from what this daemon knows it to be; nothing is sealed here under a ring whose row is another by now, whoever changed
//! it. Not here: what its bytes mean (`vault`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use access::{Permit, RotateKeys};

use crate::engine::{Engine, EngineError, MigrateError, Row, Tx};
use crate::standing::NAME_MASTER_KEY;
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
const BEGIN: &str = "INSERT INTO key_ring (id, kept) VALUES (1, $1) ON CONFLICT (id) DO NOTHING";

/// What is said to whoever seals or rotates when another daemon changed the keys.
const CHANGED: &str = "the keys in the database were changed by another daemon, or by a rotation whose end was not seen; \
    nothing was changed, and this daemon ends: start it again, with the present master key";

/// The ring that the rows of a shared database are sealed under, as this daemon knows it.
#[derive(Debug, Default)]
pub(crate) struct RingWatch {
    /// None where the ring lies elsewhere; then nobody but this daemon has it.
    kept: RwLock<Option<Option<Vec<u8>>>>,
    changed: AtomicBool,
}

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
        if tx.exec(BEGIN, &[kept.to_vec().into()]).await? > 0 {
            tx.exec(NAME_MASTER_KEY, &[name.into()]).await?;
        }
        let row = tx.row(READ, &[]).await?.ok_or(StoreError::Dangling("key ring"))?;
        tx.commit().await?;
        Ok(bytes(&row)?)
    }

    /// From now on values are sealed here under this ring alone: as it is kept, or none if the master alone makes it.
    pub fn seal_under(&self, kept: Option<Vec<u8>>) {
        *self.ring.kept.write().unwrap_or_else(PoisonError::into_inner) = Some(kept);
    }

    /// Whether somebody was refused because the ring is another by now. This daemon is of no use any more.
    #[must_use]
    pub fn ring_changed(&self) -> bool {
        self.ring.changed.load(Ordering::Acquire)
    }

    /// Makes sure, until the end of this transaction, that the ring is the one that values are sealed under.
    pub(crate) async fn hold_ring(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let known = self.ring.kept.read().unwrap_or_else(PoisonError::into_inner).clone();
        let same = match known {
            None => true,
            // Nothing changes; but whoever changes the row waits for us, or we for them.
            Some(Some(kept)) => {
                let sql = "UPDATE key_ring SET kept = kept WHERE id = 1 AND kept = $1";
                tx.exec(sql, &[kept.into()]).await? == 1
            }
            Some(None) => tx.row(READ, &[]).await?.is_none(),
        };
        if same { Ok(()) } else { Err(self.other_ring()) }
    }

    fn other_ring(&self) -> StoreError {
        self.ring.changed.store(true, Ordering::Release);
        StoreError::Unusable(CHANGED.into())
    }

    /// Keeps the ring as a rotation made it from what was kept before; refused if that is not what is there. The permit
    /// comes back for what else belongs to the same step.
    pub async fn keep_key_ring(
        &self,
        permit: Permit<RotateKeys>,
        before: Option<&[u8]>,
        kept: &[u8],
    ) -> Result<Permit<RotateKeys>, StoreError> {
        let mut tx = self.engine.write().await?;
        let changed = match before {
            Some(before) => {
                let sql = "UPDATE key_ring SET kept = $1 WHERE id = 1 AND kept = $2";
                tx.exec(sql, &[kept.to_vec().into(), before.to_vec().into()]).await?
            }
            None => tx.exec(BEGIN, &[kept.to_vec().into()]).await?,
        };
        if changed != 1 {
            return Err(self.other_ring());
        }
        match tx.commit().await {
            Ok(()) => {}
            // The connection was lost; what is there now tells.
            Err(EngineError::Unknown(fault)) => match self.key_ring().await {
                Ok(Some(there)) if there == kept => {}
                Ok(_) | Err(_) => return Err(EngineError::Unknown(fault).into()),
            },
            Err(error) => return Err(error.into()),
        }
        self.seal_under(Some(kept.to_vec()));
        Ok(permit)
    }
}
