//! Turns five fields of text into sets of minutes, hours, days, months and weekdays.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest line.
const MOST_BYTES: usize = 512;

/// Why a line is no cron.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCron {
    /// Not five fields.
    #[error("{0} fields; write five: minute, hour, day of the month, month, day of the week")]
    Fields(usize),
    /// Much too long, or an `@word`.
    #[error("not five fields of cron; write minute, hour, day of the month, month, day of the week")]
    Line,
    /// A field that makes no sense.
    #[error("the {field} `{}` makes no sense; {field}s are {least} to {most}, as in `*`, `5`, `1-5`, `*/2`, `1-9/2`, `1,3`", .found.escape_debug())]
    Field {
        /// Which.
        field: &'static str,
        /// As written.
        found: String,
        /// The least.
        least: u8,
        /// The most.
        most: u8,
    },
    /// The 30th of February.
    #[error("that day never comes")]
    Never,
}

/// When something happens, by a clock on the wall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cron {
    text: String,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether either day is enough, as when both are named.
    either_day: bool,
}

struct Field {
    name: &'static str,
    least: u8,
    most: u8,
    words: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", least: 0, most: 59, words: &[] };
const HOUR: Field = Field { name: "hour", least: 0, most: 23, words: &[] };
const DAY: Field = Field { name: "day of the month", least: 1, most: 31, words: &[] };
const MONTH: Field = Field {
    name: "month",
    least: 1,
    most: 12,
    words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAY: Field = Field {
    name: "day of the week",
    least: 0,
    most: 7,
    words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};
/// The most days that each month has.
const LENGTHS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const ALL_HOURS: u64 = (1 << 24) - 1;

impl Field {
    fn read(&self, text: &str) -> Result<u64, BadCron> {
        let mut set = 0;
        for part in text.split(',') {
            set |= self.part(part).ok_or_else(|| BadCron::Field {
                field: self.name,
                found: text.chars().take(40).collect(),
                least: self.least,
                most: self.most,
            })?;
        }
        Ok(set)
    }

    fn part(&self, text: &str) -> Option<u64> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, digits(step).filter(|step| *step > 0)?),
            None => (text, 1),
        };
        let (least, most) = match range.split_once('-') {
            _ if range == "*" => (self.least, self.most),
            Some((least, most)) => (self.value(least)?, self.value(most)?),
            // A step goes with a range.
            None if text.contains('/') => return None,
            None => self.value(range).map(|one| (one, one))?,
        };
        if least > most {
            return None;
        }
        Some((least..=most).step_by(usize::from(step)).fold(0, |set, one| set | bit(u32::from(one))))
    }

    fn value(&self, text: &str) -> Option<u8> {
        let word = self.words.iter().position(|word| word.eq_ignore_ascii_case(text));
        let value = match word {
            Some(place) => u8::try_from(place).ok()?.checked_add(self.least)?,
            None => digits(text)?,
        };
        (self.least..=self.most).contains(&value).then_some(value)
    }
}

/// One or two digits.
fn digits(text: &str) -> Option<u8> {
    let fits = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

fn bit(place: u32) -> u64 {
    1_u64.checked_shl(place).unwrap_or(0)
}

fn has(set: u64, place: i8) -> bool {
    u32::try_from(place).is_ok_and(|place| set & bit(place) != 0)
}

impl FromStr for Cron {
    type Err = BadCron;

    fn from_str(text: &str) -> Result<Self, BadCron> {
        if text.len() > MOST_BYTES || text.trim_start().starts_with('@') || !text.is_ascii() {
            return Err(BadCron::Line);
        }
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(BadCron::Fields(fields.len()));
        };
        let mut weekdays = WEEKDAY.read(weekday)?;
        // Sunday has two numbers.
        if has(weekdays, 7) {
            weekdays = (weekdays | bit(0)) & !bit(7);
        }
        let cron = Self {
            minutes: MINUTE.read(minute)?,
            hours: HOUR.read(hour)?,
            days: DAY.read(day)?,
            months: MONTH.read(month)?,
            weekdays,
            // As cron has always done: a field that begins with a star names no day.
            either_day: !day.starts_with('*') && !weekday.starts_with('*'),
            text: fields.join(" "),
        };
        let comes = LENGTHS.iter().zip(1_u32..).any(|(length, month)| {
            cron.months & bit(month) != 0 && (1..=*length).any(|day| cron.days & bit(day) != 0)
        });
        if comes || cron.either_day { Ok(cron) } else { Err(BadCron::Never) }
    }
}

impl Cron {
    /// Whether it names every hour: then it follows the time that passes, not the clock on the wall.
    pub(super) fn is_of_every_hour(&self) -> bool {
        self.hours == ALL_HOURS
    }

    /// Whether it names a day. Weekdays count from Sunday.
    pub(super) fn names_day(&self, month: i8, day: i8, weekday: i8) -> bool {
        let (by_day, by_weekday) = (has(self.days, day), has(self.weekdays, weekday));
        has(self.months, month) && if self.either_day { by_day || by_weekday } else { by_day && by_weekday }
    }

    /// Each hour and minute that it names.
    pub(super) fn times(&self) -> impl DoubleEndedIterator<Item = (i8, i8)> {
        let hours = (0..24).filter(|hour| has(self.hours, *hour));
        hours.flat_map(|hour| {
            (0..60).filter(|minute| has(self.minutes, *minute)).map(move |minute| (hour, minute))
        })
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl From<Cron> for String {
    fn from(cron: Cron) -> Self {
        cron.text
    }
}

impl TryFrom<String> for Cron {
    type Error = BadCron;
    fn try_from(text: String) -> Result<Self, BadCron> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_what_cron_says() {
        let cron: Cron = "*/15 9-17/4 1,15 JAN-mar mon".parse().unwrap();
        assert_eq!(cron.times().take(5).collect::<Vec<_>>(), [(9, 0), (9, 15), (9, 30), (9, 45), (13, 0)]);
        assert!(cron.names_day(1, 15, 3) && cron.names_day(2, 9, 1) && !cron.names_day(4, 1, 1));
        let sunday: Cron = "0 0 * * 7".parse().unwrap();
        assert!(sunday.names_day(5, 5, 0) && !sunday.names_day(5, 5, 1));
        assert_eq!("  5   4 * * 0 ".parse::<Cron>().unwrap().to_string(), "5 4 * * 0");
    }

    #[test]
    fn what_is_no_cron_is_refused_and_says_why() {
        for (text, told) in [
            ("", "0 fields"),
            ("* * * *", "4 fields"),
            ("* * * * * *", "6 fields"),
            ("@daily", "not five fields"),
            ("60 * * * *", "the minute `60`"),
            ("* 24 * * *", "the hour `24`"),
            ("* * 0 * *", "the day of the month `0`"),
            ("* * * 13 *", "the month `13`"),
            ("* * * * 8", "the day of the week `8`"),
            ("5-1 * * * *", "the minute `5-1`"),
            ("*/0 * * * *", "the minute `*/0`"),
            ("5/2 * * * *", "the minute `5/2`"),
            ("1,,2 * * * *", "the minute `1,,2`"),
            ("+5 * * * *", "the minute"),
            ("-1 * * * *", "the minute"),
            ("٥ * * * *", "not five fields"),
            ("999999999999 * * * *", "the minute"),
            ("0 0 30 2 *", "never comes"),
            ("0 0 31 4,6,9,11 *", "never comes"),
        ] {
            let error = text.parse::<Cron>().unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
        assert!("0 0 30 2 mon".parse::<Cron>().is_ok());
        assert!("1,".repeat(300).parse::<Cron>().is_err());
    }
}
