//! LED-14: every acknowledged entry is there after a power loss, which takes what was not synced.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use crate::kit::{Book, assert_intact, draft, scaled};

/// What was surely on the disk when an entry was acknowledged.
type Acknowledged = (u64, BTreeMap<u64, u64>);

/// Many writers at once, so that entries share syncs and segments fill up; gives every acknowledgement.
fn written(book: &Book, writers: usize, each: usize) -> Vec<Acknowledged> {
    let ledger = book.open();
    let all: Arc<Mutex<Vec<Acknowledged>>> = Arc::default();
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (ledger, all) = (&ledger, &all);
            scope.spawn(move || {
                for number in 0..each {
                    let (faults, all) = (Arc::clone(&book.faults), Arc::clone(all));
                    let (tell, told) = channel();
                    ledger.append_with(draft(format!("{writer}-{number}")), move |answer| {
                        // Looked at before anybody hears of the entry: nothing later is counted in.
                        let synced = faults.synced();
                        all.lock().unwrap().push((answer.unwrap(), synced));
                        tell.send(()).unwrap();
                    });
                    told.recv().unwrap();
                    if number % 40 == writer {
                        ledger.checkpoint_now().unwrap();
                    }
                }
            });
        }
    });
    drop(ledger);
    Arc::into_inner(all).unwrap().into_inner().unwrap()
}

/// Copies a ledger as the disk would have it: of each file what was synced, and of the segment perhaps some
/// bytes of the line that was on its way.
fn after_power_loss(book: &Book, synced: &BTreeMap<u64, u64>, luck: usize) -> Book {
    let copy = Book::new();
    fs::create_dir_all(copy.dir().join("segments")).unwrap();
    let cut = |from: &Path, to: &Path, luck: usize| {
        let Some(length) = synced.get(&fs::metadata(from).unwrap().ino()) else { return };
        let bytes = fs::read(from).unwrap();
        let kept = (usize::try_from(*length).unwrap() + luck).min(bytes.len());
        fs::write(to, &bytes[..kept]).unwrap();
    };
    for number in (1..).take_while(|number| book.segment(*number).exists()) {
        cut(&book.segment(number), &copy.segment(number), luck);
    }
    cut(&book.checkpoints(), &copy.checkpoints(), 0);
    copy
}

#[test]
fn led_14_every_acknowledged_entry_is_there_after_a_power_loss() {
    let mut book = Book::on_disk();
    book.options.segment_bytes = 16 * 1024;
    let all = written(&book, 8, scaled(400, 60).max(60));
    assert!(book.segment(3).exists(), "several segments");
    let batches = all.windows(2).filter(|pair| pair[0].1 != pair[1].1).count() + 1;
    assert!(batches < all.len(), "entries share a sync: {batches} syncs for {}", all.len());
    let step = (all.len() / scaled(120, 40).max(40)).max(1);
    for (place, (seq, synced)) in all.iter().enumerate().step_by(step) {
        let luck = [0, 1, 137][place % 3];
        let copy = after_power_loss(&book, synced, luck);
        let (ledger, _) = copy.try_open().unwrap_or_else(|error| panic!("entry {seq}, {luck} more: {error}"));
        ledger.close().unwrap();
        let there: BTreeSet<u64> = copy.entries().iter().map(|entry| entry.seq).collect();
        for (acknowledged, _) in all.iter().take(place + 1) {
            assert!(there.contains(acknowledged), "entry {acknowledged} is gone after {seq}, {luck} more");
        }
        assert_intact(&copy.check());
    }
}
