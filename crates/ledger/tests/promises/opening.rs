//! What a start trusts, and what it leaves alone: nothing is removed on the word of an unsigned record.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use ledger::{Fault, OpenError};

use crate::kit::{Book, assert_intact, change_lines, draft};

/// Every file of the ledger, except the lock, with its bytes.
fn files(book: &Book) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for folder in [book.dir(), book.dir().join("segments")] {
        for item in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = item.path();
            if path.is_file() && !path.ends_with("lock") {
                let name = path.strip_prefix(book.dir()).unwrap().to_string_lossy().into_owned();
                all.insert(name, fs::read(path).unwrap());
            }
        }
    }
    all
}

/// Opening is refused because of the checkpoint with this number, and nothing is changed.
#[track_caller]
fn assert_refused(book: &Book, number: u64) {
    let before = files(book);
    let refused = book.try_open().unwrap_err();
    assert!(matches!(refused, OpenError::BadCheckpoint(n) if n == number), "{refused}");
    assert!(files(book) == before, "nothing was changed");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The last record, changed and put after it, naming it as the one before.
fn add_record(book: &Book, change: impl Fn(&mut String)) {
    use sha2::Digest as _;
    change_lines(&book.checkpoints(), |lines| {
        let mut line = lines.last().unwrap().clone();
        let start = line.find("\"prev\":\"").unwrap() + 8;
        line.replace_range(start..start + 64, &hex::encode(sha2::Sha256::digest(line.as_bytes())));
        change(&mut line);
        lines.push(line);
    });
}

fn replace_number(line: &mut String, field: &str, value: u64) {
    let start = line.find(&format!("\"{field}\":")).unwrap() + field.len() + 3;
    let end = start + line[start..].find(',').unwrap();
    line.replace_range(start..end, &value.to_string());
}

#[test]
fn led_13_an_unsigned_retention_record_removes_nothing() {
    let book = Book::with_small_segments().written(60, 7);
    let count = fs::read_to_string(book.checkpoints()).unwrap().lines().count() as u64;
    add_record(&book, |line| {
        *line = line.replace("\"kind\":\"checkpoint\"", "\"kind\":\"retention\"");
        replace_number(line, "n", count + 1);
        replace_number(line, "from", 99);
        let sig = line.find(",\"sig\"").unwrap();
        line.replace_range(sig.., "}");
    });
    assert_refused(&book, count + 1);
}

#[test]
fn led_13_a_retention_record_with_the_signature_of_another_record_removes_nothing() {
    let book = Book::with_small_segments().written(60, 7);
    add_record(&book, |line| {
        *line = line.replace("\"kind\":\"checkpoint\"", "\"kind\":\"retention\"");
        replace_number(line, "n", 77);
        replace_number(line, "from", 3);
    });
    assert_refused(&book, 77);
}

#[test]
fn led_03_a_checkpoint_under_an_unknown_key_is_not_taken_over() {
    let book = Book::new().written(10, 3);
    change_lines(&book.checkpoints(), |lines| {
        let last = lines.last_mut().unwrap();
        *last =
            last.replace("\"key\":\"signer-1\"", "\"key\":\"nobody\"").replace("\"open\":[]", "\"open\":[3]");
    });
    assert_refused(&book, 4);
}

#[test]
fn led_03_a_genuine_record_in_the_wrong_place_is_not_taken_over() {
    let book = Book::new().written(10, 3);
    change_lines(&book.checkpoints(), |lines| lines.push(lines[1].clone()));
    assert_refused(&book, 2);
    let book = Book::new().written(10, 3);
    change_lines(&book.checkpoints(), |lines| drop(lines.drain(..3)));
    assert_refused(&book, 4);
}

#[test]
fn led_13_a_start_that_is_refused_removes_no_dropped_segment() {
    let book = Book::with_small_segments().written(100, 7);
    let first = fs::read(book.segment(1)).unwrap();
    let ledger = book.open();
    ledger.drop_before(30).unwrap();
    ledger.append(draft("more")).unwrap();
    ledger.close().unwrap();
    fs::write(book.segment(1), first).unwrap();
    let last = (1..100).rfind(|number| book.segment(*number).exists()).unwrap();
    let good = fs::read(book.segment(last)).unwrap();
    fs::write(book.segment(last), &good[..good.len() - 5]).unwrap();
    let before = files(&book);
    assert!(book.try_open().is_err());
    assert!(files(&book) == before);

    fs::write(book.segment(last), good).unwrap();
    drop(book.open());
    assert!(!book.segment(1).exists());
    assert_intact(&book.check());
}

#[test]
fn led_03_a_damaged_checkpoint_line_is_named_and_nothing_is_cut() {
    for damage in ["", "{}", "not a record", "\0\0\0"] {
        let book = Book::new().written(10, 3);
        change_lines(&book.checkpoints(), |lines| damage.clone_into(lines.last_mut().unwrap()));
        assert_refused(&book, 4);
    }
    // Also when it is the only one, and when a torn write follows.
    let book = Book::new().written(3, 3);
    fs::write(book.checkpoints(), "garbage\n{\"v\":1").unwrap();
    assert_refused(&book, 1);
}

#[test]
fn led_03_only_what_follows_the_last_line_feed_is_cut_and_it_is_kept_for_its_owner_alone() {
    let book = Book::new().written(10, 3);
    let whole = fs::read(book.checkpoints()).unwrap();
    let torn = b"{\"v\":1,\"kind\":\"checkpoi";
    fs::write(book.checkpoints(), [&whole[..], torn].concat()).unwrap();
    // A name that is taken, by a link even, is left alone.
    let elsewhere = book.dir().join("elsewhere");
    symlink(&elsewhere, book.dir().join("torn-1")).unwrap();
    drop(book.open());
    assert_eq!(fs::read(book.checkpoints()).unwrap(), whole);
    assert!(!elsewhere.exists());
    let kept = book.dir().join("torn-2");
    assert_eq!(fs::read(&kept).unwrap(), torn);
    assert_eq!(mode(&kept), 0o600);
    assert_intact(&book.check());
}

#[test]
fn led_03_damage_before_entries_is_not_cut_and_the_message_says_what_to_do() {
    let book = Book::new();
    let ledger = book.open();
    for number in 0..9 {
        ledger.append(draft(number)).unwrap();
    }
    let mut bytes = fs::read(book.segment(1)).unwrap();
    drop(ledger);
    fs::remove_file(book.checkpoints()).unwrap();
    let third = bytes.split_inclusive(|byte| *byte == b'\n').take(3).map(<[u8]>::len).sum::<usize>();
    bytes[third..third + 500].fill(0);
    fs::write(book.segment(1), bytes).unwrap();
    let before = files(&book);
    let refused = book.try_open().unwrap_err();
    let expected = third as u64;
    assert!(matches!(refused, OpenError::Damaged { seq: 4, segment: 1, offset } if offset == expected));
    let said = refused.to_string();
    assert!(said.contains("restore the segment") && said.contains("palisade-verify"), "{said}");
    assert!(files(&book) == before);
}

#[test]
fn led_02_a_link_in_the_place_of_a_file_is_not_followed() {
    for name in ["segments/00000001.seg", "checkpoints.jsonl", "reserve", "lock"] {
        let book = Book::new().written(3, 3);
        let path = book.dir().join(name);
        let elsewhere = book.dir().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        let before = fs::read(&elsewhere).unwrap();
        assert!(book.try_open().is_err(), "{name}");
        assert_eq!(fs::read(&elsewhere).unwrap(), before, "{name}");
    }
}

#[test]
fn led_02_files_that_others_could_read_are_closed_to_them() {
    let book = Book::new().written(3, 3);
    let names = ["segments/00000001.seg", "checkpoints.jsonl", "reserve", "lock"];
    for name in names {
        fs::set_permissions(book.dir().join(name), Permissions::from_mode(0o666)).unwrap();
    }
    for folder in [book.dir(), book.dir().join("segments")] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    drop(book.open());
    for name in names {
        assert_eq!(mode(&book.dir().join(name)), 0o600, "{name}");
    }
    assert_eq!((mode(&book.dir()), mode(&book.dir().join("segments"))), (0o700, 0o700));
}

#[test]
fn led_04_a_checkpoint_file_that_fails_shows_until_a_record_is_written() {
    let book = Book::new();
    let ledger = book.open();
    ledger.append(draft(1)).unwrap();
    book.faults.set(Some(Fault::Records));
    assert!(ledger.checkpoint_now().is_err());
    let since = ledger.health().failing_since;
    assert!(since.is_some());
    for number in 2..5 {
        book.clock.advance(10);
        ledger.append(draft(number)).unwrap();
        ledger.tick();
        assert_eq!(ledger.health().failing_since, since, "a good append does not hide it");
    }
    book.faults.set(None);
    ledger.tick();
    assert!(ledger.health().is_good());
    assert_eq!(ledger.health().unsigned_since, None);
    ledger.close().unwrap();
    assert_intact(&book.check());
}

#[test]
fn led_05_a_file_with_another_name_is_no_segment() {
    let book = Book::with_small_segments().written(30, 7);
    let first = fs::read(book.segment(1)).unwrap();
    for name in ["+0000001.seg", "00000000.seg", "1.seg", "00000001.seg.old"] {
        fs::write(book.dir().join("segments").join(name), &first).unwrap();
    }
    let ledger = book.open();
    ledger.append(draft("more")).unwrap();
    ledger.close().unwrap();
    let seqs: Vec<u64> = book.entries().iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, (1..=31).collect::<Vec<u64>>(), "each entry once");
    assert!(book.dir().join("segments/00000000.seg").exists(), "what is no segment is left alone");
}
