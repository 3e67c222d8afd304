//! What needs a clock that can be moved, or a store that can be broken: the use cases in one process, on a
//! real store and a real ledger.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on ends here")]

mod house;
mod lists;
mod live;
mod logins;
mod passes;
mod permits;
mod policies;
mod record;
mod rotation;
mod secrets;
mod throttle;
