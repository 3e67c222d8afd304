//! Reading and checking the ledger.

use std::path::PathBuf;

use access::{Principal, ReadLedger, ReadWholeLedger, Resource, VerifyLedger};
use ledger::verify::Report;
use ledger::{BundleError, Held};
use model::Millis;
use store::{IndexedEntry, LedgerFilter};

use crate::index::SearchPermit;
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
        let permit = match all {
            true => SearchPermit::Whole(self.look(who, ReadWholeLedger {}).await?),
            false => SearchPermit::Own(self.look(who, ReadLedger {}).await?),
        };
        let filter = LedgerFilter {
            user: query.user,
            action: query.action,
            resource: query.resource,
            decision: query.decision,
            since: query.since.unwrap_or(i64::MIN),
            until: query.until.unwrap_or(i64::MAX),
            before: query.before.unwrap_or(i64::MAX),
        };
        let rows = self.index.search(permit, filter, limit.saturating_add(1)).await?;
        Ok(Page::cut(rows, limit, |row| row.seq))
    }

    /// Checks the whole ledger now.
    pub async fn verify_ledger(&self, who: &Principal) -> Result<Report, LedgerError> {
        let permit = self.look(who, VerifyLedger {}).await?;
        Ok(self.ledger.verify(permit).await?)
    }

    /// The trust root of this ledger's checkpoints, for a verifier elsewhere.
    pub async fn ledger_trust(&self, who: &Principal) -> Result<String, LedgerError> {
        let permit = self.look(who, VerifyLedger {}).await?;
        Ok(self.ledger.trust_root(permit).ok_or(ActError::Interrupted)?)
    }

    /// The directory to export, after signing the chain as it is, and what keeps its segments there meanwhile.
    pub async fn ledger_files(&self, who: &Principal) -> Result<(PathBuf, Held), LedgerError> {
        let permit = self.look(who, ReadWholeLedger {}).await?;
        Ok(self.ledger.files(permit).await?)
    }
}
