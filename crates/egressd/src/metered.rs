//! A connection to a server that counts what goes over it, and breaks where the sandbox has had enough.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::quota::Quota;

/// The same connection, counted.
pub(crate) struct Metered<S> {
    stream: S,
    quota: Arc<Quota>,
}

impl<S> Metered<S> {
    pub(crate) fn new(stream: S, quota: &Arc<Quota>) -> Self {
        Self { stream, quota: Arc::clone(quota) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, left) = (buf.filled().len(), self.quota.left());
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let got = u64::try_from(buf.filled().len() - before).unwrap_or_default();
        self.quota.received(got.min(left));
        if got > left {
            // What is too much is not passed on.
            buf.set_filled(before);
            return Poll::Ready(Err(self.quota.no_bytes().into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let left = usize::try_from(self.quota.left()).unwrap_or(usize::MAX);
        if left == 0 && !buf.is_empty() {
            return Poll::Ready(Err(self.quota.no_bytes().into()));
        }
        let some = buf.get(..buf.len().min(left)).unwrap_or_default();
        let put = ready!(Pin::new(&mut self.stream).poll_write(cx, some))?;
        self.quota.sent(u64::try_from(put).unwrap_or_default());
        Poll::Ready(Ok(put))
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
    use egress::control::Used;
    use rules::Limits;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn egr_16_not_one_byte_more_goes_either_way() {
        let quota = Arc::new(Quota::default());
        quota.limit(Limits::parse("bytes=10").unwrap(), Used::default());
        let (near, mut far) = tokio::io::duplex(64);
        let mut near = Metered::new(near, &quota);
        near.write_all(b"1234").await.unwrap();
        far.write_all(b"123456").await.unwrap();
        let mut got = [0; 6];
        near.read_exact(&mut got).await.unwrap();
        far.write_all(b"7").await.unwrap();
        assert!(near.read(&mut got).await.is_err() && near.write(b"5").await.is_err());
        let used = quota.used();
        assert_eq!((used.sent, used.received), (4, 6));
    }
}
