//! One request to a server, and its answer back, at the same time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use egress::http1::{Framing, Request, Response, Upgrade};
use h2::RecvStream;
use h2::client::ResponseFuture;
use rules::Messages;
use tokio::io::ReadHalf;
use tokio::time::timeout;
use zeroize::Zeroize;

use super::client::Client;
use super::content::{Content, Out, Sink, Source, broken, carry};
use super::messages::{Side, both};
use super::packed::{Packing, Unpack};
use super::pair::Pair;
use super::pass::{Pass, too_long};
use super::server::Speaks;
use super::{ANSWER, Read, Trouble, Wire, length, two};
use crate::lent::{Lent, Towards};

/// How long the answer of a server that takes no more is waited for.
const LAST: Duration = Duration::from_secs(2);

/// How often a server may say that its answer is still to come.
const MOST_INTERIMS: usize = 64;

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
    /// What the answer was.
    pub(super) status: Option<u16>,
}

/// What is looked for on the way.
#[derive(Clone, Copy)]
pub(super) struct Guard<'a> {
    pub(super) lent: &'a Lent,
    pub(super) towards: Towards<'a>,
    /// Whether there is only one request.
    pub(super) once: bool,
    /// The most bytes that an answer may have.
    pub(super) most: Option<u64>,
    /// What the messages of a WebSocket may say.
    pub(super) messages: Option<&'a Messages>,
}

/// Where an answer comes from.
enum Replies<'a> {
    One(ReadHalf<&'a mut Wire>, &'a mut Vec<u8>),
    Two(ResponseFuture),
}

/// Sends a request and its content, and gives the answer back.
pub(super) async fn exchange(
    client: &mut Client<'_>,
    content: &mut Content,
    server: &mut Speaks,
    request: &Request,
    counted: &mut Counted,
    guard: Guard<'_>,
) -> Result<Ended, Trouble> {
    let once = guard.once;
    let takes_trailers = matches!(client, Client::Two { takes_trailers: true, .. });
    let is_two = matches!(client, Client::Two { .. });
    let ((answer, tunnel), all_sent) = {
        let (mut from_client, mut to_client) = client.split();
        let (head, mut to_server, mut replies) = begin(server, request, content, takes_trailers, guard)?;
        let Counted { sent, received, answered, came_back, status, tries: _ } = &mut *counted;
        let all_sent = AtomicBool::new(false);
        let sends = async {
            *sent += head;
            if has_content(request.framing()) {
                let mut pass = Pass::out(guard, &request.fields);
                carry(content, &mut from_client, &mut to_server, sent, &mut pass).await?;
            } else {
                to_server.let_go().await?;
            }
            all_sent.store(true, Ordering::Relaxed);
            from_client.left().await;
            Err::<std::convert::Infallible, _>(Trouble::Gone)
        };
        let receives = async {
            let mut interims = 0;
            let (mut answer, mut body) = loop {
                let (answer, body) = tokio::select! {
                    biased;
                    () = to_client.gone() => return Err(Trouble::Gone),
                    reply = reply(&mut replies, request, guard, came_back, received) => reply?,
                };
                if !answer.is_interim() {
                    break (answer, body);
                }
                interims += 1;
                if interims > MOST_INTERIMS {
                    return Err(Trouble::Odd("the server says again and again that it will answer".into()));
                }
                to_client.interim(&answer).await?;
            };
            // There the same number would say that it is open.
            let is_closed = request.upgrade() != Upgrade::None && answer.upgrade() == Upgrade::None;
            if is_two && is_closed && (200..300).contains(&answer.status) {
                return Err(Trouble::Odd("the server does not open the WebSocket".into()));
            }
            let framing = answer.framing();
            let unpack = unpacks(&mut answer, request, guard)?;
            let stays = request.is_persistent() && answer.is_persistent() && !once;
            (*answered, *status) = (true, Some(answer.status));
            // Some say everything in the head, and it must be the end there too.
            let is_all = body.as_ref().is_some_and(RecvStream::is_end_stream);
            let mut to = match to_client.head(&answer, stays, is_all).await? {
                None => return Ok((answer, None)),
                Some(Sink::Two(to)) if answer.framing() == Framing::Tunnel => return Ok((answer, Some(to))),
                Some(to) => to,
            };
            let mut from = match (&mut body, replies) {
                (Some(stream), _) => Source::Two(stream),
                (None, Replies::One(from, read)) => Source::One(from, read),
                (None, Replies::Two(_)) => return Ok((answer, None)),
            };
            let mut pass = Pass::back(guard, &answer.fields, unpack);
            let carried = carry(&mut Content::new(framing), &mut from, &mut to, received, &mut pass).await;
            // What was wrong from the beginning on can still be told.
            *answered = carried.is_ok() || to.has_begun();
            if let Some(name) = pass.found() {
                *came_back = Some(name);
            }
            carried.map(|()| (answer, None))
        };
        // A server may answer before it has everything; then the rest is not sent.
        tokio::pin!(sends, receives);
        tokio::select! {
            biased;
            answer = &mut receives => (answer?, all_sent.load(Ordering::Relaxed)),
            Err(trouble) = &mut sends => match trouble {
                // A server that takes no more may have said why.
                Trouble::Broken(_) | Trouble::Gone if !all_sent.load(Ordering::Relaxed) => {
                    match timeout(LAST, receives).await {
                        Ok(answer) => (answer?, false),
                        Err(_) => return Err(trouble),
                    }
                }
                trouble => return Err(trouble),
            }
        }
    };
    if answer.upgrade() == Upgrade::WebSocket {
        let Speaks::One(outside) = server else { return Err(Trouble::Gone) };
        let outside = Side { stream: &mut outside.stream, read: std::mem::take(&mut outside.bytes) };
        match (client, tunnel) {
            (Client::One(inside), _) => {
                let inside = Side { stream: &mut inside.stream, read: std::mem::take(&mut inside.bytes) };
                both(inside, outside, counted, guard).await?;
            }
            (Client::Two { recv, .. }, Some(send)) => {
                let inside = Side { stream: &mut Pair::new(recv, send), read: Vec::new() };
                both(inside, outside, counted, guard).await?;
            }
            (Client::Two { .. }, None) => {}
        }
        return Ok(Ended { server_stays: false, client_stays: false });
    }
    let stays = all_sent && answer.is_persistent();
    Ok(Ended { server_stays: stays, client_stays: stays && request.is_persistent() && !once })
}

fn has_content(framing: Framing) -> bool {
    !matches!(framing, Framing::Empty | Framing::Length(0))
}

/// How long the head is, where it and the content go to, and where the answer comes from. With HTTP/2 the head is sent
/// already.
fn begin<'s>(
    server: &'s mut Speaks,
    request: &Request,
    content: &Content,
    takes_trailers: bool,
    guard: Guard<'_>,
) -> Result<(u64, Sink<'s>, Replies<'s>), Trouble> {
    // A secret may be in it, and what grows leaves copies behind.
    let mut head = Vec::with_capacity(request.most_written() + content.along());
    request.write(&mut head);
    let size = length(&head);
    Ok(match server {
        Speaks::One(read) => {
            let (from, to) = tokio::io::split(&mut read.stream);
            let out = Out::new(to, request.framing(), head, !guard.lent.is_empty());
            (size, Sink::One(out), Replies::One(from, &mut read.bytes))
        }
        Speaks::Two(send, _) => {
            head.as_mut_slice().zeroize();
            let asked = two::asked(request, takes_trailers, !guard.lent.is_empty())?;
            let (reply, to) = send.send_request(asked, !has_content(request.framing())).map_err(broken)?;
            (size, Sink::Two(to), Replies::Two(reply))
        }
    })
}

/// What unpacks an answer that has to be seen as it is: a secret could come back in it, or there may be too much of it. It goes
/// on unpacked then.
fn unpacks(answer: &mut Response, request: &Request, guard: Guard<'_>) -> Result<Option<Unpack>, Trouble> {
    if !has_content(answer.framing()) || answer.framing() == Framing::Tunnel {
        return Ok(None);
    }
    if let (Some(most), Framing::Length(length)) = (guard.most, answer.framing())
        && length > most
    {
        return Err(too_long(most));
    }
    let packing = Packing::of(&answer.fields);
    if packing == Packing::No || guard.most.is_none() && !guard.lent.concerns(guard.towards) {
        return Ok(None);
    }
    let Some(unpack) = packing.opens() else {
        let name = if let Packing::Other(name) = &packing { name } else { "zstd" };
        let why = format!("the server packs its answer (`{name}`) so that it cannot be looked at");
        return Err(Trouble::Odd(why));
    };
    for about_packed in ["content-encoding", "content-md5", "content-digest", "digest"] {
        answer.fields.remove(about_packed);
    }
    answer.forget_length(request.asked());
    Ok(Some(unpack))
}

/// The next head that a server sends, and the stream of its content, if there are streams.
async fn reply(
    replies: &mut Replies<'_>,
    request: &Request,
    guard: Guard<'_>,
    came_back: &mut Option<String>,
    received: &mut u64,
) -> Result<(Response, Option<RecvStream>), Trouble> {
    let late = || Trouble::Odd("the server does not answer".into());
    let (head, body) = match replies {
        Replies::One(from, bytes) => {
            let mut reader = Read { stream: from, bytes: std::mem::take(*bytes) };
            // Whoever says nothing for too long has not ended.
            let head = timeout(ANSWER, reader.head(ANSWER * 2, None)).await;
            **bytes = reader.bytes;
            let ended = || Trouble::Odd("the server ended without an answer".into());
            (head.map_err(|_| late())??.ok_or_else(ended)?, None)
        }
        Replies::Two(reply) => {
            let reply = timeout(ANSWER, reply).await.map_err(|_| late())?.map_err(broken)?;
            let (parts, body) = reply.into_parts();
            (two::answered(&parts)?, Some(body))
        }
    };
    *received += length(&head);
    let head = match (!guard.lent.is_empty()).then(|| guard.lent.masked(&head)).flatten() {
        Some((masked, name)) => {
            *came_back = Some(name);
            masked
        }
        None => head,
    };
    let answer = Response::parse(&head, request.asked())
        .map_err(|bad| Trouble::Odd(format!("the server's answer cannot be read in one way only: {bad}")))?;
    // Nobody asked for one: what goes through it could not be read.
    if answer.upgrade() != Upgrade::None && answer.fields.all("sec-websocket-extensions").next().is_some() {
        return Err(Trouble::Odd("the server extends the WebSocket in a way that was not asked for".into()));
    }
    Ok((answer, body))
}
