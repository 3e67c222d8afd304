//! What a run decides, whatever happens: orders, bounds, skips, locks, retries, deadlines, gates, patterns, crashes.
//!
//! These prove the core: that the decisions are right. That a daemon carries them out, and what really is at work is what the
//! records say, is proved where the daemon is.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "documents of the test are what they say, and what is not as it should be ends it"
)]

mod crash;
mod gates;
mod kit;
mod locks;
mod open;
mod order;
mod patterns;
mod retries;
mod size;
