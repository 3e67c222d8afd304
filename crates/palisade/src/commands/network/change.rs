//! Other rules for a run at work, and which rules hold.
//!
//! Flow: a set that somebody wrote -> does it go with what the run was started with? -> the record -> the proxy, as one change.
//! Invariants: a set with one fault changes nothing; what cannot be recorded is not done; what a run was not made for
//! (addresses that are not led here, looking inside without an authority) it does not get later.

use std::net::IpAddr;
use std::path::PathBuf;

use egress::Front;
use ledger::{Decision, Draft};
use rules::{Access, HOST_LOOPBACK, Host, Hosts, Limits, Look, Rule, Rules};
use sandbox::RunId;
use sandbox::receipt::Digest;
use serde::{Deserialize, Serialize};

use super::host;
use crate::commands::record::OwnRecord;
use crate::commands::run::who;
use crate::failure::Failure;
use crate::output;

/// What such a change is called in the ledger.
const RULES: &str = "network.rules";

/// A set of rules as it is kept beside the ledger, under the hash of what is kept: a secret in a path or a name is masked, so
/// it may be no set of rules any more, and what becomes of TLS is kept with it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct Kept {
    pub(in crate::commands) rules: Vec<Rule>,
    /// For each rule; a deny has none.
    pub(in crate::commands) looks: Vec<Option<Access>>,
    pub(in crate::commands) limits: Limits,
}

impl Kept {
    /// Keeps what holds now; its hash.
    pub(super) fn of(front: &Front, record: &OwnRecord) -> Result<Digest, Failure> {
        Self::new(front.rules().to_vec(), front.limits())?.keep(record)
    }

    fn new(rules: Vec<Rule>, limits: Limits) -> Result<Self, Failure> {
        let compiled =
            Rules::compile(rules.clone()).map_err(|faults| Failure::Program(faults.to_string()))?;
        let opened = |look| if look == Look::Inspect { Access::Inspect } else { Access::Pass };
        let looks = compiled.list().map(|(_, _, look)| look.map(opened)).collect();
        Ok(Self { rules, looks, limits })
    }

    /// Some secrets are known by the host before them: the path of a webhook.
    fn masked(&self) -> Self {
        let mut rules = self.rules.clone();
        for rule in &mut rules {
            rule.paths.iter_mut().flatten().for_each(|path| *path = output::kept_path(&rule.host, path));
        }
        Self { rules, looks: self.looks.clone(), limits: self.limits }
    }

    fn keep(&self, record: &OwnRecord) -> Result<Digest, Failure> {
        let text = output::kept_document(&self.masked())?;
        let digest = Digest::of(&text);
        record.keep_rules(&digest.to_string(), &text)?;
        Ok(digest)
    }
}

/// Hosts that a run is kept within, whatever rules allow now or later; none: it is not.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds(Option<(Vec<Hosts>, Vec<Hosts>)>);

impl Bounds {
    /// What was typed: these and no others, and not these.
    pub(super) fn of(within: &[String], never: &[String]) -> Result<Self, String> {
        let hosts = |all: &[String]| {
            let one = |text: &String| {
                Hosts::parse(text).map_err(|error| format!("--within, --never: `{text}`: {error}"))
            };
            all.iter().map(one).collect::<Result<Vec<_>, _>>()
        };
        let (mut within, never) = (hosts(within)?, hosts(never)?);
        if within.is_empty() && never.is_empty() {
            return Ok(Self::default());
        }
        if within.is_empty() {
            within.push(Hosts::all());
        }
        Ok(Self(Some((within, never))))
    }

    /// What is left of rules.
    pub(super) fn keep(&self, rules: Vec<Rule>) -> Vec<Rule> {
        match &self.0 {
            Some((within, never)) => rules::cut(rules, within, never),
            None => rules,
        }
    }

    /// Whether something is left of a rule that allows.
    pub(super) fn admit(&self, rule: &Rule) -> bool {
        self.keep(vec![rule.clone()]).iter().any(|left| !left.deny)
    }
}

/// What a run was started with, as far as its rules have to go with it.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) local_only: bool,
    /// Addresses that are led to the proxy.
    pub(super) listed: Vec<IpAddr>,
    /// Whether what is inside trusts an authority of its own.
    pub(super) looks: bool,
    /// Where the daemon's settings are.
    pub(super) settings: PathBuf,
    /// Where secrets go that are lent.
    pub(super) lent: Vec<(String, u16)>,
    pub(super) bounds: Bounds,
}

/// Changes the rules of one run.
pub(super) struct Change<'a> {
    pub(super) started: Started,
    pub(super) record: &'a OwnRecord,
    pub(super) run: RunId,
}

impl Change<'_> {
    /// Puts other rules in force, or says why it does not.
    pub(super) fn to(&self, front: &mut Front, written: &[u8]) -> Result<(), String> {
        let entry =
            |decision, why: &str| Draft::new(who(), RULES, decision).on(self.run.as_str()).because(why);
        let rules = match self.started.fitting(front.is_cut(), written) {
            Ok(rules) => rules,
            Err(why) => {
                let told = self.record.append_narrowing(&entry(Decision::Refused, &why));
                return Err(told
                    .err()
                    .map_or_else(|| why.clone(), |failure| format!("{why}; and {failure}")));
            }
        };
        let unrecorded = |failure: Failure| format!("{failure}; nothing was changed");
        let kept = Kept::new(rules, front.limits()).map_err(unrecorded)?;
        let digest = kept.keep(self.record).map_err(unrecorded)?;
        let draft = entry(Decision::Allowed, "asked by its user")
            .with("rules", kept.rules.len().to_string())
            .with("rules_sha256", digest.to_string())
            .with("generation", (front.generation() + 1).to_string());
        self.record.append(&draft).map_err(unrecorded)?;
        front.change(kept.rules).map_err(|faults| faults.to_string())
    }
}

impl Started {
    /// The rules that were written, if they go with what the run was started with.
    fn fitting(&self, is_cut: bool, written: &[u8]) -> Result<Vec<Rule>, String> {
        if is_cut {
            return Err("it was cut off from the network for good".into());
        }
        let rules: Vec<Rule> = serde_json::from_slice(written).map_err(|error| error.to_string())?;
        let mut rules = self.bounds.keep(rules);
        if self.local_only {
            stays_here(&rules)?;
        }
        host::check(&rules, &self.settings).map_err(|failure| failure.to_string())?;
        self.opens(&mut rules)?;
        let compiled = Rules::compile(rules.clone()).map_err(|faults| faults.to_string())?;
        for (host, port) in &self.lent {
            let decision = host.parse::<Host>().map(|host| compiled.connect(&host, *port));
            if matches!(decision, Ok(rules::Decision::Allowed { look: Look::Pass, .. })) {
                return Err(format!(
                    "a rule passes `{host}` on unopened, and a secret that is lent goes there; name that host by itself"
                ));
            }
        }
        let is_strange = |rule: &&Rule| match rule.host.parse() {
            Ok(Host::Address(address)) => !rule.deny && !self.listed.contains(&address),
            Ok(Host::Name(_)) | Err(_) => false,
        };
        if let Some(rule) = rules.iter().find(is_strange) {
            let host = &rule.host;
            return Err(format!("`{host}` is an address; those have to be named when a run begins"));
        }
        if !self.looks && compiled.list().any(|(_, _, look)| look == Some(Look::Inspect)) {
            return Err(
                "a rule looks inside, and this run was begun without one that does, so nothing in it trusts \
                        what would be needed for that; start it anew"
                    .into(),
            );
        }
        Ok(rules)
    }

    /// Where a secret is lent, what goes there is looked into.
    fn opens(&self, rules: &mut [Rule]) -> Result<(), String> {
        let is_lent = |rule: &Rule| {
            self.lent.iter().any(|(host, port)| rule.host == *host && rule.ports.contains(port))
        };
        for rule in rules.iter_mut().filter(|rule| !rule.deny && is_lent(rule)) {
            if rule.access == Some(Access::Pass) {
                let host = &rule.host;
                return Err(format!("a rule passes `{host}` on unopened, so no secret can be put in there"));
            }
            rule.access = Some(Access::Inspect);
        }
        Ok(())
    }
}

/// Refuses rules that lead off this machine.
pub(super) fn stays_here(rules: &[Rule]) -> Result<(), String> {
    match rules.iter().find(|rule| !rule.deny && rule.host != HOST_LOOPBACK) {
        None => Ok(()),
        Some(rule) => {
            let host = &rule.host;
            Err(format!(
                "--local-only: a rule allows `{host}`, which is not on this machine; only `{HOST_LOOPBACK}` is"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> Started {
        Started {
            local_only: false,
            listed: vec!["93.184.216.34".parse().unwrap()],
            looks: true,
            settings: PathBuf::from("/nonexistent"),
            lent: vec![("api.site.test".into(), 443)],
            bounds: Bounds::default(),
        }
    }

    fn fits(started: &Started, rules: &str) -> Result<Vec<Rule>, String> {
        let read = Rules::from_toml(rules).map_err(|faults| faults.to_string())?;
        let written: Vec<&Rule> = read.list().map(|(_, rule, _)| rule).collect();
        started.fitting(false, &serde_json::to_vec(&written).unwrap())
    }

    /// SEC-16: what is kept of rules has no secret that stands in one, and can be read again.
    #[test]
    fn sec_16_rules_are_kept_without_a_secret_that_stands_in_them() {
        let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let hook = format!("/services/T0{}/B0{}/{}", "A1B2C3D4", "E5F6G7H8", "x9Y8z7W6v5U4t3S2r1Q0p9O8");
        let rules = format!(
            "[[rule]]\nhost = 'hooks.slack.com'\nmethods = ['POST']\npaths = ['{hook}', '/open/*']
            [[rule]]\nhost = 'site.test'\npaths = ['/repos/{token}/**']\nlabel = 'with {token}'\nreason = 'password={token}'
            query = {{ allow = ['{token}'] }}\n[[rule]]\nhost = 'bad.test'\ndeny = true
            [[rule]]\nhost = 'ws.test'\nwebsocket = true\nmessages = {{ out = [{{ token = ['{token}'], type = ['say'] }}] }}"
        );
        let read = Rules::from_toml(&rules).unwrap();
        let kept = Kept::new(read.list().map(|(_, rule, _)| rule.clone()).collect(), Limits::default());
        let text = output::kept_document(&kept.unwrap().masked()).unwrap();
        let said = String::from_utf8(text.clone()).unwrap();
        for part in [&token[..], &token[..20], "x9Y8z7W6v5U4t3S2r1Q0p9O8"] {
            assert!(!said.contains(part), "{said}");
        }
        let again: Kept = serde_json::from_slice(&text).unwrap();
        let hosts: Vec<&str> = again.rules.iter().map(|rule| rule.host.as_str()).collect();
        assert_eq!(hosts, ["hooks.slack.com", "site.test", "bad.test", "ws.test"]);
        let inspected = Some(Access::Inspect);
        assert_eq!(again.looks, [inspected, inspected, None, inspected]);
        assert!(said.contains("/open/*") && said.contains("***"), "{said}");
        assert!(Rules::compile(again.rules).is_err(), "so it cannot be mistaken for the rules that held");
    }

    #[test]
    fn egr_18_other_rules_have_to_go_with_what_a_run_was_started_with() {
        let all = started();
        assert!(fits(&all, "[[rule]]\nhost = 'site.test'\npaths = ['/a']").is_ok());
        assert!(fits(&all, "[[rule]]\nhost = '93.184.216.34'").is_ok());
        assert!(fits(&all, "").is_ok(), "no rules are rules");
        let opened = fits(&all, "[[rule]]\nhost = 'api.site.test'").unwrap();
        assert_eq!(opened[0].access, Some(Access::Inspect), "a secret goes there");
        for (started, rules, why) in [
            (all, "[[rule]]\nhost = '93.184.216.35'", "is an address"),
            (started(), "[[rule]]\nhost = 'api.site.test'\naccess = 'pass'", "unopened"),
            (started(), "[[rule]]\nhost = '*.site.test'", "name that host by itself"),
            (started(), "[[rule]]\nhost = 'host.palisade.local'\nports = [7717]", "daemon"),
            (
                Started { looks: false, ..started() },
                "[[rule]]\nhost = 'x.test'\npaths = ['/a']",
                "start it anew",
            ),
            (Started { local_only: true, ..started() }, "[[rule]]\nhost = 'x.test'", "--local-only"),
        ] {
            let refused = fits(&started, rules).unwrap_err();
            assert!(refused.contains(why), "{rules}: {refused}");
        }
        // What a run was kept within holds for other rules as well.
        let named = |all: &[&str]| all.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let kept = |within: &[&str], never: &[&str]| Started {
            bounds: Bounds::of(&named(within), &named(never)).unwrap(),
            ..started()
        };
        let both = "[[rule]]\nhost = 'A.site.test'\n[[rule]]\nhost = 'b.site.test.'";
        for (started, left) in [
            (kept(&["a.site.test"], &[]), &["a.site.test"][..]),
            (kept(&[], &["b.site.test"]), &["a.site.test"]),
            (kept(&["**"], &["*.site.test"]), &[]),
        ] {
            let rules = fits(&started, both).unwrap();
            assert_eq!(rules.iter().map(|rule| rule.host.as_str()).collect::<Vec<_>>(), left);
            assert!(!started.bounds.admit(&Rule::new("b.site.test")));
        }
        assert!(started().fitting(true, b"[]").is_err(), "cut off is cut off");
        assert!(started().fitting(false, b"[{\"host\": \"x.test\", \"speed\": 1}]").is_err());
    }
}
