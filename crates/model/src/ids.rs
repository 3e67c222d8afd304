//! Identifiers: a prefix that names the kind, and a random UUID.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// Position of an [`crate::Event`] in the one stream of events.
pub type EventSeq = i64;

/// Text that is not an id of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an id like `{expected}`")]
pub struct BadId {
    expected: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// A new random id.
            #[must_use]
            pub fn random() -> Self {
                Self(Uuid::new_v4())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), self.0.simple())
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                // Exactly one spelling per id: 32 lower-case hex digits.
                let hex = text.strip_prefix(concat!($prefix, "_"));
                let hex = hex.filter(|h| h.len() == 32 && !h.bytes().any(|b| b.is_ascii_uppercase()));
                let id = hex.and_then(|h| Uuid::try_parse(h).ok());
                id.map(Self).ok_or(BadId { expected: concat!($prefix, "_<32 hex digits>") })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// Names one user.
    UserId, "usr");
id!(
    /// Names one API key of a user.
    KeyId, "key");
id!(
    /// Names one Pass.
    PassId, "pas");
id!(
    /// Names one repository.
    RepoId, "rep");
id!(
    /// Names one worktree.
    WorktreeId, "wt");
id!(
    /// Names one session.
    SessionId, "ses");
id!(
    /// Names one task of a session.
    TaskId, "tsk");
id!(
    /// Names one held effect that waits for a person.
    ApprovalId, "apr");
id!(
    /// Names one consent that holds for more than one question.
    ConsentId, "con");
id!(
    /// Names one secret in the vault.
    SecretId, "sec");
id!(
    /// Names one request that came in; shown with every error.
    RequestId, "req");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        let id = WorktreeId::random();
        let text = id.to_string();
        assert_eq!(text.parse(), Ok(id));
        for bad in [
            text.to_uppercase(),
            text.replace("wt_", "usr_"),
            format!("{text}0"),
            format!(" {text}"),
            "wt_".into(),
            String::new(),
            format!("wt_{}", uuid::Uuid::new_v4().hyphenated()),
        ] {
            assert!(bad.parse::<WorktreeId>().is_err(), "{bad}");
        }
    }
}
