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
use tokio::sync::watch;

use crate::dial::dial;
use crate::first::{self, First, Waits};
use crate::held;
use crate::house::{FROM, House};
use crate::quota::Over;
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

/// The pace at which connections are taken: many at once, and then as many as nobody notices who shares the processors. Those of
/// a flood wait for each other.
struct Pace {
    left: u32,
    since: Instant,
}

impl Pace {
    const AT_ONCE: u32 = 256;
    /// How many more there are after each moment.
    const EACH: u32 = 16;
    const MOMENT: Duration = Duration::from_millis(8);

    fn from(now: Instant) -> Self {
        Self { left: Self::AT_ONCE, since: now }
    }

    /// Whether it is somebody's turn.
    fn is_there(&mut self, now: Instant) -> bool {
        let moments = now.saturating_duration_since(self.since).as_nanos() / Self::MOMENT.as_nanos();
        if moments > 0 {
            let more = Self::EACH.saturating_mul(u32::try_from(moments).unwrap_or(u32::MAX));
            (self.left, self.since) = (self.left.saturating_add(more).min(Self::AT_ONCE), now);
        }
        let is_there = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_there
    }
}

/// Takes connections for as long as there are any.
pub(crate) async fn accept(house: Arc<House>, listener: TcpListener) {
    let mut pace = Pace::from(Instant::now());
    while !house.is_closed() {
        if house.is_full() {
            tokio::time::sleep(REST).await;
            continue;
        }
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(REST).await;
            continue;
        };
        while !pace.is_there(Instant::now()) {
            tokio::time::sleep(Pace::MOMENT).await;
        }
        if house.quota.turns_away() {
            // Nothing is kept for it, and nobody is told of it once more.
            reset(&stream);
            continue;
        }
        let open = house.opened();
        let house = Arc::clone(&house);
        tokio::spawn(FROM.scope(from, async move {
            serve(Arc::clone(&house), stream).await;
            house.ended().await;
            drop(open);
        }));
    }
}

/// Serves one connection. There may be thousands that only wait, so what is large is kept for those that need it.
async fn serve(house: Arc<House>, inside: TcpStream) {
    let _ = inside.set_nodelay(true);
    // Whoever connects to the listener itself was led here by nobody.
    let Some(to) = destination(&inside) else { return reset(&inside) };
    let port = to.port();
    if to.ip() == IpAddr::V4(names::SERVICE) {
        if port == PROXY_PORT {
            return match house.quota.connection() {
                Ok(_place) => {
                    came(&house, to).await;
                    Box::pin(crate::asked::serve(house, inside)).await;
                }
                Err(over) => too_much(&house, over, &inside, &Host::Address(to.ip()), to).await,
            };
        }
        return reset(&inside);
    }
    if to.ip() == IpAddr::V4(names::TELLING) {
        let Ok(_place) = house.quota.connection() else { return reset(&inside) };
        came(&house, to).await;
        return Box::pin(crate::telling::serve(&house, inside, port)).await;
    }
    let host = match names::number(to.ip()) {
        None => Host::Address(to.ip()),
        Some(_) => match house.named(to.ip()).await.and_then(|name| name.parse::<rules::Name>().ok()) {
            Some(name) => Host::Name(name),
            // It stands for no name of this sandbox.
            None => {
                came(&house, to).await;
                let wanted = wanted(&Host::Address(to.ip()), port);
                let why = "this address stands for no name that was asked for here".to_owned();
                house.judged(&wanted, Verdict::Refused { why }, None).await;
                return reset(&inside);
            }
        },
    };
    match house.quota.connection() {
        Ok(_place) => {
            came(&house, to).await;
            admit(house, host, port, inside, Vec::new()).await;
        }
        Err(over) => too_much(&house, over, &inside, &host, to).await,
    }
}

/// Tells that it came, before anything else of it is told: who asked is looked for while they are there.
async fn came(house: &House, to: SocketAddr) {
    if let Ok(from) = FROM.try_with(|from| *from) {
        house.say(Report::Came { from, to }).await;
    }
}

/// Refuses what is one too many; a few at a time are told why.
async fn too_much(house: &House, over: Over, inside: &TcpStream, host: &Host, to: SocketAddr) {
    if !house.quota.is_told(over) {
        came(house, to).await;
    }
    house.over(&wanted(host, to.port()), over).await;
    let Ok(_room) = house.quota.explained.try_acquire() else { return reset(inside) };
    let first = first::read(inside, &mut Vec::new(), Waits::Glances).await.unwrap_or(First::Gone);
    refuse(inside, &first, &Verdict::Refused { why: over.to_string() }).await;
}

/// Judges where a connection goes, and goes on with it if it may.
pub(crate) async fn admit(house: Arc<House>, host: Host, port: u16, inside: TcpStream, mut read: Vec<u8>) {
    let waits = if port == 80 || port == 443 { Waits::Speaks } else { Waits::Glances };
    let mut turns = house.turns();
    if let Some(verdict) = held::refused(&house, &host, port, &inside).await {
        house.judged(&wanted(&host, port), verdict.clone(), None).await;
        let first = first::read(&inside, &mut read, waits).await.unwrap_or(First::Gone);
        return refuse(&inside, &first, &verdict).await;
    }
    let look = match house.rules().connect(&host, port) {
        Ok((_, look)) => look,
        Err(verdict) => {
            // Before anything is read: whoever says nothing was refused as well.
            house.judged(&wanted(&host, port), verdict.clone(), None).await;
            let first = first::read(&inside, &mut read, waits).await.unwrap_or(First::Gone);
            return refuse(&inside, &first, &verdict).await;
        }
    };
    let first = tokio::select! {
        first = first::read(&inside, &mut read, waits) => first.unwrap_or(First::Gone),
        () = forbidden(&house, &mut turns, &host, port) => return reset(&inside),
    };
    let admitted = Admitted { house, host, port, inside, read };
    match (check(&admitted.host, look, &first), first) {
        // Nothing was said on it, so nothing is lost; and no port of the sandbox rests for a minute because of it.
        (_, First::Gone) => reset(&admitted.inside),
        (Err(why), first) => refused(admitted, &first, why).await,
        (Ok(()), First::Http) => Box::pin(crate::http::serve(admitted)).await,
        (Ok(()), First::Tls(_)) if look == Look::Inspect => Box::pin(crate::tls::serve(admitted)).await,
        (Ok(()), First::Silent) => Box::pin(pass(admitted, true)).await,
        (Ok(()), First::Tls(_) | First::OddTls(_) | First::Other) => Box::pin(pass(admitted, false)).await,
    }
}

/// Whether what the client says first agrees with where its connection goes, and with how it is looked at.
fn check(host: &Host, look: Look, first: &First) -> Result<(), String> {
    match first {
        First::Tls(hello) => {
            let named = hello.server_name.as_ref().map(|name| name.as_str());
            let agrees = match (host, named) {
                (Host::Name(host), Some(name)) => host.as_str() == name,
                (Host::Address(_), None) => true,
                (Host::Name(_), None) | (Host::Address(_), Some(_)) => false,
            };
            if !agrees {
                let named = named.unwrap_or("nobody");
                return Err(format!("the client greets `{named}`, and the connection goes to `{host}`"));
            }
            // There may be another greeting in it, for somebody else, which only the server can read.
            if hello.ech && look == Look::Pass {
                return Err("the greeting has a part that is encrypted, and may name another host".into());
            }
            Ok(())
        }
        First::OddTls(bad) => Err(format!("the greeting cannot be read in one way only: {bad}")),
        First::Other | First::Silent if look == Look::Inspect => {
            Err("a rule wants to see inside, and this is neither HTTP nor TLS".into())
        }
        First::Http | First::Other | First::Silent | First::Gone => Ok(()),
    }
}

/// Whether the first words of a client that let its server speak first may go there.
pub(crate) fn may_follow(host: &Host, first: &First) -> Result<(), String> {
    match first {
        First::Http => Err("a request on a connection that was to be something else".into()),
        first => check(host, Look::Pass, first),
    }
}

/// Comes back when the rules no longer allow a connection there at all.
pub(crate) async fn forbidden(house: &House, turns: &mut watch::Receiver<u64>, host: &Host, port: u16) {
    while turns.changed().await.is_ok() && house.rules().connect(host, port).is_ok() {}
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

/// Carries bytes without seeing what they are. `is_silent`: the client has said nothing yet, and is heard when it does.
async fn pass(admitted: Admitted, is_silent: bool) {
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
    if let Err(over) = house.quota.begun() {
        house.over(&wanted, over).await;
        return reset(&inside);
    }
    let tightened = async {
        while turns.changed().await.is_ok() {
            // What passes unseen is as the rules of now say, and nothing else.
            let look = house.rules().connect(&host, port).map(|(_, look)| look);
            if !matches!(look, Ok(Look::Pass)) {
                return;
            }
        }
    };
    tokio::pin!(tightened);
    let dialled = tokio::select! {
        biased;
        () = &mut tightened => {
            let why = "the rules no longer allow it".to_owned();
            house.judged(&wanted, Verdict::Refused { why }, None).await;
            return reset(&inside);
        }
        dialled = Box::pin(dial(&generation.rules, &host, port)) => dialled,
    };
    let (mut outside, address) = match dialled {
        Ok(dialled) => dialled,
        Err(error) => {
            house.judged(&wanted, Verdict::Refused { why: error.to_string() }, None).await;
            return reset(&inside);
        }
    };
    house.judged(&wanted, allowed, Some(address)).await;
    let moved = Moved::counted(Arc::clone(&house.quota));
    let carries = async {
        if !read.is_empty() {
            moved.out().check(&read)?;
            outside.write_all(&read).await?;
            moved.out().add(u64::try_from(read.len()).unwrap_or_default());
        }
        // Not for as long as the connection lasts.
        drop(read);
        if is_silent {
            return relay::spoken_to(&house.pipes, &inside, &outside, &moved, &host).await;
        }
        relay::both(&house.pipes, &inside, &outside, &moved).await
    };
    let ended: io::Result<()> = tokio::select! {
        biased;
        () = tightened => Err(io::Error::other("the rules no longer allow it")),
        carried = carries => carried,
    };
    let trouble = ended.err().map(|error| error.to_string());
    if let Some(why) = &trouble {
        reset(&inside);
        reset(&outside);
        if let Some(over) = house.quota.broke(why) {
            house.over(&wanted, over).await;
        }
    }
    house
        .say(Report::Over {
            wanted,
            sent: moved.sent.load(Ordering::Relaxed),
            received: moved.received.load(Ordering::Relaxed),
            milliseconds: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            status: None,
            trouble,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adv_n16_a_flood_is_taken_at_a_pace_and_few_at_once() {
        let begin = Instant::now();
        let mut pace = Pace::from(begin);
        assert_eq!((0..10_000).filter(|_| pace.is_there(begin)).count(), 256);
        // Two thousand in a second, however often somebody asks.
        let moments = (1..=10_000).map(|at| begin + Duration::from_micros(at * 100));
        let taken = moments.filter(|now| pace.is_there(*now)).count();
        assert!((1_900..=2_100).contains(&taken), "{taken}");
        let later = begin + Duration::from_secs(3_600);
        assert_eq!((0..10_000).filter(|_| pace.is_there(later)).count(), 256);
    }
}
