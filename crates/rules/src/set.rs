//! One set of rules, and what it makes of names, connections, requests and addresses.
//!
//! Rules are found by name, then by each suffix of the name that is as long as some wildcard's: never by looking at
//! all of them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address::{self, Kind};
use crate::deed::Deed;
use crate::git;
use crate::name::{HOST_LOOPBACK, Host, Name};
use crate::pattern::HostPattern;
use crate::rule::{Access, Rule};
use crate::site::{Miss, Side, Site};
use crate::trie::Reading;
use crate::verdict::{Look, Request, Why};

/// One set as it was written, and where to find what.
#[derive(Debug, Default)]
pub(crate) struct Set {
    pub(crate) rules: Vec<Rule>,
    names: HashMap<Box<str>, Spot>,
    addresses: HashMap<IpAddr, Ports>,
    /// The fewest and the most labels that a wildcard has behind its star.
    wild: Option<(usize, usize)>,
}

/// What is said about a name and about those under it.
#[derive(Debug, Default)]
struct Spot {
    exact: Ports,
    one: Ports,
    deep: Ports,
}

/// Sites, sorted by port.
#[derive(Debug, Default)]
struct Ports(Vec<(u16, Site)>);

/// A refusal by a set that does not know its own number.
#[derive(Debug)]
pub(crate) enum No {
    Denied(u32),
    Other(Why),
}

impl From<Why> for No {
    fn from(why: Why) -> Self {
        Self::Other(why)
    }
}

impl Ports {
    fn at(&self, port: u16) -> Option<&Site> {
        let place = self.0.binary_search_by_key(&port, |(port, _)| *port).ok()?;
        self.0.get(place).map(|(_, site)| site)
    }

    fn make(&mut self, port: u16) -> Option<&mut Site> {
        let place = match self.0.binary_search_by_key(&port, |(port, _)| *port) {
            Ok(place) => place,
            Err(place) => {
                self.0.insert(place, (port, Site::new()));
                place
            }
        };
        self.0.get_mut(place).map(|(_, site)| site)
    }
}

impl Set {
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        Self { rules, ..Self::default() }
    }

    /// The site of exactly this pattern and port, made if need be.
    pub(crate) fn make(&mut self, pattern: &HostPattern, port: u16) -> Option<&mut Site> {
        let spot = |name: &Name| -> Box<str> { name.as_str().into() };
        match pattern {
            HostPattern::Address(address) => self.addresses.entry(*address).or_default().make(port),
            HostPattern::Exact(name) => self.names.entry(spot(name)).or_default().exact.make(port),
            HostPattern::One(base) | HostPattern::Deep(base) => {
                let labels = labels(base.as_str());
                let (fewest, most) = self.wild.unwrap_or((labels, labels));
                self.wild = Some((fewest.min(labels), most.max(labels)));
                let spot = self.names.entry(spot(base)).or_default();
                let is_one = matches!(pattern, HostPattern::One(_));
                if is_one { &mut spot.one } else { &mut spot.deep }.make(port)
            }
        }
    }

    /// The sites whose patterns have every host that this pattern has, this pattern's own too.
    pub(crate) fn covering(&self, pattern: &HostPattern, port: u16) -> Vec<&Site> {
        let mut ports = Vec::new();
        match pattern {
            HostPattern::Address(address) => ports.extend(self.addresses.get(address)),
            HostPattern::Exact(name) => self.each(name, |found| ports.push(found)),
            HostPattern::One(base) | HostPattern::Deep(base) => {
                if let Some(spot) = self.names.get(base.as_str()) {
                    ports.push(&spot.deep);
                    if matches!(pattern, HostPattern::One(_)) {
                        ports.push(&spot.one);
                    }
                }
                let above = base.parents().filter_map(|parent| self.names.get(parent));
                ports.extend(above.map(|spot| &spot.deep));
            }
        }
        ports.into_iter().filter_map(|ports| ports.at(port)).collect()
    }

    /// Gives every list of sites that a name belongs to.
    fn each<'a>(&'a self, name: &Name, mut give: impl FnMut(&'a Ports)) {
        if let Some(spot) = self.names.get(name.as_str()) {
            give(&spot.exact);
        }
        let Some((fewest, most)) = self.wild else { return };
        let text = name.as_str();
        let first_dot = text.find('.');
        // From the right, so that a name of many labels costs no more than the longest wildcard.
        for (count, (dot, _)) in (1..=most).zip(text.rmatch_indices('.')) {
            if count < fewest {
                continue;
            }
            let Some(spot) = text.get(dot + 1..).and_then(|parent| self.names.get(parent)) else { continue };
            if first_dot == Some(dot) {
                give(&spot.one);
            }
            give(&spot.deep);
        }
    }

    /// Gives every list of sites that a host belongs to.
    fn lists(&self, host: &Host) -> Vec<&Ports> {
        let mut lists = Vec::new();
        match host {
            Host::Name(name) => self.each(name, |ports| lists.push(ports)),
            Host::Address(address) => lists.extend(self.addresses.get(address)),
        }
        lists
    }

    pub(crate) fn could_allow(&self, name: &Name) -> bool {
        let mut lists = Vec::new();
        self.each(name, |ports| lists.push(ports));
        let denied = |port: u16| {
            let mut sites = lists.iter().filter_map(|ports| ports.at(port));
            sites.any(|site| site.deny.whole.is_some())
        };
        let mut sites = lists.iter().flat_map(|ports| &ports.0);
        sites.any(|(port, site)| site.allows.is_some() && !denied(*port))
    }

    /// A connection: the rule, whether it is looked into, and the sites that have a say in its requests.
    pub(crate) fn connect(&self, host: &Host, port: u16) -> Result<(u32, Look, Vec<&Site>), No> {
        check_host(host)?;
        let lists = self.lists(host);
        let sites: Vec<&Site> = lists.iter().filter_map(|ports| ports.at(port)).collect();
        if let Some(rule) = sites.iter().find_map(|site| site.deny.whole) {
            return Err(No::Denied(rule));
        }
        let Some(rule) = allowing(&sites).find_map(|site| site.allows) else {
            let elsewhere = lists.iter().flat_map(|ports| &ports.0).any(|(_, site)| site.allows.is_some());
            return Err(self.unknown(host, elsewhere).into());
        };
        let passed = allowing(&sites).any(|site| site.pass.is_some());
        let look = !passed && sites.iter().any(|site| site.look.is_some());
        Ok((rule, if look { Look::Inspect } else { Look::Pass }, sites))
    }

    fn unknown(&self, host: &Host, elsewhere: bool) -> Why {
        match host {
            Host::Address(address) => match address::kind(*address) {
                Kind::Private(reason) if !elsewhere => return Why::Private(reason),
                Kind::Private(_) | Kind::Public | Kind::Never(_) => {}
            },
            Host::Name(_) => {}
        }
        match (self.rules.is_empty(), elsewhere) {
            (true, _) => Why::NoRules,
            (false, true) => Why::Port,
            (false, false) => Why::Host,
        }
    }

    pub(crate) fn request(&self, host: &Host, port: u16, request: &Request<'_>) -> Result<(u32, Look), No> {
        let (_, look, sites) = self.connect(host, port)?;
        let odd = !request.method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        // A WebSocket over HTTP/2 is a CONNECT; what it asks for is judged as a WebSocket.
        let never = matches!(request.method, "CONNECT" if !request.websocket) || request.method == "TRACE";
        if odd || never || request.method.is_empty() {
            return Err(Why::OddMethod.into());
        }
        let meaning = request.path.meaning();
        let of_git = Of::request(request);
        self.denied(&sites, request, &meaning, &of_git)?;
        if let Some(rule) = allowing(&sites).find_map(|site| site.allow.whole) {
            return Ok((rule, look));
        }
        let mut miss = Miss::default();
        match self.allowed(&sites, request, &meaning, &of_git, &mut miss) {
            Some(rule) => Ok((rule, look)),
            None => Err(why(host, request, miss).into()),
        }
    }

    fn denied(&self, sites: &[&Site], request: &Request<'_>, meaning: &str, of_git: &Of) -> Result<(), No> {
        for site in sites {
            if let Some(rule) = site.deny.plain(&self.rules, request, meaning, &mut Miss::default()) {
                return Err(No::Denied(rule));
            }
            let Some(side) = &site.deny.git else { continue };
            match of_git {
                Of::Nothing => {}
                Of::Act(act) => {
                    if let Some(rule) = side.rule_for(act, Reading::Generous) {
                        return Err(No::Denied(rule));
                    }
                }
                // What cannot be held against a deny is not let past it.
                Of::Unread => return Err(Why::UnreadPush.into()),
                Of::LooksAlike => return Err(Why::Path.into()),
            }
        }
        Ok(())
    }

    fn allowed(
        &self,
        sites: &[&Site],
        request: &Request<'_>,
        meaning: &str,
        of_git: &Of,
        miss: &mut Miss,
    ) -> Option<u32> {
        let mut sides = allowing(sites).map(|site| &site.allow);
        let knows_git = sides.clone().any(|side| side.git.is_some());
        match of_git {
            // Where a rule speaks of git, other rules do not open it by accident.
            Of::Act(act) if knows_git => {
                return sides
                    .filter_map(|side| side.git.as_ref())
                    .find_map(|git| git.rule_for(act, Reading::Exact));
            }
            Of::Unread if knows_git => {
                *miss = Miss::UnreadPush;
                return None;
            }
            Of::LooksAlike if knows_git => return None,
            Of::Nothing | Of::Act(_) | Of::Unread | Of::LooksAlike => {}
        }
        sides.find_map(|side| self.by_side(side, request, meaning, miss))
    }

    fn by_side(&self, side: &Side, request: &Request<'_>, meaning: &str, miss: &mut Miss) -> Option<u32> {
        if let Some(rule) = side.package(request) {
            return Some(rule);
        }
        if request.path.has_encoded_slash() {
            *miss = Miss::EncodedSlash.max(*miss);
            return None;
        }
        side.plain(&self.rules, request, meaning, miss)
    }

    pub(crate) fn dial(&self, host: &Host, port: u16, address: IpAddr) -> Result<(u32, Look), No> {
        let (rule, look, sites) = self.connect(host, port)?;
        let pinned = sites.iter().find_map(|site| site.pinned.get(&address));
        if is_host_loopback(host) {
            let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            return if loopback.contains(&address) {
                Ok((rule, look))
            } else {
                Err(Why::OtherAddress.into())
            };
        }
        if matches!(host, Host::Address(own) if *own != address) {
            return Err(Why::OtherAddress.into());
        }
        // An address that is denied is not reached by a name of it either.
        let denied = self.addresses.get(&address).and_then(|ports| ports.at(port));
        if let Some(rule) = denied.and_then(|site| site.deny.whole) {
            return Err(No::Denied(rule));
        }
        match (address::kind(address), pinned) {
            (Kind::Never(reason), _) => Err(Why::Never(reason).into()),
            (Kind::Public | Kind::Private(_), Some(rule)) => Ok((*rule, look)),
            (Kind::Private(reason), None) => Err(Why::Private(reason).into()),
            (Kind::Public, None) => {
                let rule = allowing(&sites).find_map(|site| site.unpinned).ok_or(Why::OtherAddress)?;
                Ok((rule, look))
            }
        }
    }

    /// What becomes of TLS that this rule lets through on its first port.
    pub(crate) fn look_of(&self, rule: &Rule) -> Look {
        let Ok(pattern) = HostPattern::parse(&rule.host) else { return Look::Inspect };
        let sites = rule.ports.first().map(|port| self.covering(&pattern, *port)).unwrap_or_default();
        let looked = sites.iter().any(|site| site.look.is_some());
        if rule.access == Some(Access::Pass) || !looked { Look::Pass } else { Look::Inspect }
    }
}

/// The sites that can allow. A name whose address a rule tells is judged by such rules only: what an administrator
/// opened of a private host, no wildcard opens further.
fn allowing<'a>(sites: &[&'a Site]) -> impl Iterator<Item = &'a Site> + Clone {
    let told = sites.iter().any(|site| !site.pinned.is_empty());
    sites.iter().copied().filter(move |site| !told || !site.pinned.is_empty())
}

/// What a request is to git.
enum Of {
    Nothing,
    Act(git::Act),
    /// A push whose refs nobody read.
    Unread,
    /// Nearly a request of git's, but none.
    LooksAlike,
}

impl Of {
    /// The caller is believed only what stands in a body.
    fn request(request: &Request<'_>) -> Self {
        if !git::is_place(&request.path) {
            return Self::Nothing;
        }
        let Some(mut act) = git::act(request.method, &request.path, request.query) else {
            return Self::LooksAlike;
        };
        if request.websocket {
            return Self::LooksAlike;
        }
        if git::needs_refs(request.method, &request.path) {
            match &request.git {
                Some(git::Act { verb: verb @ git::Verb::Push { .. }, .. }) => act.verb = verb.clone(),
                Some(git::Act { verb: git::Verb::Read, .. }) | None => return Self::Unread,
            }
        }
        Self::Act(act)
    }
}

/// What is never reached, whatever rules say.
fn check_host(host: &Host) -> Result<(), Why> {
    match host {
        Host::Name(name) if address::is_never_name(name) => Err(Why::NeverName),
        Host::Name(_) => Ok(()),
        Host::Address(address) => match address::kind(*address) {
            Kind::Never(reason) => Err(Why::Never(reason)),
            Kind::Public | Kind::Private(_) => Ok(()),
        },
    }
}

/// The one way to a loopback: the host's own, by the name that we gave it.
fn is_host_loopback(host: &Host) -> bool {
    matches!(host, Host::Name(name) if name.as_str() == HOST_LOOPBACK)
}

/// Why no rule allows a request, in the words that help most.
fn why(host: &Host, request: &Request<'_>, miss: Miss) -> Why {
    match miss {
        Miss::Path | Miss::Method | Miss::EncodedSlash => match Deed::of(host, request) {
            Some(deed) => Why::Deed(deed),
            None => miss.why(),
        },
        Miss::WebSocket | Miss::Query | Miss::OddQuery | Miss::UnreadPush => miss.why(),
    }
}

fn labels(name: &str) -> usize {
    name.bytes().filter(|byte| *byte == b'.').count() + 1
}
