//! LED-06: the daemon's own check and the verifier agree, and no single changed byte passes.

use std::fs;
use std::path::{Path, PathBuf};

use ledger::verify::{Verdict, verify};
use proptest::prelude::*;

use crate::kit::{Book, assert_intact, chain_key, draft, scaled, trust};

/// What is done to the files besides changing bytes of one.
const HOW: u8 = 13;

#[test]
fn led_06_the_daemons_own_check_and_the_verifier_agree_on_mutated_ledgers() {
    let book = Book::with_small_segments();
    let ledger = book.open();
    for number in 0..25 {
        ledger.append(draft(number)).unwrap();
        if number % 12 == 0 {
            ledger.checkpoint_now().unwrap();
        }
    }
    ledger.checkpoint_now().unwrap();
    assert_intact(&ledger.verify_live(&trust(), None));
    let desk = Desk::new(&book);
    let cases = u32::try_from(scaled(1000, 100)).unwrap();
    let strategy = (0..desk.files.len(), any::<prop::sample::Index>(), 0..HOW, 1..=255u8);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(cases));
    let outcome = runner.run(&strategy, |(file, place, how, mask)| {
        desk.change(file, place, how, mask);
        let own = ledger.verify_live(&trust(), None);
        let outside = verify(&book.dir(), &trust(), Some(&chain_key()), None);
        let unsigned = verify(&book.dir(), &trust(), None, None);
        desk.restore();
        prop_assert_eq!(own.verdict, outside.verdict, "{:?} {:?}", own.findings, outside.findings);
        prop_assert_ne!(own.verdict, Verdict::Intact);
        prop_assert_ne!(unsigned.verdict, Verdict::Intact);
        // The files that were moved, joined, split or planted.
        let is_tampered = (6..12).contains(&how);
        prop_assert!(!is_tampered || own.verdict == Verdict::Tampered, "{:?}", own.findings);
        Ok(())
    });
    outcome.unwrap();
    assert_intact(&ledger.verify_live(&trust(), None));
}

/// The files of a ledger that is being written, and what they held.
struct Desk {
    folder: PathBuf,
    aside: PathBuf,
    /// The segments, and the checkpoints last.
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Desk {
    fn new(book: &Book) -> Self {
        let segments = (1..).map(|n| book.segment(n)).take_while(|path| path.exists());
        let files = segments.chain([book.checkpoints()]);
        let files = files.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        Self { folder: book.dir().join("segments"), aside: book.dir().join("aside"), files }
    }

    /// The path of a segment, counted from 0, and what it held.
    fn segment(&self, index: usize) -> (PathBuf, &[u8]) {
        let path = self.folder.join(format!("{:08}.seg", index + 1));
        (path, self.files.get(index).map_or(&[], |(_, bytes)| bytes))
    }

    fn change(&self, file: usize, place: prop::sample::Index, how: u8, mask: u8) {
        let count = self.files.len() - 1;
        let (path, original) = &self.files[file];
        // Not the checkpoints, and one that another follows.
        let (segment, followed) = (file.min(count - 1), file.min(count - 2));
        let (this, bytes) = self.segment(segment);
        let past_the_end = 1 + usize::from(mask % 3);
        match how {
            0..6 => fs::write(path, mutate(original, place, how, mask)).unwrap(),
            // Another number at the end, or two numbers exchanged.
            6 => fs::rename(self.segment(count - 1).0, self.segment(count - 1 + past_the_end).0).unwrap(),
            7 => {
                let (one, other) = (self.segment(followed), self.segment(followed + 1));
                fs::write(one.0, other.1).unwrap();
                fs::write(other.0, one.1).unwrap();
            }
            // Two joined, under the number of the first or of the second.
            8 => {
                let (one, other) = (self.segment(followed), self.segment(followed + 1));
                let (kept, gone) =
                    if mask.is_multiple_of(2) { (&one.0, &other.0) } else { (&other.0, &one.0) };
                self.put_aside(gone);
                fs::write(kept, [one.1, other.1].concat()).unwrap();
            }
            // The last one split after any line.
            9 => {
                let (path, bytes) = self.segment(count - 1);
                let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                let (start, end) = lines.split_at(place.index(lines.len()));
                fs::write(path, start.concat()).unwrap();
                fs::write(self.segment(count).0, end.concat()).unwrap();
            }
            // A copy of a segment under a name that is none, or under a number past the end.
            10 => {
                let names = ["00000000.seg", "000000005.seg", "evil.seg", "00000001.seg~", "x"];
                fs::write(self.folder.join(names[place.index(names.len())]), bytes).unwrap();
            }
            11 => fs::write(self.segment(count - 1 + past_the_end).0, bytes).unwrap(),
            // Something that cannot be read, in the place of a segment or past the end.
            _ if mask.is_multiple_of(2) => fs::create_dir(self.segment(count).0).unwrap(),
            _ => {
                self.put_aside(&this);
                fs::create_dir(this).unwrap();
            }
        }
    }

    /// Moved and not removed: the writer has the file open, and it must be the same one afterwards.
    fn put_aside(&self, path: &Path) {
        fs::create_dir_all(&self.aside).unwrap();
        fs::rename(path, self.aside.join(path.file_name().unwrap())).unwrap();
    }

    fn restore(&self) {
        let current = &self.files[self.files.len() - 2].0;
        for item in fs::read_dir(&self.folder).unwrap().map(Result::unwrap) {
            let (path, is_dir) = (item.path(), item.file_type().unwrap().is_dir());
            match self.files.iter().any(|(known, _)| *known == path) {
                _ if is_dir => fs::remove_dir(path).unwrap(),
                true => {}
                false if !current.exists() && !self.aside.join(current.file_name().unwrap()).exists() => {
                    fs::rename(path, current).unwrap();
                }
                false => fs::remove_file(path).unwrap(),
            }
        }
        for item in fs::read_dir(&self.aside).into_iter().flatten().map(Result::unwrap) {
            fs::rename(item.path(), self.folder.join(item.file_name())).unwrap();
        }
        self.files.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    }
}

/// One byte changed, removed or added; a line removed, doubled or swapped with the next.
fn mutate(original: &[u8], place: prop::sample::Index, how: u8, mask: u8) -> Vec<u8> {
    let mut bytes = original.to_vec();
    let at = place.index(bytes.len());
    let mut lines: Vec<&[u8]> = original.split_inclusive(|byte| *byte == b'\n').collect();
    let line = place.index(lines.len());
    match how {
        0 => bytes[at] ^= mask,
        1 => drop(bytes.remove(at)),
        2 => bytes.insert(at, mask),
        3 if line + 1 < lines.len() => {
            lines.remove(line);
            return lines.concat();
        }
        4 => {
            lines.insert(line, lines[line]);
            return lines.concat();
        }
        _ if line + 1 < lines.len() => {
            lines.swap(line, line + 1);
            return lines.concat();
        }
        _ => bytes[at] ^= mask,
    }
    bytes
}

#[test]
fn led_06_no_single_changed_byte_of_a_checkpointed_ledger_is_intact() {
    let book = Book::new().written(3, 100);
    let step = if scaled(20, 1) >= 20 { 1 } else { 3 }; // every byte in a full-size run
    for path in [book.segment(1), book.checkpoints()] {
        let original = std::fs::read(&path).unwrap();
        let last = original.len() - 1;
        for at in (0..last).step_by(step).chain([last]) {
            // The bit of the letter case, or a low one: the ones that parsers forgive.
            let mask = if original[at].is_ascii_alphabetic() { 0x20 } else { 0x01 };
            let mut bytes = original.clone();
            bytes[at] ^= mask;
            std::fs::write(&path, &bytes).unwrap();
            assert_ne!(book.check().verdict, Verdict::Intact, "{path:?} byte {at} mask {mask}");
            if at % 7 == 0 {
                assert_ne!(book.check_by_signature().verdict, Verdict::Intact, "{path:?} byte {at}");
            }
        }
        std::fs::write(&path, &original).unwrap();
    }
    assert_intact(&book.check());
}

#[test]
fn led_06_the_daemons_own_check_says_intact_while_entries_and_segments_are_written() {
    let book = Book::with_small_segments();
    let ledger = book.open();
    ledger.append(draft("first")).unwrap();
    ledger.checkpoint_now().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let checks = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..scaled(20_000, 2_000) {
                ledger.append(draft(number)).unwrap();
                if number % 50 == 0 {
                    ledger.checkpoint_now().unwrap();
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut checks = 0;
        while !done.load(std::sync::atomic::Ordering::Relaxed) && !writer.is_finished() {
            assert_intact(&ledger.verify_live(&trust(), None));
            checks += 1;
        }
        checks
    });
    assert!(checks > 0);
    assert_intact(&ledger.verify_live(&trust(), None));
}
