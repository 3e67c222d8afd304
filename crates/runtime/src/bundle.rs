//! Turns a choice of ledger entries into a signed bundle, with the documents that belong to them.
//!
//! Attached today: the policies in force, and what the Passes that the entries name were granted; each only if
//! the caller may read it anyway, and as it is now, which the verifier calls the signer's word. What an entry
//! names by its hash (`input:sha256:…`) is as firm as the entry; whoever writes such entries attaches it here.
//!
//! Invariant: a bundle leaves only after an entry says who took it. Not here: the format (`ledger`).

use std::collections::{BTreeMap, BTreeSet};

use ::ledger::{Bundle, Decision, Draft, Entry, Input, InputKind, Selected, Selection};
use access::{ListPasses, Principal, ReadPolicies, ReadWholeLedger, Resource};
use model::{PassId, UserId};
use redact::Redactor;
use store::PassRow;
use tokio::sync::Semaphore;

use crate::{ActError, LedgerError, Runtime};

/// One at a time: each holds its entries in memory.
static TURN: Semaphore = Semaphore::const_new(1);
/// The most users whose Passes are looked up, and the most Passes of each.
const MOST_USERS: usize = 100;
const MOST_PASSES: i64 = 1_000;

impl Runtime {
    /// Some entries, with what proves them and what belongs to them.
    pub async fn ledger_bundle(&self, who: &Principal, selection: Selection) -> Result<Bundle, LedgerError> {
        let permit = self.look(who, ReadWholeLedger {}).await?;
        let _turn = TURN.try_acquire().map_err(|_| LedgerError::Busy)?;
        let about = selection.about.clone();
        let mut selected = self.ledger.select(permit, selection).await?;
        self.attach_policies(who, &mut selected).await?;
        self.attach_grants(who, &mut selected).await?;
        let bundle = self.ledger.seal(selected, self.clock.now()).await?;
        let note = Draft::new(who.label(), "ledger.read_all", Decision::Noted)
            .on(Resource::Installation.to_string())
            .because("taken as a bundle")
            .with("about", about.unwrap_or_default())
            .with("entries", bundle.entries.to_string())
            .with("manifest", bundle.sha256.clone());
        if let Err(error) = self.ledger.note(note).await? {
            tracing::error!(%error, "a bundle could not be recorded and was not given out");
            return Err(LedgerError::Unrecorded);
        }
        Ok(bundle)
    }

    async fn attach_policies(&self, who: &Principal, selected: &mut Selected) -> Result<(), LedgerError> {
        if !self.may(who, "policy.read", Resource::Installation).await {
            return Ok(());
        }
        let permit = self.look(who, ReadPolicies {}).await?;
        let policies: Vec<_> = self
            .gate
            .list_policies(permit)
            .into_iter()
            .map(|(id, forbids, text)| serde_json::json!({ "id": id, "forbids": forbids, "text": text }))
            .collect();
        let decides = |entry: &&Entry| matches!(entry.decision, Decision::Allowed | Decision::Refused);
        let entries = selected.entries().filter(decides).map(|entry| entry.seq).collect();
        let bytes = document(&self.redactor, &serde_json::Value::Array(policies));
        Ok(selected.attach(Input {
            name: "policies.json".into(),
            kind: InputKind::Policies,
            bytes,
            entries,
        })?)
    }

    /// What each Pass that an entry names was granted.
    async fn attach_grants(&self, who: &Principal, selected: &mut Selected) -> Result<(), LedgerError> {
        let mut named: BTreeMap<PassId, Vec<u64>> = BTreeMap::new();
        let mut users: BTreeSet<UserId> = BTreeSet::new();
        for entry in selected.entries() {
            let passes: BTreeSet<PassId> = entry
                .who
                .split('/')
                .chain([entry.resource.as_str()])
                .filter_map(|id| id.parse().ok())
                .collect();
            for pass in passes {
                named.entry(pass).or_default().push(entry.seq);
                users.extend(entry.who.split('/').next().and_then(|id| id.parse::<UserId>().ok()));
            }
        }
        for user in users.into_iter().take(MOST_USERS) {
            if !self.may(who, "pass.list", Resource::User(user)).await {
                continue;
            }
            let permit = self.look(who, ListPasses { user }).await?;
            let rows = self.store.list_passes(permit, None, MOST_PASSES).await.map_err(ActError::from)?;
            for row in rows {
                if let Some(entries) = named.remove(&row.id) {
                    let (name, bytes) =
                        (format!("{}.json", row.id), document(&self.redactor, &granted(&row)));
                    selected.attach(Input { name, kind: InputKind::Grant, bytes, entries })?;
                }
            }
        }
        Ok(())
    }

    async fn may(&self, who: &Principal, action: &str, resource: Resource) -> bool {
        match access::action_named(action) {
            Some(action) => self.gate.would_allow(who, action, resource).await,
            None => false,
        }
    }
}

fn granted(row: &PassRow) -> serde_json::Value {
    serde_json::json!({
        "pass": row.id.to_string(),
        "user": row.user.to_string(),
        "parent": row.parent.map(|parent| parent.to_string()),
        "grant": row.grant,
        "created_at": row.created_at,
        "expires": row.expires,
        "revoked_at": row.revoked_at,
    })
}

/// What leaves passes the redactor, also here.
fn document(redactor: &Redactor, value: &serde_json::Value) -> Vec<u8> {
    let text = format!("{value:#}\n");
    redactor.scrub(&text).into_owned().into_bytes()
}
