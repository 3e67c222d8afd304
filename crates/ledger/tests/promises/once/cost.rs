//! What one entry from a short-lived process costs, printed and not asserted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::Once;

use super::user_seed;
use crate::kit::{Book, draft, unscrubbed};

/// `cargo test -p ledger --release once::cost -- --ignored --nocapture`
#[test]
#[ignore = "a measurement: it asserts nothing and takes a while"]
fn cost_of_one_entry() {
    for (place, kind) in [("/dev/shm", "without sync (tmpfs)"), ("/tmp", "with sync (disk)")] {
        for count in [10u64, 200_000] {
            let book = Book::in_dir(tempfile::TempDir::new_in(place).unwrap());
            let keys = Arc::new(user_seed().keys());
            let open = || Once::open(&book.dir(), &keys, unscrubbed()).unwrap().0;
            let filler: Vec<_> = (0..1000).map(real).collect();
            while open().head().seq < count {
                let missing = count - open().head().seq;
                let some = &filler[..usize::try_from(missing.min(1000)).unwrap()];
                open().append(some).unwrap();
            }
            let mut times: Vec<[Duration; 4]> = Vec::new();
            for number in 0..300 {
                let draft = [real(number)];
                let begun = Instant::now();
                let mut once = open();
                let opened = begun.elapsed();
                once.append(&draft).unwrap();
                let appended = begun.elapsed();
                let unsigned = once.head().checkpoint;
                let signed = once.close().unwrap() != unsigned;
                let closed = begun.elapsed();
                let sum = if signed { closed } else { Duration::ZERO };
                times.push([opened, appended - opened, appended, sum]);
            }
            let column = |place: usize| {
                let mut all: Vec<Duration> =
                    times.iter().map(|row| row[place]).filter(|time| !time.is_zero()).collect();
                all.sort_unstable();
                let at = |part: usize| all[all.len() * part / 100].as_micros();
                format!("p50 {} p95 {} us", at(50), at(95))
            };
            println!(
                "{count} entries, {kind}: open {}; append {}; open+append+release {}; the ones that sign {}",
                column(0),
                column(1),
                column(2),
                column(3)
            );
        }
    }
}

/// About as long as the entry of a launch.
fn real(number: usize) -> ledger::Draft {
    (0..12)
        .fold(draft(number), |draft, name| draft.with(format!("name-{name}"), "0123456789abcdef".repeat(3)))
}
