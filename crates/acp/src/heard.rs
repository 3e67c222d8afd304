//! What an agent tells, for whoever takes it.

use std::sync::Arc;

use tokio::io::AsyncRead;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::AbortHandle;

use crate::limits::Limits;
use crate::link::Link;
use crate::reading::{self, Reading};
use crate::update::Update;

/// Updates that wait to be taken, however small they are.
const UPDATES: usize = 512;

/// Yields what an agent tells, in order. Dropped, it ends the reading.
pub struct Heard {
    updates: mpsc::Receiver<(Update, OwnedSemaphorePermit)>,
    reading: AbortHandle,
}

impl Heard {
    pub(crate) fn listen<R>(from: R, link: Arc<Link>, limits: Limits) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
    {
        let (told, updates) = mpsc::channel(UPDATES);
        let reading = tokio::spawn(reading::read(from, Reading::new(link, told, limits)));
        Self { updates, reading: reading.abort_handle() }
    }

    /// The next update; nothing when the stream has ended.
    pub async fn next(&mut self) -> Option<Update> {
        self.updates.recv().await.map(|(update, _room)| update)
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.reading.abort();
    }
}
