//! How long an effect waits for its record at 1,000 effects a second, against one bare sync of the same disk.
//!
//! An effect is an opening entry, which it waits for, and a closing one, which it does not. Effects are due at
//! fixed times and the wait counts from then, so a slow sync is felt by all that it holds up. The reference
//! is one thread that appends 4 KiB and syncs, over and over; both take turns.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::{Decision, Draft, Keys, Ledger, Options};
use model::{SystemClock, UserId, WorktreeId};
use redact::Redactor;
use zeroize::Zeroizing;

use crate::measure::median;
use crate::report::{Bound, Row};

const RATE: u32 = 1_000;
const WORKERS: u32 = 64;
const ROUNDS: usize = 3;
const SECONDS: u32 = 3;
const BATCH: usize = 4096;

/// The figures, and how to read them.
pub(crate) fn rows(disk: &Path) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let home = tempfile::tempdir_in(disk)?;
    let keys = Keys::new(Zeroizing::new([1; 32]), &Zeroizing::new([2; 32]), "bench");
    let redactor = Redactor::new();
    let scrub = Box::new(move |text: &str| redactor.scrub(text).into_owned());
    let clock = Arc::new(SystemClock);
    let (ledger, _) = Ledger::open(&home.path().join("ledger"), keys, clock, scrub, Options::default())?;
    let (mut middle, mut slow) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for _ in 0..ROUNDS {
        let (mut ours, mut bare) = (paced(&ledger), bare(home.path())?);
        middle.0.push(percentile(&mut ours, 50));
        middle.1.push(percentile(&mut bare, 50));
        slow.0.push(percentile(&mut ours, 95));
        slow.1.push(percentile(&mut bare, 95));
    }
    ledger.close()?;
    let row = |name: &str, (ours, bare): &mut (Vec<f64>, Vec<f64>), bound| Row {
        name: format!("append, {name} at {RATE} effects/s / bare fdatasync"),
        unit: "ms",
        ours: median(ours),
        reference: Some(median(bare)),
        bound,
    };
    let rows = vec![row("p50", &mut middle, Bound::Information), row("p95", &mut slow, Bound::Below(20.0))];
    let note = format!(
        "append: an effect waits for its opening entry and not for its closing one, so {} entries are written a second; \
         waits count from when the effect was due",
        2 * RATE
    );
    Ok((rows, vec![note]))
}

/// Milliseconds that each effect waited for its record.
fn paced(ledger: &Ledger) -> Vec<f64> {
    let start = Instant::now() + Duration::from_millis(20);
    let gap = Duration::from_secs(1) / RATE;
    std::thread::scope(|scope| {
        let work = |worker: u32| {
            let (who, worktree) = (UserId::random().to_string(), WorktreeId::random().to_string());
            let draft =
                move |decision| Draft::new(who.clone(), "worktree.update", decision).on(worktree.clone());
            let numbers = (worker..RATE * SECONDS).step_by(WORKERS as usize);
            numbers
                .map(|number| {
                    let due = start + gap * number;
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let seq = ledger.append(draft(Decision::Allowed).opens()).expect("an entry is recorded");
                    let waited = due.elapsed().as_secs_f64() * 1_000.0;
                    ledger.append_with(draft(Decision::Done).closes(seq), |closed| {
                        closed.expect("the entry is closed");
                    });
                    waited
                })
                .collect::<Vec<f64>>()
        };
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    })
}

/// Milliseconds of each bare append and sync.
fn bare(home: &Path) -> anyhow::Result<Vec<f64>> {
    let mut file = OpenOptions::new().append(true).create(true).open(home.join("bare"))?;
    let (block, start, mut times) = ([b'x'; BATCH], Instant::now(), Vec::new());
    while start.elapsed() < Duration::from_secs(SECONDS.into()) {
        let begun = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        times.push(begun.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(times)
}

/// The value that so many of a hundred do not exceed; sorts what it is given.
pub(crate) fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(place).copied().unwrap_or(f64::NAN)
}
