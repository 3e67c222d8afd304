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

/// Where content goes to.
pub(super) enum Sink<'a> {
    /// A connection: as it is, or in chunks of our own.
    One(WriteHalf<&'a mut Wire>, Framing),
    /// A stream of one.
    Two(SendStream<Bytes>),
}

impl Sink<'_> {
    /// Passes some on, and keeps none back for more.
    async fn data(&mut self, data: &[u8]) -> Result<(), Trouble> {
        match self {
            Self::One(to, framing) => {
                let mut chunk = Vec::new();
                let data = if *framing == Framing::Chunked {
                    http1::write_chunk(&mut chunk, data);
                    &chunk
                } else {
                    data
                };
                within(to.write_all(data)).await?;
                within(to.flush()).await
            }
            Self::Two(to) => {
                let mut rest = data;
                while !rest.is_empty() {
                    to.reserve_capacity(rest.len());
                    let room = async { poll_fn(|cx| to.poll_capacity(cx)).await.transpose().map_err(broken) };
                    let room = within(room).await?.ok_or(Trouble::Gone)?;
                    let (now, later) = rest.split_at(room.min(rest.len()));
                    to.send_data(Bytes::copy_from_slice(now), false).map_err(broken)?;
                    rest = later;
                }
                Ok(())
            }
        }
    }

    async fn end(&mut self, trailers: Option<Fields>) -> Result<(), Trouble> {
        match self {
            Self::One(to, framing) => {
                if *framing == Framing::Chunked {
                    let mut last = Vec::new();
                    http1::write_last_chunk(&mut last, trailers.as_ref());
                    within(to.write_all(&last)).await?;
                }
                within(to.flush()).await
            }
            Self::Two(to) => match trailers {
                Some(trailers) => to.send_trailers(super::two::fields(&trailers, false)?),
                None => to.send_data(Bytes::new(), true),
            }
            .map_err(|error| broken(error).into()),
        }
    }

    /// Comes back when nobody wants it any more, if that is told.
    async fn gone(&mut self) {
        match self {
            Self::One(..) => std::future::pending().await,
            Self::Two(to) => drop(poll_fn(|cx| to.poll_reset(cx)).await),
        }
    }
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
        let is_last = tokio::select! {
            biased;
            () = to.gone() => return Err(Trouble::Gone),
            is_last = content.next(from, &mut piece) => is_last?,
        };
        let mut rest = piece.as_slice();
        loop {
            let (now, later) = rest.split_at(pass.at_once().min(rest.len()));
            let data = pass.pass(now, is_last && later.is_empty())?;
            if !data.is_empty() {
                *count += super::length(&data);
                to.data(&data).await?;
            }
            if later.is_empty() {
                break;
            }
            rest = later;
        }
        if is_last {
            let trailers = content.trailers.take().map(|trailers| pass.look.fields(trailers)).transpose()?;
            return to.end(trailers).await;
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
