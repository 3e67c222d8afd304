//! Who asked: the processes that hold the socket of a connection, looked for when it comes.
//!
//! The proxy does not wait for it, and it has a bound: whoever is gone by then, or comes in a flood, is not named.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sandbox::Inhabitants;

/// How long one search may take.
const LONGEST: Duration = Duration::from_millis(20);
/// Of each second, how much is spent on searches.
const SHARE: f64 = 0.1;
/// The most of it that is saved up, in seconds.
const SAVED: f64 = 0.05;
/// Connections that are remembered.
const KEPT: usize = 8_192;
/// Processes that are named.
const NAMED: usize = 8;

/// Finds who asked.
pub(super) struct Askers {
    of: Inhabitants,
    known: HashMap<SocketAddr, String>,
    time: Time,
}

/// Time for searches. One that took longer than there was is paid for by those after it, so a flood of connections cannot
/// make searching all that is done.
struct Time {
    /// Seconds that may still be spent.
    left: f64,
    at: Instant,
}

impl Time {
    fn from(now: Instant) -> Self {
        Self { left: SAVED, at: now }
    }

    /// Whether there is some.
    fn is_there(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = SAVED.min(passed.mul_add(SHARE, self.left));
        self.at = now;
        self.left > 0.0
    }

    fn spend(&mut self, time: Duration) {
        self.left -= time.as_secs_f64();
    }
}

impl Askers {
    pub(super) fn new(of: Inhabitants) -> Self {
        Self { of, known: HashMap::new(), time: Time::from(Instant::now()) }
    }

    /// A connection came from there: this is the moment to look.
    pub(super) fn look(&mut self, from: SocketAddr, to: SocketAddr) {
        // Another connection may have had this address before.
        self.known.remove(&from);
        let now = Instant::now();
        if !self.time.is_there(now) {
            return;
        }
        let (found, is_whole) = self.of.holding(from, to, LONGEST);
        self.time.spend(now.elapsed());
        let mut names: Vec<String> =
            found.iter().take(NAMED).map(|one| format!("{} ({})", one.program, one.pid)).collect();
        let more = found.len().saturating_sub(NAMED);
        names.extend((more > 0).then(|| format!("{more} more")));
        names.extend((!is_whole && !names.is_empty()).then(|| "perhaps more".to_owned()));
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        if !names.is_empty() {
            self.known.insert(from, names.join(", "));
        }
    }

    /// The processes behind a connection, in words; none if they are not known.
    pub(super) fn who(&self, from: SocketAddr) -> Option<String> {
        self.known.get(&from).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many connections come, and however long each search takes, searching takes its share and no more.
    #[test]
    fn a_flood_does_not_make_searching_all_that_is_done() {
        let begin = Instant::now();
        let (mut time, mut now, mut spent) = (Time::from(begin), begin, Duration::ZERO);
        while now < begin + Duration::from_secs(100) {
            if time.is_there(now) {
                let search = Duration::from_millis(60);
                time.spend(search);
                (now, spent) = (now + search, spent + search);
            }
            now += Duration::from_micros(100);
        }
        let most = 100.0 * SHARE + SAVED + 0.06;
        assert!(spent.as_secs_f64() <= most, "{spent:?}");
        assert!(spent.as_secs_f64() >= 100.0 * SHARE * 0.9, "searches go on: {spent:?}");
    }
}
