//! What happened, in order: the one stream that live clients follow.

use serde::{Deserialize, Serialize};

use crate::{EventSeq, Millis, SessionId, UserId, WorktreeId};

/// One thing that happened, at one place in the stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Position in the stream; never reused.
    pub seq: EventSeq,
    /// When it was committed.
    pub at: Millis,
    /// What it was.
    pub kind: EventKind,
    /// The worktree it belongs to; who may read that may read this.
    pub worktree: Option<WorktreeId>,
    /// The user it is about, where there is no worktree; that user and admins may read it.
    pub user: Option<UserId>,
    /// The session it is about, in that worktree.
    pub session: Option<SessionId>,
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EventKind {
    /// A worktree was created.
    #[serde(rename = "worktree.created")]
    WorktreeCreated,
    /// A worktree's description, tier or owners changed.
    #[serde(rename = "worktree.changed")]
    WorktreeChanged,
    /// A worktree was archived.
    #[serde(rename = "worktree.archived")]
    WorktreeArchived,
    /// A worktree was deleted.
    #[serde(rename = "worktree.deleted")]
    WorktreeDeleted,
    /// A session was opened.
    #[serde(rename = "session.created")]
    SessionCreated,
    /// A session's queue, state or title changed.
    #[serde(rename = "session.changed")]
    SessionChanged,
    /// An effect waits for a person.
    #[serde(rename = "approval.opened")]
    ApprovalOpened,
    /// One was allowed or denied, or nobody waits for it any more.
    #[serde(rename = "approval.decided")]
    ApprovalDecided,
    /// A connection or request of a session was refused, or its proxy is in trouble.
    #[serde(rename = "network.refused")]
    NetworkRefused,
    /// Something happened in a session's network that must not.
    #[serde(rename = "network.found")]
    NetworkFound,
    /// A user was created.
    #[serde(rename = "user.created")]
    UserCreated,
    /// A user's name, role or state changed.
    #[serde(rename = "user.changed")]
    UserChanged,
    /// A user was deleted.
    #[serde(rename = "user.deleted")]
    UserDeleted,
}

impl EventKind {
    /// Every kind.
    pub const EVERY: &'static [Self] = &[
        Self::WorktreeCreated,
        Self::WorktreeChanged,
        Self::WorktreeArchived,
        Self::WorktreeDeleted,
        Self::SessionCreated,
        Self::SessionChanged,
        Self::ApprovalOpened,
        Self::ApprovalDecided,
        Self::NetworkRefused,
        Self::NetworkFound,
        Self::UserCreated,
        Self::UserChanged,
        Self::UserDeleted,
    ];

    /// The one word for this kind.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::WorktreeCreated => "worktree.created",
            Self::WorktreeChanged => "worktree.changed",
            Self::WorktreeArchived => "worktree.archived",
            Self::WorktreeDeleted => "worktree.deleted",
            Self::SessionCreated => "session.created",
            Self::SessionChanged => "session.changed",
            Self::ApprovalOpened => "approval.opened",
            Self::ApprovalDecided => "approval.decided",
            Self::NetworkRefused => "network.refused",
            Self::NetworkFound => "network.found",
            Self::UserCreated => "user.created",
            Self::UserChanged => "user.changed",
            Self::UserDeleted => "user.deleted",
        }
    }

    /// The kind with this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::EVERY.iter().copied().find(|kind| kind.word() == word)
    }
}
