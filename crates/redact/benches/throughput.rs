//! How fast text goes through: `cargo bench -p redact`.
#![expect(clippy::print_stdout, reason = "a bench prints")]

use std::hint::black_box;
use std::time::Instant;

use redact::Redactor;

fn main() {
    let redactor = Redactor::new();
    let mb = 1 << 20;
    let cases = [
        ("prose", "the quick brown fox jumps over the lazy dog and runs away\n".to_owned()),
        ("build log", "   Compiling serde_core v1.0.229 (/home/ana/project/target)\n".to_owned()),
        ("json log", "{\"ts\":1760000000,\"level\":\"info\",\"msg\":\"request done\",\"path\":\"/v1/worktrees\",\"ms\":12}\n".to_owned()),
        ("secrets", "export GITHUB_TOKEN=ghp_16C7e42F292c6912E7710c838347Ae178B4a # x\n".to_owned()),
        ("anchors: key", "key".to_owned()),
        ("anchors: token=", "token ".to_owned()),
        ("anchors: ://", "a://b:c ".to_owned()),
        ("anchors: eyJ", " eyJa".to_owned()),
    ];
    for (name, line) in &cases {
        report(&redactor, name, &line.repeat(8 * mb / line.len()));
    }
    let source = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/find/value.rs"))
        .unwrap_or_default();
    report(&redactor, "rust source", &source.repeat(8 * mb / source.len().max(1)));

    let values: Vec<String> = (0..1000).map(|n| format!("secret-value-number-{n:08}")).collect();
    let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
    let start = Instant::now();
    let learned = redactor.learn_all(&values);
    println!("learn 1000 values: {:?} {learned:?}", start.elapsed());
    let start = Instant::now();
    let learned = redactor.learn(b"one more secret value");
    println!("learn 1 more:      {:?} {learned:?}", start.elapsed());
    let prose = cases.first().map(|(_, line)| line.repeat(8 * mb / line.len())).unwrap_or_default();
    report(&redactor, "prose, 1001 known", &prose);
}

fn report(redactor: &Redactor, name: &str, text: &str) {
    let best = (0..3).map(|_| {
        let start = Instant::now();
        black_box(redactor.scrub(black_box(text)));
        start.elapsed().as_secs_f64()
    });
    let best = best.fold(f64::INFINITY, f64::min);
    #[expect(clippy::cast_precision_loss, reason = "a report")]
    let rate = text.len() as f64 / best / 1e6;
    println!("{name:<20} {rate:>8.0} MB/s");
}
