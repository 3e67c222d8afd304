//! Turns a seed into labelled texts: some hold invented secrets and say where, the others hold none.
//!
//! Flow: a family makes a secret, a place makes the text around it -> [`Sample`]; a kind makes a text without any ->
//! [`Plain`]. What a redactor made of them is judged here too ([`Sample::survives`], [`Plain::touched`]).
//!
//! Invariant: the same seed gives the same bytes everywhere, and no secret was ever anybody's. It was written from
//! the specification and not from the redactor: what is missed is mended there. Not here: personal data (a set of
//! its own, off for transcripts), and any redactor.

mod dice;
mod encode;
mod families;
mod known;
mod places;
mod plain;
mod sample;
mod secrets;
mod words;
mod writings;

pub use known::{Known, known, known_values, known_values_with_signs};
pub use plain::{Plain, negatives, transcript};
pub use sample::{Sample, positives, salted};

/// The seed of the test. The redactor's author sees what is missed under it.
pub const TESTED: u64 = 0x5eed_000a;
/// The seed of the bench, which nobody looks at while mending.
pub const HELD_OUT: u64 = 0x5eed_b0b0;

/// What begins something over and over and never finishes it, for measuring (SEC-20).
pub const HOSTILE: [&str; 29] = [
    "key",
    "token ",
    "password=",
    "secret: ",
    "a://b:c ",
    " eyJa",
    "eyJhbGciOiJ",
    "-----BEGIN ",
    "AKIA",
    "sk-",
    "ghp_",
    "xox",
    "AAAA",
    "a.b.",
    "=\"",
    "\\\\",
    "Authorization: ",
    "cookie:",
    "-----BEGIN RSA PRIVATE KEY-----\n",
    "/home/",
    "aB3",
    "SG.",
    "\u{200b}",
    "%41",
    "\\u0041",
    "Bearer bearer ",
    "token token=",
    "Cookie: a ",
    "auth=\"",
];
