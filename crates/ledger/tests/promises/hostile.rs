//! LED-05: whoever changed a segment cannot make the check run for ever, or out of memory.

use std::fmt::Write as _;
use std::process::Command;

use ledger::verify::{Kind, Report, Verdict};

use crate::kit::{Book, trust};

/// The most that a report lists.
const MOST: usize = 1000;

fn book() -> Book {
    Book::new().written(20, 5)
}

/// A line that is an entry, as far as anyone without the chain key can say.
fn entry(out: &mut String, seq: u64, prev: u64, code: u64) {
    let head = format!("{{\"v\":1,\"seq\":{seq},\"at\":1,\"checkpoint\":1,\"prev\":\"{prev:064x}\"");
    let rest =
        "\"who\":\"\",\"action\":\"\",\"resource\":\"\",\"decision\":\"noted\",\"cause\":\"\",\"detail\":{}";
    writeln!(out, "{head},{rest},\"mac\":\"{code:064x}\"}}").unwrap();
}

#[track_caller]
fn assert_bounded(report: &Report, most_entries: u64) {
    assert_eq!(report.verdict, Verdict::Tampered);
    assert!(report.findings.len() <= MOST, "{}", report.findings.len());
    assert!(report.entries <= most_entries, "{}", report.entries);
}

#[test]
fn led_05_a_segment_of_line_feeds_is_not_read_to_its_end() {
    let book = book();
    let mut bytes = std::fs::read(book.segment(1)).unwrap();
    bytes.resize(bytes.len() + 4 * 1024 * 1024, b'\n');
    std::fs::write(book.segment(1), bytes).unwrap();
    for report in [book.check(), book.check_by_signature()] {
        assert_bounded(&report, 20 + 1001);
        let stopped = report.findings.iter().find(|it| it.message.contains("stopped"));
        assert_eq!(stopped.map(|it| (it.kind, it.line)), Some((Kind::Unreadable, Some(21))));
    }
}

#[test]
fn led_05_a_checkpoint_file_of_line_feeds_is_not_read_to_its_end() {
    let book = book();
    let mut bytes = std::fs::read(book.checkpoints()).unwrap();
    bytes.resize(bytes.len() + 4 * 1024 * 1024, b'\n');
    std::fs::write(book.checkpoints(), bytes).unwrap();
    let report = book.check();
    assert_bounded(&report, 20);
    assert_eq!(report.checkpoints, 4);
    let bad = report.findings.iter().filter(|it| it.kind == Kind::ForgedCheckpoint).count();
    assert_eq!(bad, 101);
    assert!(report.findings.iter().any(|it| it.message.contains("stopped")), "{:#?}", report.findings);
}

#[test]
fn led_05_the_command_needs_little_memory_for_a_hostile_segment() {
    let book = book();
    std::fs::write(book.segment(1), vec![b'\n'; 16 * 1024 * 1024]).unwrap();
    let trust_root = book.dir().with_file_name("trust.json");
    std::fs::write(&trust_root, trust().to_json().unwrap()).unwrap();
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 200000 && exec \"$0\" \"$1\" --trust \"$2\""])
        .arg(env!("CARGO_BIN_EXE_palisade-verify"))
        .arg(book.dir())
        .arg(trust_root)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("stopped"));
}

#[test]
fn led_05_many_lines_that_claim_one_place_are_told_apart_in_one_go() {
    let book = book();
    let mut lines = String::new();
    let count = 6000;
    // All but the last claim the first place in vain, and so do all but the last with the second.
    (1..=count).for_each(|number| entry(&mut lines, 1, 0, number));
    (1..=count).rev().for_each(|number| {
        let prev = if number == 1 { count } else { 1_000_000 + number };
        entry(&mut lines, 2, prev, 2_000_000 + number);
    });
    assert!(lines.len() > 3_000_000);
    std::fs::write(book.segment(1), lines).unwrap();
    let report = book.check_by_signature();
    assert_bounded(&report, 2 * count);
    assert!(report.findings.iter().all(|it| it.kind == Kind::Inserted), "{:#?}", report.findings);
    assert_bounded(&book.check(), 2 * count);
}

#[test]
fn led_05_entries_that_jump_far_ahead_again_and_again_cost_no_more_than_others() {
    let book = book();
    let mut lines = String::new();
    let (count, far) = (6000u64, 1_000_000);
    // What each of the first half skips comes in the second half.
    (0..count).for_each(|number| entry(&mut lines, (number + 1) * far, 7, number));
    (0..count).for_each(|number| entry(&mut lines, number * far + 1, 7, number));
    std::fs::write(book.segment(1), lines).unwrap();
    let report = book.check_by_signature();
    assert_bounded(&report, 2 * count);
    assert!(report.findings.iter().all(|it| it.kind == Kind::Reordered), "{:#?}", report.findings);
    assert_bounded(&book.check(), 2 * count);
}
