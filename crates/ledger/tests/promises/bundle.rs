//! LED-05, LED-07, LED-08, LED-10: a bundle proves its entries and inputs elsewhere, and any change of it is found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ledger::verify::verify_bundle;
use ledger::verify::{Anchors, Claim, Complete, Kind, Report, Status, Time, Trust, TrustedKey, Verdict};
use ledger::{BundleError, Decision, Draft, Input, InputKind, Layout, LayoutError, Selection, reference};
use proptest::prelude::*;

use crate::kit::{Book, assert_found, assert_intact, assert_kind, change_lines, draft, keys, scaled, trust};

/// What LED-10 wants to see proved of one session.
const KINDS: [(InputKind, &str); 9] = [
    (InputKind::Receipt, "receipt.json"),
    (InputKind::Grant, "grant.json"),
    (InputKind::Permit, "permit.json"),
    (InputKind::Approval, "approval.json"),
    (InputKind::Artifact, "artifact.tar"),
    (InputKind::Image, "image.json"),
    (InputKind::Input, "prompt.txt"),
    (InputKind::Output, "answer.txt"),
    (InputKind::Policies, "policies.json"),
];

/// A ledger of several segments with one session in it, and a bundle about that session.
pub(crate) struct Parcel {
    pub(crate) book: Book,
    outside: tempfile::TempDir,
}

fn content(name: &str) -> Vec<u8> {
    [format!("the {name} of ses_x\n").as_bytes(), &[0, 255, b'\n']].concat()
}

impl Parcel {
    pub(crate) fn new() -> Self {
        Self::of(Selection { about: Some("ses_x".into()), ..Selection::default() }, &KINDS)
    }

    fn of(selection: Selection, attached: &[(InputKind, &str)]) -> Self {
        let book = Book::with_small_segments();
        let outside = tempfile::TempDir::new().unwrap();
        let ledger = book.open();
        let mut named = KINDS.iter();
        for number in 0..40 {
            book.clock.advance(10);
            ledger.append(draft(number)).unwrap();
            if number % 4 == 1
                && let Some((kind, name)) = named.next()
            {
                let entry = Draft::new("ana", "session.note", Decision::Allowed).on("ses_x").because("grant");
                // Policies are what the exporter has; everything else is named by an entry.
                let entry = match kind {
                    InputKind::Policies => entry,
                    _ => entry.with("holds", reference(&content(name))),
                };
                let open = ledger.append(entry.opens()).unwrap();
                let end = Draft::new("ana", "session.note", Decision::Done).on("other").closes(open);
                ledger.append(end).unwrap();
            }
        }
        let mut selected = ledger.select(selection).unwrap();
        let every: Vec<u64> = selected.entries().map(|entry| entry.seq).collect();
        for (kind, name) in attached {
            let entries = if *kind == InputKind::Policies { every.clone() } else { Vec::new() };
            let input = Input { name: (*name).into(), kind: *kind, bytes: content(name), entries };
            selected.attach(input).unwrap();
        }
        let bundle = ledger.seal(selected, crate::kit::START).unwrap();
        let mut layout = Layout::begin(&outside.path().join("bundle")).unwrap();
        for (name, bytes) in &bundle.files {
            let (start, end) = bytes.split_at(bytes.len() / 2);
            layout.add(name, start).unwrap();
            layout.add(name, end).unwrap();
        }
        layout.finish().unwrap();
        fs::write(outside.path().join("trust.json"), trust().to_json().unwrap()).unwrap();
        ledger.close().unwrap();
        Self { book, outside }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.outside.path().join("bundle")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    fn check(&self) -> Report {
        verify_bundle(&self.dir(), &trust(), None)
    }

    fn numbers(&self) -> Vec<u64> {
        let text = fs::read_to_string(self.file("entries.jsonl")).unwrap();
        let seq = |line: &str| serde_json::from_str::<ledger::Entry>(line).unwrap().seq;
        text.lines().map(seq).collect()
    }

    /// Where an input is, and the entry that names it.
    fn input(&self, name: &str) -> (PathBuf, u64) {
        let manifest: serde_json::Value =
            serde_json::from_slice(&fs::read(self.file("manifest.json")).unwrap()).unwrap();
        let list = manifest["inputs"].as_array().unwrap();
        let sha256 = list.iter().find(|it| it["name"] == name).unwrap()["sha256"].as_str().unwrap();
        let entries = manifest["entries"].as_array().unwrap();
        let refers = |it: &&serde_json::Value| {
            it["inputs"].as_array().is_some_and(|inputs| inputs.iter().any(|it| it == sha256))
        };
        let seq = entries.iter().find(refers).unwrap()["seq"].as_u64().unwrap();
        (self.file("inputs").join(sha256), seq)
    }

    /// Signs the manifest again after a change, as someone with the key could.
    fn sign_again(&self, seed: [u8; 32], change: impl FnOnce(&str) -> String) {
        use ed25519_dalek::Signer as _;
        let text = fs::read_to_string(self.file("manifest.json")).unwrap();
        let body = change(text.split_once(",\"sig\":").unwrap().0);
        let signature = ed25519_dalek::SigningKey::from_bytes(&seed).sign(body.as_bytes());
        let text = format!("{body},\"sig\":\"{}\"}}\n", hex::encode(signature.to_bytes()));
        fs::write(self.file("manifest.json"), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_palisade-verify"));
        command.arg("--bundle").arg(self.dir()).args(arguments).current_dir(self.outside.path());
        command.output().unwrap()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn led_10_one_session_is_proved_from_its_bundle_alone() {
    let parcel = Parcel::new();
    drop(fs::remove_dir_all(parcel.book.dir())); // the ledger is not needed
    let report = parcel.check();
    assert_intact(&report);
    assert_eq!((report.entries, report.covered), (18, *parcel.numbers().last().unwrap()));
    assert!(report.checkpoints > 1, "several segments");
    let facts = report.bundle.unwrap();
    assert_eq!((facts.inputs_recorded, facts.inputs_asserted), (8, 1));
    assert_eq!((facts.about.as_deref(), facts.complete), (Some("ses_x"), Complete::Asserted));
    assert_eq!(report.claim, Claim::TamperDetecting);
}

#[test]
fn led_10_changing_any_one_input_breaks_verification() {
    for (_, name) in KINDS {
        let parcel = Parcel::new();
        let (path, seq) = parcel.input(name);
        flip(&path, 3);
        assert_found(&parcel.check(), Kind::DanglingInput, seq);
    }
}

#[test]
fn led_05_an_edited_entry_of_a_bundle_is_named() {
    let parcel = Parcel::new();
    let seq = parcel.numbers()[4];
    change_lines(&parcel.file("entries.jsonl"), |lines| lines[4] = lines[4].replace("ana", "eve"));
    assert_found(&parcel.check(), Kind::Edited, seq);
}

#[test]
fn led_05_a_deleted_entry_of_a_bundle_is_named() {
    let parcel = Parcel::new();
    let seq = parcel.numbers()[4];
    change_lines(&parcel.file("entries.jsonl"), |lines| drop(lines.remove(4)));
    assert_found(&parcel.check(), Kind::Deleted, seq);
}

#[test]
fn led_05_an_inserted_entry_of_a_bundle_is_named() {
    let parcel = Parcel::new();
    // A genuine entry of the same ledger that does not belong here.
    let other = parcel.book.entries().into_iter().find(|it| it.resource == "ses_20").unwrap();
    let line = serde_json::to_string(&other).unwrap();
    change_lines(&parcel.file("entries.jsonl"), |lines| lines.insert(4, line));
    assert_found(&parcel.check(), Kind::Inserted, other.seq);
}

#[test]
fn led_05_reordered_entries_of_a_bundle_are_named() {
    let parcel = Parcel::new();
    let seq = parcel.numbers()[4];
    change_lines(&parcel.file("entries.jsonl"), |lines| lines.swap(4, 5));
    assert_found(&parcel.check(), Kind::Reordered, seq);
}

#[test]
fn led_05_a_truncated_bundle_is_named() {
    let parcel = Parcel::new();
    let seq = parcel.numbers()[15];
    change_lines(&parcel.file("entries.jsonl"), |lines| lines.truncate(15));
    assert_found(&parcel.check(), Kind::Truncated, seq);
    fs::remove_file(parcel.file("entries.jsonl")).unwrap();
    assert_found(&parcel.check(), Kind::Truncated, parcel_first(&parcel));
}

fn parcel_first(parcel: &Parcel) -> u64 {
    parcel.book.entries().iter().find(|it| it.resource == "ses_x").unwrap().seq
}

#[test]
fn led_05_a_forged_root_of_a_bundle_is_named() {
    let parcel = Parcel::new();
    let last = last_of(&parcel, 0);
    change_lines(&parcel.file("checkpoints.jsonl"), |lines| {
        let at = lines[0].find("\"root\":\"").unwrap() + 8;
        let digit = if &lines[0][at..=at] == "0" { "1" } else { "0" };
        lines[0].replace_range(at..=at, digit);
    });
    assert_found(&parcel.check(), Kind::ForgedCheckpoint, last);
}

/// The last entry that a checkpoint of the bundle covers.
fn last_of(parcel: &Parcel, line: usize) -> u64 {
    let text = fs::read_to_string(parcel.file("checkpoints.jsonl")).unwrap();
    serde_json::from_str::<ledger::Checkpoint>(text.lines().nth(line).unwrap()).unwrap().last
}

#[test]
fn led_05_a_forged_proof_is_named() {
    let parcel = Parcel::new();
    change_lines(&parcel.file("proofs.jsonl"), |lines| {
        let at = lines[0].find("[\"").unwrap() + 2;
        let digit = if &lines[0][at..=at] == "0" { "1" } else { "0" };
        lines[0].replace_range(at..=at, digit);
    });
    assert_found(&parcel.check(), Kind::ForgedProof, parcel_first(&parcel));
    fs::remove_file(parcel.file("proofs.jsonl")).unwrap();
    assert_found(&parcel.check(), Kind::ForgedProof, parcel_first(&parcel));
}

#[test]
fn led_05_an_unsigned_checkpoint_of_a_bundle_is_named() {
    let parcel = Parcel::new();
    let last = last_of(&parcel, 1);
    change_lines(&parcel.file("checkpoints.jsonl"), |lines| {
        let at = lines[1].find(",\"sig\"").unwrap();
        lines[1].truncate(at);
        lines[1].push('}');
    });
    assert_found(&parcel.check(), Kind::Unsigned, last);
}

#[test]
fn led_05_a_missing_checkpoint_of_a_bundle_is_named() {
    let parcel = Parcel::new();
    change_lines(&parcel.file("checkpoints.jsonl"), |lines| drop(lines.remove(0)));
    assert_found(&parcel.check(), Kind::CheckpointsCut, parcel_first(&parcel));
}

#[test]
fn led_05_a_bundle_by_a_wrong_key_is_named() {
    let parcel = Parcel::new();
    parcel.sign_again([66; 32], |body| body.replace("\"key\":\"signer-1\"", "\"key\":\"signer-2\""));
    assert_found(&parcel.check(), Kind::WrongKey, parcel_first(&parcel));
    // The same name with another key behind it.
    parcel.sign_again([66; 32], |body| body.replace("signer-2", "signer-1"));
    assert_found(&parcel.check(), Kind::ForgedManifest, parcel_first(&parcel));
}

#[test]
fn led_05_a_bundle_by_a_revoked_key_is_named() {
    let parcel = Parcel::new();
    let mut key = TrustedKey::active("signer-1", keys().public_key());
    key.status = Status::Revoked;
    let report = verify_bundle(&parcel.dir(), &Trust::from_keys([key]).unwrap(), None);
    assert_found(&report, Kind::RevokedKey, parcel_first(&parcel));
}

#[test]
fn led_05_a_forged_manifest_is_named() {
    let changes: [(&str, &str); 4] = [
        ("\"about\":\"ses_x\"", "\"about\":\"ses_y\""),
        ("\"name\":\"grant.json\"", "\"name\":\"grant.jsOn\""),
        ("\"kind\":\"grant\"", "\"kind\":\"image\""),
        ("{\"v\":1", "{\"v\":2"),
    ];
    for (from, to) in changes {
        let parcel = Parcel::new();
        let path = parcel.file("manifest.json");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        assert_found(&parcel.check(), Kind::ForgedManifest, parcel_first(&parcel));
    }
}

#[test]
fn led_05_a_manifest_forged_with_the_right_key_does_not_outweigh_the_signed_roots() {
    // It vouches for an entry that never was: the list agrees, the root does not.
    let parcel = Parcel::new();
    let mut hashes = (String::new(), String::new());
    change_lines(&parcel.file("entries.jsonl"), |lines| {
        use sha2::Digest as _;
        hashes.0 = hex::encode(sha2::Sha256::digest(&lines[4]));
        lines[4] = lines[4].replace("\"ana\"", "\"eve\"");
        hashes.1 = hex::encode(sha2::Sha256::digest(&lines[4]));
    });
    parcel.sign_again([9; 32], |body| body.replace(&hashes.0, &hashes.1));
    assert_kind(&parcel.check(), Kind::ForgedProof);
    assert_eq!(parcel.check().verdict, Verdict::Tampered);

    // It contradicts itself, or is written in another way.
    for change in [
        |body: &str| body.replacen("\"from\":1", "\"from\":9999", 1),
        |body: &str| body.replacen(":", ": ", 1),
    ] {
        let parcel = Parcel::new();
        parcel.sign_again([9; 32], change);
        assert_found(&parcel.check(), Kind::ForgedManifest, parcel_first(&parcel));
    }
    let parcel = Parcel::new();
    parcel.sign_again([9; 32], |body| body.replacen("{\"v\":1", "{\"v\":2", 1));
    assert_eq!(parcel.check().verdict, Verdict::Unverifiable, "a newer format is not tampering");
}

#[test]
fn led_05_a_dangling_input_is_named() {
    let parcel = Parcel::new();
    let (path, seq) = parcel.input("receipt.json");
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_found(&parcel.check(), Kind::DanglingInput, seq);
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert_found(&parcel.check(), Kind::DanglingInput, seq);
    fs::write(&path, &bytes).unwrap();
    assert_intact(&parcel.check());

    // The entry names it, and neither the manifest nor the folder has it.
    let sha256 = path.file_name().unwrap().to_str().unwrap().to_owned();
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(parcel.file("manifest.json")).unwrap()).unwrap();
    let listed = manifest["inputs"].as_array().unwrap().iter().find(|it| it["sha256"] == *sha256).unwrap();
    let (name, size) = (listed["name"].as_str().unwrap(), listed["size"].as_u64().unwrap());
    parcel.sign_again([9; 32], |body| {
        let row =
            format!("{{\"name\":\"{name}\",\"kind\":\"receipt\",\"sha256\":\"{sha256}\",\"size\":{size}}}");
        let body = body.replace(&format!(",{row}"), "").replace(&format!("\"{sha256}\","), "");
        body.replace(&format!(",\"{sha256}\""), "")
    });
    fs::remove_file(&path).unwrap();
    assert_found(&parcel.check(), Kind::DanglingInput, seq);
}

#[test]
fn led_05_a_missing_manifest_is_named() {
    let parcel = Parcel::new();
    fs::remove_file(parcel.file("manifest.json")).unwrap();
    assert_found(&parcel.check(), Kind::MissingManifest, parcel_first(&parcel));
}

#[test]
fn led_05_an_unlisted_file_is_named_and_nothing_but_plain_files_is_opened() {
    let parcel = Parcel::new();
    for name in ["more.txt", "inputs/more.txt", "segments"] {
        let path = parcel.file(name);
        if name == "segments" {
            fs::create_dir(&path).unwrap()
        } else {
            fs::write(&path, "x").unwrap()
        }
        let report = parcel.check();
        assert_eq!(report.verdict, Verdict::Tampered);
        assert_eq!(report.findings.iter().map(|it| it.kind).collect::<Vec<_>>(), [Kind::Unlisted], "{name}");
        drop(fs::remove_file(&path));
        drop(fs::remove_dir(&path));
    }
    // Reading a pipe would never end.
    for name in ["entries.jsonl", "checkpoints.jsonl", "proofs.jsonl", "manifest.json"] {
        let (path, kept) = (parcel.file(name), parcel.file(name).with_extension("kept"));
        fs::rename(&path, &kept).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(parcel.check().verdict, Verdict::Tampered, "{name}");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&kept, &path).unwrap();
        assert_eq!(parcel.check().verdict, Verdict::Tampered, "{name}");
        fs::remove_file(&path).unwrap();
        fs::rename(&kept, &path).unwrap();
    }
    assert_intact(&parcel.check());
}

#[test]
fn led_05_no_changed_byte_of_any_file_of_a_bundle_passes() {
    let parcel = Parcel::new();
    let mut files: Vec<PathBuf> = ["entries.jsonl", "checkpoints.jsonl", "proofs.jsonl", "manifest.json"]
        .iter()
        .map(|name| parcel.file(name))
        .collect();
    files.extend(fs::read_dir(parcel.file("inputs")).unwrap().map(|item| item.unwrap().path()));
    let cases = u32::try_from(scaled(20_000, 400)).unwrap();
    let strategy = (0..files.len(), any::<prop::sample::Index>(), 0..5u8, 1..=255u8);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(cases));
    let outcome = runner.run(&strategy, |(file, place, how, mask)| {
        let original = fs::read(&files[file]).unwrap();
        let (mut bytes, at) = (original.clone(), place.index(original.len()));
        match how {
            0 => bytes[at] ^= mask,
            1 => bytes[at] ^= 0x20, // the letter case: what parsers forgive
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, if mask > 128 { b' ' } else { mask }),
            _ => bytes.truncate(at),
        }
        fs::write(&files[file], &bytes).unwrap();
        let report = parcel.check();
        fs::write(&files[file], &original).unwrap();
        prop_assert_eq!(report.verdict, Verdict::Tampered, "{:?} {:?}", &files[file], report.findings);
        prop_assert!(report.findings.iter().all(|it| it.index.is_some() || it.line.is_some()), "located");
        Ok(())
    });
    outcome.unwrap();
    assert_intact(&parcel.check());
}

#[test]
fn led_06_a_bundle_without_trust_cannot_be_checked() {
    let parcel = Parcel::new();
    let without = || verify_bundle(&parcel.dir(), &Trust::default(), None);
    assert_eq!((without().verdict, without().claim), (Verdict::Unverifiable, Claim::None));
    fs::remove_file(parcel.file("manifest.json")).unwrap();
    assert_eq!(without().verdict, Verdict::Unverifiable, "without trust never tampered");
}

#[test]
fn led_07_a_bundle_claims_no_more_than_its_evidence() {
    // A range without inputs: everything in it hangs on the checkpoints.
    let nothing = Selection { from: 2, to: 6, ..Selection::default() };
    let parcel = Parcel::of(nothing, &KINDS[..1]);
    let book = &parcel.book;
    let check =
        |lines: &str| verify_bundle(&parcel.dir(), &trust(), Some(&Anchors::from_lines(lines).unwrap()));
    let used: Vec<u64> = fs::read_to_string(parcel.file("checkpoints.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<ledger::Checkpoint>(line).unwrap().n)
        .collect();
    let anchors = book.anchors();
    let report = check(&anchors);
    assert_intact(&report);
    assert_eq!((report.claim, report.time), (Claim::TamperEvident, Time::Asserted), "{report:?}");
    assert_eq!(report.bundle.unwrap().complete, Complete::Proved);
    let timed: String = anchors.lines().map(|line| format!("{line} 1700000000999\n")).collect();
    assert_eq!(check(&timed).time, Time::Attested);
    let partly: String = anchors
        .lines()
        .filter(|line| !line.starts_with(&format!("{} ", used[0])))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(check(&partly).claim, Claim::TamperDetecting);
    assert_kind(&check(&format!("{} {}", used[0], "ab".repeat(32))), Kind::RolledBack);

    // Entries chosen by what they say, and an input that only the signer vouches for, are his word.
    let parcel = Parcel::new();
    let anchors = Anchors::from_lines(&parcel.book.anchors()).unwrap();
    let report = verify_bundle(&parcel.dir(), &trust(), Some(&anchors));
    assert_intact(&report);
    assert_eq!(report.claim, Claim::TamperDetecting);
}

#[test]
fn led_05_the_command_names_index_and_kind_of_a_changed_bundle() {
    let parcel = Parcel::new();
    let output = parcel.run(&["--trust", "trust.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("inputs: 8 named by entries, 1 the signer's word"), "{}", text(&output));
    assert!(text(&output).contains("about `ses_x`; that none is left out is the signer's word"));
    let (path, seq) = parcel.input("permit.json");
    flip(&path, 0);
    let output = parcel.run(&["--trust", "trust.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains(&format!("dangling-input index={seq}: ")), "{}", text(&output));
    fs::remove_file(parcel.file("manifest.json")).unwrap();
    let output = parcel.run(&["--trust", "trust.json", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["findings"][0]["kind"], "missing-manifest");
    assert_eq!(parcel.run(&[]).status.code(), Some(2));
    assert_eq!(parcel.run(&["--trust", "missing.json"]).status.code(), Some(2));
}

#[test]
fn led_08_a_trust_root_inside_the_bundle_is_not_taken() {
    let parcel = Parcel::new();
    fs::copy(parcel.outside.path().join("trust.json"), parcel.file("trust.json")).unwrap();
    let output = parcel.run(&["--trust", "bundle/trust.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("inside the bundle"));
    std::os::unix::fs::symlink(parcel.file("trust.json"), parcel.outside.path().join("link.json")).unwrap();
    assert_eq!(parcel.run(&["--trust", "link.json"]).status.code(), Some(2));
    assert_eq!(parcel.run(&["--trust", "trust.json"]).status.code(), Some(1), "and it is not listed");
}

#[test]
fn led_10_a_changed_ledger_gives_no_bundle_and_neither_does_a_lost_input() {
    let book = Book::with_small_segments();
    let ledger = book.open();
    ledger.append(draft("a").with("holds", reference(b"kept elsewhere"))).unwrap();
    for number in 0..30 {
        ledger.append(draft(number)).unwrap();
    }
    let about = |id: &str| Selection { about: Some(id.into()), ..Selection::default() };
    assert!(matches!(ledger.select(about("ses_nobody")), Err(BundleError::Nothing)));
    let selected = ledger.select(about("ses_a")).unwrap();
    assert_eq!(selected.wanted().len(), 1);
    assert!(matches!(ledger.seal(selected, 0), Err(BundleError::InputMissing { seq: 1, .. })));
    change_lines(&book.segment(1), |lines| lines[1] = lines[1].replace("ana", "eve"));
    assert!(matches!(ledger.select(about("ses_a")), Err(BundleError::Changed(1))));
    assert!(matches!(ledger.select(Selection { from: 25, ..about("ses_a") }), Err(BundleError::Nothing)));
}

#[test]
fn led_10_a_bundle_is_laid_out_whole_or_not_at_all() {
    let outside = tempfile::TempDir::new().unwrap();
    let target = outside.path().join("bundle");
    let names = || fs::read_dir(outside.path()).unwrap().count();
    let mut layout = Layout::begin(&target).unwrap();
    layout.add("entries.jsonl", b"x\n").unwrap();
    for name in ["../x", "/x", "inputs/../x", "inputs/", "inputs", "trust.json", "inputs/ABC", ""] {
        assert!(matches!(layout.add(name, b"x"), Err(LayoutError::Name(_))), "{name}");
    }
    assert!(!target.exists());
    assert!(matches!(layout.finish(), Err(LayoutError::Incomplete(_))));
    assert_eq!(names(), 0, "nothing is left");

    let book = Book::new();
    let ledger = book.open();
    ledger.append(draft("a")).unwrap();
    let bundle = ledger.seal(ledger.select(Selection::default()).unwrap(), 0).unwrap();
    let lay_out = |skip: Option<usize>| {
        let mut layout = Layout::begin(&target).unwrap();
        for (place, (name, bytes)) in bundle.files.iter().enumerate() {
            let bytes = if skip == Some(place) { &bytes[..bytes.len() - 1] } else { bytes };
            layout.add(name, bytes).unwrap();
        }
        layout
    };
    for place in 0..bundle.files.len() {
        let cut = lay_out(Some(place)).finish();
        assert!(matches!(cut, Err(LayoutError::Incomplete(_))), "{}: {cut:?}", bundle.files[place].0);
        assert_eq!(names(), 0, "nothing is left");
    }
    let layout = lay_out(None);
    fs::create_dir(&target).unwrap(); // someone else was quicker
    assert!(matches!(layout.finish(), Err(LayoutError::Exists(_))));
    assert_eq!((names(), fs::read_dir(&target).unwrap().count()), (1, 0));
    assert!(matches!(Layout::begin(&target), Err(LayoutError::Exists(_))));
    fs::remove_dir(&target).unwrap();
    assert_eq!(lay_out(None).finish().unwrap(), 1);
    assert_intact(&verify_bundle(&target, &trust(), None));
}
