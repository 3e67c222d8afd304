//! Live events.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that happened and that the caller may know of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its place in the stream; a client resumes after the last one it saw.
    pub seq: i64,
    /// Milliseconds since the epoch.
    pub at: i64,
    /// What it was, like `worktree.created`. Newer servers may send words that are not known here.
    pub kind: String,
    /// The worktree it belongs to.
    pub worktree: Option<String>,
    /// The user it is about.
    pub user: Option<String>,
    /// The session it is about.
    #[serde(default)]
    pub session: Option<String>,
}

/// A ticket for one socket.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Ticket {
    /// Sent as a second protocol, `Sec-WebSocket-Protocol: palisade.v1, ticket.<ticket>`; single use.
    pub ticket: crate::Hidden,
    /// How long it lasts, in milliseconds.
    pub lasts_ms: i64,
}
