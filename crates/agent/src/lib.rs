//! The built-in agent: turns prompts that come over ACP into work in one directory, by asking a model and using tools.
//!
//! Flow: a line on standard input -> [`acp`] (a request) -> [`session`] (a prompt) -> [`turn`] (model, tools, model, …) ->
//! lines on standard output.
//!
//! Invariants:
//! * every tool has a class, and the level of autonomy decides by it alone: refused, asked, or done;
//! * what is shown to whoever decides is made before the question and carried out as it is, or not at all;
//! * what a tool found goes to the model with a label that it cannot forge, and without secrets;
//! * nothing that a model, a page or a program sends is kept without a bound;
//! * a sub-agent has what its parent has, or less.
//!
//! It runs inside a sandbox, which is the boundary: what is refused here spares people surprises and is no wall.
//!
//! [`beside`] is another thing that the same program does: it stands between another agent and its client, and serves that agent's
//! files and terminals inside the sandbox.
//!
//! Not here: the sandbox, what may leave it, where sessions of a daemon are kept.

mod acp;
mod autonomy;
mod beside;
mod cancel;
mod config;
mod document;
mod guard;
mod history;
mod limits;
mod prices;
mod provider;
mod purse;
mod session;
mod tools;
mod turn;

pub use acp::serve;
pub use autonomy::{Autonomy, Class, Verdict};
pub use beside::beside;
pub use config::{BadConfig, Config};
pub use tools::{Tool, minder, registry};
