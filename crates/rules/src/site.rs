//! Everything that is said about one host pattern on one port, and what it makes of a request.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::git;
use crate::path::decoded;
use crate::registry;
use crate::rule::{RegistryKind, Rule};
use crate::trie::{Pattern, Reading, Trie};
use crate::verdict::{Request, Why};

/// What rules say about one host pattern on one port. Numbers are places of rules in their set.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) allow: Side,
    pub(crate) deny: Side,
    /// The first rule that allows anything here.
    pub(crate) allows: Option<u32>,
    /// A rule that passes TLS unopened by its very word.
    pub(crate) pass: Option<u32>,
    /// A rule that has to see inside.
    pub(crate) look: Option<u32>,
    /// Addresses that rules name.
    pub(crate) pinned: BTreeMap<IpAddr, u32>,
    /// A rule that names no address.
    pub(crate) unpinned: Option<u32>,
}

/// What is allowed, or what is denied.
#[derive(Debug)]
pub(crate) struct Side {
    /// A rule without limits.
    pub(crate) whole: Option<u32>,
    /// A rule with limits.
    pub(crate) limited: Option<u32>,
    pub(crate) paths: Trie,
    pub(crate) git: Option<Box<GitSide>>,
    pub(crate) registries: Vec<RegistrySide>,
}

/// What is said about repositories.
#[derive(Debug)]
pub(crate) struct GitSide {
    pub(crate) read: Option<u32>,
    /// Repositories; the numbers are places in `pushes`.
    pub(crate) repos: Trie,
    pub(crate) pushes: Vec<(u32, Vec<Pattern>)>,
}

/// What is said about packages.
#[derive(Debug)]
pub(crate) struct RegistrySide {
    pub(crate) rule: u32,
    pub(crate) kind: RegistryKind,
    pub(crate) publish: Trie,
}

/// How near a request came to being allowed; the nearest is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Miss {
    #[default]
    Path,
    EncodedSlash,
    Method,
    WebSocket,
    Query,
    OddQuery,
    UnreadPush,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self {
            allow: Side::new(Reading::Exact),
            deny: Side::new(Reading::Generous),
            allows: None,
            pass: None,
            look: None,
            pinned: BTreeMap::new(),
            unpinned: None,
        }
    }
}

impl Side {
    fn new(reading: Reading) -> Self {
        Self { whole: None, limited: None, paths: Trie::new(reading), git: None, registries: Vec::new() }
    }

    /// The rule with limits that this request fits; `rules` are those of the set.
    pub(crate) fn plain(
        &self,
        rules: &[Rule],
        request: &Request<'_>,
        meaning: &str,
        miss: &mut Miss,
    ) -> Option<u32> {
        let mut found = None;
        let text = meaning.strip_prefix('/').unwrap_or(meaning);
        self.paths.any(text, &mut |index| {
            let Some(rule) = usize::try_from(index).ok().and_then(|index| rules.get(index)) else {
                return false;
            };
            match fits(rule, request) {
                Ok(()) => found = Some(index),
                Err(why) => *miss = why.max(*miss),
            }
            found.is_some()
        });
        found
    }

    /// The registry rule that this request fits.
    pub(crate) fn package(&self, request: &Request<'_>) -> Option<u32> {
        let fits = |side: &&RegistrySide| {
            !request.websocket
                && (registry::installs(side.kind, request.method, &request.path)
                    || side.kind == RegistryKind::Npm
                        && registry::npm_publishes(request.method, &request.path)
                            .is_some_and(|package| side.publish.any(&package, &mut |_| true)))
        };
        self.registries.iter().find(fits).map(|side| side.rule)
    }
}

impl GitSide {
    pub(crate) fn new(reading: Reading) -> Self {
        Self { read: None, repos: Trie::new(reading), pushes: Vec::new() }
    }

    /// The rule that allows this act, or, of a deny, that is about any part of it.
    pub(crate) fn rule_for(&self, act: &git::Act, reading: Reading) -> Option<u32> {
        let refs = match &act.verb {
            git::Verb::Read => return self.read,
            git::Verb::Push { refs } => refs,
        };
        match reading {
            // A ref that can be none might be read as any.
            Reading::Generous => {
                refs.iter().find_map(|name| self.push(&act.repo, Some(name).filter(|it| git::is_ref(it))))
            }
            Reading::Exact if refs.is_empty() => self.push(&act.repo, None),
            Reading::Exact if !refs.iter().all(|name| git::is_ref(name)) => None,
            Reading::Exact => {
                let mut rule = None;
                for name in refs {
                    rule = Some(self.push(&act.repo, Some(name))?);
                }
                rule
            }
        }
    }

    fn push(&self, repo: &str, name: Option<&String>) -> Option<u32> {
        let mut found = None;
        self.repos.any(repo, &mut |index| {
            let Some((rule, refs)) = usize::try_from(index).ok().and_then(|index| self.pushes.get(index))
            else {
                return false;
            };
            if name.is_none_or(|name| refs.iter().any(|pattern| pattern.fits(name))) {
                found = Some(*rule);
            }
            found.is_some()
        });
        found
    }
}

/// Whether a request whose path fits a rule fits the rest of it.
fn fits(rule: &Rule, request: &Request<'_>) -> Result<(), Miss> {
    if request.websocket {
        // A deny that does not speak of WebSockets is about them too.
        let open = if rule.deny { rule.websocket.unwrap_or(true) } else { rule.websocket.unwrap_or(false) };
        if !open {
            return Err(Miss::WebSocket);
        }
        if rule.deny && rule.methods.as_ref().is_some_and(|methods| !methods.has("GET")) {
            return Err(Miss::Method);
        }
    } else {
        if rule.deny && rule.websocket.is_some() {
            return Err(Miss::WebSocket);
        }
        if rule.methods.as_ref().is_some_and(|methods| !methods.has(request.method)) {
            return Err(Miss::Method);
        }
    }
    match (&rule.query, request.query) {
        (Some(limits), Some(query)) => {
            let keys = keys(query).ok_or(Miss::OddQuery)?;
            // `key[]` and ` key` are `key` to some servers.
            let bare = |key: &str| key.split('[').next().unwrap_or(key).trim().to_owned();
            let forbidden = |key: &str| limits.forbid.iter().any(|one| one.eq_ignore_ascii_case(&bare(key)));
            let listed =
                |key: &str| limits.allow.as_ref().is_none_or(|list| list.iter().any(|one| one == key));
            let fine = keys.iter().all(|key| listed(key) && !forbidden(key));
            if fine { Ok(()) } else { Err(Miss::Query) }
        }
        (None, _) | (_, None) => Ok(()),
    }
}

/// The keys of a query. Some servers part at semicolons too, so both are keys here.
fn keys(query: &str) -> Option<Vec<String>> {
    if query.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b'#') {
        return None;
    }
    let pairs = query.split(['&', ';']).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| decoded(&pair.split('=').next().unwrap_or(pair).replace('+', " ")).map(String::from))
        .collect()
}

impl Miss {
    pub(crate) fn why(self) -> Why {
        match self {
            Self::Path => Why::Path,
            Self::EncodedSlash => Why::EncodedSlash,
            Self::Method => Why::Method,
            Self::WebSocket => Why::WebSocket,
            Self::Query => Why::Query,
            Self::OddQuery => Why::OddQuery,
            Self::UnreadPush => Why::UnreadPush,
        }
    }
}
