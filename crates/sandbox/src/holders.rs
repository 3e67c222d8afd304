//! Which processes of a sandbox hold a socket.
//!
//! Flow: both addresses of a connection -> the kernel, asked in the sandbox's own network -> the socket's number -> every
//! process inside that has it open. It is read from outside, at one moment: who has let go of it by then is not found, and
//! whoever shares it is. Invariant: it takes no longer than it may.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::Pid;

use crate::freeze::descendants;
use crate::launch::Held;

/// The most processes, and descriptors of each, that are looked at.
const MOST_PROCESSES: usize = 1024;
const MOST_DESCRIPTORS: usize = 1024;

/// A process that holds a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number on the host.
    pub pid: i32,
    /// The file name of the program that it runs.
    pub program: String,
}

/// The processes of one sandbox.
#[derive(Debug)]
pub struct Inhabitants {
    init: Pid,
    /// Where the kernel is asked about sockets of its network.
    sockets: Option<OwnedFd>,
}

impl Held {
    /// Its processes, also those that are still to come. `sockets`:
    /// [`Sockets::sockets`](crate::capture::Sockets::sockets).
    #[must_use]
    pub fn inhabitants(&self, sockets: Option<OwnedFd>) -> Inhabitants {
        Inhabitants { init: self.tree.pid, sockets }
    }
}

impl Inhabitants {
    /// Who holds the socket of a connection from here to there, and whether there was time to ask everyone.
    #[must_use]
    pub fn holding(&self, from: SocketAddr, to: SocketAddr, longest: Duration) -> (Vec<Holder>, bool) {
        let until = Instant::now() + longest;
        let mut found = Vec::new();
        let Some(number) = self.socket(from, to) else { return (found, true) };
        let wanted = format!("socket:[{number}]");
        let all = descendants(self.init);
        // The youngest first: they are the ones who are gone soonest.
        for (asked, pid) in all.into_iter().rev().enumerate() {
            if asked >= MOST_PROCESSES || Instant::now() > until {
                return (found, false);
            }
            let pid = pid.as_raw_pid();
            let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
            let is_it = |entry: std::fs::DirEntry| {
                std::fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == wanted.as_str())
            };
            if open.flatten().take(MOST_DESCRIPTORS).any(is_it) {
                found.push(Holder { pid, program: program(pid) });
            }
        }
        (found, true)
    }

    /// The number of the socket.
    fn socket(&self, from: SocketAddr, to: SocketAddr) -> Option<u64> {
        match &self.sockets {
            Some(sockets) => asked(sockets, from, to),
            None => self.listed(from),
        }
    }

    /// The same by reading all sockets of the network, which takes long.
    fn listed(&self, from: SocketAddr) -> Option<u64> {
        let process = self.init.as_raw_pid();
        let of = |table: &str| std::fs::read_to_string(format!("/proc/{process}/net/{table}")).ok();
        // A program may use an address of version 4 on a socket of version 6.
        let tables = if from.is_ipv4() { ["tcp", "tcp6"].as_slice() } else { ["tcp6"].as_slice() };
        tables.iter().find_map(|table| in_table(&of(table)?, from))
    }
}

/// Asks the kernel for the number of one socket.
fn asked(sockets: &OwnedFd, from: SocketAddr, to: SocketAddr) -> Option<u64> {
    // As the kernel's headers have them: a question by family, and where the number is in its answer.
    const BY_FAMILY: u16 = 20;
    const REQUEST: u16 = 1;
    const NUMBER: usize = 16 + 68;
    const TCP: u8 = 6;
    let family = if from.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut question = Vec::with_capacity(72);
    question.extend(72u32.to_ne_bytes());
    question.extend(BY_FAMILY.to_ne_bytes());
    question.extend(REQUEST.to_ne_bytes());
    question.extend([0; 8]);
    question.extend([u8::try_from(family).ok()?, TCP, 0, 0]);
    // In whatever state it is.
    question.extend([0xff; 4]);
    question.extend(from.port().to_be_bytes());
    question.extend(to.port().to_be_bytes());
    question.extend(sixteen(from.ip()));
    question.extend(sixteen(to.ip()));
    // On any device, and without the cookie that an earlier answer would have told.
    question.extend([0; 4]);
    question.extend([0xff; 8]);
    rustix::net::sendto(sockets, &question, SendFlags::DONTWAIT, &SocketAddrNetlink::new(0, 0)).ok()?;
    let mut answer = [0; 4096];
    // The kernel answers while it is asked.
    let (got, _) = rustix::net::recv(sockets, answer.as_mut_slice(), RecvFlags::DONTWAIT).ok()?;
    let answer = answer.get(..got)?;
    let kind = answer.get(4..6)?.try_into().map(u16::from_ne_bytes).ok()?;
    let number = answer.get(NUMBER..NUMBER + 4)?.try_into().map(u32::from_ne_bytes).ok()?;
    (kind == BY_FAMILY && number != 0).then(|| number.into())
}

/// An address in the room that the kernel has for both versions.
fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(address) => address.octets(),
    }
}

fn program(pid: i32) -> String {
    let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = exe.file_name().unwrap_or_default().to_string_lossy();
    name.trim_end_matches(" (deleted)").chars().filter(|letter| !letter.is_control()).take(64).collect()
}

/// The number of the socket with this address in one of the kernel's tables.
fn in_table(table: &str, from: SocketAddr) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace();
        let own = address(words.nth(1)?)?;
        let number = words.nth(7)?.parse().ok().filter(|number| *number != 0)?;
        (own.ip().to_canonical() == from.ip().to_canonical() && own.port() == from.port()).then_some(number)
    })
}

/// An address as the kernel writes it: words of its memory, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let words: Option<Vec<[u8; 4]>> = (0..address.len())
        .step_by(8)
        .map(|at| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes()))
        .collect();
    let bytes = words?.concat();
    let address: IpAddr = match bytes.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into(),
        16 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_kernel_tells_which_socket_has_an_address() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let own = stream.local_addr().unwrap();
            let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&stream));
            let number = std::fs::metadata(path).unwrap().ino();
            let table = if own.is_ipv4() { "tcp" } else { "tcp6" };
            let table = std::fs::read_to_string(format!("/proc/self/net/{table}")).unwrap();
            assert_eq!(in_table(&table, own), Some(number));
            let socket = rustix::net::socket_with(
                rustix::net::AddressFamily::NETLINK,
                rustix::net::SocketType::RAW,
                rustix::net::SocketFlags::CLOEXEC,
                Some(rustix::net::netlink::SOCK_DIAG),
            );
            let (socket, to) = (socket.unwrap(), stream.peer_addr().unwrap());
            assert_eq!(asked(&socket, own, to), Some(number));
            // Of a connection that is not there, and then of one that is: answers are not mixed up.
            assert_eq!(asked(&socket, own, SocketAddr::new(to.ip(), 1)), None);
            assert_eq!(asked(&socket, own, to), Some(number));
            let nobody = SocketAddr::new("203.0.113.1".parse().unwrap(), own.port());
            assert_eq!(in_table(&table, nobody), None);
        }
    }

    #[test]
    fn what_is_no_address_is_none() {
        for text in ["", ":", "0100007F", "0100007F:", "0100007G:0050", "01007F:0050", "é100007F:0050"] {
            assert_eq!(address(text), None, "{text}");
        }
    }
}
