//! What both engines of the store promise, tried on real ones.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../kit/mod.rs"]
mod kit;

mod backups;
mod durability;
mod encrypting;
mod full_disk;
mod keys;
mod migrations;
mod server;
mod statements;
mod transactions;
