//! HTTP of a sandbox, request by request.
//!
//! Flow: a head -> does it ask for the host that the connection goes to? -> may it? -> the same request, written again from
//! its parts, to a server that was judged -> its answer. Invariants: the bytes judged are the bytes sent; a request that is
//! refused reaches nobody, and the next one on the same connection is judged by itself; content is passed on in pieces and
//! never kept, but for the beginning of a push, which says what is pushed, and what secrets are put into. Both versions of
//! HTTP end here as the same request: [`one`] serves it, whichever the client and the server speak.

mod carry;
mod client;
mod content;
mod gathered;
mod judge;
#[cfg(test)]
mod late;
mod login;
mod messages;
mod paced;
mod packed;
mod pair;
mod pass;
mod server;
pub(crate) mod two;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use egress::control::{Report, Verdict, Wanted};
use egress::http1::{Framing, HeadEnd, Request, Upgrade};
use rules::{Answer, Host};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use self::carry::{Counted, Ended, Guard};
use self::client::Client;
use self::content::Content;
use self::judge::{Allowed, judge, tightened};
use self::packed::{Inside, Packing};
use self::server::Pool;
use crate::answers;
use crate::connection::{Admitted, forbidden};
use crate::house::House;
use crate::lent::{Astray, Towards, Written};

/// How long a connection may rest between requests.
const RESTING: Duration = Duration::from_secs(120);
/// How long a head may take from its first byte on.
const HEAD: Duration = Duration::from_secs(30);
/// How long content of no length may take to go on while it is waited for as a whole.
const SOON: Duration = Duration::from_secs(2);
/// How long a server may take to answer: models think.
const ANSWER: Duration = Duration::from_secs(900);

/// A head that is longer has to wait for its turn.
const USUAL_HEAD: usize = 12 * 1024;
/// The most content that secrets are put into, and the most that it may unpack to.
const MOST_OF_CONTENT: u64 = 256 * 1024;
/// The same for content in zstd, which is looked at as a whole or not at all, and what it may unpack to.
const MOST_OF_ZSTD: u64 = 1024 * 1024;
const MOST_OF_UNPACKED_ZSTD: u64 = 8 * 1024 * 1024;
const MOST_UNPACKED: u64 = 1024 * 1024;

/// Both directions of something.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection, plain or not.
pub(crate) type Wire = Box<dyn Stream>;

/// Where the requests of one connection may go.
pub(crate) struct Way {
    pub(crate) house: Arc<House>,
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// What makes TLS to the server; none: plain.
    pub(crate) tls: Option<crate::tls::Client>,
    /// Whether there is only one request.
    pub(crate) once: bool,
}

/// A connection with what was read of it.
pub(crate) struct Read<S> {
    pub(crate) stream: S,
    pub(crate) bytes: Vec<u8>,
}

impl<S: AsyncRead + Unpin> Read<S> {
    /// The next head; none if nothing comes any more.
    /// Heads that are long are kept for few at a time, of those that `room` has.
    async fn head(&mut self, rest: Duration, room: Option<&Semaphore>) -> Result<Option<Vec<u8>>, Trouble> {
        let mut has_room = None;
        let (mut end, mut until) = (HeadEnd::new(), None);
        loop {
            if let Some(length) = end.find(&self.bytes).map_err(|bad| Trouble::Odd(bad.to_string()))? {
                // Usual room stays for what comes next; much is given back.
                if self.bytes.capacity() <= USUAL_HEAD {
                    return Ok(Some(self.bytes.drain(..length).collect()));
                }
                let rest = self.bytes.split_off(length);
                return Ok(Some(std::mem::replace(&mut self.bytes, rest)));
            }
            let limit = if self.bytes.is_empty() {
                rest
            } else {
                let until: &mut Instant = until.get_or_insert_with(|| Instant::now() + HEAD);
                until.saturating_duration_since(Instant::now())
            };
            if let (Some(room), None, true) = (room, &has_room, self.bytes.len() > USUAL_HEAD) {
                let waited = timeout(HEAD, room.acquire()).await;
                let late = || Trouble::Odd("too many long heads at once".into());
                has_room = Some(waited.map_err(|_| late())?.map_err(|_| late())?);
            }
            self.bytes.reserve(4096);
            match timeout(limit, self.stream.read_buf(&mut self.bytes)).await {
                Ok(Ok(0)) if self.bytes.is_empty() => return Ok(None),
                Ok(Ok(0)) => return Err(Trouble::Odd("the head is cut".into())),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error.into()),
                Err(_) if self.bytes.is_empty() => return Ok(None),
                Err(_) => return Err(Trouble::Odd("the head took too long".into())),
            }
        }
    }
}

/// Why a connection does not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// What came cannot be read in one way only.
    #[error("{0}")]
    Odd(String),
    /// What the client sends after its head cannot be read in one way only, or does not come.
    #[error("{0}")]
    Garbled(String),
    /// The connection broke.
    #[error(transparent)]
    Broken(#[from] io::Error),
    /// Content carries what must not go there.
    #[error("the content carries what stands for a secret, which must not go there")]
    Astray(Astray),
    /// The rules have changed.
    #[error("the rules no longer allow it")]
    Tightened,
    /// It goes on no further, and why.
    #[error("{0}")]
    Refused(String),
    /// Nobody waits for it any more.
    #[error("the other side gave it up")]
    Gone,
}

impl Trouble {
    /// What a client is told whose request has gone nowhere yet.
    fn refusal(&self) -> Option<Refusal> {
        let status = match self {
            Self::Odd(_) | Self::Garbled(_) => 400,
            Self::Refused(_) => 403,
            Self::Broken(_) | Self::Astray(_) | Self::Tightened | Self::Gone => return None,
        };
        Some(Refusal { why: self.to_string(), status, closes: true })
    }
}

/// Requests that anybody can read.
pub(crate) async fn serve(admitted: Admitted) {
    let Admitted { house, host, port, inside, read, .. } = admitted;
    let way = Way { house, host, port, tls: None, once: false };
    talk(&way, Read { stream: Box::new(inside), bytes: read }).await;
}

/// Serves one connection that speaks HTTP/1, until it ends.
pub(crate) async fn talk(way: &Way, mut inside: Read<Wire>) {
    let pool = Pool::new(false);
    let mut turns = way.house.turns();
    loop {
        let head = tokio::select! {
            biased;
            () = forbidden(&way.house, &mut turns, &way.host, way.port) => return,
            head = inside.head(RESTING, Some(&way.house.heads)) => head,
        };
        let head = match head {
            Ok(Some(head)) => head,
            Ok(None) => return,
            Err(Trouble::Odd(why)) => return refuse_whole(way, &mut inside.stream, why).await,
            Err(_) => return,
        };
        let request = match Request::parse(&head) {
            Ok(request) => request,
            Err(bad) => return refuse_whole(way, &mut inside.stream, bad.to_string()).await,
        };
        match one(way, &mut Client::One(&mut inside), &pool, request).await {
            Ok(true) => {}
            Ok(false) | Err(_) => {
                let _ = inside.stream.shutdown().await;
                return;
            }
        }
    }
}

/// What cannot be read is not judged: it is refused, and nothing after it is read.
async fn refuse_whole(way: &Way, inside: &mut Wire, why: String) {
    let wanted = Wanted { host: way.host.to_string(), port: way.port, ..Wanted::default() };
    way.house.judged(&wanted, Verdict::Refused { why: why.clone() }, None).await;
    let answer = answers::text(400, &why, false);
    let says = async {
        inside.write_all(&answer).await?;
        inside.shutdown().await
    };
    // One that reads none of the answers before this one is not waited for.
    let _ = timeout(HEAD, says).await;
}

/// Serves one request; true if another may follow on the same connection.
async fn one(way: &Way, client: &mut Client<'_>, pool: &Pool, request: Request) -> Result<bool, Trouble> {
    let begun = Instant::now();
    let wanted = Wanted {
        host: way.host.to_string(),
        port: way.port,
        method: Some(request.method.as_str().to_owned()),
        path: request.target.resource().map(|resource| resource.path().to_owned()),
    };
    let lent = way.house.lent();
    if let Some(astray) = lent.decoy_in(&request) {
        way.house.found(&wanted, astray.why()).await;
        let refusal = Refusal { why: astray.why(), status: 403, closes: true };
        return refused(way, client, &request, &wanted, refusal).await;
    }
    let mut turns = way.house.turns();
    let generation = way.house.rules();
    let mut content = Content::of_client(request.framing());
    let judged = tokio::select! {
        biased;
        () = forbidden(&way.house, &mut turns, &way.host, way.port) => return Err(Trouble::Tightened),
        judged = judge(way, &generation, client, &mut content, &request) => judged,
    };
    let Allowed { verdict: allowed, act, bounds } = match judged {
        Ok(Ok(judged)) => judged,
        Ok(Err(refusal)) => return refused(way, client, &request, &wanted, refusal).await,
        Err(trouble) => match trouble.refusal() {
            Some(refusal) => return refused(way, client, &request, &wanted, refusal).await,
            None => return Err(trouble),
        },
    };
    if let Err(over) = way.house.quota.request() {
        way.house.over(&wanted, over).await;
        let refusal = Refusal { why: over.to_string(), status: 403, closes: false };
        return answered(way, client, &request, &refusal).await;
    }
    if let Some(renews) = login::renews(way, &request) {
        return login::renewed(way, client, &mut content, request, (wanted, allowed), renews).await;
    }
    let path = wanted.path.clone().unwrap_or_default();
    let towards = Towards { host: &way.host, port: way.port, path: &path, is_private: way.tls.is_some() };
    let messages = bounds.messages.as_ref();
    let asked = Guard { lent: &lent, towards, once: way.once, most: None, messages };
    let used = tokio::select! {
        biased;
        () = tightened(way, &generation, &mut turns, &request, &act, asked) => return Err(Trouble::Tightened),
        used = login::ready(way, &lent, &request) => used,
    };
    let used = match used {
        Ok(used) => used,
        Err(refusal) => return refused(way, client, &request, &wanted, refusal).await,
    };
    // Another token may be lent by now.
    let lent = way.house.lent();
    // What is judged again is what was asked for, without what is put in.
    let mut filled = Filled(request.clone());
    let _socket = match socket(way, &mut filled.0) {
        Ok(socket) => socket,
        Err(refusal) => return refused(way, client, &request, &wanted, refusal).await,
    };
    let has_content = !matches!(request.framing(), Framing::Empty | Framing::Length(0));
    if has_content
        && !lent.is_empty()
        && let Some(why) = unseen(&request)
    {
        return refused(way, client, &request, &wanted, Refusal { why, status: 403, closes: true }).await;
    }
    let limit = Limit::of(way, &request, bounds.answer);
    let guard = Guard { lent: &lent, towards, once: way.once, most: limit.bytes, messages };
    limit.ask(&mut filled.0);
    let found = tokio::select! {
        biased;
        () = tightened(way, &generation, &mut turns, &request, &act, guard) => return Err(Trouble::Tightened),
        found = fill(guard, client, &mut content, &mut filled.0, &way.house.contents) => found,
    };
    match found {
        Ok(Ok(())) => {}
        Ok(Err(astray)) => {
            way.house.found(&wanted, astray.why()).await;
            let refusal = Refusal { why: astray.why(), status: 403, closes: true };
            return refused(way, client, &request, &wanted, refusal).await;
        }
        Err(trouble) => match trouble.refusal() {
            Some(refusal) => return refused(way, client, &request, &wanted, refusal).await,
            None => return Err(trouble),
        },
    }
    let whole = content.over.then_some(content.held.as_slice());
    if let Err(why) = lent.sign(&mut filled.0, whole, towards) {
        return refused(way, client, &request, &wanted, Refusal { why, status: 403, closes: true }).await;
    }
    let mut counted = Counted::default();
    let (server, ended) = loop {
        let got = tokio::select! {
            biased;
            () = limit.late() => Err(Refusal { why: limit.why(), status: 403, closes: true }),
            got = pool.get(way, &generation, request.upgrade()) => got,
        };
        let mut server = match got {
            Ok(server) => server,
            Err(refusal) => return refused(way, client, &request, &wanted, refusal).await,
        };
        if counted.tries == 0 {
            way.house.judged(&wanted, allowed.clone(), Some(server.address)).await;
        }
        counted.tries += 1;
        let exchange =
            carry::exchange(client, &mut content, &mut server.speaks, &filled.0, &mut counted, guard);
        let ended = tokio::select! {
            biased;
            () = tightened(way, &generation, &mut turns, &request, &act, guard) => Err(Trouble::Tightened),
            () = limit.late() => Err(Trouble::Refused(limit.why())),
            ended = exchange => ended,
        };
        // A server may end a connection that rests just when it is used again; then nobody has seen the request.
        // Only what may be asked twice, and only if not one byte came back.
        let is_harmless = matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS");
        let is_unseen = server.was_used
            && is_harmless
            && counted.received == 0
            && !counted.answered
            && request.framing() == Framing::Empty;
        if is_unseen && counted.tries == 1 && matches!(ended, Err(Trouble::Odd(_) | Trouble::Broken(_))) {
            continue;
        }
        break (server, ended);
    };
    login::seen(way, used, counted.status).await;
    tell(way, wanted, &counted, ended.as_ref().err(), begun).await;
    let (status, why) = match ended {
        Ok(Ended { server_stays, client_stays }) => {
            if server_stays && server.is_at_rest() {
                pool.rest(server);
            }
            return Ok(client_stays);
        }
        Err(Trouble::Astray(astray)) if !counted.answered => (403, astray.why()),
        Err(Trouble::Refused(why)) if !counted.answered => (403, why),
        Err(Trouble::Garbled(why)) if !counted.answered => (400, why),
        Err(trouble @ (Trouble::Odd(_) | Trouble::Broken(_))) if !counted.answered => {
            (502, trouble.to_string())
        }
        Err(trouble) => return Err(trouble),
    };
    client.refuse(&request, status, &why, false).await?;
    Ok(false)
}

/// Tells what became of a request that was allowed.
async fn tell(way: &Way, wanted: Wanted, counted: &Counted, trouble: Option<&Trouble>, begun: Instant) {
    if let Some(Trouble::Astray(astray)) = trouble {
        way.house.found(&wanted, astray.why()).await;
    }
    let broken = trouble.map(ToString::to_string);
    if let Some(over) = broken.as_ref().and_then(|why| way.house.quota.broke(why)) {
        way.house.over(&wanted, over).await;
    }
    if let Some(Trouble::Refused(why)) = trouble {
        way.house.remember(&wanted, why);
    }
    if let Some(name) = &counted.came_back {
        way.house.found(&wanted, format!("the answer carried the secret `{name}`; it was masked")).await;
    }
    let over = Report::Over {
        wanted,
        sent: counted.sent,
        received: counted.received,
        milliseconds: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        status: counted.status,
        trouble: broken,
    };
    way.house.say(over).await;
}

/// Takes a place for a WebSocket, if one is asked for, and leaves nothing in it that could not be read.
fn socket<'a>(
    way: &'a Way,
    request: &mut Request,
) -> Result<Option<tokio::sync::SemaphorePermit<'a>>, Refusal> {
    if request.upgrade() != Upgrade::WebSocket {
        return Ok(None);
    }
    // Messages that are packed cannot be judged, so none are offered to be.
    request.fields.remove("sec-websocket-extensions");
    let full = |_| Refusal { why: "too many WebSockets at once".into(), status: 403, closes: false };
    way.house.sockets.try_acquire().map(Some).map_err(full)
}

/// Why content does not go out where something is lent: it is packed so that nobody can look at it.
fn unseen(request: &Request) -> Option<String> {
    match (Packing::of(&request.fields), request.framing()) {
        (Packing::Zstd, Framing::Length(..=MOST_OF_ZSTD)) => None,
        (Packing::Zstd, _) => Some(format!(
            "content in zstd is looked at as a whole, up to {} KiB whose length is told; send it plain, or as `gzip`",
            MOST_OF_ZSTD / 1024
        )),
        (packing, _) => packing.unseen(),
    }
}

/// Puts secrets into a request that may go: into its head, and into content that is small.
async fn fill(
    Guard { lent, towards, .. }: Guard<'_>,
    client: &mut Client<'_>,
    content: &mut Content,
    request: &mut Request,
    room: &Semaphore,
) -> Result<Result<(), Astray>, Trouble> {
    if matches!(client, Client::Two { .. }) {
        client.goes_on(request).await?;
    }
    if lent.is_empty() {
        return Ok(Ok(()));
    }
    if let Err(astray) = lent.fill(request, towards) {
        return Ok(Err(astray));
    }
    let kind = request.fields.only("content-type").unwrap_or_default().to_vec();
    let packing = Packing::of(&request.fields);
    let (most, most_unpacked) = match packing {
        Packing::Zstd => (MOST_OF_ZSTD, MOST_OF_UNPACKED_ZSTD),
        _ => (MOST_OF_CONTENT, MOST_UNPACKED),
    };
    let patience = match request.framing() {
        Framing::Length(count) if (1..=most).contains(&count) => HEAD,
        // Others may be talks that go on while the server answers, and so may these be.
        Framing::Chunked if matches!(Written::of(&kind, b""), Written::Form | Written::Json) => SOON,
        _ => return Ok(Ok(())),
    };
    // What is kept as a whole is kept for few at a time.
    let _room = room.acquire().await.map_err(|_| Trouble::Tightened)?;
    client.goes_on(request).await?;
    let (mut from, _) = client.split();
    while !content.over && length(&content.held) <= most {
        match timeout(patience, content.hold(&mut from)).await {
            Ok(held) => held?,
            Err(_) if request.framing() == Framing::Chunked => break,
            Err(_) => return Err(Trouble::Odd("the content is cut".into())),
        }
    }
    // What is longer, or takes longer, goes on as it comes, and is watched.
    if !content.over {
        return Ok(Ok(()));
    }
    // Before anything goes, also in what is not called packed.
    if packing == Packing::No
        && let Err(Trouble::Astray(astray)) = Inside::new(lent.watch()).look(&content.held)
    {
        return Ok(Err(astray));
    }
    let unpacked = packed::whole(&content.held, &packing, most_unpacked);
    if packing == Packing::Zstd {
        let why = "the content cannot be unpacked, or is too long then, so it cannot be looked at";
        let plain = unpacked.as_deref().ok_or_else(|| Trouble::Refused(why.into()))?;
        // It goes on as it came unless something is put in, and nobody looks into it then.
        if lent.fill_content(plain, Written::of(&kind, plain), towards).is_ok_and(|new| new.is_none())
            && let Err(astray) = lent.watch().look(plain)
        {
            return Ok(Err(astray));
        }
    }
    let plain = unpacked.as_deref().unwrap_or(&content.held);
    match lent.fill_content(plain, Written::of(&kind, plain), towards) {
        Ok(None) => {}
        Ok(Some(new)) => {
            request.fields.remove("content-encoding");
            if matches!(request.framing(), Framing::Length(_)) {
                request.set_length(length(&new));
            }
            content.put(&new);
        }
        Err(astray) => return Ok(Err(astray)),
    }
    Ok(Ok(()))
}

/// What an answer has to keep to: by the rule that allows the request, and by the limits of the run.
struct Limit {
    bytes: Option<u64>,
    seconds: Option<u64>,
    until: Option<Instant>,
}

impl Limit {
    /// A WebSocket is no answer: it goes on.
    fn of(way: &Way, request: &Request, answer: Option<Answer>) -> Self {
        if request.upgrade() != Upgrade::None {
            return Self { bytes: None, seconds: None, until: None };
        }
        let all = way.house.quota.limits();
        let bytes = answer.map(|answer| answer.bytes).into_iter().chain(all.answer_bytes).min();
        let seconds = answer.map(|answer| answer.seconds).into_iter().chain(all.answer_seconds).min();
        let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        Self { bytes, seconds, until }
    }

    /// Asks for an answer whose length can be seen.
    fn ask(&self, request: &mut Request) {
        if self.bytes.is_some() && request.fields.remove("accept-encoding") > 0 {
            let _ = request.fields.set("Accept-Encoding", b"identity");
        }
    }

    /// Comes back when it takes too long.
    async fn late(&self) {
        match self.until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    fn why(&self) -> String {
        let seconds = self.seconds.unwrap_or_default();
        format!("the answer takes longer than the {seconds} seconds that a rule or limit lets it have")
    }
}

/// A request in which secrets may be, as long as it is needed.
struct Filled(Request);

impl Drop for Filled {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

/// Why a request goes nowhere.
#[derive(Clone)]
struct Refusal {
    why: String,
    status: u16,
    /// Whether nothing more is read from this connection.
    closes: bool,
}

async fn refused(
    way: &Way,
    client: &mut Client<'_>,
    request: &Request,
    wanted: &Wanted,
    refusal: Refusal,
) -> Result<bool, Trouble> {
    way.house.judged(wanted, Verdict::Refused { why: refusal.why.clone() }, None).await;
    answered(way, client, request, &refusal).await
}

/// Tells the client why, and nobody else.
async fn answered(
    way: &Way,
    client: &mut Client<'_>,
    request: &Request,
    refusal: &Refusal,
) -> Result<bool, Trouble> {
    // Content that nobody wants is not read: the connection ends instead.
    let has_content = !matches!(request.framing(), Framing::Empty | Framing::Length(0));
    let stays = request.is_persistent() && !has_content && !refusal.closes && !way.once;
    client.refuse(request, refusal.status, &refusal.why, stays).await?;
    Ok(stays)
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or_default()
}
