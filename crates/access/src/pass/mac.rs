//! HMAC-SHA256 on whole blocks, for the one place where it is done six times per request.
//!
//! The same function as the `hmac` crate (a test compares them), at 0.6 of its time: a chain has a new
//! key at every step, and the crate's buffers cost as much as the hashing. The compression function is
//! `sha2`'s. Not for use outside Passes.

use sha2::block_api::compress256;
use zeroize::Zeroize;

const BLOCK: usize = 64;
const START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

pub(super) type Tag = [u8; 32];

/// A key that was taken in: both states after their padded key block.
pub(super) struct Keyed {
    inner: [u32; 8],
    outer: [u32; 8],
}

impl Keyed {
    /// From a key of at most one block; a shorter one is padded with zeros, as HMAC does.
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self { inner: padded(key, 0x36), outer: padded(key, 0x5c) }
    }

    /// Forgets the key. Not on drop: the keys along a chain are worth no more than the Pass they are from,
    /// and wiping each costs as much as a hash.
    pub(super) fn wipe(&mut self) {
        self.inner.zeroize();
        self.outer.zeroize();
    }

    pub(super) fn sign(&self, text: &[u8]) -> Tag {
        let (blocks, rest) = text.as_chunks::<BLOCK>();
        let mut inner = self.inner;
        compress256(&mut inner, blocks);
        close(&mut inner, rest, BLOCK + text.len());
        let mut outer = self.outer;
        close(&mut outer, &bytes(&inner), BLOCK + 32);
        bytes(&outer)
    }
}

fn padded(key: &[u8; 32], pad: u8) -> [u32; 8] {
    let mut block = [pad; BLOCK];
    for (slot, byte) in block.iter_mut().zip(key) {
        *slot ^= byte;
    }
    let mut state = START;
    compress256(&mut state, &[block]);
    state
}

/// The last, partial block: a one bit, zeros, and the number of bits hashed in all.
fn close(state: &mut [u32; 8], rest: &[u8], total: usize) {
    let mut last = [[0; BLOCK]; 2];
    let used = if rest.len() < BLOCK - 8 { 1 } else { 2 };
    let flat = last.as_flattened_mut();
    if let Some((text, after)) = flat.split_at_mut_checked(rest.len()) {
        text.copy_from_slice(rest);
        after.iter_mut().take(1).for_each(|slot| *slot = 0x80);
    }
    if let Some((_, length)) = flat.split_at_mut_checked(used * BLOCK - 8) {
        length.iter_mut().zip((total as u64 * 8).to_be_bytes()).for_each(|(slot, byte)| *slot = byte);
    }
    compress256(state, last.get(..used).unwrap_or_default());
}

fn bytes(state: &[u32; 8]) -> Tag {
    let mut tag = [0; 32];
    for (slot, word) in tag.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *slot = word.to_be_bytes();
    }
    tag
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, KeyInit, Mac};

    use super::*;

    #[test]
    fn it_is_hmac_sha256_for_every_length() {
        let text: Vec<u8> = (0..700_u32).map(|n| u8::try_from(n * 7 % 251).unwrap()).collect();
        for length in 0..text.len() {
            let key: [u8; 32] = std::array::from_fn(|n| u8::try_from((n * 11 + length) % 256).unwrap());
            let mut reference = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
            reference.update(&text[..length]);
            assert_eq!(
                Keyed::new(&key).sign(&text[..length]),
                *reference.finalize().into_bytes(),
                "{length}"
            );
        }
    }
}
