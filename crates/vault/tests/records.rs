//! SEC-01, SEC-03, SEC-04: records have data keys of their own, a ring that is kept opens under its master only, and a
//! rotation leaves nothing that the earlier keys open.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;
use vault::source::SourceError;
use vault::{KeyRing, MasterKey, OpenError, Place, Purpose, RingError, RingFile, SealError, SealedRecord};

const PLACE: Place<'static> = Place { record: "secrets/1", owner: "usr_a", field: "value" };

fn master() -> MasterKey {
    MasterKey::random().unwrap()
}

fn ring() -> KeyRing {
    KeyRing::new(master())
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

fn kept(folder: &tempfile::TempDir) -> RingFile {
    RingFile::at(folder.path().join("keyring"))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A twentieth of the promised number by default; `PALISADE_SCALE=1` runs all of it.
fn scaled(full: u32) -> u32 {
    let scale: f64 = std::env::var("PALISADE_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(0.05);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "test sizes")]
    let n = (f64::from(full) * scale) as u32;
    n.max(1)
}

#[test]
fn sec_01_every_flipped_bit_of_a_record_is_an_error() {
    let ring = ring();
    let sealed = ring.seal_record(&PLACE, b"the launch code is 0000").unwrap();
    assert_eq!(ring.open_record(&PLACE, &sealed).unwrap().expose(), b"the launch code is 0000");
    let opens =
        |bytes: Vec<u8>| SealedRecord::parse(bytes).and_then(|one| ring.open_record(&PLACE, &one).map(drop));
    for at in 0..sealed.as_bytes().len() {
        for bit in 0..8 {
            let mut bytes = sealed.as_bytes().to_vec();
            bytes[at] ^= 1 << bit;
            assert!(opens(bytes).is_err(), "byte {at} bit {bit}");
        }
        assert!(opens(sealed.as_bytes()[..at].to_vec()).is_err(), "cut to {at}");
    }
    let longer = [sealed.as_bytes(), &[0]].concat();
    assert_eq!(opens(longer).unwrap_err(), OpenError::Tampered);
}

#[test]
fn sec_01_a_moved_record_is_an_error() {
    let ring = ring();
    let sealed = ring.seal_record(&PLACE, b"value").unwrap();
    for place in [
        Place { record: "secrets/2", ..PLACE },
        Place { owner: "usr_b", ..PLACE },
        Place { field: "note", ..PLACE },
        Place { record: "secrets/1u", owner: "sr_a", field: "value" },
        Place { record: "", owner: "", field: "" },
    ] {
        assert_eq!(ring.open_record(&place, &sealed).unwrap_err(), OpenError::Tampered, "{place:?}");
    }
}

/// One record's data key with another's value, both of the same place.
#[test]
fn sec_01_two_records_do_not_make_a_third() {
    let ring = ring();
    let (one, two) = (ring.seal_record(&PLACE, b"one").unwrap(), ring.seal_record(&PLACE, b"two").unwrap());
    for cut in 1..one.as_bytes().len() {
        let mixed = [&one.as_bytes()[..cut], &two.as_bytes()[cut..]].concat();
        if mixed == one.as_bytes() || mixed == two.as_bytes() {
            continue;
        }
        let mixed = SealedRecord::parse(mixed).unwrap();
        assert!(ring.open_record(&PLACE, &mixed).is_err(), "{cut}");
    }
}

#[test]
fn sec_01_no_nonce_and_no_data_key_of_a_record_repeats() {
    let ring = ring();
    let (mut outer, mut keys, mut inner) = (HashSet::new(), HashSet::new(), HashSet::new());
    for _ in 0..scaled(1_000_000) {
        let sealed = ring.seal_record(&PLACE, b"x").unwrap();
        let bytes = sealed.as_bytes();
        assert!(outer.insert(<[u8; 12]>::try_from(&bytes[13..25]).unwrap()));
        assert!(keys.insert(<[u8; 16]>::try_from(&bytes[25..41]).unwrap()));
        assert!(inner.insert(<[u8; 12]>::try_from(&bytes[73..85]).unwrap()));
    }
}

#[test]
fn sec_03_plaintext_is_no_record_and_another_ring_is_named() {
    for plain in [&b""[..], b"hunter2", &[b'x'; 200], &[1; 200]] {
        assert_eq!(SealedRecord::parse(plain.to_vec()).unwrap_err(), OpenError::NotSealed);
    }
    let (mine, other) = (ring(), ring());
    let sealed = mine.seal_record(&PLACE, b"value").unwrap();
    let expected = OpenError::OtherKey { found: mine.fingerprint(), ring: other.fingerprint() };
    assert_eq!(other.open_record(&PLACE, &sealed).unwrap_err(), expected);
    assert_eq!(mine.seal_record(&PLACE, &vec![0; (1 << 20) + 1]).unwrap_err(), SealError::TooLarge);
    assert_eq!(format!("{sealed:?}"), "SealedRecord(106 bytes)");
}

#[test]
fn sec_03_a_wrong_master_opens_no_ring_and_changes_nothing() {
    let folder = folder();
    let (file, right) = (kept(&folder), master());
    let made = file.create(&right).unwrap();
    let before = fs::read(file.path()).unwrap();
    assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(matches!(file.open(&master()), Err(RingError::OtherMaster { .. })));
    assert!(matches!(file.create(&right), Err(RingError::File(SourceError::Exists(_)))));
    assert_eq!(fs::read(file.path()).unwrap(), before);
    assert_eq!(names(folder.path()), ["keyring"]);

    let again = file.open(&right).unwrap();
    assert_eq!((again.fingerprint(), again.epoch()), (made.fingerprint(), 1));
    assert_eq!(
        again.master(),
        KeyRing::new(MasterKey::from_hex_or_base64(right.to_base64().expose()).unwrap()).fingerprint()
    );
    let sealed = made.seal_record(&PLACE, b"value").unwrap();
    assert!(again.open_record(&PLACE, &sealed).unwrap().matches(b"value"));
    assert!(again.subkey(Purpose::Store).matches(made.subkey(Purpose::Store).expose()));
    // The root is no child of the master: the master alone derives nothing of this ring.
    let bare = KeyRing::new(right);
    assert_ne!(bare.fingerprint(), made.fingerprint());
    assert!(!bare.subkey(Purpose::Store).matches(made.subkey(Purpose::Store).expose()));
}

#[test]
fn sec_03_what_is_no_ring_is_refused() {
    let folder = folder();
    let (file, right) = (kept(&folder), master());
    drop(file.create(&right).unwrap());
    let good = fs::read(file.path()).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        let error = KeyRing::read(&bad, &right).unwrap_err();
        assert!(matches!(error, RingError::Damaged | RingError::OtherMaster { .. }), "byte {at}: {error}");
        assert!(KeyRing::read(&good[..at], &right).is_err(), "cut to {at}");
    }
    for planted in [&b""[..], b"{\"root\":\"plain\"}", &[0; 500]] {
        assert!(matches!(KeyRing::read(planted, &right), Err(RingError::Damaged)));
    }
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(file.open(&right), Err(RingError::File(SourceError::TooOpen { .. }))));
    let link = folder.path().join("link");
    symlink(file.path(), &link).unwrap();
    assert!(matches!(RingFile::at(link).open(&right), Err(RingError::File(SourceError::NotAFile(_)))));
}

#[test]
fn sec_04_after_a_turn_the_earlier_master_opens_nothing_and_after_settling_the_earlier_epoch_neither() {
    let folder = folder();
    let (file, old, new) = (kept(&folder), master(), master());
    let ring = file.create(&old).unwrap();
    let before = fs::read(file.path()).unwrap();
    let first = ring.seal_record(&PLACE, b"value").unwrap();
    assert!(matches!(file.turn(&ring, &old), Err(RingError::SameMaster)));
    assert_eq!(fs::read(file.path()).unwrap(), before, "nothing was changed");

    assert_eq!(file.turn(&ring, &new).unwrap(), 2);
    assert!(ring.is_rotating());
    assert!(matches!(file.open(&old), Err(RingError::OtherMaster { .. })), "at once");
    assert!(matches!(file.turn(&ring, &master()), Err(RingError::Unfinished)));
    let second = ring.seal_record(&PLACE, b"value").unwrap();
    assert_eq!((first.epoch(), second.epoch()), (1, 2));

    // Interrupted here: a start finds both epochs.
    let again = file.open(&new).unwrap();
    assert!(again.is_rotating() && again.epoch() == 2);
    for sealed in [&first, &second] {
        assert!(again.open_record(&PLACE, sealed).unwrap().matches(b"value"));
    }
    for other in [1, 3] {
        assert!(
            matches!(file.settle(&again, other), Err(RingError::OtherEpoch(2))),
            "not what was carried over to"
        );
    }
    assert!(again.is_rotating());
    file.settle(&again, 2).unwrap();
    assert!(!again.is_rotating());
    assert_eq!(again.open_record(&PLACE, &first).unwrap_err(), OpenError::NoEpoch(1));
    let settled = file.open(&new).unwrap();
    assert_eq!(settled.open_record(&PLACE, &first).unwrap_err(), OpenError::NoEpoch(1));
    assert!(settled.open_record(&PLACE, &second).unwrap().matches(b"value"));
    assert_eq!(
        (settled.epoch(), settled.fingerprint()),
        (2, ring.fingerprint()),
        "what else hangs on it stays"
    );
    // A stolen copy of the earlier file, with the earlier master, does not open what is sealed now.
    let stolen = KeyRing::read(&before, &old).unwrap();
    assert_eq!(stolen.open_record(&PLACE, &second).unwrap_err(), OpenError::NoEpoch(2));
    assert_eq!(names(folder.path()), ["keyring"], "no draft stays");
}

/// The passphrase opens the ring wherever its bytes are: the salt stands in front of them.
#[test]
fn sec_02_a_ring_is_opened_by_its_passphrase_and_by_no_other() {
    const PHRASE: &str = "copper lantern orbit velvet quiet harbour";
    let folder = folder();
    let file = kept(&folder);
    let stretch = vault::Stretch::fresh().unwrap();
    let made = file.create(&MasterKey::from_passphrase(PHRASE, &stretch).unwrap()).unwrap();
    let before = fs::read(file.path()).unwrap();
    let open = |phrase: &str, bytes: &[u8]| {
        let stretch = KeyRing::stretch_of(bytes).unwrap().unwrap();
        KeyRing::read(bytes, &MasterKey::from_passphrase(phrase, &stretch).unwrap())
    };
    assert_eq!(open(PHRASE, &before).unwrap().fingerprint(), made.fingerprint());
    let wrong = open("copper lantern orbit velvet quiet harbors", &before);
    assert!(matches!(wrong, Err(RingError::OtherMaster { .. })));
    assert_eq!(fs::read(file.path()).unwrap(), before, "nothing was changed");
    assert_eq!(names(folder.path()), ["keyring"]);

    // A rotation gives a new salt, also for the same passphrase; settling keeps it.
    let next = MasterKey::from_passphrase(PHRASE, &vault::Stretch::fresh().unwrap()).unwrap();
    file.turn(&made, &next).unwrap();
    file.settle(&made, 2).unwrap();
    let after = fs::read(file.path()).unwrap();
    assert_ne!(KeyRing::stretch_of(&after).unwrap(), KeyRing::stretch_of(&before).unwrap());
    assert_eq!(open(PHRASE, &after).unwrap().epoch(), 2);
    let old = MasterKey::from_passphrase(PHRASE, &stretch).unwrap();
    assert!(matches!(KeyRing::read(&after, &old), Err(RingError::OtherMaster { .. })));
    assert_eq!(KeyRing::stretch_of(&file_of_a_key()).unwrap(), None);
    assert!(KeyRing::stretch_of(b"palisade-keyring-2 argon2id 1 1 1 00\nx").is_err());
}

fn file_of_a_key() -> Vec<u8> {
    KeyRing::with_own_root(&master()).unwrap().kept().unwrap()
}

/// A ring says whether an earlier master is its root, and cannot be made to say otherwise.
#[test]
fn sec_04_a_ring_tells_whether_its_root_is_its_own() {
    let folder = folder();
    let (file, first, next) = (kept(&folder), master(), master());
    let old = ring();
    assert!(!old.has_own_root());
    file.turn(&old, &first).unwrap();
    assert!(!file.open(&first).unwrap().has_own_root(), "the first master stays its root");
    let own = KeyRing::with_own_root(&first).unwrap();
    own.adopt(own.turn(&next).unwrap());
    let bytes = own.kept().unwrap();
    assert!(KeyRing::read(&bytes, &next).unwrap().has_own_root());
    let other = [b"palisade-keyring-1\n", &bytes["palisade-keyring-2\n".len()..]].concat();
    assert!(matches!(KeyRing::read(&other, &next), Err(RingError::Damaged)));
}

/// What is not adopted is none: another change may take its place.
#[test]
fn sec_04_a_change_that_was_not_adopted_changes_nothing() {
    let (old, new) = (master(), master());
    let ring = KeyRing::with_own_root(&old).unwrap();
    let lost = ring.turn(&new).unwrap();
    let sealed = ring.seal_record(&PLACE, b"value").unwrap();
    assert_eq!((ring.epoch(), sealed.epoch()), (1, 1));
    // Kept or not: what was sealed meanwhile opens either way.
    let kept = KeyRing::read(lost.bytes(), &new).unwrap();
    assert!(kept.open_record(&PLACE, &sealed).unwrap().matches(b"value"));
    ring.adopt(ring.turn(&new).unwrap());
    assert!(ring.open_record(&PLACE, &sealed).unwrap().matches(b"value"));
    assert!(KeyRing::read(&ring.kept().unwrap(), &new).unwrap().open_record(&PLACE, &sealed).is_ok());
}

/// What the master alone made gets a file with its first rotation.
#[test]
fn sec_04_a_ring_without_a_file_gets_one() {
    let folder = folder();
    let (file, new) = (kept(&folder), master());
    let ring = ring();
    let first = ring.seal_record(&PLACE, b"value").unwrap();
    assert!(ring.kept().is_none());
    file.turn(&ring, &new).unwrap();
    assert_eq!(ring.kept().unwrap(), fs::read(file.path()).unwrap());
    let again = file.open(&new).unwrap();
    assert_eq!(again.fingerprint(), ring.fingerprint());
    assert!(again.open_record(&PLACE, &first).unwrap().matches(b"value"));
    file.settle(&again, 2).unwrap();
    assert_eq!(file.open(&new).unwrap().open_record(&PLACE, &first).unwrap_err(), OpenError::NoEpoch(1));
}

#[test]
fn sec_04_a_turn_that_cannot_be_written_changes_nothing() {
    let folder = folder();
    let (file, old) = (kept(&folder), master());
    let ring = file.create(&old).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(file.turn(&ring, &master()).is_err(), "the folder is open to others");
    assert!(!ring.is_rotating() && ring.epoch() == 1);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(file.open(&old).unwrap().epoch(), 1);
}

proptest! {
    #[test]
    fn hostile_bytes_never_open_as_a_record_or_a_ring(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let ring = ring();
        prop_assert!(KeyRing::read(&bytes, &master()).is_err());
        let framed = [&[2][..], &bytes].concat();
        for bytes in [bytes, framed] {
            if let Ok(sealed) = SealedRecord::parse(bytes) {
                prop_assert!(ring.open_record(&PLACE, &sealed).is_err());
            }
        }
    }

    #[test]
    fn what_is_sealed_as_a_record_opens(plain in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        let ring = ring();
        let sealed = ring.seal_record(&PLACE, &plain).unwrap();
        let again = SealedRecord::parse(sealed.into_bytes()).unwrap();
        prop_assert!(ring.open_record(&PLACE, &again).unwrap().matches(&plain));
    }
}
