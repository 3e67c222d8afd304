//! How much one sandbox does with its network, and that it is not too much.
//!
//! Invariants: what is one too many is refused, not put off; a flood is told of once and counted; what was done under an
//! earlier proxy counts too. Not here: what may be reached at all.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use egress::control::Used;
use rules::Limits;
use tokio::sync::{Notify, Semaphore};

/// Clients at once that are told why, in the words of what they speak; the rest of a flood is only cut off.
const EXPLAINED: usize = 32;
/// How often the launcher is told what was done, at most.
pub(crate) const TELLING: Duration = Duration::from_millis(250);

/// Which limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Bytes,
    Requests,
    Connections,
    Total,
    Rate,
}

/// It would be too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    which: Which,
    most: u64,
}

impl Over {
    /// What the limit is called.
    pub(crate) fn name(self) -> &'static str {
        match self.which {
            Which::Bytes => "bytes",
            Which::Requests => "requests",
            Which::Connections => "connections",
            Which::Total => "total",
            Which::Rate => "rate",
        }
    }
}

impl std::fmt::Display for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { which, most } = self;
        let what = match which {
            Which::Bytes => "bytes in all",
            Which::Requests => "requests in all",
            Which::Connections => "connections at a time",
            Which::Total => "connections in all",
            Which::Rate => "requests a second",
        };
        let name = self.name();
        write!(
            f,
            "this sandbox has had the {most} {what} that it may have; ask for a larger `--net-limit {name}=`"
        )
    }
}

impl std::error::Error for Over {}

impl From<Over> for io::Error {
    fn from(over: Over) -> Self {
        Self::other(over)
    }
}

/// How many may still begin in this second.
#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Option<Instant>,
}

/// What is done, and how much may be.
#[derive(Debug)]
pub(crate) struct Quota {
    limits: OnceLock<Limits>,
    connections: AtomicU64,
    open: AtomicU64,
    requests: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    over: AtomicU64,
    bucket: Mutex<Bucket>,
    /// Which limits were told of.
    told: [AtomicBool; 5],
    pub(crate) explained: Semaphore,
    changed: Notify,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            limits: OnceLock::new(),
            connections: AtomicU64::new(0),
            open: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            over: AtomicU64::new(0),
            bucket: Mutex::new(Bucket { left: 0.0, at: None }),
            told: Default::default(),
            explained: Semaphore::new(EXPLAINED),
            changed: Notify::new(),
        }
    }
}

/// A connection that counts, as long as it lives.
#[derive(Debug)]
pub(crate) struct Place(Arc<Quota>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_one();
    }
}

impl Quota {
    /// Takes limits, and what was done already.
    pub(crate) fn limit(&self, limits: Limits, used: Used) {
        let _ = self.limits.set(limits);
        self.connections.store(used.connections, Ordering::Release);
        self.requests.store(used.requests, Ordering::Release);
        self.sent.store(used.sent, Ordering::Release);
        self.received.store(used.received, Ordering::Release);
        self.over.store(used.over, Ordering::Release);
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits.get().copied().unwrap_or_default()
    }

    pub(crate) fn used(&self) -> Used {
        let load = |number: &AtomicU64| number.load(Ordering::Acquire);
        Used {
            connections: load(&self.connections),
            open: load(&self.open),
            requests: load(&self.requests),
            sent: load(&self.sent),
            received: load(&self.received),
            over: load(&self.over),
        }
    }

    /// Comes back when something was done.
    pub(crate) async fn changes(&self) {
        self.changed.notified().await;
    }

    /// One more connection.
    pub(crate) fn connection(self: &Arc<Self>) -> Result<Place, Over> {
        let limits = self.limits();
        one_more(&self.open, limits.connections, Which::Connections)?;
        let place = Place(Arc::clone(self));
        self.spent()?;
        one_more(&self.connections, limits.total, Which::Total)?;
        self.changed.notify_one();
        Ok(place)
    }

    /// One more request.
    pub(crate) fn request(&self) -> Result<(), Over> {
        self.begun()?;
        one_more(&self.requests, self.limits().requests, Which::Requests)?;
        self.changed.notify_one();
        Ok(())
    }

    /// Something begins: a request, or a connection that is passed on unopened.
    pub(crate) fn begun(&self) -> Result<(), Over> {
        self.spent()?;
        let Some(rate) = self.limits().rate else { return Ok(()) };
        let most = u32::try_from(rate).map_or(f64::from(u32::MAX), f64::from);
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let since = bucket.at.replace(now).map_or(f64::INFINITY, |at| (now - at).as_secs_f64());
        bucket.left = (bucket.left + since * most).min(most);
        if bucket.left < 1.0 {
            return Err(Over { which: Which::Rate, most: rate });
        }
        bucket.left -= 1.0;
        Ok(())
    }

    /// Whether all bytes were used up.
    fn spent(&self) -> Result<(), Over> {
        match (self.left(), self.limits().bytes) {
            (0, Some(most)) => Err(Over { which: Which::Bytes, most }),
            _ => Ok(()),
        }
    }

    /// How many bytes may still go either way.
    pub(crate) fn left(&self) -> u64 {
        let used = || self.sent.load(Ordering::Relaxed).saturating_add(self.received.load(Ordering::Relaxed));
        self.limits().bytes.map_or(u64::MAX, |most| most.saturating_sub(used()))
    }

    /// That there are no bytes left.
    pub(crate) fn no_bytes(&self) -> Over {
        Over { which: Which::Bytes, most: self.limits().bytes.unwrap_or(u64::MAX) }
    }

    /// Whether these words about a connection that broke say that there were no bytes left.
    pub(crate) fn broke(&self, why: &str) -> Option<Over> {
        let over = self.no_bytes();
        (self.limits().bytes.is_some() && why.contains(&over.to_string())).then_some(over)
    }

    /// Bytes that went out.
    pub(crate) fn sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Bytes that came back.
    pub(crate) fn received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Counts a refusal; true if it is the first by this limit.
    pub(crate) fn refused(&self, over: Over) -> bool {
        self.over.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
        self.told(over.which).is_some_and(|told| !told.swap(true, Ordering::AcqRel))
    }

    /// Whether somebody was told of this limit.
    pub(crate) fn is_told(&self, over: Over) -> bool {
        self.told(over.which).is_some_and(|told| told.load(Ordering::Acquire))
    }

    fn told(&self, which: Which) -> Option<&AtomicBool> {
        let place = match which {
            Which::Bytes => 0,
            Which::Requests => 1,
            Which::Connections => 2,
            Which::Total => 3,
            Which::Rate => 4,
        };
        self.told.get(place)
    }

    /// Whether a connection is one too many, everybody knows it, and so many are being told why that this one is not. It is
    /// counted then.
    pub(crate) fn turns_away(&self) -> bool {
        let Some(most) = self.limits().connections else { return false };
        let over = Over { which: Which::Connections, most };
        let turns_away = self.open.load(Ordering::Acquire) >= most
            && self.explained.available_permits() == 0
            && self.is_told(over);
        if turns_away {
            self.refused(over);
        }
        turns_away
    }
}

/// Counts one more, if there may be one.
fn one_more(count: &AtomicU64, most: Option<u64>, which: Which) -> Result<(), Over> {
    let added = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
        (count < most.unwrap_or(u64::MAX)).then(|| count + 1)
    });
    added.map(drop).map_err(|_| Over { which, most: most.unwrap_or(u64::MAX) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(text: &str) -> Arc<Quota> {
        let quota = Arc::new(Quota::default());
        quota.limit(Limits::parse(text).unwrap(), Used::default());
        quota
    }

    #[test]
    fn egr_16_one_more_than_the_limit_is_refused_and_no_less() {
        let quota = limited("connections=2,total=4");
        let places = [quota.connection().unwrap(), quota.connection().unwrap()];
        assert_eq!(quota.connection().unwrap_err().which, Which::Connections);
        drop(places);
        // Those that were refused took no place and do not count.
        drop([quota.connection().unwrap(), quota.connection().unwrap()]);
        assert_eq!(quota.connection().unwrap_err().which, Which::Total);
        assert_eq!(quota.used(), Used { connections: 4, ..Used::default() });

        let quota = limited("requests=3,bytes=10");
        assert!((0..3).all(|_| quota.request().is_ok()));
        assert_eq!(quota.request().unwrap_err().which, Which::Requests);
        quota.sent(4);
        quota.received(5);
        assert_eq!(quota.left(), 1);
        assert!(quota.connection().is_ok());
        quota.received(1);
        assert_eq!(quota.connection().unwrap_err().which, Which::Bytes);
        assert_eq!(quota.request().unwrap_err().which, Which::Bytes);
    }

    #[test]
    fn egr_16_a_rate_is_a_second_s_worth_and_comes_back() {
        let quota = limited("rate=20/s");
        let begun = (0..100).filter(|_| quota.begun().is_ok()).count();
        assert!((20..25).contains(&begun), "{begun}");
        std::thread::sleep(Duration::from_millis(120));
        assert!(quota.begun().is_ok());
    }

    #[test]
    fn egr_16_what_was_done_before_counts_and_a_flood_is_told_of_once() {
        let quota = Arc::new(Quota::default());
        let used = Used { connections: 9, open: 5, ..Used::default() };
        quota.limit(Limits::parse("total=10,connections=1").unwrap(), used);
        // What was open under the earlier one is not any more.
        drop(quota.connection().unwrap());
        let over: Vec<Over> = (0..50).map(|_| quota.connection().unwrap_err()).collect();
        assert_eq!(over.iter().filter(|over| quota.refused(**over)).count(), 1);
        assert_eq!(quota.used().over, 50);
    }

    #[test]
    fn egr_16_what_is_turned_away_without_a_word_was_told_of_before_and_counts() {
        let quota = limited("connections=1");
        assert!(!quota.turns_away());
        let place = quota.connection().unwrap();
        assert!(!quota.turns_away(), "the first one too many is told of");
        let over = quota.connection().unwrap_err();
        assert!(!quota.is_told(over) && quota.refused(over) && quota.is_told(over));
        assert!(!quota.turns_away(), "a few at a time are told why");
        let told = quota.explained.try_acquire_many(u32::try_from(EXPLAINED).unwrap()).unwrap();
        assert!(quota.turns_away());
        assert_eq!(quota.used().over, 2);
        drop(told);
        assert!(!quota.turns_away());
        drop(place);
        assert_eq!(quota.used().over, 2);
    }
}
