//! LED-05, LED-06, LED-08: `palisade-verify` as people run it.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::kit::{Book, change_lines, trust};

struct Desk {
    book: Book,
    outside: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let outside = tempfile::TempDir::new().unwrap();
        std::fs::write(outside.path().join("trust.json"), trust().to_json().unwrap()).unwrap();
        std::fs::write(outside.path().join("chain.key"), [7; 32]).unwrap();
        std::fs::write(outside.path().join("chain.hex"), hex::encode([7; 32]) + "\n").unwrap();
        Self { book: Book::new().written(10, 5), outside }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.outside.path().join(name)
    }

    fn run(&self, options: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_palisade-verify"));
        command.arg(self.book.dir());
        for (option, file) in options {
            command.arg(option).arg(self.file(file));
        }
        command.output().unwrap()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn intact_is_exit_0_and_says_what_it_may() {
    let desk = Desk::new();
    let output = desk.run(&[("--trust", "trust.json"), ("--chain-key-file", "chain.hex")]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text(&output),
        "verdict: intact\nclaim: tamper-detecting\ntime: asserted\nauthorization: recorded\n\
         entries: 10, covered to 10, checkpoints: 2\n"
    );
    std::fs::write(desk.file("anchors"), desk.book.anchors()).unwrap();
    let output = desk.run(&[("--trust", "trust.json"), ("--anchor", "anchors")]);
    assert!(text(&output).contains("claim: tamper-evident"));
}

#[test]
fn led_05_tampered_is_exit_1_with_kind_and_index() {
    let desk = Desk::new();
    change_lines(&desk.book.segment(1), |lines| lines[6] = lines[6].replace("ses_7", "ses_8"));
    let output = desk.run(&[("--trust", "trust.json"), ("--chain-key-file", "chain.key")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("edited index=7 segment=1 line=7: "), "{}", text(&output));
}

#[test]
fn led_06_what_cannot_be_checked_is_exit_2() {
    let desk = Desk::new();
    assert_eq!(desk.run(&[]).status.code(), Some(2));
    assert_eq!(desk.run(&[("--trust", "missing.json")]).status.code(), Some(2));
    let trusted = ("--trust", "trust.json");
    assert_eq!(desk.run(&[trusted, ("--anchor", "missing")]).status.code(), Some(2));
    assert_eq!(desk.run(&[trusted, ("--chain-key-file", "trust.json")]).status.code(), Some(2));
    change_lines(&desk.book.segment(1), |lines| drop(lines.remove(3)));
    assert_eq!(desk.run(&[]).status.code(), Some(2), "without trust never tampered");
}

#[test]
fn wrong_usage_is_exit_64_and_json_is_json() {
    let desk = Desk::new();
    assert_eq!(desk.run(&[("--nonsense", "x")]).status.code(), Some(64));
    let output = Command::new(env!("CARGO_BIN_EXE_palisade-verify"))
        .arg(desk.book.dir())
        .arg("--json")
        .arg("--trust")
        .arg(desk.file("trust.json"))
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["verdict"], "intact");
    assert_eq!(report["claim"], "tamper-detecting");
}
