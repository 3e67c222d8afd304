//! A connection that speaks HTTP/2, on which no head may take longer than one of HTTP/1.
//!
//! The library waits for the rest of a head as long as the connection stands. So the frames are counted on their way to it:
//! from the first bytes of a head on, its last frame has to be whole by a deadline.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// What a client says before its first frame.
const PREFACE: usize = 24;
/// What stands before the content of a frame.
const BEFORE: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
/// The mark of the last frame of a head.
const END_HEADERS: u8 = 4;

/// The same connection.
pub(super) struct Paced<S> {
    stream: S,
    frames: Frames,
    most: Duration,
    /// Until when the head has to be whole that has begun.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    pub(super) fn new(stream: S, most: Duration) -> Self {
        Self { stream, frames: Frames::default(), most, until: None }
    }
}

/// Where in its frames a connection is.
struct Frames {
    /// How much comes before the next frame: the rest of this one, or of the preface.
    left: usize,
    /// What has come of what stands before the next one.
    before: Vec<u8>,
    /// A head has begun; whether its last frame is the one that comes.
    head: Option<bool>,
}

impl Default for Frames {
    fn default() -> Self {
        Self { left: PREFACE, before: Vec::with_capacity(BEFORE), head: None }
    }
}

impl Frames {
    /// Counts what came; whether a head is open after it.
    fn count(&mut self, mut data: &[u8]) -> bool {
        loop {
            let now = self.left.min(data.len());
            self.left -= now;
            data = data.get(now..).unwrap_or_default();
            if self.left == 0 && self.head == Some(true) {
                self.head = None;
            }
            let Some((first, rest)) = data.split_first() else { return self.head.is_some() };
            self.before.push(*first);
            data = rest;
            if let [a, b, c, kind, marks, ..] = self.before[..]
                && self.before.len() == BEFORE
            {
                self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                if matches!(kind, HEADERS | CONTINUATION) {
                    self.head = Some(marks & END_HEADERS != 0);
                }
                self.before.clear();
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(until) = &mut self.until
            && until.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the head took too long")));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let is_open = self.frames.count(buf.filled().get(before..).unwrap_or_default());
        match (is_open, &self.until) {
            (true, None) => self.until = Some(Box::pin(sleep_until(Instant::now() + self.most))),
            (false, Some(_)) => self.until = None,
            (true, Some(_)) | (false, None) => {}
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_millis(100);

    fn frame(kind: u8, marks: u8, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, marks, 0, 0, 0, 1], content].concat()
    }

    #[test]
    fn adv_n16_a_head_is_open_until_its_last_frame_is_whole_wherever_it_is_cut() {
        let frames = [
            (vec![b'p'; PREFACE], false),
            (frame(4, 0, b"settings"), false),
            (frame(HEADERS, 0, b"some"), true),
            (frame(CONTINUATION, 0, b""), true),
            (frame(CONTINUATION, END_HEADERS, b"rest"), false),
            (frame(0, 1, &[END_HEADERS; 300]), false),
            (frame(HEADERS, END_HEADERS | 1, b"all"), false),
        ];
        for step in [1, 5, 1000] {
            let mut count = Frames::default();
            for (bytes, is_open) in &frames {
                let open: Vec<bool> = bytes.chunks(step).map(|some| count.count(some)).collect();
                assert_eq!(open.last(), Some(is_open), "{step}");
            }
        }
        // One frame of which the end does not come.
        let mut count = Frames::default();
        count.count(&[b'p'; PREFACE]);
        assert!(count.count(&frame(HEADERS, END_HEADERS, b"all")[..11]) && !count.count(b"l"));
    }

    #[tokio::test]
    async fn adv_n16_a_head_that_never_ends_is_given_up_and_one_that_ends_is_not() {
        let (near, mut far) = tokio::io::duplex(4096);
        let mut near = Paced::new(near, SOON);
        let mut got = [0; 4096];
        far.write_all(&[b'p'; PREFACE]).await.unwrap();
        far.write_all(&frame(HEADERS, 0, b"some")).await.unwrap();
        assert!(near.read(&mut got).await.unwrap() > 0);
        far.write_all(&frame(CONTINUATION, END_HEADERS, b"rest")).await.unwrap();
        assert!(near.read(&mut got).await.unwrap() > 0);
        // At rest between heads, for as long as it likes.
        timeout(SOON * 3, near.read(&mut got)).await.expect_err("nothing came");
        far.write_all(&frame(HEADERS, 0, b"some")).await.unwrap();
        assert!(near.read(&mut got).await.unwrap() > 0);
        // Whoever goes on to send a little gets no more time by it.
        let sends = async {
            loop {
                let _ = far.write_all(&frame(CONTINUATION, 0, b"x")).await;
                tokio::time::sleep(SOON / 10).await;
            }
        };
        let reads = async {
            loop {
                if let Err(error) = near.read(&mut got).await {
                    return error;
                }
            }
        };
        let error = tokio::select! { error = reads => error, () = sends => unreachable!() };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
