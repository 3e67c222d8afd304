//! How many at once: so many in all, and so many for each who asks.
//!
//! Invariant: a seat is taken as long as its [`Seat`] lives, and by nobody else.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::problem::Problem;

/// When to come again, in seconds.
const RETRY: u64 = 10;

/// Seats, counted in all and for each who asks.
#[derive(Debug)]
pub(crate) struct Seats<K> {
    all: usize,
    each: usize,
    taken: Mutex<Taken<K>>,
}

#[derive(Debug)]
struct Taken<K> {
    all: usize,
    by: HashMap<K, usize>,
}

/// Why there is no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// Everyone together has all of them.
    All,
    /// The one who asks has enough.
    Each,
}

/// One seat; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Seat<K: Eq + Hash> {
    of: Arc<Seats<K>>,
    who: K,
}

impl<K: Eq + Hash + Clone> Seats<K> {
    /// So many in all, so many for each.
    pub(crate) fn new(all: usize, each: usize) -> Arc<Self> {
        let taken = Mutex::new(Taken { all: 0, by: HashMap::new() });
        Arc::new(Self { all, each, taken })
    }

    /// Takes a seat.
    pub(crate) fn take(self: &Arc<Self>, who: K) -> Result<Seat<K>, Full> {
        self.take_within(who, self.each)
    }

    /// Takes a seat for someone who may have so many.
    pub(crate) fn take_within(self: &Arc<Self>, who: K, each: usize) -> Result<Seat<K>, Full> {
        let mut taken = self.lock();
        if taken.by.get(&who).copied().unwrap_or_default() >= each {
            return Err(Full::Each);
        }
        if taken.all >= self.all {
            return Err(Full::All);
        }
        taken.all += 1;
        *taken.by.entry(who.clone()).or_default() += 1;
        Ok(Seat { of: Arc::clone(self), who })
    }
}

impl<K> Seats<K> {
    /// How many each may have.
    pub(crate) fn each(&self) -> usize {
        self.each
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, Taken<K>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Send + 'static> Seat<K> {
    /// Does work that goes on when the caller goes away; the seat is held to its end.
    pub(crate) async fn during<T: Send + 'static>(
        self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<(Self, T), Problem> {
        let both = tokio::spawn(async move {
            let done = work.await;
            (self, done)
        });
        both.await.map_err(|_| Problem::internal())
    }
}

impl<K: Eq + Hash> Drop for Seat<K> {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        taken.all = taken.all.saturating_sub(1);
        if let Some(count) = taken.by.get_mut(&self.who) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.by.remove(&self.who);
            }
        }
    }
}

impl Full {
    /// The refusal: `what` is the plural of what there are too many of.
    pub(crate) fn problem(self, what: &str) -> Problem {
        match self {
            Self::All => Problem::unavailable(format!("too many {what}; try again later")).retry_after(RETRY),
            Self::Each => {
                Problem::rate_limited(RETRY).saying(format!("you have too many {what}; end one first"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gtw_04_seats_are_counted_in_all_and_for_each() {
        let seats = Seats::new(3, 2);
        let (first, _second) = (seats.take("ana").unwrap(), seats.take("ana").unwrap());
        assert_eq!(seats.take("ana").unwrap_err(), Full::Each);
        let _third = seats.take("bo").unwrap();
        assert_eq!(seats.take("cy").unwrap_err(), Full::All);
        drop(first);
        assert_eq!(seats.taken(), 2);
        let again = seats.take("cy").unwrap();
        assert_eq!(seats.take("ana").unwrap_err(), Full::All);
        drop(again);
        assert!(seats.take("ana").is_ok());
        assert_eq!((seats.taken(), seats.lock().by.len()), (2, 2), "nobody is remembered without a seat");
    }
}
