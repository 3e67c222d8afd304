//! Turns a line of cron and a time zone into the moments at which a run begins.
//!
//! Invariants: a schedule keeps wall-clock time. A time that the clock skips is taken at the first moment after; one that it shows
//! twice is taken the first time; a schedule of every hour follows the time that passes, and does neither. However long nobody looked, at
//! most one run is due: that of the latest slot. The name of a run follows from the schedule and the slot.
//!
//! The rules of time zones come with the program. Not here: who may write a schedule, as whom its runs act, and when it is looked at.

mod cron;
mod slots;

use serde::{Deserialize, Serialize};

pub use cron::{BadCron, Cron};
pub use slots::{BadZone, Zone};

use crate::name::{RunId, ScheduleId};
use crate::run::Millis;

/// How late a run may begin and still be on time: schedules are looked at every 30 seconds or oftener.
const ON_TIME: Millis = 90_000;

/// What becomes of slots that nobody looked at in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CatchUp {
    /// The latest is begun late.
    #[default]
    One,
    /// None is.
    None,
}

/// When a plan is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Schedule {
    /// Its name.
    pub id: ScheduleId,
    /// When.
    pub cron: Cron,
    /// By which clock.
    pub zone: Zone,
    /// What becomes of slots that were missed.
    #[serde(default)]
    pub catch_up: CatchUp,
    /// The last slot that was dealt with, or when the schedule was written or changed: nothing before is due.
    pub since: Millis,
}

/// What is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// This slot; earlier ones that were missed are not. Afterwards it is `since`.
    Begin {
        /// The slot.
        slot: Millis,
        /// The run that it is.
        run: RunId,
    },
    /// This slot was missed, and is not made up for. Afterwards it is `since`.
    Missed {
        /// The slot.
        slot: Millis,
    },
}

impl Schedule {
    /// The first slot after a moment.
    #[must_use]
    pub fn next(&self, after: Millis) -> Option<Millis> {
        self.zone.next(&self.cron, after)
    }

    /// What is due now.
    #[must_use]
    pub fn due(&self, now: Millis) -> Due {
        let Some(slot) = self.zone.latest(&self.cron, now).filter(|slot| *slot > self.since) else {
            return Due::Nothing;
        };
        if self.catch_up == CatchUp::None && now.saturating_sub(slot) > ON_TIME {
            return Due::Missed { slot };
        }
        Due::Begin { slot, run: RunId::of_slot(&self.id, slot) }
    }
}
