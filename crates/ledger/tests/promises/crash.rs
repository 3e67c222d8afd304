//! LED-03: killed in mid-append, the chain goes on from the last whole entry and the break is marked.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use ledger::Decision;

use crate::kit::{Book, assert_intact, change_lines, draft};

/// Cuts the segment at `length`, opens, appends, closes, and checks what is there.
fn cut_and_go_on(whole: &[u8], length: usize) {
    let book = Book::new();
    std::fs::create_dir_all(book.dir().join("segments")).unwrap();
    std::fs::write(book.segment(1), &whole[..length]).unwrap();
    let complete = whole[..length].iter().filter(|byte| **byte == b'\n').count();
    let torn = length > 0 && whole[length - 1] != b'\n';

    let (ledger, recovery) = book.try_open().unwrap();
    ledger.append(draft("after")).unwrap();
    ledger.close().unwrap();

    assert_eq!(recovery.torn.is_some(), torn, "at {length}");
    assert_intact(&book.check());
    let entries = book.entries();
    assert_eq!(entries.len(), complete + usize::from(torn) + 1, "at {length}");
    if torn {
        let mark = &entries[complete];
        assert_eq!((mark.action.as_str(), mark.decision), ("ledger.recovered", Decision::Noted));
        let kept = recovery.torn.unwrap().kept.unwrap();
        assert!(whole[..length].ends_with(&std::fs::read(kept).unwrap()));
    }
}

#[test]
fn led_03_cut_at_two_hundred_points_the_chain_goes_on_and_the_break_is_marked() {
    let source = Book::new();
    let ledger = source.open();
    for number in 0..6 {
        ledger.append(draft(number)).unwrap();
    }
    let whole = std::fs::read(source.segment(1)).unwrap();
    drop(ledger);
    let step = (whole.len() / 200).max(1);
    let points: Vec<usize> = (0..=whole.len()).step_by(step).chain([whole.len() - 1, whole.len()]).collect();
    assert!(points.len() >= 200, "{}", points.len());
    for point in points {
        cut_and_go_on(&whole, point);
    }
}

#[test]
fn led_03_garbage_after_the_last_entry_is_cut_but_a_changed_entry_is_not() {
    let book = Book::new();
    let ledger = book.open();
    for number in 0..5 {
        ledger.append(draft(number)).unwrap();
    }
    let whole = std::fs::read(book.segment(1)).unwrap();
    drop(ledger);
    std::fs::remove_file(book.checkpoints()).unwrap();

    // Blocks that never reached the disk read as zeros.
    let mut zeros = whole.clone();
    zeros.extend_from_slice(&[0; 5000]);
    std::fs::write(book.segment(1), zeros).unwrap();
    let (ledger, recovery) = book.try_open().unwrap();
    assert_eq!(recovery.torn.unwrap().bytes, 5000);
    drop(ledger);

    std::fs::remove_file(book.checkpoints()).unwrap();
    change_lines(&book.segment(1), |lines| lines[4] = lines[4].replace("ses_4", "ses_5"));
    assert!(matches!(book.try_open(), Err(ledger::OpenError::Broken { seq: 5, .. })));
}

const CHILD: &str = "PALISADE_LEDGER_CHILD";

/// Not a test of its own: the process that the next test kills. Without the variable it does nothing.
#[test]
fn child_that_appends_until_it_is_killed() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let clock = std::sync::Arc::new(model::SystemClock);
    let options = ledger::Options { segment_bytes: 100_000, ..ledger::Options::default() };
    let (ledger, _) =
        ledger::Ledger::open(dir.as_ref(), crate::kit::keys(), clock, crate::kit::unscrubbed(), options)
            .unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let ledger = &ledger;
            scope.spawn(move || {
                for number in 0.. {
                    let seq = ledger.append(draft(format!("{writer}-{number}"))).unwrap();
                    println!("\nacknowledged {seq}");
                }
            });
        }
    });
}

#[test]
fn led_03_every_entry_acknowledged_before_kill_9_is_there() {
    let book = Book::new();
    for round in 1..=5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child_that_appends_until_it_is_killed", "--nocapture"])
            .env(CHILD, book.dir())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut acknowledged = Vec::new();
        for line in lines.map_while(Result::ok) {
            acknowledged.extend(line.strip_prefix("acknowledged ").and_then(|seq| seq.parse::<u64>().ok()));
            if acknowledged.len() == 150 * round {
                child.kill().unwrap(); // SIGKILL; what is still in the pipe was acknowledged too
            }
        }
        child.wait().unwrap();
        assert!(acknowledged.len() >= 150 * round, "the child wrote {} entries", acknowledged.len());
        let (ledger, _) = book.try_open().unwrap();
        ledger.close().unwrap();
        let last = book.entries().last().unwrap().seq;
        assert!(acknowledged.iter().all(|seq| *seq <= last), "round {round}");
        assert_intact(&book.check());
    }
}
