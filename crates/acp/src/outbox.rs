//! What is to be said to an agent, in order: whoever says something waits for nobody, and a task writes it.
//!
//! Bounded by those who fill it: so many requests are under way at once (`link`), one word to stop is enough, and while answers pile
//! up no further question is read (`reading`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

/// Lines that may wait before nothing is read that would make further ones.
const FULL: usize = 64;

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Request(u64),
    Cancel,
    Answer,
}

#[derive(Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    more: Notify,
    room: Notify,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<(Tag, Vec<u8>)>,
    is_closed: bool,
}

impl Outbox {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, tag: Tag, line: Vec<u8>) {
        let mut queue = self.queue();
        let is_said = tag == Tag::Cancel && queue.lines.iter().any(|(_, other)| *other == line);
        if queue.is_closed || is_said {
            return;
        }
        queue.lines.push_back((tag, line));
        drop(queue);
        self.more.notify_one();
    }

    /// Takes a request back that nobody waits for, if it was not begun to be written.
    pub(crate) fn withdraw(&self, id: u64) {
        self.queue().lines.retain(|(tag, _)| *tag != Tag::Request(id));
    }

    /// Takes nothing more; what is there is still written.
    pub(crate) fn close(&self) {
        self.queue().is_closed = true;
        self.more.notify_one();
        self.room.notify_one();
    }

    /// Waits until the agent has read some of it. One waits at a time.
    pub(crate) async fn room(&self) {
        loop {
            {
                let queue = self.queue();
                if queue.is_closed || queue.lines.len() < FULL {
                    return;
                }
            }
            self.room.notified().await;
        }
    }

    async fn pop(&self) -> Option<Vec<u8>> {
        loop {
            {
                let mut queue = self.queue();
                if let Some((_, line)) = queue.lines.pop_front() {
                    self.room.notify_one();
                    return Some(line);
                }
                if queue.is_closed {
                    return None;
                }
            }
            self.more.notified().await;
        }
    }
}

/// Writes what is put in, until it is closed or nobody reads any more.
pub(crate) async fn write<W: AsyncWrite + Unpin>(mut to: W, outbox: Arc<Outbox>) {
    while let Some(line) = outbox.pop().await {
        if to.write_all(&line).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    outbox.close();
    // Where both directions are one stream, dropping this half would not tell.
    let _ = to.shutdown().await;
}
