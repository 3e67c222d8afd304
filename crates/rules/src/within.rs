//! Cuts rules to hosts that somebody else may reach: what is left is what both allow.
//!
//! Invariants: nothing is allowed afterwards that was not before; a rule that refuses stays as it is; no hosts means that nothing is left;
//! hosts are compared as what they are, however they are written; a rule whose host cannot be read stays, so that the set is refused.

use std::collections::HashSet;

use crate::address;
use crate::pattern::HostPattern;
use crate::{BadHost, Host, Name, Rule};

/// A set of hosts: `api.x.y`, `*.x.y` (one label more), `**.x.y` (one or more labels more), `**` (every host), an address; each on one port,
/// or on all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// None is every host.
    host: Option<HostPattern>,
    port: Option<u16>,
}

impl Hosts {
    /// Every host, on every port.
    #[must_use]
    pub fn all() -> Self {
        Self { host: None, port: None }
    }

    /// Reads one, with `:port` behind it if it is one.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Self, BadHost> {
        let split = text.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
        let (host, port) = match split {
            Some((host, port)) => (host, Some(port_of(port)?)),
            None => (text, None),
        };
        let host = match (host, host.strip_prefix("**."), host.strip_prefix("*.")) {
            ("**", ..) => None,
            (_, Some(base), _) => Some(HostPattern::Deep(base.parse()?)),
            (_, None, Some(base)) => Some(HostPattern::One(base.parse()?)),
            (host, None, None) => Some(match host.parse()? {
                Host::Name(name) => HostPattern::Exact(name),
                // One of version 4 that is written in one of version 6 is that one.
                Host::Address(address) => HostPattern::Address(address.to_canonical()),
            }),
        };
        Ok(Self { host, port })
    }

    fn ports(&self, of: &[u16]) -> Vec<u16> {
        of.iter().copied().filter(|port| self.port.is_none_or(|own| own == *port)).collect()
    }

    fn cover(&self, other: &HostPattern) -> bool {
        self.host.as_ref().is_none_or(|host| covers(host, other))
    }
}

fn port_of(text: &str) -> Result<u16, BadHost> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0).ok_or(BadHost::Character)
}

/// Whether every host of `other` is one of `hosts`.
fn covers(hosts: &HostPattern, other: &HostPattern) -> bool {
    let is_below = |name: &Name, base: &Name| name.parents().any(|parent| parent == base.as_str());
    match (hosts, other) {
        (HostPattern::Deep(base), HostPattern::Exact(name) | HostPattern::One(name)) => {
            is_below(name, base) || (name == base && matches!(other, HostPattern::One(_)))
        }
        (HostPattern::Deep(base), HostPattern::Deep(name)) => name == base || is_below(name, base),
        (HostPattern::One(base), HostPattern::Exact(name)) => name.parents().next() == Some(base.as_str()),
        (one, other) => one == other,
    }
}

/// As it is written in a rule.
fn written(host: &HostPattern) -> String {
    match host {
        HostPattern::Exact(name) => name.to_string(),
        HostPattern::One(base) => format!("*.{base}"),
        HostPattern::Deep(base) => format!("**.{base}"),
        HostPattern::Address(address) => address.to_string(),
    }
}

/// What both allow of these rules.
#[must_use]
pub fn cut(rules: Vec<Rule>, within: &[Hosts], never: &[Hosts]) -> Vec<Rule> {
    let (mut left, mut said) = (Vec::new(), Said::of(&rules));
    for rule in rules {
        let Ok(own) = HostPattern::parse(&rule.host) else {
            left.push(rule);
            continue;
        };
        if rule.deny {
            left.push(rule);
            continue;
        }
        for hosts in within {
            // Of two sets of hosts one holds the other, or they have nothing in common.
            let host = match &hosts.host {
                None => &own,
                Some(host) if covers(host, &own) => &own,
                Some(host) if covers(&own, host) && !is_never(host) => host,
                Some(_) => continue,
            };
            let ports = hosts.ports(&rule.ports);
            if !ports.is_empty() {
                let rule = Rule { host: written(host), ports, ..rule.clone() };
                left.extend(less(rule, host, never, &mut said));
            }
        }
    }
    left
}

/// What was said already: a set of rules does not say anything twice.
#[derive(Default)]
struct Said {
    refused: HashSet<(HostPattern, u16)>,
    allowed: HashSet<Rule>,
}

impl Said {
    fn of(rules: &[Rule]) -> Self {
        let mut said = Self::default();
        for rule in rules.iter().filter(|rule| rule.deny && !rule.has_limits()) {
            let Ok(host) = HostPattern::parse(&rule.host) else { continue };
            said.refused.extend(rule.ports.iter().map(|port| (host.clone(), *port)));
        }
        said
    }
}

/// A rule without these hosts, after rules that refuse those which are a part of it.
fn less(mut rule: Rule, own: &HostPattern, never: &[Hosts], said: &mut Said) -> Vec<Rule> {
    let mut refusals = Vec::new();
    let told = rule.address.map(|address| HostPattern::Address(address.to_canonical()));
    for hosts in never {
        let mut ports = hosts.ports(&rule.ports);
        if hosts.cover(own) || told.as_ref().is_some_and(|told| hosts.cover(told)) {
            rule.ports.retain(|port| !ports.contains(port));
        } else if let Some(host) = hosts.host.as_ref().filter(|host| meets(own, host)) {
            ports.retain(|port| said.refused.insert((host.clone(), *port)));
            if !ports.is_empty() {
                refusals.push(refusal(written(host), ports));
            }
        }
    }
    rule.ports.sort_unstable();
    let bare = Rule { label: None, reason: None, ..rule.clone() };
    if !rule.ports.is_empty() && said.allowed.insert(bare) {
        refusals.push(rule);
    }
    refusals
}

/// Whether something that the one opens may be refused by the other: names lead to addresses.
fn meets(own: &HostPattern, refused: &HostPattern) -> bool {
    match (own, refused) {
        (HostPattern::Exact(_) | HostPattern::One(_) | HostPattern::Deep(_), HostPattern::Address(_)) => true,
        _ => covers(own, refused) && !is_never(refused),
    }
}

/// What no rule opens, and no rule has to refuse.
fn is_never(host: &HostPattern) -> bool {
    matches!(host, HostPattern::Exact(name) if address::is_never_name(name))
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
    fn acc_08_a_host_is_kept_out_however_it_is_written() {
        let rules = ["API.X.Example.", "**.Z.EXAMPLE.", "2606:4700:0:0::1", "203.0.113.7"];
        for (never, host) in [
            ("api.x.example", "api.x.example"),
            ("API.x.EXAMPLE.", "api.x.example"),
            ("**.X.example.", "api.x.example"),
            ("*.x.Example", "api.x.example"),
            ("A.z.example.", "a.z.example"),
            ("*.Z.example", "a.z.example"),
            ("**.A.z.example", "b.a.z.example"),
            ("XN--bcher-KVA.z.example", "xn--bcher-kva.z.example"),
            ("2606:4700::1", "2606:4700::1"),
            ("[2606:4700::1]", "2606:4700::1"),
            ("[2606:4700:0000::0.0.0.1]:443", "2606:4700::1"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("[::FFFF:cb00:7107]", "203.0.113.7"),
        ] {
            assert!(allowed(&rules, &["**"], &[], host, 443), "{host}");
            assert!(!allowed(&rules, &["**"], &[never], host, 443), "{never} {host}");
        }
        for (within, host) in [
            ("api.x.example", "api.x.example"),
            ("[2606:4700::0001]", "2606:4700::1"),
            ("a.z.example", "a.z.example"),
            ("Z.example", "z.example"),
        ] {
            let wanted = !within.starts_with('Z');
            assert_eq!(allowed(&rules, &[within], &[], host, 443), wanted, "{within} {host}");
        }
    }

    #[test]
    fn acc_08_a_name_whose_told_address_is_kept_out_is_out() {
        let rule = Rule { address: Some("10.0.0.5".parse().unwrap()), ..Rule::new("db.x.example") };
        let left = |never: &str| {
            let left = cut(vec![rule.clone()], &[Hosts::all()], &[Hosts::parse(never).unwrap()]);
            left.iter().filter(|rule| !rule.deny).count()
        };
        assert_eq!(
            [left("10.0.0.5"), left("::ffff:10.0.0.5"), left("10.0.0.5:80"), left("10.0.0.6")],
            [0, 0, 1, 1]
        );
    }

    #[test]
    fn acc_08_what_is_left_says_nothing_twice() {
        let rules = ["api.x.example", "**.x.example", "*.z.example", "**.z.example"];
        let within = ["api.x.example", "**:443", "a.z.example"];
        for (host, is_allowed) in [("api.x.example", true), ("a.z.example", false), ("b.z.example", true)] {
            assert_eq!(allowed(&rules, &within, &["a.z.example"], host, 443), is_allowed, "{host}");
        }
        let mut denied = vec![Rules::allowing("**.z.example").unwrap()];
        denied.push(refusal("A.z.example".into(), vec![443]));
        let left = cut(denied, &[Hosts::all()], &[Hosts::parse("a.z.example").unwrap()]);
        assert!(!Rules::compile(left).unwrap().connect(&"a.z.example".parse().unwrap(), 443).is_allowed());
    }

    #[test]
    fn acc_08_a_rule_that_cannot_be_read_lets_nothing_through() {
        for host in ["**.b\u{fc}cher.example", "127.0.0.1.", "0x7f.1", "*", "**"] {
            let left = cut(vec![Rule::new(host)], &[Hosts::all()], &[]);
            assert!(Rules::compile(left).is_err(), "{host}");
        }
    }

    #[test]
    fn acc_08_an_address_that_is_kept_out_is_out_by_every_name() {
        let never = Hosts::parse("203.0.113.7").unwrap();
        let rules = ["api.x.example", "*.y.example", "**.z.example", "203.0.113.8"];
        let rules = rules.iter().map(|text| Rules::allowing(text).unwrap()).collect();
        let left = Rules::compile(cut(rules, &[Hosts::parse("**").unwrap()], &[never])).unwrap();
        for host in ["api.x.example", "one.y.example", "a.b.z.example"] {
            let host = host.parse().unwrap();
            assert!(!left.dial(&host, 443, "203.0.113.7".parse().unwrap()).is_allowed(), "{host}");
            assert!(left.dial(&host, 443, "203.0.113.8".parse().unwrap()).is_allowed(), "{host}");
        }
    }

    #[test]
    fn acc_08_what_is_no_set_of_hosts_is_refused() {
        for bad in [
            "",
            "*",
            "a..b",
            "*.",
            "a:b",
            "a:0x1",
            "**.*.a",
            "a b",
            "a:0",
            "a:+443",
            "a:",
            "b\u{fc}cher.example",
            "127.1",
            "0x7f.1",
            "127.0.0.1.",
            "*.0.0.1",
            "**.127.0.0.1",
            "[::1",
            "*.[::1]",
            "***.a",
            "a.b..",
        ] {
            assert!(Hosts::parse(bad).is_err(), "{bad}");
        }
    }
}
