//! The talk with an agent, over streams in memory: what is sent, what is understood, and what bounds hold whatever comes.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends here"
)]

mod bounds;
mod peer;
mod questions;
mod streams;
mod words;
