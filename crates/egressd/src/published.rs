//! Connections of this machine's loopback to a port inside the sandbox.
//!
//! Flow: somebody connects to a listener of the launcher's -> a socket that was made inside -> that one port of the
//! sandbox's loopback -> bytes both ways -> the socket again, as new. Invariants: nothing but that port is ever connected
//! to, and whoever connects chooses nothing; there are as many connections at once as there are such sockets; the others
//! wait.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use egress::control::Report;
use rustix::net::AddressFamily;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::connection::reset;
use crate::house::House;
use crate::relay::{self, Moved};

/// How long accepting rests when it cannot be done.
const REST: Duration = Duration::from_millis(50);
/// How long something inside may take to take a connection.
const DIALLING: Duration = Duration::from_secs(10);
/// How long what was sent last may take to be taken.
const EMPTYING: Duration = Duration::from_secs(30);
/// How often it is looked whether it was.
const LOOKING: Duration = Duration::from_millis(5);

/// The sockets that were made inside.
#[derive(Debug)]
pub(crate) struct WaysIn {
    free: Mutex<Vec<Way>>,
    /// As many as there are free ones.
    count: Semaphore,
    /// Whether it is over with them.
    closed: watch::Sender<bool>,
}

/// What one connection needs.
#[derive(Debug, Default)]
struct Way {
    v4: Option<OwnedFd>,
    v6: Option<OwnedFd>,
}

impl Default for WaysIn {
    fn default() -> Self {
        Self { free: Mutex::default(), count: Semaphore::new(0), closed: watch::channel(false).0 }
    }
}

impl WaysIn {
    /// Takes more of them.
    pub(crate) fn add(&self, sockets: Vec<OwnedFd>) {
        for socket in sockets {
            let is_v6 = rustix::net::sockopt::socket_domain(&socket) == Ok(AddressFamily::INET6);
            let mut free = self.free();
            let place = free.iter_mut().find(|way| if is_v6 { way.v6.is_none() } else { way.v4.is_none() });
            match (place, is_v6) {
                (Some(way), true) => way.v6 = Some(socket),
                (Some(way), false) => way.v4 = Some(socket),
                (None, is_v6) => {
                    let (v4, v6) = if is_v6 { (None, Some(socket)) } else { (Some(socket), None) };
                    free.push(Way { v4, v6 });
                    self.count.add_permits(1);
                }
            }
        }
    }

    /// Ends what there is.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Way>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes connections to one port for as long as there are any.
pub(crate) async fn accept(house: Arc<House>, listener: TcpListener, port: u16) {
    let mut closed = house.ways_in.closed.subscribe();
    let takes = async {
        loop {
            let Ok((outside, _)) = listener.accept().await else {
                sleep(REST).await;
                continue;
            };
            let Ok(room) = house.ways_in.count.acquire().await else { return };
            let Some(way) = house.ways_in.free().pop() else { return };
            room.forget();
            let (house, open) = (Arc::clone(&house), house.opened());
            tokio::spawn(async move {
                serve(&house, &way, outside, port).await;
                house.ways_in.free().push(way);
                house.ways_in.count.add_permits(1);
                drop(open);
            });
        }
    };
    let mut turns = house.turns();
    let ends = async { while turns.changed().await.is_ok() && !house.is_closed() {} };
    tokio::select! {
        () = takes => {}
        _ = closed.wait_for(|is_closed| *is_closed) => {}
        () = ends => {}
    }
}

/// Carries one connection.
async fn serve(house: &House, way: &Way, outside: TcpStream, port: u16) {
    let _ = outside.set_nodelay(true);
    let mut closed = house.ways_in.closed.subscribe();
    let mut turns = house.turns();
    let moved = Moved::default();
    let carries = async {
        let inside = enter(way, port).await?;
        relay::both(&house.pipes, &outside, &inside, &moved).await
    };
    let carried: io::Result<()> = tokio::select! {
        carried = carries => carried,
        _ = closed.wait_for(|is_closed| *is_closed) => Err(io::ErrorKind::ConnectionAborted.into()),
        () = async { while turns.changed().await.is_ok() && !house.is_closed() {} } => {
            Err(io::ErrorKind::ConnectionAborted.into())
        }
    };
    match carried {
        Ok(()) => emptied(way).await,
        Err(_) => reset(&outside),
    }
    // Whatever it was connected to: as new for the next one.
    for socket in way.v4.iter().chain(&way.v6) {
        let _ = rustix::net::connect_unspec(socket);
    }
    let (entered, left) = (moved.sent.load(Ordering::Relaxed), moved.received.load(Ordering::Relaxed));
    house.say(Report::Entered { port, entered, left }).await;
}

/// Connects to the port inside, in the version of addresses that somebody listens in.
async fn enter(way: &Way, port: u16) -> io::Result<TcpStream> {
    let ways = [(&way.v4, IpAddr::V4(Ipv4Addr::LOCALHOST)), (&way.v6, IpAddr::V6(Ipv6Addr::LOCALHOST))];
    let mut last = io::Error::from(io::ErrorKind::ConnectionRefused);
    for (socket, address) in ways {
        let Some(socket) = socket else { continue };
        // A second descriptor of the same socket: the first one stays for the next connection.
        let again = std::net::TcpStream::from(socket.try_clone()?);
        let dials = TcpSocket::from_std_stream(again).connect(SocketAddr::new(address, port));
        match timeout(DIALLING, dials).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
        let _ = rustix::net::connect_unspec(socket);
    }
    Err(last)
}

/// Waits until everything that was sent has been taken: what is disconnected before that is lost.
async fn emptied(way: &Way) {
    let until = Instant::now() + EMPTYING;
    let is_connected = || way.v4.iter().chain(&way.v6).any(|socket| rustix::net::getpeername(socket).is_ok());
    while is_connected() && Instant::now() < until {
        sleep(LOOKING).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SocketFlags, SocketType};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn socket(family: AddressFamily) -> OwnedFd {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        rustix::net::socket_with(family, SocketType::STREAM, flags, None).unwrap()
    }

    #[tokio::test]
    async fn one_socket_serves_one_connection_after_the_other() {
        let (house, mut said) = House::new();
        let house = Arc::new(house);
        house.ways_in.add(vec![socket(AddressFamily::INET)]);
        let inside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, at) = (inside.local_addr().unwrap().port(), outside.local_addr().unwrap());
        tokio::spawn(accept(Arc::clone(&house), outside, port));
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = inside.accept().await.unwrap();
                let mut text = Vec::new();
                stream.read_to_end(&mut text).await.unwrap();
                stream.write_all(&text.repeat(2)).await.unwrap();
            }
        });
        for number in 0..20u32 {
            let mut client = TcpStream::connect(at).await.unwrap();
            let text = number.to_string().repeat(50_000);
            client.write_all(text.as_bytes()).await.unwrap();
            client.shutdown().await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(answer == text.repeat(2), "{number}");
            let bytes = u64::try_from(text.len()).unwrap();
            assert_eq!(
                said.said.recv().await,
                Some(Report::Entered { port, entered: bytes, left: 2 * bytes })
            );
        }
        house.ways_in.close();
    }

    #[tokio::test]
    async fn where_nobody_listens_it_breaks_and_the_socket_is_not_lost() {
        let (house, mut said) = House::new();
        let house = Arc::new(house);
        house.ways_in.add(vec![socket(AddressFamily::INET), socket(AddressFamily::INET6)]);
        // Taken by nobody: it was given back.
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = outside.local_addr().unwrap();
        tokio::spawn(accept(Arc::clone(&house), outside, port));
        for _ in 0..3 {
            let mut client = TcpStream::connect(at).await.unwrap();
            assert!(client.read(&mut [0]).await.is_err());
            assert_eq!(said.said.recv().await, Some(Report::Entered { port, entered: 0, left: 0 }));
        }
        house.ways_in.close();
    }
}
