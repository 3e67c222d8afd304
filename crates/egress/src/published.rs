//! Ports of a sandbox that are reached on this machine's loopback.
//!
//! Flow: `--publish` -> [`Port`] -> [`Published`], which listens before the sandbox is made -> [`Doors`], with sockets that
//! were made inside the sandbox's network -> the proxy, which carries bytes from one to the other. Invariants: what listens
//! does so on the loopback only; the listeners and the sockets stay here, so a proxy that dies takes neither with it.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;

use rustix::io::Errno;

use crate::control::{Line, Loan, MOST_DESCRIPTORS, Order};

/// A port inside, and the one where it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// Inside.
    pub inside: u16,
    /// On this machine's loopback.
    pub outside: u16,
}

/// It is no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected PORT or HOSTPORT:PORT, each from 1 to 65535")]
pub struct NoPort;

impl FromStr for Port {
    type Err = NoPort;

    fn from_str(text: &str) -> Result<Self, NoPort> {
        let number = |text: &str| {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|port| is_plain && *port != 0).ok_or(NoPort)
        };
        let (outside, inside) = text.split_once(':').unwrap_or((text, text));
        Ok(Self { inside: number(inside)?, outside: number(outside)? })
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at 127.0.0.1:{}", self.inside, self.outside)
    }
}

/// A port that somebody listens at.
#[derive(Debug)]
pub struct Published {
    port: Port,
    listeners: Vec<OwnedFd>,
}

impl Published {
    /// Listens, in both versions of addresses if this machine has both.
    ///
    /// # Errors
    /// When the port is taken in one of them, or not this user's to take.
    pub fn open(port: Port) -> io::Result<Self> {
        let at = |address: IpAddr| TcpListener::bind(SocketAddr::new(address, port.outside));
        let mut listeners = vec![at(Ipv4Addr::LOCALHOST.into())?.into()];
        match at(Ipv6Addr::LOCALHOST.into()) {
            Ok(listener) => listeners.push(listener.into()),
            // Without version 6 nobody else can have it either.
            Err(error)
                if matches!(Errno::from_io_error(&error), Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL)) => {
            }
            Err(error) => return Err(error),
        }
        Ok(Self { port, listeners })
    }

    /// Which port.
    #[must_use]
    pub fn port(&self) -> Port {
        self.port
    }
}

/// All that lead into one sandbox.
#[derive(Debug, Default)]
pub struct Doors {
    published: Vec<Published>,
    /// Made inside, connected to nothing; each is used again and again.
    ways_in: Vec<OwnedFd>,
}

impl Doors {
    /// For these ports, before the sandbox is made.
    #[must_use]
    pub fn new(published: Vec<Published>) -> Self {
        Self { published, ways_in: Vec::new() }
    }

    /// Which ports.
    #[must_use]
    pub fn ports(&self) -> Vec<Port> {
        self.published.iter().map(Published::port).collect()
    }

    /// The sandbox stands: these lead into it.
    pub(crate) fn attach(&mut self, ways_in: Vec<OwnedFd>) {
        self.ways_in = ways_in;
    }

    /// Where somebody may come.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let is_attached = !self.ways_in.is_empty();
        self.published.iter().filter(move |_| is_attached).flat_map(|one| &one.listeners).map(AsFd::as_fd)
    }

    /// Tells a proxy of them.
    pub(crate) fn tell(&self, line: &Line) -> io::Result<()> {
        if self.ways_in.is_empty() || self.published.is_empty() {
            return Ok(());
        }
        for some in self.ways_in.chunks(MOST_DESCRIPTORS) {
            let some: Vec<BorrowedFd<'_>> = some.iter().map(AsFd::as_fd).collect();
            line.say(&Order::<Loan>::WaysIn, &some, true)?;
        }
        for one in &self.published {
            let listeners: Vec<BorrowedFd<'_>> = one.listeners.iter().map(AsFd::as_fd).collect();
            line.say(&Order::<Loan>::Publish { port: one.port.inside }, &listeners, true)?;
        }
        Ok(())
    }

    /// Ends the connections of a proxy that is gone: we have their sockets too, so they would stay.
    pub(crate) fn break_off(&self) {
        for way in &self.ways_in {
            let _ = rustix::net::connect_unspec(way);
        }
    }

    /// Closes them for good.
    pub(crate) fn close(&mut self) {
        self.break_off();
        (self.published, self.ways_in) = (Vec::new(), Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_one_number_or_two() {
        assert_eq!("3000".parse(), Ok(Port { inside: 3000, outside: 3000 }));
        assert_eq!("8080:3000".parse(), Ok(Port { inside: 3000, outside: 8080 }));
        for text in [
            "",
            "0",
            "x",
            ":3000",
            "3000:",
            "0:3000",
            "1:2:3",
            "65536",
            "+1",
            "0.0.0.0:3000",
            "127.0.0.1:80:80",
        ] {
            assert_eq!(text.parse::<Port>(), Err(NoPort), "{text}");
        }
    }

    #[test]
    fn only_the_loopback_listens_and_a_port_that_is_taken_is_an_error() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let outside = taken.local_addr().unwrap().port();
        let error = Published::open(Port { inside: 80, outside }).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(taken);
        let published = Published::open(Port { inside: 80, outside }).unwrap();
        for listener in &published.listeners {
            let at = SocketAddr::try_from(rustix::net::getsockname(listener).unwrap()).unwrap();
            assert!(at.ip().is_loopback() && at.port() == outside, "{at}");
        }
    }
}
