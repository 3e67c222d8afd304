//! LED-02: acts that go through the reserve are recorded as they ended.

use ledger::{Decision, Draft, Entry, Fault, Ledger, Recorded};

use crate::kit::{Book, assert_intact, draft};

fn begin(ledger: &Ledger, name: &str) -> Recorded {
    let opening = Draft::new("ana", "key.revoke", Decision::Allowed).on(name).opens();
    ledger.append_narrowing(opening).unwrap()
}

fn end(ledger: &Ledger, name: &str, opened: Recorded, outcome: Decision) -> Recorded {
    let closing =
        Draft::new("ana", "key.revoke", outcome).on(name).with("by", "hand").closes_recorded(opened);
    ledger.append_narrowing(closing).unwrap()
}

/// What became of the act on `name`: decision, cause, and whether the closing entry names the opening one.
#[track_caller]
fn outcome(book: &Book, name: &str) -> (Decision, String, bool) {
    let entries = book.entries();
    let about: Vec<&Entry> = entries.iter().filter(|entry| entry.resource == name).collect();
    let [opened, closed] = about[..] else { panic!("{name}: {about:#?}") };
    assert!(opened.opens);
    (closed.decision, closed.cause.clone(), closed.closes == Some(opened.seq))
}

#[track_caller]
fn assert_nothing_interrupted(book: &Book) {
    let (ledger, recovery) = book.try_open().unwrap();
    assert_eq!(recovery.interrupted, []);
    ledger.close().unwrap();
    assert!(book.entries().iter().all(|entry| !entry.cause.contains("interrupted")));
    assert_intact(&book.check());
}

#[test]
fn led_02_an_act_that_began_and_ended_in_the_reserve_is_recorded_as_it_ended() {
    let book = Book::new();
    let ledger = book.open();
    ledger.append(draft(0)).unwrap();
    book.faults.set(Some(Fault::NoSpace));
    let (one, two) = (begin(&ledger, "one"), begin(&ledger, "two"));
    assert!(matches!(end(&ledger, "two", two, Decision::Failed), Recorded::Reserved(_)));
    end(&ledger, "one", one, Decision::Done);
    book.faults.set(None);
    ledger.tick();
    ledger.close().unwrap();
    assert_eq!(outcome(&book, "one"), (Decision::Done, String::new(), true));
    assert_eq!(outcome(&book, "two"), (Decision::Failed, String::new(), true));
    assert_nothing_interrupted(&book);
}

#[test]
fn led_02_an_act_that_began_in_the_reserve_and_ended_after_it_is_recorded_as_it_ended() {
    let book = Book::new();
    let ledger = book.open();
    book.faults.set(Some(Fault::NoSpace));
    let (one, two, three) = (begin(&ledger, "one"), begin(&ledger, "two"), begin(&ledger, "three"));
    book.faults.set(None);
    // The same batch chains the openings and this.
    assert!(matches!(end(&ledger, "one", one, Decision::Done), Recorded::Entry(4)));
    assert!(matches!(end(&ledger, "two", two, Decision::Failed), Recorded::Entry(5)));
    // Full again: the opening has a number by now, the closing waits.
    book.faults.set(Some(Fault::NoSpace));
    end(&ledger, "three", three, Decision::Done);
    book.faults.set(None);
    ledger.close().unwrap();
    assert_eq!(outcome(&book, "one"), (Decision::Done, String::new(), true));
    assert_eq!(outcome(&book, "two"), (Decision::Failed, String::new(), true));
    assert_eq!(outcome(&book, "three"), (Decision::Done, String::new(), true));
    assert_nothing_interrupted(&book);
}

#[test]
fn led_02_what_ended_in_the_reserve_is_folded_as_it_ended_at_the_next_start() {
    let book = Book::new();
    let ledger = book.open();
    ledger.append(draft(0)).unwrap();
    book.faults.set(Some(Fault::NoSpace));
    let (one, two) = (begin(&ledger, "one"), begin(&ledger, "two"));
    end(&ledger, "one", one, Decision::Failed);
    end(&ledger, "two", two, Decision::Done);
    let reserve = std::fs::read(book.dir().join("reserve")).unwrap();
    drop(ledger);
    // Started again while the disk is still full, and then once more.
    drop(book.try_open().unwrap());
    book.faults.set(None);
    drop(book.try_open().unwrap());
    let whole = std::fs::read(book.segment(1)).unwrap();
    assert_eq!(outcome(&book, "one"), (Decision::Failed, String::new(), true));
    assert_eq!(outcome(&book, "two"), (Decision::Done, String::new(), true));
    assert_nothing_interrupted(&book);

    // A crash in the middle of the folding: some of it is in the chain, all of it in the reserve.
    let ends: Vec<usize> = (0..whole.len()).filter(|place| whole[*place] == b'\n').map(|it| it + 1).collect();
    assert_eq!(ends.len(), 5);
    for cut in ends {
        let copy = Book::new();
        std::fs::create_dir_all(copy.dir().join("segments")).unwrap();
        std::fs::write(copy.segment(1), &whole[..cut]).unwrap();
        std::fs::write(copy.dir().join("reserve"), &reserve).unwrap();
        drop(copy.open());
        assert_eq!(outcome(&copy, "one"), (Decision::Failed, String::new(), true), "cut at {cut}");
        assert_eq!(outcome(&copy, "two"), (Decision::Done, String::new(), true), "cut at {cut}");
        assert_nothing_interrupted(&copy);
    }
}

#[test]
fn led_02_what_never_ended_is_closed_once_at_the_next_start_whether_the_disk_is_full_or_not() {
    for full_at_start in [false, true] {
        let book = Book::new();
        let ledger = book.open();
        let chained = ledger.append(draft("chained").opens()).unwrap();
        book.faults.set(Some(Fault::NoSpace));
        begin(&ledger, "one");
        drop(ledger);
        if full_at_start {
            for expected in [2, 0] {
                let (ledger, recovery) = book.try_open().unwrap();
                assert_eq!(recovery.interrupted.len(), expected, "closed once");
                drop(ledger);
            }
        }
        book.faults.set(None);
        drop(book.try_open().unwrap());
        let unknown = "interrupted: outcome unknown".to_owned();
        assert_eq!(outcome(&book, "one"), (Decision::Failed, unknown, true));
        let closings = book.entries().iter().filter(|entry| entry.closes == Some(chained)).count();
        assert_eq!(closings, 1);
        let (_, recovery) = book.try_open().unwrap();
        assert_eq!(recovery.interrupted, [], "nothing is left open");
    }
}

#[test]
fn led_13_an_act_that_ended_in_the_reserve_keeps_no_segment() {
    let book = Book::with_small_segments();
    let ledger = book.open();
    book.faults.set(Some(Fault::NoSpace));
    let opened = begin(&ledger, "one");
    end(&ledger, "one", opened, Decision::Done);
    book.faults.set(None);
    for number in 0..60 {
        ledger.append(draft(number)).unwrap();
    }
    assert!(ledger.drop_before(50).unwrap() > 10);
}
