//! LED-03: one chain across writers and restarts; every acknowledged entry is there.

use std::collections::BTreeSet;
use std::sync::mpsc::channel;

use ledger::{AppendError, Decision, Draft, OpenError};

use crate::kit::{Book, assert_intact, draft, scaled};

#[test]
fn led_03_thirty_two_writers_make_one_chain_and_every_acknowledged_entry_is_there() {
    let mut book = Book::on_disk();
    book.options.segment_bytes = 4 * 1024 * 1024;
    let each = scaled(100_000, 1000);
    let ledger = book.open();
    let acknowledged: Vec<u64> = std::thread::scope(|scope| {
        let write = |writer: usize| {
            let ledger = &ledger;
            move || {
                (0..each).map(|n| ledger.append(draft(format!("{writer}-{n}"))).unwrap()).collect::<Vec<_>>()
            }
        };
        let threads: Vec<_> = (0..32).map(|writer| scope.spawn(write(writer))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    ledger.close().unwrap();

    let unique: BTreeSet<u64> = acknowledged.iter().copied().collect();
    assert_eq!(unique.len(), 32 * each);
    assert_eq!(unique.last().copied(), Some(32 * each as u64), "no gaps");
    let report = book.check();
    assert_intact(&report);
    assert_eq!(report.entries, 32 * each as u64);
    assert_intact(&book.check_by_signature());
}

#[test]
fn led_03_the_chain_goes_on_across_restarts_and_segments() {
    let mut book = Book::with_small_segments();
    for _ in 0..5 {
        book = book.written(13, 5);
    }
    assert!(book.segment(4).exists(), "several segments");
    let report = book.check();
    assert_intact(&report);
    assert_eq!(report.entries, 65);
    let numbers: Vec<u64> = book.entries().iter().map(|entry| entry.seq).collect();
    assert_eq!(numbers, (1..=65).collect::<Vec<u64>>());
    let from_forty: Vec<u64> = ledger::read(&book.dir(), 40).unwrap().map(|it| it.unwrap().seq).collect();
    assert_eq!(from_forty, (40..=65).collect::<Vec<u64>>());
}

#[test]
fn callbacks_come_after_durability_and_in_order() {
    let book = Book::new();
    let ledger = book.open();
    let (sender, answers) = channel();
    for number in 0..100 {
        let sender = sender.clone();
        ledger.append_with(draft(number), move |answer| sender.send(answer.unwrap()).unwrap());
    }
    drop(sender);
    let mut seen = Vec::new();
    for seq in answers {
        assert!(ledger.head().seq >= seq, "published before it was answered");
        seen.push(seq);
    }
    assert_eq!(seen, (1..=100).collect::<Vec<u64>>());
}

#[test]
fn a_second_opener_is_told_who_has_it() {
    let book = Book::new();
    let _ledger = book.open();
    let refused = book.try_open().unwrap_err();
    assert!(
        matches!(refused, OpenError::Locked { pid: Some(pid) } if pid == std::process::id()),
        "{refused}"
    );
}

#[test]
fn another_chain_key_does_not_open_and_changes_nothing() {
    let book = Book::new().written(3, 100);
    let before = std::fs::read(book.segment(1)).unwrap();
    std::fs::remove_file(book.checkpoints()).unwrap();
    let other =
        ledger::Keys::new(zeroize::Zeroizing::new([8; 32]), &zeroize::Zeroizing::new([9; 32]), "signer-1");
    let clock = std::sync::Arc::new(model::SystemClock);
    let opened =
        ledger::Ledger::open(&book.dir(), other, clock, crate::kit::unscrubbed(), book.options.clone());
    assert!(matches!(opened, Err(OpenError::Broken { seq: 1, .. })), "{opened:?}");
    assert_eq!(std::fs::read(book.segment(1)).unwrap(), before);
}

#[test]
fn what_was_open_when_the_process_ended_is_closed_at_the_next_start() {
    let book = Book::with_small_segments();
    let ledger = book.open();
    let first = ledger.append(draft("a").opens()).unwrap();
    let second = ledger.append(draft("b").opens()).unwrap();
    for number in 0..30 {
        ledger.append(draft(number)).unwrap();
    }
    ledger.append(Draft::new("ana", "session.prompt", Decision::Done).on("ses_b").closes(second)).unwrap();
    ledger.close().unwrap();

    let (ledger, recovery) = book.try_open().unwrap();
    assert_eq!(recovery.interrupted.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [first]);
    ledger.close().unwrap();
    let last = book.entries().pop().unwrap();
    assert_eq!(
        (last.decision, last.closes, last.resource.as_str()),
        (Decision::Failed, Some(first), "ses_a")
    );
    assert_eq!(last.cause, "interrupted: outcome unknown");
    let (_, again) = book.try_open().unwrap();
    assert!(again.interrupted.is_empty(), "closed once");
    assert_intact(&book.check());
}

#[test]
fn too_many_open_acts_are_refused_until_one_is_closed() {
    let book = Book::new();
    let ledger = book.open();
    let (sender, answers) = channel();
    for number in 0..4096 {
        let sender = sender.clone();
        ledger.append_with(draft(number).opens(), move |answer| sender.send(answer.is_ok()).unwrap());
    }
    drop(sender);
    assert!(answers.iter().all(|ok| ok));
    assert!(matches!(ledger.append(draft("x").opens()), Err(AppendError::TooManyOpen)));
    ledger.append(draft("y")).unwrap();
    ledger.append(draft("z").closes(17)).unwrap();
    ledger.append(draft("x").opens()).unwrap();
    ledger.checkpoint_now().unwrap();
    assert_intact(&book.check());
}

#[test]
fn a_full_queue_says_busy_but_does_not_crowd_out_narrowing_acts() {
    let book = Book::new();
    let ledger = book.open();
    let (release, held) = channel::<()>();
    let (started, running) = channel();
    ledger.append_with(draft("first"), move |_| {
        started.send(()).unwrap();
        let _ = held.recv(); // the writer stands still in this callback
    });
    running.recv().unwrap();
    let (sender, answers) = channel();
    for number in 0..9000 {
        let sender = sender.clone();
        ledger.append_with(draft(number), move |answer| sender.send(answer).unwrap());
    }
    let (narrow, narrowed) = channel();
    ledger.append_narrowing_with(draft("stop"), move |answer| narrow.send(answer.is_ok()).unwrap());
    drop((sender, release));
    let answers: Vec<_> = answers.iter().collect();
    let busy = answers.iter().filter(|answer| matches!(answer, Err(AppendError::Busy))).count();
    assert_eq!((answers.len(), busy), (9000, 9000 - 8192));
    assert!(narrowed.recv().unwrap());
    ledger.close().unwrap();
    assert_intact(&book.check());
}

#[test]
fn the_daemons_own_check_passes_while_entries_are_written_and_segments_dropped() {
    let book = Book::with_small_segments();
    let ledger = book.open();
    ledger.append(draft("first")).unwrap();
    ledger.checkpoint_now().unwrap(); // before the first checkpoint nothing could be proved
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..2000 {
                ledger.append(draft(number)).unwrap();
                if number % 500 == 499 {
                    ledger.drop_before(number / 2).unwrap();
                }
            }
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        let mut rounds = 0;
        while rounds < 2 || !done.load(std::sync::atomic::Ordering::SeqCst) {
            assert_intact(&ledger.verify_live(&crate::kit::trust(), None));
            rounds += 1;
        }
    });
}
