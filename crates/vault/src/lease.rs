//! Lends values that were opened: each to one consumer, for a short time, and wiped when that is over.
//!
//! Invariants: a lease is known by its consumer and by nobody else, and who asks for another's learns not even that there
//! is one; its time is the consumer's own and [`LEASE_GRACE`] more, by a clock that the caller brings, which nobody can
//! set, and which never goes back here; whatever way it ends, the memory is wiped. Leases live in memory only: they end with the process.
//!
//! Not here: who may have which secret (`access`), what is on the record (`runtime`).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Secret;

/// How long a lease outlives its consumer's own limit, in milliseconds.
pub const LEASE_GRACE: i64 = 300_000;
/// Most leases at a time: more is a consumer that does not give back.
const MOST: usize = 10_000;

/// Names one lease; only its consumer can use it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
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

struct Held {
    consumer: String,
    value: Secret<Vec<u8>>,
    until: i64,
}

#[derive(Default)]
struct Book {
    held: HashMap<LeaseId, Held>,
    /// The latest time that was seen: a clock that is set back revives nothing.
    latest: i64,
}

impl Book {
    /// What time it is.
    fn at(&mut self, now: i64) -> i64 {
        self.latest = self.latest.max(now);
        self.latest
    }
}

/// Everything that is lent now.
#[derive(Default)]
pub struct Leases(Mutex<Book>);

impl Leases {
    /// Lends a value to one consumer, who may run for `timeout` milliseconds. Gives the lease and when it ends.
    ///
    /// # Errors
    /// [`LeaseError`]; then the value is wiped.
    pub fn grant(
        &self,
        consumer: &str,
        value: Secret<Vec<u8>>,
        now: i64,
        timeout: i64,
    ) -> Result<(LeaseId, i64), LeaseError> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|_| LeaseError::Randomness)?;
        let mut book = self.book();
        let now = book.at(now);
        if book.held.len() >= MOST {
            return Err(LeaseError::TooMany);
        }
        let until = now.saturating_add(timeout.max(0)).saturating_add(LEASE_GRACE);
        book.held.insert(LeaseId(id), Held { consumer: consumer.to_owned(), value, until });
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

    /// How many are lent now.
    #[must_use]
    pub fn count(&self) -> usize {
        self.book().held.len()
    }

    fn take(&self, over: impl Fn(&Held) -> bool) -> Vec<Secret<Vec<u8>>> {
        let mut book = self.book();
        book.held.extract_if(|_, held| over(held)).map(|(_, held)| held.value).collect()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leases({})", self.count())
    }
}
