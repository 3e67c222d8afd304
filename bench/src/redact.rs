//! What redaction costs: against a bare search for the same literals, with secrets, with known values, per event, and
//! on texts made to be slow.

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use redact::Redactor;

use crate::measure;
use crate::report::{Bound, Row};

#[path = "../../crates/redact/tests/common/seeds.rs"]
mod seeds;

const TEXT: usize = 4 << 20;
const EVENT: usize = 4096;
const ROUNDS: usize = 30;
const VALUES: usize = 10_000;
const SEEDED: usize = 128 << 10;

/// The figures, and how to read them.
pub(crate) fn rows() -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let redactor = redactor();
    let clean = corpus::transcript(corpus::HELD_OUT, TEXT);
    let salted = corpus::salted(corpus::HELD_OUT, &clean, 1024);
    // The fastest of its kinds for so few literals.
    let dfa = Some(AhoCorasickKind::DFA);
    let bare = AhoCorasick::builder().ascii_case_insensitive(true).kind(dfa).build(redact::literals())?;
    let mut rows = Vec::new();
    for (name, text, least) in [("clean transcript", &clean, 0.5), ("with one secret per KiB", &salted, 0.2)]
    {
        let pair =
            measure::side_by_side(ROUNDS, || redactor.scrub(text).len(), || bare.find_iter(text).count());
        rows.push(Row {
            name: format!("redact, {name} / bare aho-corasick"),
            unit: "MB/s",
            ours: speed(text.len(), pair.ours),
            reference: Some(speed(text.len(), pair.reference)),
            bound: Bound::RatioAtLeast(least),
        });
    }
    rows.push(with_personal_data(&redactor, &clean));
    let (plain, signed) = (corpus::known_values, corpus::known_values_with_signs);
    for (name, values) in
        [("letters and digits", plain as fn(u64, usize) -> Vec<String>), ("one of 20 with signs", signed)]
    {
        rows.push(with_known_values(&redactor, &clean, name, &values(corpus::HELD_OUT, VALUES))?);
    }
    rows.extend(events(&redactor, &clean, &salted));
    rows.push(hostile(&redactor, &clean));
    rows.extend(begun(&redactor, &clean));
    let marks = redactor.scrub(&salted).matches(redact::MARK).count();
    let note = format!(
        "redact: {} literals, found by `aho-corasick` without regard to case and with a full automaton, its fastest; {:.1} marks per KiB where secrets were put in, \
         {} in {} MiB of clean text; every family of secrets and home paths are on, and what tells of a person only in the row that says so: \
         agents need addresses and hosts in what they read",
        redact::literals().len(),
        marks as f64 / (salted.len() as f64 / 1024.0),
        redactor.scrub(&clean).matches(redact::MARK).count(),
        TEXT >> 20,
    );
    Ok((rows, vec![note]))
}

/// With everything that what is stored passes.
pub(crate) fn redactor() -> Redactor {
    Redactor::new().with_home_paths()
}

/// MB/s, from bytes and nanoseconds.
pub(crate) fn speed(bytes: usize, nanoseconds: f64) -> f64 {
    bytes as f64 * 1_000.0 / nanoseconds
}

/// All that can be on, as for remote models, beside what is on everywhere.
fn with_personal_data(plain: &Redactor, text: &str) -> Row {
    let all = redactor().with_personal_data();
    let pair = measure::side_by_side(ROUNDS, || all.scrub(text).len(), || plain.scrub(text).len());
    Row {
        name: "redact, with personal data too / without".into(),
        unit: "ms",
        ours: pair.ours / 1e6,
        reference: Some(pair.reference / 1e6),
        bound: Bound::Information,
    }
}

fn with_known_values(plain: &Redactor, text: &str, kind: &str, values: &[String]) -> anyhow::Result<Row> {
    let knowing = redactor();
    knowing.learn_all(&values.iter().map(String::as_bytes).collect::<Vec<_>>())?;
    // Learned and in use.
    let last = values.last().map_or("", String::as_str);
    anyhow::ensure!(!knowing.scrub(&format!("({last})")).contains(last), "a known value was not masked");
    let pair = measure::side_by_side(ROUNDS, || knowing.scrub(text).len(), || plain.scrub(text).len());
    Ok(Row {
        name: format!("redact, {} known values, {kind} / none", values.len()),
        unit: "ms",
        ours: pair.ours / 1e6,
        reference: Some(pair.reference / 1e6),
        bound: Bound::RatioAtMost(1.2),
    })
}

/// One event after the other, each of another text.
fn events(redactor: &Redactor, clean: &str, salted: &str) -> Vec<Row> {
    let time = |text: &str| {
        let events = pieces(text);
        let mut turn = 0;
        let one = || {
            turn = (turn + 1) % events.len();
            redactor.scrub(events[turn]).len()
        };
        measure::alone(ROUNDS, one) / 1_000.0
    };
    let row = |name: &str, ours| Row {
        name: format!("redact, one event of 4 KiB, {name}"),
        unit: "us",
        ours,
        reference: None,
        bound: Bound::Below(20.0),
    };
    vec![row("clean", time(clean)), row("four secrets in it", time(salted))]
}

/// Cut between characters.
fn pieces(text: &str) -> Vec<&str> {
    let mut rest = text;
    let mut all = Vec::new();
    while rest.len() > EVENT {
        let (one, after) = rest.split_at(rest.floor_char_boundary(EVENT));
        all.push(one);
        rest = after;
    }
    all
}

/// Texts that begin something over and over and never finish it. The slowest counts (SEC-20).
fn hostile(redactor: &Redactor, clean: &str) -> Row {
    let mut slowest = ("", 0.0);
    let size = 1 << 20;
    for word in corpus::HOSTILE {
        let text = word.repeat(size / word.len());
        let time = measure::alone(3, || redactor.scrub(&text).len()) / text.len() as f64;
        if time > slowest.1 {
            slowest = (word, time);
        }
    }
    let plain = measure::alone(ROUNDS, || redactor.scrub(clean).len()) / clean.len() as f64;
    Row {
        name: format!(
            "redact, the slowest of {} hostile texts ({:?}) / clean",
            corpus::HOSTILE.len(),
            slowest.0
        ),
        unit: "ns/byte",
        ours: slowest.1,
        reference: Some(plain),
        bound: Bound::RatioAtMost(2.0),
    }
}

/// The texts that the tests of `redact` repeat, in one line and in many: how many of them take more than twice as long as clean
/// text, and the slowest (SEC-20).
fn begun(redactor: &Redactor, clean: &str) -> [Row; 2] {
    let plain = measure::alone(ROUNDS, || redactor.scrub(clean).len()) / clean.len() as f64;
    let (mut slowest, mut slow, mut all) = ((String::new(), 0.0), 0_u32, 0_u32);
    for (seed, newline) in seeds::SEEDS.iter().flat_map(|seed| [(seed, ""), (seed, "\n")]) {
        let one = format!("{seed}{newline}");
        let text = one.repeat(SEEDED / one.len());
        let time = measure::alone(3, || redactor.scrub(&text).len()) / text.len() as f64;
        (slow, all) = (slow + u32::from(time > 2.0 * plain), all + 1);
        if time > slowest.1 {
            slowest = (one, time);
        }
    }
    let row = |name, unit, ours, reference| Row { name, unit, ours, reference, bound: Bound::Information };
    [
        row(
            format!("redact, of {all} texts begun over and over, above 2 x clean"),
            "",
            f64::from(slow),
            None,
        ),
        row(
            format!("redact, the slowest of them ({:?}) / clean", slowest.0),
            "ns/byte",
            slowest.1,
            Some(plain),
        ),
    ]
}
