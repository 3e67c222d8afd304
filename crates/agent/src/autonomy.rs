//! How much the agent may do without asking, by the class of each tool.

use std::str::FromStr;

/// A level, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Autonomy {
    /// Only looks.
    ReadOnly,
    /// Asks before it writes, runs or fetches anything.
    Supervised,
    /// Asks nobody; the sandbox holds.
    Full,
}

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Looks at files.
    Read,
    /// Changes files.
    Write,
    /// Starts programs, which may do anything that the sandbox lets them.
    Execute,
    /// Sends something out.
    Network,
    /// Touches nothing but the agent itself: its plan, a sub-agent whose own tools are judged one by one.
    Inner,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is done.
    Allow,
    /// Somebody is asked first.
    Ask,
    /// It is not done.
    Refuse,
}

impl Autonomy {
    /// All of them, from least to most.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::Supervised, Self::Full];

    /// Its one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Supervised => "supervised",
            Self::Full => "full",
        }
    }

    /// What it means, for people.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::ReadOnly => "looks at files and changes nothing",
            Self::Supervised => "asks before it writes, runs or fetches anything",
            Self::Full => "asks nobody; the sandbox is the limit",
        }
    }

    /// What becomes of a call of that class.
    #[must_use]
    pub const fn judge(self, class: Class) -> Verdict {
        match (self, class) {
            (_, Class::Read | Class::Inner)
            | (Self::Full, Class::Write | Class::Execute | Class::Network) => Verdict::Allow,
            (Self::Supervised, Class::Write | Class::Execute | Class::Network) => Verdict::Ask,
            (Self::ReadOnly, Class::Write | Class::Execute | Class::Network) => Verdict::Refuse,
        }
    }
}

impl Class {
    /// Its one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
            Self::Network => "network",
            Self::Inner => "inner",
        }
    }
}

impl Verdict {
    /// Its one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Refuse => "refuse",
        }
    }
}

impl FromStr for Autonomy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|level| level.word() == text);
        found.ok_or_else(|| format!("there is no level `{text}`; use `read_only`, `supervised` or `full`"))
    }
}
