//! The ledger: search, and what a check of it found.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An entry, as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LedgerEntry {
    /// Its place in the chain.
    pub seq: u64,
    /// Milliseconds since the epoch.
    pub at: i64,
    /// Who.
    pub who: String,
    /// What.
    pub action: String,
    /// On what.
    pub resource: String,
    /// allowed, refused, done, failed or noted.
    pub decision: String,
    /// The stored line itself, with its hash.
    pub line: String,
}

/// A page of entries, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LedgerPage {
    /// The entries.
    pub items: Vec<LedgerEntry>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// What a check of the ledger found.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LedgerReport {
    /// intact, tampered or unverifiable.
    pub verdict: String,
    /// tamper-evident, tamper-detecting or none.
    pub claim: String,
    /// How many entries there are.
    pub entries: u64,
    /// How many signed checkpoints there are.
    pub checkpoints: u64,
    /// What is wrong, each with its place.
    pub findings: Vec<String>,
}

/// What a verifier needs from outside: the public key of the checkpoints.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LedgerTrust {
    /// The text of a trust file for `palisade-verify --trust`.
    pub trust: String,
}
