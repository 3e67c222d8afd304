//! The eight permission modes, and what each is for one agent.
//!
//! Invariant: text that is not exactly one of the words is no mode.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// How much an agent does before it asks. None of them changes what its sandbox allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub enum Mode {
    /// As the agent does by itself: it asks before it changes or starts anything.
    #[serde(rename = "default")]
    Default,
    /// It changes files without asking, and asks before it starts anything.
    #[serde(rename = "acceptEdits")]
    AcceptEdits,
    /// It asks nothing.
    #[serde(rename = "bypassPermissions")]
    BypassPermissions,
    /// It looks and says what it would do, and changes nothing.
    #[serde(rename = "plan")]
    Plan,
    /// It asks before everything that is more than reading.
    #[serde(rename = "ask")]
    Ask,
    /// It asks when it thinks that it should.
    #[serde(rename = "auto")]
    Auto,
    /// It tries, and asks when that failed.
    #[serde(rename = "on-failure")]
    OnFailure,
    /// Whatever it asks is allowed.
    #[serde(rename = "allow-all")]
    AllowAll,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 8] = [
        Self::Default,
        Self::AcceptEdits,
        Self::BypassPermissions,
        Self::Plan,
        Self::Ask,
        Self::Auto,
        Self::OnFailure,
        Self::AllowAll,
    ];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::BypassPermissions => "bypassPermissions",
            Self::Plan => "plan",
            Self::Ask => "ask",
            Self::Auto => "auto",
            Self::OnFailure => "on-failure",
            Self::AllowAll => "allow-all",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// Not a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no permission mode; there are default, acceptEdits, bypassPermissions, plan, ask, auto, on-failure, allow-all"
)]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        let found = Self::ALL.into_iter().find(|mode| mode.word() == text);
        found.ok_or_else(|| UnknownMode(text.chars().take(40).collect()))
    }
}

/// What becomes of a permission that an agent asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Requests {
    /// A person is asked.
    Ask,
    /// It is given.
    Allow,
    /// It is refused.
    Refuse,
}

/// What a mode is for one agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct How {
    /// What the agent calls its own mode, for ACP `session/set_mode`; none where it stays in the one that it begins with.
    #[serde(default)]
    pub id: Option<String>,
    /// What is added to the command.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// What becomes of what it asks for.
    pub requests: Requests,
    /// Variables that must be set when it is started.
    #[serde(default)]
    pub environment: std::collections::BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ses_16_what_is_not_exactly_a_mode_is_none() {
        for mode in Mode::ALL {
            assert_eq!(mode.word().parse(), Ok(mode));
        }
        for text in ["", "Default", "accept-edits", "yolo", "bypassPermissions ", "allow_all", "on_failure"] {
            assert_eq!(text.parse::<Mode>(), Err(UnknownMode(text.into())));
        }
    }
}
