//! What a command was seen to need of the network, as the smallest profile that gives it.
//!
//! Flow: verdicts on requests -> by host, its methods and paths -> a set of rules that is known, or rules of its own -> a
//! profile that a person reads before it is used. Invariants: nothing is in it that was not seen; a part of a path that looks
//! like a secret stands as `*`; a push is told and never written as a rule, since nobody said which refs may be pushed to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use egress::control::{Verdict, Wanted};
use rules::{Git, Methods, Request, Rule, Rules, presets};
use sandbox::profile::{Name, built_in, rules_as_toml};

use crate::failure::Failure;
use crate::output;

/// More paths of one host than this are drawn together.
const MOST_PATHS: usize = 24;
/// The most hosts that are learnt, and requests of each.
const MOST_HOSTS: usize = 512;
const MOST_REQUESTS: usize = 2048;
/// The most lines about what did not go.
const MOST_TOLD: usize = 20;

/// What was seen of one host and port.
#[derive(Debug, Default)]
struct Host {
    /// Methods and paths.
    requests: BTreeSet<(String, String)>,
    /// It was passed on unseen.
    passed: bool,
    /// What is to be told about it.
    trouble: Option<String>,
}

/// What was seen.
#[derive(Debug)]
pub(in crate::commands) struct Learnt {
    /// The profile that is written at the end.
    path: PathBuf,
    name: String,
    base: String,
    /// Of hosts that no rule knew; the others have rules.
    hosts: BTreeMap<(String, u16), Host>,
}

impl Learnt {
    /// For a profile of this name, which there must not be yet.
    pub(in crate::commands) fn new(config: &Path, name: &str, base: &str) -> Result<Self, Failure> {
        let wrong = |error: String| Failure::Usage(format!("--learn {name}: {error}"));
        Name::parse(name).map_err(|error| wrong(error.to_string()))?;
        let path = config.join("profiles").join(format!("{name}.toml"));
        if built_in(name).is_some() || path.symlink_metadata().is_ok() {
            return Err(wrong("there is such a profile already; choose another name".into()));
        }
        Ok(Self { path, name: name.to_owned(), base: base.to_owned(), hosts: BTreeMap::new() })
    }

    /// Whether there is room for one more.
    pub(super) fn may_more(&self) -> bool {
        self.hosts.len() < MOST_HOSTS
    }

    /// A destination that no rule knew.
    pub(super) fn asked(&mut self, destination: &(String, u16)) {
        self.hosts.entry(destination.clone()).or_default();
    }

    pub(super) fn judged(&mut self, wanted: &Wanted, verdict: &Verdict) {
        let Some(host) = self.hosts.get_mut(&(wanted.host.clone(), wanted.port)) else { return };
        match (verdict, &wanted.method, &wanted.path) {
            (Verdict::Refused { why }, ..) => host.trouble = Some(format!("did not go: {why}")),
            (Verdict::Allowed { .. }, Some(method), Some(path)) if is_writable(path) => {
                if host.requests.len() < MOST_REQUESTS {
                    host.requests.insert((method.clone(), path.clone()));
                }
            }
            (Verdict::Allowed { .. }, Some(_), _) => {
                host.trouble =
                    Some("had a request that no rule can name by itself; it is not in the profile".into());
            }
            (Verdict::Allowed { .. }, None, _) => host.passed = true,
        }
    }

    /// Writes the profile; what to tell about it.
    pub(super) fn write(&self, command: &str) -> Result<Vec<String>, Failure> {
        let mut told = Vec::new();
        let (mut rules, mut sets) = (Vec::new(), BTreeSet::new());
        for ((name, port), host) in &self.hosts {
            told.extend(host.trouble.iter().map(|trouble| format!("{name}:{port} {trouble}")));
            match preset(name, *port, host) {
                Some(preset) => drop(sets.insert(preset)),
                None => {
                    let (of_host, about) = host.rules(name, *port);
                    rules.extend(of_host);
                    told.extend(about.into_iter().map(|about| format!("{name}:{port} {about}")));
                }
            }
        }
        let more = told.len().saturating_sub(MOST_TOLD);
        told.truncate(MOST_TOLD);
        told.extend((more > 0).then(|| format!("and {more} more like these")));
        if rules.is_empty() && sets.is_empty() {
            told.push("it needed nothing that no rule knew, so no profile was written".into());
            return Ok(told);
        }
        Rules::compile(rules.clone()).map_err(|faults| Failure::Program(faults.to_string()))?;
        let sets: Vec<String> = sets.into_iter().map(|name| format!("\"{name}\"")).collect();
        let text = format!(
            "# What `{}` reached when it was watched. Read it before you use it.\nbase = \"{}\"\nnetwork = \"rules\"\npresets = [{}]\n\n{}",
            output::kept(command).replace(['\n', '\r'], " "),
            self.base,
            sets.join(", "),
            rules_as_toml(&rules),
        );
        self.keep(&text)?;
        let (name, shown) = (&self.name, self.path.display());
        told.push(format!(
            "what it reached is in {shown}; read it, then `palisade run --profile {name} -- …`"
        ));
        Ok(told)
    }

    fn keep(&self, text: &str) -> Result<(), Failure> {
        if let Some(folder) = self.path.parent() {
            let mut made = std::fs::DirBuilder::new();
            made.recursive(true).mode(0o700).create(folder).map_err(Failure::file(folder))?;
        }
        let mut new = std::fs::OpenOptions::new();
        let file = new.write(true).create_new(true).mode(0o600).open(&self.path);
        let mut file = file.map_err(Failure::file(&self.path))?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(Failure::file(&self.path))
    }
}

/// A set of rules that is known and allows everything that was seen of a host.
fn preset(name: &str, port: u16, host: &Host) -> Option<&'static str> {
    let to = name.parse().ok()?;
    let allows = |rules: &Rules| {
        host.requests.iter().all(|(method, path)| {
            let Ok(path) = rules::path::canonical(path) else { return false };
            let query = path.as_str().ends_with("/info/refs").then_some("service=git-upload-pack");
            let git = rules::git::act(method, &path, query);
            let request = Request { method, path, query, websocket: false, git };
            rules.request(&to, port, &request).is_allowed()
        })
    };
    let known = presets::PRESETS.into_iter().find(|preset| {
        let rules = preset.rules().ok().and_then(|rules| Rules::compile(rules).ok());
        rules.is_some_and(|rules| rules.connect(&to, port).is_allowed() && allows(&rules))
    });
    known.filter(|_| !host.requests.is_empty() && !host.passed).map(|preset| preset.name)
}

/// Whether a rule can name this path by itself.
fn is_writable(path: &str) -> bool {
    let rule = Rule { paths: Some(vec![pattern(path)]), ..Rule::new("site.org") };
    Rules::compile(vec![rule]).is_ok()
}

impl Host {
    /// The smallest rules for what was seen, and what there is to tell.
    fn rules(&self, name: &str, port: u16) -> (Vec<Rule>, Vec<String>) {
        let rule = Rule { ports: vec![port], ..Rule::new(name) };
        let (mut rules, mut told) = (Vec::new(), Vec::new());
        let mut by_method: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut reads = false;
        for (method, path) in &self.requests {
            match path {
                path if path.ends_with("/git-upload-pack") => reads = true,
                // What it is for stands in its query, which is not kept.
                path if path.ends_with("/info/refs") => {}
                path if path.ends_with("/git-receive-pack") => {
                    told.push(format!(
                        "was pushed to, at {path}; name repository and refs in a rule if it may be"
                    ));
                }
                path => by_method.entry(method).or_default().push(path),
            }
        }
        let asked_for_refs = self.requests.iter().any(|(_, path)| path.ends_with("/info/refs"));
        if asked_for_refs && !reads {
            told.push(
                "was asked for refs and nothing more; add `git = { read = true }` if it may be cloned".into(),
            );
        }
        if reads {
            rules.push(Rule { git: Some(Git { read: true, push: Vec::new() }), ..rule.clone() });
        }
        // Of methods with the same paths one rule; else each has its own, so that none gets another's.
        let mut by_paths: BTreeMap<Option<Vec<String>>, Vec<String>> = BTreeMap::new();
        for (method, all) in by_method {
            let patterns = paths(all.into_iter());
            if patterns.is_none() {
                told.push(format!("was asked for very many paths with {method}; the rule has all of them"));
            }
            by_paths.entry(patterns).or_default().push(method.to_owned());
        }
        for (paths, methods) in by_paths {
            rules.push(Rule { methods: Some(Methods::These(methods)), paths, ..rule.clone() });
        }
        if self.requests.is_empty() && self.passed {
            // Nothing of it was seen but that it was reached.
            rules.push(rule);
        }
        (rules, told)
    }
}

/// Paths as patterns: each as it was, or, when there are many, what they have in common. None if that is nothing.
fn paths<'a>(all: impl Iterator<Item = &'a str>) -> Option<Vec<String>> {
    let exact: BTreeSet<String> = all.map(pattern).collect();
    if exact.len() <= MOST_PATHS {
        return Some(exact.into_iter().collect());
    }
    let first = |path: &String| match path[1..].split_once('/') {
        Some((first, _)) => format!("/{first}/**"),
        None => path.clone(),
    };
    let drawn: BTreeSet<String> = exact.iter().map(first).collect();
    (drawn.len() <= MOST_PATHS).then(|| drawn.into_iter().collect())
}

/// A path as a pattern that means it alone; what looks like a secret in it is any one part.
fn pattern(path: &str) -> String {
    let part = |part: &str| match output::kept(part) == part {
        true => part.replace('*', "%2A"),
        false => "*".to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(requests: &[(&str, &str)]) -> Host {
        let requests = requests.iter().map(|(method, path)| ((*method).into(), (*path).into())).collect();
        Host { requests, ..Host::default() }
    }

    fn listed(host: &Host) -> Vec<(Vec<String>, Option<Vec<String>>)> {
        let methods = |rule: &Rule| rule.methods.iter().flat_map(Methods::iter).map(str::to_owned).collect();
        host.rules("site.org", 443).0.iter().map(|rule| (methods(rule), rule.paths.clone())).collect()
    }

    #[test]
    fn egr_20_what_was_seen_becomes_the_smallest_rules() {
        let some = |path: &str| Some(vec![path.to_owned()]);
        let host = seen(&[("GET", "/keep"), ("DELETE", "/tmp/x")]);
        // What was done with one path was not done with the other.
        let expected = [(vec!["GET".to_owned()], some("/keep")), (vec!["DELETE".to_owned()], some("/tmp/x"))];
        assert_eq!(listed(&host), expected);
        let host = seen(&[("GET", "/r.git/info/refs"), ("POST", "/r.git/git-upload-pack")]);
        assert_eq!(host.rules("site.org", 443).0[0].git, Some(Git { read: true, push: Vec::new() }));
        // A push is not allowed by having been seen, nor is reading by having asked for refs.
        for path in ["/r.git/git-receive-pack", "/r.git/info/refs"] {
            let (rules, told) = seen(&[("POST", path)]).rules("site.org", 443);
            assert!(rules.is_empty() && told.len() == 1, "{path}");
        }
        // Many paths are drawn together.
        let many: Vec<String> = (0..100).map(|at| format!("/v1/items/{at}")).collect();
        assert_eq!(paths(many.iter().map(String::as_str)), Some(vec!["/v1/**".into()]));
        let wild: Vec<String> = (0..100).map(|at| format!("/{at}/x")).collect();
        assert_eq!(paths(wild.iter().map(String::as_str)), None);
        // What was allowed and never seen is no reason for a rule.
        assert!(Host::default().rules("site.org", 443).0.is_empty());
        assert!(!is_writable("/@types%2Fnode"));
    }

    #[test]
    fn egr_20_a_set_that_is_known_is_named_instead() {
        let npm = seen(&[("GET", "/left-pad"), ("GET", "/left-pad/-/left-pad-1.3.0.tgz")]);
        assert_eq!(preset("registry.npmjs.org", 443, &npm), Some("npm-install"));
        let publishes = seen(&[("PUT", "/left-pad")]);
        assert_eq!(preset("registry.npmjs.org", 443, &publishes), None);
        assert_eq!(preset("site.org", 443, &npm), None);
    }

    #[test]
    fn egr_20_what_looks_like_a_secret_is_in_no_profile() {
        let token = format!("/bot/ghp_{}/send", "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5");
        assert_eq!(pattern(&token), "/bot/*/send");
        assert_eq!(pattern("/a/*"), "/a/%2A");
    }
}
