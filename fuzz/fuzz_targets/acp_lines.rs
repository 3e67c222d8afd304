//! Whatever an agent writes, the reader comes to its end without a panic, tells at most one thing a line, and tells the same wherever
//! the stream is cut.
#![no_main]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use acp::{Limits, Update};
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes in pieces, once something was said to whoever they are from.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    piece: usize,
    was_asked: Arc<AtomicBool>,
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        if !self.was_asked.load(Ordering::SeqCst) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let end = self.at.saturating_add(self.piece.min(to.remaining())).min(self.bytes.len());
        to.put_slice(&self.bytes[self.at..end]);
        self.at = end;
        Poll::Ready(Ok(()))
    }
}

/// Takes everything.
struct Ear(Arc<AtomicBool>);

impl AsyncWrite for Ear {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.0.store(true, Ordering::SeqCst);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn heard(bytes: &[u8], piece: usize) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        // Bounds that a small input can reach.
        let limits = Limits { record: 512, depth: 8, odd: u32::MAX, ..Limits::default() };
        let was_asked = Arc::new(AtomicBool::new(false));
        let pieces = Pieces { bytes: bytes.to_vec(), at: 0, piece, was_asked: Arc::clone(&was_asked) };
        let (agent, mut heard) = acp::connect(Ear(was_asked), pieces, limits);
        let opening = tokio::spawn(async move { agent.open("/".as_ref(), &[]).await });
        let (mut all, mut open) = (Vec::new(), Vec::new());
        while let Some(update) = heard.next().await {
            all.push(format!("{update:?}"));
            if let Update::Asked(question) = update {
                open.push(question);
            }
        }
        let opened = opening.await.expect("no panic");
        all.push(format!("{opened:?}"));
        all
    })
}

fuzz_target!(|input: (Vec<u8>, u8)| {
    let (bytes, piece) = input;
    let whole = heard(&bytes, usize::MAX);
    assert!(whole.len() <= bytes.split(|byte| *byte == b'\n').count() + 1);
    assert_eq!(heard(&bytes, usize::from(piece).max(1)), whole);
});
