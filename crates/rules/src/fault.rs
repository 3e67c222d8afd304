//! What is wrong with a set of rules: everything at once.

use std::fmt;

use crate::name::BadHost;
use crate::path::Odd;

/// All faults of a set. The set is refused whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(pub(crate) Vec<Fault>);

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which rule, from 0, in the order as written; none if it is the document.
    pub rule: Option<usize>,
    /// The line where the rule or the fault begins, from 1, where known.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: What,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum What {
    /// Not TOML, or not of the shape of a rule.
    #[error("{0}")]
    Shape(String),
    /// A field that there is not.
    #[error("there is no field `{0}` in a rule")]
    Unknown(String),
    /// The host.
    #[error("host `{host}`: {why}")]
    Host {
        /// As written.
        host: String,
        /// What is odd.
        why: BadHost,
    },
    /// A star anywhere but in front.
    #[error("host `{0}`: a star stands for whole labels in front: `*.x.y` or `**.x.y`")]
    Star(String),
    /// A wildcard under which anybody can have a name.
    #[error("host `{0}`: anybody can have a name under this suffix; name the hosts")]
    PublicSuffix(String),
    /// The machine itself or its metadata.
    #[error("host `{0}` is never reached, whatever a rule says; remove the rule")]
    NeverHost(String),
    /// A private address as host without the same in `address`.
    #[error("host `{0}` is a private address: an administrator writes it as `address` too")]
    PrivateHost(String),
    /// An `address` that is never reached.
    #[error("address `{0}` is never reached, whatever a rule says")]
    NeverAddress(String),
    /// An `address` with a wildcard, a deny or another address as host.
    #[error("`address` goes with one exact name, and with no deny")]
    AddressFor,
    /// No ports, port 0, or one twice.
    #[error("`ports` needs at least one port, none of them 0 and none twice")]
    Ports,
    /// No methods, an odd one, or one twice.
    #[error("`methods` needs names in capitals, none twice; `CONNECT` and `TRACE` are never passed on")]
    Methods,
    /// No patterns, or one twice.
    #[error("`paths` needs at least one pattern, none twice")]
    Paths,
    /// A pattern of a path.
    #[error("path `{path}`: {why}")]
    Path {
        /// As written.
        path: String,
        /// What is odd.
        why: Odd,
    },
    /// A star within a segment, or two in the middle.
    #[error("`{0}`: `*` stands for one whole segment, `**` for the rest at the end")]
    Segment(String),
    /// Neither list of keys, an empty key, or one key in both.
    #[error("`query` needs keys in `allow` or `forbid`, none empty, twice or in both")]
    Query,
    /// Git without anything to do, or a push without repository or refs.
    #[error(
        "`git` needs `read = true` or a `push` with `repo = \"owner/name\"` and `refs` that begin with `refs/`"
    )]
    Git,
    /// What may be published is not to be judged, or is no package.
    #[error(
        "`publish` needs names of packages, and works for npm only: others do not say in the path what is published"
    )]
    Publish,
    /// Limits of answers that cannot be kept.
    #[error("`answer` has `bytes`, at least one, and `seconds`, from 1 to 60")]
    Answer,
    /// Messages that cannot be judged.
    #[error(
        "`messages` needs `websocket = true`, and in `out` or `back` tables of keys, each with at least one text"
    )]
    Messages,
    /// Two fields that contradict each other.
    #[error("`{0}` and `{1}` do not go together in one rule")]
    Together(&'static str, &'static str),
    /// The same rule twice.
    #[error("the same as rule {}", .0 + 1)]
    Duplicate(usize),
    /// Unopened by one rule, opened by another.
    #[error("passes unopened what rule {} has to look into", .0 + 1)]
    PassAndInspect(usize),
    /// Limits that another rule makes void.
    #[error("its limits mean nothing: rule {} allows the same host and port without any", .0 + 1)]
    Void(usize),
    /// The address is told by another rule only.
    #[error("needs an `address`, since rule {} has one for the same host and port", .0 + 1)]
    AddressMissing(usize),
    /// The host's loopback without ports.
    #[error("`host.palisade.local` needs its ports: name each one that is to be reached")]
    HostPorts,
    /// Limits that are none, or stand where nobody would keep them.
    #[error("limits: {0}")]
    Limits(String),
    /// A label or reason with control characters, or much too long.
    #[error("`label` and `reason` are one line of at most 200 characters")]
    Text,
}

impl Faults {
    /// The same with lines, for rules that were read from a larger document: one line for each rule.
    #[must_use]
    pub fn at_lines(mut self, lines: &[usize]) -> Self {
        for fault in &mut self.0 {
            fault.line = fault.rule.and_then(|rule| lines.get(rule).copied()).or(fault.line);
        }
        self
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rule, self.line) {
            (Some(rule), Some(line)) => write!(out, "rule {} (line {line}): {}", rule + 1, self.what),
            (Some(rule), None) => write!(out, "rule {}: {}", rule + 1, self.what),
            (None, Some(line)) => write!(out, "line {line}: {}", self.what),
            (None, None) => write!(out, "{}", self.what),
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str("\n")?;
            }
            write!(out, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
