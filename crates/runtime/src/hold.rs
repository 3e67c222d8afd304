//! Watches that the database stays this daemon's own.
//!
//! Rights are remembered per daemon, so two on one database would each miss what the other revokes. The lock that
//! prevents it lives on a connection that can be lost. Invariant: while it is lost nothing is written, and nothing
//! remembered is used for longer than one look.

use std::sync::Arc;
use std::time::{Duration, Instant};

use store::engine::{Hold, Kind};
use tokio::sync::watch;

use crate::Runtime;

/// How often the hold is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// The server may let go of our own lost connection a little after we noticed.
const GRACE: Duration = Duration::from_secs(1);

/// Another daemon has the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the connection that held the database was lost and another daemon uses the database now; rights are remembered \
     per daemon, so this one ends"
)]
pub struct HoldLost;

impl Runtime {
    /// Watches the hold on the database until told to stop; ends early if it is lost for good.
    pub async fn watch_hold(self: Arc<Self>, mut stop: watch::Receiver<bool>) -> Result<(), HoldLost> {
        if self.store.kind() == Kind::Sqlite {
            // The data directory's own lock does it.
            drop(stop.wait_for(|stop| *stop).await);
            return Ok(());
        }
        let (mut lost, mut taken) = (false, None::<Instant>);
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            }
            match self.store.keep_hold().await {
                Ok(Hold::Kept) => continue,
                Ok(Hold::Retaken) => {
                    tracing::warn!(
                        "the connection that held the database was lost; the database is held again"
                    );
                    (lost, taken) = (false, None);
                }
                Ok(Hold::Taken) => {
                    if taken.get_or_insert_with(Instant::now).elapsed() > GRACE {
                        return Err(HoldLost);
                    }
                }
                Err(error) => {
                    if !lost {
                        tracing::error!(%error, "the database is not held; nothing is written until it is again");
                    }
                    lost = true;
                }
            }
            // Somebody else may have changed rights meanwhile.
            self.gate.epoch().bump();
        }
    }
}
