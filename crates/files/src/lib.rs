//! Turns a path that somebody less trusted chose, in a tree that they may be changing, into bytes, or bytes into a file.
//!
//! Flow: [`Root::open`] (a directory, named by whoever may) -> paths beneath it, by anyone -> bytes or a refusal.
//!
//! Invariants:
//! * a path is resolved by the kernel beneath the directory's descriptor, in one step, and through no link, magic link or
//!   `..`: whatever is swapped meanwhile, what is found is beneath (inside a sandbox there is no such call: then by single
//!   steps, each from the one before and through no link);
//! * only a plain file is opened; a pipe, device or socket is looked at and left alone, so nothing waits and nothing is
//!   set off; what is read is bounded;
//! * a file is replaced whole or not at all, and both it and its name are on the disk before the answer.
//!
//! Owners and names: what is written is a new file of the caller's, with the permissions of the one that it replaces (0600
//! if there was none, never a set-id bit). Other names of the old file keep the old content. What is read may belong to
//! anyone and have several names, unless [`Rule::Private`] asks for more. A directory that is moved away while a file is
//! written takes that file along.
//!
//! Not here: who may name a directory, keys (`vault`), layers of sandboxes (`sandbox`).

mod error;
mod named;
pub mod remove;
mod root;
mod write;

pub use error::FileError;
pub use named::{open, read};
pub use root::{Entry, Kind, Root, Rule};
