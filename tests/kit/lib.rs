//! A kit that reads like sentences: the real daemon on the real kernel, in a folder of its own.
//!
//! The programs are those that `cargo build` put beside this test's own folder; `make test` builds them
//! first. Everything ends when the kit's values are dropped, however a test ends.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on ends here"
)]

mod host;
mod people;
mod postgres;
mod programs;

pub use host::{Host, HostBuilder, commit, git};
pub use people::Person;
pub use postgres::{Apart, database, dump};
pub use programs::{cannot_run, fed, master_key, program, scale};

/// The password of everyone here.
pub const PASSWORD: &str = "correct horse battery";
