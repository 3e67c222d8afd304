//! Where the key ring of an installation is kept: in a file beside the embedded database, or in the shared one.
//!
//! Invariant: the ring of a database that several machines could open lies in that database, so whoever holds it and the
//! master key has the ring of its rows. Not here: what a ring is (`vault`), when it changes (`rotation`).

use std::path::Path;

use store::engine::MigrateError;
use store::{KeptRing, Store, StoreError};
use vault::source::SourceError;
use vault::{KeyRing, RingFile};

use crate::backup::unfinished;
use crate::boot::{BootError, Source, ring_in_database};
use crate::standing::StandingError;

/// Where the ring is kept.
#[derive(Debug)]
pub(crate) enum Keeper {
    /// In this file.
    File(RingFile),
    /// In the store.
    Store,
}

/// Why the ring was not found.
#[derive(Debug, thiserror::Error)]
pub enum FindRingError {
    /// The database could not be opened.
    #[error("the store could not be opened")]
    Open(#[from] store::engine::OpenError),
    /// Its schema is not what this program knows.
    #[error(transparent)]
    Schema(#[from] MigrateError),
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] SourceError),
}

/// Where the ring of an embedded store is kept.
#[must_use]
pub fn ring_file(data: &Path) -> RingFile {
    RingFile::at(data.join("keyring"))
}

/// Looks for the ring of an installation, and changes nothing.
pub async fn kept_ring(data: &Path, source: &Source) -> Result<KeptRing, FindRingError> {
    let file = ring_file(data);
    let begun = data.join("store").join("palisade.db").exists()
        || data.join("ledger").exists()
        || unfinished(data).is_err();
    let found = match source {
        Source::Embedded => KeptRing::New,
        Source::Postgres(url) => ring_in_database(url).await?,
    };
    match found {
        KeptRing::Ring(kept) => Ok(KeptRing::Ring(kept)),
        // On PostgreSQL: from before rings were kept there. The start takes it over.
        KeptRing::New | KeptRing::Older if file.exists() => Ok(KeptRing::Ring(file.bytes()?)),
        KeptRing::New if begun => Ok(KeptRing::Older),
        found @ (KeptRing::New | KeptRing::Older) => Ok(found),
    }
}

impl Keeper {
    pub(crate) fn of(data: &Path, source: &Source) -> Self {
        match source {
            Source::Embedded => Self::File(ring_file(data)),
            Source::Postgres(_) => Self::Store,
        }
    }

    /// Makes sure that the ring which was opened is the one that is kept, before anything hangs on it. The database is
    /// held by now: nobody else changes it.
    pub(crate) async fn check(&self, store: &Store, ring: &KeyRing, data: &Path) -> Result<(), BootError> {
        let Self::Store = self else { return Ok(()) };
        let failed = |error: StoreError| BootError::Standing(StandingError::from(error));
        let Some(kept) = ring.kept() else {
            // The master alone makes it, until keys are rotated.
            return match store.key_ring().await.map_err(failed)? {
                Some(_) => Err(BootError::OtherRing),
                None => Ok(()),
            };
        };
        let name = ring.fingerprint().to_string();
        if store.begin_key_ring(&name, &kept).await.map_err(failed)? != kept {
            return Err(BootError::OtherRing);
        }
        // One from before rings were kept in the database is of no use any more.
        if let Err(error) = std::fs::remove_file(ring_file(data).path())
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "a key ring that the store has by now is still in the data directory");
        }
        Ok(())
    }
}
