//! Keeps which entries were opened and not yet closed.
//!
//! Invariant: never more than [`MAX_OPEN`]; beyond that, an act that would open another is refused, so that a
//! checkpoint can always name all of them and recovery can always close them.

use std::collections::BTreeSet;

/// The most entries open at a time.
pub(crate) const MAX_OPEN: usize = 4096;

/// The entries that wait to be closed.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenEntries(BTreeSet<u64>);

impl OpenEntries {
    pub(crate) fn from_list(list: &[u64]) -> Self {
        Self(list.iter().copied().take(MAX_OPEN).collect())
    }

    /// Whether `more` can be opened besides those that are.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.0.len().saturating_add(more) < MAX_OPEN
    }

    /// Takes note of what one entry opens and closes.
    pub(crate) fn note(&mut self, seq: u64, opens: bool, closes: Option<u64>) {
        if let Some(closed) = closes {
            self.0.remove(&closed);
        }
        if opens && self.0.len() < MAX_OPEN {
            self.0.insert(seq);
        }
    }

    pub(crate) fn contains(&self, seq: u64) -> bool {
        self.0.contains(&seq)
    }

    pub(crate) fn list(&self) -> Vec<u64> {
        self.0.iter().copied().collect()
    }

    pub(crate) fn first(&self) -> Option<u64> {
        self.0.first().copied()
    }
}
