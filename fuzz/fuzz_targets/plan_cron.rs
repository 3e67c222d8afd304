//! No text makes the reader of schedules stumble, and every line that it takes has a next slot, which is also the latest then.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plans::schedule::{CatchUp, Cron, Due, Schedule, Zone};

fuzz_target!(|input: (&str, &str, i64)| {
    let (cron, zone, at) = input;
    let (cron, zone) = (cron.parse::<Cron>(), zone.parse::<Zone>());
    let Ok(cron) = cron else { return };
    assert_eq!(cron.to_string().parse::<Cron>().as_ref(), Ok(&cron));
    let zone = zone.unwrap_or_else(|_| "Europe/Berlin".parse().expect("a zone"));
    let id = "fuzzed".parse().expect("a name");
    let schedule = Schedule { id, cron, zone, catch_up: CatchUp::One, since: i64::MIN };
    // From 1970 to 2300; beyond the calendar there is nothing.
    let at = at.rem_euclid(10_413_792_000_000);
    if let Some(next) = schedule.next(at) {
        assert!(next > at);
        assert!(matches!(schedule.due(next), Due::Begin { slot, .. } if slot == next));
    }
    let _ = schedule.next(i64::MAX);
    let _ = schedule.due(i64::MIN);
});
