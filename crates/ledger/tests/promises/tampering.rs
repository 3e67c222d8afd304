//! LED-05 and ADV-A09: each kind of change is found, named and located, with the chain key and without.

use ledger::verify::{Kind, Status, Trust, TrustedKey, Verdict, verify};
use ledger::{Keys, Ledger};
use zeroize::Zeroizing;

use crate::kit::{
    Book, assert_found, assert_intact, assert_kind, chain_key, change_lines, draft, keys, trust,
};

/// Twenty entries, a checkpoint after every fifth.
fn book() -> Book {
    Book::new().written(20, 5)
}

#[test]
fn an_untouched_ledger_is_intact() {
    let book = book();
    assert_intact(&book.check());
    assert_intact(&book.check_by_signature());
}

#[test]
fn led_05_an_edit_is_found_and_located() {
    let book = book();
    change_lines(&book.segment(1), |lines| lines[11] = lines[11].replace("ses_12", "ses_99"));
    assert_found(&book.check(), Kind::Edited, 12);
    let by_signature = book.check_by_signature();
    assert_found(&by_signature, Kind::Edited, 11); // the first of the range that the checkpoint signed
    assert!(by_signature.findings[0].message.contains("from 11 to 15"), "{:?}", by_signature.findings);
}

#[test]
fn led_05_an_edit_of_every_field_is_found_and_located() {
    for (from, to) in [
        ("\"seq\":12", "\"seq\":14"),
        ("\"who\":\"ana\"", "\"who\":\"bob\""),
        ("\"allowed\"", "\"refused\""),
        ("\"cause\":\"grant\"", "\"cause\":\"other\""),
        ("\"prev\":\"", "\"prev\":\"0"),
        ("\"mac\":\"", "\"mac\":\"0"),
        ("{\"v\":1", "{\"v\":2"),
        ("\"detail\":{}", "\"detail\":{\"a\":\"b\"}"),
        ("\"at\":17", "\"at\":18"),
    ] {
        let book = book();
        change_lines(&book.segment(1), |lines| {
            let changed = lines[11].replacen(from, to, 1);
            assert_ne!(changed, lines[11]);
            lines[11] = changed;
        });
        let report = book.check();
        assert_eq!(report.verdict, Verdict::Tampered);
        assert_eq!((report.findings[0].kind, report.findings[0].index), (Kind::Edited, Some(12)), "{to}");
        assert_eq!(book.check_by_signature().verdict, Verdict::Tampered);
    }
}

#[test]
fn led_05_a_deleted_entry_is_found_and_located() {
    let book = book();
    change_lines(&book.segment(1), |lines| drop(lines.remove(11)));
    assert_found(&book.check(), Kind::Deleted, 12);
    assert_found(&book.check_by_signature(), Kind::Deleted, 12);
}

#[test]
fn led_05_a_deleted_segment_is_found_and_located() {
    let book = Book::with_small_segments().written(30, 5);
    let first = book.entries().iter().map(|it| it.seq).find(|seq| in_segment(&book, 2, *seq)).unwrap();
    std::fs::remove_file(book.segment(2)).unwrap();
    assert_found(&book.check(), Kind::Deleted, first);
    assert_found(&book.check_by_signature(), Kind::Deleted, first);
}

fn in_segment(book: &Book, segment: u32, seq: u64) -> bool {
    std::fs::read_to_string(book.segment(segment)).unwrap().contains(&format!("\"seq\":{seq},"))
}

#[test]
fn led_05_an_inserted_entry_is_found_and_located() {
    let book = book();
    change_lines(&book.segment(1), |lines| {
        let forged = lines[11].replace("ses_12", "ses_99");
        let (start, end) = forged.split_at(forged.len() - 20);
        lines.insert(11, format!("{start}{}", end.replace(|c: char| c.is_ascii_hexdigit(), "0")));
    });
    assert_found(&book.check(), Kind::Inserted, 12);
    assert_found(&book.check_by_signature(), Kind::Inserted, 12);
}

#[test]
fn led_05_a_copied_entry_is_found_and_located() {
    let book = book();
    change_lines(&book.segment(1), |lines| {
        let copy = lines[4].clone();
        lines.insert(11, copy);
    });
    assert_found(&book.check(), Kind::Inserted, 5);
    assert_found(&book.check_by_signature(), Kind::Inserted, 5);
}

#[test]
fn led_05_reordered_entries_are_found_and_located() {
    let book = book();
    change_lines(&book.segment(1), |lines| lines.swap(11, 12));
    assert_found(&book.check(), Kind::Reordered, 12);
    assert_found(&book.check_by_signature(), Kind::Reordered, 12);
    change_lines(&book.segment(1), |lines| {
        lines.swap(11, 12);
        lines.swap(3, 15);
    });
    assert_eq!(book.check().findings[0].kind, Kind::Reordered);
    assert_eq!(book.check().findings[0].index, Some(4));
}

#[test]
fn led_05_a_truncated_ledger_is_found_and_located() {
    let book = book();
    change_lines(&book.segment(1), |lines| lines.truncate(17));
    assert_found(&book.check(), Kind::Truncated, 18);
    assert_found(&book.check_by_signature(), Kind::Truncated, 18);
}

#[test]
fn led_05_a_missing_last_segment_is_found() {
    let book = Book::with_small_segments().written(20, 5);
    let last = (1..).take_while(|number| book.segment(*number).exists()).last().unwrap();
    let first = (1..=20).find(|seq| in_segment(&book, last, *seq)).unwrap();
    std::fs::remove_file(book.segment(last)).unwrap();
    assert_found(&book.check(), Kind::Truncated, first);
}

#[test]
fn led_05_a_ledger_and_its_checkpoints_rolled_back_together_are_caught_by_an_anchor() {
    let book = book();
    let anchors = book.anchors();
    change_lines(&book.segment(1), |lines| lines.truncate(10));
    change_lines(&book.checkpoints(), |lines| lines.truncate(2));
    assert_intact(&book.check()); // nothing inside the directory can tell
    let report = book.check_with_anchor(&anchors);
    assert_eq!(report.verdict, Verdict::Tampered);
    assert_eq!((report.findings[0].kind, report.findings[0].index), (Kind::RolledBack, Some(10)));
}

#[test]
fn led_05_a_forged_root_is_found() {
    let book = book();
    change_lines(&book.checkpoints(), |lines| {
        let at = lines[1].find("\"root\":\"").unwrap() + 8;
        let digit = if &lines[1][at..=at] == "0" { "1" } else { "0" };
        lines[1].replace_range(at..=at, digit);
    });
    let report = book.check();
    assert_eq!(report.verdict, Verdict::Tampered);
    assert_eq!((report.findings[0].kind, report.findings[0].index), (Kind::ForgedCheckpoint, Some(10)));
    assert_eq!(report.findings[0].line, Some(2));
}

/// Signs every record again, as someone who holds `keys` could, after `change`.
fn sign_again(book: &Book, keys: &Keys, change: impl Fn(&mut serde_json::Value)) {
    // The crate signs only what it wrote itself, so a second ledger cannot be used here: do it by hand.
    use ed25519_dalek::Signer as _;
    use sha2::Digest as _;
    let seed = if keys.signer_id() == "signer-1" { [9; 32] } else { [66; 32] };
    let signer = ed25519_dalek::SigningKey::from_bytes(&seed);
    let mut prev = hex::encode([0; 32]);
    change_lines(&book.checkpoints(), |lines| {
        for line in lines {
            let mut fields: Vec<(String, serde_json::Value)> = in_order(line);
            fields.retain(|(name, _)| name != "sig");
            for (name, value) in &mut fields {
                match name.as_str() {
                    "prev" => *value = prev.clone().into(),
                    "key" => *value = keys.signer_id().into(),
                    "root" => change(value),
                    _ => {}
                }
            }
            let body: Vec<String> =
                fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            let body = format!("{{{}", body.join(","));
            *line = format!("{body},\"sig\":\"{}\"}}", hex::encode(signer.sign(body.as_bytes()).to_bytes()));
            prev = hex::encode(sha2::Sha256::digest(line.as_bytes()));
        }
    });
}

fn in_order(line: &str) -> Vec<(String, serde_json::Value)> {
    let names = "v kind n prev from segment bytes count first last root peaks head open at key".split(' ');
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    names.map(|name| (name.to_owned(), value[name].clone())).collect()
}

#[test]
fn led_05_a_root_forged_with_the_right_key_is_found() {
    let book = book();
    sign_again(&book, &keys(), |_| {});
    assert_intact(&book.check());
    sign_again(&book, &keys(), |root| *root = "11".repeat(32).into());
    assert_found(&book.check(), Kind::ForgedRoot, 5);
}

#[test]
fn led_05_an_unsigned_checkpoint_is_found() {
    let book = book();
    change_lines(&book.checkpoints(), |lines| {
        let at = lines[3].find(",\"sig\"").unwrap();
        lines[3].truncate(at);
        lines[3].push('}');
    });
    assert_found(&book.check(), Kind::Unsigned, 20);
}

#[test]
fn led_05_a_wrong_key_is_found() {
    let book = book();
    let thief = Keys::new(Zeroizing::new([7; 32]), &Zeroizing::new([66; 32]), "signer-2");
    sign_again(&book, &thief, |_| {});
    assert_kind(&book.check(), Kind::WrongKey);
    assert_eq!(book.check().verdict, Verdict::Tampered);

    // The same id with another key behind it.
    let book = self::book();
    let other = Trust::from_keys([TrustedKey::active("signer-1", thief.public_key())]).unwrap();
    let report = verify(&book.dir(), &other, Some(&chain_key()), None);
    assert_eq!(report.verdict, Verdict::Tampered);
    assert_kind(&report, Kind::ForgedCheckpoint);
}

#[test]
fn led_05_a_revoked_key_is_found_and_so_is_one_outside_its_validity() {
    let book = book();
    let with = |change: &dyn Fn(&mut TrustedKey)| {
        let mut key = TrustedKey::active("signer-1", keys().public_key());
        change(&mut key);
        verify(&book.dir(), &Trust::from_keys([key]).unwrap(), Some(&chain_key()), None)
    };
    let revoked = with(&|key| key.status = Status::Revoked);
    assert_eq!(revoked.verdict, Verdict::Tampered);
    assert_kind(&revoked, Kind::RevokedKey);
    let expired = with(&|key| key.until = Some(crate::kit::START));
    assert_eq!(expired.verdict, Verdict::Tampered);
    assert_kind(&expired, Kind::ExpiredKey);
    assert_intact(&with(&|key| key.from = Some(crate::kit::START)));
}

#[test]
fn led_05_a_cut_checkpoint_file_is_found() {
    let book = book();
    change_lines(&book.checkpoints(), |lines| lines.truncate(2));
    assert_found(&book.check(), Kind::CheckpointsCut, 16);
    change_lines(&book.checkpoints(), |lines| drop(lines.remove(0)));
    assert_kind(&book.check(), Kind::CheckpointsCut);
    std::fs::remove_file(book.checkpoints()).unwrap();
    assert_eq!(book.check().verdict, Verdict::Tampered);
    assert_kind(&book.check(), Kind::CheckpointsCut);
}

/// Two copies of a ledger that each went on by themselves.
fn two_pasts() -> (Book, Vec<String>) {
    let book = book();
    let original: Vec<Vec<u8>> =
        [book.segment(1), book.checkpoints()].iter().map(|path| std::fs::read(path).unwrap()).collect();
    let go_on = |name: &str| {
        std::fs::write(book.segment(1), &original[0]).unwrap();
        std::fs::write(book.checkpoints(), &original[1]).unwrap();
        let ledger: Ledger = book.open();
        for number in 0..3 {
            ledger.append(draft(format!("{name}-{number}"))).unwrap();
        }
        ledger.close().unwrap();
        std::fs::read_to_string(book.segment(1)).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let one = go_on("one");
    go_on("two");
    (book, one)
}

#[test]
fn adv_a09_two_writers_are_found_and_located() {
    let (book, other) = two_pasts();
    change_lines(&book.segment(1), |lines| lines.extend_from_slice(&other[20..]));
    for report in [book.check(), book.check_by_signature()] {
        assert_eq!(report.verdict, Verdict::Tampered);
        assert_eq!(
            (report.findings[0].kind, report.findings[0].index),
            (Kind::Fork, Some(21)),
            "{report:#?}"
        );
    }
}

#[test]
fn adv_a09_a_tail_from_another_past_is_found_and_located() {
    let (book, other) = two_pasts();
    change_lines(&book.segment(1), |lines| lines[22] = other[22].clone());
    assert_found(&book.check(), Kind::Fork, 23);
    assert_eq!(book.check_by_signature().verdict, Verdict::Tampered);
}

#[test]
fn led_06_without_a_trust_root_nothing_is_called_tampered() {
    let book = book();
    change_lines(&book.segment(1), |lines| drop(lines.remove(11)));
    let report = verify(&book.dir(), &Trust::default(), Some(&chain_key()), None);
    assert_eq!(report.verdict, Verdict::Unverifiable);
    assert_kind(&report, Kind::NoTrust);
}

#[test]
fn led_06_entries_after_the_last_checkpoint_cannot_be_checked_without_the_chain_key() {
    let book = book();
    let ledger = book.open();
    ledger.append(draft("tail")).unwrap();
    let (with, without) = (book.check(), book.check_by_signature());
    assert_intact(&with);
    assert_eq!(without.verdict, Verdict::Unverifiable);
    assert_kind(&without, Kind::NotCovered);
    assert_eq!(without.covered, 20);
    ledger.close().unwrap();
    assert_intact(&book.check_by_signature());
}

#[test]
fn led_06_an_empty_or_missing_directory_cannot_be_checked() {
    let book = Book::new();
    assert_eq!(book.check().verdict, Verdict::Unverifiable);
    drop(book.open());
    assert_eq!(verify(&book.dir(), &trust(), None, None).verdict, Verdict::Unverifiable);
}
