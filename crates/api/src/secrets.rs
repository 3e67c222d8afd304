//! Secrets. Nothing here carries a value back.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Hidden;

/// What is told of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretAbout {
    /// Its name.
    pub name: String,
    /// user, worktree, daemon or environment.
    pub source: String,
    /// Whose: `usr_…`, `wt_…`, `daemon`, or `environment`.
    pub owner: String,
    /// Whether it is the one that counts among those of its name; absent in the list of one owner.
    pub effective: Option<bool>,
    /// `sec_…`; absent for what the environment gives.
    pub id: Option<String>,
    /// Where it may be sent.
    pub hosts: Vec<String>,
    /// Who added it.
    pub created_by: Option<String>,
    /// Milliseconds since the epoch.
    pub created_at: Option<i64>,
    /// When it ends; milliseconds since the epoch.
    pub expires: Option<i64>,
    /// Whether that is over.
    pub expired: bool,
    /// When it was last lent; milliseconds since the epoch.
    pub used_at: Option<i64>,
    /// When it was just added and cannot be masked where it appears: why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Secrets, by name; of one name the one that counts first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SecretList {
    /// The secrets.
    pub items: Vec<SecretAbout>,
}

/// Keeps a secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddSecretRequest {
    /// As a program finds it in its environment.
    #[schema(min_length = 1, max_length = 128, pattern = r#"^[A-Za-z_][A-Za-z0-9_]*$"#)]
    pub name: String,
    /// The value; it is told to nobody again.
    #[schema(value_type = String, min_length = 1, max_length = 65536, pattern = r#"^[^\u0000]+$"#)]
    pub value: Hidden,
    /// `daemon`, a user or a worktree; the caller unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r#"^(?:daemon|usr_[0-9a-f]{32}|wt_[0-9a-f]{32})$"#)]
    pub owner: Option<String>,
    /// Hosts that it may be sent to, like `api.example.org` or `*.example.org`.
    #[serde(default)]
    #[schema(max_items = 32)]
    pub hosts: Vec<String>,
    /// When it ends; milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
    /// Replace the one of this name, if there is one.
    #[serde(default)]
    pub replace: bool,
}

/// How the names of lines begin that runs listen on: sockets without a file, which are reached from the network namespace
/// that they were made in and from nowhere else, so from no sandbox.
pub const LINE: &str = "palisade.lend.";

/// Lends a secret to a run of the user that the daemon runs as, on the same machine.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LendSecretRequest {
    /// Its name; which of those with this name counts is as everywhere.
    #[schema(min_length = 1, max_length = 128, pattern = r#"^[A-Za-z_][A-Za-z0-9_]*$"#)]
    pub name: String,
    /// The worktree in which it counts, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r#"^wt_[0-9a-f]{32}$"#)]
    pub worktree: Option<String>,
    /// The hosts that the run will send it to, each by its name; it is lent only if it may go to all of them.
    #[schema(min_items = 1, max_items = 32)]
    pub hosts: Vec<String>,
    /// The run that borrows it.
    #[schema(pattern = r#"^run_[0-9a-f]{32}$"#)]
    pub run: String,
    /// Names the line that the run listens on: the value goes there and nowhere else, as four bytes that say how long it is,
    /// the first one the highest, and then itself. As long as the line is open, it is lent.
    #[schema(pattern = r#"^[0-9a-f]{32}$"#)]
    pub line: String,
    /// How long the run may last; a day at most, and a day unless told.
    #[serde(default, deserialize_with = "crate::whole", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 86400)]
    pub seconds: Option<u32>,
}

/// What was lent; the value is not in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LentSecret {
    /// user, worktree, daemon or environment.
    pub source: String,
    /// When that ends by itself; milliseconds since the epoch.
    pub until: i64,
}

/// Goes on with a rotation of the keys, or begins one.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateRequest {
    /// Only go on with one that was begun.
    #[serde(default)]
    pub resume: bool,
    /// A file on the daemon's machine that holds the new master key, where the daemon cannot replace the present one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 4096, pattern = r#"^/[^\u0000]*$"#)]
    pub new_key_file: Option<String>,
}

/// How far a rotation came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RotationStep {
    /// The epoch that values are carried over to.
    pub epoch: u32,
    /// Names the master key that opens them.
    pub key: String,
    /// Whether this call began it.
    pub begun: bool,
    /// Values carried over by this call.
    pub done: u64,
    /// Values that wait.
    pub left: u64,
    /// Documents and contents of the registry that could not be opened so far: they are left as they are, and mended by registering
    /// the same again.
    #[serde(default)]
    pub damaged: u64,
    /// The first of them, by name.
    #[serde(default)]
    pub damaged_first: Vec<String>,
    /// Whether the earlier keys are gone.
    pub finished: bool,
    /// Whether an earlier master key derives nothing any more; false where the first one is the root of the others.
    pub own_root: bool,
    /// Whether this call began it with the passphrase of before: only the salt is new, and whoever knows the passphrase
    /// opens the keys as before.
    pub same_passphrase: bool,
}
