//! Attacks by sockets: unusual families, services of the host, other sandboxes' ports.

use std::io::{self, BufRead, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use crate::{c, checked, say, verdict};

fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::socket(domain, kind, protocol) }).map(drop)
}

/// Families and protocols that no program of a project needs.
pub(crate) fn families() {
    let list = [
        ("sctp", libc::AF_INET, libc::SOCK_STREAM, 132),
        ("sctp-packets", libc::AF_INET6, libc::SOCK_SEQPACKET, 132),
        ("dccp", libc::AF_INET, 6, 33),
        ("udp-lite", libc::AF_INET, libc::SOCK_DGRAM, 136),
        ("packet", libc::AF_PACKET, libc::SOCK_RAW, 0x300),
        ("packet-datagram", libc::AF_PACKET, libc::SOCK_DGRAM, 0),
        ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        ("netlink-uevent", libc::AF_NETLINK, libc::SOCK_RAW, 15),
        ("netlink-netfilter", libc::AF_NETLINK, libc::SOCK_RAW, 12),
        ("netlink-diag", libc::AF_NETLINK, libc::SOCK_RAW, 4),
        ("netlink-generic", libc::AF_NETLINK, libc::SOCK_RAW, 16),
        ("netlink-audit", libc::AF_NETLINK, libc::SOCK_RAW, 9),
        ("alg", libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        ("xdp", libc::AF_XDP, libc::SOCK_RAW, 0),
        ("bluetooth", libc::AF_BLUETOOTH, libc::SOCK_RAW, 1),
        ("raw", libc::AF_INET, libc::SOCK_RAW, 1),
        ("ping", libc::AF_INET, libc::SOCK_DGRAM, 1),
        ("tipc", 30, libc::SOCK_STREAM, 0),
        ("can", 29, libc::SOCK_RAW, 1),
        ("rds", 21, libc::SOCK_SEQPACKET, 0),
        ("smc", 43, libc::SOCK_STREAM, 0),
        ("key", libc::AF_KEY, libc::SOCK_RAW, 2),
    ];
    for (name, domain, kind, protocol) in list {
        say(name, verdict(socket(domain, kind, protocol)));
    }
}

/// A service of the host that listens on a name without a path.
pub(crate) fn abstract_name(name: &str) {
    let connected =
        SocketAddr::from_abstract_name(name).and_then(|address| UnixStream::connect_addr(&address));
    say("abstract", verdict(connected));
}

/// Services that listen at a path.
pub(crate) fn connect(paths: &[String]) {
    for path in paths {
        say(path, verdict(UnixStream::connect(path)));
    }
}

/// Datagram sockets, which can be aimed at anybody at any time; `name` is a host's service.
pub(crate) fn datagrams(name: &str) {
    let mut pair = [0i32; 2];
    let kinds = [("datagram", libc::SOCK_DGRAM), ("raw", libc::SOCK_RAW)];
    for (word, kind) in kinds {
        say(&format!("socket-{word}"), verdict(socket(libc::AF_UNIX, kind, 0)));
        // SAFETY: room for two numbers that outlives the call.
        let result = checked(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) });
        let made = result.is_ok();
        say(&format!("pair-{word}"), verdict(result));
        if made {
            say(&format!("aimed-{word}"), verdict(aim(pair[0], name)));
        }
    }
}

/// Cuts one end of a pair loose and sends to somebody else through it.
fn aim(fd: i32, name: &str) -> io::Result<()> {
    let nobody: [u8; 2] = [0, 0];
    let mut address: Vec<u8> = vec![1, 0];
    if name.starts_with('/') {
        address.extend(c(name).as_bytes_with_nul());
    } else {
        address.push(0);
        address.extend(name.bytes());
    }
    // SAFETY: addresses and bytes are as long as is said and outlive the calls.
    unsafe {
        checked(libc::connect(fd, nobody.as_ptr().cast(), 2))?;
        checked(libc::sendto(
            fd,
            b"taken".as_ptr().cast(),
            5,
            0,
            address.as_ptr().cast(),
            address.len() as u32,
        ) as i64)
        .map(drop)
    }
}

/// Two processes talk over loopback, on ten ports.
pub(crate) fn loopback() {
    for number in 0..10 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        // SAFETY: this program has one thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let said =
                TcpStream::connect((Ipv4Addr::LOCALHOST, port)).and_then(|mut to| to.write_all(b"hello"));
            // SAFETY: no pointers.
            unsafe { libc::_exit(i32::from(said.is_err())) };
        }
        let mut heard = String::new();
        let talked = listener.accept().and_then(|(mut from, _)| from.read_to_string(&mut heard));
        say(&format!("talk-{number}"), if heard == "hello" { "ok".into() } else { verdict(talked) });
        let mut status = 0;
        // SAFETY: the status outlives the call.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
    }
}

/// Listens on loopback and on a name without a path until standard input ends.
pub(crate) fn serve() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    say("port", listener.local_addr().unwrap().port());
    io::stdout().flush().unwrap();
    let mut line = String::new();
    let _ = io::stdin().lock().read_line(&mut line);
    say("visited", listener.accept().is_ok());
}

/// Tries ports of loopback.
pub(crate) fn reach(ports: &[String]) {
    for port in ports {
        let number = port.parse().unwrap_or(1);
        say(port, verdict(TcpStream::connect((Ipv4Addr::LOCALHOST, number))));
    }
}
