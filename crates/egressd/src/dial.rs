//! A host that was allowed into a connection to one of its addresses.
//!
//! Invariants: every address that a name has is judged before one is dialled, and one that is refused refuses them all;
//! what is dialled is an address that was judged, never a name.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rules::{Decision, HOST_LOOPBACK, Host, Rules, Why};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long names may take.
const NAMING: Duration = Duration::from_secs(10);
/// How long one address may take.
const DIALLING: Duration = Duration::from_secs(10);
/// The most addresses of one name that are tried.
const MOST: usize = 8;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotDialled {
    /// An address is out of reach.
    #[error("`{host}` has the address {address}: {why}")]
    Refused {
        /// The name.
        host: String,
        /// Its address.
        address: IpAddr,
        /// What is wrong with it.
        why: Why,
    },
    /// The name has no addresses, or none were told.
    #[error("the address of `{0}` cannot be found: {1}")]
    Unnamed(String, io::Error),
    /// Nobody answers.
    #[error("`{0}` cannot be connected to: {1}")]
    Unanswered(String, io::Error),
}

/// Connects to a host that was allowed.
pub(crate) async fn dial(
    rules: &Rules,
    host: &Host,
    port: u16,
) -> Result<(TcpStream, SocketAddr), NotDialled> {
    let addresses = addresses(rules, host, port).await?;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match timeout(DIALLING, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                let _ = stays_alive(&stream);
                return Ok((stream, address));
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(NotDialled::Unanswered(host.to_string(), last))
}

/// Has the kernel look now and then whether the other end is still there: one that is gone without a word ends.
fn stays_alive(stream: &TcpStream) -> rustix::io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(120))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(30))?;
    sockopt::set_tcp_keepcnt(stream, 4)
}

/// All addresses of a host, each of them judged.
async fn addresses(rules: &Rules, host: &Host, port: u16) -> Result<Vec<SocketAddr>, NotDialled> {
    let found = match host {
        Host::Address(address) => vec![SocketAddr::new(*address, port)],
        // The one name that nobody else is asked for: this machine's own loopback, as a rule says.
        Host::Name(name) if name.as_str() == HOST_LOOPBACK => {
            let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            loopback.map(|address| SocketAddr::new(address, port)).to_vec()
        }
        Host::Name(name) => {
            let unnamed = |error| NotDialled::Unnamed(host.to_string(), error);
            let asked = timeout(NAMING, tokio::net::lookup_host((name.as_str(), port))).await;
            let asked = asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            let found: Vec<SocketAddr> = asked.map_err(unnamed)?.collect();
            if found.is_empty() {
                return Err(unnamed(io::ErrorKind::NotFound.into()));
            }
            found
        }
    };
    for one in &found {
        if let Decision::Refused(why) = rules.dial(host, port, one.ip()) {
            return Err(NotDialled::Refused { host: host.to_string(), address: one.ip(), why });
        }
    }
    Ok(found.into_iter().take(MOST).collect())
}

#[cfg(test)]
mod tests {
    use rules::Rule;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn adv_n16_an_address_that_does_not_answer_is_given_up() {
        use rustix::net::{AddressFamily, SocketType};
        // Whose queue is full: the kernel drops whoever else wants to connect, and says nothing.
        let listener = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = SocketAddr::try_from(rustix::net::getsockname(&listener).unwrap()).unwrap();
        let wait = Duration::from_millis(200);
        let connects = || std::net::TcpStream::connect_timeout(&address, wait);
        let before: Vec<_> = std::iter::from_fn(|| connects().ok()).take(8).collect();
        assert!(before.len() < 8, "the queue is never full");
        let rule = Rule { ports: vec![address.port()], ..Rule::new(HOST_LOOPBACK) };
        let (rules, host) = (Rules::compile(vec![rule]).unwrap(), HOST_LOOPBACK.parse().unwrap());
        let begun = Instant::now();
        let dialled = dial(&rules, &host, address.port()).await;
        let took = begun.elapsed();
        assert!(matches!(dialled, Err(NotDialled::Unanswered(..))), "{dialled:?}");
        assert!(took >= DIALLING && took < DIALLING + Duration::from_secs(1), "{took:?}");
    }
}
