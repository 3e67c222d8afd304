//! Tickets for sockets: single use, short-lived, bound to the principal that asked for one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use model::Millis;

use crate::Principal;

const MOST: usize = 10_000;

/// Tickets that were handed out and not used yet. They live in memory: a restart voids them.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Mutex<HashMap<String, (Principal, Millis)>>);

impl Tickets {
    pub(crate) fn keep(&self, digest: String, who: Principal, expires: Millis, now: Millis) -> bool {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, (_, until)| *until > now);
        if open.len() >= MOST {
            return false;
        }
        open.insert(digest, (who, expires));
        true
    }

    pub(crate) fn take(&self, digest: &str, now: Millis) -> Option<Principal> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(digest).filter(|(_, until)| *until > now).map(|(who, _)| who)
    }
}
