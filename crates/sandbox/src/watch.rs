//! Limits that no part of the kernel holds here: the launcher looks now and then and ends what goes beyond.
//!
//! Memory without a control group, and time. Invariant: what is watched is said so in the receipt (`watched`), never
//! `enforced`; between two looks a hog can take more than its share.

use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::freeze::inhabitants;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(250);

/// What went beyond its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// All processes together had more memory.
    Memory,
    /// It took longer.
    Wall,
}

/// What is looked at.
#[derive(Debug)]
pub(crate) struct Watch {
    memory: Option<u64>,
    end: Option<Instant>,
    next: Option<Instant>,
}

impl Watch {
    /// Watches these, from now on.
    pub(crate) fn new(memory: Option<u64>, wall: Option<Duration>) -> Self {
        let now = Instant::now();
        Self { memory, end: wall.map(|wall| now + wall), next: memory.map(|_| now + EVERY) }
    }

    /// When to look again.
    pub(crate) fn due(&self) -> Option<Instant> {
        [self.end, self.next].into_iter().flatten().min()
    }

    /// Looks, if it is time to; says what went beyond.
    pub(crate) fn look(&mut self, init: Pid) -> Option<Over> {
        let now = Instant::now();
        if self.end.is_some_and(|end| now >= end) {
            return Some(Over::Wall);
        }
        if self.next.is_some_and(|next| now >= next) {
            self.next = Some(now + EVERY);
            if self.memory.is_some_and(|most| memory(init) > most) {
                return Some(Over::Memory);
            }
        }
        None
    }
}

/// Memory that only these processes have, in bytes.
fn memory(init: Pid) -> u64 {
    let of = |pid: Pid| {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", pid.as_raw_pid())).ok()?;
        let mut pages = text.split_whitespace().skip(1).map(|word| word.parse::<u64>().ok());
        let (resident, shared) = (pages.next()??, pages.next()??);
        Some(resident.saturating_sub(shared).saturating_mul(4096))
    };
    inhabitants(init).iter().filter_map(|(pid, _)| of(*pid)).sum()
}
