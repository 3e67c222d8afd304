//! LED-02, LED-03, LED-04, SBX-09: entries from processes that live for a moment, in the same ledger.

mod cost;
mod power_loss;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::verify::{Kind, Trust, Verdict, verify};
use ledger::{AppendError, Decision, Fault, Once, OpenError, Options, Recorded, Recovery, Seed};
use model::Clock;
use zeroize::Zeroizing;

use crate::kit::{Book, SmallDisk, assert_intact, assert_kind, draft, keys, unscrubbed};

fn options(book: &Book) -> Options {
    Options { faults: book.options.faults.clone(), ..Once::options() }
}

fn try_once(book: &Book) -> Result<(Once, Recovery), OpenError> {
    let clock: Arc<dyn Clock> = Arc::clone(&book.clock) as _;
    Once::open_with(&book.dir(), Arc::new(keys()), clock, unscrubbed(), options(book))
}

fn once(book: &Book) -> Once {
    try_once(book).unwrap().0
}

/// One process's worth: open, append, close.
fn add(book: &Book, text: impl std::fmt::Display) -> u64 {
    let mut once = once(book);
    let numbers = once.append(&[draft(text)]).unwrap();
    once.close().unwrap();
    numbers[0]
}

fn records(book: &Book) -> usize {
    std::fs::read_to_string(book.checkpoints()).unwrap().lines().count()
}

#[test]
fn a_batch_is_one_run_of_numbers_and_the_result_is_an_ordinary_ledger() {
    let book = Book::new();
    let mut first = once(&book);
    assert_eq!(first.append(&[draft(1), draft(2), draft(3)]).unwrap(), [1, 2, 3]);
    assert!(first.append(&[]).unwrap().is_empty());
    assert_eq!(first.head().checkpoint, 1, "the first entries are signed at once");
    drop(first);
    assert_eq!(add(&book, 4), 4);
    assert_intact(&book.check());
    assert_eq!(book.entries().last().unwrap().resource, "ses_4");
    once(&book).checkpoint().unwrap();
    assert_intact(&book.check_by_signature());
}

/// What a process remembers of its ledger is used only if nobody wrote: each way of writing meanwhile is seen.
#[test]
fn led_03_a_ledger_that_rested_goes_on_from_what_the_files_hold() {
    type Meanwhile = fn(&Book);
    let ways: [(&str, Meanwhile, u64); 5] = [
        ("nobody", |_| {}, 3),
        ("an entry", |book| assert_eq!(add(book, "other"), 3), 4),
        ("a checkpoint", |book| assert!(once(book).checkpoint().unwrap() > 0), 3),
        ("twenty entries and a checkpoint", |book| (0..20).for_each(|n| assert_eq!(add(book, n), n + 3)), 23),
        (
            "another ledger in its place",
            |book| std::fs::rename(book.dir(), book.dir().with_extension("old")).unwrap(),
            1,
        ),
    ];
    let book = Book::new();
    let (_held, _) = once(&book).rest().again().unwrap();
    assert!(matches!(try_once(&book), Err(OpenError::Locked { .. })), "it has the lock again");
    for (what, meanwhile, expected) in ways {
        let book = Book::new();
        let mut first = once(&book);
        first.append(&[draft(1), draft(2)]).unwrap();
        let resting = first.rest();
        meanwhile(&book);
        let (mut again, _) = resting.again().unwrap();
        assert_eq!(again.append(&[draft("last")]).unwrap(), [expected], "{what}");
        drop(again.rest());
        assert_eq!(add(&book, "next"), expected + 1, "{what}");
        assert_intact(&book.check());
    }
}

#[test]
fn once_and_the_daemons_ledger_go_on_where_the_other_stopped() {
    let mut book = Book::new();
    book.options.segment_bytes = 3000;
    for round in 0..5u64 {
        assert_eq!(add(&book, "once"), 4 * round + 1);
        let mut pair = once(&book);
        pair.append(&[draft("pair"), draft("pair")]).unwrap();
        drop(pair); // unsigned
        let (ledger, recovery) = book.try_open().unwrap();
        assert_eq!(recovery, Recovery::default());
        assert_eq!(ledger.append(draft("daemon")).unwrap(), 4 * round + 4);
        ledger.close().unwrap();
        assert_intact(&book.check_by_signature());
    }
    assert!(book.segment(2).exists(), "the daemon began another one");
}

#[test]
fn entries_longer_than_a_short_read_are_gone_on_from() {
    let book = Book::new();
    let long = |draft: ledger::Draft, count| {
        (0..count).fold(draft, |draft, place| draft.with(format!("n{place}"), "x".repeat(4000)))
    };
    for (place, count) in [0usize, 1, 2, 14, 32, 0].into_iter().enumerate() {
        let mut once = once(&book);
        once.append(&[long(draft(place), count)]).unwrap();
        once.checkpoint().unwrap();
        assert_eq!(once.head().seq, place as u64 + 1);
    }
    drop(book.open());
    assert_intact(&book.check_by_signature());
}

#[test]
fn led_04_checkpoints_come_by_count_by_time_and_when_a_segment_is_full() {
    let book = Book::new();
    for number in 0..33 {
        add(&book, number);
    }
    assert_eq!(records(&book), 3, "after 1, 17 and 33");
    add(&book, "alone");
    book.clock.advance(60_000);
    add(&book, "a minute later");
    assert_eq!(records(&book), 4);
    add(&book, "before the clock went back");
    book.clock.advance(-5000);
    add(&book, "after");
    assert_eq!(records(&book), 5);
    for number in 0..64 {
        once(&book).append(&[draft(number)]).unwrap(); // killed before it could close
    }
    assert_eq!(records(&book), 6, "appending signs when nobody closes");

    let small = Options { segment_bytes: 1000, ..options(&book) };
    let clock: Arc<dyn Clock> = Arc::clone(&book.clock) as _;
    let (mut full, _) = Once::open_with(&book.dir(), Arc::new(keys()), clock, unscrubbed(), small).unwrap();
    full.append(&[draft("in the next segment")]).unwrap();
    assert_eq!(full.head().segment, 2);
    full.checkpoint().unwrap();
    drop(full);
    let report = book.check_by_signature();
    assert_eq!(report.verdict, Verdict::Intact, "{:#?}", report.findings);
}

#[test]
fn led_03_cut_at_any_byte_the_next_process_goes_on_and_the_break_is_marked() {
    let source = Book::new();
    for number in 0..4 {
        add(&source, number);
    }
    let signed = std::fs::read(source.checkpoints()).unwrap();
    let whole = std::fs::read(source.segment(1)).unwrap();
    let kept = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for length in kept..=whole.len() {
        let book = Book::new();
        std::fs::create_dir_all(book.dir().join("segments")).unwrap();
        std::fs::write(book.segment(1), &whole[..length]).unwrap();
        std::fs::write(book.checkpoints(), &signed).unwrap();
        let complete = whole[..length].iter().filter(|byte| **byte == b'\n').count();
        let torn = whole[length - 1] != b'\n';

        let (mut once, recovery) = try_once(&book).unwrap();
        let number = once.append(&[draft("after")]).unwrap()[0];
        drop(once);

        assert_eq!(recovery.torn.is_some(), torn, "at {length}");
        assert_eq!(number as usize, complete + usize::from(torn) + 1, "at {length}");
        if torn {
            let mark = &book.entries()[complete];
            assert_eq!((mark.action.as_str(), mark.decision), ("ledger.recovered", Decision::Noted));
        }
        assert_intact(&book.check());
    }
}

#[test]
fn led_03_a_torn_checkpoint_is_cut_and_a_cut_ledger_is_refused() {
    let source = Book::new();
    for number in 0..17 {
        add(&source, number);
    }
    let signed = std::fs::read(source.checkpoints()).unwrap();
    let first = signed.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for length in (first..signed.len()).step_by(7) {
        std::fs::write(source.checkpoints(), &signed[..length]).unwrap();
        let mut once = once(&source);
        once.checkpoint().unwrap();
        drop(once);
        assert_intact(&source.check_by_signature());
        assert_eq!(records(&source), 2, "at {length}");
    }
    let whole = std::fs::read(source.segment(1)).unwrap();
    std::fs::write(source.segment(1), &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(try_once(&source), Err(OpenError::RolledBack { claimed: 17, .. })));
    assert_eq!(std::fs::read(source.segment(1)).unwrap().len(), whole.len() / 2, "nothing was changed");
}

#[test]
fn led_02_what_the_disk_refuses_leaves_no_trace_and_the_next_process_works() {
    for fault in [Fault::NoSpace, Fault::Io, Fault::ReadOnly, Fault::Short(0), Fault::Short(17), Fault::Sync]
    {
        let book = Book::new();
        add(&book, 1);
        let before = std::fs::read(book.segment(1)).unwrap();
        let mut failing = once(&book);
        book.faults.set(Some(fault));
        let refused = failing.append(&[draft(2), draft(3)]).unwrap_err();
        assert!(matches!(refused, AppendError::Storage(_)), "{fault:?}: {refused}");
        assert!(std::error::Error::source(&refused).is_some(), "the caller learns why");
        assert_eq!(std::fs::read(book.segment(1)).unwrap(), before, "{fault:?}");
        let kept = failing.append_narrowing(&draft("end"));
        assert!(matches!(kept, Ok(Recorded::Reserved(_))), "{fault:?}: {kept:?}");
        drop(failing);

        book.faults.set(None);
        let (mut once, recovery) = try_once(&book).unwrap();
        assert_eq!((recovery.late, recovery.torn), (1, None));
        assert_eq!(once.append(&[draft(4)]).unwrap(), [3], "{fault:?}");
        drop(once);
        assert!(book.entries()[1].is_late());
        assert_eq!(try_once(&book).unwrap().1, Recovery::default(), "late entries come once");
        assert_intact(&book.check());
    }
}

#[test]
fn led_02_a_checkpoint_that_fails_does_not_unmake_entries() {
    let book = Book::new();
    book.faults.set(Some(Fault::Records));
    let mut failing = once(&book);
    assert_eq!(failing.append(&[draft(1)]).unwrap(), [1]);
    failing.checkpoint().unwrap_err();
    drop(failing);
    book.faults.set(None);
    assert_eq!(add(&book, 2), 2);
    assert_eq!(records(&book), 1);
    assert_intact(&book.check_by_signature());
}

#[test]
fn what_another_process_opened_stays_open_until_it_is_closed() {
    let book = Book::new();
    let opened = once(&book).append(&[draft("long").opens()]).unwrap()[0];
    add(&book, "meanwhile");
    assert_eq!(once(&book).append(&[draft("long").closes(opened)]).unwrap(), [3]);
    let left = once(&book).append(&[draft("lost").opens()]).unwrap()[0];
    let (ledger, recovery) = book.try_open().unwrap();
    assert_eq!(recovery.interrupted.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [left]);
    ledger.close().unwrap();
    assert_intact(&book.check_by_signature());
}

#[test]
fn a_ledger_that_is_held_is_waited_for_and_then_named_with_its_holder() {
    let book = Book::new();
    let held = book.open();
    let begun = Instant::now();
    let refused = try_once(&book).unwrap_err();
    assert!((Duration::from_secs(2)..Duration::from_secs(10)).contains(&begun.elapsed()));
    assert_eq!(
        refused.to_string(),
        format!("the ledger is in use by process `{}`; stop it first", std::process::id())
    );
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| add(&book, "patient"));
        held.close().unwrap();
        assert_eq!(waiting.join().unwrap(), 1);
    });
}

#[test]
fn everything_is_its_owners_alone() {
    let book = Book::new();
    add(&book, 1);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&book.dir()), mode(&book.dir().join("segments"))), (0o700, 0o700));
    for file in [book.segment(1), book.checkpoints(), book.dir().join("lock"), book.dir().join("reserve")] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

const CHILD: &str = "PALISADE_LEDGER_ONCE_CHILD";
const CHILD_MODE: &str = "PALISADE_LEDGER_ONCE_MODE";

/// Not a test of its own: the process that the next tests start. Without the variable it does nothing.
#[test]
fn child_that_opens_appends_and_closes() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let endless = std::env::var(CHILD_MODE).is_ok_and(|mode| mode == "endless");
    for number in 0..if endless { usize::MAX } else { 50 } {
        let clock = Arc::new(model::SystemClock);
        // Eight in a row on a busy machine may wait longer than a person would.
        let options = Options { lock_wait: Duration::from_secs(60), ..Once::options() };
        let (mut once, _) =
            Once::open_with(dir.as_ref(), Arc::new(keys()), clock, unscrubbed(), options).unwrap();
        let who = std::process::id();
        let numbers = once.append(&[draft(format!("{who}-{number}-a")), draft(format!("{who}-{number}-b"))]);
        once.close().unwrap();
        println!("\nacknowledged {}", numbers.unwrap()[1]);
    }
}

fn child(book: &Book, mode: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "once::child_that_opens_appends_and_closes", "--nocapture"])
        .env(CHILD, book.dir())
        .env(CHILD_MODE, mode)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

fn acknowledged(output: &[u8]) -> Vec<u64> {
    let lines = std::str::from_utf8(output).unwrap().lines();
    lines.filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok()).collect()
}

#[test]
fn led_03_eight_processes_take_turns_and_no_batch_is_split() {
    let book = Book::new();
    let children: Vec<Child> = (0..8).map(|_| child(&book, "some")).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        assert_eq!(acknowledged(&output.stdout).len(), 50);
    }
    once(&book).checkpoint().unwrap();
    assert_intact(&book.check_by_signature());
    assert_intact(&book.check());
    let entries = book.entries();
    assert_eq!(entries.len(), 8 * 50 * 2);
    for pair in entries.chunks(2) {
        let stem = pair[0].resource.strip_suffix("-a").unwrap();
        assert_eq!(pair[1].resource.strip_suffix("-b"), Some(stem));
    }
}

#[test]
fn led_03_nothing_acknowledged_is_lost_when_processes_are_killed() {
    let book = Book::new();
    let mut last = 0;
    for round in 0..10u64 {
        let mut children = [child(&book, "endless"), child(&book, "endless")];
        std::thread::sleep(Duration::from_millis(60 + 7 * round)); // the moment of the kill, not a synchronisation
        children.iter_mut().for_each(|child| child.kill().unwrap());
        let outputs = children.map(|child| child.wait_with_output().unwrap().stdout);
        let told = outputs.iter().flat_map(|output| acknowledged(output)).max().unwrap_or(0);
        add(&book, "after the kill");
        let end = book.entries().last().unwrap().seq;
        assert!(end > told && end > last, "round {round}: {told} of {end}");
        last = end;
        assert_intact(&book.check());
    }
    assert!(last > 20, "the children wrote {last} entries");
}

#[test]
fn led_02_a_disk_that_is_really_full_refuses_keeps_the_end_and_recovers() {
    let home = tempfile::TempDir::new().unwrap();
    let Some(_disk) = SmallDisk::mount(home.path(), "256k") else { return };
    let ballast = home.path().join("ballast");
    let book = Book::in_dir(home);
    add(&book, 0);
    let mut file = std::fs::File::create(&ballast).unwrap();
    while std::io::Write::write_all(&mut file, &[1; 512]).is_ok() {}
    drop(file);
    let refused = (0..100).find_map(|number| once(&book).append(&[draft(number)]).err());
    assert!(matches!(refused, Some(AppendError::Storage(_))), "{refused:?}");
    let acknowledged = once(&book).head().seq;
    assert!(matches!(once(&book).append_narrowing(&draft("end")), Ok(Recorded::Reserved(_))));

    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(add(&book, "again"), acknowledged + 2, "after the late one");
    assert_intact(&book.check());
}

fn user_seed() -> Seed {
    Seed::new(Zeroizing::new(std::array::from_fn(|place| u8::try_from(place * 3).unwrap()))).unwrap()
}

fn verifier(dir: &Path, trust: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_palisade-verify"))
        .arg(dir)
        .arg("--trust")
        .arg(trust)
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn led_05_the_verifier_checks_a_users_ledger_by_the_users_public_key() {
    let book = Book::new();
    let seed = user_seed();
    let open = || Once::open(&book.dir(), &Arc::new(seed.keys()), unscrubbed()).unwrap().0;
    for number in 0..20 {
        let mut once = open();
        once.append(&[draft(number)]).unwrap();
        once.close().unwrap();
    }
    let outside = tempfile::TempDir::new().unwrap();
    let trust = outside.path().join("trust.json");
    let root = Trust::from_keys([seed.trusted_key()]).unwrap();
    std::fs::write(&trust, root.to_json().unwrap()).unwrap();
    let (code, text) = verifier(&book.dir(), &trust);
    assert_eq!(code, Some(2), "the last ones are not signed yet: {text}");
    assert_intact(&verify(&book.dir(), &root, Some(&seed.chain_key()), None));

    open().checkpoint().unwrap();
    let (code, text) = verifier(&book.dir(), &trust);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("entries: 20, covered to 20"), "{text}");

    crate::kit::change_lines(&book.segment(1), |lines| lines[2] = lines[2].replace("ses_2", "ses_3"));
    assert_eq!(verifier(&book.dir(), &trust).0, Some(1));
    let report = verify(&book.dir(), &root, Some(&seed.chain_key()), None);
    assert_kind(&report, Kind::Edited);
}
