//! How often a caller may come: so many requests in any sixty seconds, exactly.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue};

const WINDOW: Duration = Duration::from_secs(60);
/// Callers beyond this many at once push out those who have been quiet.
const MOST_CALLERS: usize = 10_000;

/// Counts requests per caller over a sliding window. In memory: a restart forgives.
#[derive(Debug)]
pub(crate) struct Limiter {
    most: usize,
    callers: Mutex<HashMap<String, VecDeque<Instant>>>,
}

/// How a caller stands after a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    most: usize,
    left: usize,
    reset: u64,
    /// Set when the request is over the limit.
    pub(crate) retry_after: Option<u64>,
}

impl Standing {
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
        Self { most, callers: Mutex::default() }
    }

    /// Counts a request; who it is from is asked only when there is a limit.
    pub(crate) fn admit(&self, caller: impl FnOnce() -> String) -> Standing {
        match self.most {
            0 => Standing { most: 0, left: 0, reset: 0, retry_after: None },
            _ => self.admit_at(&caller(), Instant::now()),
        }
    }

    fn admit_at(&self, caller: &str, now: Instant) -> Standing {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.len() >= MOST_CALLERS && !callers.contains_key(caller) {
            callers.retain(|_, times| times.back().is_some_and(|last| now.duration_since(*last) < WINDOW));
        }
        let times = callers.entry(caller.to_owned()).or_default();
        while times.front().is_some_and(|first| now.duration_since(*first) >= WINDOW) {
            times.pop_front();
        }
        let over = times.len() >= self.most;
        if !over {
            times.push_back(now);
        }
        let reset =
            times.front().map_or(0, |first| WINDOW.saturating_sub(now.duration_since(*first)).as_secs() + 1);
        Standing {
            most: self.most,
            left: self.most.saturating_sub(times.len()),
            reset,
            retry_after: over.then_some(reset),
        }
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
        for n in 0..600 {
            assert!(limiter.admit_at("ana", at(59_000 + n)).retry_after.is_none(), "{n}");
        }
        assert!(limiter.admit_at("ana", at(59_700)).retry_after.is_some(), "the 601st");
        assert!(limiter.admit_at("ana", at(61_000)).retry_after.is_some(), "no new burst at the minute");
        assert!(limiter.admit_at("bo", at(61_000)).retry_after.is_none(), "others are not touched");
        let later = limiter.admit_at("ana", at(119_001));
        assert!(later.retry_after.is_none(), "the first of the burst has left the window");
    }
}
