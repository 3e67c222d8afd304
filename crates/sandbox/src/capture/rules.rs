//! Which packets of a sandbox go where, as rules of the kernel's packet filter.
//!
//! Questions for names go to the socket for names whatever server they are for; connections to addresses that stand for
//! names, or are listed, go to the socket for connections; the sandbox's own loopback stays as it is; the rest is refused
//! at once, since a program should not wait for what will not come. So are connections that come faster than anybody needs
//! them: before anything is kept for them, and before a process outside has to do anything about them.

use std::io;
use std::net::{IpAddr, Ipv6Addr};

use rustix::net::netlink;

use super::netlink::{Attributes, Messages};
use super::{NAMES_V4, NAMES_V6};

/// As the kernel's headers have them.
mod kernel {
    pub(super) const BATCH_BEGIN: u16 = 16;
    pub(super) const BATCH_END: u16 = 17;
    pub(super) const SUBSYSTEM: u16 = 10;
    pub(super) const NEW_TABLE: u16 = SUBSYSTEM << 8;
    pub(super) const NEW_CHAIN: u16 = (SUBSYSTEM << 8) | 3;
    pub(super) const NEW_RULE: u16 = (SUBSYSTEM << 8) | 6;
    pub(super) const INET: u8 = 1;
    pub(super) const CREATE: u16 = 0x400;
    pub(super) const APPEND: u16 = 0x800;
    pub(super) const HOOK_OUTPUT: u32 = 3;
    /// Where addresses are changed, before anything is filtered.
    pub(super) const CHANGING: i32 = -100;
    pub(super) const FILTERING: i32 = 0;
    pub(super) const FAMILY: u32 = 15;
    pub(super) const PROTOCOL: u32 = 16;
    pub(super) const NETWORK_HEADER: u32 = 1;
    pub(super) const TRANSPORT_HEADER: u32 = 2;
    pub(super) const ACCEPT: u32 = 1;
    pub(super) const JUMP: u32 = 0xffff_fffd;
    /// Packets, not bytes; and what is over, not what is within.
    pub(super) const PACKETS: u32 = 0;
    pub(super) const OVER: u32 = 1;
    pub(super) const RESET: u32 = 1;
    pub(super) const UNREACHABLE: u32 = 2;
    pub(super) const PROHIBITED: u8 = 3;
}

const TABLE: &str = "palisade";
const LEAD: &str = "lead";
const REFUSE: &str = "refuse";
/// Also the word by which whoever is told knows it.
const FLOOD: &str = "flood";
const V4: u8 = 2;
const V6: u8 = 10;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
const RST: u8 = 4;
const ACK: u8 = 16;
const NAMES_PORT: u16 = 53;

/// New connections in a second, as fast as a proxy takes them, and how many of them at once. More are refused here.
const PACE: u64 = 2_000;
const AT_ONCE: u32 = 2_048;
/// Of those that are refused for that, how many in a second are told.
const TOLD: u64 = 4;

/// A rule in the making: what it compares, then what it does.
#[derive(Default)]
struct Rule(Attributes);

impl Rule {
    fn expression(self, name: &str, data: Attributes) -> Self {
        let one = Attributes::default().word(1, name).nested(2, data);
        Self(self.0.nested(1, one))
    }

    fn equals(self, value: &[u8]) -> Self {
        let value = Attributes::default().with(1, value);
        self.expression("cmp", Attributes::default().number(1, 1).number(2, 0).nested(3, value))
    }

    fn about(self, key: u32, value: u8) -> Self {
        self.expression("meta", Attributes::default().number(1, 1).number(2, key)).equals(&[value])
    }

    fn header(self, which: u32, offset: u32, value: &[u8]) -> Self {
        let length = u32::try_from(value.len()).unwrap_or_default();
        let place = Attributes::default().number(1, 1).number(2, which).number(3, offset).number(4, length);
        self.expression("payload", place).equals(value)
    }

    fn family(self, family: u8) -> Self {
        self.about(kernel::FAMILY, family)
    }

    fn protocol(self, protocol: u8) -> Self {
        self.about(kernel::PROTOCOL, protocol)
    }

    fn with_port(self, port: u16) -> Self {
        self.header(kernel::TRANSPORT_HEADER, 2, &port.to_be_bytes())
    }

    /// To addresses that begin with these bytes.
    fn to(self, begin: &Begin) -> Self {
        match begin {
            Begin::V4(bytes) => self.family(V4).header(kernel::NETWORK_HEADER, 16, bytes),
            Begin::V6(bytes) => self.family(V6).header(kernel::NETWORK_HEADER, 24, bytes),
        }
    }

    /// Goes to this port of the loopback instead.
    fn redirect(self, port: u16) -> Self {
        let value = Attributes::default().with(1, &port.to_be_bytes());
        let load = Attributes::default().number(1, 1).nested(2, value);
        self.expression("immediate", load).expression("redir", Attributes::default().number(1, 1))
    }

    fn accept(self) -> Self {
        let verdict = Attributes::default().nested(2, Attributes::default().number(1, kernel::ACCEPT));
        self.expression("immediate", Attributes::default().number(1, 0).nested(2, verdict))
    }

    /// Goes on with another chain.
    fn jump(self, chain: &str) -> Self {
        let to = Attributes::default().number(1, kernel::JUMP).word(2, chain);
        let verdict = Attributes::default().nested(2, to);
        self.expression("immediate", Attributes::default().number(1, 0).nested(2, verdict))
    }

    /// Only if there are no more than so many in a second.
    fn within(self, pace: u64, at_once: u32) -> Self {
        self.limit(pace, at_once, 0)
    }

    /// Only if there are more.
    fn over(self, pace: u64, at_once: u32) -> Self {
        self.limit(pace, at_once, kernel::OVER)
    }

    fn limit(self, pace: u64, at_once: u32, flags: u32) -> Self {
        const SECOND: u64 = 1;
        let limit = Attributes::default().with(1, &pace.to_be_bytes()).with(2, &SECOND.to_be_bytes());
        let limit = limit.number(3, at_once).number(4, kernel::PACKETS).number(5, flags);
        self.expression("limit", limit)
    }

    /// Tells of it, in a word if there is one.
    fn log(self, group: u16, word: Option<&str>) -> Self {
        let log = Attributes::default().with(1, &group.to_be_bytes());
        let log = word.into_iter().fold(log, |log, word| log.word(2, word));
        self.expression("log", log.number(3, 64).with(4, &[0, 1]))
    }

    fn reset(self) -> Self {
        self.expression("reject", Attributes::default().number(1, kernel::RESET).with(2, &[0]))
    }

    fn unreachable(self) -> Self {
        let how = Attributes::default().number(1, kernel::UNREACHABLE).with(2, &[kernel::PROHIBITED]);
        self.expression("reject", how)
    }
}

/// How addresses begin; as long as an address, it is one.
enum Begin {
    V4(Vec<u8>),
    V6(Vec<u8>),
}

impl From<IpAddr> for Begin {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::V4(address.octets().to_vec()),
            IpAddr::V6(address) => Self::V6(address.octets().to_vec()),
        }
    }
}

/// Puts the rules in place, all at once. Ports: of the sockets for connections and for names. `tells`: whether there is
/// somebody to tell of what is refused. A kernel that cannot count how fast packets come does without that.
pub(super) fn load(v4: (u16, u16), v6: Option<(u16, u16)>, listed: &[IpAddr], tells: bool) -> io::Result<()> {
    let missing = [libc::ENOENT, libc::EOPNOTSUPP];
    match loaded(v4, v6, listed, tells, true) {
        Err(error) if error.raw_os_error().is_some_and(|number| missing.contains(&number)) => {
            loaded(v4, v6, listed, tells, false)
        }
        other => other,
    }
}

fn loaded(
    v4: (u16, u16),
    v6: Option<(u16, u16)>,
    listed: &[IpAddr],
    tells: bool,
    paced: bool,
) -> io::Result<()> {
    let told = |rule: Rule, word| if tells { rule.log(super::netlink::REFUSED, word) } else { rule };
    let flags = |flags: u8| Rule::default().protocol(TCP).header(kernel::TRANSPORT_HEADER, 13, &[flags]);
    let mut lead = vec![Rule::default().family(V4).protocol(UDP).with_port(NAMES_PORT).redirect(v4.1)];
    if let Some((_, names)) = v6 {
        lead.push(Rule::default().family(V6).protocol(UDP).with_port(NAMES_PORT).redirect(names));
    }
    let mut flood = Vec::new();
    if paced {
        // The first packet of a connection is all that comes here. What stays inside is nobody's business.
        lead.extend(own().map(|begin| Rule::default().to(&begin).accept()));
        // What refuses comes here too, while what it refuses is still being looked at.
        lead.extend([RST, RST | ACK].map(|which| flags(which).accept()));
        lead.push(Rule::default().protocol(TCP).over(PACE, AT_ONCE).jump(FLOOD));
        flood.push(told(Rule::default().within(TOLD, 1), Some(FLOOD)));
        flood.push(Rule::default().protocol(TCP).reset());
    }
    let led = || {
        let names = [Begin::V4(NAMES_V4.to_vec()), Begin::V6(NAMES_V6.to_vec())];
        names.into_iter().chain(listed.iter().copied().map(Begin::from))
    };
    for begin in led() {
        let port = match (&begin, v6) {
            (Begin::V4(_), _) => v4.0,
            (Begin::V6(_), Some((connections, _))) => connections,
            (Begin::V6(_), None) => continue,
        };
        lead.push(Rule::default().to(&begin).protocol(TCP).redirect(port));
    }
    let mut refuse: Vec<Rule> = own().chain(led()).map(|begin| Rule::default().to(&begin).accept()).collect();
    // An answer about a name goes back to whatever address was asked from.
    let names = [(V4, Some(v4.1)), (V6, v6.map(|(_, names)| names))];
    for (family, port) in names.into_iter().filter_map(|(family, port)| Some((family, port?))) {
        let from = Rule::default().family(family).protocol(UDP);
        refuse.push(from.header(kernel::TRANSPORT_HEADER, 0, &port.to_be_bytes()).accept());
    }
    // What refuses is a packet too, and goes to an address that is as far away as the one that was refused.
    refuse.extend([RST, RST | ACK].map(|which| flags(which).accept()));
    let unreached = |protocol, kind| {
        Rule::default().protocol(protocol).header(kernel::TRANSPORT_HEADER, 0, &[kind]).accept()
    };
    refuse.extend([unreached(ICMP, 3), unreached(ICMP_V6, 1)]);
    refuse.push(told(Rule::default().protocol(TCP), None).reset());
    refuse.push(told(Rule::default(), None).unreachable());

    let mut messages = Messages::default();
    let header = |family: u8, resource: u16| {
        let [high, low] = resource.to_be_bytes();
        [family, 0, high, low]
    };
    let none = Attributes::default();
    messages.add(kernel::BATCH_BEGIN, 0, &header(0, kernel::SUBSYSTEM), &none);
    let inet = header(kernel::INET, 0);
    messages.ask(kernel::NEW_TABLE, kernel::CREATE, &inet, &Attributes::default().word(1, TABLE));
    for (name, kind, priority) in [(LEAD, "nat", kernel::CHANGING), (REFUSE, "filter", kernel::FILTERING)] {
        let hook = Attributes::default().number(1, kernel::HOOK_OUTPUT).with(2, &priority.to_be_bytes());
        let chain = Attributes::default().word(1, TABLE).word(3, name).nested(4, hook).word(7, kind);
        messages.ask(kernel::NEW_CHAIN, kernel::CREATE, &inet, &chain);
    }
    if !flood.is_empty() {
        let chain = Attributes::default().word(1, TABLE).word(3, FLOOD);
        messages.ask(kernel::NEW_CHAIN, kernel::CREATE, &inet, &chain);
    }
    let rules = [(FLOOD, flood), (LEAD, lead), (REFUSE, refuse)];
    let rules = rules.into_iter().flat_map(|(chain, rules)| rules.into_iter().map(move |rule| (chain, rule)));
    for (chain, Rule(expressions)) in rules {
        let rule = Attributes::default().word(1, TABLE).word(2, chain).nested(4, expressions);
        messages.ask(kernel::NEW_RULE, kernel::CREATE | kernel::APPEND, &inet, &rule);
    }
    messages.add(kernel::BATCH_END, 0, &header(0, kernel::SUBSYSTEM), &none);
    messages.send(Some(netlink::NETFILTER))
}

/// The sandbox's own loopback.
fn own() -> impl Iterator<Item = Begin> {
    [Begin::V4(vec![127]), Begin::V6(Ipv6Addr::LOCALHOST.octets().to_vec())].into_iter()
}
