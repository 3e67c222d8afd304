//! Turns rules as written into a set, or into everything that is wrong with them.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use serde::Deserialize;
use toml::Spanned;

use crate::address::{self, Kind};
use crate::clash;
use crate::fault::{Fault, Faults, What};
use crate::git;
use crate::limits::{Answer, Limits};
use crate::messages::Messages;
use crate::name::{HOST_LOOPBACK, Name};
use crate::path;
use crate::pattern::HostPattern;
use crate::registry;
use crate::rule::{Access, Git, Methods, Query, Registry, RegistryKind, Rule};
use crate::set::Set;
use crate::site::{GitSide, RegistrySide, Side, Site};
use crate::trie::{Pattern, Reading, Trie};

/// A document of rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    rule: Vec<Spanned<Rule>>,
    limits: Option<Limits>,
}

/// The same with rules that were not read yet, to find every fault and not only the first.
#[derive(Deserialize)]
struct Loose {
    #[serde(default)]
    rule: Vec<Spanned<toml::Table>>,
    limits: Option<toml::Value>,
    #[serde(flatten)]
    unknown: toml::Table,
}

/// What a document says.
pub(crate) struct Read {
    pub(crate) rules: Vec<Rule>,
    /// Where each of them begins.
    pub(crate) lines: Vec<usize>,
    pub(crate) limits: Option<Limits>,
}

/// Reads a document.
pub(crate) fn read(text: &str) -> Result<Read, Faults> {
    match toml::from_str::<Document>(text) {
        Ok(document) => {
            let line = |rule: &Spanned<Rule>| line_at(text, rule.span().start);
            let lines: Vec<usize> = document.rule.iter().map(line).collect();
            let limits = document.limits.map(Limits::checked).transpose();
            let limits = limits.map_err(|what| Faults(vec![Fault { rule: None, line: None, what }]))?;
            let rules: Vec<Rule> = document.rule.into_iter().map(Spanned::into_inner).collect();
            match without_ports(text, &rules) {
                Some(rule) => Err(Faults(vec![Fault {
                    rule: Some(rule),
                    line: lines.get(rule).copied(),
                    what: What::HostPorts,
                }])),
                None => Ok(Read { rules, lines, limits }),
            }
        }
        Err(error) => Err(faults_of(text, &error)),
    }
}

/// The first rule for the host's loopback that does not say which of its ports: the usual one is no guess there.
fn without_ports(text: &str, rules: &[Rule]) -> Option<usize> {
    let is_host = |rule: &Rule| rule.host.parse::<Name>().is_ok_and(|name| name.as_str() == HOST_LOOPBACK);
    let first = rules.iter().position(|rule| is_host(rule) && !rule.deny)?;
    let written = toml::from_str::<Loose>(text).ok()?.rule;
    let is_bare = |index: &usize| {
        let has_ports = written.get(*index).is_some_and(|table| table.get_ref().contains_key("ports"));
        rules.get(*index).is_some_and(|rule| is_host(rule) && !rule.deny) && !has_ports
    };
    (first..rules.len()).find(is_bare)
}

fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn faults_of(text: &str, error: &toml::de::Error) -> Faults {
    let whole = || Fault {
        rule: None,
        line: error.span().map(|span| line_at(text, span.start)),
        what: What::Shape(error.message().to_owned()),
    };
    let Ok(document) = toml::from_str::<Loose>(text) else { return Faults(vec![whole()]) };
    let mut faults: Vec<Fault> = Vec::new();
    for key in document.unknown.keys() {
        faults.push(Fault { rule: None, line: None, what: What::Unknown(key.clone()) });
    }
    if let Some(limits) = document.limits
        && let Err(error) = limits.try_into::<Limits>()
    {
        let what = What::Limits(error.message().to_owned());
        faults.push(Fault { rule: None, line: None, what });
    }
    let (mut rules, mut lines) = (Vec::new(), Vec::new());
    for (index, table) in document.rule.into_iter().enumerate() {
        lines.push(line_at(text, table.span().start));
        let mut say = |what| faults.push(Fault { rule: Some(index), line: None, what });
        let mut table = table.into_inner();
        let unknown: Vec<String> =
            table.keys().filter(|key| !FIELDS.contains(&key.as_str())).cloned().collect();
        for key in unknown {
            table.remove(&key);
            say(What::Unknown(key));
        }
        rules.push(table.try_into::<Rule>().unwrap_or_else(|error| {
            say(What::Shape(error.message().to_owned()));
            // Keeps the place, and has nothing to do with the others.
            Rule::new(format!("rule-{index}.invalid"))
        }));
    }
    if let Err(more) = set(rules) {
        faults.extend(more.0);
    }
    faults.sort_by_key(|fault| fault.rule);
    if faults.is_empty() { Faults(vec![whole()]) } else { Faults(faults).at_lines(&lines) }
}

const FIELDS: [&str; 15] = [
    "access",
    "address",
    "answer",
    "deny",
    "git",
    "host",
    "label",
    "messages",
    "methods",
    "paths",
    "ports",
    "query",
    "reason",
    "registry",
    "websocket",
];

/// A rule that is right by itself.
pub(crate) struct Checked {
    pub(crate) index: u32,
    pub(crate) host: HostPattern,
    paths: Vec<Pattern>,
}

/// Checks and arranges rules.
pub(crate) fn set(rules: Vec<Rule>) -> Result<Set, Faults> {
    let mut faults: Vec<(usize, What)> = Vec::new();
    let mut checked = Vec::with_capacity(rules.len());
    for (index, rule) in rules.iter().enumerate() {
        let (parts, wrong) = check(rule);
        match (parts, wrong.is_empty(), u32::try_from(index)) {
            (Some((host, paths)), true, Ok(index)) => checked.push(Checked { index, host, paths }),
            (_, _, _) => faults.extend(wrong.into_iter().map(|what| (index, what))),
        }
    }
    faults.extend(duplicates(&rules, &checked));
    let mut set = Set::new(rules);
    arrange(&mut set, &checked);
    faults.extend(clash::find(&set, &checked));
    if faults.is_empty() {
        return Ok(set);
    }
    faults.sort_by_key(|(index, _)| *index);
    let told = |(index, what)| Fault { rule: Some(index), line: None, what };
    Err(Faults(faults.into_iter().map(told).collect()))
}

type Parts = Option<(HostPattern, Vec<Pattern>)>;

/// Checks one rule by itself: its parts, and everything that is wrong.
fn check(rule: &Rule) -> (Parts, Vec<What>) {
    let mut faults = Vec::new();
    let host = HostPattern::parse(&rule.host).map_err(|what| faults.push(what)).ok();
    if rule.ports.is_empty() || rule.ports.contains(&0) || has_twice(&rule.ports) {
        faults.push(What::Ports);
    }
    if let Some(host) = &host {
        faults.extend(check_address(rule, host));
    }
    faults.extend(rule.methods.as_ref().and_then(check_methods));
    faults.extend(rule.query.as_ref().and_then(check_query));
    faults.extend(rule.git.as_ref().and_then(check_git));
    faults.extend(rule.registry.as_ref().and_then(check_registry));
    if rule.answer.is_some_and(|answer| !answer.is_right()) {
        faults.push(What::Answer);
    }
    let is_socket = rule.websocket == Some(true);
    if rule.messages.as_ref().is_some_and(|messages| !is_socket || !messages.is_right()) {
        faults.push(What::Messages);
    }
    faults.extend(together(rule));
    let text = |text: &String| text.chars().count() > 200 || text.chars().any(char::is_control);
    if rule.label.iter().chain(&rule.reason).any(text) {
        faults.push(What::Text);
    }
    let mut paths = Vec::new();
    for text in rule.paths.iter().flatten() {
        match path_pattern(text) {
            Ok(pattern) => paths.push(pattern),
            Err(what) => faults.push(what),
        }
    }
    if rule.paths.as_ref().is_some_and(|list| list.is_empty() || has_twice(list)) {
        faults.push(What::Paths);
    }
    (host.map(|host| (host, paths)), faults)
}

fn has_twice<T: Eq + std::hash::Hash>(list: &[T]) -> bool {
    let mut seen = HashSet::with_capacity(list.len());
    !list.iter().all(|one| seen.insert(one))
}

fn path_pattern(text: &str) -> Result<Pattern, What> {
    let odd = |why| What::Path { path: text.to_owned(), why };
    let path = path::canonical(text).map_err(odd)?;
    if path.has_encoded_slash() {
        return Err(odd(path::Odd::EncodedSlash));
    }
    Pattern::parse(text.strip_prefix('/').unwrap_or(text))
}

fn check_address(rule: &Rule, host: &HostPattern) -> Option<What> {
    let own = match host {
        HostPattern::Address(own) => Some(*own),
        HostPattern::Exact(_) | HostPattern::One(_) | HostPattern::Deep(_) => None,
    };
    let Some(address) = rule.address else {
        let private = own.is_some_and(|own| matches!(address::kind(own), Kind::Private(_)));
        return (private && !rule.deny).then(|| What::PrivateHost(rule.host.clone()));
    };
    if matches!(address::kind(address), Kind::Never(_)) {
        return Some(What::NeverAddress(address.to_string()));
    }
    let wild = matches!(host, HostPattern::One(_) | HostPattern::Deep(_));
    (wild || rule.deny || own.is_some_and(|own| own != address)).then_some(What::AddressFor)
}

fn check_methods(methods: &Methods) -> Option<What> {
    let Methods::These(list) = methods else { return None };
    let odd = |method: &String| {
        method.is_empty()
            || method == "CONNECT"
            || method == "TRACE"
            || !method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
    };
    (list.is_empty() || has_twice(list) || list.iter().any(odd)).then_some(What::Methods)
}

fn check_query(query: &Query) -> Option<What> {
    let allowed = query.allow.as_deref().unwrap_or_default();
    let says_nothing = query.allow.is_none() && query.forbid.is_empty();
    let all: Vec<&String> = allowed.iter().chain(&query.forbid).collect();
    (says_nothing || has_twice(&all) || all.iter().any(|key| key.is_empty())).then_some(What::Query)
}

fn check_git(git: &Git) -> Option<What> {
    if !git.read && git.push.is_empty() {
        return Some(What::Git);
    }
    git.push.iter().find_map(|push| {
        let parts: Vec<&str> = push.repo.split('/').collect();
        let odd =
            |part: &&str| part.is_empty() || part.starts_with('.') || part.bytes().any(|byte| byte <= b' ');
        let named = parts.first().is_some_and(|owner| !owner.contains('*'));
        let repo = named && !parts.iter().any(odd) && !push.repo.ends_with(".git");
        let refs = push.refs.iter().all(|text| git::is_ref(&text.replace('*', "x")));
        if !repo || !refs || push.refs.is_empty() {
            return Some(What::Git);
        }
        std::iter::once(&push.repo).chain(&push.refs).find_map(|text| Pattern::parse(text).err())
    })
}

fn check_registry(registry: &Registry) -> Option<What> {
    let Registry::Publish(to) = registry else { return None };
    let is_package = |text: &String| match text.strip_prefix('@').map(|rest| rest.split_once('/')) {
        Some(Some((scope, name))) => {
            registry::is_package_part(scope) && (name == "*" || registry::is_package_part(name))
        }
        Some(None) => false,
        None => registry::is_package_part(text),
    };
    let right = to.kind == RegistryKind::Npm && !to.publish.is_empty() && to.publish.iter().all(is_package);
    (!right).then_some(What::Publish)
}

/// Fields that contradict each other.
fn together(rule: &Rule) -> Vec<What> {
    let pass = rule.access == Some(Access::Pass);
    let given = [
        ("access = \"pass\"", pass),
        ("deny", rule.deny),
        ("git", rule.git.is_some()),
        ("registry", rule.registry.is_some()),
        ("access", rule.access.is_some()),
        ("methods", rule.methods.is_some()),
        ("paths", rule.paths.is_some()),
        ("query", rule.query.is_some()),
        ("websocket", rule.websocket.is_some()),
        ("websocket = false", rule.websocket == Some(false)),
        ("answer", rule.answer.is_some()),
        ("messages", rule.messages.is_some()),
    ];
    let is_given = |name: &str| given.iter().any(|(one, there)| *one == name && *there);
    let clashes = CLASHES.iter().filter(|(one, other)| is_given(one) && is_given(other));
    clashes.map(|(one, other)| What::Together(one, other)).collect()
}

/// What limits a request needs a look at it; git and registries say themselves which requests they mean; a deny with
/// exceptions would be read in two ways.
const CLASHES: [(&str, &str); 23] = [
    ("access = \"pass\"", "methods"),
    ("access = \"pass\"", "paths"),
    ("access = \"pass\"", "query"),
    ("access = \"pass\"", "websocket"),
    ("access = \"pass\"", "git"),
    ("access = \"pass\"", "registry"),
    ("access = \"pass\"", "answer"),
    ("deny", "answer"),
    ("deny", "messages"),
    ("answer", "websocket"),
    ("deny", "access"),
    ("deny", "query"),
    ("deny", "registry"),
    ("deny", "websocket = false"),
    ("git", "methods"),
    ("git", "paths"),
    ("git", "query"),
    ("git", "websocket"),
    ("git", "registry"),
    ("registry", "methods"),
    ("registry", "paths"),
    ("registry", "query"),
    ("registry", "websocket"),
];

/// What a rule says, whatever it is called and in whatever order.
#[derive(PartialEq, Eq, Hash)]
struct Said<'a> {
    host: &'a HostPattern,
    ports: Vec<u16>,
    access: Option<Access>,
    methods: Option<Vec<&'a str>>,
    paths: Option<Vec<&'a str>>,
    query: Option<&'a Query>,
    websocket: Option<bool>,
    git: Option<&'a Git>,
    registry: Option<&'a Registry>,
    answer: Option<Answer>,
    messages: Option<&'a Messages>,
    deny: bool,
    address: Option<IpAddr>,
}

impl<'a> Said<'a> {
    fn by(rule: &'a Rule, host: &'a HostPattern) -> Self {
        Self {
            host,
            ports: sorted(rule.ports.iter().copied()),
            access: rule.access,
            methods: rule.methods.as_ref().map(|methods| sorted(methods.iter())),
            paths: rule.paths.as_ref().map(|list| sorted(list.iter().map(String::as_str))),
            query: rule.query.as_ref(),
            websocket: rule.websocket,
            git: rule.git.as_ref(),
            registry: rule.registry.as_ref(),
            answer: rule.answer,
            messages: rule.messages.as_ref(),
            deny: rule.deny,
            address: rule.address,
        }
    }
}

fn sorted<T: Ord>(list: impl Iterator<Item = T>) -> Vec<T> {
    let mut list: Vec<T> = list.collect();
    list.sort_unstable();
    list
}

/// Rules that say what an earlier one says.
fn duplicates(rules: &[Rule], checked: &[Checked]) -> Vec<(usize, What)> {
    if checked.len() < 2 {
        return Vec::new();
    }
    let mut seen: HashMap<Said<'_>, usize> = HashMap::with_capacity(checked.len());
    let mut found = Vec::new();
    for one in checked {
        let index = usize::try_from(one.index).unwrap_or(usize::MAX);
        let Some(rule) = rules.get(index) else { continue };
        let first = *seen.entry(Said::by(rule, &one.host)).or_insert(index);
        if first != index {
            found.push((index, What::Duplicate(first)));
        }
    }
    found
}

/// Puts every rule where it will be looked for.
fn arrange(set: &mut Set, checked: &[Checked]) {
    let rules = std::mem::take(&mut set.rules);
    for one in checked {
        let Some(rule) = usize::try_from(one.index).ok().and_then(|index| rules.get(index)) else { continue };
        for port in &rule.ports {
            if let Some(site) = set.make(&one.host, *port) {
                place(site, rule, one);
            }
        }
    }
    set.rules = rules;
}

fn place(site: &mut Site, rule: &Rule, one: &Checked) {
    let index = one.index;
    if rule.has_limits() || rule.access == Some(Access::Inspect) {
        site.look.get_or_insert(index);
    }
    if rule.deny {
        place_side(&mut site.deny, rule, one, Reading::Generous);
        return;
    }
    site.allows.get_or_insert(index);
    if rule.access == Some(Access::Pass) {
        site.pass.get_or_insert(index);
    }
    match rule.address {
        Some(address) => {
            site.pinned.entry(address).or_insert(index);
        }
        None => {
            site.unpinned.get_or_insert(index);
        }
    }
    place_side(&mut site.allow, rule, one, Reading::Exact);
}

fn place_side(side: &mut Side, rule: &Rule, one: &Checked, reading: Reading) {
    let index = one.index;
    if !rule.has_limits() {
        side.whole.get_or_insert(index);
        return;
    }
    side.limited.get_or_insert(index);
    if let Some(git) = &rule.git {
        place_git(side.git.get_or_insert_with(|| Box::new(GitSide::new(reading))), git, index);
    } else if let Some(registry) = &rule.registry {
        let mut publish = Trie::new(Reading::Exact);
        for pattern in registry.publish().iter().filter_map(|text| Pattern::parse(text).ok()) {
            publish.insert(&pattern, index);
        }
        side.registries.push(RegistrySide { rule: index, kind: registry.kind(), publish });
    } else if one.paths.is_empty() {
        side.paths.insert(&Pattern::anything(), index);
    } else {
        one.paths.iter().for_each(|pattern| side.paths.insert(pattern, index));
    }
}

fn place_git(side: &mut GitSide, git: &Git, index: u32) {
    if git.read {
        side.read.get_or_insert(index);
    }
    for push in &git.push {
        let refs = push.refs.iter().filter_map(|text| Pattern::parse(text).ok()).collect();
        if let (Ok(repo), Ok(place)) = (Pattern::parse(&push.repo), u32::try_from(side.pushes.len())) {
            side.pushes.push((index, refs));
            side.repos.insert(&repo, place);
        }
    }
}
