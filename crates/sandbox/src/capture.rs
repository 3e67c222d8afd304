//! The way out of a sandbox that has none: everything that it sends ends at sockets that are held outside.
//!
//! Flow: in the new network namespace, routes that make every address local -> sockets on its loopback -> rules that
//! lead name queries and connections to them -> [`Sockets`], handed to the launcher. Nobody inside can change any of
//! it, because nobody inside has a privilege. Invariant: the namespace has no device but its loopback, so what no rule
//! leads to a socket goes nowhere. Not here: who may reach what; whoever holds the sockets decides that.

mod netlink;
mod rules;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

/// Where programs inside ask for names, as `resolv.conf` says.
pub const RESOLVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Addresses that stand for names: all that begin with these bytes.
pub const NAMES_V4: [u8; 2] = [198, 18];
/// The same in version 6: a range of those that are nobody's beyond one's own network.
pub const NAMES_V6: [u8; 8] = [0xfd, 0x70, 0x61, 0x6c, 0x69, 0x73, 0x61, 0x64];

/// Connections that are waiting to be taken; more are answered late, not lost.
const BACKLOG: i32 = 1024;

/// How many connections into a sandbox there can be at once.
///
/// A socket belongs to the namespace that it was made in, and none can be made there once the sandbox stands: so they are
/// made before, and whoever holds them uses each again and again.
pub const WAYS_IN: usize = 64;

/// How a sandbox's network is led.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Captured {
    /// Addresses that may be connected to as they are, besides those that stand for names.
    pub(crate) listed: Vec<IpAddr>,
    /// Whether there are to be ways in.
    pub(crate) ways_in: bool,
}

/// What is held outside: they belong to the sandbox's network namespace and keep it there.
#[derive(Debug)]
pub struct Sockets {
    /// Listens for connections to addresses of version 4.
    pub connections_v4: OwnedFd,
    /// The same for version 6; a kernel without it has none.
    pub connections_v6: Option<OwnedFd>,
    /// Gets questions for names, by version 4.
    pub names_v4: OwnedFd,
    /// The same by version 6.
    pub names_v6: Option<OwnedFd>,
    /// Tells which packets were refused, as the kernel's log has them; a kernel without one tells nothing.
    pub refusals: Option<OwnedFd>,
    /// Answers which socket of the sandbox has which addresses; a kernel without that has none.
    pub sockets: Option<OwnedFd>,
    /// Sockets that nothing was done with: what they connect to is inside. As many of version 4 as of version 6, in this
    /// order, or none of the latter.
    pub ways_in: Vec<OwnedFd>,
}

impl Sockets {
    /// The most descriptors that there are.
    pub(crate) const MOST: usize = 6 + 2 * WAYS_IN;

    /// In a fixed order, for handing them over, and which of those are there that may be missing.
    pub(crate) fn all(&self) -> (u8, Vec<BorrowedFd<'_>>) {
        use std::os::fd::AsFd;
        let first = [self.connections_v4.as_fd(), self.names_v4.as_fd()];
        let others = [&self.connections_v6, &self.names_v6, &self.refusals, &self.sockets];
        let which = others.iter().rev().fold(0, |which, one| (which << 1) | u8::from(one.is_some()));
        let others = others.into_iter().flatten().chain(&self.ways_in).map(AsFd::as_fd);
        (which, first.into_iter().chain(others).collect())
    }

    /// The reverse of [`Sockets::all`].
    pub(crate) fn of(which: u8, fds: Vec<OwnedFd>) -> Option<Self> {
        let mut fds = fds.into_iter();
        let (connections_v4, names_v4) = (fds.next()?, fds.next()?);
        let mut next = |place: u8| match (which >> place) & 1 {
            1 => fds.next().map(Some),
            _ => Some(None),
        };
        let (connections_v6, names_v6, refusals, sockets) = (next(0)?, next(1)?, next(2)?, next(3)?);
        let ways_in: Vec<OwnedFd> = fds.collect();
        let families = 1 + usize::from(connections_v6.is_some());
        let are_all = ways_in.is_empty() || ways_in.len() == families * WAYS_IN;
        let is_whole = connections_v6.is_some() == names_v6.is_some() && are_all && which < 16;
        is_whole.then_some(Self {
            connections_v4,
            connections_v6,
            names_v4,
            names_v6,
            refusals,
            sockets,
            ways_in,
        })
    }
}

/// Leads everything that this network namespace sends to sockets of our own.
pub(crate) fn open(captured: &Captured) -> io::Result<Sockets> {
    let v4 = Pair::bound(Ipv4Addr::LOCALHOST.into())?;
    let v6 = match Pair::bound(Ipv6Addr::LOCALHOST.into()) {
        Ok(pair) => Some(pair),
        Err(error) if is_missing(&error) => None,
        Err(error) => return Err(error),
    };
    netlink::local_routes(v6.is_some())?;
    let ports = |pair: &Pair| (pair.connections_port, pair.names_port);
    let refusals = netlink::refusals();
    rules::load(ports(&v4), v6.as_ref().map(ports), &captured.listed, refusals.is_some())?;
    let ways_in = if captured.ways_in { ways_in(v6.is_some())? } else { Vec::new() };
    let (connections_v6, names_v6) = v6.map(|pair| (pair.connections, pair.names)).unzip();
    Ok(Sockets {
        connections_v4: v4.connections,
        names_v4: v4.names,
        connections_v6,
        names_v6,
        refusals,
        sockets: netlink::sockets(),
        ways_in,
    })
}

/// Sockets for connections that come from outside.
fn ways_in(v6: bool) -> io::Result<Vec<OwnedFd>> {
    let families = [(AddressFamily::INET, true), (AddressFamily::INET6, v6)];
    let families = families.into_iter().filter(|(_, wanted)| *wanted);
    families
        .flat_map(|(family, _)| std::iter::repeat_n(family, WAYS_IN))
        .map(|family| Ok(made(family, SocketType::STREAM)?))
        .collect()
}

fn made(family: AddressFamily, kind: SocketType) -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// Whether a kernel was built, or told, to do without an address family.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

/// The sockets of one address family.
struct Pair {
    connections: OwnedFd,
    connections_port: u16,
    names: OwnedFd,
    names_port: u16,
}

impl Pair {
    fn bound(at: IpAddr) -> io::Result<Self> {
        let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let bound = |kind| -> io::Result<(OwnedFd, u16)> {
            let socket = made(family, kind)?;
            rustix::net::bind(&socket, &SocketAddr::new(at, 0))?;
            let here = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
            Ok((socket, here.port()))
        };
        let (connections, connections_port) = bound(SocketType::STREAM)?;
        rustix::net::listen(&connections, BACKLOG)?;
        let (names, names_port) = bound(SocketType::DGRAM)?;
        Ok(Self { connections, connections_port, names, names_port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(count: usize) -> Vec<OwnedFd> {
        (0..count).map(|_| std::fs::File::open("/dev/null").unwrap().into()).collect()
    }

    #[test]
    fn sockets_are_handed_over_whole_or_not_at_all() {
        for (which, count) in
            [(0, 2), (3, 4), (4, 3), (7, 5), (8, 3), (15, 6), (0, 2 + WAYS_IN), (15, Sockets::MOST)]
        {
            let sockets = Sockets::of(which, some(count)).unwrap();
            let (again, fds) = sockets.all();
            assert_eq!((again, fds.len()), (which, count));
        }
        for (which, wrong) in [
            (0, 0),
            (0, 1),
            (0, 3),
            (1, 3),
            (2, 3),
            (3, 3),
            (7, 4),
            (7, 6),
            (7, 5 + WAYS_IN),
            (8, 2),
            (15, 5),
            (16, 3),
        ] {
            assert!(Sockets::of(which, some(wrong)).is_none(), "{which} {wrong}");
        }
    }
}
