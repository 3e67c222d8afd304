//! Connections and bodies with deadlines: who neither sends nor takes anything is let go.
//!
//! hyper bounds the time for headers, but not the first bytes (while it finds out which HTTP is spoken), not
//! the body, and not a reader that stops reading. Invariant: nothing a peer leaves undone holds a connection,
//! a stream or a thread for longer than these times. Answers that are not taken are in [`crate::outflow`].

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::problem::Problem;

/// By then a new connection has said which HTTP it speaks.
const FIRST_BYTES: Duration = Duration::from_secs(15);
/// The length of the HTTP/2 preface.
const PREFACE: usize = 24;
/// By then a reader has taken something.
const STALLED: Duration = Duration::from_secs(30);
/// By then a body is here.
pub(crate) const BODY: Duration = Duration::from_secs(30);
/// By then the files of a capability are here.
pub(crate) const UPLOAD: Duration = Duration::from_secs(240);

/// A connection that gives up on a silent peer.
pub(crate) struct Patient<S> {
    inner: S,
    seen: usize,
    first: Pin<Box<Sleep>>,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner, seen: 0, first: Box::pin(sleep(FIRST_BYTES)), stalled: None }
    }

    /// The outcome of a write, unless the peer takes nothing for too long.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stalled = None;
            return outcome;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALLED)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let outcome = Pin::new(&mut self.inner).poll_read(cx, into);
        self.seen = self.seen.saturating_add(into.filled().len().saturating_sub(before));
        if outcome.is_pending() && self.seen < PREFACE {
            return self.first.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()));
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, from);
        self.bounded(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, from);
        self.bounded(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        self.bounded(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.bounded(cx, outcome)
    }
}

/// A body that took too long.
#[derive(Debug, thiserror::Error)]
#[error("the body did not arrive in time")]
struct TooSlow;

/// A body bounded in size and time while it arrives, whatever it says about itself.
struct Bounded {
    inner: Limited<Body>,
    deadline: Pin<Box<Sleep>>,
}

/// Bounds a body.
pub(crate) fn bounded(body: Body, most: usize, patience: Duration) -> Body {
    if hyper::body::Body::is_end_stream(&body) {
        return body;
    }
    Body::new(Bounded { inner: Limited::new(body, most), deadline: Box::pin(sleep(patience)) })
}

impl hyper::body::Body for Bounded {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Pending => self.deadline.as_mut().poll(cx).map(|()| Some(Err(TooSlow.into()))),
            ready => ready,
        }
    }

    fn is_end_stream(&self) -> bool {
        hyper::body::Body::is_end_stream(&self.inner)
    }

    fn size_hint(&self) -> SizeHint {
        hyper::body::Body::size_hint(&self.inner)
    }
}

/// The whole of a bounded body, or what is wrong with it.
pub(crate) async fn whole(body: Body, most: usize) -> Result<Bytes, Problem> {
    match body.collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => Err(unread(&error, most)),
    }
}

/// Why a bounded body could not be read.
pub(crate) fn unread(error: &(dyn std::error::Error + 'static), most: usize) -> Problem {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return Problem::too_large(most);
        }
        if error.is::<TooSlow>() {
            return Problem::too_slow();
        }
        cause = error.source();
    }
    Problem::bad_request("the body could not be read")
}
