//! Messages to the kernel about routes and packet rules: written, sent, and their answers read.
//!
//! Invariant: a call that comes back without an error was acknowledged by the kernel.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
const CREATE: u16 = 0x400;
const ERROR: u16 = 0x2;
const NESTED: u16 = 0x8000;

/// The loopback is the first device of every network namespace.
const LOOPBACK: u32 = 1;

/// Attributes of a message, one after the other.
#[derive(Debug, Default)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    /// Adds one; values of this size are never too long for it.
    pub(super) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Adds a number in the order of the network.
    pub(super) fn number(self, kind: u16, value: u32) -> Self {
        self.with(kind, &value.to_be_bytes())
    }

    /// Adds a word, with the zero at its end.
    pub(super) fn word(self, kind: u16, value: &str) -> Self {
        self.with(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Adds others as the value of one.
    pub(super) fn nested(self, kind: u16, inner: Self) -> Self {
        self.with(kind | NESTED, &inner.0)
    }
}

/// Messages that are sent in one piece.
#[derive(Debug, Default)]
pub(super) struct Messages {
    bytes: Vec<u8>,
    count: u32,
    asked: Vec<u32>,
}

impl Messages {
    /// Adds one that the kernel acknowledges.
    pub(super) fn ask(&mut self, kind: u16, flags: u16, header: &[u8], attributes: &Attributes) {
        self.asked.push(self.count);
        self.add(kind, flags | ACKNOWLEDGE, header, attributes);
    }

    /// Adds one that it does not.
    pub(super) fn add(&mut self, kind: u16, flags: u16, header: &[u8], attributes: &Attributes) {
        let length = 16 + header.len() + attributes.0.len();
        self.bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((flags | REQUEST).to_ne_bytes());
        self.bytes.extend(self.count.to_ne_bytes());
        self.bytes.extend(0u32.to_ne_bytes());
        self.bytes.extend(header);
        self.bytes.extend(&attributes.0);
        self.count += 1;
    }

    /// Sends them and hears that each one that was asked was done.
    pub(super) fn send(self, protocol: Option<rustix::net::Protocol>) -> io::Result<()> {
        self.send_on(&socket(protocol)?)
    }

    /// The same on a socket that stays.
    fn send_on(self, socket: &OwnedFd) -> io::Result<()> {
        rustix::net::sendto(socket, &self.bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut missing = self.asked;
        let mut bytes = vec![0u8; 16 * 1024];
        while !missing.is_empty() {
            let (got, _) = rustix::net::recv(socket, bytes.as_mut_slice(), RecvFlags::empty())?;
            for (number, error) in answers(bytes.get(..got).unwrap_or_default())? {
                if error != 0 {
                    return Err(io::Error::from_raw_os_error(-error));
                }
                missing.retain(|one| *one != number);
            }
        }
        Ok(())
    }
}

fn socket(protocol: Option<rustix::net::Protocol>) -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)
}

/// The group of the kernel's packet log that refused packets go to.
pub(super) const REFUSED: u16 = 1;

/// A socket that is told of packets in that group; none if this kernel has no such log.
pub(super) fn refusals() -> Option<OwnedFd> {
    const CONFIGURE: u16 = (4 << 8) | 1;
    /// As much of a packet as says where it was going.
    const BYTES: u32 = 64;
    let socket = socket(Some(rustix::net::netlink::NETFILTER)).ok()?;
    let [high, low] = REFUSED.to_be_bytes();
    let header = [0, 0, high, low];
    let mut messages = Messages::default();
    let (bind, copies_packets) = (1, 2);
    messages.ask(CONFIGURE, 0, &header, &Attributes::default().with(1, &[bind]));
    let [a, b, c, d] = BYTES.to_be_bytes();
    messages.ask(CONFIGURE, 0, &header, &Attributes::default().with(2, &[a, b, c, d, copies_packets, 0]));
    messages.send_on(&socket).ok()?;
    rustix::io::ioctl_fionbio(&socket, true).ok()?;
    Some(socket)
}

/// A socket that answers questions about the sockets of this network; none if this kernel does not.
pub(super) fn sockets() -> Option<OwnedFd> {
    let socket = socket(Some(rustix::net::netlink::SOCK_DIAG)).ok()?;
    rustix::io::ioctl_fionbio(&socket, true).ok()?;
    Some(socket)
}

/// For each answer: to which message, and the error, zero if there was none.
fn answers(mut bytes: &[u8]) -> io::Result<Vec<(u32, i32)>> {
    let strange = || io::Error::new(io::ErrorKind::InvalidData, "an answer of the kernel is cut");
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (header, _) = bytes.split_first_chunk::<20>().ok_or_else(strange)?;
        let [l0, l1, l2, l3, k0, k1, _, _, s0, s1, s2, s3, .., e0, e1, e2, e3] = *header;
        if u16::from_ne_bytes([k0, k1]) == ERROR {
            found.push((u32::from_ne_bytes([s0, s1, s2, s3]), i32::from_ne_bytes([e0, e1, e2, e3])));
        }
        let length = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).map_err(|_| strange())?;
        bytes = bytes.get(length.max(20).next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(found)
}

/// Makes every address one of this machine's own.
pub(super) fn local_routes(v6: bool) -> io::Result<()> {
    const NEW_ROUTE: u16 = 24;
    const DEVICE: u16 = 4;
    let families = [(libc::AF_INET, true), (libc::AF_INET6, v6)];
    let mut messages = Messages::default();
    for (family, _) in families.into_iter().filter(|(_, wanted)| *wanted) {
        let family = u8::try_from(family).unwrap_or_default();
        // To everywhere, from anywhere, in the table of local addresses, made at start, reaching this host only.
        let header = [
            family,
            0,
            0,
            0,
            libc::RT_TABLE_LOCAL,
            libc::RTPROT_BOOT,
            libc::RT_SCOPE_HOST,
            libc::RTN_LOCAL,
            0,
            0,
            0,
            0,
        ];
        let to = Attributes::default().with(DEVICE, &LOOPBACK.to_ne_bytes());
        messages.ask(NEW_ROUTE, CREATE, &header, &to);
    }
    // Routes are the protocol with the number zero.
    messages.send(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_one_by_one_and_cut_ones_refused() {
        let mut one = Vec::new();
        for (number, error) in [(7u32, 0i32), (8, -17)] {
            one.extend(36u32.to_ne_bytes());
            one.extend(ERROR.to_ne_bytes());
            one.extend([0, 0]);
            one.extend(number.to_ne_bytes());
            one.extend([0; 4]);
            one.extend(error.to_ne_bytes());
            one.extend([0; 16]);
        }
        assert_eq!(answers(&one).unwrap(), [(7, 0), (8, -17)]);
        assert!(answers(&one[..40]).is_err());
    }
}
