//! Lends values that were opened: each to one consumer, for a short time, and wiped when that is over.
//!
//! Invariants: a lease is known by its consumer and by nobody else, and who asks for another's learns not even that there
//! is one; its time is the consumer's own, at most [`LONGEST_TIMEOUT`], and [`LEASE_GRACE`] more, by a clock that the caller
//! brings, which nobody can set, and which never goes back here; whatever way it ends, the memory is wiped. Leases live in
//! memory only: they end with the process.
//!
//! Not here: who may have which secret (`access`), what is on the record, and what else ends a lease (`runtime`, by the
//! mark that it puts on each).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Secret;

/// How long a lease outlives its consumer's own limit, in milliseconds.
pub const LEASE_GRACE: i64 = 300_000;
/// The longest that a consumer may run, in milliseconds: a day. A lease is for a while, and is asked for again.
pub const LONGEST_TIMEOUT: i64 = 24 * 60 * 60 * 1_000;
/// Most leases at a time: more is a consumer that does not give back.
const MOST: usize = 10_000;

/// Names one lease; only its consumer can use it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId([u8; 16]);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lse_")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseId({self})")
    }
}

/// Why a lease was not given or not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// There is none, or it is over, or it is somebody else's: one answer for all.
    #[error("there is no such lease; ask for a new one")]
    None,
    /// Too many at a time.
    #[error("too many secrets are lent at once; end what is not in use")]
    TooMany,
    /// The operating system has no randomness to give.
    #[error("no randomness available; nothing was lent")]
    Randomness,
}

/// How long a lease lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// What time it is.
    pub now: i64,
    /// How long the consumer may run.
    pub timeout: i64,
    /// The value itself lasts no longer than this from now on.
    pub at_most: Option<i64>,
}

impl Term {
    fn until(self, now: i64) -> i64 {
        let life = self.timeout.clamp(0, LONGEST_TIMEOUT).saturating_add(LEASE_GRACE);
        now.saturating_add(self.at_most.map_or(life, |most| life.min(most.max(0))))
    }
}

struct Held<M> {
    consumer: String,
    value: Secret<Vec<u8>>,
    until: i64,
    mark: M,
}

struct Book<M> {
    held: HashMap<LeaseId, Held<M>>,
    /// The latest time that was seen: a clock that is set back revives nothing.
    latest: i64,
}

impl<M> Book<M> {
    /// What time it is.
    fn at(&mut self, now: i64) -> i64 {
        self.latest = self.latest.max(now);
        self.latest
    }
}

/// Everything that is lent now, each with a mark of whoever lends it.
pub struct Leases<M = ()>(Mutex<Book<M>>);

impl<M> Default for Leases<M> {
    fn default() -> Self {
        Self(Mutex::new(Book { held: HashMap::new(), latest: 0 }))
    }
}

impl<M> Leases<M> {
    /// Lends a value to one consumer. Gives the lease and when it ends.
    ///
    /// # Errors
    /// [`LeaseError`]; then the value is wiped.
    pub fn grant(
        &self,
        consumer: &str,
        value: Secret<Vec<u8>>,
        term: Term,
        mark: M,
    ) -> Result<(LeaseId, i64), LeaseError> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|_| LeaseError::Randomness)?;
        let mut book = self.book();
        let now = book.at(term.now);
        if book.held.len() >= MOST {
            return Err(LeaseError::TooMany);
        }
        let until = term.until(now);
        book.held.insert(LeaseId(id), Held { consumer: consumer.to_owned(), value, until, mark });
        Ok((LeaseId(id), until))
    }

    /// Lets a consumer look at what was lent to it.
    ///
    /// # Errors
    /// [`LeaseError::None`] when it is over, or not this consumer's.
    pub fn with<T>(
        &self,
        lease: LeaseId,
        consumer: &str,
        now: i64,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, LeaseError> {
        let mut book = self.book();
        let now = book.at(now);
        let held = book.held.get(&lease).filter(|held| held.consumer == consumer && held.until > now);
        held.map(|held| look(held.value.expose())).ok_or(LeaseError::None)
    }

    /// Ends a lease; a second time changes nothing. What it held, for whoever must forget it too.
    pub fn end(&self, lease: LeaseId, consumer: &str) -> Option<Secret<Vec<u8>>> {
        let mut book = self.book();
        book.held.get(&lease).filter(|held| held.consumer == consumer)?;
        book.held.remove(&lease).map(|held| held.value)
    }

    /// Ends everything that was lent to a consumer, because it is over.
    pub fn end_all_of(&self, consumer: &str) -> Vec<Secret<Vec<u8>>> {
        self.take(|held| held.consumer == consumer)
    }

    /// Ends everything whose time is over: nobody could use it any more, and now it is wiped.
    pub fn expire(&self, now: i64) -> Vec<Secret<Vec<u8>>> {
        let now = self.book().at(now);
        self.take(|held| held.until <= now)
    }

    /// Ends every lease whose mark says so: what was lent was removed, or may not be had any more.
    pub fn end_where(&self, over: impl Fn(LeaseId, &M) -> bool) -> Vec<Secret<Vec<u8>>> {
        let mut book = self.book();
        book.held.extract_if(|id, held| over(*id, &held.mark)).map(|(_, held)| held.value).collect()
    }

    /// The marks of all that is lent now.
    #[must_use]
    pub fn marks(&self) -> Vec<(LeaseId, M)>
    where
        M: Clone,
    {
        self.book().held.iter().map(|(id, held)| (*id, held.mark.clone())).collect()
    }

    /// How many are lent now.
    #[must_use]
    pub fn count(&self) -> usize {
        self.book().held.len()
    }

    fn take(&self, over: impl Fn(&Held<M>) -> bool) -> Vec<Secret<Vec<u8>>> {
        let mut book = self.book();
        book.held.extract_if(|_, held| over(held)).map(|(_, held)| held.value).collect()
    }

    fn book(&self) -> MutexGuard<'_, Book<M>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M> fmt::Debug for Leases<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leases({})", self.count())
    }
}
