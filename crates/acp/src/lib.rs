//! Turns what an agent says over ACP into updates, in order, and what is wanted of it into requests: the daemon's side of the
//! Agent Client Protocol, version 1 (JSON-RPC 2.0, one document a line).
//!
//! Flow: bytes -> records (`lines`, `depth`) -> messages (`message`) -> [`Update`]s, which [`Heard`] yields; what [`Agent`] says goes
//! through a queue (`outbox`), and its answers come back to whoever asked (`link`).
//!
//! Invariants, whatever the agent does:
//! * every wait has a deadline, every buffer, queue and map a bound ([`Limits`]); an agent that floods waits in its own pipe, and
//!   what it sends for nothing is read slowly;
//! * a record that is corrupt, too long or unknown becomes [`Update::Odd`] at its place in the order and changes nothing else;
//!   what is nested too deep is cut, with a mark;
//! * a question of the agent is answered exactly once: by whoever holds it, or `cancelled` when it is dropped or its turn stopped;
//! * when the stream ends, whoever waits is told [`AcpError::Gone`]. Dropping [`Heard`] ends the reading, dropping the last
//!   [`Agent`] as well ends the writing.
//!
//! Somebody must take from [`Heard`] while an [`Agent`] is waited for: what is not taken holds up what stands behind it.
//!
//! Not here: starting agents (whoever has the two streams), files and terminals for them (those are served inside the
//! sandbox), redaction, what may be allowed.

#![forbid(unsafe_code)]

mod agent;
mod call;
mod depth;
mod error;
mod fields;
mod heard;
mod limits;
mod lines;
mod link;
mod message;
mod offered;
mod outbox;
mod question;
mod reading;
mod update;

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

pub use agent::{Agent, McpServer, Stop, Stopped};
pub use call::{Call, CallChange, Content, Kind, Location, Status};
pub use error::AcpError;
pub use heard::Heard;
pub use limits::Limits;
pub use offered::{Abilities, AgentSession, BadSession, Mode, Model, Opened, Setting, SettingValue, SignIn};
pub use question::{Choice, ChoiceKind, Question};
pub use update::{Command, Cost, Priority, Step, Update, Usage};

/// Begins to listen to an agent. Must be called where a runtime of tokio is.
pub fn connect<W, R>(to: W, from: R, limits: Limits) -> (Agent, Heard)
where
    W: AsyncWrite + Unpin + Send + 'static,
    R: AsyncRead + Unpin + Send + 'static,
{
    let outbox = Arc::new(outbox::Outbox::default());
    let writer = tokio::spawn(outbox::write(to, Arc::clone(&outbox)));
    let link = Arc::new(link::Link::new(outbox, writer.abort_handle(), limits));
    let heard = Heard::listen(from, Arc::clone(&link), limits);
    (Agent::new(link), heard)
}
