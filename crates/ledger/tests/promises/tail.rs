//! LED-12: a tail gives every durable entry once, in order, whatever the writer does meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use ledger::{ReadError, Tail};

use crate::kit::{Book, change_lines, draft, scaled};

fn seqs(tail: &mut Tail, durable: u64, most: usize) -> Vec<u64> {
    tail.more(durable, most).unwrap().into_iter().map(|stored| stored.seq).collect()
}

fn range(first: u64, last: u64) -> Vec<u64> {
    (first..=last).collect()
}

#[test]
fn led_12_a_tail_goes_on_where_it_was_across_segments() {
    let book = Book::with_small_segments().written(100, 7);
    assert!(book.segment(5).exists(), "several segments");
    for step in [1, 3, 50, 1_000] {
        let (mut tail, mut all) = (Tail::new(&book.dir(), 1), Vec::new());
        loop {
            let found = seqs(&mut tail, 100, step);
            assert!(found.len() <= step);
            if found.is_empty() {
                break;
            }
            all.extend(found);
        }
        assert_eq!(all, range(1, 100), "{step} at a time");
    }
    for from in [0, 1, 2, 37, 100, 101] {
        assert_eq!(
            seqs(&mut Tail::new(&book.dir(), from), 100, 1_000),
            range(from.max(1), 100),
            "from {from}"
        );
    }
}

#[test]
fn led_12_nothing_past_what_is_durable_is_given() {
    let book = Book::with_small_segments().written(30, 7);
    let mut tail = Tail::new(&book.dir(), 1);
    assert_eq!(seqs(&mut tail, 0, 100), [0u64; 0]);
    assert_eq!(seqs(&mut tail, 12, 100), range(1, 12));
    assert_eq!(seqs(&mut tail, 12, 100), [0u64; 0], "still nothing more");
    assert_eq!(seqs(&mut tail, 30, 100), range(13, 30));
    assert_eq!(seqs(&mut tail, 99, 100), [0u64; 0], "what is not there yet is not waited for");
    assert_eq!(seqs(&mut Tail::new(&book.dir().join("nowhere"), 1), 5, 10), [0u64; 0]);
}

#[test]
fn led_12_a_line_that_is_being_written_comes_when_it_is_whole() {
    let book = Book::new().written(5, 7);
    let whole = std::fs::read(book.segment(1)).unwrap();
    std::fs::write(book.segment(1), &whole[..whole.len() - 20]).unwrap();
    let mut tail = Tail::new(&book.dir(), 1);
    assert_eq!(seqs(&mut tail, 5, 100), range(1, 4));
    assert_eq!(seqs(&mut tail, 5, 100), [0u64; 0]);
    std::fs::write(book.segment(1), &whole).unwrap();
    assert_eq!(seqs(&mut tail, 5, 100), [5]);
}

#[test]
fn led_12_what_retention_drops_is_passed_over() {
    let book = Book::with_small_segments().written(100, 7);
    let ledger = book.open();
    let mut tail = Tail::new(&book.dir(), 1);
    assert_eq!(seqs(&mut tail, 100, 5), range(1, 5));
    let dropped = ledger.drop_before(60).unwrap();
    assert!(dropped > 5);
    assert_eq!(seqs(&mut tail, 100, 1_000), range(dropped + 1, 100));
    ledger.close().unwrap();
}

#[test]
fn led_12_a_tail_beside_a_writer_misses_and_doubles_nothing() {
    let book = Book::with_small_segments();
    let ledger = book.open();
    let (count, done) = (scaled(20_000, 1_000), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut tail, mut all) = (Tail::new(&book.dir(), 1), Vec::new());
            loop {
                let last = done.load(Ordering::Acquire);
                let found = seqs(&mut tail, ledger.head().seq, 17);
                if last && found.is_empty() {
                    return all;
                }
                all.extend(found);
            }
        });
        for number in 1..=count {
            ledger.append(draft(number)).unwrap();
        }
        done.store(true, Ordering::Release);
        assert_eq!(reader.join().unwrap(), range(1, u64::try_from(count).unwrap()));
    });
}

#[test]
fn led_12_a_line_that_is_no_entry_is_named_by_its_place() {
    let book = Book::new().written(10, 7);
    change_lines(&book.segment(1), |lines| lines[6] = "nonsense".into());
    let mut tail = Tail::new(&book.dir(), 1);
    assert_eq!(seqs(&mut tail, 10, 3), range(1, 3));
    let error = tail.more(10, 100).unwrap_err();
    assert!(matches!(error, ReadError::NotAnEntry { segment: 1, line: 7 }), "{error}");
}
