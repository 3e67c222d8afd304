//! Ends what is lent with the right to have it.
//!
//! Flow: rights changed -> every right that something lent rests on is judged once, however many leases rest on it ->
//! those of who may not have it any more end.
//!
//! Invariants: whoever changes rights waits for at most [`AT_ONCE`] judgements, whatever is lent; the daemon's own care,
//! which the same change wakes, judges all of it. What nobody can tell now goes on until its time, and is asked again.
//!
//! Not here: lending (`secret`), who may have what (`access`).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use access::{Act, LeaseSecret, Principal, Resource, Via};
use model::{Millis, SecretId, UserId};
use vault::LeaseId;
use zeroize::Zeroizing;

use crate::{ActError, Lent, Runtime, Wish};

/// Most rights that are judged while somebody waits.
const AT_ONCE: usize = 64;
/// How often what is over is looked for, and asked again what nobody could tell.
const EVERY: Duration = Duration::from_secs(5);

/// What a lease rests on.
#[derive(Clone, Debug)]
pub(crate) struct Lending {
    pub(crate) who: Principal,
    pub(crate) resource: Resource,
    /// None if the environment gave the value.
    pub(crate) secret: Option<SecretId>,
}

/// How much is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// What somebody can wait for.
    AtOnce,
    /// Everything.
    All,
}

/// A right, and the leases that rest on it.
type Resting = (Lending, Vec<LeaseId>);

impl Runtime {
    /// Judges what is lent again, if rights changed since that was done: a lease ends with the right to it.
    pub(crate) async fn judge_leases(&self, reach: Reach) {
        let epoch = self.gate.epoch().now();
        if self.judged.load(Ordering::Acquire) == epoch {
            return;
        }
        let rights = by_right(self.leases.marks());
        let mut unknown = 0;
        // Some at a time: what is over does not wait for the last judgement.
        for some in rights.chunks(AT_ONCE) {
            unknown += self.judge(some).await;
            if reach == Reach::AtOnce && rights.len() > AT_ONCE {
                return;
            }
        }
        if unknown == 0 {
            self.judged.store(epoch, Ordering::Release);
        } else {
            tracing::warn!(
                unknown,
                "whether what is lent may still be had cannot be told now; it is asked again"
            );
        }
    }

    /// Ends the leases of those who may not have them any more; says of how many nobody could tell.
    async fn judge(&self, rights: &[Resting]) -> usize {
        let (mut over, mut unknown) = (BTreeSet::<LeaseId>::new(), 0);
        for (right, leases) in rights {
            match self.gate.still_allows(&right.who, LeaseSecret::ACTION, right.resource).await {
                Ok(true) => {}
                Ok(false) => over.extend(leases),
                Err(_) => unknown += leases.len(),
            }
        }
        if !over.is_empty() {
            self.forget(|leases| leases.end_where(|lease, _| over.contains(&lease)));
        }
        unknown
    }

    /// Lends a consumer for longer what it has. What counts for them may be another value by now: then nothing is lent, and what it has goes on
    /// to its own end.
    pub async fn lend_longer(
        self: &Arc<Self>,
        who: &Principal,
        wish: Wish,
        consumer: &str,
        lease: LeaseId,
        timeout: Millis,
    ) -> Result<Option<Lent>, ActError> {
        let lent = self.lease_secret(who, wish, consumer, timeout).await?;
        let read = |lease| self.with_lease(lease, consumer, |value| Zeroizing::new(value.to_vec()));
        let is_same = matches!((read(lease), read(lent.lease)), (Ok(old), Ok(new)) if *old == *new);
        self.end_lease(if is_same { lease } else { lent.lease }, consumer);
        Ok(is_same.then_some(lent))
    }

    /// Ends what is over, and judges all that is lent whenever rights change; for as long as it is let.
    pub(crate) async fn watch_leases(self: &Arc<Self>) {
        let mut every = tokio::time::interval(EVERY);
        let mut rights = self.gate.epoch().watch();
        loop {
            tokio::select! {
                _ = every.tick() => {}
                Ok(()) = rights.changed() => {}
            }
            self.end_old_leases();
            self.judge_leases(Reach::All).await;
        }
    }
}

fn by_right(marks: Vec<(LeaseId, Lending)>) -> Vec<Resting> {
    let mut found: HashMap<(UserId, Via, Resource), Vec<Resting>> = HashMap::new();
    for (lease, lending) in marks {
        let key = (lending.who.user(), lending.who.via().clone(), lending.resource);
        let resting = found.entry(key).or_default();
        // One credential may show itself in several ways: a Pass can be narrowed by whoever holds it.
        match resting.iter_mut().find(|(right, _)| right.who.has_rights_of(&lending.who)) {
            Some((_, leases)) => leases.push(lease),
            None => resting.push((lending, vec![lease])),
        }
    }
    found.into_values().flatten().collect()
}
