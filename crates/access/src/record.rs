//! The ledger, awaited: nothing here blocks a thread of the runtime.

use ledger::{AppendError, Draft, Ledger, Recorded};
use tokio::sync::oneshot;

/// Appends and waits until the entry is durable.
pub(crate) async fn append(ledger: &Ledger, draft: Draft) -> Result<u64, AppendError> {
    let (tell, told) = oneshot::channel();
    ledger.append_with(draft, move |outcome| drop(tell.send(outcome)));
    told.await.unwrap_or(Err(AppendError::Closed))
}

/// The same for an act that only narrows: a full disk does not keep it from being recorded. What went to the
/// reserve has a ticket in the place of a number.
pub(crate) async fn append_narrowing(ledger: &Ledger, draft: Draft) -> Result<Recorded, AppendError> {
    let (tell, told) = oneshot::channel();
    ledger.append_narrowing_with(draft, move |outcome| drop(tell.send(outcome)));
    told.await.unwrap_or(Err(AppendError::Closed))
}
