//! ORC-15, AUT-06 and AUT-07, as far as they need no daemon: schedules keep wall-clock time, missed and double runs are handled.
#![expect(clippy::unwrap_used, reason = "times of the test are what they say")]

use jiff::Timestamp;
use plans::RunId;
use plans::schedule::{CatchUp, Cron, Due, Schedule, Zone};
use proptest::prelude::*;

fn millis(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

fn schedule(cron: &str, zone: &str) -> Schedule {
    Schedule {
        id: "nightly".parse().unwrap(),
        cron: cron.parse().unwrap(),
        zone: zone.parse().unwrap(),
        catch_up: CatchUp::One,
        since: 0,
    }
}

/// So many slots after a moment, in UTC.
fn slots(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = schedule(cron, zone);
    let mut at = millis(after);
    let next = || {
        at = schedule.next(at)?;
        Some(Timestamp::from_millisecond(at).unwrap().to_string())
    };
    std::iter::from_fn({
        let mut next = next;
        move || next()
    })
    .take(count)
    .collect()
}

#[test]
fn aut_06_ordinary_slots() {
    assert_eq!(
        slots("30 9 * * mon-fri", "Europe/Berlin", "2026-11-13T08:30:00Z", 2),
        ["2026-11-16T08:30:00Z", "2026-11-17T08:30:00Z"]
    );
    assert_eq!(
        slots("*/20 * * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", 3),
        ["2026-01-01T00:10:00Z", "2026-01-01T00:30:00Z", "2026-01-01T00:50:00Z"]
    );
    // The 13th or a Friday, as cron has always done.
    assert_eq!(
        slots("0 0 13 * fri", "UTC", "2026-11-01T00:00:00Z", 3),
        ["2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z"]
    );
    assert_eq!(
        slots("0 0 29 2 *", "UTC", "2097-01-01T00:00:00Z", 2),
        ["2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"]
    );
    // The 29th of February that is a Sunday: a field that begins with a star narrows.
    assert_eq!(slots("0 0 29 2 */7", "UTC", "2052-02-29T00:00:00Z", 1), ["2060-02-29T00:00:00Z"]);
}

/// Both changes of the clocks, in three zones: one of them by half an hour, one in the south.
#[test]
fn aut_06_a_time_that_is_skipped_is_taken_at_the_first_moment_after() {
    for (zone, cron, before, expected) in [
        // 02:00 -> 03:00 on the 29th of March.
        (
            "Europe/Berlin",
            "30 2 * * *",
            "2026-03-28T00:00:00Z",
            ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
        ),
        // 02:00 -> 03:00 on the 8th of March.
        (
            "America/New_York",
            "15,45 2 * * *",
            "2026-03-07T08:00:00Z",
            ["2026-03-08T07:00:00Z", "2026-03-09T06:15:00Z", "2026-03-09T06:45:00Z"],
        ),
        // 02:00 -> 02:30 on the 4th of October.
        (
            "Australia/Lord_Howe",
            "10 2 * * *",
            "2026-10-02T16:00:00Z",
            ["2026-10-03T15:30:00Z", "2026-10-04T15:10:00Z", "2026-10-05T15:10:00Z"],
        ),
    ] {
        assert_eq!(slots(cron, zone, before, 3), expected, "{zone}");
    }
    // A whole day is skipped: Samoa had no 30th of December 2011.
    assert_eq!(
        slots("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", 3),
        ["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]
    );
}

#[test]
fn aut_06_a_time_that_comes_twice_is_taken_the_first_time() {
    for (zone, cron, before, expected) in [
        // 03:00 -> 02:00 on the 25th of October.
        (
            "Europe/Berlin",
            "30 2 * * *",
            "2026-10-24T12:00:00Z",
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        ),
        // 02:00 -> 01:00 on the 1st of November.
        (
            "America/New_York",
            "30 1 * * *",
            "2026-10-31T12:00:00Z",
            ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
        ),
        // 02:00 -> 01:30 on the 5th of April.
        (
            "Australia/Lord_Howe",
            "45 1 * * *",
            "2026-04-04T00:00:00Z",
            ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"],
        ),
    ] {
        assert_eq!(slots(cron, zone, before, 2), expected, "{zone}");
    }
}

#[test]
fn aut_06_a_schedule_of_every_hour_follows_the_time_that_passes() {
    for (zone, change) in [
        ("Europe/Berlin", "2026-03-29T01:00:00Z"),
        ("Europe/Berlin", "2026-10-25T01:00:00Z"),
        ("America/New_York", "2026-03-08T07:00:00Z"),
        ("America/New_York", "2026-11-01T06:00:00Z"),
    ] {
        let schedule = schedule("*/15 * * * *", zone);
        let mut at = millis(change) - 2 * 3_600_000;
        for _ in 0..16 {
            let next = schedule.next(at).unwrap();
            assert_eq!(next - at, 15 * 60_000, "{zone} {change}");
            at = next;
        }
    }
}

#[test]
fn orc_15_after_downtime_exactly_one_run_is_made_up_for() {
    let mut schedule = schedule("0 * * * *", "Europe/Berlin");
    schedule.since = millis("2026-03-28T12:00:00Z");
    // A day and a half later, over a change of the clocks.
    let now = millis("2026-03-29T23:20:00Z");
    let Due::Begin { slot, run } = schedule.due(now) else { panic!() };
    assert_eq!(slot, millis("2026-03-29T23:00:00Z"));
    assert_eq!(run, RunId::of_slot(&schedule.id, slot));
    schedule.since = slot;
    assert_eq!(schedule.due(now), Due::Nothing);
    assert_eq!(schedule.due(millis("2026-03-29T23:59:59Z")), Due::Nothing);
    assert!(matches!(schedule.due(millis("2026-03-30T00:00:00Z")), Due::Begin { .. }));
    // A schedule that was just written has missed nothing.
    schedule.since = now;
    assert_eq!(schedule.due(now), Due::Nothing);
    // Nobody wants to be late.
    schedule.catch_up = CatchUp::None;
    schedule.since = millis("2026-03-28T12:00:00Z");
    assert_eq!(schedule.due(now), Due::Missed { slot });
    let in_time = millis("2026-03-29T23:00:30Z");
    assert!(matches!(schedule.due(in_time), Due::Begin { .. }));
}

/// AUT-07: two daemons that look at a thousand slots, each when it likes, have one name for each.
#[test]
fn aut_07_two_daemons_start_one_run_for_each_slot() {
    let one = schedule("*/7 3-22 * * *", "America/New_York");
    let mut at = millis("2026-10-31T00:00:00Z");
    let mut names = std::collections::BTreeSet::new();
    for number in 0..1_000_i64 {
        let slot = one.next(at).unwrap();
        let (mut first, mut second) = (one.clone(), one.clone());
        (first.since, second.since) = (at, at);
        let late = (number * 7_919) % 30_000;
        let (first, second) = (first.due(slot), second.due(slot + late));
        assert_eq!(first, second);
        let Due::Begin { run, .. } = first else { panic!() };
        assert!(names.insert(run));
        at = slot;
    }
    assert_eq!(names.len(), 1_000);
}

#[test]
fn a_year_of_missed_minutes_costs_no_more_than_one() {
    let mut minutely = schedule("* * * * *", "Europe/Berlin");
    minutely.since = millis("2020-01-01T00:00:00Z");
    let now = millis("2026-06-15T12:34:56Z");
    let Due::Begin { slot, .. } = minutely.due(now) else { panic!() };
    assert_eq!(slot, millis("2026-06-15T12:34:00Z"));
}

#[test]
fn what_is_no_time_zone_is_refused() {
    for bad in [
        "",
        "Berlin",
        "+02:00",
        "Europe/Berlin\n",
        "../../etc/passwd",
        "CET-1CEST",
        &"A".repeat(100),
        "/etc/localtime",
        "local",
    ] {
        assert!(bad.parse::<Zone>().is_err(), "{bad:?}");
    }
    for good in ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+3"] {
        assert_eq!(good.parse::<Zone>().unwrap().to_string(), good);
    }
}

#[test]
fn what_is_kept_of_a_schedule_is_all_of_it() {
    let kept = serde_json::to_string(&schedule("0 9 * * 1-5", "Europe/Berlin")).unwrap();
    assert_eq!(
        kept,
        r#"{"id":"nightly","cron":"0 9 * * 1-5","zone":"Europe/Berlin","catchUp":"one","since":0}"#
    );
    assert_eq!(serde_json::from_str::<Schedule>(&kept).unwrap(), schedule("0 9 * * 1-5", "Europe/Berlin"));
    assert!(serde_json::from_str::<Schedule>(&kept.replace("1-5", "1-9")).is_err());
}

fn cron() -> impl Strategy<Value = String> {
    let field = |most: u8| {
        prop_oneof![
            2 => Just("*".to_owned()),
            2 => (0..=most).prop_map(|one| one.to_string()),
            1 => (1..=30_u8).prop_map(|step| format!("*/{step}")),
            1 => (0..=most, 0..=most).prop_map(|(one, other)| format!("{}-{}", one.min(other), one.max(other))),
        ]
    };
    (field(59), field(23), field(31), field(12), field(7))
        .prop_map(|(a, b, c, d, e)| format!("{a} {b} {c} {d} {e}"))
}

proptest! {
    /// The next slot and the latest one are two ways to ask the same.
    #[test]
    fn slots_are_the_same_in_both_directions(
        cron in cron(),
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]),
        at in 1_300_000_000_000_i64..2_500_000_000_000,
    ) {
        let Ok(cron) = cron.parse::<Cron>() else { return Ok(()) };
        let mut schedule = schedule("0 0 * * *", zone);
        schedule.cron = cron;
        schedule.since = i64::MIN;
        let Some(next) = schedule.next(at) else { return Ok(()) };
        prop_assert!(next > at);
        let due = |schedule: &Schedule, now| match schedule.due(now) {
            Due::Begin { slot, .. } | Due::Missed { slot } => Some(slot),
            Due::Nothing => None,
        };
        prop_assert_eq!(due(&schedule, next), Some(next));
        let before = due(&schedule, next - 1);
        prop_assert!(before.is_none_or(|before| before <= at), "{before:?} {at} {next}");
        if let Some(before) = before {
            prop_assert_eq!(schedule.next(before), Some(next));
        }
    }

    #[test]
    fn no_text_makes_the_reader_of_cron_stumble(text in "\\PC{0,60}", close in "[0-9*/,@a-z -]{0,40}") {
        for text in [text, close] {
            if let Ok(cron) = text.parse::<Cron>() {
                prop_assert_eq!(cron.to_string().parse::<Cron>().unwrap(), cron);
            }
        }
    }
}
