//! Finds the moments that a line of cron names, by the clock of a place.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp};
use serde::{Deserialize, Serialize};

use super::cron::Cron;
use crate::run::Millis;

/// How many days are looked at: the 29th of February is a certain day of the week every 40 years at least.
const MOST_DAYS: i32 = 41 * 366;

/// Why a text is no time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no time zone; write one like `Europe/Berlin` or `UTC`", .0.escape_debug())]
pub struct BadZone(String);

/// A time zone of the IANA database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(TimeZone);

impl FromStr for Zone {
    type Err = BadZone;

    fn from_str(text: &str) -> Result<Self, BadZone> {
        let bad = || BadZone(text.chars().take(64).collect());
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
        if text.is_empty() || text.len() > 64 || !text.bytes().all(fits) {
            return Err(bad());
        }
        let zone = TimeZone::get(text).map_err(|_| bad())?;
        if zone.iana_name().is_some() { Ok(Self(zone)) } else { Err(bad()) }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0.iana_name().unwrap_or("UTC"))
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> Self {
        zone.to_string()
    }
}

impl TryFrom<String> for Zone {
    type Error = BadZone;
    fn try_from(text: String) -> Result<Self, BadZone> {
        text.parse()
    }
}

impl Zone {
    /// The first moment after this one.
    pub(super) fn next(&self, cron: &Cron, after: Millis) -> Option<Millis> {
        let day = self.day_of(after)?;
        // What is skipped on one day can come on the next.
        self.search(cron, day.checked_sub(Span::new().days(1)).ok()?, 1, |slots| {
            slots.filter(|slot| *slot > after).min()
        })
    }

    /// The last moment that is not after this one.
    pub(super) fn latest(&self, cron: &Cron, until: Millis) -> Option<Millis> {
        let day = self.day_of(until)?;
        let found = self.search(cron, day, -1, |slots| slots.filter(|slot| *slot <= until).max());
        // The day before may reach over midnight, where the clock skips it.
        let before = day.checked_sub(Span::new().days(1)).ok()?;
        let over = self.of_day(cron, before).filter(|slot| *slot <= until).max();
        found.max(over)
    }

    fn day_of(&self, moment: Millis) -> Option<Date> {
        Some(self.0.to_datetime(Timestamp::from_millisecond(moment).ok()?).date())
    }

    /// Looks at one day after the other until something is found.
    fn search(
        &self,
        cron: &Cron,
        first: Date,
        step: i32,
        choose: impl Fn(&mut dyn Iterator<Item = Millis>) -> Option<Millis>,
    ) -> Option<Millis> {
        let mut day = first;
        for _ in 0..MOST_DAYS {
            if let Some(found) = choose(&mut self.of_day(cron, day)) {
                return Some(found);
            }
            day = day.checked_add(Span::new().days(step)).ok()?;
        }
        None
    }

    /// The moments of a day.
    fn of_day<'a>(&'a self, cron: &'a Cron, day: Date) -> impl Iterator<Item = Millis> + 'a {
        let weekday = day.weekday().to_sunday_zero_offset();
        let is_named = cron.names_day(day.month(), day.day(), weekday);
        let times = is_named.then(|| cron.times()).into_iter().flatten();
        times
            .flat_map(move |(hour, minute)| self.moments(day.at(hour, minute, 0, 0), cron.is_of_every_hour()))
    }

    /// The moments at which the clock shows this time, or the one that is taken in their place.
    fn moments(&self, time: DateTime, of_every_hour: bool) -> Vec<Millis> {
        let at = |offset: jiff::tz::Offset| offset.to_timestamp(time).ok();
        let found = match self.0.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } => vec![at(offset)],
            AmbiguousOffset::Gap { .. } if of_every_hour => Vec::new(),
            // By the later rules the time has not come yet when the clock is moved.
            AmbiguousOffset::Gap { after, .. } => {
                let moved = at(after).and_then(|moment| self.0.following(moment).next());
                vec![moved.map(|moved| moved.timestamp())]
            }
            AmbiguousOffset::Fold { before, after } if of_every_hour => vec![at(before), at(after)],
            AmbiguousOffset::Fold { before, .. } => vec![at(before)],
        };
        found.into_iter().flatten().map(|moment| moment.as_millisecond()).collect()
    }
}
