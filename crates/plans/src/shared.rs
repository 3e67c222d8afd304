//! What all runs share: locks, and how many of a queue may be at work at the same time.
//!
//! Invariants: locks are taken all together or not at all, so nobody holds one while waiting for another; of those that wait for
//! a lock the first comes first, so nobody waits for ever behind smaller wishes. Nothing here is kept: after a restart it is
//! made again from the items that hold ([`crate::Run::restore`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::name::{ItemId, LockName, QueueName, RunId};

/// An item of a run, which holds or waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder {
    /// The run.
    pub run: RunId,
    /// The item.
    pub item: ItemId,
}

/// Locks and queues of all runs of one daemon.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    held: BTreeMap<LockName, Holder>,
    /// Who waits for each, in the order in which they came.
    waiting: BTreeMap<LockName, BTreeMap<u64, Holder>>,
    tickets: HashMap<Holder, u64>,
    next: u64,
    queues: BTreeMap<QueueName, Queue>,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    /// Nothing is as many as come.
    most: Option<u32>,
    at_work: BTreeSet<Holder>,
    waiting: BTreeSet<RunId>,
}

impl Shared {
    /// Nothing is held, and no queue is bounded.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with a bound on a queue, over all runs.
    #[must_use]
    pub fn with_queue(mut self, queue: QueueName, most: u32) -> Self {
        self.queues.entry(queue).or_default().most = Some(most);
        self
    }

    /// Who holds a lock.
    #[must_use]
    pub fn holder(&self, lock: &LockName) -> Option<&Holder> {
        self.held.get(lock)
    }

    /// Each lock that is held.
    pub fn locks(&self) -> impl Iterator<Item = (&LockName, &Holder)> {
        self.held.iter()
    }

    /// Whether anybody waits for a lock.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        !self.tickets.is_empty()
    }

    /// Takes a place in a queue and all of the locks, or nothing; then the wish is remembered.
    pub(crate) fn take(&mut self, holder: &Holder, queue: &QueueName, locks: &[LockName]) -> bool {
        let place = self.queues.entry(queue.clone()).or_default();
        let used = u32::try_from(place.at_work.len()).unwrap_or(u32::MAX);
        if place.most.is_some_and(|most| used >= most) && !place.at_work.contains(holder) {
            place.waiting.insert(holder.run.clone());
            return false;
        }
        let ticket = self.tickets.get(holder).copied();
        let is_free = |lock: &LockName| {
            if let Some(other) = self.held.get(lock) {
                return other == holder;
            }
            let first = self.waiting.get(lock).and_then(|all| all.keys().next().copied());
            match (first, ticket) {
                (Some(first), Some(own)) => own <= first,
                (Some(_), None) => false,
                (None, _) => true,
            }
        };
        if !locks.iter().all(is_free) {
            self.wish(holder, locks);
            return false;
        }
        self.forget_wish(holder, locks);
        locks.iter().for_each(|lock| drop(self.held.insert(lock.clone(), holder.clone())));
        self.enter(holder, queue);
        true
    }

    fn wish(&mut self, holder: &Holder, locks: &[LockName]) {
        let next = &mut self.next;
        let ticket = *self.tickets.entry(holder.clone()).or_insert_with(|| {
            *next += 1;
            *next
        });
        for lock in locks {
            self.waiting.entry(lock.clone()).or_default().insert(ticket, holder.clone());
        }
    }

    fn forget_wish(&mut self, holder: &Holder, locks: &[LockName]) {
        let Some(ticket) = self.tickets.remove(holder) else { return };
        for lock in locks {
            if let Some(all) = self.waiting.get_mut(lock) {
                all.remove(&ticket);
                if all.is_empty() {
                    self.waiting.remove(lock);
                }
            }
        }
    }

    /// Takes a place in a queue whatever its bound: after a restart, for what is at work already.
    pub(crate) fn enter(&mut self, holder: &Holder, queue: &QueueName) {
        let place = self.queues.entry(queue.clone()).or_default();
        place.at_work.insert(holder.clone());
    }

    /// Takes locks that were held before a restart.
    pub(crate) fn hold(&mut self, holder: &Holder, locks: &[LockName]) {
        locks.iter().for_each(|lock| drop(self.held.insert(lock.clone(), holder.clone())));
    }

    /// Gives the place in a queue back; the runs that may go on.
    pub(crate) fn leave(&mut self, holder: &Holder, queue: &QueueName) -> BTreeSet<RunId> {
        let Some(place) = self.queues.get_mut(queue) else { return BTreeSet::new() };
        if place.at_work.remove(holder) { std::mem::take(&mut place.waiting) } else { BTreeSet::new() }
    }

    /// Gives locks and wishes back; the runs that may go on.
    pub(crate) fn give_back(&mut self, holder: &Holder, locks: &[LockName]) -> BTreeSet<RunId> {
        let is_wish = self.tickets.contains_key(holder);
        self.forget_wish(holder, locks);
        let mut runs = BTreeSet::new();
        for lock in locks {
            let is_held = self.held.get(lock) == Some(holder);
            if is_held {
                self.held.remove(lock);
            }
            if is_held || is_wish {
                runs.extend(self.waiting.get(lock).into_iter().flatten().map(|(_, other)| other.run.clone()));
            }
        }
        runs
    }
}
