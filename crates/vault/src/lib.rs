//! Turns one master secret into keys for every purpose, and seals single values with them.
//!
//! Flow: text, a passphrase, a file or a program -> [`MasterKey`] -> [`KeyRing::read`] or [`RingFile`] -> [`KeyRing`] -> [`KeyRing::subkey`],
//! [`KeyRing::seal`] for what lives as long as the ring, [`KeyRing::seal_record`] for what outlives a key. A value that
//! was opened is lent by [`Leases`].
//!
//! Invariants: there is no plaintext mode; a key that could be guessed is refused before anything is
//! derived from it; a sealed value opens only under its ring and at its [`Place`]; secrets are
//! [`Secret`], which cannot be printed, copied, compared or serialized by accident.
//!
//! Not here: sockets, databases, who may have what. Files and programs appear in two fenced modules, [`source`] for the
//! master key and `ring_file` for the ring that it seals.

mod lease;
mod master;
mod passphrase;
mod record;
mod ring;
mod ring_file;
mod seal;
mod secret;
pub mod source;
mod turn;

pub use lease::{LEASE_GRACE, LONGEST_TIMEOUT, LeaseError, LeaseId, Leases, Term};
pub use master::{BadKey, MasterKey};
pub use passphrase::{BadStretch, Master, Stretch};
pub use record::SealedRecord;
pub use ring::{Fingerprint, KeyRing, Purpose};
pub use ring_file::RingFile;
pub use seal::{OpenError, Place, SealError, Sealed};
pub use secret::{Secret, Wipe};
pub use turn::{Change, RingError};
