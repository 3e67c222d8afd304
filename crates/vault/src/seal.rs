//! Seals one value for one place, and opens it only there.
//!
//! Each value has its own key: HKDF-SHA256 of the ring's seal key, salted with 32 fresh random bytes.
//! So two values never share a key and nonce, however many are sealed. Layout of a sealed value:
//!
//! ```text
//! version 1 | ring fingerprint 8 | salt 32 | nonce 12 | AES-256-GCM ciphertext, tag 16
//! ```
//!
//! Invariant: everything before the ciphertext, and the [`Place`], is authenticated with it. A moved,
//! cut, flipped or plain value is an error.

use std::fmt;
use std::ops::Range;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf;

use crate::ring::derive;
use crate::{Fingerprint, KeyRing, Secret};

const VERSION: u8 = 1;
const SALT: usize = 32;
const NONCE: usize = 12;
const TAG: usize = 16;
const HEADER: usize = 1 + 8 + SALT + NONCE;
/// Largest plain value; a secret is not a file.
pub(crate) const MAX_PLAIN: usize = 1 << 20;
const LABEL: &[u8] = b"palisade/v1/sealed-value";
/// How long a part is, in front of it.
const COUNT: usize = size_of::<u64>();
/// Enough for a header, ids and a name.
const NEAR: usize = 384;

/// Where a sealed value lives. It opens nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The record, such as a row's table and id.
    pub record: &'a str,
    /// Whose it is.
    pub owner: &'a str,
    /// Which field of the record.
    pub field: &'a str,
}

/// A header and a place as one byte string that no other header and place produce: what a ciphertext is bound to.
///
/// The place is written once; the headers of several layers take turns in front of it. Most fit where they need no
/// memory of their own.
pub(crate) struct Bound {
    near: [u8; NEAR],
    far: Vec<u8>,
    /// Where the place begins and where it ends.
    place: Range<usize>,
}

impl Bound {
    /// Room for headers of up to so many bytes, and the place.
    pub(crate) fn new(place: &Place<'_>, longest_header: usize) -> Self {
        let from = COUNT + longest_header;
        let parts = [place.record, place.owner, place.field].map(str::as_bytes);
        let end = parts.iter().fold(from, |end, part| end + COUNT + part.len());
        let far = if end > NEAR { vec![0; end] } else { Vec::new() };
        let mut bound = Self { near: [0; NEAR], far, place: from..end };
        let mut room = bound.room().get_mut(from..end).unwrap_or_default();
        for part in parts {
            room = put(room, part);
        }
        bound
    }

    /// What is bound with this header.
    pub(crate) fn with(&mut self, header: &[u8]) -> Option<&[u8]> {
        let place = self.place.clone();
        let from = place.start.checked_sub(COUNT + header.len())?;
        let all = self.room().get_mut(from..place.end)?;
        put(all, header);
        Some(all)
    }

    fn room(&mut self) -> &mut [u8] {
        if self.far.is_empty() { &mut self.near } else { &mut self.far }
    }
}

/// Writes how long a part is, and the part; gives the room behind it.
fn put<'a>(room: &'a mut [u8], part: &[u8]) -> &'a mut [u8] {
    let Some((count, room)) = room.split_first_chunk_mut() else { return &mut [] };
    *count = (part.len() as u64).to_be_bytes();
    let Some((here, room)) = room.split_at_mut_checked(part.len()) else { return &mut [] };
    here.copy_from_slice(part);
    room
}

/// A sealed value: public bytes, to be stored as they are.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

/// Why a value was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Larger than a secret may be.
    #[error("a sealed value holds at most {MAX_PLAIN} bytes")]
    TooLarge,
    /// The operating system has no randomness to give.
    #[error("no randomness available; nothing was sealed")]
    Randomness(#[from] getrandom::Error),
    /// The cipher refused to work.
    #[error("the cipher failed; nothing was sealed")]
    Cipher,
}

/// Why a value was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Not something [`KeyRing::seal`] made, for example plaintext.
    #[error("this is not a sealed value; plaintext is not accepted in its place")]
    NotSealed,
    /// Sealed under another master key.
    #[error("sealed under key `{found}`, but this ring is `{ring}`; start with the key it was sealed under")]
    OtherKey {
        /// The ring that sealed it, by its own claim.
        found: Fingerprint,
        /// The ring at hand.
        ring: Fingerprint,
    },
    /// Sealed in an epoch whose key this ring does not hold.
    #[error(
        "sealed under the keys of epoch {0}, which this ring does not hold; restore the ring that belongs to it"
    )]
    NoEpoch(u32),
    /// Changed, cut, or moved from another place.
    #[error("the sealed value was changed or moved; restore it from a backup")]
    Tampered,
}

impl Sealed {
    /// Recognizes stored bytes as a sealed value; only [`KeyRing::open`] can tell whether it is whole.
    ///
    /// # Errors
    /// [`OpenError::NotSealed`] for anything without our version and smallest length.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, OpenError> {
        if bytes.first() == Some(&VERSION) && bytes.len() >= HEADER + TAG {
            return Ok(Self(bytes));
        }
        Err(OpenError::NotSealed)
    }

    /// The bytes to store.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

/// Decrypts a copy, which is a secret from the beginning, also when it does not open.
pub(crate) fn open_copy(
    key: &LessSafeKey,
    nonce: Nonce,
    bound: &[u8],
    body: &[u8],
) -> Result<Secret<Vec<u8>>, OpenError> {
    let (text, tag) = body.split_last_chunk::<TAG>().ok_or(OpenError::NotSealed)?;
    let mut plain = Secret::new(text.to_vec());
    let opened =
        plain.with(|plain| key.open_in_place_separate_tag(nonce, Aad::from(bound), tag, plain).map(drop));
    opened.map_err(|_| OpenError::Tampered)?;
    Ok(plain)
}

impl KeyRing {
    /// Seals a value for one place, with a fresh key and nonce.
    ///
    /// # Errors
    /// [`SealError`]; then nothing was sealed.
    pub fn seal(&self, place: &Place<'_>, plain: &[u8]) -> Result<Sealed, SealError> {
        if plain.len() > MAX_PLAIN {
            return Err(SealError::TooLarge);
        }
        let (mut salt, mut nonce) = ([0; SALT], [0; NONCE]);
        getrandom::fill(&mut salt)?;
        getrandom::fill(&mut nonce)?;

        let mut sealed = Vec::with_capacity(HEADER + plain.len() + TAG);
        sealed.push(VERSION);
        sealed.extend_from_slice(self.fingerprint().as_bytes());
        sealed.extend_from_slice(&salt);
        sealed.extend_from_slice(&nonce);
        let mut bound = Bound::new(place, HEADER);
        let bound = bound.with(&sealed).ok_or(SealError::Cipher)?;
        sealed.extend_from_slice(plain);

        let key = self.value_key(&salt).ok_or(SealError::Cipher)?;
        let body = sealed.get_mut(HEADER..).ok_or(SealError::Cipher)?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(bound), body);
        sealed.extend_from_slice(tag.map_err(|_| SealError::Cipher)?.as_ref());
        Ok(Sealed(sealed))
    }

    /// Opens a value at the place it was sealed for.
    ///
    /// # Errors
    /// [`OpenError`]; no part of the plain value is given out.
    pub fn open(&self, place: &Place<'_>, sealed: &Sealed) -> Result<Secret<Vec<u8>>, OpenError> {
        let (header, body) = sealed.0.split_at_checked(HEADER).ok_or(OpenError::NotSealed)?;
        let (claimed, rest) = header.split_at_checked(9).ok_or(OpenError::NotSealed)?;
        let (salt, nonce) = rest.split_at_checked(SALT).ok_or(OpenError::NotSealed)?;
        let claimed = match claimed.split_first() {
            Some((&VERSION, ring)) => Fingerprint::from_slice(ring).ok_or(OpenError::NotSealed)?,
            _ => return Err(OpenError::NotSealed),
        };
        if claimed != self.fingerprint() {
            return Err(OpenError::OtherKey { found: claimed, ring: self.fingerprint() });
        }
        let key = self.value_key(salt).ok_or(OpenError::Tampered)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| OpenError::Tampered)?;
        let mut bound = Bound::new(place, HEADER);
        open_copy(&key, nonce, bound.with(header).ok_or(OpenError::Tampered)?, body)
    }

    fn value_key(&self, salt: &[u8]) -> Option<LessSafeKey> {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(self.seal.expose());
        let key = Secret::new(derive::<32>(&root, LABEL));
        UnboundKey::new(&AES_256_GCM, key.expose()).ok().map(LessSafeKey::new)
    }
}
