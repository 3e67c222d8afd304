//! Names: of items, locks, queues, runs, dispatches; hashes; who acts.
//!
//! Invariant: a name has one spelling, of characters that nobody confuses: ASCII letters, digits and a few signs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A text that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct BadName(&'static str);

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $fits:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// What it looks like, for messages.
            pub const EXPECTED: &'static str = $expected;

            /// As text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            pub(crate) fn parse(text: &str) -> Option<Self> {
                let fits: fn(&str) -> bool = $fits;
                fits(text).then(|| Self(text.to_owned()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;
            fn try_from(text: String) -> Result<Self, BadName> {
                Self::parse(&text).ok_or(BadName($expected))
            }
        }

        impl FromStr for $name {
            type Err = BadName;
            fn from_str(text: &str) -> Result<Self, BadName> {
                Self::parse(text).ok_or(BadName($expected))
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }
    };
}

fn spelled(text: &str, most: usize, signs: &[u8]) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || signs.contains(&byte);
    (1..=most).contains(&text.len())
        && text.bytes().all(fits)
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

/// What an item of a document may be called.
pub(crate) fn is_id(text: &str) -> bool {
    spelled(text, 64, b"._-")
}

pub(crate) const ID: &str =
    "an id: 1 to 64 letters, digits, `.`, `_` or `-`, all of ASCII, a letter or digit first";

name!(
    /// Names an item of a run. One that a pattern made has its group's name before it, and a `/`.
    ItemId,
    |text| match text.split_once('/') {
        None => is_id(text),
        Some((group, member)) => is_id(group) && is_id(member),
    },
    "an item: an id, or an id, `/` and the id of a part of it"
);

name!(
    /// Names something that one item at a time may use, in all runs.
    LockName,
    |text| spelled(text, 128, b"._:/@-"),
    "a lock: 1 to 128 letters, digits, `.`, `_`, `:`, `/`, `@` or `-`, all of ASCII, a letter or digit first"
);

name!(
    /// Names a queue: items of one queue share what it lets run at the same time.
    QueueName,
    is_id,
    "a queue: 1 to 64 letters, digits, `.`, `_` or `-`, all of ASCII, a letter or digit first"
);

name!(
    /// Names a schedule.
    ScheduleId,
    is_id,
    "a schedule: 1 to 64 letters, digits, `.`, `_` or `-`, all of ASCII, a letter or digit first"
);

name!(
    /// Names one run of a plan, as `plr_<32 hex digits>`.
    RunId,
    |text| text.strip_prefix("plr_").is_some_and(|rest| rest.len() == 32 && is_hex(rest)),
    "a run: `plr_` and 32 lower-case hex digits"
);

pub(crate) fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

impl ItemId {
    pub(crate) fn member(group: &Self, member: &str) -> Self {
        Self(format!("{}/{member}", group.0))
    }
}

impl Default for QueueName {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl RunId {
    /// The run of these 16 bytes: random ones, or derived.
    #[must_use]
    pub fn of(bytes: [u8; 16]) -> Self {
        Self(format!("plr_{}", hex::encode(bytes)))
    }

    /// The run of one slot of a schedule: whoever starts it, however often, it is this one.
    #[must_use]
    pub fn of_slot(schedule: &ScheduleId, slot: i64) -> Self {
        Self::of(first_16(&Hash::of(
            "palisade/plan/slot/1",
            &[schedule.as_str().as_bytes(), &slot.to_be_bytes()],
        )))
    }
}

fn first_16(hash: &Hash) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash.0).for_each(|(to, from)| *to = from);
    bytes
}

/// SHA-256 of something, written `sha256:<64 hex digits>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash([u8; 32]);

impl Hash {
    pub(crate) const EXPECTED: &'static str = "a hash: `sha256:` and 64 lower-case hex digits";

    /// The hash of parts, for one purpose: no two lists of parts are hashed alike.
    #[must_use]
    pub fn of(purpose: &str, parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in std::iter::once(&purpose.as_bytes()).chain(parts) {
            hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// The hash of these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix("sha256:").unwrap_or(text);
        let mut bytes = [0; 32];
        let fits = text.len() == 64 && is_hex(text);
        (fits && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(Self(bytes))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "sha256:{}", hex::encode(self.0))
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for Hash {
    type Error = BadName;
    fn try_from(text: String) -> Result<Self, BadName> {
        Self::parse(&text).ok_or(BadName(Self::EXPECTED))
    }
}

impl FromStr for Hash {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        Self::parse(text).ok_or(BadName(Self::EXPECTED))
    }
}

/// Names one dispatch of an item: the same run, item and attempt always give the same, so that a second start is seen for
/// what it is. It has the form of a UUID of version 4, as every id of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DispatchId(uuid::Uuid);

impl DispatchId {
    /// The dispatch of one start of an item: `turn` counts the starts within an attempt, of which all but the first follow
    /// an answer.
    #[must_use]
    pub fn of(run: &RunId, item: &ItemId, attempt: u32, turn: u32) -> Self {
        let (attempt, turn) = (attempt.to_be_bytes(), turn.to_be_bytes());
        let parts: [&[u8]; 4] = [run.as_str().as_bytes(), item.as_str().as_bytes(), &attempt, &turn];
        let hash = Hash::of("palisade/plan/dispatch/1", &parts);
        Self(uuid::Builder::from_random_bytes(first_16(&hash)).into_uuid())
    }

    /// As a UUID.
    #[must_use]
    pub fn uuid(&self) -> uuid::Uuid {
        self.0
    }
}

impl fmt::Display for DispatchId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Who does something to a run. Whoever makes this value has authenticated them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Actor {
    /// The principal.
    pub id: String,
    /// Whether it is a person, and not a program that acts for one.
    pub is_person: bool,
}

impl Actor {
    /// A person.
    #[must_use]
    pub fn person(id: impl Into<String>) -> Self {
        Self { id: id.into(), is_person: true }
    }

    /// An agent, a schedule, or another program.
    #[must_use]
    pub fn program(id: impl Into<String>) -> Self {
        Self { id: id.into(), is_person: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_spelling_of_plain_characters() {
        for good in ["a", "A1", "a.b-c_d", &"a".repeat(64), "ship/gate", "a/b-0001"] {
            assert!(ItemId::parse(good).is_some(), "{good}");
        }
        // The second `а` is Cyrillic; the others are invisible, too long, or no names.
        for bad in ["", "а", "a\u{200b}", "-a", ".a", "a b", "a/", "/a", "a/b/c", "a\n", &"a".repeat(65), "é"]
        {
            assert!(ItemId::parse(bad).is_none(), "{bad:?}");
        }
        assert!(LockName::parse("repo:acme/site@main").is_some());
        assert!(RunId::parse("plr_0123").is_none());
        assert_eq!(RunId::of([1; 16]).as_str().parse(), Ok(RunId::of([1; 16])));
    }

    #[test]
    fn ids_that_are_derived_differ_in_every_part() {
        let (run, item) = (RunId::of([1; 16]), ItemId::parse("a").unwrap());
        let id = DispatchId::of(&run, &item, 1, 0);
        assert_eq!(id, DispatchId::of(&run, &item, 1, 0));
        assert_eq!((id.uuid().get_version_num(), id.uuid().get_variant()), (4, uuid::Variant::RFC4122));
        assert_ne!(id, DispatchId::of(&run, &item, 2, 0));
        assert_ne!(id, DispatchId::of(&run, &item, 1, 1));
        assert_ne!(id, DispatchId::of(&RunId::of([2; 16]), &item, 1, 0));
        assert_ne!(Hash::of("p", &[b"ab", b"c"]), Hash::of("p", &[b"a", b"bc"]));
        let (one, two) = (ScheduleId::parse("one").unwrap(), ScheduleId::parse("two").unwrap());
        assert_ne!(RunId::of_slot(&one, 5), RunId::of_slot(&two, 5));
        assert_ne!(RunId::of_slot(&one, 5), RunId::of_slot(&one, 6));
    }
}
