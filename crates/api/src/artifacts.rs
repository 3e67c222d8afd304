//! What people register for workers: capabilities, subagents and envs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Hidden;

/// The body of a capability that has files: the request as one line of JSON, then the bytes of its files, one after the
/// other in their order, with nothing between.
pub const CAPABILITY_TYPE: &str = "application/vnd.palisade.capability";

/// A file of a capability, whose bytes follow the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CapabilityFile {
    /// Where it is laid out, beneath a directory, parted by `/`.
    #[schema(min_length = 1, max_length = 1024)]
    pub path: String,
    /// How many bytes it has.
    #[schema(minimum = 0, maximum = 52428800)]
    pub bytes: u64,
    /// Whether it can be run.
    #[serde(default)]
    pub executable: bool,
}

/// Registers a capability.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterCapabilityRequest {
    /// The name that will stand for it.
    #[schema(min_length = 1, max_length = 80, pattern = r#"^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$"#)]
    pub name: String,
    /// `about`, `tools`, `mcp`, `setup`, `notifications`.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub document: serde_json::Map<String, serde_json::Value>,
    /// Its files, in the order in which their bytes follow; none where the body is JSON alone.
    #[serde(default)]
    #[schema(max_items = 4096)]
    pub files: Vec<CapabilityFile>,
    /// What looks like a credential is none; this is on the ledger.
    #[serde(default)]
    pub accept_credentials: bool,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// Registers a subagent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterSubagentRequest {
    /// The name that will stand for it.
    #[schema(min_length = 1, max_length = 80, pattern = r#"^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$"#)]
    pub name: String,
    /// `systemPrompt` or `template`, `agent`, `model`, `capabilities`, `verify`, `needs`, `target`, `workerImage`, `allow`.
    #[schema(value_type = Object)]
    pub document: serde_json::Map<String, serde_json::Value>,
    /// What looks like a credential is none; this is on the ledger.
    #[serde(default)]
    pub accept_credentials: bool,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// In a dry run: capabilities that would be registered before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 4096)]
    pub planned: Vec<String>,
}

/// A secret that comes along with an env, for the vault.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvSecret {
    /// The value; it is told to nobody again.
    #[schema(value_type = String, min_length = 1, max_length = 65536)]
    pub value: Hidden,
    /// How long it lasts. Where the same value is kept already, this can only bring its end nearer.
    #[serde(default, rename = "ttlSeconds", skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<i64>,
    /// Where the same value is kept already, it lasts from now on as long as is said here, or without an end.
    #[serde(default)]
    pub renew: bool,
}

/// Registers an env.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterEnvRequest {
    /// The name that will stand for it.
    #[schema(min_length = 1, max_length = 80, pattern = r#"^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$"#)]
    pub name: String,
    /// `about`, `values` (variables and their text), `secrets` (variables and names of secrets).
    #[schema(value_type = Object)]
    pub document: serde_json::Map<String, serde_json::Value>,
    /// Variables whose values go into the vault.
    #[serde(default)]
    pub inline: BTreeMap<String, EnvSecret>,
    /// What looks like a credential is none; this is on the ledger.
    #[serde(default)]
    pub accept_credentials: bool,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// What registering or assigning did, or would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactOutcome {
    /// capability, subagent or env.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The version that it stands for now: `sha256:…`.
    pub hash: String,
    /// Bytes of its files.
    pub bytes: i64,
    /// The version that it stood for before.
    pub before: Option<String>,
    /// Whether the name stands for another version than before.
    pub changed: bool,
    /// Whether nothing was kept.
    pub dry_run: bool,
}

/// A name, and the version that it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamedArtifact {
    /// The name.
    pub name: String,
    /// The version: `sha256:…`.
    pub hash: String,
    /// When the version was registered; milliseconds since the epoch.
    pub registered_at: i64,
    /// When it was taken out of use; milliseconds since the epoch.
    pub revoked_at: Option<i64>,
}

/// One page of names.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ArtifactPage {
    /// The names.
    pub items: Vec<NamedArtifact>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// One version.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Artifact {
    /// capability, subagent or env.
    pub kind: String,
    /// The version: `sha256:…`.
    pub hash: String,
    /// The names that stand for it.
    pub names: Vec<String>,
    /// Bytes of its files.
    pub bytes: i64,
    /// Who registered it.
    pub registered_by: String,
    /// When; milliseconds since the epoch.
    pub registered_at: i64,
    /// When it was taken out of use; milliseconds since the epoch.
    pub revoked_at: Option<i64>,
    /// What it says, in its normal form. Absent where only a change is told.
    #[schema(value_type = Option<Object>)]
    pub document: Option<serde_json::Value>,
}

/// What happened to a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactChange {
    /// The version: `sha256:…`.
    pub hash: String,
    /// register, assign or revoke.
    pub change: String,
    /// Who.
    pub by: String,
    /// When; milliseconds since the epoch.
    pub at: i64,
}

/// What happened to a name, the newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ArtifactHistory {
    /// The changes.
    pub items: Vec<ArtifactChange>,
}

/// Lets a name stand for another version.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AssignArtifactRequest {
    /// A version (`sha256:…`), or a name that stands for it now.
    #[schema(pattern = r#"^(?:sha256:[0-9a-f]{64}|[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?)$"#)]
    pub to: String,
}
