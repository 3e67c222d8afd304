//! Cuts rules to hosts that somebody else may reach: what is left is what both allow.
//!
//! Invariants: nothing is allowed afterwards that was not before; a rule that refuses stays as it is; no hosts means that nothing is left.

use crate::{BadHost, Host, Rule};

/// A set of hosts: `api.x.y`, `*.x.y` (one label more), `**.x.y` (one or more labels more), `**` (every host), an address; each on one port,
/// or on all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    host: String,
    port: Option<u16>,
}

impl Hosts {
    /// Reads one, with `:port` behind it if it is one.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Self, BadHost> {
        let split = text.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
        let (host, port) = match split {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| BadHost::Character)?)),
            None => (text, None),
        };
        let name = host.strip_prefix("**.").or_else(|| host.strip_prefix("*.")).unwrap_or(host);
        if host != "**" {
            name.parse::<Host>()?;
        }
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        Ok(Self { host, port })
    }

    fn ports(&self, of: &[u16]) -> Vec<u16> {
        of.iter().copied().filter(|port| self.port.is_none_or(|own| own == *port)).collect()
    }
}

/// Whether every host of `other` is one of `hosts`.
fn covers(hosts: &str, other: &str) -> bool {
    if hosts == "**" || hosts == other {
        return true;
    }
    let is_address = |text: &str| matches!(text.parse(), Ok(Host::Address(_)));
    if is_address(hosts) || is_address(other) {
        return false;
    }
    let below =
        |name: &str| other.strip_suffix(name).and_then(|rest| rest.strip_suffix('.')).map(str::to_owned);
    if let Some(name) = hosts.strip_prefix("**.") {
        return below(name).is_some_and(|more| !more.is_empty());
    }
    let Some(name) = hosts.strip_prefix("*.") else { return false };
    below(name).is_some_and(|more| !more.is_empty() && !more.contains(['.', '*']))
}

/// What both allow of these rules.
#[must_use]
pub fn cut(rules: Vec<Rule>, within: &[Hosts], never: &[Hosts]) -> Vec<Rule> {
    let mut left = Vec::new();
    for rule in rules {
        if rule.deny {
            left.push(rule);
            continue;
        }
        for hosts in within {
            // Of two sets of hosts one holds the other, or they have nothing in common.
            let own = rule.host.trim_end_matches('.').to_ascii_lowercase();
            let host = match (covers(&hosts.host, &own), covers(&own, &hosts.host)) {
                (true, _) => rule.host.clone(),
                (false, true) => hosts.host.clone(),
                (false, false) => continue,
            };
            let ports = hosts.ports(&rule.ports);
            if !ports.is_empty() {
                left.extend(less(Rule { host, ports, ..rule.clone() }, never));
            }
        }
    }
    left
}

/// A rule without these hosts, and with rules that refuse those which are a part of it.
fn less(mut rule: Rule, never: &[Hosts]) -> Vec<Rule> {
    let mut refusals = Vec::new();
    for hosts in never {
        let ports = hosts.ports(&rule.ports);
        if covers(&hosts.host, &rule.host.to_ascii_lowercase()) {
            rule.ports.retain(|port| !ports.contains(port));
        } else if covers(&rule.host, &hosts.host) && !ports.is_empty() {
            refusals.push(refusal(hosts.host.clone(), ports));
        }
    }
    match rule.ports.is_empty() {
        true => Vec::new(),
        false => refusals.into_iter().chain([rule]).collect(),
    }
}

fn refusal(host: String, ports: Vec<u16>) -> Rule {
    Rule {
        host,
        ports,
        access: None,
        methods: None,
        paths: None,
        query: None,
        websocket: None,
        messages: None,
        git: None,
        registry: None,
        answer: None,
        deny: true,
        address: None,
        label: None,
        reason: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rules;

    fn allowed(rules: &[&str], within: &[&str], never: &[&str], host: &str, port: u16) -> bool {
        let parsed = |all: &[&str]| all.iter().map(|text| Hosts::parse(text).unwrap()).collect::<Vec<_>>();
        let rules = rules.iter().map(|text| Rules::allowing(text).unwrap()).collect();
        let left = cut(rules, &parsed(within), &parsed(never));
        let left = Rules::compile(left).unwrap();
        left.connect(&host.parse().unwrap(), port).is_allowed()
    }

    #[test]
    fn acc_08_rules_that_are_cut_allow_what_both_do() {
        let rules = ["api.x.example", "*.y.example", "**.z.example", "api.x.example:8443", "203.0.113.7"];
        for (within, host, port, is_allowed) in [
            ("**", "api.x.example", 443, true),
            ("**", "a.b.z.example", 443, true),
            ("**", "203.0.113.7", 443, true),
            ("**", "other.example", 443, false),
            ("api.x.example", "api.x.example", 443, true),
            ("api.x.example", "api.x.example", 8443, true),
            ("api.x.example:8443", "api.x.example", 443, false),
            ("api.x.example:8443", "api.x.example", 8443, true),
            ("api.x.example", "one.y.example", 443, false),
            ("one.y.example", "one.y.example", 443, true),
            ("one.y.example", "two.y.example", 443, false),
            ("**.y.example", "two.y.example", 443, true),
            ("**.y.example", "deep.two.y.example", 443, false),
            ("*.z.example", "a.z.example", 443, true),
            ("*.z.example", "a.b.z.example", 443, false),
            ("**.b.z.example", "a.b.z.example", 443, true),
            ("**.b.z.example", "b.z.example", 443, false),
            ("203.0.113.7", "203.0.113.7", 443, true),
            ("203.0.113.8", "203.0.113.7", 443, false),
            ("API.X.example", "api.x.example", 443, true),
        ] {
            assert_eq!(allowed(&rules, &[within], &[], host, port), is_allowed, "{within} {host}:{port}");
        }
        assert!(!allowed(&rules, &[], &[], "api.x.example", 443), "none means nothing");
    }

    #[test]
    fn acc_08_what_is_kept_out_is_out() {
        let rules = ["api.x.example", "**.z.example"];
        for (never, host, is_allowed) in [
            ("api.x.example", "api.x.example", false),
            ("api.x.example:8443", "api.x.example", true),
            ("**.x.example", "api.x.example", false),
            ("a.z.example", "a.z.example", false),
            ("a.z.example", "b.z.example", true),
            ("*.z.example", "b.z.example", false),
            ("*.z.example", "c.b.z.example", true),
            ("**", "api.x.example", false),
        ] {
            assert_eq!(allowed(&rules, &["**"], &[never], host, 443), is_allowed, "{never} {host}");
        }
    }

    #[test]
    fn acc_08_what_is_no_set_of_hosts_is_refused() {
        for bad in ["", "*", "a..b", "*.", "a:b", "a:0x1", "**.*.a", "a b"] {
            assert!(Hosts::parse(bad).is_err(), "{bad}");
        }
    }
}
