//! What the daemon asks of its store for its own care: whether it works, whether there is room, whether it is still
//! held. Nobody acts here and no row is told, so no permit is spent.

use crate::Store;
use crate::engine::{EngineError, Hold, Kind};

impl Store {
    /// Which engine it runs on.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.engine.kind()
    }

    /// Says whether the store can be read and written, by doing both; `Full` when only reads work.
    pub async fn ping(&self) -> Result<(), EngineError> {
        self.engine.ping().await
    }

    /// Looks whether the store is still held, and takes it again if the hold was lost.
    pub async fn keep_hold(&self) -> Result<Hold, EngineError> {
        self.engine.keep_hold().await
    }

    /// Lets changes begin again after the hold was taken again, because what was found is ours.
    pub fn confirm_hold(&self) {
        self.engine.confirm_hold();
    }

    /// Whether there is so little room that only acts which narrow should be written.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        self.engine.is_tight()
    }

    /// Whether room that was kept back was given to acts which narrow: whatever can wait leaves it to them.
    #[must_use]
    pub fn is_rationed(&self) -> bool {
        self.engine.is_rationed()
    }

    /// Makes sure that an act which narrows can be written, if need be with room that was kept back for it.
    pub fn make_room(&self) {
        self.engine.make_room();
    }

    /// Keeps room back again, as soon as there is enough.
    pub fn restock(&self) {
        self.engine.restock();
    }
}
