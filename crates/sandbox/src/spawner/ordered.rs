//! Sandboxes that were ordered and do not stand yet.
//!
//! Many are built at the same time, each by its own process: the spawner waits for none of them in particular.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::prepared::Shape;
use crate::begun::Filled;
use crate::launch::{LONGEST, LaunchError, comes, ready};
use crate::plan::Plan;
use crate::receipt::RunId;

/// One of them.
pub(super) struct Ordered {
    pub(super) run: RunId,
    pub(super) shape: Shape,
    pub(super) plan: Plan,
    pub(super) standing: Filled,
    /// What its command will have as standard input, output and error.
    pub(super) standard: [OwnedFd; 3],
    pub(super) since: Instant,
}

impl Ordered {
    /// How long it still may take.
    pub(super) fn left(&self, now: Instant) -> Duration {
        (self.since + LONGEST).saturating_duration_since(now)
    }

    /// What is heard of it now.
    ///
    /// # Errors
    /// When a layer could not be made, or it takes too long.
    pub(super) fn arrived(&self) -> Result<(), LaunchError> {
        match comes(self.standing.line.as_fd(), Duration::ZERO) {
            Ok(true) => ready(&self.standing.line).map(drop),
            Ok(false) => Err(LaunchError::Late),
            Err(error) => Err(LaunchError::Line(error)),
        }
    }
}
