//! From what a person types to a moment: a date, a time as RFC 3339 has it, or how long ago.
//!
//! The opposite is `output::moment`, and what that prints is understood here. Invariant: what is not understood
//! is refused, never guessed; a time without a zone is UTC only where it is a whole day.

use crate::session::now;

/// Milliseconds since 1970.
pub(crate) fn parse(text: &str) -> Result<i64, String> {
    let found = ago(text).map(|millis| now().saturating_sub(millis)).or_else(|| moment(text));
    found.ok_or_else(|| {
        "expected a time like 2026-11-15T09:00:00Z, a date, or how long ago like 2h".to_owned()
    })
}

/// The same for what is to come: `30d` is thirty days from now.
pub(crate) fn ahead(text: &str) -> Result<i64, String> {
    let found = ago(text).map(|millis| now().saturating_add(millis)).or_else(|| moment(text));
    found.ok_or_else(|| {
        "expected a time like 2026-11-15T09:00:00Z, a date, or how long from now like 30d".to_owned()
    })
}

/// `90s`, `30m`, `2h`, `7d`.
fn ago(text: &str) -> Option<i64> {
    let units = [('s', 1_000), ('m', 60_000), ('h', 3_600_000), ('d', 86_400_000)];
    let (unit, millis) = units.into_iter().find(|(unit, _)| text.ends_with(*unit))?;
    digits(text.strip_suffix(unit)?, 1, 9)?.checked_mul(millis)
}

/// `2026-11-15`, `2026-11-15T09:42:48Z`, `2026-11-15 09:42:48.5+01:00`.
fn moment(text: &str) -> Option<i64> {
    let text = text.to_ascii_uppercase();
    let Some((date, time)) = text.split_once(['T', ' ']) else { return Some(day(&text)? * 86_400_000) };
    let (clock, offset) = match time.strip_suffix('Z') {
        Some(clock) => (clock, 0),
        None => {
            let sign = time.rfind(['+', '-'])?;
            let (clock, zone) = time.split_at_checked(sign)?;
            let ahead = if zone.starts_with('+') { 1 } else { -1 };
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            (clock, ahead * (below(hours, 24)? * 60 + below(minutes, 60)?))
        }
    };
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    digits(fraction, 1, 9)?;
    let thousandths: String = fraction.chars().chain("00".chars()).take(3).collect();
    let mut parts = whole.split(':');
    let (hours, minutes) = (below(parts.next()?, 24)?, below(parts.next()?, 60)?);
    // A leap second is counted as the one after it.
    let seconds = below(parts.next()?, 61)?;
    let minutes = hours * 60 + minutes - offset;
    let rest = (minutes * 60 + seconds) * 1_000 + thousandths.parse::<i64>().ok()?;
    parts.next().is_none().then_some(day(date)? * 86_400_000 + rest)
}

/// Days from 1970 to `YYYY-MM-DD`, by the calendar's 400-year cycle.
fn day(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let year = digits(parts.next()?, 4, 4)?;
    let (month, day) = (below(parts.next()?, 13)?, below(parts.next()?, 32)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return None,
    };
    if parts.next().is_some() || day == 0 || day > length {
        return None;
    }
    // The year begins in March, so that the day that comes and goes is its last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    let of_era = year.rem_euclid(400);
    Some(year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Two digits that are less than this.
fn below(text: &str, bound: i64) -> Option<i64> {
    digits(text, 2, 2).filter(|number| *number < bound)
}

fn digits(text: &str, least: usize, most: usize) -> Option<i64> {
    let fits = (least..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output;

    #[test]
    fn aut_14_a_time_is_understood_as_rfc_3339_has_it() {
        for (text, millis) in [
            ("1970-01-01", 0),
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2000-02-29", 951_782_400_000),
            ("2026-11-15T09:42:48.74Z", 1_794_735_768_740),
            ("2026-11-15t10:42:48.740999+01:00", 1_794_735_768_740),
            ("2026-11-14 21:12:48.740-12:30", 1_794_735_768_740),
            ("2026-11-15T09:42:60Z", 1_794_735_780_000),
        ] {
            assert_eq!(parse(text), Ok(millis), "{text}");
        }
    }

    #[test]
    fn aut_14_what_is_printed_is_understood_again() {
        for days in (-25_000..40_000).step_by(7) {
            let millis = days * 86_400_000 + 12_345_000;
            assert_eq!(parse(&output::moment(millis)), Ok(millis), "{}", output::moment(millis));
        }
    }

    #[test]
    fn aut_14_how_long_ago_is_counted_from_now() {
        for (text, millis) in [("90s", 90_000), ("30m", 1_800_000), ("2h", 7_200_000), ("7d", 604_800_000)] {
            let before = now() - millis;
            assert!((before..before + 5_000).contains(&parse(text).unwrap()), "{text}");
        }
    }

    #[test]
    fn aut_14_what_is_no_time_is_refused() {
        for text in [
            "",
            "now",
            "h",
            "-2h",
            "2y",
            "1.5h",
            "9999999999s",
            "1794735768740",
            "2026-11-15T09:42:48",
            "2026-11-15T09:42Z",
            "2026-11-15T24:00:00Z",
            "2026-11-15T09:60:00Z",
            "2026-11-15T09:00:00.Z",
            "2026-11-15T09:00:00:00Z",
            "2026-11-15T09:00:00+0100",
            "2026-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-11-00",
            "2026-11-31",
            "2026-11-15-01",
            "26-11-15",
            "２０２６-11-15",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
