//! Both directions of one stream of HTTP/2, as if it were a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::{RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::content::broken;

/// The most that is written at once.
const AT_ONCE: usize = 16 * 1024;

/// A stream.
pub(super) struct Pair<'a> {
    recv: &'a mut RecvStream,
    send: SendStream<Bytes>,
    /// What came and was not read.
    came: Bytes,
    is_shut: bool,
}

impl<'a> Pair<'a> {
    pub(super) fn new(recv: &'a mut RecvStream, send: SendStream<Bytes>) -> Self {
        Self { recv, send, came: Bytes::new(), is_shut: false }
    }
}

impl AsyncRead for Pair<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.came.is_empty() {
            match ready!(self.recv.poll_data(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(data) => self.came = data.map_err(broken)?,
            }
        }
        let count = self.came.len().min(buf.remaining());
        buf.put_slice(self.came.get(..count).unwrap_or_default());
        self.came.advance(count);
        self.recv.flow_control().release_capacity(count).map_err(broken)?;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pair<'_> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let wanted = buf.len().min(AT_ONCE);
        if wanted == 0 {
            return Poll::Ready(Ok(0));
        }
        self.send.reserve_capacity(wanted);
        let room = match ready!(self.send.poll_capacity(cx)) {
            None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Some(room) => room.map_err(broken)?.min(wanted),
        };
        let data = Bytes::copy_from_slice(buf.get(..room).unwrap_or_default());
        self.send.send_data(data, false).map_err(broken)?;
        Poll::Ready(Ok(room))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The connection writes by itself.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_shut {
            self.is_shut = true;
            self.send.send_data(Bytes::new(), true).map_err(broken)?;
        }
        Poll::Ready(Ok(()))
    }
}
