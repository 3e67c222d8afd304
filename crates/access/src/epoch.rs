//! A number that grows whenever rights may have changed, so that nothing remembered outlives its truth.

use tokio::sync::watch;

/// The access epoch of this daemon.
#[derive(Debug)]
pub struct Epoch(watch::Sender<u64>);

impl Default for Epoch {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Epoch {
    /// The present number.
    #[must_use]
    pub fn now(&self) -> u64 {
        *self.0.borrow()
    }

    /// Says that rights may have changed: everything remembered is asked again.
    pub fn bump(&self) {
        self.0.send_modify(|epoch| *epoch += 1);
    }

    /// Wakes whenever the number grows; long acts and live connections watch it.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}
