//! Messages of a WebSocket, both ways.
//!
//! Invariants: what goes on was read as whole frames and is written again from them; a secret is put in for its word on the
//! way to its host, and taken out on the way back; a word that goes elsewhere, or comes in pieces, ends the WebSocket, and so
//! does a message that its rule does not let go that way; a text is kept until it is whole and is bounded, everything else is
//! passed on in pieces.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use egress::websocket::{Compression, Event, Reader, Sender};
use rules::{Direction as Way, Messages};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::timeout;
use zeroize::{Zeroize, Zeroizing};

use super::carry::{Counted, Guard};
use super::content::within;
use super::{ANSWER, Stream, Trouble, length};
use crate::lent::{Mask, Watch};
use crate::tls;

/// The longest text.
const MOST_OF_TEXT: usize = 1024 * 1024;
/// The longest frame of bytes.
const MOST_OF_FRAME: u64 = 64 * 1024 * 1024;
/// How much is read at once.
const AT_ONCE: usize = 16 * 1024;
/// How long a side may take to read why it ends.
const LAST: std::time::Duration = std::time::Duration::from_secs(2);

/// One side, and what was read of it.
pub(super) struct Side<'a, S> {
    pub(super) stream: &'a mut S,
    pub(super) read: Vec<u8>,
}

/// Carries messages until both sides have ended.
pub(super) async fn both<A: Stream, B: Stream>(
    inside: Side<'_, A>,
    outside: Side<'_, B>,
    counted: &mut Counted,
    guard: Guard<'_>,
) -> Result<(), Trouble> {
    let (sent, received, moved) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let mut found = None;
    let ended = {
        let (from_client, to_client) = tokio::io::split(&mut *inside.stream);
        let (from_server, to_server) = tokio::io::split(&mut *outside.stream);
        let out = Direction {
            from: from_client,
            read: inside.read,
            reader: Reader::new(Sender::Client, Compression::None, MOST_OF_TEXT, MOST_OF_FRAME),
            to: to_server,
            look: Look::out(guard),
        };
        let back = Direction {
            from: from_server,
            read: outside.read,
            reader: Reader::new(Sender::Server, Compression::None, MOST_OF_TEXT, MOST_OF_FRAME),
            to: to_client,
            look: Look::back(guard, &mut found),
        };
        tokio::select! {
            ended = async { tokio::try_join!(out.carry(&sent, &moved), back.carry(&received, &moved)) } => ended.map(drop),
            () = silence(&moved) => Err(Trouble::Odd("nobody said anything for too long".into())),
        }
    };
    counted.sent += sent.into_inner();
    counted.received += received.into_inner();
    counted.came_back = found.or(counted.came_back.take());
    if let Err(trouble) = &ended {
        let _ = timeout(LAST, last(inside.stream, &close(trouble))).await;
        // Outside nobody is told why.
        let mut out = Vec::new();
        Event::Close(Some((1001, String::new()))).write(&mut out, Some(tls::chance()?));
        let _ = timeout(LAST, outside.stream.write_all(&out)).await;
    }
    let _ = timeout(LAST, inside.stream.shutdown()).await;
    let _ = timeout(LAST, outside.stream.shutdown()).await;
    ended
}

/// Says the last thing so that it is read: bytes that nobody took would turn the end into a break.
async fn last(to: &mut impl Stream, event: &Event) -> io::Result<()> {
    let mut out = Vec::new();
    event.write(&mut out, None);
    to.write_all(&out).await?;
    to.shutdown().await?;
    let mut rest = vec![0; AT_ONCE];
    while to.read(&mut rest).await? > 0 {}
    Ok(())
}

/// What the client is told when it ends early.
fn close(trouble: &Trouble) -> Event {
    let (code, why) = match trouble {
        Trouble::Odd(why) | Trouble::Garbled(why) => (1002, why.clone()),
        Trouble::Astray(_) | Trouble::Tightened | Trouble::Refused(_) => (1008, trouble.to_string()),
        Trouble::Broken(_) | Trouble::Gone => (1001, trouble.to_string()),
    };
    Event::Close(Some((code, why)))
}

/// Comes back when nothing has moved for too long.
async fn silence(moved: &AtomicU64) {
    loop {
        let before = moved.load(Ordering::Relaxed);
        tokio::time::sleep(ANSWER).await;
        if moved.load(Ordering::Relaxed) == before {
            return;
        }
    }
}

/// One direction.
struct Direction<'a, A, B> {
    from: ReadHalf<A>,
    read: Vec<u8>,
    reader: Reader,
    to: WriteHalf<B>,
    look: Look<'a>,
}

impl<A: Stream, B: Stream> Direction<'_, A, B> {
    /// Until its sender says that it is over, or is gone.
    async fn carry(mut self, count: &AtomicU64, moved: &AtomicU64) -> Result<(), Trouble> {
        // A secret may be in it.
        let mut out = Zeroizing::new(Vec::new());
        loop {
            let mut used = 0;
            while used < self.read.len() {
                let rest = self.read.get(used..).unwrap_or_default();
                let step = self.reader.read(rest).map_err(|bad| Trouble::Odd(bad.to_string()))?;
                used += step.used;
                if let Some(event) = step.event {
                    self.look.pass(event, &mut out)?;
                }
            }
            self.read.clear();
            if !out.is_empty() {
                count.fetch_add(length(&out), Ordering::Relaxed);
                within(self.to.write_all(&out)).await?;
                within(self.to.flush()).await?;
                out.zeroize();
            }
            if self.reader.is_closed() {
                return Ok(());
            }
            self.read.reserve(AT_ONCE);
            if self.from.read_buf(&mut self.read).await? == 0 {
                let _ = self.to.shutdown().await;
                return Ok(());
            }
            moved.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What is looked for in a direction.
enum Look<'a> {
    /// Words, in what is said and in what is only said to be there.
    Out { guard: Guard<'a>, words: Watch<'a>, signs: Watch<'a> },
    /// Secrets.
    Back { guard: Guard<'a>, pieces: Mask<'a>, found: &'a mut Option<String> },
}

impl<'a> Look<'a> {
    fn out(guard: Guard<'a>) -> Self {
        Self::Out { guard, words: guard.lent.watch(), signs: guard.lent.watch() }
    }

    fn back(guard: Guard<'a>, found: &'a mut Option<String>) -> Self {
        Self::Back { guard, pieces: guard.lent.mask(), found }
    }

    /// Looks at what was read, and writes what goes on.
    fn pass(&mut self, event: Event, out: &mut Vec<u8>) -> Result<(), Trouble> {
        match self {
            Self::Out { guard, words, signs } => {
                permitted(guard.messages, Way::Out, &event)?;
                let event = if guard.lent.is_empty() { event } else { filled(event, *guard, words, signs)? };
                event.write(out, Some(tls::chance()?));
                if let Event::Text(mut text) = event {
                    text.zeroize();
                }
            }
            Self::Back { guard, pieces, found } => {
                permitted(guard.messages, Way::Back, &event)?;
                let event = if guard.lent.is_empty() { event } else { masked(event, *guard, pieces, found)? };
                event.write(out, None);
            }
        }
        Ok(())
    }
}

/// Whether a rule lets a message go this way.
fn permitted(messages: Option<&Messages>, way: Way, event: &Event) -> Result<(), Trouble> {
    let may = match (messages, event) {
        (Some(messages), Event::Text(text)) => messages.allow(way, text),
        // What nobody can judge fits nothing.
        (Some(messages), Event::Piece { .. }) => !messages.limit(way),
        (None, _) | (Some(_), Event::Ping(_) | Event::Pong(_) | Event::Close(_)) => true,
    };
    let goes = if way == Way::Out { "go out" } else { "come back" };
    let why = || format!("the rule that allows this WebSocket lets no such message {goes}");
    may.then_some(()).ok_or_else(|| Trouble::Refused(why()))
}

/// The same with secrets in the place of their words, which are nowhere else.
fn filled(
    event: Event,
    guard: Guard<'_>,
    words: &mut Watch<'_>,
    signs: &mut Watch<'_>,
) -> Result<Event, Trouble> {
    match event {
        Event::Text(text) => {
            let new = guard.lent.fill_message(&text, guard.towards).map_err(Trouble::Astray)?;
            let text = match new {
                None => text,
                Some(new) => utf8(new.to_vec())?,
            };
            words.look(text.as_bytes()).map_err(Trouble::Astray)?;
            Ok(Event::Text(text))
        }
        Event::Piece { ref bytes, .. } => words.look(bytes).map(|()| event).map_err(Trouble::Astray),
        Event::Ping(ref bytes) | Event::Pong(ref bytes) => {
            signs.look(bytes).map(|()| event).map_err(Trouble::Astray)
        }
        Event::Close(Some((_, ref why))) => {
            signs.look(why.as_bytes()).map(|()| event).map_err(Trouble::Astray)
        }
        Event::Close(None) => Ok(event),
    }
}

/// The same without secrets.
fn masked(
    event: Event,
    guard: Guard<'_>,
    pieces: &mut Mask<'_>,
    found: &mut Option<String>,
) -> Result<Event, Trouble> {
    let mut whole = |bytes: Vec<u8>| match guard.lent.masked(&bytes) {
        None => bytes,
        Some((masked, name)) => {
            *found = Some(name);
            masked
        }
    };
    Ok(match event {
        Event::Text(text) => Event::Text(utf8(whole(text.into_bytes()))?),
        Event::Ping(bytes) => Event::Ping(whole(bytes)),
        Event::Pong(bytes) => Event::Pong(whole(bytes)),
        Event::Close(None) => Event::Close(None),
        Event::Close(Some((code, why))) => Event::Close(Some((code, utf8(whole(why.into_bytes()))?))),
        Event::Piece { kind, compressed, first, last, bytes } => {
            let bytes = pieces.pass(&bytes, last).into_owned();
            *found = pieces.found.clone().or(found.take());
            Event::Piece { kind, compressed, first, last, bytes }
        }
    })
}

fn utf8(bytes: Vec<u8>) -> Result<String, Trouble> {
    String::from_utf8(bytes).map_err(|_| Trouble::Odd("a message is no text any more".into()))
}
