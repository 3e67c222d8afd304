//! Secrets.

use super::{Called, Client, NOTHING, part, query};
use crate::*;

/// Secrets.
impl Client {
    /// Lists the secrets of an owner, or all that could count for the caller, perhaps in a worktree.
    pub fn secrets(&self, owner: Option<&str>, worktree: Option<&str>) -> Called<SecretList> {
        let query = query(&[("owner", owner.map(str::to_owned)), ("worktree", worktree.map(str::to_owned))]);
        self.call("GET", &format!("/api/v1/secrets{query}"), NOTHING)
    }

    /// Keeps a secret.
    pub fn add_secret(&self, body: &AddSecretRequest) -> Called<SecretAbout> {
        self.call("POST", "/api/v1/secrets", Some(body))
    }

    /// Removes a secret.
    pub fn remove_secret(&self, owner: &str, name: &str) -> Called<()> {
        self.call("DELETE", &format!("/api/v1/secrets/{}/{}", part(owner), part(name)), NOTHING)
    }

    /// Has a secret sent to a run, on the line that the run listens on.
    pub fn lend_secret(&self, body: &LendSecretRequest) -> Called<LentSecret> {
        self.call("POST", "/api/v1/secrets/lend", Some(body))
    }

    /// Does one step of a rotation of the keys.
    pub fn rotate_keys(&self, body: &RotateRequest) -> Called<RotationStep> {
        self.call("POST", "/api/v1/secrets/rotation", Some(body))
    }
}
