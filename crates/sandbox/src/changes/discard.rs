//! Drops a layer, whatever a run left in it.
//!
//! Invariant: what applying saved stays, so an undo is possible afterwards, unless the person wants it forgotten.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use super::copy;
use super::folder::{Kept, RunError};
use super::names::escaped;
use super::read::ReadError;
use super::record::State;
use super::tree::Root;
use super::undo::UndoError;

/// Why a layer is still there.
#[derive(Debug, thiserror::Error)]
pub enum DiscardError {
    /// The run cannot be used.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An apply was cut off and cannot be taken back.
    #[error("an apply that was cut off cannot be taken back: {0}; the layer was kept")]
    Torn(#[source] Box<UndoError>),
    /// Something cannot be removed.
    #[error("`{name}`: {1}; the same command tries again", name = escaped(.0))]
    File(PathBuf, #[source] io::Error),
}

impl Kept {
    /// Removes the layer; says whether an apply that was cut off had to be rolled back first.
    ///
    /// # Errors
    /// When something could not be removed.
    pub fn discard(&mut self) -> Result<bool, DiscardError> {
        let rolled_back = match self.worktree() {
            Ok(host) => self.mend(&host).map_err(|error| DiscardError::Torn(Box::new(error)))?,
            // Without the worktree there is nothing to roll back into.
            Err(ReadError::NoLayer | ReadError::NoWorktree(_) | ReadError::File(..)) => false,
        };
        self.remove("worktree")?;
        self.set(State::Discarded)?;
        Ok(rolled_back)
    }

    /// Removes the layer and everything else that is kept of the run: nothing can be undone afterwards.
    ///
    /// # Errors
    /// When something could not be removed.
    pub fn forget(mut self) -> Result<bool, DiscardError> {
        let rolled_back = self.discard()?;
        for name in ["applies", "known", "run.json", "lock"] {
            self.remove(name)?;
        }
        // What others keep in the folder stays, and the folder with it.
        let _ = rustix::fs::rmdir(&self.folder);
        Ok(rolled_back)
    }

    fn remove(&self, name: &str) -> Result<(), DiscardError> {
        let failed = |error| DiscardError::File(self.folder.join(name), error);
        let folder = Root::open(&self.folder).map_err(failed)?;
        copy::remove(folder.fd(), OsStr::new(name)).map_err(failed)
    }
}
