//! SEC-01 and SEC-03: values are sealed one by one, bound to their place, and plaintext is not taken.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashSet;

use proptest::prelude::*;
use vault::{KeyRing, MasterKey, OpenError, Place, SealError, Sealed};

const PLACE: Place<'static> = Place { record: "secret/1", owner: "usr_a", field: "value" };

fn ring() -> KeyRing {
    KeyRing::new(MasterKey::random().unwrap())
}

/// A twentieth of the promised number by default; `PALISADE_SCALE=1` runs all of it.
fn scaled(full: u64) -> u64 {
    let scale: f64 = std::env::var("PALISADE_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(0.05);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "test sizes"
    )]
    let n = (full as f64 * scale) as u64;
    n.max(1)
}

#[test]
fn sec_01_every_flipped_bit_is_an_error() {
    let ring = ring();
    let sealed = ring.seal(&PLACE, b"the launch code is 0000").unwrap();
    assert_eq!(ring.open(&PLACE, &sealed).unwrap().expose(), b"the launch code is 0000");
    for at in 0..sealed.as_bytes().len() {
        for bit in 0..8 {
            let mut bytes = sealed.as_bytes().to_vec();
            bytes[at] ^= 1 << bit;
            let opened = Sealed::parse(bytes).and_then(|changed| ring.open(&PLACE, &changed).map(drop));
            assert!(opened.is_err(), "byte {at} bit {bit}");
        }
    }
    for length in 0..sealed.as_bytes().len() {
        let cut = Sealed::parse(sealed.as_bytes()[..length].to_vec());
        assert!(cut.and_then(|cut| ring.open(&PLACE, &cut).map(drop)).is_err(), "cut to {length}");
    }
    let mut longer = sealed.as_bytes().to_vec();
    longer.push(0);
    assert_eq!(ring.open(&PLACE, &Sealed::parse(longer).unwrap()).unwrap_err(), OpenError::Tampered);
}

#[test]
fn sec_01_a_moved_value_is_an_error() {
    let ring = ring();
    let sealed = ring.seal(&PLACE, b"value").unwrap();
    let elsewhere = [
        Place { record: "secret/2", ..PLACE },
        Place { owner: "usr_b", ..PLACE },
        Place { field: "note", ..PLACE },
        // The same letters with the borders moved.
        Place { record: "secret/1u", owner: "sr_a", field: "value" },
        Place { record: "secret/1usr_a", owner: "", field: "value" },
        Place { record: "", owner: "", field: "" },
    ];
    for place in elsewhere {
        assert_eq!(ring.open(&place, &sealed).unwrap_err(), OpenError::Tampered, "{place:?}");
    }
}

#[test]
fn sec_01_no_nonce_and_no_salt_repeats() {
    let ring = ring();
    let (mut salts, mut nonces) = (HashSet::new(), HashSet::new());
    for _ in 0..scaled(1_000_000) {
        let sealed = ring.seal(&PLACE, b"x").unwrap();
        let bytes = sealed.as_bytes();
        assert!(salts.insert(<[u8; 32]>::try_from(&bytes[9..41]).unwrap()));
        assert!(nonces.insert(<[u8; 12]>::try_from(&bytes[41..53]).unwrap()));
    }
}

#[test]
fn sec_01_planted_values_are_not_in_the_dump() {
    let ring = ring();
    let planted: Vec<String> = (0..30).map(|n| format!("planted-value-{n:04}")).collect();
    let dump: Vec<u8> = planted
        .iter()
        .flat_map(|value| ring.seal(&PLACE, value.as_bytes()).unwrap().as_bytes().to_vec())
        .collect();
    let seen = |value: &String| dump.windows(value.len()).any(|window| window == value.as_bytes());
    assert_eq!(planted.iter().filter(|value| seen(value)).count(), 0);
}

#[test]
fn sec_03_another_key_is_named_and_opens_nothing() {
    let (mine, other) = (ring(), ring());
    let sealed = mine.seal(&PLACE, b"value").unwrap();
    let expected = OpenError::OtherKey { found: mine.fingerprint(), ring: other.fingerprint() };
    assert_eq!(other.open(&PLACE, &sealed).unwrap_err(), expected);
    assert_eq!(
        expected.to_string(),
        format!(
            "sealed under key `{}`, but this ring is `{}`; start with the key it was sealed under",
            mine.fingerprint(),
            other.fingerprint()
        )
    );
}

#[test]
fn sec_03_plaintext_is_not_accepted() {
    for plain in [
        &b""[..],
        b"hunter2",
        b"sk-ant-api03-a-plain-secret-that-is-long-enough-to-look-like-a-sealed-value-0000000",
    ] {
        assert_eq!(Sealed::parse(plain.to_vec()).unwrap_err(), OpenError::NotSealed);
    }
    let mut disguised = vec![1];
    disguised.extend_from_slice(&[b'x'; 100]);
    let disguised = Sealed::parse(disguised).unwrap();
    assert!(ring().open(&PLACE, &disguised).is_err());
}

#[test]
fn a_value_too_large_is_refused() {
    assert_eq!(ring().seal(&PLACE, &vec![0; (1 << 20) + 1]).unwrap_err(), SealError::TooLarge);
}

#[test]
fn debug_shows_no_bytes() {
    let sealed = ring().seal(&PLACE, b"value").unwrap();
    assert_eq!(format!("{sealed:?}"), "Sealed(74 bytes)");
}

fn place((record, owner, field): &(String, String, String)) -> Place<'_> {
    Place { record, owner, field }
}

proptest! {
    #[test]
    fn what_is_sealed_opens_at_its_place_and_nowhere_else(
        plain in proptest::collection::vec(any::<u8>(), 0..300),
        here in ("[a-z/]{0,6}", "[a-z]{0,4}", "[a-z]{0,4}"),
        there in ("[a-z/]{0,6}", "[a-z]{0,4}", "[a-z]{0,4}"),
    ) {
        let ring = ring();
        let (here, there) = (place(&here), place(&there));
        let sealed = ring.seal(&here, &plain).unwrap();
        prop_assert!(ring.open(&here, &sealed).unwrap().matches(&plain));
        prop_assert_eq!(ring.open(&there, &sealed).is_ok(), here == there);
    }

    #[test]
    fn hostile_bytes_never_open(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let ring = ring();
        if let Ok(sealed) = Sealed::parse(bytes) {
            prop_assert!(ring.open(&PLACE, &sealed).is_err());
        }
    }
}
