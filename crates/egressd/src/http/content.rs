//! Content on its way: read from one side, looked at, written to the other, whichever HTTP each of them speaks.
//!
//! Invariants: one piece is kept at a time, and what was read ahead to be judged goes first; who does not take or send
//! anything for too long is given up; fields after content are looked at as content is.

use std::borrow::Cow;
use std::future::poll_fn;
use std::io;

use bytes::Bytes;
use egress::http1::{self, Body, Fields, Framing};
use h2::{RecvStream, SendStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::timeout;
use zeroize::Zeroize;

use super::carry::Guard;
use super::packed::{self, Inside, Packing, Unpack};
use super::{ANSWER, Trouble, Wire};
use crate::lent::{Hide, Lent, Mask, Watch};

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
}

impl Content {
    pub(super) fn new(framing: Framing) -> Self {
        let body = Body::new(framing);
        let left = if let Framing::Length(length) = framing { Some(length) } else { None };
        Self { held: Vec::new(), over: body.is_done(), body, left, trailers: None }
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
            out.append(&mut self.held);
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
        match from {
            Source::One(stream, read) => self.read_one(stream, read, out).await,
            Source::Two(stream) => self.read_two(stream, out).await,
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
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl<'a> Out<'a> {
    pub(super) fn new(to: WriteHalf<&'a mut Wire>, framing: Framing, head: Vec<u8>, is_secret: bool) -> Self {
        Self { to, framing, unsent: head, is_secret }
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

/// What is done with content that passes by.
pub(super) struct Pass<'a> {
    look: Look<'a>,
    /// What is unpacked goes on so.
    unpack: Option<Unpack>,
    /// How much may go on, and what may still.
    most: Option<(u64, u64)>,
}

/// What is looked for in it.
enum Look<'a> {
    Nothing,
    Watch(&'a Lent, Watch<'a>, Inside<'a>),
    /// Looks into what is packed, which goes on as it is.
    Packed(&'a Lent, Watch<'a>, Watch<'a>, Box<Unpack>),
    Hide(&'a Lent, Hide<'a>, Inside<'a>, Option<Calls>),
    Mask(&'a Lent, Mask<'a>, Option<Calls>),
}

/// Fields that say what content has to be, byte for byte.
const DIGESTS: [&str; 5] = ["content-digest", "content-md5", "digest", "repr-digest", "x-amz-content-sha256"];

impl<'a> Pass<'a> {
    /// For what goes out, with these fields before it.
    pub(super) fn out(Guard { lent, towards, .. }: Guard<'a>, fields: &Fields) -> Self {
        let is_exact = || DIGESTS.iter().any(|name| fields.all(name).next().is_some());
        if lent.is_empty() {
            return Self { look: Look::Nothing, unpack: None, most: None };
        }
        let look = match Packing::of(fields).opens() {
            Some(unpack) => Look::Packed(lent, lent.watch(), lent.watch(), Box::new(unpack)),
            // What has to stay as it is cannot be masked.
            None if lent.hides(towards) && !is_exact() => {
                Look::Hide(lent, lent.hide(towards), Inside::new(lent.watch()), calls(fields))
            }
            None => Look::Watch(lent, lent.watch(), Inside::new(lent.watch())),
        };
        Self { look, unpack: None, most: None }
    }

    /// For what comes back, with these fields before it.
    pub(super) fn back(guard: Guard<'a>, fields: &Fields, unpack: Option<Unpack>) -> Self {
        let lent = guard.lent;
        let look = match lent.is_empty() {
            true => Look::Nothing,
            false => Look::Mask(lent, lent.mask(), calls(fields)),
        };
        Self { look, unpack, most: guard.most.map(|most| (most, most)) }
    }

    /// The secret that was masked.
    pub(super) fn found(self) -> Option<String> {
        match self.look {
            Look::Mask(_, mask, _) => mask.found,
            Look::Nothing | Look::Watch(..) | Look::Packed(..) | Look::Hide(..) => None,
        }
    }

    /// How much is passed at once.
    fn at_once(&self) -> usize {
        if self.unpack.is_some() { packed::AT_ONCE } else { usize::MAX }
    }

    /// The bytes that go on.
    fn pass<'d>(&mut self, data: &'d [u8], is_end: bool) -> Result<Cow<'d, [u8]>, Trouble> {
        let out = match &mut self.unpack {
            None => self.look.pass(data, is_end)?,
            Some(unpack) => {
                let plain = unpack.feed(data, is_end)?;
                self.look.pass(&plain, is_end)?.into_owned().into()
            }
        };
        if let Some((most, left)) = &mut self.most {
            *left = left.checked_sub(super::length(&out)).ok_or_else(|| too_long(*most))?;
        }
        Ok(out)
    }
}

/// There is more of an answer than may be.
pub(super) fn too_long(most: u64) -> Trouble {
    Trouble::Refused(format!("the answer is longer than the {most} bytes that a rule or limit lets it have"))
}

/// Knows where messages end, if these fields say that there are some.
fn calls(fields: &Fields) -> Option<Calls> {
    let is_call = fields.only("content-type").is_some_and(|kind| kind.starts_with(b"application/grpc"));
    is_call.then(Calls::default)
}

impl Look<'_> {
    fn pass<'d>(&mut self, data: &'d [u8], is_end: bool) -> Result<Cow<'d, [u8]>, Trouble> {
        match self {
            Self::Nothing => Ok(data.into()),
            Self::Watch(_, watch, inside) => {
                watch.look(data).map_err(Trouble::Astray)?;
                inside.look(data).map(|()| data.into())
            }
            Self::Packed(_, outside, inside, unpack) => {
                outside.look(data).map_err(Trouble::Astray)?;
                for some in data.chunks(packed::AT_ONCE) {
                    inside.look(&unpack.feed(some, false)?).map_err(Trouble::Astray)?;
                }
                if is_end {
                    inside.look(&unpack.feed(b"", true)?).map_err(Trouble::Astray)?;
                }
                Ok(data.into())
            }
            Self::Hide(_, hide, inside, calls) => {
                inside.look(data)?;
                let is_whole = calls.as_mut().is_some_and(|calls| calls.is_whole_after(data));
                hide.pass(data, is_end || is_whole).map_err(Trouble::Astray)
            }
            Self::Mask(_, mask, calls) => {
                let is_whole = calls.as_mut().is_some_and(|calls| calls.is_whole_after(data));
                Ok(mask.pass(data, is_end || is_whole))
            }
        }
    }

    /// The same for fields after content.
    fn fields(&mut self, mut fields: Fields) -> Result<Fields, Trouble> {
        match self {
            Self::Nothing => {}
            Self::Watch(lent, ..) | Self::Packed(lent, ..) | Self::Hide(lent, ..) => {
                for (name, value) in fields.iter() {
                    lent.watch().look(name.as_bytes()).map_err(Trouble::Astray)?;
                    lent.watch().look(value).map_err(Trouble::Astray)?;
                }
            }
            Self::Mask(lent, mask, _) => {
                let odd = || Trouble::Odd("a secret comes back where it cannot be masked".into());
                if fields.iter().any(|(name, _)| lent.masked(name.as_bytes()).is_some()) {
                    return Err(odd());
                }
                let change = |_: &str, value: &[u8]| {
                    let (masked, name) = lent.masked(value)?;
                    mask.found = Some(name);
                    Some(masked)
                };
                fields.rewrite(change).map_err(|_| odd())?;
            }
        }
        Ok(fields)
    }
}

/// Knows where the messages of a call end. What could be the beginning of a secret is not held back there: the other side may
/// wait for the whole message before it says more, and what follows has a mark before it that stands in no secret.
#[derive(Default)]
pub(super) struct Calls {
    /// The mark and the length before a message, as far as they came.
    head: Vec<u8>,
    /// How much of the message is to come.
    left: usize,
}

impl Calls {
    /// Whether a message ends with these bytes.
    fn is_whole_after(&mut self, mut data: &[u8]) -> bool {
        while let Some((first, rest)) = data.split_first() {
            if self.left > 0 {
                let count = self.left.min(data.len());
                self.left -= count;
                data = data.get(count..).unwrap_or_default();
                continue;
            }
            self.head.push(*first);
            data = rest;
            if let [_, a, b, c, d] = *self.head {
                self.left = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
                self.head.clear();
            }
        }
        self.left == 0 && self.head.is_empty()
    }
}

/// Carries content from one side to the other, until it is over.
pub(super) async fn carry(
    content: &mut Content,
    from: &mut Source<'_, '_>,
    to: &mut Sink<'_>,
    count: &mut u64,
    pass: &mut Pass<'_>,
) -> Result<(), Trouble> {
    let mut piece = Vec::new();
    loop {
        piece.clear();
        let is_last = {
            let mut next = std::pin::pin!(content.next(from, &mut piece));
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
                let trailers =
                    content.trailers.take().map(|trailers| pass.look.fields(trailers)).transpose()?;
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

    #[test]
    fn messages_of_a_call_end_where_they_say_wherever_they_are_cut() {
        let all = b"\0\0\0\0\x03abc\0\0\0\0\0\x01\0\0\0\x01z";
        let ends = [8, 13, 19];
        for first in 0..=all.len() {
            for second in first..=all.len() {
                let mut calls = Calls::default();
                let is_end = |at: usize| at == 0 || ends.contains(&at);
                assert_eq!(calls.is_whole_after(&all[..first]), is_end(first));
                assert_eq!(calls.is_whole_after(&all[first..second]), is_end(second));
                assert!(calls.is_whole_after(&all[second..]));
            }
        }
    }
}
