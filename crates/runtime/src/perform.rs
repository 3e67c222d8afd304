//! The one way an act is carried out: gate, permit, effect, record.

use std::future::Future;
use std::sync::Arc;

use access::{Act, Action, Class, Denied, Permit, Principal};
use store::engine::EngineError;
use store::{Store, StoreError};

use crate::Runtime;
use crate::lending::Reach;

/// Why an act did not happen.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// The gate refused it.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// It was allowed and did not succeed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It was carried out by a task that died.
    #[error("the act was interrupted; its outcome is on the ledger")]
    Interrupted,
}

/// While an act that changes access is under way: however it ends, what is remembered is asked again.
struct Changing<'a> {
    gate: &'a access::Gate<Store>,
    changes: bool,
}

impl Changing<'_> {
    fn ended(mut self) {
        self.changes = false;
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if self.changes {
            self.gate.epoch().bump();
        }
    }
}

impl Runtime {
    /// Takes an act through the gate and, if it is allowed, carries it out and closes its record.
    ///
    /// It runs as a task of its own: a client that goes away leaves no act half done and no record open.
    pub(crate) async fn perform<A, T, F, R>(
        self: &Arc<Self>,
        who: &Principal,
        act: A,
        effect: F,
    ) -> Result<T, ActError>
    where
        A: Act,
        T: Send + 'static,
        F: FnOnce(Arc<Store>, Permit<A>) -> R + Send + 'static,
        R: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.perform_noting(who, act, effect, |_| None).await
    }

    /// The same, with a word in the closing entry that only the effect could tell.
    pub(crate) async fn perform_noting<A, T, F, R>(
        self: &Arc<Self>,
        who: &Principal,
        act: A,
        effect: F,
        note: fn(&T) -> Option<(&'static str, String)>,
    ) -> Result<T, ActError>
    where
        A: Act,
        T: Send + 'static,
        F: FnOnce(Arc<Store>, Permit<A>) -> R + Send + 'static,
        R: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let (this, who) = (Arc::clone(self), who.clone());
        let whole = async move {
            let permit = this.gate.authorize(&who, act).await?;
            let (record, class) = (permit.record(), permit.act().class());
            // `close` bumps too; this one is for an effect that panics after it changed something.
            let changing = Changing { gate: &this.gate, changes: A::ACTION.changes_access };
            let outcome = match this.room_for(class) {
                Ok(()) => effect(Arc::clone(&this.store), permit).await,
                Err(full) => Err(full),
            };
            if let Err(StoreError::Engine(error)) = &outcome {
                count(error);
            }
            let told = outcome.as_ref().map(drop).map_err(ToString::to_string);
            let note = outcome.as_ref().ok().and_then(note);
            changing.ended();
            this.gate.close_noting(record, told, note).await;
            // What was lent to whoever may not have it any more ends with the right.
            if A::ACTION.changes_access {
                this.judge_leases(Reach::AtOnce).await;
            }
            // Followers hear of it when the gate judges by it.
            this.store.publish();
            Ok(outcome?)
        };
        tokio::spawn(whole).await.unwrap_or(Err(ActError::Interrupted))
    }

    /// On a full disk only what narrows is written, with room that was kept back for it.
    fn room_for(&self, class: Class) -> Result<(), StoreError> {
        match class {
            Class::Read => Ok(()),
            // Also while there is room: the disk may be full a moment later.
            Class::Narrows => {
                self.store.make_room();
                Ok(())
            }
            Class::Widens if self.store.is_tight() => Err(EngineError::Full.into()),
            Class::Widens => Ok(()),
        }
    }

    /// A read: judged and answered, with nothing to close.
    pub(crate) async fn look<A: Act>(&self, who: &Principal, act: A) -> Result<Permit<A>, ActError> {
        Ok(self.gate.authorize(who, act).await?)
    }

    /// Writes down an attempt that never became an act because the request made no sense.
    pub async fn refuse_malformed(&self, who: &Principal, action: &'static Action, why: &str) {
        self.gate.refuse_malformed(who, action, why).await;
    }
}

/// Counts what the store did not write; a value that does not fit is no fault of the store.
fn count(error: &EngineError) {
    match error {
        EngineError::Unique { .. } | EngineError::Reference | EngineError::Unfit { .. } => {}
        EngineError::Busy
        | EngineError::Full
        | EngineError::Gone(_)
        | EngineError::Unknown(_)
        | EngineError::Failed
        | EngineError::Row(_)
        | EngineError::Other(_) => {
            metrics::counter!("palisade_store_write_failures_total").increment(1);
        }
    }
}
