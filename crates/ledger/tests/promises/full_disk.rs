//! LED-02, the ledger's part: what is not recorded is refused, with a reason, and space brings all back.

use std::path::Path;

use ledger::{AppendError, Decision, Draft, Fault, Recorded};

use crate::kit::{Book, SmallDisk, assert_intact, draft};

fn stop(number: u32) -> Draft {
    Draft::new("ana", "session.stop", Decision::Done).on(format!("ses_{number}")).with("by", "hand")
}

#[test]
fn led_02_a_failed_write_is_an_error_leaves_no_trace_and_the_next_one_works() {
    for fault in [Fault::NoSpace, Fault::Io, Fault::ReadOnly, Fault::Short(0), Fault::Short(17), Fault::Sync]
    {
        let book = Book::new();
        let ledger = book.open();
        ledger.append(draft(1)).unwrap();
        let before = std::fs::read(book.segment(1)).unwrap();

        book.faults.set(Some(fault));
        book.clock.advance(5);
        for number in 0..3 {
            let refused = ledger.append(draft(number)).unwrap_err();
            assert!(matches!(refused, AppendError::Storage(_)), "{fault:?}: {refused}");
            assert!(std::error::Error::source(&refused).is_some(), "the caller learns why");
        }
        assert_eq!(std::fs::read(book.segment(1)).unwrap(), before, "{fault:?}");
        assert_eq!(ledger.head().seq, 1);
        let health = ledger.health();
        assert!(!health.is_good());
        assert_eq!(health.failing_since, Some(book_now(&book)));
        assert!(ledger.checkpoint_now().is_err());

        book.faults.set(None);
        assert_eq!(ledger.append(draft(2)).unwrap(), 2, "{fault:?}");
        ledger.tick(); // the checkpoint that failed is tried again
        assert!(ledger.health().is_good());
        ledger.close().unwrap();
        assert_intact(&book.check());
        assert_eq!(book.entries().len(), 2);
    }
}

#[track_caller]
fn assert_reserved(answer: Result<Recorded, AppendError>) {
    assert!(matches!(answer, Ok(Recorded::Reserved(_))), "{answer:?}");
}

fn book_now(book: &Book) -> i64 {
    model::Clock::now(&*book.clock)
}

#[test]
fn an_idle_ledger_notices_by_itself_that_the_disk_works_again() {
    let book = Book::new();
    let ledger = book.open();
    book.faults.set(Some(Fault::NoSpace));
    ledger.append(draft(1)).unwrap_err();
    ledger.tick();
    assert!(!ledger.health().is_good());
    book.faults.set(None);
    ledger.tick();
    assert!(ledger.health().is_good());
    ledger.close().unwrap();
    assert_eq!(book.entries()[0].action, "ledger.resumed");
    assert_intact(&book.check());
}

#[test]
fn narrowing_acts_are_kept_in_the_reserve_and_join_the_chain_later() {
    let book = Book::new();
    let ledger = book.open();
    let opened = ledger.append(draft(0).opens()).unwrap();
    book.faults.set(Some(Fault::NoSpace));
    book.clock.advance(1000);
    let then = book_now(&book);
    assert_reserved(ledger.append_narrowing(stop(1).closes(opened)));
    assert_reserved(ledger.append_narrowing(stop(2)));
    ledger.append(draft(9)).unwrap_err();
    assert_eq!(ledger.health().reserved, 2);

    book.faults.set(None);
    book.clock.advance(1000);
    assert_eq!(ledger.append(draft(3)).unwrap(), 4);
    assert_eq!(ledger.health().reserved, 0);
    ledger.close().unwrap();
    let entries = book.entries();
    let late: Vec<(u64, i64, &str)> =
        entries.iter().filter(|it| it.is_late()).map(|it| (it.seq, it.at, it.resource.as_str())).collect();
    assert_eq!(late, [(2, then, "ses_1"), (3, then, "ses_2")]);
    assert_eq!(entries[1].detail["by"], "hand");
    assert_intact(&book.check());
    let (_, recovery) = book.try_open().unwrap();
    assert!(recovery.interrupted.is_empty(), "the late entry closed it");
}

#[test]
fn what_is_in_the_reserve_when_the_process_ends_is_chained_at_the_next_start_and_only_once() {
    let book = Book::new();
    let ledger = book.open();
    ledger.append(draft(0)).unwrap();
    book.faults.set(Some(Fault::NoSpace));
    for number in 0..3 {
        ledger.append_narrowing(stop(number)).unwrap();
    }
    let reserve = std::fs::read(book.dir().join("reserve")).unwrap();
    drop(ledger);
    book.faults.set(None);
    let (ledger, recovery) = book.try_open().unwrap();
    assert_eq!(recovery.late, 3);
    drop(ledger);
    assert_eq!(book.entries().len(), 4);

    // Crash before the reserve was cleared, or someone put the old file back.
    std::fs::write(book.dir().join("reserve"), &reserve).unwrap();
    let (ledger, recovery) = book.try_open().unwrap();
    assert_eq!(recovery.late, 0);
    ledger.append(draft(5)).unwrap();
    ledger.close().unwrap();
    assert_eq!(book.entries().len(), 5);
    assert_intact(&book.check());
}

#[test]
fn a_reserve_that_was_tampered_with_gives_nothing() {
    let book = Book::new();
    let ledger = book.open();
    book.faults.set(Some(Fault::NoSpace));
    ledger.append_narrowing(stop(1)).unwrap();
    drop(ledger);
    book.faults.set(None);
    let path = book.dir().join("reserve");
    let changed = String::from_utf8(std::fs::read(&path).unwrap()).unwrap().replace("ses_1", "ses_2");
    std::fs::write(&path, changed).unwrap();
    let (_, recovery) = book.try_open().unwrap();
    assert_eq!(recovery.late, 0);
}

#[test]
fn a_full_reserve_says_so() {
    let book = Book::new();
    let ledger = book.open();
    book.faults.set(Some(Fault::NoSpace));
    let refused = (0..1000).find_map(|number| ledger.append_narrowing(stop(number)).err()).unwrap();
    assert!(matches!(refused, AppendError::ReserveFull(_)));
    book.faults.set(Some(Fault::Everything));
    assert!(matches!(
        ledger.append_narrowing(stop(1)),
        Err(AppendError::Storage(_) | AppendError::ReserveFull(_))
    ));
}

#[test]
fn led_02_a_disk_that_is_really_full_refuses_keeps_stops_and_recovers() {
    let home = tempfile::TempDir::new().unwrap();
    let Some(_disk) = SmallDisk::mount(home.path(), "512k") else { return };
    let ballast = home.path().join("ballast");
    let book = Book::in_dir(home);
    let ledger = book.open();
    ledger.append(draft(0)).unwrap();
    fill(&ballast);
    let refused = (0..100).find_map(|number| ledger.append(draft(number)).err()).expect("the disk is full");
    assert!(matches!(refused, AppendError::Storage(_)), "{refused}");
    let acknowledged = ledger.head().seq;
    assert_reserved(ledger.append_narrowing(stop(1)));

    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(ledger.append(draft("again")).unwrap(), acknowledged + 2, "after the late one");
    ledger.close().unwrap();
    assert_intact(&book.check());
}

fn fill(path: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path).unwrap();
    while file.write_all(&[1; 512]).is_ok() {}
}
