//! One connection of a sandbox, from its first byte to its last.
//!
//! Flow: where it was going -> the name that the address stands for -> may it? -> what the client says first -> does that
//! agree? -> an address that was judged -> bytes. Invariants: name, address and what the client says it wants agree, or
//! nothing is dialled; when the rules change so that it may no longer, it ends.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use egress::control::{Report, Verdict, Wanted};
use egress::names;
use rules::{Host, Look};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::dial::dial;
use crate::first::{self, First};
use crate::house::House;
use crate::relay::{self, Moved};

/// Where a program that wants a proxy finds one.
const PROXY_PORT: u16 = 3128;
/// How long accepting rests when there are no descriptors left.
const REST: Duration = Duration::from_millis(50);

/// A connection whose destination may be reached.
pub(crate) struct Admitted {
    pub(crate) house: Arc<House>,
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) inside: TcpStream,
    /// What was read of it.
    pub(crate) read: Vec<u8>,
}

impl Admitted {
    /// What it wants, for the record.
    pub(crate) fn wanted(&self) -> Wanted {
        wanted(&self.host, self.port)
    }
}

fn wanted(host: &Host, port: u16) -> Wanted {
    Wanted { host: host.to_string(), port, ..Wanted::default() }
}

/// Takes connections for as long as there are any.
pub(crate) async fn accept(house: Arc<House>, listener: TcpListener) {
    loop {
        if house.is_full() {
            tokio::time::sleep(REST).await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                let open = house.opened();
                let house = Arc::clone(&house);
                tokio::spawn(async move {
                    serve(house, stream).await;
                    drop(open);
                });
            }
            Err(_) => tokio::time::sleep(REST).await,
        }
        if house.is_closed() {
            return;
        }
    }
}

async fn serve(house: Arc<House>, inside: TcpStream) {
    let _ = inside.set_nodelay(true);
    // Whoever connects to the listener itself was led here by nobody.
    let Some(to) = destination(&inside) else { return reset(&inside) };
    if to.ip() == IpAddr::V4(names::SERVICE) {
        if to.port() == PROXY_PORT {
            return crate::asked::serve(house, inside).await;
        }
        return reset(&inside);
    }
    if to.ip() == IpAddr::V4(names::TELLING) {
        return crate::telling::serve(&house, inside, to.port()).await;
    }
    let host = match names::number(to.ip()) {
        None => Host::Address(to.ip()),
        Some(_) => match house.named(to.ip()).await.and_then(|name| name.parse::<rules::Name>().ok()) {
            Some(name) => Host::Name(name),
            // It stands for no name of this sandbox.
            None => return reset(&inside),
        },
    };
    admit(house, host, to.port(), inside, Vec::new()).await;
}

/// Judges where a connection goes, and goes on with it if it may.
pub(crate) async fn admit(house: Arc<House>, host: Host, port: u16, inside: TcpStream, mut read: Vec<u8>) {
    let judged = house.rules().connect(&host, port);
    let first = match first::read(&inside, &mut read, port == 80 || port == 443).await {
        Ok(First::Gone) | Err(_) => return,
        Ok(first) => first,
    };
    let look = match judged {
        Ok((_, look)) => look,
        Err(verdict) => {
            house.judged(&wanted(&host, port), verdict.clone(), None).await;
            return refuse(&inside, &first, &verdict).await;
        }
    };
    let admitted = Admitted { house, host, port, inside, read };
    match first {
        First::Http => crate::http::serve(admitted).await,
        First::Tls(hello) => {
            let named = hello.server_name.as_ref().map(|name| name.as_str().to_owned());
            let agrees = match (&admitted.host, &named) {
                (Host::Name(host), Some(name)) => host.as_str() == name,
                (Host::Address(_), None) => true,
                (Host::Name(_), None) | (Host::Address(_), Some(_)) => false,
            };
            match (agrees, look) {
                // There may be another greeting in it, for somebody else, which only the server can read.
                (true, Look::Pass) if hello.ech => {
                    let why =
                        "the greeting has a part that is encrypted, and may name another host".to_owned();
                    refused(admitted, &First::Tls(hello), why).await;
                }
                (false, _) => {
                    let named = named.unwrap_or_else(|| "nobody".into());
                    let why = format!(
                        "the client greets `{named}`, and the connection goes to `{}`",
                        admitted.host
                    );
                    refused(admitted, &First::Tls(hello), why).await;
                }
                (true, Look::Pass) => pass(admitted).await,
                (true, Look::Inspect) => crate::tls::serve(admitted).await,
            }
        }
        First::OddTls(bad) => {
            let why = format!("the greeting cannot be read in one way only: {bad}");
            refused(admitted, &First::OddTls(bad), why).await;
        }
        First::Other | First::Silent if look == Look::Inspect => {
            let why = "a rule wants to see inside, and this is neither HTTP nor TLS".to_owned();
            refused(admitted, &First::Other, why).await;
        }
        First::Other | First::Silent => pass(admitted).await,
        First::Gone => {}
    }
}

async fn refused(admitted: Admitted, first: &First, why: String) {
    let verdict = Verdict::Refused { why };
    admitted.house.judged(&admitted.wanted(), verdict.clone(), None).await;
    refuse(&admitted.inside, first, &verdict).await;
}

/// Where it was going before it was led here.
fn destination(inside: &TcpStream) -> Option<SocketAddr> {
    let to = match inside.local_addr().ok()?.ip() {
        IpAddr::V4(_) => rustix::net::sockopt::ip_original_dst(inside).map(SocketAddr::V4),
        IpAddr::V6(_) => rustix::net::sockopt::ipv6_original_dst(inside).map(SocketAddr::V6),
    };
    to.ok().filter(|to| !to.ip().is_loopback())
}

/// Carries bytes without seeing what they are.
async fn pass(admitted: Admitted) {
    let Admitted { house, host, port, inside, read, .. } = admitted;
    let (wanted, begun) = (wanted(&host, port), Instant::now());
    let mut turns = house.turns();
    let generation = house.rules();
    let allowed = match generation.connect(&host, port) {
        Ok((allowed, _)) => allowed,
        Err(verdict) => {
            house.judged(&wanted, verdict, None).await;
            return reset(&inside);
        }
    };
    let (mut outside, address) = match dial(&generation.rules, &host, port).await {
        Ok(dialled) => dialled,
        Err(error) => {
            house.judged(&wanted, Verdict::Refused { why: error.to_string() }, None).await;
            return reset(&inside);
        }
    };
    house.judged(&wanted, allowed, Some(address)).await;
    let moved = Moved::default();
    let carries = async {
        if !read.is_empty() {
            outside.write_all(&read).await?;
            moved.sent.fetch_add(u64::try_from(read.len()).unwrap_or_default(), Ordering::Relaxed);
        }
        relay::both(&house.pipes, &inside, &outside, &moved).await
    };
    let tightened = async {
        while turns.changed().await.is_ok() {
            // What passes unseen is as the rules of now say, and nothing else.
            let look = house.rules().connect(&host, port).map(|(_, look)| look);
            if !matches!(look, Ok(Look::Pass)) {
                return;
            }
        }
    };
    let ended: io::Result<()> = tokio::select! {
        carried = carries => carried,
        () = tightened => Err(io::Error::other("the rules no longer allow it")),
    };
    if ended.is_err() {
        reset(&inside);
        reset(&outside);
    }
    house
        .say(Report::Over {
            wanted,
            sent: moved.sent.load(Ordering::Relaxed),
            received: moved.received.load(Ordering::Relaxed),
            milliseconds: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            trouble: ended.err().map(|error| error.to_string()),
        })
        .await;
}

/// Refuses so that the client can tell what happened, as far as what it speaks has words for it.
async fn refuse(inside: &TcpStream, first: &First, verdict: &Verdict) {
    let Verdict::Refused { why } = verdict else { return };
    match first {
        First::Http => crate::answers::refused(inside, why).await,
        // An alert: access denied.
        First::Tls(_) | First::OddTls(_) => {
            let _ = inside.try_write(&[0x15, 3, 3, 0, 2, 2, 49]);
            crate::answers::linger(inside).await;
        }
        First::Other | First::Silent | First::Gone => reset(inside),
    }
}

/// Lets it end as if nobody were there.
pub(crate) fn reset(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}
