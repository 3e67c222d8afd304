//! Seals a record under a data key of its own, which is sealed under the ring's current epoch.
//!
//! Every sealing makes a new data key and two new nonces. Layout:
//!
//! ```text
//! version 1 | ring fingerprint 8 | epoch 4 | nonce 12 | data key 32, tag 16 | nonce 12 | AES-256-GCM ciphertext, tag 16
//! ```
//!
//! Invariant: both layers authenticate everything that stands before them, and the [`Place`]. A record that was moved,
//! cut, flipped, put together from two, or that is plain, is an error; so is one whose epoch the ring has let go.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::seal::{Bound, MAX_PLAIN, open_copy};
use crate::{Fingerprint, KeyRing, OpenError, Place, SealError, Secret};

const VERSION: u8 = 2;
const KEY: usize = 32;
const NONCE: usize = 12;
const TAG: usize = 16;
/// Version, fingerprint, epoch and the nonce of the data key.
const OUTER: usize = 1 + 8 + 4 + NONCE;
/// All that stands before the ciphertext.
const HEADER: usize = OUTER + KEY + TAG + NONCE;

/// A sealed record: public bytes, to be stored as they are.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedRecord {
    bytes: Vec<u8>,
    epoch: u32,
}

impl SealedRecord {
    /// Recognizes stored bytes as a sealed record; only [`KeyRing::open_record`] can tell whether it is whole.
    ///
    /// # Errors
    /// [`OpenError::NotSealed`] for anything without our version and smallest length.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, OpenError> {
        let epoch = bytes.get(9..13).and_then(|epoch| epoch.try_into().ok()).map(u32::from_be_bytes);
        match (bytes.first(), epoch) {
            (Some(&VERSION), Some(epoch)) if bytes.len() >= HEADER + TAG => Ok(Self { bytes, epoch }),
            _ => Err(OpenError::NotSealed),
        }
    }

    /// The bytes to store.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes to store, without a copy.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The epoch that it was sealed under, by its own claim.
    #[must_use]
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }
}

impl fmt::Debug for SealedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedRecord({} bytes)", self.bytes.len())
    }
}

impl KeyRing {
    /// Seals a record for one place, under a new data key and the current epoch.
    ///
    /// # Errors
    /// [`SealError`]; then nothing was sealed.
    pub fn seal_record(&self, place: &Place<'_>, plain: &[u8]) -> Result<SealedRecord, SealError> {
        if plain.len() > MAX_PLAIN {
            return Err(SealError::TooLarge);
        }
        // Asked for once: what the operating system is asked for costs more than the cipher.
        let mut fresh = Secret::new([0; KEY + NONCE + NONCE]);
        fresh.with(|fresh| getrandom::fill(fresh))?;
        let (data_key, nonces) = fresh.expose().split_at(KEY);
        let (outer_nonce, inner_nonce) = nonces.split_at(NONCE);

        let epochs = self.read_epochs();
        let epoch = epochs.current;
        let outer = &epochs.keys.get(&epoch).ok_or(SealError::Cipher)?.ready;
        let mut bound = Bound::new(place, HEADER);
        // Until the data key in it is sealed, this is a secret.
        let mut bytes = Secret::new(Vec::with_capacity(HEADER + plain.len() + TAG));
        let sealed = bytes.with(|bytes| {
            bytes.push(VERSION);
            bytes.extend_from_slice(self.fingerprint().as_bytes());
            bytes.extend_from_slice(&epoch.to_be_bytes());
            bytes.extend_from_slice(outer_nonce);
            put(outer, outer_nonce, bound.with(bytes)?, bytes, data_key)?;
            bytes.extend_from_slice(inner_nonce);
            put(&ready(data_key)?, inner_nonce, bound.with(bytes)?, bytes, plain)?;
            Some(std::mem::take(bytes))
        });
        Ok(SealedRecord { bytes: sealed.ok_or(SealError::Cipher)?, epoch })
    }

    /// Opens a record at the place it was sealed for.
    ///
    /// # Errors
    /// [`OpenError`]; no part of the plain value is given out.
    pub fn open_record(
        &self,
        place: &Place<'_>,
        sealed: &SealedRecord,
    ) -> Result<Secret<Vec<u8>>, OpenError> {
        let Some(parts) = Parts::of(&sealed.bytes) else { return Err(OpenError::NotSealed) };
        if parts.ring != self.fingerprint() {
            return Err(OpenError::OtherKey { found: parts.ring, ring: self.fingerprint() });
        }
        let mut bound = Bound::new(place, HEADER);
        let mut data_key = Secret::new([0; KEY]);
        {
            let epochs = self.read_epochs();
            let Some(key) = epochs.keys.get(&sealed.epoch) else {
                return Err(OpenError::NoEpoch(sealed.epoch));
            };
            if parts.open_key(&key.ready, &mut bound, &mut data_key).is_none() {
                return Err(OpenError::Tampered);
            }
        }
        let (Some(inner), Some(bound)) = (ready(data_key.expose()), bound.with(parts.header)) else {
            return Err(OpenError::Tampered);
        };
        open_copy(&inner, Nonce::assume_unique_for_key(*parts.inner_nonce), bound, parts.body)
    }
}

/// Where the parts of a sealed record lie.
struct Parts<'a> {
    ring: Fingerprint,
    outer: &'a [u8],
    outer_nonce: &'a [u8; NONCE],
    wrapped: &'a [u8],
    key_tag: &'a [u8],
    inner_nonce: &'a [u8; NONCE],
    header: &'a [u8],
    body: &'a [u8],
}

impl<'a> Parts<'a> {
    // Without an error for each step: taking those apart costs as much as a block of the cipher.
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (header, body) = bytes.split_first_chunk::<HEADER>()?;
        let (outer, rest) = header.split_first_chunk::<OUTER>()?;
        let (before, outer_nonce) = outer.split_last_chunk::<NONCE>()?;
        let ring = Fingerprint::from_slice(before.get(1..9)?)?;
        let (wrapped, inner_nonce) = rest.split_last_chunk::<NONCE>()?;
        let (wrapped, key_tag) = wrapped.split_last_chunk::<TAG>()?;
        Some(Self { ring, outer, outer_nonce, wrapped, key_tag, inner_nonce, header, body })
    }

    /// Opens the data key where it is to be, so that no copy of it is left behind.
    fn open_key(&self, key: &LessSafeKey, bound: &mut Bound, to: &mut Secret<[u8; KEY]>) -> Option<()> {
        let nonce = Nonce::assume_unique_for_key(*self.outer_nonce);
        let bound = Aad::from(bound.with(self.outer)?);
        to.with(|to| key.open_separate_gather(nonce, bound, self.wrapped, self.key_tag, to)).ok()
    }
}

fn ready(key: &[u8]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, key).ok().map(LessSafeKey::new)
}

/// Adds a text to the bytes, encrypted, and its tag; what is bound to it was said before.
fn put(key: &LessSafeKey, nonce: &[u8], bound: &[u8], bytes: &mut Vec<u8>, text: &[u8]) -> Option<()> {
    let from = bytes.len();
    bytes.extend_from_slice(text);
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(bound), bytes.get_mut(from..)?).ok()?;
    bytes.extend_from_slice(tag.as_ref());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MasterKey;

    /// Every part with its length before it, as it was from the beginning.
    fn bound(header: &[u8], place: &Place<'_>) -> Vec<u8> {
        let parts = [header, place.record.as_bytes(), place.owner.as_bytes(), place.field.as_bytes()];
        parts.iter().flat_map(|part| [&(part.len() as u64).to_be_bytes(), *part].concat()).collect()
    }

    fn sealed(key: &[u8], nonce: [u8; NONCE], bound: &[u8], text: &[u8]) -> Vec<u8> {
        let mut text = text.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        ready(key).unwrap().seal_in_place_append_tag(nonce, Aad::from(bound), &mut text).unwrap();
        text
    }

    /// What is on disks must open with every later version: here it is put together by the layout alone.
    #[test]
    fn the_layout_never_changes() {
        let ring = KeyRing::new(MasterKey::random().unwrap());
        let epoch_key = *ring.read_epochs().keys[&1].bytes.expose();
        for length in [0, 1, 30, 200, 260, 270, 280, 300, 10_000] {
            let field = "f".repeat(length);
            let place = Place { record: "secrets/1", owner: "user/1", field: &field };
            let mut bytes = vec![VERSION];
            bytes.extend_from_slice(ring.fingerprint().as_bytes());
            bytes.extend_from_slice(&1_u32.to_be_bytes());
            bytes.extend_from_slice(&[5; NONCE]);
            bytes.extend(sealed(&epoch_key, [5; NONCE], &bound(&bytes, &place), &[9; KEY]));
            bytes.extend_from_slice(&[6; NONCE]);
            bytes.extend(sealed(&[9; KEY], [6; NONCE], &bound(&bytes, &place), b"value"));
            let record = SealedRecord::parse(bytes).unwrap();
            assert_eq!(ring.open_record(&place, &record).unwrap().expose(), b"value", "{length}");
            let ours = ring.seal_record(&place, b"value").unwrap();
            assert_eq!(ring.open_record(&place, &ours).unwrap().expose(), b"value", "{length}");
            let field = format!("{field}f");
            let elsewhere = Place { field: &field, ..place };
            assert_eq!(ring.open_record(&elsewhere, &record).unwrap_err(), OpenError::Tampered);
        }
    }
}
