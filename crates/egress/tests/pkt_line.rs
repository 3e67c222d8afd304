//! EGR-21: what a push wants to change is read before any of it goes on, or the push is refused.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use egress::pkt_line::{BadPush, BadRef, Change, MAX_BYTES, MAX_COMMANDS, Push, PushReader, RefName};
use proptest::prelude::*;

const ZERO: &str = "0000000000000000000000000000000000000000";
const ONE: &str = "1111111111111111111111111111111111111111";
const TWO: &str = "abcdef0123456789abcdef0123456789abcdef01";
const CAPABILITIES: &str = "\0 report-status-v2 side-band-64k object-format=sha1 agent=git/2.47.3-Linux";

fn line(text: &str) -> String {
    format!("{:04x}{text}", text.len() + 4)
}

/// A push of these commands, in pieces of this size; also how many bytes were used.
fn read_in(bytes: &[u8], size: usize) -> Result<(Push, Vec<u8>), BadPush> {
    let mut reader = PushReader::new();
    for mut piece in bytes.chunks(size) {
        while !piece.is_empty() {
            let step = reader.read(piece)?;
            if step.done {
                return reader.finish();
            }
            assert!(step.used > 0, "every step goes on");
            piece = &piece[step.used..];
        }
    }
    reader.finish()
}

fn read(bytes: &[u8]) -> Result<(Push, Vec<u8>), BadPush> {
    let whole = read_in(bytes, bytes.len().max(1));
    for size in [1, 3, 7] {
        assert_eq!(read_in(bytes, size), whole, "in pieces of {size}");
    }
    whole
}

fn refused(text: &str) -> BadPush {
    read(text.as_bytes()).unwrap_err()
}

#[test]
fn egr_21_commands_are_told_and_their_bytes_kept() {
    let commands = [
        line(&format!("{ZERO} {ONE} refs/heads/new{CAPABILITIES}")),
        line(&format!("{ONE} {TWO} refs/heads/main\n")),
        line(&format!("{TWO} {ZERO} refs/tags/v1.0")),
        "0000".to_owned(),
    ]
    .concat();
    let sent = format!("{commands}PACK and more");
    let (push, bytes) = read(sent.as_bytes()).unwrap();
    assert_eq!(bytes, commands.as_bytes());
    let told: Vec<_> =
        push.commands.iter().map(|it| (it.change(), it.name.as_str(), it.new.as_str())).collect();
    assert_eq!(
        told,
        [
            (Change::Create, "refs/heads/new", ONE),
            (Change::Update, "refs/heads/main", TWO),
            (Change::Delete, "refs/tags/v1.0", ZERO)
        ]
    );
    assert!(push.has_pack());
    let expected = ["report-status-v2", "side-band-64k", "object-format=sha1", "agent=git/2.47.3-Linux"];
    assert_eq!(push.capabilities, expected);
}

#[test]
fn egr_21_the_short_request_before_logging_in_and_deletes_have_no_pack() {
    let (push, bytes) = read(b"0000").unwrap();
    assert_eq!((push.commands.len(), push.has_pack(), &bytes[..]), (0, false, &b"0000"[..]));
    let delete = line(&format!("{ONE} {ZERO} refs/heads/old{CAPABILITIES}")) + "0000";
    assert!(!read(delete.as_bytes()).unwrap().0.has_pack());
}

#[test]
fn egr_21_shallow_lines_options_and_other_hashes_are_read() {
    let text = [
        line(&format!("shallow {TWO}\n")),
        line(&format!("{ZERO} {ONE} refs/heads/a\0report-status push-options")),
        "0000".to_owned(),
        line("ci.skip"),
        line("reviewer=ä\n"),
        "0000".to_owned(),
    ]
    .concat();
    let (push, bytes) = read(format!("{text}PACK").as_bytes()).unwrap();
    assert_eq!(bytes, text.as_bytes());
    assert_eq!(
        (push.shallow[0].as_str(), &push.options[..]),
        (TWO, &["ci.skip".to_owned(), "reviewer=ä".to_owned()][..])
    );

    let (long, none) = ("ab".repeat(32), "0".repeat(64));
    let sha256 = line(&format!("{none} {long} refs/heads/a\0object-format=sha256")) + "0000";
    assert_eq!(read(sha256.as_bytes()).unwrap().0.commands[0].new.as_str(), long);
    for odd in [
        line(&format!("{none} {long} refs/heads/a\0object-format=sha1")),
        line(&format!("{none} {long} refs/heads/a")),
        line(&format!("{ZERO} {ONE} refs/heads/a\0object-format=sha256")),
        line(&format!("{ZERO} {long} refs/heads/a")),
        line(&format!("{ZERO} {ONE} refs/heads/a\0object-format=md5")),
        line(&format!("{ZERO} {ONE} refs/heads/a\0object-format=sha1 object-format=sha256")),
        line(&format!("shallow {long}")) + &line(&format!("{ZERO} {ONE} refs/heads/a")),
    ] {
        assert_eq!(refused(&odd), BadPush::ObjectFormat, "{odd}");
    }
}

#[test]
fn egr_21_lines_have_strict_lengths() {
    for odd in
        ["0001", "0002", "0003", "0004", "fff1", "ffff", "00g0", "+010", " 010", "0x10", "-001", "\0\0\0\0"]
    {
        assert_eq!(refused(odd), BadPush::Line, "{odd:?}");
    }
    for cut in ["", "0", "000", "0010", "00100000000"] {
        assert_eq!(refused(cut), BadPush::Truncated, "{cut}");
    }
    let open = line(&format!("{ZERO} {ONE} refs/heads/a"));
    assert_eq!(refused(&open), BadPush::Truncated, "commands without an end");
    let no_options = line(&format!("{ZERO} {ONE} refs/heads/a\0push-options")) + "0000" + &line("x");
    assert_eq!(refused(&no_options), BadPush::Truncated);
}

#[test]
fn adv_n18_what_git_would_forgive_is_refused() {
    let first = line(&format!("{ZERO} {ONE} refs/heads/a{CAPABILITIES}"));
    for (rest, why) in [
        (line(&format!("{ZERO} {ONE} refs/heads/a")), BadPush::Duplicate),
        (line(&format!("{ZERO} {ONE} refs/heads/b\0push-options")), BadPush::Command),
        (line(&format!("shallow {ONE}")), BadPush::Command),
        (line(&format!("{ZERO}  {ONE} refs/heads/b")), BadPush::Command),
        (line(&format!("{ZERO} {ONE}")), BadPush::Command),
        (line(&format!("{ZERO} {} refs/heads/b", "A".repeat(40))), BadPush::Command),
        (line(&format!("{ZERO} {} refs/heads/b", "1".repeat(39))), BadPush::Command),
        (line(&format!("{ZERO} {ZERO} refs/heads/b")), BadPush::Command),
        (line("\n"), BadPush::Command),
        (line(&format!("{ZERO} {ONE}  refs/heads/b")), BadPush::Ref(BadRef::Character)),
        (line(&format!("{ZERO} {ONE} refs/heads/b\n\n")), BadPush::Ref(BadRef::Character)),
        (line("push-cert\0report-status\n"), BadPush::Certificate),
    ] {
        assert_eq!(refused(&format!("{first}{rest}0000")), why, "{rest:?}");
    }
    for odd in ["\0a\tb", "\0a\nb", "\0a\0b", "\0\u{e4}"] {
        assert_eq!(
            refused(&line(&format!("{ZERO} {ONE} refs/heads/a{odd}"))),
            BadPush::Capability,
            "{odd:?}"
        );
    }
}

#[test]
fn everything_is_bounded() {
    let commands = |count: usize| -> String {
        (0..count).map(|at| line(&format!("{ZERO} {ONE} refs/heads/{at}"))).collect::<String>() + "0000"
    };
    assert_eq!(read_in(commands(MAX_COMMANDS).as_bytes(), 4096).unwrap().0.commands.len(), MAX_COMMANDS);
    assert_eq!(read_in(commands(MAX_COMMANDS + 1).as_bytes(), 4096), Err(BadPush::TooLong));
    let shallow = line(&format!("shallow {ONE}")).repeat(MAX_COMMANDS + 1);
    assert_eq!(read_in(shallow.as_bytes(), 4096), Err(BadPush::TooLong));
    let long = line(&format!("{ZERO} {ONE} refs/heads/a\0{}", "a".repeat(60_000)));
    assert!(read((long + "0000").as_bytes()).is_ok());
    let options = line(&format!("{ZERO} {ONE} refs/heads/a\0push-options")) + "0000";
    assert_eq!(refused(&(options.clone() + &line("x").repeat(65))), BadPush::Option);
    assert_eq!(refused(&(options.clone() + &line(&"x".repeat(1025)))), BadPush::Option);
    assert_eq!(refused(&(options + &line("x\0y"))), BadPush::Option);
    let long_names: String =
        (0..MAX_COMMANDS).map(|at| line(&format!("{ZERO} {ONE} refs/heads/{at:01000}"))).collect();
    assert!(long_names.len() > MAX_BYTES);
    assert_eq!(read_in(long_names.as_bytes(), 4096), Err(BadPush::TooLong), "many good lines");
    // And as much as fits is taken.
    let shallow = line(&format!("shallow {ONE}")).repeat(MAX_COMMANDS);
    let longest = format!("{:04x}{ZERO} {ONE} refs/heads/a\0{}", 65520, "a".repeat(65520 - 4 - 95));
    assert!(shallow.len() + longest.len() < MAX_BYTES);
    assert!(read_in((shallow + &longest + "0000").as_bytes(), 4096).is_ok());
}

/// Names, and whether `git check-ref-format` takes them.
const NAMES: [(&str, Result<(), BadRef>); 33] = [
    ("refs/heads/main", Ok(())),
    ("refs/heads/feature/x-1_2.3", Ok(())),
    ("refs/for/main%topic=x", Ok(())),
    ("refs/heads/ä", Ok(())),
    ("refs/heads/@", Ok(())),
    ("refs/heads/a@b", Ok(())),
    ("refs/heads/-x", Ok(())),
    ("refs/heads/lock", Ok(())),
    ("refs/heads/a.locks", Ok(())),
    ("refs/heads/{x}", Ok(())),
    ("refs/pull/1/head", Ok(())),
    ("HEAD", Err(BadRef::Place)),
    ("refs", Err(BadRef::Place)),
    ("refs/main", Err(BadRef::Place)),
    ("Refs/heads/main", Err(BadRef::Place)),
    ("heads/main", Err(BadRef::Place)),
    ("", Err(BadRef::Place)),
    ("refs/", Err(BadRef::Empty)),
    ("refs//heads/main", Err(BadRef::Empty)),
    ("refs/heads/", Err(BadRef::Empty)),
    ("refs/heads//main", Err(BadRef::Empty)),
    ("refs/heads/.x", Err(BadRef::Dot)),
    ("refs/heads/../x", Err(BadRef::Dot)),
    ("refs/heads/a..b", Err(BadRef::Dot)),
    ("refs/heads/a.", Err(BadRef::Dot)),
    ("refs/heads/a.lock", Err(BadRef::Lock)),
    ("refs/heads/a.lock/b", Err(BadRef::Lock)),
    ("refs/heads/a@{1}", Err(BadRef::Brace)),
    ("refs/heads/a b", Err(BadRef::Character)),
    ("refs/heads/a~1", Err(BadRef::Character)),
    ("refs/heads/*", Err(BadRef::Character)),
    ("refs/heads/a\\b", Err(BadRef::Character)),
    ("refs/heads/a\x7f", Err(BadRef::Character)),
];

#[test]
fn egr_21_names_of_refs_follow_the_rules_of_git() {
    for (name, expected) in NAMES {
        assert_eq!(RefName::parse(name.as_bytes()).map(|_| ()), expected, "{name:?}");
    }
    for odd in ["^", ":", "?", "[", "\t", "\n", "\0"] {
        let name = format!("refs/heads/a{odd}b");
        assert_eq!(RefName::parse(name.as_bytes()), Err(BadRef::Character), "{odd:?}");
    }
    assert_eq!(RefName::parse(b"refs/heads/\xff"), Err(BadRef::Character));
    assert_eq!(RefName::parse(&[b"refs/heads/", &[b'a'; 1024][..]].concat()), Err(BadRef::TooLong));
}

proptest! {
    #[test]
    fn egr_21_where_a_push_is_cut_does_not_matter(
        names in prop::collection::hash_set("[a-z]{1,8}(/[a-z]{1,4})?", 0..6), pack in prop::collection::vec(any::<u8>(), 0..20),
        size in 1_usize..300, change in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let mut commands = String::new();
        for (at, name) in names.iter().enumerate() {
            let more = if at == 0 { CAPABILITIES } else { "" };
            commands += &line(&format!("{ONE} {TWO} refs/heads/{name}{more}"));
        }
        let mut bytes = (commands + "0000").into_bytes();
        if let Some((at, to)) = change { let at = at.index(bytes.len()); bytes[at] = to; }
        let length = bytes.len();
        bytes.extend(pack);
        let whole = read_in(&bytes, bytes.len());
        prop_assert_eq!(&read_in(&bytes, size), &whole);
        prop_assert!(whole.is_ok() || change.is_some());
        if let Ok((push, taken)) = whole {
            prop_assert_eq!(&bytes[..taken.len()], &taken[..], "what goes on is what came");
            if change.is_none() {
                prop_assert_eq!((push.commands.len(), taken.len()), (names.len(), length));
            }
        }
    }

    #[test]
    fn no_bytes_make_the_reader_stumble(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_in(&bytes, 50);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let _ = read_in((line(&text) + "0000").as_bytes(), 50);
    }
}
