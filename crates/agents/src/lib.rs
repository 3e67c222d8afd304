//! Turns documents about agents into what a launcher and a daemon must know of them.
//!
//! Flow: `agents/*.toml`, and files of people's own in the same format -> [`Agent`] (how it is started, what it needs of the network,
//! which of its variables hold secrets and where those go, what its permission modes are called) -> [`Catalog`].
//!
//! Invariants: a key that is not known is refused; a file of somebody's own takes no name, and no command, of a shipped one; a mode that
//! a document does not name is refused, never guessed. Not here: reading files, starting anything, what a preset allows (`rules`).

mod asks;
mod catalog;
mod document;
mod mode;

pub use asks::asks_a_model;
pub use catalog::{Catalog, Taken};
pub use document::{Agent, BadAgent, Bound, Seed};
pub use mode::{How, Mode, Requests, UnknownMode};
