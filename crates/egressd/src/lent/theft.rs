//! Decoys on their way out, and words in names.

use std::sync::{Arc, PoisonError};

use egress::control::Loan;
use egress::http1::Request;
use rules::Host;

use super::{Astray, Lent};

impl Lent {
    /// These in the place of what is lent. A request that began before may still find a decoy, so both remember it at one
    /// place.
    pub(crate) fn replaced(&self, loans: Vec<Loan>) -> Self {
        Self { stolen: Arc::clone(&self.stolen), ..Self::new(loans) }
    }

    /// A decoy that was on its way out, and of which nobody was told yet.
    pub(crate) fn stolen(&self) -> Option<String> {
        self.stolen.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Remembers it until it is told.
    pub(super) fn theft(&self, name: &str, place: &'static str) -> Astray {
        *self.stolen.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.to_owned());
        Astray { name: name.to_owned(), place }
    }

    /// What a name that is asked for carries.
    pub(crate) fn in_name(&self, host: &Host) -> Option<Astray> {
        let text = host.to_string();
        if let Some(name) = self.decoys.within(text.as_bytes()) {
            return Some(self.theft(name, "name of the host"));
        }
        let word = self.words.all(text.as_bytes()).next();
        word.map(|(_, whose, _)| self.astray(whose, "name of the host"))
    }

    /// A decoy in the head of a request, whatever becomes of it.
    pub(crate) fn decoy_in(&self, request: &Request) -> Option<Astray> {
        let address = request.target.resource().map(|resource| resource.as_str().as_bytes());
        let found = address.and_then(|address| self.decoys.within(address)).or_else(|| {
            request.fields.iter().find_map(|(name, value)| {
                self.decoys.within(name.as_bytes()).or_else(|| self.decoys.within(value))
            })
        });
        found.map(|name| self.theft(name, "head"))
    }
}
