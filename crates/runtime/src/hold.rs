//! Watches that the database stays this daemon's own.
//!
//! Rights are remembered per daemon, so two on one database would each miss what the other revokes. The lock that
//! prevents it lives on a connection that can be lost. Invariants: while it is lost nothing is written, and nothing
//! remembered is used for longer than one look; where another daemon changed the keys meanwhile, this one writes nothing
//! any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use store::StoreError;
use store::engine::{Hold, Kind};
use tokio::sync::watch;

use crate::Runtime;

/// How often the hold is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// The server may let go of our own lost connection a little after we noticed.
const GRACE: Duration = Duration::from_secs(1);

/// The database is not this daemon's any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HoldLost {
    /// Another daemon has it.
    #[error(
        "the connection that held the database was lost and another daemon uses the database now; rights are remembered \
         per daemon, so this one ends"
    )]
    Taken,
    /// Another daemon had it, and rotated the keys.
    #[error(
        "the keys in the database are not those that this daemon has: another daemon changed them, or a rotation whose end \
         was not seen; what it sealed now would be lost, so this one ends. Start it again with the present master key"
    )]
    OtherKeys,
}

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
                // Somebody may have changed them before the loss was noticed.
                Ok(_) if self.store.ring_changed() => return Err(HoldLost::OtherKeys),
                Ok(Hold::Kept) => continue,
                Ok(Hold::Retaken) => match self.own_keys().await {
                    Ok(true) => {
                        self.store.confirm_hold();
                        tracing::warn!(
                            "the connection that held the database was lost; the database is held again"
                        );
                        (lost, taken) = (false, None);
                    }
                    Ok(false) => return Err(HoldLost::OtherKeys),
                    Err(error) => {
                        tracing::error!(%error, "the keys in the database could not be looked at; nothing is written until they are");
                    }
                },
                Ok(Hold::Taken) => {
                    if taken.get_or_insert_with(Instant::now).elapsed() > GRACE {
                        return Err(HoldLost::Taken);
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

    /// Whether the keys in the database are still those that this daemon has.
    async fn own_keys(&self) -> Result<bool, StoreError> {
        // A rotation of our own is between the two only while it has this.
        let _sealing = self.sealing.read().await;
        self.keeper.is_kept(&self.store, &self.ring).await
    }
}
