//! Where the key ring of an installation is kept: in a file beside the embedded database, or in the shared one.
//!
//! Invariants: the ring of a database that several machines could open lies in that database, so whoever holds it and the
//! master key has the ring of its rows; a file that may be the ring of an embedded store is never taken from it, and
//! nothing is sealed under a ring that is not the one that is kept. Not here: what a ring is (`vault`), when it changes (`rotation`).

use std::path::{Path, PathBuf};

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
    Store {
        /// Where a file from before rings were kept there was put; a rotation removes it.
        aside: PathBuf,
    },
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
    /// A new database was named beside the store of another installation.
    #[error(
        "`{0}` holds an embedded store with its own key ring and ledger, and the database is new; give the database a data \
         directory of its own, or restore a backup of the embedded store into it. Nothing was changed."
    )]
    EmbeddedStore(PathBuf),
}

/// Where the ring of an embedded store is kept.
#[must_use]
pub fn ring_file(data: &Path) -> RingFile {
    RingFile::at(data.join("keyring"))
}

/// Looks for the ring of an installation, and changes nothing.
pub async fn kept_ring(data: &Path, source: &Source) -> Result<KeptRing, FindRingError> {
    let file = ring_file(data);
    let embedded = embedded_store(data);
    let begun = begun(data);
    let Source::Postgres(url) = source else {
        return match (file.exists(), begun) {
            (true, _) => Ok(KeptRing::Ring(file.bytes()?)),
            (false, true) => Ok(KeptRing::Older),
            (false, false) => Ok(KeptRing::New),
        };
    };
    match ring_in_database(url).await? {
        KeptRing::Ring(kept) => Ok(KeptRing::Ring(kept)),
        // From before rings were kept there, unless an embedded store is there to which the file belongs.
        KeptRing::Older if file.exists() && !embedded => Ok(KeptRing::Ring(file.bytes()?)),
        KeptRing::New if embedded => Err(FindRingError::EmbeddedStore(data.to_owned())),
        KeptRing::New if begun => Ok(KeptRing::Older),
        found @ (KeptRing::New | KeptRing::Older) => Ok(found),
    }
}

/// Whether there is anything here, besides a ring, that was made under a key.
#[must_use]
pub fn begun(data: &Path) -> bool {
    embedded_store(data) || data.join("ledger").exists() || unfinished(data).is_err()
}

fn embedded_store(data: &Path) -> bool {
    data.join("store").join("palisade.db").symlink_metadata().is_ok()
}

impl Keeper {
    pub(crate) fn of(data: &Path, source: &Source) -> Self {
        match source {
            Source::Embedded => Self::File(ring_file(data)),
            Source::Postgres(_) => Self::Store { aside: data.join("keyring.before") },
        }
    }

    /// Makes sure that the ring which was opened is the one that is kept, before anything hangs on it. The database is
    /// held by now: nobody else changes it.
    pub(crate) async fn check(&self, store: &Store, ring: &KeyRing) -> Result<(), BootError> {
        let Self::Store { .. } = self else { return Ok(()) };
        let failed = |error: StoreError| BootError::Standing(StandingError::from(error));
        let kept = ring.kept();
        let there = match &kept {
            Some(kept) => {
                let name = ring.fingerprint().to_string();
                Some(store.begin_key_ring(&name, kept).await.map_err(failed)?)
            }
            // The master alone makes it, until keys are rotated.
            None => store.key_ring().await.map_err(failed)?,
        };
        if there != kept {
            return Err(BootError::OtherRing);
        }
        store.seal_under(kept);
        Ok(())
    }

    /// Puts a file from before rings were kept in the database out of the way, once everything opened with the ring that
    /// the database has by now. Any other file stays.
    pub(crate) fn put_aside(&self, ring: &KeyRing, data: &Path) {
        let Self::Store { aside } = self else { return };
        let file = ring_file(data);
        if embedded_store(data) || !file.exists() || file.bytes().ok() != ring.kept() {
            return;
        }
        match std::fs::rename(file.path(), aside) {
            Ok(()) => tracing::info!(aside = %aside.display(), "the key ring lies in the database now"),
            Err(error) => {
                tracing::warn!(%error, "a key ring that the store has by now is still in the data directory");
            }
        }
    }

    /// Whether what is kept is what this ring was read from, or was last kept as.
    pub(crate) async fn is_kept(&self, store: &Store, ring: &KeyRing) -> Result<bool, StoreError> {
        let there = match self {
            Self::Store { .. } => store.key_ring().await?,
            Self::File(file) if !file.exists() => None,
            Self::File(file) => Some(file.bytes().map_err(|error| StoreError::Unusable(error.to_string()))?),
        };
        Ok(there == ring.kept())
    }
}
