//! LED-05, LED-06: entries count only in the segment that a checkpoint signed, nothing else lies in the folder, and
//! what cannot be read is not called tampered.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ledger::verify::{Kind, Report, Verdict};

use crate::kit::{Book, assert_intact, assert_kind, change_lines, draft, trust};

/// Several small segments, all of them under checkpoints.
fn book() -> Book {
    Book::with_small_segments().written(40, 3)
}

fn last(book: &Book) -> u32 {
    (1..).take_while(|number| book.segment(*number).exists()).last().unwrap()
}

fn text(book: &Book, number: u32) -> String {
    fs::read_to_string(book.segment(number)).unwrap()
}

fn entries_of(book: &Book, number: u32) -> Vec<u64> {
    let entry = |line: &str| serde_json::from_str::<ledger::Entry>(line).unwrap().seq;
    text(book, number).lines().map(entry).collect()
}

fn planted(book: &Book, name: &str) -> PathBuf {
    book.dir().join("segments").join(name)
}

fn both(book: &Book) -> [Report; 2] {
    [book.check(), book.check_by_signature()]
}

/// Both checks say `tampered`, and neither says that covered entries have no checkpoint.
#[track_caller]
fn assert_tampered(book: &Book, what: &str) {
    for report in both(book) {
        assert_eq!(report.verdict, Verdict::Tampered, "{what}: {:#?}", report.findings);
        let excused = report.findings.iter().any(|it| it.kind == Kind::NotCovered);
        assert!(!excused, "{what}: {:#?}", report.findings);
    }
}

/// Moves entries between segments, without changing any.
type Move = (&'static str, fn(&Book));

const MOVES: [Move; 10] = [
    ("rename the last", |book| {
        let last = last(book);
        fs::rename(book.segment(last), book.segment(last + 1)).unwrap();
    }),
    ("rename all", |book| {
        for number in (1..=last(book)).rev() {
            fs::rename(book.segment(number), book.segment(number + 1)).unwrap();
        }
    }),
    ("merge the last two into the first of them", |book| {
        let last = last(book);
        fs::write(book.segment(last - 1), text(book, last - 1) + &text(book, last)).unwrap();
        fs::remove_file(book.segment(last)).unwrap();
    }),
    ("merge the last two into the second of them", |book| {
        let last = last(book);
        fs::write(book.segment(last), text(book, last - 1) + &text(book, last)).unwrap();
        fs::remove_file(book.segment(last - 1)).unwrap();
    }),
    ("merge two and leave an empty one", |book| {
        fs::write(book.segment(2), text(book, 2) + &text(book, 3)).unwrap();
        fs::write(book.segment(3), "").unwrap();
    }),
    ("all in the first", |book| concatenate(book, 1)),
    ("all in the last", |book| concatenate(book, last(book))),
    ("all in another", |book| concatenate(book, 9999)),
    ("split the last", |book| split(book, 1)),
    ("move the first line to the segment before", |book| {
        let (before, after) = (text(book, 2), text(book, 3));
        let (line, rest) = after.split_once('\n').unwrap();
        fs::write(book.segment(2), format!("{before}{line}\n")).unwrap();
        fs::write(book.segment(3), rest).unwrap();
    }),
];

fn concatenate(book: &Book, into: u32) {
    let numbers = 1..=last(book);
    let all: String = numbers.clone().map(|number| text(book, number)).collect();
    numbers.for_each(|number| fs::remove_file(book.segment(number)).unwrap());
    fs::write(book.segment(into), all).unwrap();
}

/// Leaves `count` lines in the last segment and moves the others to another one.
fn split(book: &Book, count: usize) {
    let last = last(book);
    let all = text(book, last);
    let lines: Vec<&str> = all.split_inclusive('\n').collect();
    fs::write(book.segment(last), lines[..count].concat()).unwrap();
    fs::write(book.segment(last + 1), lines[count..].concat()).unwrap();
}

/// Changes what one entry says, wherever it is.
fn edit(book: &Book, seq: u64) {
    let folder = fs::read_dir(book.dir().join("segments")).unwrap();
    for path in folder.map(|item| item.unwrap().path()) {
        let start = format!("{{\"v\":1,\"seq\":{seq},");
        change_lines(&path, |lines| {
            for line in lines.iter_mut().filter(|line| line.starts_with(&start)) {
                *line = line.replace("\"ana\"", "\"eve\"");
            }
        });
    }
}

#[test]
fn led_05_entries_in_another_segment_than_the_signed_one_are_found() {
    for (what, change) in MOVES {
        let book = book();
        change(&book);
        assert_tampered(&book, what);
        for report in both(&book) {
            assert!(report.findings[0].index.is_some(), "{what}: {:#?}", report.findings);
        }
    }
}

#[test]
fn led_05_an_edit_is_found_whatever_is_done_to_the_segments() {
    for (what, change) in MOVES {
        for seq in [3, 20, 39, 40] {
            let book = book();
            change(&book);
            edit(&book, seq);
            assert_tampered(&book, &format!("{what}, entry {seq}"));
        }
    }
}

#[test]
fn led_05_the_last_segment_split_at_any_line_is_found() {
    let lines = entries_of(&book(), last(&book())).len();
    assert!(lines > 3, "{lines}");
    for count in 0..lines {
        let book = book();
        split(&book, count);
        assert_tampered(&book, &format!("after {count} lines"));
    }
}

#[test]
fn led_05_a_segment_that_the_daemon_would_miss_is_named() {
    let book = book();
    let (last, first) = (last(&book), entries_of(&book, last(&book))[0]);
    fs::rename(book.segment(last), book.segment(last + 1)).unwrap();
    let refused = book.try_open().unwrap_err();
    assert!(matches!(refused, ledger::OpenError::SegmentMissing(number) if number == last), "{refused}");
    for report in both(&book) {
        let [finding] = &report.findings[..] else { panic!("{:#?}", report.findings) };
        assert_eq!((finding.kind, finding.index), (Kind::Reordered, Some(first)));
        assert!(finding.message.contains(&format!("segment {last} is missing")), "{}", finding.message);
    }
}

#[test]
fn led_05_what_is_no_segment_of_the_ledger_is_found() {
    let names =
        ["00000000.seg", "000000005.seg", "evil.seg", "00000001.seg.old", "1.seg", ".hidden", "\u{202e}"];
    for name in names {
        let book = book();
        fs::write(planted(&book, name), text(&book, 1)).unwrap();
        for report in both(&book) {
            assert_eq!(report.verdict, Verdict::Tampered, "{name}");
            let [finding] = &report.findings[..] else { panic!("{:#?}", report.findings) };
            assert_eq!(finding.kind, Kind::Inserted);
        }
    }
    let book = book();
    fs::create_dir(planted(&book, "more")).unwrap();
    symlink("/etc/passwd", planted(&book, "link")).unwrap();
    for report in both(&book) {
        assert_eq!((report.verdict, report.findings.len()), (Verdict::Tampered, 2));
    }
}

#[test]
fn led_05_a_great_many_planted_files_are_counted_and_not_listed() {
    let book = book();
    (0..300).for_each(|number| fs::write(planted(&book, &format!("x{number}")), "").unwrap());
    let report = book.check();
    assert_eq!((report.verdict, report.findings.len()), (Verdict::Tampered, 101));
    assert!(report.findings[100].message.contains("200 more"), "{}", report.findings[100].message);
}

/// Makes another segment of one.
type Forge = (&'static str, fn(&str) -> String);

#[test]
fn led_05_a_forged_segment_in_the_place_of_a_dropped_one_is_found() {
    let forge: [Forge; 5] = [
        ("edited", |text| text.replacen("\"ana\"", "\"eve\"", 1)),
        ("cut", |text| text[..=text.find('\n').unwrap()].to_owned()),
        ("longer", |text| format!("{text}{}\n", text.lines().last().unwrap())),
        ("torn", |text| text.to_owned() + "{"),
        ("empty", |_| String::new()),
    ];
    for (what, change) in forge {
        let book = book();
        let dropped = text(&book, 2);
        let ledger = book.open();
        ledger.drop_before(30).unwrap();
        ledger.close().unwrap();
        assert!(!book.segment(2).exists());
        fs::write(book.segment(2), change(&dropped)).unwrap();
        for report in both(&book) {
            assert_eq!(report.verdict, Verdict::Tampered, "{what}");
            let [finding] = &report.findings[..] else { panic!("{:#?}", report.findings) };
            assert_eq!((finding.kind, finding.segment), (Kind::Inserted, Some(2)));
        }
    }
}

#[test]
fn led_06_what_the_daemon_may_leave_behind_is_not_tampering() {
    // Retention was stopped before or while it removed segments; it removes the newest first.
    let book = book();
    let old: Vec<String> = (1..=last(&book)).map(|number| text(&book, number)).collect();
    let ledger = book.open();
    ledger.drop_before(30).unwrap();
    ledger.close().unwrap();
    let kept = (1..).find(|number| book.segment(*number).exists()).unwrap();
    assert!(kept > 3, "{kept}");
    for number in 1..kept {
        fs::write(book.segment(number), &old[number as usize - 1]).unwrap();
        both(&book).iter().for_each(assert_intact);
    }
    let ledger = book.open();
    assert!(!book.segment(1).exists());
    assert_intact(&ledger.verify_live(&trust(), None));
    drop(ledger);

    // The next segment was begun and nothing written to it; an unfinished write was put aside.
    let book = self::book();
    fs::write(book.dir().join("torn-1"), "{\"v\":1,").unwrap();
    fs::write(book.segment(last(&book) + 1), "").unwrap();
    both(&book).iter().for_each(assert_intact);
    let ledger = book.open();
    assert_intact(&ledger.verify_live(&trust(), None));
    ledger.append(draft("more")).unwrap();
    assert_intact(&ledger.verify_live(&trust(), None));
    ledger.close().unwrap();
    both(&book).iter().for_each(assert_intact);
}

/// A crash: entries that no checkpoint covers, in a segment that has room.
fn with_unsigned_entries() -> (Book, u64) {
    let book = Book::new().written(20, 5);
    let ledger = book.open();
    let signed = ledger.append(draft("signed")).unwrap();
    ledger.checkpoint_now().unwrap();
    ledger.append(draft("unsigned")).unwrap();
    ledger.append(draft("unsigned")).unwrap();
    let files = [book.segment(last(&book)), book.checkpoints()].map(|path| (fs::read(&path).unwrap(), path));
    ledger.close().unwrap();
    files.into_iter().for_each(|(bytes, path)| fs::write(path, bytes).unwrap());
    (book, signed)
}

#[track_caller]
fn assert_not_covered(book: &Book, signed: u64) {
    let report = book.check_by_signature();
    assert_eq!(report.verdict, Verdict::Unverifiable, "{:#?}", report.findings);
    let [finding] = &report.findings[..] else { panic!("{:#?}", report.findings) };
    assert_eq!((finding.kind, finding.index), (Kind::NotCovered, Some(signed + 1)));
}

#[test]
fn led_06_an_empty_segment_does_not_hide_that_entries_are_unsigned() {
    let (book, signed) = with_unsigned_entries();
    assert_not_covered(&book, signed);
    fs::write(book.segment(last(&book) + 1), "").unwrap();
    assert_intact(&book.check());
    assert_not_covered(&book, signed);
    edit(&book, signed + 1);
    assert_eq!(book.check().verdict, Verdict::Tampered);
    assert_not_covered(&book, signed);
}

#[test]
fn led_06_a_writer_that_began_a_segment_in_vain_goes_on_where_unsigned_entries_are() {
    // The next segment was begun, that could not be made durable, entries went on in this one, and then a crash.
    for more in [0, 3] {
        let (book, signed) = with_unsigned_entries();
        fs::write(book.segment(2), "").unwrap();
        let ledger = book.open();
        for number in 0..more {
            ledger.append(draft(number)).unwrap();
        }
        assert_intact(&ledger.verify_live(&trust(), None));
        ledger.close().unwrap();
        assert_intact(&book.check());
        assert_intact(&book.check_by_signature());
        edit(&book, signed + 1);
        assert_eq!(book.check().verdict, Verdict::Tampered);
        assert_eq!(book.check_by_signature().verdict, Verdict::Tampered);
    }
}

#[test]
fn led_05_more_than_one_empty_segment_is_not_of_the_daemons_making() {
    let book = book();
    let last = last(&book);
    fs::write(book.segment(last + 1), "").unwrap();
    fs::write(book.segment(last + 2), "").unwrap();
    for report in both(&book) {
        assert_eq!(report.verdict, Verdict::Tampered);
        assert_kind(&report, Kind::Inserted);
    }
}

/// Puts something that cannot be read in the place of a file.
type Spoil = (&'static str, fn(&Path));

const UNREADABLE: [Spoil; 2] = [
    ("directory", |path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    }),
    ("link", |path| {
        let elsewhere = path.parent().unwrap().parent().unwrap().join("elsewhere");
        fs::rename(path, &elsewhere).unwrap();
        symlink(elsewhere, path).unwrap();
    }),
];

#[track_caller]
fn assert_only_unreadable(report: &Report, what: &str) {
    assert_eq!(report.verdict, Verdict::Unverifiable, "{what}: {:#?}", report.findings);
    let others: Vec<_> = report.findings.iter().filter(|it| it.kind != Kind::Unreadable).collect();
    assert!(others.is_empty(), "{what}: {others:#?}");
}

#[test]
fn led_06_a_segment_that_cannot_be_read_is_not_called_tampered() {
    for (what, spoil) in UNREADABLE {
        for number in 1..=last(&book()) {
            let book = book();
            spoil(&book.segment(number));
            for report in both(&book) {
                assert_only_unreadable(&report, &format!("{what} {number}"));
                assert_eq!(report.findings.len(), 1);
                assert_eq!(report.findings[0].segment, Some(number));
            }
            // It excuses nothing elsewhere.
            let other = if number == 1 { 2 } else { 1 };
            change_lines(&book.segment(other), |lines| lines[1] = lines[1].replace("ana", "eve"));
            assert_tampered(&book, what);
        }
    }
}

#[test]
fn led_06_unsigned_entries_that_cannot_be_read_are_not_called_tampered() {
    let book = book();
    let ledger = book.open();
    let signed = last(&book);
    while last(&book) == signed {
        ledger.append(draft("more")).unwrap();
    }
    UNREADABLE[0].1(&book.segment(last(&book)));
    for report in [book.check(), book.check_by_signature(), ledger.verify_live(&trust(), None)] {
        assert_only_unreadable(&report, "the last");
    }
}

#[test]
fn led_06_records_or_a_folder_that_cannot_be_read_are_not_called_tampered() {
    for retention in [false, true] {
        let book = book();
        if retention {
            let ledger = book.open();
            ledger.drop_before(30).unwrap();
            ledger.close().unwrap();
        }
        fs::rename(book.checkpoints(), book.dir().join("elsewhere")).unwrap();
        fs::create_dir(book.checkpoints()).unwrap();
        for report in both(&book) {
            assert_eq!(report.verdict, Verdict::Unverifiable, "{:#?}", report.findings);
            assert_kind(&report, Kind::Unreadable);
        }
        fs::remove_dir(book.checkpoints()).unwrap();
        fs::rename(book.dir().join("elsewhere"), book.checkpoints()).unwrap();
        both(&book).iter().for_each(assert_intact);
        fs::rename(book.dir().join("segments"), book.dir().join("elsewhere")).unwrap();
        fs::write(book.dir().join("segments"), "").unwrap();
        both(&book).iter().for_each(|report| assert_only_unreadable(report, "the folder"));
    }
}
