//! The wire, version 1: what travels between a client and the daemon, and a typed client.
//!
//! Wire types are not domain types: ids and words are text here, and are parsed at the edge that receives
//! them. Requests are closed documents (an unknown field is refused); answers may grow.
//!
//! Not here: what anything means (`model`, `access`), HTTP routing (`server`).

mod artifacts;
mod auth;
mod budgets;
#[cfg(feature = "client")]
mod client;
mod events;
mod home;
mod ledger;
mod passes;
mod people;
mod places;
mod policies;
mod problem;
mod secrets;
mod sessions;
mod status;
mod worktrees;

pub use artifacts::*;
pub use auth::*;
pub use budgets::*;
#[cfg(feature = "client")]
pub use client::{Answer, Client, ClientError, Events, LedgerFilter, SessionFilter, Socket, WorktreeFilter};
pub use events::*;
pub use home::own_home;
pub use ledger::*;
pub use passes::*;
pub use people::*;
pub use places::Places;
pub use policies::*;
pub use problem::{Code, Problem};
pub use secrets::*;
pub use sessions::*;
pub use status::*;
pub use worktrees::*;

/// A whole number, also when it is written like `30.0`: to JSON Schema that is an integer.
pub(crate) fn whole<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    use serde::Deserialize;
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Plain(u32),
        Point(f64),
    }
    let fault = || serde::de::Error::custom("expected a whole number that is not negative");
    match Option::<Written>::deserialize(from).map_err(|_| fault())? {
        None => Ok(None),
        Some(Written::Plain(number)) => Ok(Some(number)),
        Some(Written::Point(number)) if (0.0..=1e9).contains(&number) && number.fract() == 0.0 => {
            format!("{number:.0}").parse().map(Some).map_err(|_| fault())
        }
        Some(Written::Point(_)) => Err(fault()),
    }
}

/// Text that is hidden in logs and `Debug`: passwords and tokens on the wire.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
#[schema(value_type = String)]
pub struct Hidden(pub String);

impl Hidden {
    /// The text, for whoever takes care of it from here on.
    #[must_use]
    pub fn into_text(mut self) -> String {
        std::mem::take(&mut self.0)
    }
}

/// Whoever holds it wipes it.
impl Drop for Hidden {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0);
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}
