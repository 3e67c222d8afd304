//! Limits that no part of the kernel holds here: the launcher looks now and then and ends what goes beyond.
//!
//! Memory without a control group ([`memory`]), what was added on disk ([`disk`]), and time. Invariants: what is watched
//! is said so in the receipt (`watched`), never `enforced`; the nearer a limit can be, the sooner is the next look, and
//! between two looks a hog can take more than its share; a run that is far from its limits costs a look a second.

mod count;
mod disk;
mod held;
mod memory;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::groups::Groups;
use crate::plan::Plan;
use crate::profile::Limits;
use disk::Disk;
use memory::Memory;

/// The longest pause between two looks, and the shortest.
const MOST: Duration = Duration::from_secs(1);
const LEAST: Duration = Duration::from_millis(2);
/// What nobody is faster than: bytes in memory or on the way to a disk, in a second.
const SPEED: u64 = 6 << 30;

/// What went beyond its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// All processes together had more memory.
    Memory,
    /// More was added on disk.
    Disk,
    /// More files and directories were added on disk.
    Inodes,
    /// It took longer.
    Wall,
}

impl Over {
    /// What happened, which limit it was, and what gives more.
    #[must_use]
    pub fn told(self, limits: &Limits) -> String {
        let (what, name) = match self {
            Self::Memory => ("more memory than", "memory"),
            Self::Disk => ("more room on disk than", "disk"),
            Self::Inodes => ("more files and directories than", "inodes"),
            Self::Wall => ("longer than", "wall"),
        };
        let most = limits.told(name);
        format!("ended: it took {what} the limit `{name}` of {most} allows; `--limit {name}=…` gives more")
    }
}

/// What is looked at.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    memory: Option<Memory>,
    disk: Option<Disk>,
    end: Option<Instant>,
}

impl Watch {
    /// Watches what nothing else holds, from now on. Comes after the word to go: nothing waits for it.
    pub(crate) fn new(plan: &Plan, groups: &Groups) -> Self {
        Self {
            memory: plan.together.memory.filter(|_| !groups.holds("memory")).map(Memory::new),
            disk: plan.added.and_then(|added| Disk::new(plan, added)),
            end: plan.wall.map(|wall| Instant::now() + wall),
        }
    }

    /// When to look again.
    pub(crate) fn due(&self) -> Option<Instant> {
        let memory = self.memory.as_ref().map(Memory::due);
        [self.end, memory, self.disk.as_ref().map(Disk::due)].into_iter().flatten().min()
    }

    /// Looks, if it is time to; says what went beyond. `stands`: whether a person has it stand still.
    pub(crate) fn look(&mut self, init: Pid, groups: &Groups, stands: bool) -> Option<Over> {
        if self.end.is_some_and(|end| Instant::now() >= end) {
            return Some(Over::Wall);
        }
        if self.memory.as_mut().is_some_and(|memory| memory.look(init)) {
            return Some(Over::Memory);
        }
        self.disk.as_mut().and_then(|disk| disk.look(init, groups, stands))
    }
}

/// How long it takes at least until so many bytes are used.
fn soonest(bytes: u64) -> Duration {
    let micros = bytes / (SPEED / 1_000_000);
    Duration::from_micros(micros).clamp(LEAST, MOST)
}
