//! Stops asking a provider that fails, and tries it again after a while, carefully.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u64 },
    Open { until: Instant },
    HalfOpen { probes: u64 },
}

/// One provider's breaker.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: Mutex<State>,
    failures: u64,
    open: Duration,
    probes: u64,
}

/// The right to ask once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Plain,
    Probe,
}

/// How an ask ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Well,
    Badly,
    /// It says nothing of the provider: somebody stopped it, or it was told to wait.
    Neither,
}

impl Breaker {
    pub(crate) fn new(failures: u64, open: Duration, probes: u64) -> Self {
        Self { state: Mutex::new(State::Closed { failures: 0 }), failures, open, probes }
    }

    /// A pass, or nothing while it is open.
    pub(crate) fn enter(&self, now: Instant) -> Option<Pass> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::Closed { .. } => Some(Pass::Plain),
            State::Open { until } if now < until => None,
            State::Open { .. } => {
                *state = State::HalfOpen { probes: 1 };
                Some(Pass::Probe)
            }
            State::HalfOpen { probes } if probes < self.probes => {
                *state = State::HalfOpen { probes: probes + 1 };
                Some(Pass::Probe)
            }
            State::HalfOpen { .. } => None,
        }
    }

    /// Gives the pass back.
    pub(crate) fn leave(&self, pass: Pass, ended: Ended, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let until = now.checked_add(self.open).unwrap_or(now);
        *state = match (*state, pass, ended) {
            (State::Closed { failures }, _, Ended::Badly) if failures + 1 >= self.failures => {
                State::Open { until }
            }
            (State::Closed { failures }, _, Ended::Badly) => State::Closed { failures: failures + 1 },
            (State::Closed { .. }, _, Ended::Well) | (State::HalfOpen { .. }, Pass::Probe, Ended::Well) => {
                State::Closed { failures: 0 }
            }
            (State::HalfOpen { .. }, Pass::Probe, Ended::Badly) => State::Open { until },
            (State::HalfOpen { probes }, Pass::Probe, Ended::Neither) => {
                State::HalfOpen { probes: probes.saturating_sub(1) }
            }
            // Whoever began before the change has no say in what is now.
            (state @ State::Closed { .. }, _, Ended::Neither)
            | (state @ State::Open { .. }, ..)
            | (state @ State::HalfOpen { .. }, Pass::Plain, _) => state,
        };
    }

    /// One word for how it stands.
    pub(crate) fn word(&self, now: Instant) -> &'static str {
        match *self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Closed { .. } => "closed",
            State::Open { until } if now < until => "open",
            State::Open { .. } | State::HalfOpen { .. } => "half_open",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Duration = Duration::from_secs(30);

    fn failed(breaker: &Breaker, times: usize, now: Instant) {
        for _ in 0..times {
            let pass = breaker.enter(now).unwrap();
            breaker.leave(pass, Ended::Badly, now);
        }
    }

    #[test]
    fn ses_33_five_failures_open_it_for_thirty_seconds() {
        let (breaker, now) = (Breaker::new(5, OPEN, 1), Instant::now());
        failed(&breaker, 4, now);
        assert_eq!(breaker.word(now), "closed");
        failed(&breaker, 1, now);
        assert_eq!((breaker.word(now), breaker.enter(now)), ("open", None));
        assert_eq!(breaker.enter(now + OPEN - Duration::from_millis(1)), None);
        assert_eq!(breaker.enter(now + OPEN), Some(Pass::Probe));
    }

    #[test]
    fn ses_33_one_probe_decides_and_three_can_be_had() {
        for probes in [1, 3] {
            let (breaker, now) = (Breaker::new(5, OPEN, probes), Instant::now());
            failed(&breaker, 5, now);
            let later = now + OPEN;
            for _ in 0..probes {
                assert_eq!(breaker.enter(later), Some(Pass::Probe));
            }
            assert_eq!(breaker.enter(later), None, "{probes} and no more");
            breaker.leave(Pass::Probe, Ended::Badly, later);
            assert_eq!(breaker.word(later), "open");
            assert_eq!(breaker.enter(later + OPEN), Some(Pass::Probe));
            breaker.leave(Pass::Probe, Ended::Neither, later + OPEN);
            assert_eq!(
                breaker.enter(later + OPEN),
                Some(Pass::Probe),
                "a probe that was stopped is given back"
            );
            breaker.leave(Pass::Probe, Ended::Well, later + OPEN);
            assert_eq!(breaker.word(later + OPEN), "closed");
        }
    }

    #[test]
    fn ses_33_a_success_between_forgives_and_a_late_failure_changes_nothing() {
        let (breaker, now) = (Breaker::new(5, OPEN, 1), Instant::now());
        failed(&breaker, 4, now);
        let late = breaker.enter(now).unwrap();
        let good = breaker.enter(now).unwrap();
        breaker.leave(good, Ended::Well, now);
        failed(&breaker, 4, now);
        assert_eq!(breaker.word(now), "closed");
        failed(&breaker, 1, now);
        breaker.leave(late, Ended::Well, now);
        assert_eq!(breaker.word(now), "open");
    }
}
