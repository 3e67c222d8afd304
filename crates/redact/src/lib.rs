//! Turns text that may hold secrets into text that does not: the one way out for logs, errors,
//! events and the output of programs.
//!
//! Flow: text -> units (whole lines, or pieces of a very long line) -> hits (what to mask) -> text with
//! the mark [`MARK`] in place of every hit. [`Redactor`] does it for a text at hand, [`Sink`] for a
//! stream; both run the same machine, so the result does not depend on how the stream was cut.
//!
//! Invariants: time is linear in the input and memory is bounded, whatever the input is; the mark does
//! not tell what it hides; what is masked is never written anywhere first.
//!
//! Not here: personal data, entropy guesses, users' own patterns, home paths. They come as further
//! finders beside those in `find`.

mod bytes;
mod find;
mod known;
mod machine;
mod redactor;
mod sink;

pub use known::LearnError;
pub use redactor::Redactor;
pub use sink::Sink;

/// What stands in place of a secret, whatever its kind and length.
pub const MARK: &str = "***";
