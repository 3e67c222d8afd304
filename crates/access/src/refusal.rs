//! Why an act was refused: what the caller may know, and what the ledger knows.

/// The kind of refusal, as the caller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The thing does not exist, or the caller may not know that it does.
    Hidden,
    /// Known, but not allowed.
    Forbidden,
    /// The credential's scope is too narrow.
    Scope,
    /// The credential ended in the meantime.
    Ended,
    /// It needs a one-time password that came with the request.
    Totp,
    /// It cannot be recorded, decided or read now; nothing was started.
    Unavailable,
}

/// What is said of policies that somebody can do something about.
const TOLD: [(&str, &str); 2] = [
    (
        "sharing-is-off-in-the-daemon",
        "the session is somebody else's, and the daemon lets nobody prompt another's \
         (`sessions.dangerously_allow_session_sharing` is off); go on from it in one of your own: `palisade session fork`",
    ),
    (
        "sharing-is-off-in-the-worktree",
        "the session is somebody else's, and its worktree lets nobody prompt another's; an owner of it can change that \
         (`palisade worktree sharing`), or go on from it in one of your own: `palisade session fork`",
    ),
];

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denied {
    reason: Reason,
    message: String,
    /// Policies that caused it, where the caller may know the resource.
    policies: Vec<String>,
}

impl Denied {
    pub(crate) fn hidden() -> Self {
        Self { reason: Reason::Hidden, message: "not found".into(), policies: Vec::new() }
    }

    pub(crate) fn forbidden(policies: Vec<String>) -> Self {
        let told = policies.first().and_then(|first| TOLD.iter().find(|(policy, _)| policy == first));
        let message = match (told, policies.first()) {
            (Some((_, told)), _) => (*told).to_owned(),
            (None, Some(policy)) => format!("forbidden by policy `{policy}`; ask an administrator"),
            (None, None) => {
                "your role and tier do not allow this; ask an owner of it or an administrator".into()
            }
        };
        Self { reason: Reason::Forbidden, message, policies }
    }

    pub(crate) fn scope(needed: &str) -> Self {
        let message = format!("this credential is too narrow; it needs scope `{needed}`");
        Self { reason: Reason::Scope, message, policies: Vec::new() }
    }

    pub(crate) fn ended() -> Self {
        Self { reason: Reason::Ended, message: "sign in again".into(), policies: Vec::new() }
    }

    pub(crate) fn totp() -> Self {
        let message = "this needs a present one-time password: send it with the request (`--totp CODE`); turn \
                       one-time passwords on with `palisade account totp-on`";
        Self { reason: Reason::Totp, message: message.into(), policies: Vec::new() }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self { reason: Reason::Unavailable, message: message.into(), policies: Vec::new() }
    }

    /// The kind.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The policies that decided.
    #[must_use]
    pub fn policies(&self) -> &[String] {
        &self.policies
    }
}
