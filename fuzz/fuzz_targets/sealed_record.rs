//! Bytes that the ring did not seal are never opened, nor are its own once they are changed, and none makes the reader
//! stumble: a record, a value, a ring.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use vault::{KeyRing, MasterKey, Place, Sealed, SealedRecord};

static RING: LazyLock<KeyRing> = LazyLock::new(|| KeyRing::new(MasterKey::random().expect("randomness")));

fuzz_target!(|input: (Vec<u8>, String, Vec<(u16, u8)>, Option<u16>)| {
    let (bytes, owner, flips, cut) = input;
    let place = Place { record: "secret", owner: &owner, field: "value" };
    if let Ok(record) = SealedRecord::parse(bytes.clone()) {
        assert_eq!(record.as_bytes(), bytes);
        assert!(RING.open_record(&place, &record).is_err(), "a forged record was opened");
    }
    if let Ok(sealed) = Sealed::parse(bytes.clone()) {
        assert_eq!(sealed.as_bytes(), bytes);
        assert!(RING.open(&place, &sealed).is_err(), "a forged value was opened");
    }
    let master = MasterKey::random().expect("randomness");
    assert!(KeyRing::read(&bytes, &master).is_err(), "a forged ring was read");

    // One of our own, changed here and there.
    let Ok(record) = RING.seal_record(&place, &bytes) else { return };
    let whole = record.into_bytes();
    let mut changed = whole.clone();
    for (at, with) in flips {
        let at = usize::from(at) % changed.len();
        changed[at] ^= with;
    }
    if let Some(cut) = cut {
        changed.truncate(usize::from(cut));
    }
    let opened = SealedRecord::parse(changed.clone()).and_then(|record| RING.open_record(&place, &record));
    assert_eq!(opened.is_ok(), changed == whole, "a changed record was opened, or a whole one was not");
    let elsewhere = Place { owner: "somebody else", ..place };
    if owner != "somebody else" {
        let record = SealedRecord::parse(whole).expect("our own");
        assert!(RING.open_record(&elsewhere, &record).is_err(), "a moved record was opened");
    }
});
