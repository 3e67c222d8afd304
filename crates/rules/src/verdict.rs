//! What is asked, and what is answered.

use crate::address;
use crate::deed::Deed;
use crate::git;
use crate::path::UrlPath;

/// One HTTP request as it was read and as it will be sent.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// As sent, in capitals.
    pub method: &'a str,
    /// As sent, and checked.
    pub path: UrlPath<'a>,
    /// What stands behind the `?`, without it.
    pub query: Option<&'a str>,
    /// Whether it asks for a WebSocket.
    pub websocket: bool,
    /// What it does to a repository, if [`git::act`] says so; of a push the refs are read from its body.
    pub git: Option<git::Act>,
}

/// Names a rule within the [`Rules`](crate::Rules) that gave the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId {
    /// Which set, 0 unless sets were narrowed by each other.
    pub set: u32,
    /// Which rule of it, in the order as written.
    pub index: u32,
}

/// What is done with the TLS of a connection that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// Passed on unopened, and shown as not inspected.
    Pass,
    /// Opened, and each request judged.
    Inspect,
}

/// A verdict.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// May go.
    Allowed {
        /// By this rule; if several allow, by one of them.
        rule: RuleId,
        /// Whether it is looked into.
        look: Look,
    },
    /// May not go.
    Refused(Why),
}

impl Decision {
    /// Whether it may go.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
    }

    /// Whether it may not go only because no rule knows the host, or the port: a rule could be added.
    #[must_use]
    pub fn is_unlisted(&self) -> bool {
        matches!(self, Self::Refused(Why::NoRules | Why::Host | Why::Port))
    }
}

/// Why something may not leave, and what to ask for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// There are no rules at all.
    #[error("there is no network here: no rule allows anything; ask for a rule for this host")]
    NoRules,
    /// No rule has this host.
    #[error("no rule allows this host; ask for `--allow HOST:PORT` or a rule in the profile")]
    Host,
    /// Only other ports.
    #[error("this host is allowed on other ports only; ask for a rule with this port")]
    Port,
    /// A deny.
    #[error("a rule denies this (rule {} of set {}); it has to be taken away by whoever wrote it", .0.index + 1, .0.set + 1)]
    Denied(RuleId),
    /// Rules for the host, but none for the method.
    #[error("this host is allowed, but not with this method here; ask for a rule with the method and path")]
    Method,
    /// Rules for the host, but none for the path.
    #[error("this host is allowed, but not this path; ask for a rule with the path")]
    Path,
    /// The query has keys that it may not have.
    #[error("this host and path are allowed, but not with these keys in the query; ask for a rule with them")]
    Query,
    /// No WebSocket.
    #[error("this host is allowed, but no WebSocket; ask for a rule with `websocket = true`")]
    WebSocket,
    /// Something that acts for an owner behind a shared host.
    #[error("this would {0}, which no rule allows; ask for a rule that names it")]
    Deed(Deed),
    /// A push whose refs nobody read.
    #[error("a push without its refs read cannot be judged; push again, or ask for a rule without `git`")]
    UnreadPush,
    /// A method that is none, or that no rule can allow.
    #[error("this method is never passed on; use another")]
    OddMethod,
    /// A query that cannot be read in one way.
    #[error("the query cannot be read in one way only; send it in plain percent-encoding")]
    OddQuery,
    /// A slash that is written as `%2F`, other than in the name of an npm package.
    #[error("an encoded slash in the path cannot be read in one way only; send a plain one")]
    EncodedSlash,
    /// An address that is never reached.
    #[error("this address is never reached, whatever a rule says: {0}")]
    Never(address::Reason),
    /// A private address without a rule that names it.
    #[error(
        "this address is private ({0}); ask an administrator for a rule with this exact name and `address`"
    )]
    Private(address::Reason),
    /// The rule names another address.
    #[error("the rule for this host names another address; ask an administrator to correct it")]
    OtherAddress,
    /// A name that stands for a machine's own services.
    #[error("this name stands for the machine itself or its metadata, which is never reached")]
    NeverName,
}
