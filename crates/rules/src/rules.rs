//! Sets of rules that were checked, and their verdicts: what one set refuses, no other can allow.

use std::net::IpAddr;
use std::sync::Arc;

use crate::address;
use crate::build;
use crate::fault::{Fault, Faults, What};
use crate::limits::Limits;
use crate::name::{HOST_LOOPBACK, Host, Name};
use crate::pattern::HostPattern;
use crate::rule::Rule;
use crate::set::{No, Set};
use crate::verdict::{Decision, Look, Request, RuleId, Why};

/// Rules that were checked as a whole. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Rules {
    /// All of them must allow. At least one.
    sets: Vec<Arc<Set>>,
}

impl Rules {
    /// Allows nothing.
    #[must_use]
    pub fn none() -> Self {
        Self { sets: vec![Arc::default()] }
    }

    /// Checks rules one by one and beside each other.
    ///
    /// # Errors
    /// Everything that is wrong with them, at once.
    pub fn compile(rules: Vec<Rule>) -> Result<Self, Faults> {
        build::set(rules).map(|set| Self { sets: vec![Arc::new(set)] })
    }

    /// Reads rules as `[[rule]]` tables and checks them.
    ///
    /// # Errors
    /// Everything that is wrong with them, at once, with lines.
    pub fn from_toml(text: &str) -> Result<Self, Faults> {
        let (rules, limits) = Self::read(text)?;
        match limits {
            None => Ok(rules),
            Some(_) => {
                let what = What::Limits("they are for a file of `--rules`, and not for here".into());
                Err(Faults(vec![Fault { rule: None, line: None, what }]))
            }
        }
    }

    /// The same with a table of [`Limits`] beside them.
    ///
    /// # Errors
    /// Everything that is wrong with them, at once, with lines.
    pub fn from_document(text: &str) -> Result<(Self, Limits), Faults> {
        Self::read(text).map(|(rules, limits)| (rules, limits.unwrap_or_default()))
    }

    fn read(text: &str) -> Result<(Self, Option<Limits>), Faults> {
        let build::Read { rules, lines, limits } = build::read(text)?;
        let rules = Self::compile(rules).map_err(|faults| faults.at_lines(&lines))?;
        Ok((rules, limits))
    }

    /// What `--allow HOST[:PORT]` means: that host on that port, or on 443; opened only if another rule has to look.
    ///
    /// # Errors
    /// Everything that is wrong with them, at once.
    pub fn allow<T: AsRef<str>>(hosts: impl IntoIterator<Item = T>) -> Result<Self, Faults> {
        let mut rules = Vec::new();
        let mut faults = Vec::new();
        for (index, text) in hosts.into_iter().enumerate() {
            match Self::allowing(text.as_ref()) {
                Ok(rule) => rules.push(rule),
                Err(what) => faults.push(Fault { rule: Some(index), line: None, what }),
            }
        }
        if faults.is_empty() { Self::compile(rules) } else { Err(Faults(faults)) }
    }

    /// The one rule that `--allow HOST[:PORT]` stands for, to be compiled beside others.
    ///
    /// # Errors
    /// If the text is no host with or without a port.
    pub fn allowing(text: &str) -> Result<Rule, What> {
        let (host, port) = match text.rsplit_once(':') {
            // Colons of an IPv6 address, not before a port.
            _ if text.parse::<IpAddr>().is_ok() || text.ends_with(']') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let pattern = HostPattern::parse(host)?;
        if port.is_none() && matches!(&pattern, HostPattern::Exact(name) if name.as_str() == HOST_LOOPBACK) {
            return Err(What::HostPorts);
        }
        let mut rule = Rule::new(host);
        if let Some(port) = port {
            let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            rule.ports = vec![port.parse().ok().filter(|port| digits && *port != 0).ok_or(What::Ports)?];
        }
        Ok(rule)
    }

    /// These, as far as the others allow it too: never more than either.
    #[must_use]
    pub fn narrowed_by(&self, others: &Self) -> Self {
        Self { sets: self.sets.iter().chain(&others.sets).cloned().collect() }
    }

    /// Whether a connection to this name could be allowed on some port; other names are not answered.
    #[must_use]
    pub fn could_allow(&self, name: &Name) -> bool {
        !address::is_never_name(name) && self.sets.iter().all(|set| set.could_allow(name))
    }

    /// Whether a person could be asked for a rule that allows this: none denies it, and it is not what is never reached, or
    /// only by a rule that somebody wrote (the host's own loopback).
    #[must_use]
    pub fn could_be_asked_for(&self, host: &Host, port: u16) -> bool {
        let is_apart = |name: &Name| address::is_never_name(name) || name.as_str() == HOST_LOOPBACK;
        !matches!(host, Host::Name(name) if is_apart(name)) && self.connect(host, port).is_unlisted()
    }

    /// Judges a connection before anything is known of what it carries.
    pub fn connect(&self, host: &Host, port: u16) -> Decision {
        self.all(|set| set.connect(host, port).map(|(rule, look, _)| (rule, look)))
    }

    /// Judges one request on a connection that is looked into, or on one without TLS.
    pub fn request(&self, host: &Host, port: u16, request: &Request<'_>) -> Decision {
        self.all(|set| set.request(host, port, request))
    }

    /// Judges the address that a host turned out to have. It must be dialled as it was judged.
    pub fn dial(&self, host: &Host, port: u16, address: IpAddr) -> Decision {
        self.all(|set| set.dial(host, port, address))
    }

    /// The rule of a verdict.
    #[must_use]
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        let set = self.sets.get(usize::try_from(id.set).ok()?)?;
        set.rules.get(usize::try_from(id.index).ok()?)
    }

    /// All rules, and what becomes of the TLS that each of them lets through, for lists; a deny has none.
    pub fn list(&self) -> impl Iterator<Item = (RuleId, &Rule, Option<Look>)> {
        (0..).zip(&self.sets).flat_map(|(number, set)| {
            (0..).zip(&set.rules).map(move |(index, rule)| {
                (RuleId { set: number, index }, rule, (!rule.deny).then(|| set.look_of(rule)))
            })
        })
    }

    fn all(&self, judge: impl Fn(&Set) -> Result<(u32, Look), No>) -> Decision {
        let mut allowed = None;
        for (number, set) in (0..).zip(&self.sets) {
            match judge(set) {
                Ok((index, look)) => {
                    let (rule, before) = allowed.unwrap_or((RuleId { set: number, index }, Look::Pass));
                    allowed = Some((rule, look.max(before)));
                }
                Err(No::Denied(index)) => {
                    return Decision::Refused(Why::Denied(RuleId { set: number, index }));
                }
                Err(No::Other(why)) => return Decision::Refused(why),
            }
        }
        match allowed {
            Some((rule, look)) => Decision::Allowed { rule, look },
            None => Decision::Refused(Why::NoRules),
        }
    }
}
