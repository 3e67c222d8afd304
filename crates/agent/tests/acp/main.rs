//! The real program, driven over standard input and output, against a model that plays a script.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends here"
)]

mod autonomy;
mod beside;
mod client;
mod conforms;
mod fetch;
mod files;
mod loops;
mod programs;
mod protocol;
mod providers;
mod subagents;
mod world;

use acp_kit::{model, schema};
