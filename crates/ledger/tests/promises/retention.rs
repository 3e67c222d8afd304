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
