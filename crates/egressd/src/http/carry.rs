//! One request to a server, and its answer back, at the same time.

use std::borrow::Cow;
use std::time::Duration;

use egress::http1::{self, Body, Framing, Request, Response, Upgrade};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::{ANSWER, Read, Stream, Trouble};
use crate::lent::{Lent, Mask, Watch};

/// How long the answer of a server that takes no more is waited for.
const LAST: Duration = Duration::from_secs(2);
/// As long as most heads are: what grows leaves copies behind.
const MOST_OF_HEAD: usize = 4096;
/// How much is read at once.
const AT_ONCE: usize = 64 * 1024;

/// What became of both connections.
pub(super) struct Ended {
    pub(super) server_stays: bool,
    pub(super) client_stays: bool,
}

/// What went each way.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Whether the client has begun to get an answer.
    pub(super) answered: bool,
    /// How often it was tried.
    pub(super) tries: u32,
    /// The secret that came back in the answer.
    pub(super) came_back: Option<String>,
}

/// What is looked for on the way.
#[derive(Clone, Copy)]
pub(super) struct Guard<'a> {
    pub(super) lent: &'a Lent,
    /// Whether something that is lent may go there.
    pub(super) concerns: bool,
    /// Whether there is only one request.
    pub(super) once: bool,
}

/// What is done with content that passes by.
enum Pass<'a> {
    Nothing,
    Watch(Watch<'a>),
    Mask(Mask<'a>),
}

impl Pass<'_> {
    /// The bytes that go on.
    fn pass<'d>(&mut self, data: &'d [u8], is_end: bool) -> Result<Cow<'d, [u8]>, Trouble> {
        match self {
            Self::Nothing => Ok(data.into()),
            Self::Watch(watch) => watch.look(data).map(|()| data.into()).map_err(Trouble::Astray),
            Self::Mask(mask) => Ok(mask.pass(data, is_end).into()),
        }
    }
}

/// Sends a request and its content, and gives the answer back.
pub(super) async fn exchange<S: Stream>(
    inside: &mut Read<S>,
    outside: &mut Read<Box<dyn Stream>>,
    request: &Request,
    counted: &mut Counted,
    guard: Guard<'_>,
) -> Result<Ended, Trouble> {
    let once = guard.once;
    // A secret may be in it.
    let mut head = Zeroizing::new(Vec::with_capacity(MOST_OF_HEAD));
    request.write(&mut head);
    let Counted { sent, received, answered, came_back, tries: _ } = counted;
    let guards = !guard.lent.is_empty();
    let (mut from_client, mut to_client) = tokio::io::split(&mut inside.stream);
    let (mut from_server, mut to_server) = tokio::io::split(&mut outside.stream);
    let (client_bytes, server_bytes) = (&mut inside.bytes, &mut outside.bytes);
    let sends = async {
        to_server.write_all(&head).await?;
        to_server.flush().await?;
        *sent += length(&head);
        let mut pass = if guards { Pass::Watch(guard.lent.watch()) } else { Pass::Nothing };
        let whole =
            content(request.framing(), &mut from_client, client_bytes, &mut to_server, sent, &mut pass).await;
        to_server.flush().await?;
        whole
    };
    let receives = async {
        loop {
            let mut reader = Read { stream: &mut from_server, bytes: std::mem::take(server_bytes) };
            let head = timeout(ANSWER, reader.head(ANSWER, None)).await;
            *server_bytes = reader.bytes;
            let head = match head {
                Ok(Ok(Some(head))) => head,
                Ok(Ok(None)) => return Err(Trouble::Odd("the server ended without an answer".into())),
                Ok(Err(trouble)) => return Err(trouble),
                Err(_) => return Err(Trouble::Odd("the server does not answer".into())),
            };
            let head = match guards.then(|| guard.lent.masked(&head)).flatten() {
                Some((masked, name)) => {
                    *came_back = Some(name);
                    masked
                }
                None => head,
            };
            let answer = Response::parse(&head, request.asked()).map_err(|bad| {
                Trouble::Odd(format!("the server's answer cannot be read in one way only: {bad}"))
            })?;
            // What is packed cannot be seen through, and it may be a secret that was kept there.
            let is_packed = answer.fields.all("content-encoding").any(|coding| coding != b"identity");
            if guard.concerns && is_packed && !matches!(answer.framing(), Framing::Empty | Framing::Length(0))
            {
                return Err(Trouble::Odd(
                    "the server packs its answer, in which a secret could come back unseen".into(),
                ));
            }
            let stays = request.is_persistent() && answer.is_persistent() && !once;
            let mut written = Vec::with_capacity(1024);
            answer.write(&mut written, stays);
            *answered = true;
            to_client.write_all(&written).await?;
            *received += length(&head);
            if answer.is_interim() {
                to_client.flush().await?;
                continue;
            }
            if answer.framing() != Framing::Tunnel {
                let mut pass = if guards { Pass::Mask(guard.lent.mask()) } else { Pass::Nothing };
                let framing = answer.framing();
                let carried =
                    content(framing, &mut from_server, server_bytes, &mut to_client, received, &mut pass)
                        .await;
                if let Pass::Mask(Mask { found: Some(name), .. }) = pass {
                    *came_back = Some(name);
                }
                carried?;
                to_client.flush().await?;
            }
            return Ok(answer);
        }
    };
    // A server may answer before it has everything; then the rest is not sent.
    let answer = {
        tokio::pin!(sends, receives);
        tokio::select! {
            biased;
            answer = &mut receives => (answer?, false),
            sent = &mut sends => match sent {
                Ok(()) => (receives.await?, true),
                // A server that takes no more may have said why.
                Err(Trouble::Broken(error)) => match timeout(LAST, receives).await {
                    Ok(answer) => (answer?, false),
                    Err(_) => return Err(error.into()),
                },
                Err(trouble) => return Err(trouble),
            }
        }
    };
    let (answer, all_sent) = answer;
    if answer.upgrade() == Upgrade::WebSocket {
        messages(inside, outside, counted).await?;
        return Ok(Ended { server_stays: false, client_stays: false });
    }
    let stays = all_sent && answer.is_persistent();
    Ok(Ended { server_stays: stays, client_stays: stays && request.is_persistent() && !once })
}

/// Messages both ways, until both have ended.
async fn messages<S: Stream>(
    inside: &mut Read<S>,
    outside: &mut Read<Box<dyn Stream>>,
    counted: &mut Counted,
) -> Result<(), Trouble> {
    outside.stream.write_all(&std::mem::take(&mut inside.bytes)).await?;
    inside.stream.write_all(&std::mem::take(&mut outside.bytes)).await?;
    let (sent, received) = tokio::io::copy_bidirectional(&mut inside.stream, &mut outside.stream).await?;
    counted.sent += sent;
    counted.received += received;
    Ok(())
}

/// Carries content: as it is, or in chunks of our own.
async fn content(
    framing: Framing,
    from: &mut (impl AsyncRead + Unpin),
    read: &mut Vec<u8>,
    to: &mut (impl AsyncWrite + Unpin),
    count: &mut u64,
    pass: &mut Pass<'_>,
) -> Result<(), Trouble> {
    let odd = |bad: http1::BadBody| Trouble::Odd(bad.to_string());
    let mut body = Body::new(framing);
    let mut out = Vec::new();
    while !body.is_done() {
        let mut used = 0;
        out.clear();
        while used < read.len() && !body.is_done() {
            let step = body.read(read.get(used..).unwrap_or_default()).map_err(odd)?;
            let data = pass.pass(step.data, step.done)?;
            if framing != Framing::Chunked {
                out.extend_from_slice(&data);
            } else if !data.is_empty() {
                http1::write_chunk(&mut out, &data);
            }
            if step.used == 0 {
                break;
            }
            used += step.used;
        }
        read.drain(..used);
        *count += length(&out);
        if !out.is_empty() {
            within(to.write_all(&out)).await?;
            // What waits to be passed on is not kept back for more.
            within(to.flush()).await?;
        }
        if body.is_done() {
            break;
        }
        read.reserve(AT_ONCE);
        if within(from.read_buf(read)).await? == 0 {
            body.end().map_err(odd)?;
            // What was held back, for the beginning of something, was none.
            to.write_all(&pass.pass(&[], true)?).await?;
            return Ok(());
        }
    }
    if framing == Framing::Chunked {
        out.clear();
        // What is looked at has no fields behind it, where nobody looks.
        let trailers = body.trailers().filter(|_| matches!(pass, Pass::Nothing));
        http1::write_last_chunk(&mut out, trailers);
        to.write_all(&out).await?;
    }
    Ok(())
}

/// Waits for bytes to come or to be taken, as long as for an answer and no longer: whoever stalls holds a place.
async fn within<T>(moves: impl Future<Output = std::io::Result<T>>) -> Result<T, Trouble> {
    match timeout(ANSWER, moves).await {
        Ok(moved) => Ok(moved?),
        Err(_) => Err(Trouble::Odd("nothing came, or was taken, for too long".into())),
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or_default()
}
