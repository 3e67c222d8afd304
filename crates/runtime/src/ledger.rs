//! Reading and checking the ledger.

use std::path::PathBuf;

use access::{Principal, ReadLedger, ReadWholeLedger, Resource, VerifyLedger};
use ledger::verify::{Report, Trust, TrustedKey};
use ledger::{BundleError, Held};
use model::Millis;
use store::{IndexedEntry, LedgerFilter};

use crate::index::IndexError;
use crate::{ActError, Page, Runtime};

/// Why the ledger could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The gate refused.
    #[error(transparent)]
    Act(#[from] ActError),
    /// The index is behind and cannot catch up.
    #[error("the search index cannot be brought up to date now")]
    Behind,
    /// Another bundle is being made.
    #[error("another bundle is being made; try again")]
    Busy,
    /// There is no bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The export could not be recorded.
    #[error("it could not be recorded; nothing was given out")]
    Unrecorded,
}

/// What to look for; empty text means any.
#[derive(Clone, Debug, Default)]
pub struct LedgerQuery {
    /// The user who acted.
    pub user: String,
    /// The action.
    pub action: String,
    /// The resource.
    pub resource: String,
    /// The decision.
    pub decision: String,
    /// From this time on.
    pub since: Option<Millis>,
    /// Before this time.
    pub until: Option<Millis>,
    /// Older than this entry.
    pub before: Option<i64>,
}

impl Runtime {
    /// Entries, newest first: all for those who may read all, the own ones for others.
    pub async fn search_ledger(
        &self,
        who: &Principal,
        query: LedgerQuery,
        limit: i64,
    ) -> Result<Page<IndexedEntry, i64>, LedgerError> {
        let everything = access::action_named("ledger.read_all");
        let all = match everything {
            Some(action) => self.gate.would_allow(who, action, Resource::Installation).await,
            None => false,
        };
        let user = if all {
            drop(self.look(who, ReadWholeLedger {}).await?);
            query.user
        } else {
            drop(self.look(who, ReadLedger {}).await?);
            let own = who.user().to_string();
            if !query.user.is_empty() && query.user != own {
                return Ok(Page { items: Vec::new(), next: None });
            }
            own
        };
        let behind = |error: IndexError| {
            tracing::error!(%error, "the ledger's search index is behind");
            LedgerError::Behind
        };
        // A store that takes no writes does not keep anyone from reading what the ledger holds.
        let newest = match self.index.catch_up().await {
            Ok(()) => Vec::new(),
            Err(IndexError::Store(_)) => self.index.not_indexed().await.map_err(behind)?,
            Err(error) => return Err(behind(error)),
        };
        let filter = LedgerFilter {
            user,
            action: query.action,
            resource: query.resource,
            decision: query.decision,
            since: query.since.unwrap_or(i64::MIN),
            until: query.until.unwrap_or(i64::MAX),
            before: query.before.unwrap_or(i64::MAX),
        };
        let mut rows: Vec<IndexedEntry> =
            newest.into_iter().rev().filter(|entry| filter.fits(entry)).collect();
        rows.extend(
            self.store.search_ledger(&filter, limit.saturating_add(1)).await.map_err(ActError::from)?,
        );
        rows.truncate(usize::try_from(limit.saturating_add(1)).unwrap_or(0));
        Ok(Page::cut(rows, limit, |row| row.seq))
    }

    /// Checks the whole ledger now.
    pub async fn verify_ledger(&self, who: &Principal) -> Result<Report, LedgerError> {
        drop(self.look(who, VerifyLedger {}).await?);
        let trust = self.trust().ok_or(ActError::Interrupted)?;
        let ledger = std::sync::Arc::clone(&self.ledger);
        let check = move || {
            // What is not signed yet cannot be proved; a disk that takes nothing shows in the report.
            drop(ledger.checkpoint_now());
            ledger.verify_live(&trust, None)
        };
        let report = tokio::task::spawn_blocking(check).await.map_err(|_| ActError::Interrupted)?;
        self.note_check(&report);
        Ok(report)
    }

    /// The trust root of this ledger's checkpoints, for a verifier elsewhere.
    pub async fn ledger_trust(&self, who: &Principal) -> Result<String, LedgerError> {
        drop(self.look(who, VerifyLedger {}).await?);
        let text = self.trust().and_then(|trust| trust.to_json().ok());
        Ok(text.ok_or(ActError::Interrupted)?)
    }

    /// The directory to export, after signing the chain as it is, and what keeps its segments there meanwhile.
    pub async fn ledger_files(&self, who: &Principal) -> Result<(PathBuf, Held), LedgerError> {
        drop(self.look(who, ReadWholeLedger {}).await?);
        let ledger = std::sync::Arc::clone(&self.ledger);
        let hold = move || (ledger.hold_segments(), ledger.checkpoint_now());
        let (held, signed) = tokio::task::spawn_blocking(hold).await.map_err(|_| ActError::Interrupted)?;
        if signed.is_err() {
            tracing::warn!("no checkpoint could be written before the export");
        }
        Ok((self.ledger.dir().to_owned(), held))
    }

    pub(crate) fn trust(&self) -> Option<Trust> {
        let (id, public) = &self.signer;
        Trust::from_keys([TrustedKey::active(id.clone(), *public)]).ok()
    }
}
