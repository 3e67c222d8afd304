//! `palisade run --overlay`, `diff`, `apply` and `discard` with the real kernel, as root and as a user.
//!
//! The same story is told twice where the test itself is root: by root, whose sandboxes have a user of their own, and
//! by a throw-away user. Nothing here needs a daemon.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on ends here")]

mod commits;
mod conflicts;
mod cut;
mod hostile;
mod keeps;
mod random;
mod scene;
