//! Connections to the server that the requests of one client's connection go to.
//!
//! Invariants: what rests here was dialled for this client's host and port, and is used for no other; it is not used again
//! after the rules have changed, since its address was judged by those before.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use egress::http1::Upgrade;
use h2::client::SendRequest;
use tokio::io::AsyncReadExt;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{HEAD, Read, Refusal, Way, Wire};
use crate::dial::{NotDialled, dial};
use crate::house::Generation;
use crate::metered::Metered;

/// The most connections that rest.
const MOST_RESTING: usize = 16;
/// How long a server that speaks HTTP/2 may take to have room for one more request.
const ROOM: Duration = Duration::from_secs(60);

/// A connection to a server, and the address that was dialled for it.
pub(super) struct Server {
    pub(super) speaks: Speaks,
    pub(super) address: SocketAddr,
    /// Whether a request was served on it before: it may have ended since.
    pub(super) was_used: bool,
    /// Which rules its address was judged by.
    turn: u64,
}

/// What it speaks.
pub(super) enum Speaks {
    /// HTTP/1: one request at a time.
    One(Read<Wire>),
    /// HTTP/2: as many as it has room for.
    Two(SendRequest<Bytes>, Arc<Driver>),
}

/// What moves the frames of a connection, as long as somebody uses it.
pub(super) struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Moves on only after everybody else who is ready: what several requests have to say is then written at once.
struct Last<F>(F, bool);

impl<F: Future + Unpin> Future for Last<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.1 = !self.1;
        if self.1 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.0).poll(cx)
    }
}

impl Server {
    /// Whether nothing was read of it that belongs to nobody. One of HTTP/2 is kept elsewhere.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(&self.speaks, Speaks::One(read) if read.bytes.is_empty())
    }

    /// Whether it has not ended while it rested, and nobody has spoken unasked.
    async fn is_quiet(&mut self) -> bool {
        match &mut self.speaks {
            Speaks::One(read) => {
                // Looked at once, without a timer.
                let mut reads = std::pin::pin!(read.stream.read_buf(&mut read.bytes));
                poll_fn(|cx| Poll::Ready(reads.as_mut().poll(cx).is_pending())).await
            }
            Speaks::Two(_, driver) => !driver.0.is_finished(),
        }
    }
}

/// Those that rest, and what is known of the server.
pub(super) struct Pool {
    /// Whether the client speaks HTTP/2, and the server may be asked to.
    offers_two: bool,
    resting: Mutex<Vec<Server>>,
    known: tokio::sync::Mutex<Known>,
}

/// What the server was found to speak.
enum Known {
    Nothing,
    One,
    /// It could not be reached: whoever waited for that knows it too.
    Failed {
        when: Instant,
        refusal: Refusal,
    },
    Two {
        send: SendRequest<Bytes>,
        driver: Arc<Driver>,
        address: SocketAddr,
        turn: u64,
    },
}

impl Pool {
    pub(super) fn new(offers_two: bool) -> Self {
        Self { offers_two, resting: Mutex::default(), known: tokio::sync::Mutex::new(Known::Nothing) }
    }

    fn resting(&self) -> std::sync::MutexGuard<'_, Vec<Server>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a connection rest until it is needed again.
    pub(super) fn rest(&self, server: Server) {
        let mut resting = self.resting();
        if resting.len() < MOST_RESTING {
            resting.push(Server { was_used: true, ..server });
        }
    }

    /// A connection for one request: one that rests, if it still stands, or a new one. A WebSocket is opened with HTTP/1,
    /// which every server of them speaks.
    pub(super) async fn get(
        &self,
        way: &Way,
        generation: &Generation,
        upgrade: Upgrade,
    ) -> Result<Server, Refusal> {
        let now = way.house.turn();
        loop {
            let Some(mut server) = self.resting().pop() else { break };
            if server.turn == now && server.is_quiet().await {
                return Ok(server);
            }
        }
        if !self.offers_two || upgrade != Upgrade::None {
            return connect(way, generation, false).await;
        }
        // All first requests of a client wait for one connection, which will do for all of them if it is HTTP/2.
        let asked = Instant::now();
        let mut known = self.known.lock().await;
        match &*known {
            Known::One => {
                drop(known);
                return connect(way, generation, true).await;
            }
            Known::Two { send, driver, address, turn } if *turn == now && !driver.0.is_finished() => {
                let (send, driver, address) = (send.clone(), Arc::clone(driver), *address);
                drop(known);
                match room(send).await {
                    Ok(send) => {
                        let speaks = Speaks::Two(send, driver);
                        return Ok(Server { speaks, address, was_used: true, turn: now });
                    }
                    Err(true) => {
                        let why = "the server has no room for one more request".to_owned();
                        return Err(Refusal { why, status: 502, closes: false });
                    }
                    // It takes no more: a new one does.
                    Err(false) => known = self.known.lock().await,
                }
            }
            Known::Failed { when, refusal } if *when > asked => return Err(refusal.clone()),
            Known::Nothing | Known::Failed { .. } | Known::Two { .. } => {}
        }
        let server = match connect(way, generation, true).await {
            Ok(server) => server,
            Err(refusal) => {
                *known = Known::Failed { when: Instant::now(), refusal: refusal.clone() };
                return Err(refusal);
            }
        };
        *known = match &server.speaks {
            Speaks::One(_) => Known::One,
            Speaks::Two(send, driver) => {
                let (send, driver) = (send.clone(), Arc::clone(driver));
                Known::Two { send, driver, address: server.address, turn: server.turn }
            }
        };
        Ok(server)
    }
}

/// Waits until the server takes one more request. True: it still stands, and does not.
async fn room(mut send: SendRequest<Bytes>) -> Result<SendRequest<Bytes>, bool> {
    match timeout(ROOM, poll_fn(|cx| send.poll_ready(cx))).await {
        Ok(Ok(())) => Ok(send),
        Ok(Err(_)) => Err(false),
        Err(_) => Err(true),
    }
}

async fn connect(way: &Way, generation: &Generation, offers_two: bool) -> Result<Server, Refusal> {
    let turn = way.house.turn();
    let (stream, address) = dial(&generation.rules, &way.host, way.port).await.map_err(|error| {
        let status = if matches!(error, NotDialled::Refused { .. }) { 403 } else { 502 };
        Refusal { why: error.to_string(), status, closes: false }
    })?;
    let refused = |why| Refusal { why, status: 502, closes: false };
    let (stream, is_two): (Wire, bool) = match &way.tls {
        None => (Box::new(Metered::new(stream, &way.house.quota)), false),
        Some(tls) => {
            let (stream, is_two) = tls.greet(&way.host, stream, offers_two).await.map_err(refused)?;
            (Box::new(Metered::new(stream, &way.house.quota)), is_two)
        }
    };
    let speaks = if is_two {
        let begun = timeout(HEAD, super::two::client().handshake::<_, Bytes>(stream)).await;
        let late = || refused("the server does not begin to talk".into());
        let (send, connection) = begun.map_err(|_| late())?.map_err(|error| refused(error.to_string()))?;
        let driver = tokio::spawn(async move { drop(Last(connection, false).await) });
        Speaks::Two(send, Arc::new(Driver(driver)))
    } else {
        Speaks::One(Read { stream, bytes: Vec::new() })
    };
    Ok(Server { speaks, address, was_used: false, turn })
}
