//! Time as the product sees it: milliseconds since the epoch, UTC, from one replaceable source.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01T00:00:00Z.
pub type Millis = i64;

/// Where the time comes from. Everything that compares times asks this and nothing else.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The present moment.
    fn now(&self) -> Millis;

    /// Milliseconds since some moment, which pass as time does, also while the machine sleeps: nobody can set this
    /// clock. For how long something lasts, never for when it was.
    fn steady(&self) -> Millis;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
    }

    fn steady(&self) -> Millis {
        let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        since.tv_sec.saturating_mul(1_000).saturating_add(since.tv_nsec / 1_000_000)
    }
}

/// A clock that stands still until it is moved; tests use it instead of sleeping.
#[derive(Debug)]
pub struct FixedClock {
    now: AtomicI64,
    steady: AtomicI64,
}

impl FixedClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn at(now: Millis) -> Self {
        Self { now: AtomicI64::new(now), steady: AtomicI64::new(0) }
    }

    /// Lets time pass. A negative step sets the clock back, as [`Self::set`] does.
    pub fn advance(&self, by: Millis) {
        self.steady.fetch_add(by.max(0), Ordering::SeqCst);
        self.set(by);
    }

    /// Sets the clock forward or back, as somebody does with the machine's: no time passes.
    pub fn set(&self, by: Millis) {
        self.now.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Millis {
        self.now.load(Ordering::SeqCst)
    }

    fn steady(&self) -> Millis {
        self.steady.load(Ordering::SeqCst)
    }
}
