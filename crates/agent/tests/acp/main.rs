//! The real program, driven over standard input and output, against a model that plays a script.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends here"
)]

mod autonomy;
mod client;
mod fetch;
mod files;
mod loops;
mod model;
mod programs;
mod protocol;
mod providers;
mod schema;
mod subagents;
mod world;
