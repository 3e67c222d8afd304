//! Keeps the ledger's search index in step with the chain, and searches it.

use std::sync::Arc;

use access::{Permit, ReadLedger, ReadWholeLedger};
use ledger::{Ledger, ReadError, Stored, Tail};
use store::engine::EngineError;
use store::{IndexedEntry, LedgerFilter, Store, StoreError};
use tokio::sync::Mutex;

use crate::{ActError, LedgerError};

const BATCH: usize = 1_000;
/// The most that is shown straight from the ledger while the store takes no writes.
const MOST: usize = 10_000;

/// Why the index is behind.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexError {
    /// The ledger could not be read.
    #[error("the ledger could not be read: {0}")]
    Ledger(#[from] ReadError),
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a search of the ledger spends.
#[derive(Debug)]
pub(crate) enum SearchPermit {
    /// For everyone's entries.
    Whole(Permit<ReadWholeLedger>),
    /// For the caller's own.
    Own(Permit<ReadLedger>),
}

/// Follows the ledger into the store.
#[derive(Debug)]
pub(crate) struct Indexer {
    store: Arc<Store>,
    ledger: Arc<Ledger>,
    tail: Mutex<Option<Tail>>,
}

impl Indexer {
    pub(crate) fn new(store: Arc<Store>, ledger: Arc<Ledger>) -> Self {
        Self { store, ledger, tail: Mutex::new(None) }
    }

    /// Indexes everything that is durable now.
    pub(crate) async fn catch_up(&self) -> Result<(), IndexError> {
        // Only what is durable: the store must never remember more than the ledger has (see `standing`).
        let durable = self.ledger.head().seq;
        // A full disk has better uses for the room that is left.
        if self.store.is_tight() {
            return Err(StoreError::from(EngineError::Full).into());
        }
        let mut held = self.tail.lock().await;
        let mut tail = match held.take() {
            Some(tail) => tail,
            None => {
                let last = u64::try_from(self.store.indexed_up_to().await?).unwrap_or(0);
                Tail::new(self.ledger.dir(), last.saturating_add(1))
            }
        };
        loop {
            let found = tail.more(durable, BATCH)?;
            if found.is_empty() {
                break;
            }
            let entries: Vec<IndexedEntry> = found.iter().map(indexed).collect();
            // On an error the tail is dropped, and the next call begins where the store really is.
            self.store.index_entries(&entries).await?;
        }
        *held = Some(tail);
        Ok(())
    }

    /// Entries that the permit is for and the filter wants, newest first.
    pub(crate) async fn search(
        &self,
        permit: SearchPermit,
        filter: LedgerFilter,
        limit: i64,
    ) -> Result<Vec<IndexedEntry>, LedgerError> {
        let filter = match &permit {
            SearchPermit::Whole(_) => filter,
            SearchPermit::Own(permit) => {
                let own = permit.user().to_string();
                if !filter.user.is_empty() && filter.user != own {
                    return Ok(Vec::new());
                }
                LedgerFilter { user: own, ..filter }
            }
        };
        let behind = |error: IndexError| {
            tracing::error!(%error, "the ledger's search index is behind");
            LedgerError::Behind
        };
        // A store that takes no writes does not keep anyone from reading what the ledger holds.
        let newest = match self.catch_up().await {
            Ok(()) => Vec::new(),
            Err(IndexError::Store(_)) => self.not_indexed().await.map_err(behind)?,
            Err(error) => return Err(behind(error)),
        };
        let mut rows: Vec<IndexedEntry> =
            newest.into_iter().rev().filter(|entry| filter.fits(entry)).collect();
        let found = match permit {
            SearchPermit::Whole(permit) => self.store.search_ledger(permit, &filter, limit).await,
            SearchPermit::Own(permit) => self.store.search_own_entries(permit, &filter, limit).await,
        };
        rows.extend(found.map_err(ActError::from)?);
        rows.truncate(usize::try_from(limit).unwrap_or(0));
        Ok(rows)
    }

    /// The newest entries that are durable but not in the index, oldest first.
    async fn not_indexed(&self) -> Result<Vec<IndexedEntry>, IndexError> {
        let durable = self.ledger.head().seq;
        let last = u64::try_from(self.store.indexed_up_to().await?).unwrap_or(0);
        let found = Tail::new(self.ledger.dir(), last.saturating_add(1)).more(durable, MOST)?;
        Ok(found.iter().map(indexed).collect())
    }
}

fn indexed(stored: &Stored) -> IndexedEntry {
    let entry = &stored.entry;
    // `usr_…/key_…`: searches by user find what their keys and Passes did.
    let user = entry.who.split('/').next().unwrap_or_default();
    IndexedEntry {
        seq: i64::try_from(stored.seq).unwrap_or(i64::MAX),
        at: entry.at,
        who: entry.who.clone(),
        user: user.to_owned(),
        action: entry.action.clone(),
        resource: entry.resource.clone(),
        decision: entry.decision.word().to_owned(),
        line: String::from_utf8_lossy(&stored.line).into_owned(),
    }
}
