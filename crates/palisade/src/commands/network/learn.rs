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

/// What was seen of one host and port.
#[derive(Debug, Default)]
struct Host {
    /// Methods and paths.
    requests: BTreeSet<(String, String)>,
    /// Why it did not work, if something did not.
    trouble: Option<String>,
}

/// What was seen.
#[derive(Debug)]
pub(in crate::commands) struct Learnt {
    /// The profile that is written at the end.
    path: PathBuf,
    name: String,
    base: String,
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

    pub(super) fn judged(&mut self, wanted: &Wanted, verdict: &Verdict) {
        let host = self.hosts.entry((wanted.host.clone(), wanted.port)).or_default();
        match (verdict, &wanted.method, &wanted.path) {
            (Verdict::Refused { why }, ..) => host.trouble = Some(why.clone()),
            (Verdict::Allowed { .. }, Some(method), Some(path)) => {
                host.requests.insert((method.clone(), path.clone()));
            }
            (Verdict::Allowed { .. }, ..) => {}
        }
    }

    /// Writes the profile; what to tell about it. None if nothing was reached.
    pub(super) fn write(&self, command: &str) -> Result<Vec<String>, Failure> {
        let mut told = Vec::new();
        let (mut rules, mut sets) = (Vec::new(), BTreeSet::new());
        for ((name, port), host) in &self.hosts {
            if let Some(trouble) = &host.trouble {
                told.push(format!("{name}:{port} did not go: {trouble}"));
            }
            for (_, path) in host.requests.iter().filter(|(_, path)| path.ends_with("/git-receive-pack")) {
                told.push(format!("it pushed to {name}{path}; name repository and refs in a rule if it may"));
            }
            match preset(name, *port, host) {
                Some(preset) => drop(sets.insert(preset)),
                None => rules.extend(host.rule(name, *port)),
            }
        }
        if rules.is_empty() && sets.is_empty() {
            told.push("it reached nothing, so no profile was written".into());
            return Ok(told);
        }
        Rules::compile(rules.clone()).map_err(|faults| Failure::Program(faults.to_string()))?;
        let sets: Vec<String> = sets.into_iter().map(|name| format!("\"{name}\"")).collect();
        let text = format!(
            "# What `{}` reached when it was watched, and nothing else. Read it before you use it.\nbase = \"{}\"\npresets = [{}]\n\n{}",
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
    known.filter(|_| !host.requests.is_empty()).map(|preset| preset.name)
}

impl Host {
    /// The smallest rules for what was seen.
    fn rule(&self, name: &str, port: u16) -> Vec<Rule> {
        let rule = Rule { ports: vec![port], ..Rule::new(name) };
        let is_git = |path: &str| path.ends_with("/info/refs") || path.ends_with("/git-upload-pack");
        let mut rules = Vec::new();
        if self.requests.iter().any(|(_, path)| is_git(path)) {
            let git = Some(Git { read: true, push: Vec::new() });
            rules.push(Rule { git, ..rule.clone() });
        }
        let plain = |path: &str| !is_git(path) && !path.ends_with("/git-receive-pack");
        let others: Vec<&(String, String)> = self.requests.iter().filter(|(_, path)| plain(path)).collect();
        if !others.is_empty() {
            let methods: BTreeSet<String> = others.iter().map(|(method, _)| method.clone()).collect();
            let methods = Some(Methods::These(methods.into_iter().collect()));
            rules.push(Rule { methods, paths: paths(others.iter().map(|(_, path)| path.as_str())), ..rule });
        } else if self.requests.is_empty() && self.trouble.is_none() {
            // Nothing of it was seen but that it was reached.
            rules.push(rule);
        }
        rules
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
        Host { requests, trouble: None }
    }

    #[test]
    fn egr_20_what_was_seen_becomes_the_smallest_rules() {
        let host = seen(&[
            ("GET", "/a"),
            ("POST", "/b/c"),
            ("GET", "/r.git/info/refs"),
            ("POST", "/r.git/git-upload-pack"),
        ]);
        let rules = host.rule("site.org", 443);
        assert_eq!(rules[0].git, Some(Git { read: true, push: Vec::new() }));
        assert_eq!(rules[1].paths, Some(vec!["/a".into(), "/b/c".into()]));
        assert_eq!(rules[1].methods, Some(Methods::These(vec!["GET".into(), "POST".into()])));
        // A push is not allowed by having been seen.
        let pushed = seen(&[("POST", "/r.git/git-receive-pack")]);
        assert!(pushed.rule("site.org", 443).is_empty());
        // Many paths are drawn together.
        let many: Vec<String> = (0..100).map(|at| format!("/v1/items/{at}")).collect();
        assert_eq!(paths(many.iter().map(String::as_str)), Some(vec!["/v1/**".into()]));
        let wild: Vec<String> = (0..100).map(|at| format!("/{at}/x")).collect();
        assert_eq!(paths(wild.iter().map(String::as_str)), None);
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
