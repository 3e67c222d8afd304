//! What people register for workers: which kinds there are, how a version is named for good, and how one is referred to.

use std::fmt;
use std::str::FromStr;

use crate::{ArtifactName, BadName};

/// A kind of artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ArtifactKind {
    /// Files, and what an agent needs to use them.
    Capability,
    /// What a worker is: its prompt, agent, capabilities and bounds.
    Subagent,
    /// Values and references to secrets.
    Env,
}

/// Text that names no kind of artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `capability`, `subagent` or `env`")]
pub struct BadKind;

impl ArtifactKind {
    /// Every kind, in the order in which they build on each other.
    pub const EVERY: &'static [Self] = &[Self::Capability, Self::Env, Self::Subagent];

    /// The one word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Capability => "capability",
            Self::Subagent => "subagent",
            Self::Env => "env",
        }
    }
}

impl fmt::Display for ArtifactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for ArtifactKind {
    type Err = BadKind;
    fn from_str(text: &str) -> Result<Self, BadKind> {
        Self::EVERY.iter().copied().find(|kind| kind.word() == text).ok_or(BadKind)
    }
}

/// Names content for good, as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentHash([u8; 32]);

const HASH: &str = "sha256:";

/// Text that is no content hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `sha256:` and 64 digits of 0-9 and a-f")]
pub struct BadHash;

impl ContentHash {
    /// From a digest.
    #[must_use]
    pub const fn new(digest: [u8; 32]) -> Self {
        Self(digest)
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HASH)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ContentHash {
    type Err = BadHash;
    fn from_str(text: &str) -> Result<Self, BadHash> {
        let digits = text.strip_prefix(HASH).filter(|digits| digits.len() == 64).ok_or(BadHash)?;
        let digit = |one: u8| match one {
            b'0'..=b'9' => Ok(one - b'0'),
            b'a'..=b'f' => Ok(one - b'a' + 10),
            _ => Err(BadHash),
        };
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let &[high, low] = pair else { return Err(BadHash) };
            *byte = (digit(high)? << 4) | digit(low)?;
        }
        Ok(Self(digest))
    }
}

/// How an artifact is referred to: by a name, which moves, or by a hash, which stays.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reference {
    /// Whatever version the name stands for now.
    Name(ArtifactName),
    /// One version.
    Pinned(ContentHash),
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Pinned(hash) => hash.fmt(f),
        }
    }
}

impl FromStr for Reference {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        text.parse().map(Self::Pinned).or_else(|_| text.parse().map(Self::Name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reg_05_a_reference_is_a_name_or_a_hash_and_is_written_as_it_is_read() {
        let hash = format!("sha256:{}", "0af".repeat(22).get(..64).unwrap());
        for good in ["lint", "a-1", hash.as_str()] {
            assert_eq!(good.parse::<Reference>().unwrap().to_string(), good);
        }
        assert!(matches!(hash.parse(), Ok(Reference::Pinned(_))));
        let (short, upper, other) = (&hash[..70], hash.to_uppercase(), hash.replace("sha256", "md5"));
        for bad in ["", "A", "-a", "a/b", short, &upper, &other, &format!("{hash}0")] {
            assert!(bad.parse::<Reference>().is_err(), "{bad}");
        }
    }
}
