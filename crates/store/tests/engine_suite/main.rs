//! What both engines of the store promise, tried on real ones.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use store::engine::Engine;

#[path = "../kit/mod.rs"]
mod kit;

mod durability;
mod encrypting;
mod full_disk;
mod keys;
mod migrations;
mod server;
mod statements;
mod transactions;
