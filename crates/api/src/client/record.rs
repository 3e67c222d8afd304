//! Policies, the ledger, and copies of everything.

use std::io::Read;

use super::{Called, Client, NOTHING, part, query};
use crate::*;

/// Which entries to search for.
#[derive(Clone, Debug, Default)]
pub struct LedgerFilter {
    /// The user who acted.
    pub user: Option<String>,
    /// The action.
    pub action: Option<String>,
    /// The resource.
    pub resource: Option<String>,
    /// The decision.
    pub decision: Option<String>,
    /// From this time on.
    pub since: Option<i64>,
    /// Before this time.
    pub until: Option<i64>,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// How many.
    pub limit: Option<u32>,
}

/// Policies, ledger, backup.
impl Client {
    /// Every policy in force.
    pub fn policies(&self) -> Called<PolicyList> {
        self.call("GET", "/api/v1/policies", NOTHING)
    }

    /// Adds a `forbid` policy.
    pub fn add_policy(&self, id: &str, text: &str) -> Called<()> {
        let body = AddPolicyRequest { id: id.to_owned(), text: text.to_owned() };
        self.call("POST", "/api/v1/policies", Some(&body))
    }

    /// Removes an added policy.
    pub fn remove_policy(&self, id: &str) -> Called<()> {
        self.call("DELETE", &format!("/api/v1/policies/{}", part(id)), NOTHING)
    }

    /// Asks what the gate would say.
    pub fn try_policy(&self, body: &TryPolicyRequest) -> Called<PolicyAnswer> {
        self.call("POST", "/api/v1/policies/try", Some(body))
    }

    /// Searches the ledger.
    pub fn ledger(&self, filter: &LedgerFilter) -> Called<LedgerPage> {
        let query = query(&[
            ("user", filter.user.clone()),
            ("action", filter.action.clone()),
            ("resource", filter.resource.clone()),
            ("decision", filter.decision.clone()),
            ("since", filter.since.map(|n| n.to_string())),
            ("until", filter.until.map(|n| n.to_string())),
            ("after", filter.after.clone()),
            ("limit", filter.limit.map(|n| n.to_string())),
        ]);
        self.call("GET", &format!("/api/v1/ledger{query}"), NOTHING)
    }

    /// Checks the ledger.
    pub fn verify_ledger(&self) -> Called<LedgerReport> {
        self.call("POST", "/api/v1/ledger/verify", NOTHING)
    }

    /// What a verifier elsewhere trusts.
    pub fn ledger_trust(&self) -> Called<LedgerTrust> {
        self.call("GET", "/api/v1/ledger/trust", NOTHING)
    }

    /// Some entries of the ledger as a bundle: those that name an id, and those in a range of numbers.
    pub fn export_bundle(
        &self,
        about: Option<&str>,
        from: Option<u64>,
        to: Option<u64>,
    ) -> Called<impl Read + use<>> {
        let query = query(&[
            ("as", Some("bundle".to_owned())),
            ("about", about.map(str::to_owned)),
            ("from", from.map(|n| n.to_string())),
            ("to", to.map(|n| n.to_string())),
        ]);
        self.stream("GET", &format!("/api/v1/ledger/export{query}"))
    }

    /// Every line of the ledger's files.
    pub fn export_ledger(&self) -> Called<impl Read + use<>> {
        self.stream("GET", "/api/v1/ledger/export")
    }

    /// A sealed copy of everything.
    pub fn backup(&self) -> Called<impl Read + use<>> {
        self.stream("POST", "/api/v1/backup")
    }
}
