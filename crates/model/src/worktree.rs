//! What becomes of a worktree's files when it is finished, and what it belongs to elsewhere.

use std::fmt;
use std::str::FromStr;

use crate::role::{BadWord, words};

/// What becomes of the files of a worktree that is archived or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeFiles {
    /// They stay as they are.
    Kept,
    /// What is in no commit of its branch goes.
    Cleaned,
    /// All of them go.
    Removed,
}

words!(TreeFiles, "kept, cleaned, removed", Kept = "kept", Cleaned = "cleaned", Removed = "removed");

/// The longest link.
const MOST: usize = 1_000;

/// Text that is no link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `https://host/…` or `http://host/…` without user and password, at most 1,000 characters")]
pub struct BadLink;

/// An address of a page, as people open it: http or https, and nobody's credential in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Link(String);

impl Link {
    /// The text of it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Link {
    type Err = BadLink;
    fn from_str(text: &str) -> Result<Self, BadLink> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or(BadLink)?;
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host_fits = host.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
            && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:".contains(&b));
        let fits =
            text.len() <= MOST && text.bytes().all(|b| b.is_ascii_graphic() && !b"\"'<>\\^`{|}".contains(&b));
        if host_fits && fits { Ok(Self(text.to_owned())) } else { Err(BadLink) }
    }
}

/// What a worktree belongs to elsewhere. What is given changes; what is given as nothing goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// The issue that it is about.
    pub issue: Option<Option<Link>>,
    /// The pull request that came of it.
    pub pull_request: Option<Option<Link>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wt_15_a_link_is_a_page_and_holds_no_credential() {
        for good in ["https://forge.example/a/b/issues/1", "http://10.0.0.1:8080/x?y=1#z", "https://x.y"] {
            assert_eq!(good.parse::<Link>().unwrap().as_str(), good);
        }
        let long = format!("https://x/{}", "y".repeat(1_000));
        for bad in [
            "",
            "javascript:alert(1)",
            "JAVASCRIPT://x/",
            "file:///etc/passwd",
            "ftp://x/y",
            "https://",
            "https:///x",
            "https://u:p@x/y",
            "https://token@x/y",
            "https://x/ y",
            "https://x/\u{1b}[2J",
            "https://x/\"onload=",
            "https://-x/",
            " https://x/",
            "data:text/html,x",
            "HTTPS://x/",
            long.as_str(),
        ] {
            assert_eq!(bad.parse::<Link>(), Err(BadLink), "{bad}");
        }
    }
}
