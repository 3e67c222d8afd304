//! A rule as it is written: plain data, not checked yet.
//!
//! Everything that is left out is at its narrowest: port 443, no opening of anything that is not named. What a rule
//! names beside its host are limits, and all of them must hold.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::address::{self, Kind};
use crate::limits::Answer;
use crate::messages::Messages;
use crate::name::Host;
use crate::verdict::Request;
use crate::{git, registry};

/// The methods that the word `read-only` stands for.
pub const READ_ONLY: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// One rule. [`Rules::compile`](crate::Rules::compile) checks it beside the others of its set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    /// `api.x.y`, `*.x.y` (one label more), `**.x.y` (one or more labels more), or an address.
    pub host: String,
    /// TCP ports.
    #[serde(default = "default_ports", skip_serializing_if = "is_default_ports")]
    pub ports: Vec<u16>,
    /// Whether TLS is opened. Left out: only if a rule for this host has to see inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Which methods; left out: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<Methods>,
    /// Patterns of the path: `*` is one segment, `**` at the end one or more. Left out: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Which keys the query may have; left out: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<Query>,
    /// Whether a WebSocket may be opened; left out: only by a rule without other limits. In a deny: only those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub websocket: Option<bool>,
    /// What the messages of a WebSocket may say; left out: anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Messages>,
    /// Git over HTTP, and nothing else of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<Git>,
    /// A package registry, and nothing else of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<Registry>,
    /// How much of each answer is taken, and how long it may take; left out: all of it, and as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Whether this refuses instead; it beats every allow. Its paths are read generously: without regard to case or
    /// to a slash at the end, and `/x/**` is `/x` as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deny: bool,
    /// The only address that this name may have; also opens a private one. Wildcards then say nothing about this name
    /// on these ports. For an administrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// What it is called in records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Why somebody wanted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What is done with the TLS of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Opened, and judged request by request.
    Inspect,
    /// Passed on as it is, knowingly; shown as not inspected. For an administrator.
    Pass,
}

/// Which methods a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, expecting = "methods are the word \"read-only\" or a list like [\"GET\", \"POST\"]")]
pub enum Methods {
    /// The word for [`READ_ONLY`].
    Word(MethodsWord),
    /// These, in capitals.
    These(Vec<String>),
}

/// The one word that stands for methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodsWord {
    /// [`READ_ONLY`].
    ReadOnly,
}

/// Which keys a query may have. Values are not judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// If given, no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// None of these, in any case of letters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbid: Vec<String>,
}

/// What may be done with git repositories of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Git {
    /// Clone and fetch, of any repository.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read: bool,
    /// Where may be pushed to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub push: Vec<Push>,
}

/// Where may be pushed to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Push {
    /// `owner/name`, `owner/*` or `group/**`; letters count as they are written.
    pub repo: String,
    /// Full names or patterns, like `refs/heads/agent/*`; `**` at the end is any depth.
    pub refs: Vec<String>,
}

/// What may be done with a package registry: installing, and publishing only what is named.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a registry is \"npm\", \"pypi\" or \"crates\", or a table with `kind` and `publish`"
)]
pub enum Registry {
    /// Installing only.
    Install(RegistryKind),
    /// Installing, and publishing these packages.
    Publish(PublishTo),
}

/// A registry with packages that may be published.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishTo {
    /// How its requests are to be read.
    pub kind: RegistryKind,
    /// `name`, `@scope/name` or `@scope/*`. Only npm says in the path which package is meant.
    pub publish: Vec<String>,
}

/// How the requests of a registry are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegistryKind {
    /// npm and what speaks like it.
    Npm,
    /// PyPI and what speaks like it.
    Pypi,
    /// crates.io: index, downloads, API.
    Crates,
}

impl Rule {
    /// Allows a host on port 443, without limits.
    #[must_use]
    pub fn new(host: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            ports: default_ports(),
            access: None,
            methods: None,
            paths: None,
            query: None,
            websocket: None,
            messages: None,
            git: None,
            registry: None,
            answer: None,
            deny: false,
            address: None,
            label: None,
            reason: None,
        }
    }

    /// The smallest rule that would allow this connection or request: what to ask for after a refusal.
    #[must_use]
    pub fn wanted(host: &Host, port: u16, request: Option<&Request<'_>>) -> Self {
        let mut rule = Self { ports: vec![port], ..Self::new(host.to_string()) };
        if let Host::Address(own) = host {
            rule.address = matches!(address::kind(*own), Kind::Private(_)).then_some(*own);
        }
        if let Some(request) = request {
            rule.limit_to(request);
        }
        rule
    }

    fn limit_to(&mut self, request: &Request<'_>) {
        let by_path = || git::act(request.method, &request.path, request.query);
        if let Some(act) = request.git.clone().or_else(by_path) {
            self.git = Some(act.wanted());
        } else if request.path.has_encoded_slash() {
            let publish = registry::npm_publishes(request.method, &request.path).map(|package| vec![package]);
            let kind = RegistryKind::Npm;
            self.registry = Some(match publish {
                Some(publish) => Registry::Publish(PublishTo { kind, publish }),
                None => Registry::Install(kind),
            });
        } else {
            match request.websocket {
                true => self.websocket = Some(true),
                false => self.methods = Some(Methods::These(vec![request.method.to_owned()])),
            }
            // A star of the path is no pattern.
            self.paths = Some(vec![request.path.as_str().replace('*', "%2A")]);
        }
    }

    /// Whether only an administrator may write it: it opens a private address, or passes TLS unseen by its very word.
    #[must_use]
    pub fn is_admin_only(&self) -> bool {
        self.address.is_some() || self.access == Some(Access::Pass)
    }

    /// Whether it says anything that only a request, or its answer, can be held against.
    #[must_use]
    pub fn has_limits(&self) -> bool {
        self.methods.is_some()
            || self.paths.is_some()
            || self.query.is_some()
            || self.websocket.is_some()
            || self.git.is_some()
            || self.registry.is_some()
            || self.answer.is_some()
    }
}

impl Registry {
    /// How its requests are to be read.
    #[must_use]
    pub fn kind(&self) -> RegistryKind {
        match self {
            Self::Install(kind) => *kind,
            Self::Publish(to) => to.kind,
        }
    }

    /// The packages that may be published.
    #[must_use]
    pub fn publish(&self) -> &[String] {
        match self {
            Self::Install(_) => &[],
            Self::Publish(to) => &to.publish,
        }
    }
}

impl Methods {
    /// Whether this is one of them.
    #[must_use]
    pub fn has(&self, method: &str) -> bool {
        match self {
            Self::Word(MethodsWord::ReadOnly) => READ_ONLY.contains(&method),
            Self::These(list) => list.iter().any(|one| one == method),
        }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let (word, list): (&[&str], &[String]) = match self {
            Self::Word(MethodsWord::ReadOnly) => (&READ_ONLY, &[]),
            Self::These(list) => (&[], list),
        };
        word.iter().copied().chain(list.iter().map(String::as_str))
    }
}

fn default_ports() -> Vec<u16> {
    vec![443]
}

fn is_default_ports(ports: &[u16]) -> bool {
    ports == [443]
}
