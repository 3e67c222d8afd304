//! Turns the bytes that a sandbox sends towards the network, and those that come back, into parts that can be judged.
//!
//! Flow: bytes -> a reader of one protocol -> a value with checked parts, or a refusal -> the same value written again.
//!
//! Invariants:
//! * a message is taken whole or refused whole: nothing here repairs, guesses or skips, and what two programs could read
//!   in two ways is refused;
//! * what is written again is made from the parts that were judged, not copied from what was sent;
//! * every reader is bounded in memory, takes time in proportion to its input, and does not mind where the input is cut.
//!
//! [`front`] is the launcher's side of a sandbox's network, [`control`] what it and the proxy say to each other,
//! [`published`] what is reached inside from this machine.
//!
//! Not here: TLS itself, carrying bytes, secrets.

pub mod control;
pub mod decoys;
pub mod dns;
pub mod front;
pub mod hello;
pub mod host;
pub mod http1;
pub mod login;
pub mod names;
pub mod pkt_line;
pub mod prefix;
pub mod published;
pub mod refused;
pub mod socks;
pub mod websocket;
pub mod writings;

mod cursor;

pub use front::{Counts, Front, MANY_NAMES, Told};
