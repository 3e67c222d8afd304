//! Authority as a set with a meet.
//!
//! A [`Grant`] says which paths, hosts, tools and secrets may be used, within which budget and how far
//! it may be handed on. Invariant: `a.meet(b)` is never wider than `a` or `b`, is the same whichever way
//! round it is taken, and nothing met with anything is nothing. "Everything" is always written out.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{GrantPath, HostPattern};

/// What may be done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// Read only.
    Read,
    /// Read and write.
    Write,
}

impl Access {
    /// `ro` or `rw`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "ro",
            Self::Write => "rw",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Self::Read, Self::Write].into_iter().find(|access| access.word() == word)
    }
}

/// A pattern that stands for a set, closed under intersection.
pub trait Pattern: Clone + Ord {
    /// The intersection, or nothing.
    fn meet(&self, other: &Self) -> Option<Self>;
    /// Whether every member of `other` is a member of this.
    fn covers(&self, other: &Self) -> bool;
    /// This pattern as it denies.
    #[must_use]
    fn denying(self) -> Self {
        self
    }
}

/// A name, or all names that begin so: `git.read`, `git.*`, `*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Patterns {
    stem: String,
    open: bool,
}

impl Pattern for Patterns {
    fn meet(&self, other: &Self) -> Option<Self> {
        match (self.covers(other), other.covers(self)) {
            (true, _) => Some(other.clone()),
            (_, true) => Some(self.clone()),
            _ => None,
        }
    }

    fn covers(&self, other: &Self) -> bool {
        if self.open { other.stem.starts_with(&self.stem) } else { self == other }
    }
}

impl Display for Patterns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.stem, if self.open { "*" } else { "" })
    }
}

impl FromStr for Patterns {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (stem, open) = text.strip_suffix('*').map_or((text, false), |stem| (stem, true));
        let fits = (open || !stem.is_empty())
            && stem.len() <= 128
            && stem.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/:".contains(&b));
        if fits { Ok(Self { stem: stem.to_owned(), open }) } else { Err("expected a name, `prefix*` or `*`") }
    }
}

/// What is allowed less what is denied. Deny beats allow; an empty allow list allows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights<P: Pattern> {
    allow: BTreeSet<P>,
    deny: BTreeSet<P>,
}

impl<P: Pattern> Rights<P> {
    /// Allows nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self { allow: BTreeSet::new(), deny: BTreeSet::new() }
    }

    /// Rights in normal form.
    pub fn new(allow: impl IntoIterator<Item = P>, deny: impl IntoIterator<Item = P>) -> Self {
        let allow = widest(allow.into_iter().collect());
        let deny = if allow.is_empty() {
            BTreeSet::new()
        } else {
            widest(deny.into_iter().map(P::denying).collect())
        };
        Self { allow, deny }
    }

    /// What is allowed, before what is denied is taken off.
    pub fn allowed(&self) -> impl Iterator<Item = &P> {
        self.allow.iter()
    }

    /// What is denied of it.
    pub fn denied(&self) -> impl Iterator<Item = &P> {
        self.deny.iter()
    }

    /// Whether this one thing is allowed.
    #[must_use]
    pub fn allows(&self, one: &P) -> bool {
        self.allow.iter().any(|allow| allow.covers(one)) && !self.deny.iter().any(|deny| deny.covers(one))
    }

    /// What both allow.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        let allow =
            self.allow.iter().flat_map(|mine| other.allow.iter().filter_map(|yours| mine.meet(yours)));
        Self::new(allow, self.deny.iter().chain(&other.deny).cloned())
    }

    /// Whether `other` is certainly no wider than this.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        let allowed = other.allow.iter().all(|yours| self.allow.iter().any(|mine| mine.covers(yours)));
        let kept_out = self.deny.iter().all(|deny| {
            let reached = other.allow.iter().filter_map(|allow| allow.meet(deny));
            reached.into_iter().all(|part| other.deny.iter().any(|other| other.covers(&part)))
        });
        allowed && kept_out
    }
}

/// Drops every pattern that another one covers.
fn widest<P: Pattern>(all: BTreeSet<P>) -> BTreeSet<P> {
    let kept = all.iter().filter(|one| !all.iter().any(|other| other != *one && other.covers(one)));
    kept.cloned().collect()
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRights {
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deny: Vec<String>,
}

impl<P: Pattern + Display> Serialize for Rights<P> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let text = |set: &BTreeSet<P>| set.iter().map(ToString::to_string).collect();
        RawRights { allow: text(&self.allow), deny: text(&self.deny) }.serialize(to)
    }
}

impl<'de, P: Pattern + FromStr<Err: Display>> Deserialize<'de> for Rights<P> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = RawRights::deserialize(from)?;
        let parse = |texts: Vec<String>| {
            let parsed: Result<Vec<P>, _> = texts.iter().map(|text| text.parse::<P>()).collect();
            parsed.map_err(serde::de::Error::custom)
        };
        Ok(Self::new(parse(raw.allow)?, parse(raw.deny)?))
    }
}

/// How much may be used. Absent is zero; without bound is [`Budget::UNBOUNDED`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Model tokens.
    pub tokens: u64,
    /// Money, in millionths of a US dollar.
    pub micro_usd: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Bytes sent out.
    pub egress_bytes: u64,
    /// Wall time in milliseconds.
    pub wall_ms: u64,
}

impl Budget {
    /// No bound on anything.
    pub const UNBOUNDED: Self = Self {
        tokens: u64::MAX,
        micro_usd: u64::MAX,
        tool_calls: u64::MAX,
        egress_bytes: u64::MAX,
        wall_ms: u64::MAX,
    };

    fn each(&self) -> [u64; 5] {
        [self.tokens, self.micro_usd, self.tool_calls, self.egress_bytes, self.wall_ms]
    }

    /// The smaller of both, for each.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        Self {
            tokens: self.tokens.min(other.tokens),
            micro_usd: self.micro_usd.min(other.micro_usd),
            tool_calls: self.tool_calls.min(other.tool_calls),
            egress_bytes: self.egress_bytes.min(other.egress_bytes),
            wall_ms: self.wall_ms.min(other.wall_ms),
        }
    }

    /// Whether `other` asks for no more of anything.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.each().iter().zip(other.each()).all(|(mine, yours)| yours <= *mine)
    }
}

/// An authority set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Files and directories.
    #[serde(default = "Rights::nothing")]
    pub paths: Rights<GrantPath>,
    /// Hosts that may be reached.
    #[serde(default = "Rights::nothing")]
    pub hosts: Rights<HostPattern>,
    /// Tools that may be called.
    #[serde(default = "Rights::nothing")]
    pub tools: Rights<Patterns>,
    /// Secrets that may be used (never read).
    #[serde(default = "Rights::nothing")]
    pub secrets: Rights<Patterns>,
    /// How much of it.
    #[serde(default)]
    pub budget: Budget,
    /// How many times it may be handed on.
    #[serde(default)]
    pub depth: u8,
}

impl Grant {
    /// No authority at all.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            paths: Rights::nothing(),
            hosts: Rights::nothing(),
            tools: Rights::nothing(),
            secrets: Rights::nothing(),
            budget: Budget::default(),
            depth: 0,
        }
    }

    /// All authority: the top that people with full rights start from.
    #[must_use]
    pub fn everything() -> Self {
        fn all<P: Pattern + FromStr>(text: &str) -> Rights<P> {
            Rights::new(text.parse::<P>().ok(), None)
        }
        Self {
            paths: all("rw:/"),
            hosts: all("**"),
            tools: all("*"),
            secrets: all("*"),
            budget: Budget::UNBOUNDED,
            depth: u8::MAX,
        }
    }

    /// What both allow: the only way one authority is made from another.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        Self {
            paths: self.paths.meet(&other.paths),
            hosts: self.hosts.meet(&other.hosts),
            tools: self.tools.meet(&other.tools),
            secrets: self.secrets.meet(&other.secrets),
            budget: self.budget.meet(&other.budget),
            depth: self.depth.min(other.depth),
        }
    }

    /// Whether `other` is certainly no wider than this.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.paths.contains(&other.paths)
            && self.hosts.contains(&other.hosts)
            && self.tools.contains(&other.tools)
            && self.secrets.contains(&other.secrets)
            && self.budget.contains(&other.budget)
            && other.depth <= self.depth
    }

    /// What a child gets that asks for `requested`: one step less to hand on, and never more than this.
    #[must_use]
    pub fn child(&self, requested: &Self) -> Option<Self> {
        let left = self.depth.checked_sub(1)?;
        let met = self.meet(requested);
        Some(Self { depth: met.depth.min(left), ..met })
    }
}
