//! HTTP/1 of a sandbox, request by request.
//!
//! Flow: a head -> does it ask for the host that the connection goes to? -> may it? -> the same request, written again from
//! its parts, to a server that was judged -> its answer. Invariants: the bytes judged are the bytes sent; a request that is
//! refused reaches nobody, and the next one on the same connection is judged by itself; content is passed on in pieces and
//! never kept, but for the beginning of a push, which says what is pushed.

mod carry;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use egress::control::{Report, Verdict, Wanted};
use egress::http1::{Framing, HeadEnd, Request, Target, Upgrade};
use egress::pkt_line;
use rules::{Host, git};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use self::carry::{Counted, Guard};
use crate::answers;
use crate::connection::{Admitted, forbidden};
use crate::dial::{NotDialled, dial};
use crate::house::{Generation, House};
use crate::lent::{Astray, Lent, Towards};

/// How long a connection may rest between requests.
const RESTING: Duration = Duration::from_secs(120);
/// How long a head may take from its first byte on.
const HEAD: Duration = Duration::from_secs(30);
/// How long a server may take to answer: models think.
const ANSWER: Duration = Duration::from_secs(900);
/// The most of a push that is read before it is judged.
const MOST_OF_PUSH: usize = 256 * 1024;

/// A head that is longer has to wait for its turn.
const USUAL_HEAD: usize = 12 * 1024;
/// The most content that secrets are put into.
const MOST_OF_CONTENT: u64 = 256 * 1024;

/// Both directions of something.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

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
    /// The connection broke.
    #[error(transparent)]
    Broken(#[from] io::Error),
    /// Content carries what must not go there.
    #[error("the content carries what stands for a secret, which must not go there")]
    Astray(Astray),
    /// The rules have changed.
    #[error("the rules no longer allow it")]
    Tightened,
}

/// Requests that anybody can read.
pub(crate) async fn serve(admitted: Admitted) {
    let Admitted { house, host, port, inside, read, .. } = admitted;
    let way = Way { house, host, port, tls: None, once: false };
    talk(&way, Read { stream: inside, bytes: read }).await;
}

/// A connection to a server, and the address that was dialled for it.
struct Server {
    read: Read<Box<dyn Stream>>,
    address: SocketAddr,
    /// Whether a request was served on it before: it may have ended since.
    was_used: bool,
}

impl Server {
    /// Whether it has not ended while it rested, and nobody has spoken unasked.
    async fn is_quiet(&mut self) -> bool {
        timeout(Duration::ZERO, self.read.stream.read_buf(&mut self.read.bytes)).await.is_err()
    }
}

/// Serves one connection until it ends.
pub(crate) async fn talk<S: Stream>(way: &Way, mut inside: Read<S>) {
    let mut outside: Option<Server> = None;
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
        match one(way, &mut inside, &mut outside, request).await {
            Ok(true) => {}
            Ok(false) | Err(_) => {
                let _ = inside.stream.shutdown().await;
                return;
            }
        }
    }
}

/// What cannot be read is not judged: it is refused, and nothing after it is read.
async fn refuse_whole<S: Stream>(way: &Way, inside: &mut S, why: String) {
    let wanted = Wanted { host: way.host.to_string(), port: way.port, ..Wanted::default() };
    way.house.judged(&wanted, Verdict::Refused { why: why.clone() }, None).await;
    let _ = inside.write_all(&answers::text(400, &why, false)).await;
    let _ = inside.shutdown().await;
}

/// Serves one request; true if another may follow.
async fn one<S: Stream>(
    way: &Way,
    inside: &mut Read<S>,
    outside: &mut Option<Server>,
    request: Request,
) -> Result<bool, Trouble> {
    let begun = Instant::now();
    let wanted = Wanted {
        host: way.host.to_string(),
        port: way.port,
        method: Some(request.method.as_str().to_owned()),
        path: request.target.resource().map(|resource| resource.path().to_owned()),
    };
    let mut turns = way.house.turns();
    let generation = way.house.rules();
    let judged = tokio::select! {
        biased;
        () = forbidden(&way.house, &mut turns, &way.host, way.port) => return Err(Trouble::Tightened),
        judged = judge(way, &generation, inside, &request) => judged,
    };
    let (allowed, act) = match judged {
        Ok(Ok(judged)) => judged,
        Ok(Err(refusal)) => return refused(way, inside, &request, &wanted, refusal).await,
        Err(Trouble::Odd(why)) => {
            let refusal = Refusal { why, status: 400, closes: true };
            return refused(way, inside, &request, &wanted, refusal).await;
        }
        Err(trouble) => return Err(trouble),
    };
    let lent = way.house.lent();
    let towards = Towards { host: &way.host, port: way.port, is_private: way.tls.is_some() };
    // What is judged again is what was asked for, without what is put in.
    let mut filled = request.clone();
    if !lent.is_empty() {
        let found = tokio::select! {
            biased;
            () = tightened(way, &mut turns, &request, &act) => return Err(Trouble::Tightened),
            found = fill(&lent, inside, &mut filled, towards, &way.house.contents) => found?,
        };
        if let Err(astray) = found {
            way.house.found(&wanted, astray.why()).await;
            let refusal = Refusal { why: astray.why(), status: 403, closes: true };
            return refused(way, inside, &request, &wanted, refusal).await;
        }
        if filled.upgrade() == Upgrade::WebSocket && lent.concerns(towards) {
            let why =
                "no WebSocket goes to a host that a secret is lent for: what comes back in one is not masked"
                    .to_owned();
            return refused(way, inside, &request, &wanted, Refusal { why, status: 403, closes: false })
                .await;
        }
    }
    let mut counted = Counted::default();
    let (server, ended) = loop {
        let mut server = match server(way, &generation, outside).await {
            Ok(server) => server,
            Err(refusal) => return refused(way, inside, &request, &wanted, refusal).await,
        };
        if counted.tries == 0 {
            way.house.judged(&wanted, allowed.clone(), Some(server.address)).await;
        }
        counted.tries += 1;
        let guard = Guard { lent: &lent, concerns: lent.concerns(towards), once: way.once };
        let exchange = carry::exchange(inside, &mut server.read, &filled, &mut counted, guard);
        let ended = tokio::select! {
            biased;
            () = tightened(way, &mut turns, &request, &act) => Err(Trouble::Tightened),
            ended = exchange => ended,
        };
        // A server may end a connection that rests just when it is used again; then nobody has seen the request.
        let is_unseen = server.was_used && !counted.answered && request.framing() == Framing::Empty;
        if is_unseen && counted.tries == 1 && matches!(ended, Err(Trouble::Odd(_) | Trouble::Broken(_))) {
            continue;
        }
        break (server, ended);
    };
    let over = Report::Over {
        wanted: wanted.clone(),
        sent: counted.sent,
        received: counted.received,
        milliseconds: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        trouble: ended.as_ref().err().map(ToString::to_string),
    };
    if let Err(Trouble::Astray(astray)) = &ended {
        way.house.found(&wanted, astray.why()).await;
    }
    if let Some(name) = &counted.came_back {
        way.house.found(&wanted, format!("the answer carried the secret `{name}`; it was masked")).await;
    }
    way.house.say(over).await;
    match ended {
        Ok(carry::Ended { server_stays, client_stays }) => {
            if server_stays && server.read.bytes.is_empty() {
                *outside = Some(Server { was_used: true, ..server });
            }
            Ok(client_stays)
        }
        Err(Trouble::Odd(why)) if !counted.answered => {
            let _ = inside.stream.write_all(&answers::to(&request, 502, &why, false)).await;
            Ok(false)
        }
        Err(trouble) => Err(trouble),
    }
}

/// A connection to the server: the one that rests, if it still stands, or a new one.
async fn server(way: &Way, generation: &Generation, outside: &mut Option<Server>) -> Result<Server, Refusal> {
    if let Some(mut server) = outside.take()
        && server.is_quiet().await
    {
        return Ok(server);
    }
    connect(way, generation).await
}

/// Comes back when the rules no longer allow this request.
async fn tightened(way: &Way, turns: &mut watch::Receiver<u64>, request: &Request, act: &Option<git::Act>) {
    while turns.changed().await.is_ok() && decide(way, &way.house.rules(), request, act.clone()).is_ok() {}
}

/// Puts secrets into a request that may go: into its head, and into content that is small.
async fn fill<S: Stream>(
    lent: &Lent,
    inside: &mut Read<S>,
    request: &mut Request,
    towards: Towards<'_>,
    room: &Semaphore,
) -> Result<Result<(), Astray>, Trouble> {
    if let Err(astray) = lent.fill(request, towards) {
        return Ok(Err(astray));
    }
    let Framing::Length(length @ 1..=MOST_OF_CONTENT) = request.framing() else { return Ok(Ok(())) };
    let length = usize::try_from(length).unwrap_or_default();
    // What is kept as a whole is kept for few at a time.
    let _room = room.acquire().await.map_err(|_| Trouble::Tightened)?;
    if request.expects_continue() {
        inside.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        inside.stream.flush().await?;
        request.fields.remove("expect");
    }
    while inside.bytes.len() < length {
        match timeout(HEAD, inside.stream.read_buf(&mut inside.bytes)).await {
            Ok(Ok(0)) | Err(_) => return Err(Trouble::Odd("the content is cut".into())),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error.into()),
        }
    }
    let kind = request.fields.only("content-type").unwrap_or_default();
    let is_form = kind.starts_with(b"application/x-www-form-urlencoded");
    let content = inside.bytes.get(..length).unwrap_or_default();
    match lent.fill_content(content, !is_form, towards) {
        Ok(None) => {}
        Ok(Some(new)) => {
            request.set_length(u64::try_from(new.len()).unwrap_or_default());
            inside.bytes.splice(..length, new.iter().copied());
        }
        Err(astray) => return Ok(Err(astray)),
    }
    Ok(Ok(()))
}

/// Why a request goes nowhere.
struct Refusal {
    why: String,
    status: u16,
    /// Whether nothing more is read from this connection.
    closes: bool,
}

async fn refused<S: Stream>(
    way: &Way,
    inside: &mut Read<S>,
    request: &Request,
    wanted: &Wanted,
    refusal: Refusal,
) -> Result<bool, Trouble> {
    way.house.judged(wanted, Verdict::Refused { why: refusal.why.clone() }, None).await;
    // Content that nobody wants is not read: the connection ends instead.
    let has_content = !matches!(request.framing(), Framing::Empty | Framing::Length(0));
    let stays = request.is_persistent() && !has_content && !refusal.closes && !way.once;
    inside.stream.write_all(&answers::to(request, refusal.status, &refusal.why, stays)).await?;
    inside.stream.flush().await?;
    Ok(stays)
}

/// The verdict on one request, with what it does to a repository.
async fn judge<S: Stream>(
    way: &Way,
    generation: &Generation,
    inside: &mut Read<S>,
    request: &Request,
) -> Result<Result<(Verdict, Option<git::Act>), Refusal>, Trouble> {
    let no = |why: String| Ok(Err(Refusal { why, status: 403, closes: false }));
    match &request.target {
        Target::Origin(_) => {}
        Target::Absolute(scheme, _) => {
            let plain = way.tls.is_none();
            if (*scheme == egress::http1::Scheme::Http) != plain {
                return no("the request names another scheme than its connection has".into());
            }
        }
        Target::Connect => return no("this is no proxy; connect to the host itself".into()),
        Target::Server => {}
    }
    let usual = if way.tls.is_some() { 443 } else { 80 };
    let said = request.authority.host.to_string().parse::<Host>().ok();
    if said.as_ref() != Some(&way.host) || request.authority.port.unwrap_or(usual) != way.port {
        let host = &way.host;
        return no(format!(
            "the request is for `{}`, and the connection goes to `{host}:{}`",
            request.authority, way.port
        ));
    }
    let act = match request.target.resource() {
        None => None,
        Some(resource) => {
            let path = match rules::path::canonical(resource.path()) {
                Ok(path) => path,
                Err(odd) => return no(odd.to_string()),
            };
            match git::act(request.method.as_str(), &path, resource.query()) {
                Some(act) if git::needs_refs(request.method.as_str(), &path) => {
                    if request.fields.all("content-encoding").next().is_some() {
                        return no("a push that is compressed cannot be judged; set `http.postBuffer` lower or send it plain".into());
                    }
                    Some(git::Act { verb: git::Verb::Push { refs: pushed(inside, request).await? }, ..act })
                }
                other => other,
            }
        }
    };
    Ok(match decide(way, generation, request, act.clone()) {
        Ok(verdict) => Ok((verdict, act)),
        Err(why) => Err(Refusal { why, status: 403, closes: false }),
    })
}

/// What the rules say to a request that was read.
fn decide(
    way: &Way,
    generation: &Generation,
    request: &Request,
    git: Option<git::Act>,
) -> Result<Verdict, String> {
    let (path, query) = request.target.resource().map_or(("/", None), |it| (it.path(), it.query()));
    let path = rules::path::canonical(path).map_err(|odd| odd.to_string())?;
    let asked = rules::Request {
        method: request.method.as_str(),
        path,
        query,
        websocket: request.upgrade() == Upgrade::WebSocket,
        git,
    };
    match generation.told(generation.rules.request(&way.host, way.port, &asked)) {
        // Read as it was, whatever was asked for: everybody on the way could.
        Ok((Verdict::Allowed { rule, .. }, _)) => Ok(Verdict::Allowed { rule, inspected: true }),
        Ok((Verdict::Refused { why }, _)) | Err(Verdict::Refused { why }) => Err(why),
        Err(Verdict::Allowed { .. }) => Err(String::new()),
    }
}

/// The refs that a push is for, from the beginning of its content, which stays to be sent.
async fn pushed<S: Stream>(inside: &mut Read<S>, request: &Request) -> Result<Vec<String>, Trouble> {
    let mut body = egress::http1::Body::new(request.framing());
    let (mut push, mut used) = (pkt_line::PushReader::new(), 0);
    loop {
        while used < inside.bytes.len() && !body.is_done() {
            let rest = inside.bytes.get(used..).unwrap_or_default();
            let step = body.read(rest).map_err(|bad| Trouble::Odd(bad.to_string()))?;
            let (data, taken) = (step.data.to_vec(), step.used);
            used += taken;
            if push.read(&data).map_err(|bad| Trouble::Odd(bad.to_string()))?.done {
                let (push, _) = push.finish().map_err(|bad| Trouble::Odd(bad.to_string()))?;
                return Ok(push.commands.iter().map(|command| command.name.as_str().to_owned()).collect());
            }
            if taken == 0 {
                break;
            }
        }
        if body.is_done() || inside.bytes.len() > MOST_OF_PUSH {
            return Err(Trouble::Odd("the push does not say what it pushes, or too much of it".into()));
        }
        match timeout(HEAD, inside.stream.read_buf(&mut inside.bytes)).await {
            Ok(Ok(0)) | Err(_) => return Err(Trouble::Odd("the push is cut".into())),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error.into()),
        }
    }
}

async fn connect(way: &Way, generation: &Generation) -> Result<Server, Refusal> {
    let (stream, address) = dial(&generation.rules, &way.host, way.port).await.map_err(|error| {
        let status = if matches!(error, NotDialled::Refused { .. }) { 403 } else { 502 };
        Refusal { why: error.to_string(), status, closes: false }
    })?;
    let stream: Box<dyn Stream> = match &way.tls {
        None => Box::new(stream),
        Some(tls) => {
            let refused = |why| Refusal { why, status: 502, closes: false };
            tls.greet(&way.host, stream).await.map_err(refused)?
        }
    };
    Ok(Server { read: Read { stream, bytes: Vec::new() }, address, was_used: false })
}
