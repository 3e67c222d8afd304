//! How the daemon is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How the daemon is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Its version.
    pub version: String,
    /// solo or team.
    pub mode: String,
    /// Whether worktrees are divided by owners and tiers.
    pub worktree_rbac: bool,
    /// sqlite or postgres.
    pub store: String,
    /// Names the master key without telling it.
    pub key: String,
    /// Which keys secrets are sealed under; it grows by one with each rotation.
    #[serde(default)]
    pub key_epoch: u32,
    /// Whether a rotation was begun and is not finished.
    #[serde(default)]
    pub key_rotating: bool,
    /// The last ledger entry.
    pub ledger_head: u64,
    /// What the daemon's last check of the whole ledger found: intact, tampered, unverifiable, or unchecked.
    pub ledger: String,
    /// Milliseconds since the epoch.
    pub started_at: i64,
    /// Settings that weaken the daemon, each set by an administrator.
    pub degraded: Vec<String>,
}

/// One thing that readiness depends on.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// store, ledger, keys or policies.
    pub name: String,
    /// Whether it works.
    pub ok: bool,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// Whether the daemon can do its work.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// ok or unavailable.
    pub status: String,
    /// What was looked at.
    pub checks: Vec<Check>,
}
