//! LED-03, LED-14: a process that was killed before its checkpoint was durable, then others, then a power loss.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use ledger::{Faults, OpenError};

use super::{add, once, records, try_once};
use crate::kit::{Book, assert_intact, assert_kind, draft};

type Synced = BTreeMap<u64, u64>;

fn inode(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

/// A book of a few entries and two checkpoints, of which the second was written by a process that was killed before it
/// was durable; and what was durable then.
fn killed_before_the_sync() -> (Book, Synced) {
    let book = Book::new();
    add(&book, 1);
    add(&book, 2);
    let before = book.faults.synced();
    once(&book).checkpoint().unwrap();
    assert_eq!(records(&book), 2);
    let mut durable = book.faults.synced();
    durable.insert(inode(&book.checkpoints()), before[&inode(&book.checkpoints())]);
    (book, durable)
}

/// The same book with eyes for what is made durable from now on.
fn watched(mut book: Book) -> (Book, Arc<Faults>) {
    let faults = Arc::<Faults>::default();
    book.faults = Arc::clone(&faults);
    book.options.faults = Some(Arc::clone(&faults));
    (book, faults)
}

/// Leaves of each file what was durable.
fn lose_power(book: &Book, durable: &Synced) {
    for path in [book.segment(1), book.checkpoints()] {
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(durable[&inode(&path)]).unwrap();
    }
}

#[test]
fn led_14_a_checkpoint_that_was_not_durable_does_not_close_the_ledger() {
    type Next = fn(&Book) -> u64;
    let nexts: [(&str, Next); 2] = [
        ("a process that lives for a moment", |book| add(book, "next")),
        ("a daemon", |book| book.open().append(draft("next")).unwrap()),
    ];
    for (who, next) in nexts {
        let (book, mut durable) = killed_before_the_sync();
        let (book, faults) = watched(book);
        let acknowledged = next(&book);
        durable.extend(faults.synced());
        lose_power(&book, &durable);
        try_once(&book).unwrap_or_else(|error| panic!("after {who}: {error}"));
        assert!(book.entries().iter().any(|entry| entry.seq == acknowledged), "after {who}");
        add(&book, "later");
        assert_intact(&book.check());
    }
}

#[test]
fn led_14_what_is_durable_is_not_synced_again() {
    let (book, _) = killed_before_the_sync();
    add(&book, "names the checkpoint");
    let (book, faults) = watched(book);
    add(&book, "more");
    assert!(!faults.synced().contains_key(&inode(&book.checkpoints())), "one sync for an entry, not two");
}

#[test]
fn led_03_a_checkpoint_that_was_taken_away_is_still_found() {
    let (book, _) = killed_before_the_sync();
    add(&book, "names the checkpoint");
    let text = std::fs::read_to_string(book.checkpoints()).unwrap();
    let first = text.lines().next().unwrap();
    std::fs::write(book.checkpoints(), format!("{first}\n")).unwrap();
    assert!(matches!(try_once(&book), Err(OpenError::CheckpointsCut { .. })));
    assert_kind(&book.check(), ledger::verify::Kind::CheckpointsCut);
}

#[test]
fn led_14_a_record_that_is_half_there_is_cut_off() {
    // What a disk may leave of a write that was not synced. Zeros and then the end is a damaged line, and is refused
    // (`led_03_a_damaged_checkpoint_line_is_named_and_nothing_is_cut`).
    type Damage = fn(&mut [u8]) -> usize;
    let ways: [(&str, Damage); 4] = [
        ("the beginning", |record| record.len() / 2),
        ("all but the line feed", |record| record.len() - 1),
        ("the beginning and zeros", |record| {
            let half = record.len() / 2;
            record[half..].fill(0);
            record.len()
        }),
        ("zeros", |record| {
            record.fill(0);
            record.len()
        }),
    ];
    for (what, damage) in ways {
        for with_one_before in [true, false] {
            let (book, _) = killed_before_the_sync();
            let text = std::fs::read(book.checkpoints()).unwrap();
            let end_of_first = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            let from = if with_one_before { end_of_first } else { 0 };
            let to = if with_one_before { text.len() } else { end_of_first };
            if !with_one_before {
                // Then no entry may name it either: a ledger of one entry.
                let line = std::fs::read(book.segment(1)).unwrap();
                let first = line.iter().position(|byte| *byte == b'\n').unwrap() + 1;
                std::fs::write(book.segment(1), &line[..first]).unwrap();
            }
            let mut record = text[from..to].to_vec();
            let kept = damage(&mut record);
            std::fs::write(book.checkpoints(), [&text[..from], &record[..kept]].concat()).unwrap();
            let opened = try_once(&book);
            drop(opened.unwrap_or_else(|error| panic!("{what}, {with_one_before}: {error}")));
            add(&book, "next");
            assert_intact(&book.check());
        }
    }
}
