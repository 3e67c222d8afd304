//! People, keys and Passes.

use super::{Called, Client, NOTHING, part, query};
use crate::*;

/// People, keys and Passes.
impl Client {
    /// Lists users.
    pub fn users(&self, prefix: Option<&str>, after: Option<&str>, limit: Option<u32>) -> Called<UserPage> {
        let query = query(&[
            ("prefix", prefix.map(str::to_owned)),
            ("after", after.map(str::to_owned)),
            ("limit", limit.map(|n| n.to_string())),
        ]);
        self.call("GET", &format!("/api/v1/users{query}"), NOTHING)
    }

    /// Creates a user.
    pub fn create_user(&self, body: &CreateUserRequest) -> Called<User> {
        self.call("POST", "/api/v1/users", Some(body))
    }

    /// One user.
    pub fn user(&self, id: &str) -> Called<User> {
        self.call("GET", &format!("/api/v1/users/{}", part(id)), NOTHING)
    }

    /// Changes a user.
    pub fn update_user(&self, id: &str, body: &UpdateUserRequest) -> Called<User> {
        self.call("PATCH", &format!("/api/v1/users/{}", part(id)), Some(body))
    }

    /// Deletes a user.
    pub fn delete_user(&self, id: &str) -> Called<()> {
        self.call("DELETE", &format!("/api/v1/users/{}", part(id)), NOTHING)
    }

    /// Disables a user.
    pub fn disable_user(&self, id: &str) -> Called<()> {
        self.call("POST", &format!("/api/v1/users/{}/disable", part(id)), NOTHING)
    }

    /// Sets another user's password.
    pub fn reset_password(&self, id: &str, password: &str) -> Called<()> {
        let body = ResetPasswordRequest { password: Hidden(password.to_owned()) };
        self.call("POST", &format!("/api/v1/users/{}/password", part(id)), Some(&body))
    }

    /// Signs a user out everywhere.
    pub fn sign_out_user(&self, id: &str) -> Called<()> {
        self.call("POST", &format!("/api/v1/users/{}/sign-out", part(id)), NOTHING)
    }

    /// Lists a user's keys.
    pub fn keys(&self, user: &str, after: Option<&str>) -> Called<ApiKeyPage> {
        let query = query(&[("after", after.map(str::to_owned))]);
        self.call("GET", &format!("/api/v1/users/{}/keys{query}", part(user)), NOTHING)
    }

    /// Makes a key.
    pub fn create_key(&self, body: &CreateKeyRequest) -> Called<NewApiKey> {
        self.call("POST", "/api/v1/keys", Some(body))
    }

    /// Shows a code with which another device gets such a key.
    pub fn offer_pairing(&self, body: &CreateKeyRequest) -> Called<PairingOffer> {
        self.call("POST", "/api/v1/pairings", Some(body))
    }

    /// Revokes a key.
    pub fn revoke_key(&self, id: &str) -> Called<()> {
        self.call("DELETE", &format!("/api/v1/keys/{}", part(id)), NOTHING)
    }

    /// Lists a user's Passes.
    pub fn passes(&self, user: &str, after: Option<&str>) -> Called<PassPage> {
        let query = query(&[("after", after.map(str::to_owned))]);
        self.call("GET", &format!("/api/v1/users/{}/passes{query}", part(user)), NOTHING)
    }

    /// Mints a Pass.
    pub fn mint_pass(&self, body: &MintPassRequest) -> Called<NewPass> {
        self.call("POST", "/api/v1/passes", Some(body))
    }

    /// Revokes a Pass and everything made from it.
    pub fn revoke_pass(&self, id: &str) -> Called<Revoked> {
        self.call("DELETE", &format!("/api/v1/passes/{}", part(id)), NOTHING)
    }
}
