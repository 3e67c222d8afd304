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

use crate::seal::{MAX_PLAIN, open_copy};
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
        let mut bound = Vec::new();
        // Until the data key in it is sealed, this is a secret.
        let mut bytes = Secret::new(Vec::with_capacity(HEADER + plain.len() + TAG));
        let sealed = bytes.with(|bytes| {
            bytes.push(VERSION);
            bytes.extend_from_slice(self.fingerprint().as_bytes());
            bytes.extend_from_slice(&epoch.to_be_bytes());
            bytes.extend_from_slice(outer_nonce);
            place.bind_in(&mut bound, bytes);
            put(outer, outer_nonce, &bound, bytes, data_key)?;
            bytes.extend_from_slice(inner_nonce);
            place.bind_in(&mut bound, bytes);
            put(&ready(data_key)?, inner_nonce, &bound, bytes, plain)?;
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
        let (header, body) = sealed.bytes.split_at_checked(HEADER).ok_or(OpenError::NotSealed)?;
        let (outer, rest) = header.split_at_checked(OUTER).ok_or(OpenError::NotSealed)?;
        let (wrapped, inner_nonce) = rest.split_at_checked(KEY + TAG).ok_or(OpenError::NotSealed)?;
        let claimed = outer.get(1..9).and_then(Fingerprint::from_slice).ok_or(OpenError::NotSealed)?;
        if claimed != self.fingerprint() {
            return Err(OpenError::OtherKey { found: claimed, ring: self.fingerprint() });
        }
        let outer_nonce = outer.get(13..).ok_or(OpenError::NotSealed)?;
        let mut bound = Vec::new();
        place.bind_in(&mut bound, outer);
        let mut data_key = Secret::new([0; KEY + TAG]);
        {
            let epochs = self.read_epochs();
            let key = epochs.keys.get(&sealed.epoch).ok_or(OpenError::NoEpoch(sealed.epoch))?;
            let nonce = nonce(outer_nonce)?;
            let opened = data_key.with(|data_key| {
                data_key.copy_from_slice(wrapped);
                key.ready.open_in_place(nonce, Aad::from(&bound), data_key).map(drop)
            });
            opened.map_err(|_| OpenError::Tampered)?;
        }
        let inner = data_key.expose().get(..KEY).and_then(ready).ok_or(OpenError::Tampered)?;
        place.bind_in(&mut bound, header);
        open_copy(&inner, nonce(inner_nonce)?, &bound, body)
    }
}

fn ready(key: &[u8]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, key).ok().map(LessSafeKey::new)
}

fn nonce(bytes: &[u8]) -> Result<Nonce, OpenError> {
    Nonce::try_assume_unique_for_key(bytes).map_err(|_| OpenError::Tampered)
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
