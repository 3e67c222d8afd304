//! How often a caller may come: so many requests in any sixty seconds, exactly.
//!
//! Each credential counts by itself. A user with many keys and Passes may come four times as often with all of
//! them together, and no more. Who is nobody counts by address.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use access::Principal;
use axum::http::{HeaderMap, HeaderValue};

const WINDOW: Duration = Duration::from_secs(60);
/// The most callers of one kind that are remembered.
const MOST_CALLERS: usize = 10_000;
/// How much more than one credential all credentials of a user may do together.
const USER_PART: usize = 4;

/// Counts requests per caller over a sliding window. In memory: a restart forgives.
#[derive(Debug)]
pub(crate) struct Limiter {
    most: usize,
    /// Kept apart, so that strangers from many addresses do not make a user's requests forgotten.
    strangers: Mutex<Callers>,
    principals: Mutex<Callers>,
    users: Mutex<Callers>,
}

/// How a caller stands after a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    most: usize,
    left: usize,
    reset: u64,
    /// Set when the request is over the limit.
    pub(crate) retry_after: Option<u64>,
    /// Whether it is all credentials of the user together that came too often.
    pub(crate) whole_user: bool,
}

impl Standing {
    const UNLIMITED: Self = Self { most: 0, left: 0, reset: 0, retry_after: None, whole_user: false };

    /// Tells the caller.
    pub(crate) fn show(self, headers: &mut HeaderMap) {
        if self.most == 0 {
            return;
        }
        headers.insert("x-ratelimit-limit", HeaderValue::from(self.most));
        headers.insert("x-ratelimit-remaining", HeaderValue::from(self.left));
        headers.insert("x-ratelimit-reset", HeaderValue::from(self.reset));
    }
}

impl Limiter {
    /// At most so many per minute; 0 is no limit.
    pub(crate) fn new(most: usize) -> Self {
        let callers = || Mutex::new(Callers::new(Instant::now()));
        Self { most, strangers: callers(), principals: callers(), users: callers() }
    }

    /// Counts a request from an address.
    pub(crate) fn admit_stranger(&self, address: &str) -> Standing {
        match self.most {
            0 => Standing::UNLIMITED,
            most => admit(&self.strangers, address, most, Instant::now()),
        }
    }

    /// Counts a request of a principal.
    pub(crate) fn admit(&self, who: &Principal) -> Standing {
        match self.most {
            0 => Standing::UNLIMITED,
            _ => self.admit_at(&who.label(), &who.user().to_string(), Instant::now()),
        }
    }

    /// One that is over the limit of its credential does not count for the user.
    fn admit_at(&self, credential: &str, user: &str, now: Instant) -> Standing {
        let own = admit(&self.principals, credential, self.most, now);
        if own.retry_after.is_some() {
            return own;
        }
        let all = admit(&self.users, user, self.most.saturating_mul(USER_PART), now);
        match all.retry_after {
            Some(_) => Standing { whole_user: true, ..all },
            None => own,
        }
    }
}

fn admit(callers: &Mutex<Callers>, caller: &str, most: usize, now: Instant) -> Standing {
    callers.lock().unwrap_or_else(PoisonError::into_inner).admit(caller, most, now)
}

/// The times of each caller's requests, in two halves: those who came since the last turn, and those who came
/// before it. With each turn the older half is forgotten. A turn comes when the window has passed, so that
/// nothing is forgotten that still counts; or when the newer half is full, and then those are forgiven who
/// have been quiet longest.
#[derive(Debug)]
struct Callers {
    newer: HashMap<String, VecDeque<Instant>>,
    older: HashMap<String, VecDeque<Instant>>,
    turned: Instant,
}

impl Callers {
    fn new(now: Instant) -> Self {
        Self { newer: HashMap::new(), older: HashMap::new(), turned: now }
    }

    fn admit(&mut self, caller: &str, most: usize, now: Instant) -> Standing {
        if now.saturating_duration_since(self.turned) >= WINDOW || self.newer.len() >= MOST_CALLERS / 2 {
            self.older = std::mem::take(&mut self.newer);
            self.turned = now;
        }
        if !self.newer.contains_key(caller) {
            let times = self.older.remove(caller).unwrap_or_default();
            self.newer.insert(caller.to_owned(), times);
        }
        let times = self.newer.entry(caller.to_owned()).or_default();
        while times.front().is_some_and(|first| now.saturating_duration_since(*first) >= WINDOW) {
            times.pop_front();
        }
        let over = times.len() >= most;
        if !over {
            times.push_back(now);
        }
        let since = |first: &Instant| now.saturating_duration_since(*first);
        let reset = times.front().map_or(0, |first| WINDOW.saturating_sub(since(first)).as_secs() + 1);
        let left = most.saturating_sub(times.len());
        Standing { most, left, reset, retry_after: over.then_some(reset), whole_user: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gtw_03_the_window_slides_without_a_double_burst() {
        let limiter = Limiter::new(600);
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let admit = |who: &str, at: Instant| limiter.admit_at(who, who, at).retry_after;
        for n in 0..600 {
            assert!(admit("ana", at(59_000 + n)).is_none(), "{n}");
        }
        assert!(admit("ana", at(59_700)).is_some(), "the 601st");
        assert!(admit("ana", at(61_000)).is_some(), "no new burst at the minute");
        assert!(admit("bo", at(61_000)).is_none(), "others are not touched");
        assert!(admit("ana", at(119_001)).is_none(), "the first of the burst has left the window");
    }

    #[test]
    fn gtw_03_many_credentials_of_one_user_are_counted_together() {
        let limiter = Limiter::new(100);
        let now = Instant::now();
        let mut passed = 0;
        for n in 0..2_000 {
            let standing = limiter.admit_at(&format!("ana/key_{}", n % 50), "ana", now);
            passed += usize::from(standing.retry_after.is_none());
            assert_eq!(standing.whole_user, standing.retry_after.is_some());
        }
        assert_eq!(passed, 400);
        assert!(limiter.admit_at("bo", "bo", now).retry_after.is_none(), "others are not touched");
    }

    #[test]
    fn gtw_03_only_so_many_callers_are_remembered() {
        let mut callers = Callers::new(Instant::now());
        let now = Instant::now();
        for n in 0..50_000 {
            assert!(callers.admit(&n.to_string(), 2, now).retry_after.is_none());
            // Who keeps coming is remembered all the while.
            let busy = callers.admit("busy", 2, now).retry_after;
            assert_eq!(busy.is_some(), n >= 2, "{n}");
            assert!(callers.newer.len() + callers.older.len() <= MOST_CALLERS);
        }
    }
}
