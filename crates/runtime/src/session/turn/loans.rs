//! What is lent to a task, for as long as it is at work: a loan has an end of its own, and a task may stand still for days until
//! somebody decides.

use model::Millis;
use vault::LeaseId;

use super::Turn;
use crate::{Lent, Wish};

/// No loan is for longer.
pub(super) const LONGEST: Millis = vault::LONGEST_TIMEOUT;
/// How long before its end one is lent again, and how long is waited before that is tried once more.
const BEFORE: Millis = 60 * 60 * 1_000;
const AGAIN: Millis = 5 * 60 * 1_000;

/// A loan.
#[derive(Debug)]
pub(super) struct Loan {
    pub(super) lease: LeaseId,
    wish: Wish,
    until: Millis,
    tried: Millis,
}

impl Loan {
    pub(super) fn new(lent: &Lent, wish: Wish) -> Self {
        Self { lease: lent.lease, wish, until: lent.until, tried: 0 }
    }
}

impl Turn<'_> {
    /// Lends again what would end by its time while the task goes on. Whoever asked is judged as they were at first; where they may not
    /// have it any more, or it is another value by now, the loan goes on to its end.
    pub(super) async fn keep_lent(&mut self) {
        let (now, consumer) = (self.runtime.clock.now(), self.consumer());
        for loan in &mut self.leases {
            if now < loan.until.saturating_sub(BEFORE) || now < loan.tried.saturating_add(AGAIN) {
                continue;
            }
            loan.tried = now;
            let longer =
                self.runtime.lend_longer(self.who, loan.wish.clone(), &consumer, loan.lease, LONGEST).await;
            match longer {
                Ok(Some(lent)) => (loan.lease, loan.until) = (lent.lease, lent.until),
                Ok(None) => {
                    tracing::warn!("what is lent to a task is another value by now; it ends by its time")
                }
                Err(error) => tracing::warn!(%error, "what is lent to a task could not be lent for longer"),
            }
        }
    }
}
