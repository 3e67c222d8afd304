//! What redaction costs, in few crates and in a minute: `cargo bench -p corpus`, or `-- known`, `-- hostile`, `-- seeds`, `-- event`.
//!
//! The same texts as `bench` measures. The two sides take turns, and the median of the ratios of the turns counts: the clock of
//! the machine moves, and it moves for both. `-- loop clean|known|signed|salted|HOSTILE` only runs one of them, for a
//! profiler; `-- loop seed SEED` and `-- loop lines SEED` one of those that the tests of `redact` have.
#![expect(clippy::print_stdout, reason = "a bench prints")]
#![expect(clippy::cast_precision_loss, clippy::expect_used, reason = "a report")]

#[path = "../../../crates/redact/tests/common/seeds.rs"]
mod seeds;

use std::hint::black_box;
use std::time::Instant;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use redact::Redactor;

const TEXT: usize = 4 << 20;
const EVENT: usize = 4096;
const VALUES: usize = 10_000;
const HOSTILE: usize = 1 << 20;
const SEEDED: usize = 256 << 10;
const TURNS: usize = 31;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let asked = |name: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == name);
    let plain = redactor();
    let clean = corpus::transcript(corpus::HELD_OUT, TEXT);
    let salted = corpus::salted(corpus::HELD_OUT, &clean, 1024);
    if arguments.first().is_some_and(|first| first == "loop") {
        let what = arguments.get(1).map_or("clean", String::as_str);
        return match (what, arguments.get(2)) {
            ("seed", Some(seed)) => repeat(&plain, &seed.repeat(TEXT / seed.len().max(1))),
            ("lines", Some(seed)) => repeat(&plain, &format!("{seed}\n").repeat(TEXT / (seed.len() + 1))),
            _ => run(what, &clean, &salted),
        };
    }
    if asked("bare") {
        against_bare(&plain, &clean, &salted);
    }
    if asked("known") {
        let signed = knowing(&corpus::known_values_with_signs(corpus::HELD_OUT, VALUES));
        let knowing = knowing(&corpus::known_values(corpus::HELD_OUT, VALUES));
        for (name, redactor) in [("", &knowing), (", one of 20 with signs", &signed)] {
            let pairs = in_turns(|| scrubbed(redactor, &clean), || scrubbed(&plain, &clean));
            told(&format!("10,000 known values{name} / none"), &pairs);
        }
    }
    if asked("event") {
        for (name, text) in [("clean", &clean), ("four secrets in it", &salted)] {
            event(&plain, name, text);
        }
    }
    if asked("hostile") {
        hostile(&plain, &clean);
    }
    if asked("seeds") {
        begun(&plain, &clean);
    }
}

fn redactor() -> Redactor {
    Redactor::new().with_home_paths()
}

fn knowing(values: &[String]) -> Redactor {
    let knowing = redactor();
    let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
    knowing.learn_all(&values).expect("these can be learned");
    knowing
}

fn scrubbed(redactor: &Redactor, text: &str) -> usize {
    redactor.scrub(black_box(text)).len()
}

fn against_bare(redactor: &Redactor, clean: &str, salted: &str) {
    let dfa = Some(AhoCorasickKind::DFA);
    let bare = AhoCorasick::builder().ascii_case_insensitive(true).kind(dfa).build(redact::literals());
    let bare = bare.expect("a few literals");
    for (name, text) in [("clean", clean), ("one secret per KiB", salted)] {
        let pairs = in_turns(|| bare.find_iter(black_box(text)).count(), || scrubbed(redactor, text));
        told(&format!("speed of {name} / of bare aho-corasick"), &pairs);
    }
}

fn event(redactor: &Redactor, name: &str, text: &str) {
    let (mut events, mut rest) = (Vec::new(), text);
    while rest.len() > EVENT {
        let (one, after) = rest.split_at(rest.floor_char_boundary(EVENT));
        events.push(one);
        rest = after;
    }
    let all = || events.iter().map(|event| scrubbed(redactor, event)).sum();
    let mut times: Vec<f64> = (0..TURNS).map(|_| time(&all) / events.len() as f64 / 1e3).collect();
    println!("one event of 4 KiB, {name}: {:.1} us; the fastest turn {:.1} us", median(&mut times), times[0]);
}

fn hostile(redactor: &Redactor, clean: &str) {
    for word in corpus::HOSTILE {
        let text = word.repeat(HOSTILE / word.len());
        let one = clean.get(..clean.floor_char_boundary(text.len())).unwrap_or(clean);
        let pairs = in_turns(|| scrubbed(redactor, &text), || scrubbed(redactor, one));
        told(&format!("hostile {word:?} / clean"), &pairs);
    }
}

/// How many of the seeds take more than twice as long as clean text, and which most (SEC-20).
fn begun(redactor: &Redactor, clean: &str) {
    let clean = clean.get(..clean.floor_char_boundary(SEEDED)).unwrap_or(clean);
    let mut ratios = Vec::new();
    for (name, newline) in [("one line", ""), ("lines", "\n")] {
        for seed in seeds::SEEDS {
            let text = format!("{seed}{newline}").repeat(SEEDED / (seed.len() + newline.len()));
            // The fastest turn of each: what others do to the machine meanwhile only makes turns slower.
            let pairs = in_turns(|| scrubbed(redactor, &text), || scrubbed(redactor, clean));
            let (ours, reference) = fastest(&pairs);
            ratios.push((ours / reference * clean.len() as f64 / text.len() as f64, seed, name));
        }
    }
    ratios.sort_by(|a, b| b.0.total_cmp(&a.0));
    let slow = ratios.iter().filter(|(ratio, ..)| *ratio > 2.0).count();
    println!("{slow} of {} seeds take more than twice as long as clean text", ratios.len());
    for (ratio, seed, name) in ratios.iter().take(slow) {
        println!("  {ratio:.2} {seed:?} in {name}");
    }
}

/// For a profiler.
fn run(what: &str, clean: &str, salted: &str) {
    let word = corpus::HOSTILE.iter().find(|word| **word == what);
    let (redactor, text) = match what {
        "known" => (knowing(&corpus::known_values(corpus::HELD_OUT, VALUES)), clean.to_owned()),
        "signed" => (knowing(&corpus::known_values_with_signs(corpus::HELD_OUT, VALUES)), clean.to_owned()),
        "salted" => (redactor(), salted.to_owned()),
        _ => (redactor(), word.map_or_else(|| clean.to_owned(), |word| word.repeat(TEXT / word.len()))),
    };
    repeat(&redactor, &text);
}

fn repeat(redactor: &Redactor, text: &str) {
    let start = Instant::now();
    while start.elapsed().as_secs() < 8 {
        black_box(scrubbed(redactor, text));
    }
}

/// The times of both, in milliseconds, of every turn.
fn in_turns(ours: impl Fn() -> usize, reference: impl Fn() -> usize) -> Vec<(f64, f64)> {
    time(&ours);
    time(&reference);
    (0..TURNS).map(|_| (time(&ours) / 1e6, time(&reference) / 1e6)).collect()
}

/// In nanoseconds of this thread: what others do meanwhile does not count.
fn time(work: &impl Fn() -> usize) -> f64 {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    let start = now();
    black_box(work());
    now() - start
}

fn told(name: &str, pairs: &[(f64, f64)]) {
    let ratio = median(&mut pairs.iter().map(|(ours, reference)| ours / reference).collect::<Vec<_>>());
    let (ours, reference) = fastest(pairs);
    let fastest = ours / reference;
    println!("{name}: {ratio:.2}; the fastest turns {fastest:.2} ({ours:.2} ms, {reference:.2} ms)");
}

/// Of each side.
fn fastest(pairs: &[(f64, f64)]) -> (f64, f64) {
    pairs.iter().fold((f64::MAX, f64::MAX), |a, b| (a.0.min(b.0), a.1.min(b.1)))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
