//! Turns one master secret into keys for every purpose, and seals single values with them.
//!
//! Flow: text or a file -> [`MasterKey`] -> [`KeyRing`] -> [`KeyRing::subkey`] and [`KeyRing::seal`].
//!
//! Invariants: there is no plaintext mode; a key that could be guessed is refused before anything is
//! derived from it; a sealed value opens only under its ring and at its [`Place`]; secrets are
//! [`Secret`], which cannot be printed, copied, compared or serialized by accident.
//!
//! Not here: sockets, databases, leases, rotation. Files appear in one fenced module, [`source`],
//! and there only for the master key.

mod master;
mod ring;
mod seal;
mod secret;
pub mod source;

pub use master::{BadKey, MasterKey};
pub use ring::{Fingerprint, KeyRing, Purpose};
pub use seal::{OpenError, Place, SealError, Sealed};
pub use secret::Secret;
