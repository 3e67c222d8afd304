//! LED-13: old segments go, continuity stays.

use ledger::verify::{Kind, Verdict};

use crate::kit::{Book, assert_intact, assert_kind, change_lines, draft};

fn long() -> Book {
    Book::with_small_segments().written(100, 7)
}

#[test]
fn led_13_after_dropping_ten_segments_verification_passes_and_names_the_gap() {
    let book = long();
    let ledger = book.open();
    let dropped = ledger.drop_before(85).unwrap();
    assert!(dropped > 60 && dropped < 85, "{dropped}");
    assert!(!book.segment(10).exists());
    assert_eq!(book.entries()[0].seq, dropped + 1);
    for report in [book.check(), book.check_by_signature(), ledger.verify_live(&crate::kit::trust(), None)] {
        assert_intact(&report);
        let gap = &report.gaps[0];
        assert_eq!((gap.first, gap.last, gap.reason), (1, dropped, "retention"));
    }
    ledger.append(draft("after")).unwrap();
    let more = ledger.drop_before(99).unwrap();
    assert!(more > 0);
    ledger.close().unwrap();
    let ledger = book.open();
    ledger.append(draft("after a restart")).unwrap();
    ledger.close().unwrap();
    let report = book.check();
    assert_intact(&report);
    assert_eq!(report.gaps[0].last, dropped + more);
}

#[test]
fn led_13_segments_that_vanish_without_a_record_are_not_retention() {
    let book = long();
    for number in 1..=3 {
        std::fs::remove_file(book.segment(number)).unwrap();
    }
    let report = book.check();
    assert_eq!(report.verdict, Verdict::Tampered);
    assert_eq!((report.findings[0].kind, report.findings[0].index), (Kind::Deleted, Some(1)));
    assert!(report.gaps.is_empty());
}

#[test]
fn led_13_a_forged_continuity_record_excuses_nothing() {
    let book = long();
    let ledger = book.open();
    ledger.drop_before(30).unwrap();
    ledger.close().unwrap();
    change_lines(&book.checkpoints(), |lines| {
        let record = lines.iter_mut().find(|line| line.contains("\"retention\"")).unwrap();
        *record = record.replacen("\"first\":1", "\"first\":2", 1);
    });
    let report = book.check();
    assert_eq!(report.verdict, Verdict::Tampered);
    assert_kind(&report, Kind::ForgedCheckpoint);
    assert_kind(&report, Kind::Deleted);
}

#[test]
fn led_13_a_crash_before_the_removal_is_finished_at_the_next_start() {
    let book = long();
    let first = std::fs::read(book.segment(1)).unwrap();
    let ledger = book.open();
    ledger.drop_before(30).unwrap();
    ledger.close().unwrap();
    std::fs::write(book.segment(1), first).unwrap();
    assert_intact(&book.check());
    drop(book.open());
    assert!(!book.segment(1).exists());
    assert_intact(&book.check());
}

#[test]
fn led_13_an_open_entry_keeps_its_segment() {
    let book = Book::with_small_segments();
    let ledger = book.open();
    for number in 0..20 {
        ledger.append(draft(number)).unwrap();
    }
    let open = ledger.append(draft("open").opens()).unwrap();
    for number in 0..40 {
        ledger.append(draft(number)).unwrap();
    }
    ledger.drop_before(60).unwrap();
    let kept = book.entries()[0].seq;
    assert!(kept > 1 && kept <= open, "{kept}");
    ledger.close().unwrap();
    let (_, recovery) = book.try_open().unwrap();
    assert_eq!(recovery.interrupted[0].seq, open);
}

const DAY: i64 = 24 * 60 * 60 * 1000;

#[test]
fn led_13_what_is_older_than_a_year_goes_and_an_entry_says_so() {
    let mut book = Book::new();
    assert_eq!(book.options.keep_for, 365 * DAY);
    book.options.segment_bytes = 2048;
    let ledger = book.open();
    for number in 0..400 {
        ledger.append(draft(number)).unwrap();
        book.clock.advance(DAY);
    }
    // Entry n was written on day n - 1; today is day 400: what was written before day 35 is too old.
    let dropped = ledger.drop_old().unwrap();
    assert!((20..=35).contains(&dropped), "{dropped}");
    let entries = book.entries();
    assert_eq!((entries[0].seq, ledger.first()), (dropped + 1, Some(dropped + 1)));
    let [.., opened, closed] = &entries[..] else { panic!("{}", entries.len()) };
    assert_eq!((opened.action.as_str(), opened.decision.word()), ("ledger.retention", "allowed"));
    assert_eq!(
        (opened.cause.as_str(), &opened.detail["last"]),
        ("older than 365 days", &dropped.to_string())
    );
    assert_eq!((closed.decision.word(), closed.closes), ("done", Some(opened.seq)));
    assert_eq!(ledger.drop_old().unwrap(), 0, "nothing more");
    assert_eq!(ledger.head().seq, closed.seq, "and no entry about nothing");
    ledger.close().unwrap();
    let report = book.check();
    assert_intact(&report);
    assert_eq!((report.gaps[0].first, report.gaps[0].last, report.gaps[0].reason), (1, dropped, "retention"));
    let (_, recovery) = book.try_open().unwrap();
    assert_eq!(recovery.interrupted, []);
}

#[test]
fn led_13_a_quiet_ledger_lets_go_of_old_entries_too() {
    let book = Book::new();
    let mut ledger = book.open();
    for day in 0..500 {
        ledger.append(draft(day)).unwrap();
        book.clock.advance(DAY);
        if day % 50 == 0 {
            ledger.close().unwrap();
            ledger = book.open();
        }
    }
    // Day 500: nothing from before day 135 must stay, except in a segment of 30 days that reaches beyond it.
    let dropped = ledger.drop_old().unwrap();
    assert!((105..=135).contains(&dropped), "{dropped}");
    ledger.close().unwrap();
    assert_intact(&book.check());
}

#[test]
fn led_13_what_cannot_be_recorded_is_not_dropped() {
    for fault in [ledger::Fault::NoSpace, ledger::Fault::Records] {
        let book = long();
        let ledger = book.open();
        book.clock.advance(400 * DAY);
        book.faults.set(Some(fault));
        ledger.drop_old().unwrap_err();
        assert!(book.segment(1).exists(), "{fault:?}");
        book.faults.set(None);
        assert!(ledger.drop_old().unwrap() > 60);
        ledger.close().unwrap();
        let report = book.check();
        assert_intact(&report);
        assert_eq!(report.gaps.len(), 1);
    }
}

#[test]
fn led_13_the_verifier_passes_and_names_the_gap() {
    let book = long();
    let ledger = book.open();
    book.clock.advance(400 * DAY);
    let dropped = ledger.drop_old().unwrap();
    ledger.close().unwrap();
    let trust = book.dir().with_file_name("trust.json");
    std::fs::write(&trust, crate::kit::trust().to_json().unwrap()).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_palisade-verify"))
        .arg(book.dir())
        .arg("--trust")
        .arg(trust)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("retention") && said.contains(&dropped.to_string()), "{said}");
}

#[test]
fn led_13_whoever_copies_the_ledger_keeps_its_segments() {
    let book = long();
    let ledger = book.open();
    let held = ledger.hold_segments();
    assert_eq!(ledger.drop_before(85).unwrap(), 0);
    assert!(book.segment(1).exists());
    drop(held);
    assert!(ledger.drop_before(85).unwrap() > 60);
}
