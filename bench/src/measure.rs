//! Turns two closures into two times, taken side by side.
//!
//! The machine is noisy and its clock speed moves, so ours and the reference take turns in short slices and
//! the median slice of each counts. Invariant: both do the same number of rounds, in the same minutes.

use std::time::{Duration, Instant};

/// How long one slice lasts, about.
const SLICE: Duration = Duration::from_millis(10);

/// Nanoseconds per call, the median over all slices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) ours: f64,
    pub(crate) reference: f64,
}

/// Runs both in turns.
pub(crate) fn side_by_side<A, B>(
    rounds: usize,
    mut ours: impl FnMut() -> A,
    mut reference: impl FnMut() -> B,
) -> Pair {
    let (ours_calls, reference_calls) = (calls_per_slice(&mut ours), calls_per_slice(&mut reference));
    let (mut a, mut b) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    for _ in 0..rounds {
        a.push(slice(ours_calls, &mut ours));
        b.push(slice(reference_calls, &mut reference));
    }
    Pair { ours: median(&mut a), reference: median(&mut b) }
}

/// Runs one that has no reference.
pub(crate) fn alone<A>(rounds: usize, mut ours: impl FnMut() -> A) -> f64 {
    let calls = calls_per_slice(&mut ours);
    let mut times: Vec<f64> = (0..rounds).map(|_| slice(calls, &mut ours)).collect();
    median(&mut times)
}

fn slice<A>(calls: u32, work: &mut impl FnMut() -> A) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        std::hint::black_box(work());
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// Warms up and finds how many calls fill a slice.
fn calls_per_slice<A>(work: &mut impl FnMut() -> A) -> u32 {
    let (start, mut calls) = (Instant::now(), 0_u32);
    while start.elapsed() < 3 * SLICE {
        std::hint::black_box(work());
        calls += 1;
    }
    (calls / 3).max(1)
}

/// The middle value; sorts what it is given.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
