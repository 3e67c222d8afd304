//! LED-04: checkpoints are signed at least every minute; what they claim must be there.

use ledger::{Checkpoint, OpenError};

use crate::kit::{Book, assert_intact, change_lines, draft};

fn records(book: &Book) -> Vec<Checkpoint> {
    let text = std::fs::read_to_string(book.checkpoints()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn led_04_an_hour_gives_at_least_sixty_checkpoints_and_none_covers_more_than_a_minute() {
    let book = Book::new();
    let ledger = book.open();
    for second in 0..3600 {
        book.clock.advance(1000);
        if second % 7 == 0 {
            ledger.append(draft(second)).unwrap();
        }
        ledger.tick();
    }
    let records = records(&book);
    assert!(records.len() >= 60, "{} checkpoints", records.len());
    let entries = book.entries();
    for entry in &entries {
        let waited = records.iter().find(|it| it.last >= entry.seq).map(|it| it.at - entry.at);
        assert!(waited.is_none_or(|waited| waited <= 60_000), "entry {} waited {waited:?} ms", entry.seq);
    }
    ledger.close().unwrap();
    assert_intact(&book.check());
}

#[test]
fn led_04_no_entries_no_checkpoint_and_the_key_is_the_same_after_a_restart() {
    let book = Book::new().written(3, 100).written(2, 100);
    let ledger = book.open();
    for _ in 0..100 {
        book.clock.advance(60_000);
        ledger.tick();
    }
    ledger.close().unwrap();
    let records = records(&book);
    assert_eq!(records.iter().map(|it| (it.n, it.last)).collect::<Vec<_>>(), [(1, 3), (2, 5)]);
    assert!(records.iter().all(|it| it.key == "signer-1"));
    assert_intact(&book.check());
}

#[test]
fn led_04_a_clock_that_goes_back_does_not_stop_checkpoints() {
    let book = Book::new();
    let ledger = book.open();
    ledger.append(draft(1)).unwrap();
    book.clock.advance(-3_600_000);
    ledger.append(draft(2)).unwrap();
    ledger.tick();
    assert_eq!(ledger.head().checkpoint, 1);
    ledger.close().unwrap();
    let report = book.check();
    assert_intact(&report);
    crate::kit::assert_kind(&report, ledger::verify::Kind::ClockJump);
}

#[test]
fn adv_a09_a_ledger_with_its_tail_cut_does_not_open() {
    let book = Book::new().written(10, 3);
    change_lines(&book.segment(1), |lines| lines.truncate(7));
    let refused = book.try_open().unwrap_err();
    assert!(matches!(refused, OpenError::RolledBack { claimed: 10, found: 7, .. }), "{refused}");
}

#[test]
fn adv_a09_a_ledger_without_its_last_segment_does_not_open() {
    let book = Book::with_small_segments().written(20, 3);
    let last = (1..).take_while(|number| book.segment(*number).exists()).last().unwrap();
    std::fs::remove_file(book.segment(last)).unwrap();
    assert!(matches!(book.try_open(), Err(OpenError::RolledBack { claimed: 20, .. })));
}

#[test]
fn adv_a09_a_ledger_with_a_hole_does_not_open() {
    let book = Book::with_small_segments().written(30, 3);
    std::fs::remove_file(book.segment(2)).unwrap();
    assert!(matches!(book.try_open(), Err(OpenError::SegmentMissing(2))));
}

#[test]
fn adv_a09_a_ledger_with_its_checkpoints_cut_does_not_open() {
    let book = Book::new().written(10, 3);
    change_lines(&book.checkpoints(), |lines| lines.truncate(1));
    assert!(matches!(book.try_open(), Err(OpenError::CheckpointsCut { claimed: 2, found: 1, .. })));
}

#[test]
fn adv_a09_a_checkpoint_signed_by_another_does_not_open() {
    let book = Book::new().written(10, 3);
    change_lines(&book.checkpoints(), |lines| {
        let last = lines.last_mut().unwrap();
        *last = last.replace("\"at\":", "\"at\":1");
    });
    assert!(matches!(book.try_open(), Err(OpenError::BadCheckpoint(4))));
}

#[test]
fn a_torn_checkpoint_is_cut_off_and_the_next_one_follows() {
    let book = Book::new().written(10, 3);
    let bytes = std::fs::read(book.checkpoints()).unwrap();
    std::fs::write(book.checkpoints(), &bytes[..bytes.len() - 20]).unwrap();
    let ledger = book.open();
    ledger.append(draft("more")).unwrap();
    ledger.close().unwrap();
    assert_intact(&book.check());
    assert!(book.dir().join("torn-1").exists());
}
