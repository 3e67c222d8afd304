//! What it costs to seal and open a secret of 1 KiB, against the cipher alone.
//!
//! A record has a data key of its own, which is sealed too. So the cipher is measured twice: doing the same for a record
//! and nothing besides, and once over the secret with a key that is ready.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use vault::{KeyRing, MasterKey, Place};

use crate::measure;
use crate::report::{Bound, Row};

const SIZE: usize = 1024;
const ROUNDS: usize = 60;
const PLACE: Place<'static> = Place { record: "secret/sec_6a1f", owner: "user/usr_52c0", field: "value" };

/// The figures, and how to read them.
pub(crate) fn rows() -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let ring = KeyRing::new(MasterKey::random()?);
    let plain = [0x5a_u8; SIZE];
    let bound: Vec<u8> = [PLACE.record, PLACE.owner, PLACE.field].concat().into_bytes();
    let bare = Bare { ready: key(&[7; 32])?, bound };

    let sealed = ring.seal_record(&PLACE, &plain)?;
    anyhow::ensure!(ring.open_record(&PLACE, &sealed)?.expose() == &plain, "it opens as something else");
    let (wrapped, body) = bare.seal_envelope(&plain)?;
    anyhow::ensure!(bare.open_envelope(&wrapped, &body)? == plain, "the reference opens as something else");
    let once = bare.seal(&bare.ready, &plain)?;

    let ours_seal = || ring.seal_record(&PLACE, &plain).is_ok();
    let ours_open = || ring.open_record(&PLACE, &sealed).is_ok();
    let pairs = [
        ("seal", measure::side_by_side(ROUNDS, ours_seal, || bare.seal_envelope(&plain).is_ok())),
        ("open", measure::side_by_side(ROUNDS, ours_open, || bare.open_envelope(&wrapped, &body).is_ok())),
    ];
    let mut rows: Vec<Row> = pairs
        .iter()
        .map(|(name, pair)| {
            row(&format!("{name} / raw AES-256-GCM, a key per record"), *pair, Bound::RatioAtMost(1.2))
        })
        .collect();
    let single = [
        ("seal", measure::side_by_side(ROUNDS, ours_seal, || bare.seal(&bare.ready, &plain).is_ok())),
        ("open", measure::side_by_side(ROUNDS, ours_open, || bare.open(&bare.ready, &once).is_ok())),
    ];
    rows.extend(single.iter().map(|(name, pair)| {
        row(&format!("{name} / one AES-256-GCM, its key ready"), *pair, Bound::Information)
    }));
    let note = "vault: the raw cipher draws its keys and nonces from the operating system as ours does, and gives out a vector; \
                it binds the same place, and knows of no epochs, versions or wiping"
        .to_owned();
    Ok((rows, vec![note]))
}

fn row(name: &str, pair: measure::Pair, bound: Bound) -> Row {
    Row {
        name: format!("vault, 1 KiB, {name}"),
        unit: "ns",
        ours: pair.ours,
        reference: Some(pair.reference),
        bound,
    }
}

fn key(bytes: &[u8]) -> anyhow::Result<LessSafeKey> {
    Ok(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes)?))
}

/// The cipher, and what it must be given.
struct Bare {
    ready: LessSafeKey,
    bound: Vec<u8>,
}

type Nonced = ([u8; 12], Vec<u8>);

impl Bare {
    fn seal(&self, key: &LessSafeKey, plain: &[u8]) -> anyhow::Result<Nonced> {
        let mut nonce = [0; 12];
        getrandom::fill(&mut nonce)?;
        self.seal_with(key, nonce, plain)
    }

    fn seal_with(&self, key: &LessSafeKey, nonce: [u8; 12], plain: &[u8]) -> anyhow::Result<Nonced> {
        let mut body = Vec::with_capacity(plain.len() + 16);
        body.extend_from_slice(plain);
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&self.bound), &mut body)?;
        Ok((nonce, body))
    }

    fn open(&self, key: &LessSafeKey, (nonce, body): &Nonced) -> anyhow::Result<Vec<u8>> {
        let mut plain = body.clone();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = key.open_in_place(nonce, Aad::from(&self.bound), &mut plain)?.len();
        plain.truncate(length);
        Ok(plain)
    }

    /// A fresh data key, sealed under the ready one, and the secret under it.
    fn seal_envelope(&self, plain: &[u8]) -> anyhow::Result<(Nonced, Nonced)> {
        let mut fresh = [0; 56];
        getrandom::fill(&mut fresh)?;
        let (data, nonces) = fresh.split_at(32);
        let (outer, inner) = nonces.split_at(12);
        let wrapped = self.seal_with(&self.ready, outer.try_into()?, data)?;
        Ok((wrapped, self.seal_with(&key(data)?, inner.try_into()?, plain)?))
    }

    fn open_envelope(&self, wrapped: &Nonced, body: &Nonced) -> anyhow::Result<Vec<u8>> {
        let data = self.open(&self.ready, wrapped)?;
        self.open(&key(&data)?, body)
    }
}
