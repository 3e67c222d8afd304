//! How fast text goes through, beside a bare search for the same literals: `cargo bench -p redact`.
#![expect(clippy::print_stdout, reason = "a bench prints")]

use std::hint::black_box;
use std::time::Instant;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use redact::Redactor;

const MB: usize = 1 << 20;

fn main() {
    let redactor = Redactor::new();
    let cases = [
        ("prose", "the quick brown fox jumps over the lazy dog and runs away\n".to_owned()),
        ("build log", "   Compiling serde_core v1.0.229 (/home/ana/project/target)\n".to_owned()),
        ("json log", "{\"ts\":1760000000,\"level\":\"info\",\"msg\":\"request done\",\"path\":\"/v1/worktrees\",\"ms\":12}\n".to_owned()),
        ("secrets", "export GITHUB_TOKEN=ghp_16C7e42F292c6912E7710c838347Ae178B4a # x\n".to_owned()),
        ("anchors: key", "key".to_owned()),
        ("anchors: token", "token ".to_owned()),
        ("anchors: ://", "a://b:c ".to_owned()),
        ("anchors: eyJ", " eyJa".to_owned()),
        ("runs", "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3x ".to_owned()),
        ("unseen", "word\u{200b}word ".to_owned()),
    ];
    for (name, line) in &cases {
        report(&redactor, name, &line.repeat(8 * MB / line.len()));
    }
    let source: String = ["src/find/value.rs", "src/machine.rs", "tests/stream.rs", "src/lib.rs"]
        .iter()
        .filter_map(|file| std::fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).ok())
        .collect();
    let source = source.replace("secret", "letter").replace("BEGIN", "begin");
    let clean = source.repeat(8 * MB / source.len().max(1));
    let base = report(&redactor, "source", &clean);
    let spread: String = clean
        .as_bytes()
        .chunks(1024)
        .map(|part| format!("{} ghp_16C7e42F292c6912E7710c838347Ae178B4a\n", String::from_utf8_lossy(part)))
        .collect();
    let dirty = report(&redactor, "source, 1 per KiB", &spread);
    let all = Redactor::new().with_home_paths().with_personal_data();
    report(&all, "source, all", &clean);

    let literals = redact::literals();
    for kind in [AhoCorasickKind::ContiguousNFA, AhoCorasickKind::DFA] {
        let mut builder = AhoCorasick::builder();
        let Ok(automaton) = builder.ascii_case_insensitive(true).kind(Some(kind)).build(&literals) else {
            continue;
        };
        let bare = measured(&clean, |text| {
            black_box(automaton.find_iter(text).count());
        });
        println!("{} literals, {:?}", literals.len(), automaton.kind());
        println!(
            "bare                 {bare:>8.0} MB/s; clean {:.2}, one per KiB {:.2}",
            base / bare,
            dirty / bare
        );
    }

    let event: String = clean.chars().take(4096).collect();
    let start = Instant::now();
    for _ in 0..1000 {
        black_box(redactor.scrub(black_box(&event)));
    }
    println!("a 4 KiB event:       {:?}", start.elapsed() / 1000);

    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    };
    let values: Vec<String> = (0..10_000).map(|_| format!("{:016x}{:016x}", next(), next())).collect();
    let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
    let start = Instant::now();
    let learned = redactor.learn_all(&values);
    println!("learn 10000 values:  {:?} {learned:?}", start.elapsed());
    let start = Instant::now();
    let learned = redactor.learn(b"one more secret value");
    println!("learn 1 more:        {:?} {learned:?}", start.elapsed());
    let known = report(&redactor, "source, 10001 known", &clean);
    println!("slower by            {:>8.2}", base / known);
}

fn report(redactor: &Redactor, name: &str, text: &str) -> f64 {
    let rate = measured(text, |text| {
        black_box(redactor.scrub(text));
    });
    println!("{name:<20} {rate:>8.0} MB/s");
    rate
}

fn measured(text: &str, run: impl Fn(&str)) -> f64 {
    let best = (0..5).map(|_| {
        let start = Instant::now();
        run(black_box(text));
        start.elapsed().as_secs_f64()
    });
    let best = best.fold(f64::INFINITY, f64::min);
    #[expect(clippy::cast_precision_loss, reason = "a report")]
    let rate = text.len() as f64 / best / 1e6;
    rate
}
