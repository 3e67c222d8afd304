//! Backups in pieces: what is copied, what reads back, what is taken.

use std::io::Write;
use std::sync::Arc;

use ::ledger::{Decision, Draft, Fault, Faults, Ledger, Options};
use model::SystemClock;
use vault::{KeyRing, MasterKey};

use super::restore::unpack_ledger;
use super::sealed::{Opening, Pieces, Sealing, check, section, section_end};
use super::{copy_ledger, read_back};
use crate::boot::ledger_keys;

/// AUT-17: what waits in the reserve is part of a backup, and is chained where it is restored.
#[test]
fn aut_17_the_reserve_is_part_of_a_backup() {
    let place = tempfile::tempdir().unwrap();
    let ring = Arc::new(KeyRing::new(MasterKey::random().unwrap()));
    let open = |name: &str, faults: Option<Arc<Faults>>| {
        let scrub = Box::new(|text: &str| text.to_owned());
        let options = Options { faults, reserve_bytes: 64 * 1024, ..Options::default() };
        Ledger::open(&place.path().join(name), ledger_keys(&ring), Arc::new(SystemClock), scrub, options)
            .unwrap()
    };
    let faults = Arc::<Faults>::default();
    let (ledger, _) = open("old", Some(Arc::clone(&faults)));
    ledger.append(Draft::new("usr", "repo.create", Decision::Noted)).unwrap();
    faults.set(Some(Fault::NoSpace));
    ledger.append_narrowing(Draft::new("usr", "user.disable", Decision::Noted)).unwrap();
    ledger.tick(); // the writer shows its state after it answered
    assert_eq!(ledger.health().reserved, 1);

    let file = tempfile::tempfile().unwrap();
    let mut seal = Sealing::start(Arc::clone(&ring), file.try_clone().unwrap()).unwrap();
    copy_ledger(&mut seal, ledger.dir()).unwrap();
    seal.finish().unwrap();
    read_back(Arc::clone(&ring), &file).unwrap();
    let mut again = file.try_clone().unwrap();
    std::io::Seek::rewind(&mut again).unwrap();
    drop(
        unpack_ledger(Opening::start(Arc::clone(&ring), again).unwrap(), &place.path().join("new")).unwrap(),
    );

    let (restored, recovery) = open("new", None);
    assert_eq!(recovery.late, 1);
    let found = ::ledger::read(restored.dir(), 1).unwrap().map(Result::unwrap);
    assert_eq!(found.map(|one| one.entry.action).collect::<Vec<_>>(), ["repo.create", "user.disable"]);
}

/// AUT-17: a copy with a section that no restore takes is not called done.
#[test]
fn aut_17_a_copy_that_cannot_be_restored_does_not_read_back() {
    let ring = Arc::new(KeyRing::new(MasterKey::random().unwrap()));
    for (name, fine) in [("segments/00000001.seg", true), ("segments/stray.seg", false), ("../x", false)] {
        let file = tempfile::tempfile().unwrap();
        let mut seal = Sealing::start(Arc::clone(&ring), file.try_clone().unwrap()).unwrap();
        section(&mut seal, name).unwrap();
        Pieces(&mut seal).write_all(b"something").unwrap();
        section_end(&mut seal).unwrap();
        seal.finish().unwrap();
        assert_eq!(read_back(Arc::clone(&ring), &file).is_ok(), fine, "{name}");
        let mut cut = file.try_clone().unwrap();
        cut.set_len(cut.metadata().unwrap().len() - 1).unwrap();
        std::io::Seek::rewind(&mut cut).unwrap();
        assert!(check(&mut Opening::start(Arc::clone(&ring), cut).unwrap()).is_err(), "cut");
    }
}

/// AUT-17: a copy of a build before there were rings, which held none, reads as it did.
#[test]
fn aut_17_a_copy_of_the_earlier_form_is_read() {
    let ring = Arc::new(KeyRing::new(MasterKey::random().unwrap()));
    let file = tempfile::tempfile().unwrap();
    let mut seal = Sealing::start(Arc::clone(&ring), file.try_clone().unwrap()).unwrap();
    section(&mut seal, "checkpoints.jsonl").unwrap();
    Pieces(&mut seal).write_all(b"something").unwrap();
    section_end(&mut seal).unwrap();
    seal.finish().unwrap();
    let mut bytes = Vec::new();
    let mut from = file.try_clone().unwrap();
    std::io::Seek::rewind(&mut from).unwrap();
    std::io::Read::read_to_end(&mut from, &mut bytes).unwrap();
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let line = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let id = line.strip_prefix("palisade-backup-2 ").unwrap().strip_suffix(" 0").unwrap();
    for (line, good) in [
        (format!("palisade-backup-1 {id}"), true),
        (format!("palisade-backup-1 {id}x"), false),
        (format!("palisade-backup-3 {id}"), false),
    ] {
        let mut copy = tempfile::tempfile().unwrap();
        copy.write_all(&[line.as_bytes(), &bytes[end..]].concat()).unwrap();
        let kept = super::sealed::ring_in(&mut copy);
        let reads = kept.is_ok_and(|kept| kept.is_empty()) && read_back(Arc::clone(&ring), &copy).is_ok();
        assert_eq!(reads, good, "{line}");
    }
}
