//! The signature of a Pass: a chain of HMAC-SHA256, as libmacaroons makes it.
//!
//! Each signature is the key of the next, so whoever holds a Pass can add a caveat but not take one
//! away. The root key of a Pass is `HMAC(the Passes key, "pas_…")`; a macaroon library that is given it
//! can verify that Pass and no other.

use vault::Secret;

use super::mac::Keyed;
use super::wire::SIGNATURE_LEN;

/// libmacaroons derives every root key with this, padded with zeros.
const GENERATOR: &[u8; 32] = b"macaroons-key-generator\0\0\0\0\0\0\0\0\0";

pub(super) type Signature = [u8; SIGNATURE_LEN];

/// The keyed states that every root key goes through; computed once.
pub(super) struct Root {
    passes: Keyed,
    generator: Keyed,
}

impl Root {
    pub(super) fn new(key: &Secret<[u8; 32]>) -> Self {
        Self { passes: Keyed::new(key.expose()), generator: Keyed::new(GENERATOR) }
    }

    /// The signature of a Pass without caveats. `name` is the Pass's id, `identifier` what it is written in.
    pub(super) fn begin(&self, name: &[u8], identifier: &[u8]) -> Signature {
        let root = self.passes.sign(name);
        step(&self.generator.sign(&root), identifier)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        self.passes.wipe();
    }
}

/// The signature with one more caveat.
pub(super) fn step(signature: &Signature, caveat: &[u8]) -> Signature {
    Keyed::new(signature).sign(caveat)
}
