//! Checks the whole record while the daemon works, and says so when it was changed.
//!
//! Opening a ledger reads only what came after its last checkpoint; a change before that shows here, shortly
//! after the start and then once a day. Invariant: the check yields to all other work and keeps nobody out: what
//! it finds goes to the log, to the ledger itself, to the status and to the metrics.

use std::sync::Arc;
use std::time::Duration;

use ::ledger::verify::{Finding, Verdict};
use ::ledger::{Decision, Draft};
use tokio::sync::watch;

use crate::Runtime;

const EVERY: Duration = Duration::from_secs(24 * 60 * 60);

impl Runtime {
    /// Checks the record now and then until told to stop. A check under way does not hold up the end.
    pub async fn watch_record(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = self.check_record() => {}
                _ = stop.changed() => break,
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                _ = stop.changed() => break,
            }
        }
    }

    async fn check_record(&self) {
        let Some(report) = self.ledger.check().await else { return };
        let first = report.findings.first();
        match report.verdict {
            Verdict::Intact => tracing::info!(entries = report.entries, "the ledger is intact"),
            Verdict::Unverifiable if self.ledger.verdict() == Some(Verdict::Intact) => {} // empty
            Verdict::Unverifiable => {
                let why = first.map(ToString::to_string).unwrap_or_default();
                tracing::warn!(why, "the ledger could not be checked");
            }
            Verdict::Tampered => {
                if let Some(first) = first {
                    self.cry_out(first, report.findings.len()).await;
                }
            }
        }
    }

    async fn cry_out(&self, first: &Finding, count: usize) {
        let kind = first.kind.word();
        tracing::error!(kind, first = %first, findings = count, "the ledger was tampered with; run `palisade ledger verify`");
        let note = Draft::new("ledger", "ledger.check", Decision::Noted)
            .because(first.to_string())
            .with("kind", kind)
            .with("index", first.index.map_or_else(String::new, |index| index.to_string()))
            .with("findings", count.to_string());
        let noted = self.ledger.note_at_any_cost(note).await;
        if !matches!(noted, Ok(Ok(_))) {
            tracing::error!("that the ledger was tampered with could not be recorded");
        }
    }
}
