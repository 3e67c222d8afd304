//! A connection of HTTP/2 that is written to in large pieces. The `h2` crate wants each frame of content to be gone before it
//! takes the next, so the answers of several streams would each be a record of TLS and a packet.
//!
//! Invariant: what was written goes out when it is flushed a second time without more having come, and whoever flushed it
//! once is made to do that.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf};

/// What is written at once at most, of many small pieces: one record of TLS.
const TOGETHER: usize = 16 * 1024;

/// The same connection.
pub(super) struct Gathered<S> {
    to: BufWriter<S>,
    /// Whether something was written since it was flushed.
    is_new: bool,
}

impl<S: AsyncWrite> Gathered<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { to: BufWriter::with_capacity(TOGETHER, stream), is_new: false }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let put = ready!(Pin::new(&mut self.to).poll_write(cx, buf))?;
        self.is_new = true;
        Poll::Ready(Ok(put))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let put = ready!(Pin::new(&mut self.to).poll_write_vectored(cx, bufs))?;
        self.is_new = true;
        Poll::Ready(Ok(put))
    }

    fn is_write_vectored(&self) -> bool {
        self.to.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.is_new) && !self.to.buffer().is_empty() {
            cx.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.to).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn what_several_write_goes_out_at_once_and_nothing_is_left() {
        let (near, mut far) = tokio::io::duplex(64 * 1024);
        let mut near = Gathered::new(near);
        let flushed = |near: &mut Gathered<_>, cx: &mut Context<'_>| Pin::new(near).poll_flush(cx).is_ready();
        for _ in 0..3 {
            near.write_all(b"piece").await.unwrap();
            assert!(poll_fn(|cx| Poll::Ready(flushed(&mut near, cx))).await);
        }
        let mut got = [0; 64];
        let reads = tokio::time::timeout(std::time::Duration::from_millis(20), far.read(&mut got)).await;
        assert!(reads.is_err(), "it waits for more");
        near.flush().await.unwrap();
        assert_eq!(far.read(&mut got).await.unwrap(), 15);
        // Large pieces wait for nothing, and an end takes everything with it.
        near.write_all(&[b'x'; 40_000]).await.unwrap();
        near.write_all(b"last").await.unwrap();
        near.flush().await.unwrap();
        near.shutdown().await.unwrap();
        drop(near);
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.unwrap();
        assert_eq!((rest.len(), rest.ends_with(b"last")), (40_004, true));
    }

    #[tokio::test]
    async fn whoever_flushed_is_made_to_do_it_again() {
        let (near, mut far) = tokio::io::duplex(1024);
        let mut near = Gathered::new(near);
        let writes = tokio::spawn(async move {
            near.write_all(b"piece").await.unwrap();
            let mut times = 0;
            poll_fn(|cx| {
                times += 1;
                assert!(Pin::new(&mut near).poll_flush(cx).is_ready());
                if times == 2 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        });
        let mut got = [0; 5];
        far.read_exact(&mut got).await.unwrap();
        writes.await.unwrap();
    }
}
