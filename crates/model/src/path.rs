//! Paths as a Grant names them: absolute, in one normal form, standing for themselves and all below.

use std::fmt;
use std::str::FromStr;

use crate::grant::{Access, Pattern};

/// Text that cannot be a path right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `ro:/absolute/path` or `rw:/absolute/path` without `.`, `..`, `//` or control characters")]
pub struct BadPath;

/// A right to read, or to read and write, a path and everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GrantPath {
    /// Without a trailing slash; the root is the empty string.
    below: String,
    access: Access,
}

impl GrantPath {
    /// The path, which begins with `/`.
    #[must_use]
    pub fn path(&self) -> &str {
        if self.below.is_empty() { "/" } else { &self.below }
    }

    fn spans(&self, other: &Self) -> bool {
        let rest = other.below.strip_prefix(self.below.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl Pattern for GrantPath {
    fn meet(&self, other: &Self) -> Option<Self> {
        let access = self.access.min(other.access);
        let below = match (self.spans(other), other.spans(self)) {
            (true, _) => &other.below,
            (_, true) => &self.below,
            _ => return None,
        };
        Some(Self { below: below.clone(), access })
    }

    fn covers(&self, other: &Self) -> bool {
        self.spans(other) && other.access <= self.access
    }

    /// Whoever may not touch a path may not read it either.
    fn denying(self) -> Self {
        Self { access: Access::Write, ..self }
    }
}

impl fmt::Display for GrantPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.access.word(), self.path())
    }
}

impl FromStr for GrantPath {
    type Err = BadPath;
    fn from_str(text: &str) -> Result<Self, BadPath> {
        let (word, path) = text.split_once(':').ok_or(BadPath)?;
        let access = Access::from_word(word).ok_or(BadPath)?;
        let tail = path.strip_prefix('/').ok_or(BadPath)?;
        if path.len() > 4_096 || path.chars().any(char::is_control) {
            return Err(BadPath);
        }
        if tail.is_empty() {
            return Ok(Self { below: String::new(), access });
        }
        if tail.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(BadPath);
        }
        Ok(Self { below: path.to_owned(), access })
    }
}
