//! Who asked: the processes that hold the socket of a connection, looked for when it comes.
//!
//! The proxy does not wait for it, and it has a bound: whoever is gone by then, or comes in a flood, is not named.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sandbox::Inhabitants;

/// How long one search may take.
const LONGEST: Duration = Duration::from_millis(50);
/// Of each second, how much is spent on searches.
const SHARE: f64 = 0.1;
/// The most of it that is saved up.
const SAVED: Duration = Duration::from_millis(200);
/// Connections that are remembered.
const KEPT: usize = 8_192;
/// Processes that are named.
const NAMED: usize = 8;

/// Finds who asked.
pub(super) struct Askers {
    of: Inhabitants,
    known: HashMap<SocketAddr, String>,
    left: Duration,
    at: Instant,
}

impl Askers {
    pub(super) fn new(of: Inhabitants) -> Self {
        Self { of, known: HashMap::new(), left: SAVED, at: Instant::now() }
    }

    /// A connection came from there: this is the moment to look.
    pub(super) fn look(&mut self, from: SocketAddr, to: SocketAddr) {
        // Another connection may have had this address before.
        self.known.remove(&from);
        let now = Instant::now();
        self.left = SAVED.min(self.left + now.duration_since(self.at).mul_f64(SHARE));
        self.at = now;
        if self.left.is_zero() {
            return;
        }
        let (found, is_whole) = self.of.holding(from, to, LONGEST);
        self.left = self.left.saturating_sub(now.elapsed());
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
