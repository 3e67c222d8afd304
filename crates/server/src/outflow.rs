//! Bodies on their way out: made by a thread of their own, taken in time, or cut.
//!
//! HTTP/2 lets a peer stop one stream while the connection looks alive, and hyper does not ask a body for
//! more until the peer makes room. So nothing that others wait for (threads of the store, seats) may hang on
//! a body being asked, and a connection with a stream that stands still is ended.
//!
//! Invariant: a body that is not whole ends in an error, never as if it were whole.

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::problem::Problem;
use crate::seats::Seat;

/// By then a reader has taken the next piece.
const STALLED: Duration = Duration::from_secs(30);
/// Connections are looked at so many times within that.
const LOOKS: u32 = 6;
/// No frame is larger, so that a slow reader shows that it reads.
const FRAME: usize = 16 * 1024;

/// What a body is made of.
pub(crate) type Piece = io::Result<Bytes>;

/// A body whose pieces `work` makes, on a thread of its own: file reads and slow readers do not take a thread
/// from the store. `work` gives pieces away until it is told that nobody listens. The seat is held meanwhile.
pub(crate) fn produced<K: Eq + Hash + Send + 'static>(
    seat: Seat<K>,
    work: impl FnOnce(&mut dyn FnMut(Piece) -> bool) + Send + 'static,
) -> Result<Body, Problem> {
    produced_within(STALLED, seat, work)
}

fn produced_within<K: Eq + Hash + Send + 'static>(
    time: Duration,
    seat: Seat<K>,
    work: impl FnOnce(&mut dyn FnMut(Piece) -> bool) + Send + 'static,
) -> Result<Body, Problem> {
    let (made, pieces) = mpsc::channel::<Piece>(1);
    let whole = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&whole);
    let thread = std::thread::Builder::new().name("outflow".into()).spawn(move || {
        let mut heard = true;
        work(&mut |piece| {
            heard = heard && made.blocking_send(piece).is_ok();
            heard
        });
        done.store(heard, Ordering::Release);
        drop(seat);
    });
    thread.map_err(|error| {
        tracing::error!(%error, "no thread for an answer");
        Problem::unavailable("there is no thread for this now; try again later")
    })?;
    let (send, taken) = mpsc::channel(1);
    tokio::spawn(pump(time, pieces, send, whole));
    Ok(body(taken))
}

/// Passes pieces on as long as they are taken in time. Its end is the end of the thread.
async fn pump(
    time: Duration,
    mut pieces: mpsc::Receiver<Piece>,
    send: mpsc::Sender<Piece>,
    whole: Arc<AtomicBool>,
) {
    loop {
        let piece = tokio::select! {
            piece = pieces.recv() => piece,
            () = send.closed() => return,
        };
        let piece = match piece {
            Some(piece) => piece,
            None if whole.load(Ordering::Acquire) => {
                // Without this the end looks like one that was cut.
                drop(send.send_timeout(Ok(Bytes::new()), time).await);
                return;
            }
            None => return,
        };
        if piece.as_ref().is_ok_and(Bytes::is_empty) {
            continue;
        }
        if send.send_timeout(piece, time).await.is_err() {
            tracing::info!("an answer was cut: its reader takes nothing");
            return;
        }
    }
}

/// What arrives, up to the empty piece that says it was all.
fn body(taken: mpsc::Receiver<Piece>) -> Body {
    let cut = || io::Error::new(io::ErrorKind::TimedOut, "the answer was cut");
    let stream = futures_util::stream::unfold(Some(taken), move |taken| async move {
        let mut taken = taken?;
        match taken.recv().await {
            Some(Ok(piece)) if piece.is_empty() => None,
            Some(Ok(piece)) => Some((Ok(piece), Some(taken))),
            Some(Err(error)) => Some((Err(error), None)),
            None => Some((Err(cut()), None)),
        }
    });
    Body::from_stream(stream)
}

/// The bodies of one connection that wait for their reader, and since when.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    time: Duration,
    waiting: Arc<Mutex<HashMap<u64, Instant>>>,
}

impl Pace {
    /// Of a new connection.
    pub(crate) fn new() -> Self {
        Self::within(STALLED)
    }

    fn within(time: Duration) -> Self {
        Self { time, waiting: Arc::default() }
    }

    /// Ends when a body has waited too long.
    pub(crate) async fn stalled(&self) {
        loop {
            tokio::time::sleep(self.time / LOOKS).await;
            if self.lock().values().any(|since| since.elapsed() >= self.time) {
                return;
            }
        }
    }

    /// Watches a body from now on.
    pub(crate) fn watch(&self, body: Body) -> Body {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if body.is_end_stream() {
            return body;
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(id, Instant::now());
        Body::new(Watched { inner: body, rest: Bytes::new(), pace: self.clone(), id })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body that says when it waits for its reader.
struct Watched {
    inner: Body,
    /// What is left of a large frame.
    rest: Bytes,
    pace: Pace,
    id: u64,
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = if self.rest.is_empty() {
            Pin::new(&mut self.inner).poll_frame(cx)
        } else {
            Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.rest)))))
        };
        let frame = match frame {
            // It is the reader who waits.
            Poll::Pending => {
                self.pace.lock().remove(&self.id);
                return Poll::Pending;
            }
            Poll::Ready(frame) => frame,
        };
        self.pace.lock().insert(self.id, Instant::now());
        Poll::Ready(frame.map(|frame| {
            Ok(match frame?.into_data() {
                Ok(mut data) => {
                    self.rest = data.split_off(data.len().min(FRAME));
                    Frame::data(data)
                }
                Err(other) => other,
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), u64::try_from(self.rest.len()).unwrap_or_default());
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.pace.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::seats::Seats;

    const SHORT: Duration = Duration::from_millis(300);

    /// A body of many pieces, and the seats it takes one of.
    fn many(count: usize) -> (Body, Arc<Seats<u8>>) {
        let seats = Seats::new(1, 1);
        let body = produced_within(SHORT, seats.take(0).unwrap(), move |send| {
            let _ = (0..count).all(|_| send(Ok(Bytes::from_static(&[7; 100]))));
        });
        (body.unwrap(), seats)
    }

    async fn freed(seats: &Seats<u8>) {
        while seats.taken() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn gtw_02_what_is_taken_comes_whole() {
        let (body, seats) = many(1_000);
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), 100_000);
        assert_eq!(seats.taken(), 0);
        let (empty, _) = many(0);
        assert!(empty.collect().await.unwrap().to_bytes().is_empty());
    }

    #[tokio::test]
    async fn gtw_02_who_takes_nothing_holds_neither_thread_nor_seat() {
        let (mut body, seats) = many(1_000);
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().len(), 100);
        tokio::time::timeout(SHORT * 30, freed(&seats)).await.unwrap();
        assert!(body.collect().await.is_err(), "what was cut does not look whole");

        let (body, seats) = many(1_000);
        drop(body);
        tokio::time::timeout(SHORT * 30, freed(&seats)).await.unwrap();
    }

    #[tokio::test]
    async fn gtw_02_work_that_fails_does_not_look_like_an_end() {
        let seat = Seats::new(1, 1).take(0).unwrap();
        let failing = produced(seat, |send| {
            send(Ok(Bytes::from_static(b"x")));
            send(Err(io::Error::other("no more")));
        });
        assert!(failing.unwrap().collect().await.is_err());
    }

    #[tokio::test]
    async fn gtw_02_a_body_that_nobody_asks_for_more_is_seen() {
        let pace = Pace::within(SHORT);
        let size = FRAME * 2 + 1;
        let mut body = pace.watch(Body::from(vec![1; size]));
        assert_eq!(body.size_hint().exact(), Some(u64::try_from(size).unwrap()));
        let mut taken = 0;
        for _ in 0..3 {
            let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(piece.len() <= FRAME, "{}", piece.len());
            taken += piece.len();
        }
        assert_eq!((taken, body.is_end_stream()), (size, true));
        assert!(tokio::time::timeout(SHORT * 30, pace.stalled()).await.is_ok(), "it is still there");
        drop(body);
        let unasked = pace.watch(Body::from("x"));
        assert!(tokio::time::timeout(SHORT * 30, pace.stalled()).await.is_ok());
        drop(unasked);
        let waits = pace.watch(Body::from_stream(futures_util::stream::pending::<Piece>()));
        let asked = tokio::spawn(waits.collect());
        let later = tokio::time::timeout(SHORT * 3, pace.stalled()).await;
        assert!(later.is_err(), "who waits for us does not stand still");
        asked.abort();
    }
}
