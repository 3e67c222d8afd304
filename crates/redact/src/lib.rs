//! Turns text that may hold secrets into text that does not: the one way out for logs, errors,
//! events and the output of programs.
//!
//! | to | use |
//! |---|---|
//! | mask secrets in a text at hand | [`Redactor::scrub`], [`Redactor::scrub_bytes`] |
//! | mask them in a stream | [`Sink`], a writer |
//! | also turn home paths into `~/` | [`Redactor::with_home_paths`], [`Redactor::with_home`], [`Redactor::for_others`] |
//! | also mask people's data: cards, e-mail, phone, social security numbers, addresses of hosts | [`Redactor::with_personal_data`] |
//! | mask exact values, in every form they travel in | [`Redactor::learn`], [`Redactor::forget`] |
//! | add one's own patterns | [`Redactor::set_patterns`], [`listed`] for those of a file |
//! | learn where secrets are, not what they are | [`Redactor::find`], [`Search`] for a stream |
//! | take what acts on a terminal out of output that is kept | [`tame`], [`Tame`] |
//! | know which characters deceive an eye | [`is_unseen`], [`turns`], [`hiding`] |
//!
//! [`Redactor::new`] masks secrets of every family and nothing else: paths and addresses in a client's
//! answers must stay usable. What is stored or sent away takes the further ones as well.
//!
//! Flow: text -> units (whole lines, or pieces of a very long line) -> hits (what to mask) -> text with
//! the mark [`MARK`] in place of every hit. [`Redactor`] does it for a text at hand, [`Sink`] for a
//! stream; both run the same machine, so the result does not depend on how the stream was cut.
//!
//! Most bytes are looked at in blocks of bytes, many at once, and by no finder: a block says where a literal may begin, where
//! a run of characters is long enough for a key, and where something cannot be seen (`bytes`, `find::anchors`).
//!
//! Invariants: time is linear in the input and memory is bounded, whatever the input is; the mark does
//! not tell what it hides; what is masked is never written anywhere first; masking twice is masking once;
//! nothing is built at run time for the families, whose tables are made by the compiler.
//!
//! Not here: which text must pass (its callers), where known values come from (`vault`).

mod bytes;
mod find;
mod held;
mod known;
mod machine;
mod patterns;
mod redactor;
mod search;
mod sink;
mod tame;
mod unseen;
mod words;

pub use known::LearnError;
pub use patterns::{BadPattern, Flaw, listed};
pub use redactor::Redactor;
pub use search::{Place, Search};
pub use sink::Sink;
pub use tame::{Tame, tame};
pub use unseen::{hiding, is_unseen, turns};

/// What stands in place of a secret, whatever its kind and length.
pub const MARK: &str = "***";

/// What every text is searched for first, without regard to case. For measuring: a bare search for the
/// same is what redaction is compared with.
#[doc(hidden)]
#[must_use]
pub fn literals() -> Vec<&'static str> {
    find::literals()
}
