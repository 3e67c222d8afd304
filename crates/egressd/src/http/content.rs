//! Content on its way: read from one side, looked at, written to the other, whichever HTTP each of them speaks.
//!
//! Invariants: one piece is kept at a time, and what was read ahead to be judged goes first; who does not take or send
//! anything for too long is given up; fields after content are looked at as content is.

use std::future::poll_fn;
use std::io;

use bytes::Bytes;
use egress::http1::{self, Body, Fields, Framing};
use h2::{RecvStream, SendStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::timeout;
use zeroize::Zeroize;

use super::pass::Pass;
use super::{ANSWER, Trouble, Wire};

/// How much is read at once.
const AT_ONCE: usize = 64 * 1024;

/// How long a client that says no more is taken to listen.
const LISTENING: std::time::Duration = std::time::Duration::from_secs(30);

/// Where content comes from.
pub(super) enum Source<'a, 's> {
    /// A connection, and what was read of it.
    One(ReadHalf<&'a mut Wire>, &'a mut Vec<u8>),
    /// A stream of one.
    Two(&'s mut RecvStream),
}

impl Source<'_, '_> {
    /// Comes back when a client that has said everything does not wait for the answer any more. One that only says no more may
    /// still listen, and has a while.
    pub(super) async fn left(&mut self) {
        if let Self::One(from, read) = self
            && read.is_empty()
        {
            match from.read_buf(*read).await {
                Ok(0) => return tokio::time::sleep(LISTENING).await,
                Ok(_) => {}
                Err(_) => return,
            }
        }
        std::future::pending().await
    }
}

/// The content of one message, as far as it was read.
pub(super) struct Content {
    /// Read before its turn, to be judged.
    pub(super) held: Vec<u8>,
    /// Whether nothing comes after what is held.
    pub(super) over: bool,
    body: Body,
    /// How much of what was said is still to come, where a stream says when it is over.
    left: Option<u64>,
    trailers: Option<Fields>,
    /// Whether it is a client's: what cannot be read of it is nobody else's fault.
    is_clients: bool,
    /// Whether a secret was put in.
    is_secret: bool,
}

impl Drop for Content {
    fn drop(&mut self) {
        if self.is_secret {
            self.held.zeroize();
        }
    }
}

/// One piece of content, of which nothing stays in memory if a secret may be in it.
struct Piece(Vec<u8>, bool);

impl Drop for Piece {
    fn drop(&mut self) {
        if self.1 {
            self.0.zeroize();
        }
    }
}

impl Content {
    /// Of an answer.
    pub(super) fn new(framing: Framing) -> Self {
        let body = Body::new(framing);
        let left = if let Framing::Length(length) = framing { Some(length) } else { None };
        Self {
            held: Vec::new(),
            over: body.is_done(),
            body,
            left,
            trailers: None,
            is_clients: false,
            is_secret: false,
        }
    }

    /// Holds this instead, in which a secret is.
    pub(super) fn put(&mut self, content: &[u8]) {
        (self.held, self.is_secret) = (content.to_vec(), true);
    }

    /// Of a request.
    pub(super) fn of_client(framing: Framing) -> Self {
        let mut content = Self::new(framing);
        content.is_clients = true;
        content
    }

    /// The room that what is held takes where it is written together with a head.
    pub(super) fn along(&self) -> usize {
        if self.held.is_empty() { 0 } else { self.held.len().min(ALONG) + AROUND }
    }

    /// The next piece; true if it is the last.
    async fn next(&mut self, from: &mut Source<'_, '_>, out: &mut Vec<u8>) -> Result<bool, Trouble> {
        if self.held.is_empty() && !self.over {
            self.read(from, out).await?;
        } else {
            // As it is: a copy of it would have to be wiped too.
            *out = std::mem::take(&mut self.held);
        }
        Ok(self.over)
    }

    /// Reads on, and holds what was read. Who stops waiting loses nothing.
    pub(super) async fn hold(&mut self, from: &mut Source<'_, '_>) -> Result<(), Trouble> {
        if self.over {
            return Ok(());
        }
        let mut piece = Vec::new();
        self.read(from, &mut piece).await?;
        self.held.append(&mut piece);
        Ok(())
    }

    /// The next piece. Nothing is waited for once some of it is there.
    async fn read(&mut self, from: &mut Source<'_, '_>, out: &mut Vec<u8>) -> Result<(), Trouble> {
        let read = match from {
            Source::One(stream, read) => self.read_one(stream, read, out).await,
            Source::Two(stream) => self.read_two(stream, out).await,
        };
        match read {
            Err(Trouble::Odd(why)) if self.is_clients => Err(Trouble::Garbled(why)),
            read => read,
        }
    }

    async fn read_one(
        &mut self,
        stream: &mut ReadHalf<&mut Wire>,
        read: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), Trouble> {
        let odd = |bad: http1::BadBody| Trouble::Odd(bad.to_string());
        let before = out.len();
        loop {
            let mut used = 0;
            while used < read.len() && !self.body.is_done() {
                let step = self.body.read(read.get(used..).unwrap_or_default()).map_err(odd)?;
                out.extend_from_slice(step.data);
                if step.used == 0 {
                    break;
                }
                used += step.used;
            }
            read.drain(..used);
            self.over = self.body.is_done();
            if self.over {
                self.trailers = self.body.trailers().filter(|trailers| !trailers.is_empty()).cloned();
            }
            if self.over || out.len() > before {
                return Ok(());
            }
            read.reserve(AT_ONCE);
            if within(stream.read_buf(read)).await? == 0 {
                self.body.end().map_err(odd)?;
                self.over = true;
                return Ok(());
            }
        }
    }

    async fn read_two(&mut self, stream: &mut RecvStream, out: &mut Vec<u8>) -> Result<(), Trouble> {
        let next = async { stream.data().await.transpose().map_err(broken) };
        if let Some(data) = within(next).await? {
            self.count(&data)?;
            out.extend_from_slice(&data);
            stream.flow_control().release_capacity(data.len()).map_err(broken)?;
            // Or there are fields to come.
            self.over = stream.is_end_stream();
            return self.check();
        }
        if let Some(fields) = within(async { stream.trailers().await.map_err(broken) }).await? {
            let all = fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
            self.trailers = Some(http1::trailers(all).map_err(|bad| Trouble::Odd(bad.to_string()))?);
        }
        self.over = true;
        self.check()
    }

    /// More than was said would be taken for another request where the length is believed.
    fn count(&mut self, data: &[u8]) -> Result<(), Trouble> {
        let Some(left) = &mut self.left else { return Ok(()) };
        let odd = || Trouble::Odd("there is more content than was said".into());
        *left = left.checked_sub(super::length(data)).ok_or_else(odd)?;
        Ok(())
    }

    /// Whether all that was said came, once it is over.
    fn check(&self) -> Result<(), Trouble> {
        if self.over && self.left.is_some_and(|left| left > 0) {
            return Err(Trouble::Odd("there is less content than was said".into()));
        }
        Ok(())
    }
}

/// The most that is written together with a head: what fits into one record of TLS.
const ALONG: usize = 16 * 1024;
/// What stands around a chunk, and the end of all of them.
const AROUND: usize = 32;

/// A connection that a head and its content are written to, in as few pieces as there are when they are there.
pub(super) struct Out<'a> {
    to: WriteHalf<&'a mut Wire>,
    /// Content goes as it is, or in chunks of our own.
    framing: Framing,
    /// What is not written yet.
    unsent: Vec<u8>,
    /// Whether a secret may be in that.
    is_secret: bool,
    /// Whether anything was written.
    has_begun: bool,
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl<'a> Out<'a> {
    pub(super) fn new(to: WriteHalf<&'a mut Wire>, framing: Framing, head: Vec<u8>, is_secret: bool) -> Self {
        Self { to, framing, unsent: head, is_secret, has_begun: false }
    }

    /// What is written has no place in memory any more.
    fn wipe(&mut self) {
        if self.is_secret {
            self.unsent.as_mut_slice().zeroize();
        }
        self.unsent.clear();
    }

    /// Whether this can be written together with what is not written yet. What is secret does not grow: that would leave a
    /// copy behind.
    fn fits(&self, data: &[u8]) -> bool {
        let room = if self.is_secret { self.unsent.capacity() } else { ALONG };
        self.unsent.len() + data.len() + AROUND <= room
    }

    /// Adds content, and writes what does not fit.
    async fn add(&mut self, data: &[u8]) -> Result<(), Trouble> {
        if data.is_empty() {
            return Ok(());
        }
        let has_room = self.fits(data);
        self.has_begun |= !has_room;
        if !has_room {
            within(self.to.write_all(&self.unsent)).await?;
            self.wipe();
        }
        match self.framing {
            Framing::Chunked => http1::write_chunk(&mut self.unsent, data),
            _ if has_room => self.unsent.extend_from_slice(data),
            _ => within(self.to.write_all(data)).await?,
        }
        Ok(())
    }

    /// Writes everything.
    async fn let_go(&mut self) -> Result<(), Trouble> {
        if !self.unsent.is_empty() {
            self.has_begun = true;
            within(self.to.write_all(&self.unsent)).await?;
            self.wipe();
        }
        within(self.to.flush()).await
    }
}

/// Where content goes to.
pub(super) enum Sink<'a> {
    /// A connection.
    One(Out<'a>),
    /// A stream of one.
    Two(SendStream<Bytes>),
}

impl Sink<'_> {
    /// Whether the other side has had anything of it, or may have.
    pub(super) fn has_begun(&self) -> bool {
        match self {
            Self::One(out) => out.has_begun,
            Self::Two(_) => true,
        }
    }

    /// Whether something is not written yet.
    fn is_behind(&self) -> bool {
        matches!(self, Self::One(out) if !out.unsent.is_empty())
    }

    /// Writes what is not written yet.
    pub(super) async fn let_go(&mut self) -> Result<(), Trouble> {
        match self {
            Self::One(out) => out.let_go().await,
            Self::Two(_) => Ok(()),
        }
    }

    /// Passes some on, and keeps none back for more.
    async fn data(&mut self, data: &[u8]) -> Result<(), Trouble> {
        match self {
            Self::One(out) => {
                out.add(data).await?;
                out.let_go().await
            }
            Self::Two(to) => pour(to, data, false).await,
        }
    }

    /// The same with the last.
    async fn end(&mut self, data: &[u8], trailers: Option<Fields>) -> Result<(), Trouble> {
        match self {
            Self::One(out) => {
                out.add(data).await?;
                if out.framing == Framing::Chunked {
                    if trailers.is_some() {
                        out.let_go().await?;
                    }
                    http1::write_last_chunk(&mut out.unsent, trailers.as_ref());
                }
                out.let_go().await
            }
            Self::Two(to) => match trailers {
                Some(trailers) => {
                    pour(to, data, false).await?;
                    let fields = super::two::fields(&trailers, false)?;
                    to.send_trailers(fields).map_err(|error| broken(error).into())
                }
                None => pour(to, data, true).await,
            },
        }
    }

    /// Comes back when nobody wants it any more, if that is told.
    async fn gone(&mut self) {
        match self {
            Self::One(_) => std::future::pending().await,
            Self::Two(to) => drop(poll_fn(|cx| to.poll_reset(cx)).await),
        }
    }
}

/// Passes some on to a stream, as it has room.
async fn pour(to: &mut SendStream<Bytes>, data: &[u8], is_last: bool) -> Result<(), Trouble> {
    let mut rest = data;
    while !rest.is_empty() {
        to.reserve_capacity(rest.len());
        let room = async { poll_fn(|cx| to.poll_capacity(cx)).await.transpose().map_err(broken) };
        let room = within(room).await?.ok_or(Trouble::Gone)?;
        let (now, later) = rest.split_at(room.min(rest.len()));
        to.send_data(Bytes::copy_from_slice(now), is_last && later.is_empty()).map_err(broken)?;
        rest = later;
    }
    if is_last && data.is_empty() {
        to.send_data(Bytes::new(), true).map_err(broken)?;
    }
    Ok(())
}

/// Carries content from one side to the other, until it is over.
pub(super) async fn carry(
    content: &mut Content,
    from: &mut Source<'_, '_>,
    to: &mut Sink<'_>,
    count: &mut u64,
    pass: &mut Pass<'_>,
) -> Result<(), Trouble> {
    let mut piece = Piece(Vec::new(), content.is_secret);
    loop {
        let Piece(piece, _) = &mut piece;
        piece.clear();
        let is_last = {
            let mut next = std::pin::pin!(content.next(from, piece));
            loop {
                tokio::select! {
                    biased;
                    () = to.gone() => return Err(Trouble::Gone),
                    is_last = &mut next => break is_last?,
                    // A head goes along with content that is there, and waits for no other.
                    () = std::future::ready(()), if to.is_behind() => {}
                }
                to.let_go().await?;
            }
        };
        let mut rest = piece.as_slice();
        loop {
            let (now, later) = rest.split_at(pass.at_once().min(rest.len()));
            let ends = is_last && later.is_empty();
            let data = pass.pass(now, ends)?;
            *count += super::length(&data);
            if ends {
                let trailers = content.trailers.take().map(|trailers| pass.fields(trailers)).transpose()?;
                return to.end(&data, trailers).await;
            }
            if !data.is_empty() {
                to.data(&data).await?;
            }
            if later.is_empty() {
                break;
            }
            rest = later;
        }
    }
}

/// Waits for bytes to come or to be taken, as long as for an answer and no longer: whoever stalls holds a place.
pub(super) async fn within<T>(moves: impl Future<Output = io::Result<T>>) -> Result<T, Trouble> {
    match timeout(ANSWER, moves).await {
        Ok(moved) => Ok(moved?),
        Err(_) => Err(Trouble::Odd("nothing came, or was taken, for too long".into())),
    }
}

/// What HTTP/2 calls trouble, as everybody else does.
pub(super) fn broken(error: h2::Error) -> io::Error {
    if error.is_io() {
        error.into_io().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
    } else {
        io::Error::other(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adv_n11_a_stream_has_as_much_content_as_it_said_or_is_refused() {
        let mut content = Content::new(Framing::Length(5));
        content.count(b"hel").unwrap();
        content.check().unwrap();
        content.over = true;
        assert!(content.check().is_err());
        content.count(b"lo").unwrap();
        content.check().unwrap();
        assert!(content.count(b"G").is_err());
        Content::new(Framing::Chunked).count(b"any").unwrap();
    }
}
