//! The ledger as the use cases hold it: what a caller gets of it costs that act's permit.
//!
//! Invariant: the `Ledger` itself does not leave this file. What takes no permit is the daemon's own care: it signs,
//! drops what is old, checks, says how the ledger is, and gives nobody an entry.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ::ledger::verify::{Report, Trust, TrustedKey, Verdict};
use ::ledger::{
    AppendError, Bundle, CheckpointError, Draft, DropError, Health, Held, Ledger, Recorded, Selected,
    Selection,
};
use access::{CreateBackup, Permit, ReadStatus, ReadWholeLedger, VerifyLedger};
use model::Millis;
use tokio::sync::oneshot;

use crate::{ActError, LedgerError};

/// The ledger behind permits.
#[derive(Debug)]
pub(crate) struct GuardedLedger {
    ledger: Arc<Ledger>,
    /// The name and the public key that its checkpoints are signed under.
    signer: (String, [u8; 32]),
    /// What the last check of the whole found.
    checked: Mutex<Option<Verdict>>,
}

/// For callers, who have a permit.
impl GuardedLedger {
    /// Checks the whole now.
    pub(crate) async fn verify(&self, _permit: Permit<VerifyLedger>) -> Result<Report, ActError> {
        let trust = self.trust().ok_or(ActError::Interrupted)?;
        let ledger = Arc::clone(&self.ledger);
        let check = move || {
            // What is not signed yet cannot be proved; a disk that takes nothing shows in the report.
            drop(ledger.checkpoint_now());
            ledger.verify_live(&trust, None)
        };
        let report = blocking(check).await?;
        self.note_check(&report);
        Ok(report)
    }

    /// The trust root of the checkpoints, as a verifier elsewhere reads it.
    pub(crate) fn trust_root(&self, _permit: Permit<VerifyLedger>) -> Option<String> {
        self.trust().and_then(|trust| trust.to_json().ok())
    }

    /// The directory, after signing the chain as it is, and what keeps its segments there meanwhile.
    pub(crate) async fn files(&self, _permit: Permit<ReadWholeLedger>) -> Result<(PathBuf, Held), ActError> {
        let ledger = Arc::clone(&self.ledger);
        let (held, signed) = blocking(move || (ledger.hold_segments(), ledger.checkpoint_now())).await?;
        if signed.is_err() {
            tracing::warn!("no checkpoint could be written before the export");
        }
        Ok((self.ledger.dir().to_owned(), held))
    }

    /// Some entries, for a bundle.
    pub(crate) async fn select(
        &self,
        _permit: Permit<ReadWholeLedger>,
        selection: Selection,
    ) -> Result<Selected, LedgerError> {
        let ledger = Arc::clone(&self.ledger);
        Ok(blocking(move || ledger.select(selection)).await??)
    }

    /// Signs what was selected, which took a permit.
    pub(crate) async fn seal(&self, selected: Selected, at: Millis) -> Result<Bundle, LedgerError> {
        let ledger = Arc::clone(&self.ledger);
        Ok(blocking(move || ledger.seal(selected, at)).await??)
    }

    /// The directory for a copy, signed as far as the disk allows, and what keeps its segments there. It blocks.
    pub(crate) fn copied(&self, _permit: Permit<CreateBackup>) -> (&Path, Held) {
        let held = self.ledger.hold_segments();
        // A failing disk does not keep a copy from being made.
        drop(self.ledger.checkpoint_now());
        (self.ledger.dir(), held)
    }

    /// The number of the last entry, and what the last check of the whole found.
    pub(crate) fn state(&self, _permit: Permit<ReadStatus>) -> (u64, Option<Verdict>) {
        (self.ledger.head().seq, self.verdict())
    }
}

/// For the daemon itself.
impl GuardedLedger {
    pub(crate) fn new(ledger: Arc<Ledger>, signer: (String, [u8; 32])) -> Self {
        Self { ledger, signer, checked: Mutex::new(None) }
    }

    /// How it is.
    pub(crate) fn health(&self) -> Health {
        self.ledger.health()
    }

    /// Writes a word of the daemon's own.
    pub(crate) async fn note(&self, draft: Draft) -> Result<Result<u64, AppendError>, ActError> {
        let ledger = Arc::clone(&self.ledger);
        blocking(move || ledger.append(draft)).await
    }

    /// The same, with room that is kept back where the disk is full.
    pub(crate) async fn note_at_any_cost(
        &self,
        draft: Draft,
    ) -> Result<Result<Recorded, AppendError>, ActError> {
        let ledger = Arc::clone(&self.ledger);
        blocking(move || ledger.append_narrowing(draft)).await
    }

    /// Signs the chain as it is.
    pub(crate) async fn sign(&self) -> Result<Result<u64, CheckpointError>, ActError> {
        let ledger = Arc::clone(&self.ledger);
        blocking(move || ledger.checkpoint_now()).await
    }

    /// Drops what is older than it is kept for: how many entries went, and the first that is left.
    pub(crate) async fn drop_old(&self) -> Result<Result<(u64, Option<u64>), DropError>, ActError> {
        let ledger = Arc::clone(&self.ledger);
        blocking(move || ledger.drop_old().map(|count| (count, ledger.first()))).await
    }

    /// Checks the whole, yielding to all other work; `None` if that came to no end. What is found goes to the log,
    /// the status and the metrics, never to a caller.
    pub(crate) async fn check(&self) -> Option<Report> {
        let (tell, told) = oneshot::channel();
        let begun = self.ledger.verify_in_background(self.trust()?, move |report| drop(tell.send(report)));
        if let Err(error) = begun {
            tracing::warn!(%error, "the ledger could not be checked");
        }
        let report = told.await.ok()?;
        self.note_check(&report);
        Some(report)
    }

    /// What the last check of the whole found; `None` before the first has ended.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        *self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_check(&self, report: &Report) {
        // Before the first entry there is nothing that could have been changed.
        let empty = report.verdict == Verdict::Unverifiable && self.ledger.head().seq == 0;
        let verdict = if empty { Verdict::Intact } else { report.verdict };
        *self.checked.lock().unwrap_or_else(PoisonError::into_inner) = Some(verdict);
    }

    fn trust(&self) -> Option<Trust> {
        let (id, public) = &self.signer;
        Trust::from_keys([TrustedKey::active(id.clone(), *public)]).ok()
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ActError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ActError::Interrupted)
}
