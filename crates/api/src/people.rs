//! Users and their API keys.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Hidden;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// `usr_…`
    pub id: String,
    /// Address.
    pub email: String,
    /// How they are shown.
    pub name: String,
    /// viewer, member, admin or owner.
    pub role: String,
    /// Whether they may act.
    pub enabled: bool,
    /// Whether they use one-time passwords.
    pub totp: bool,
    /// Milliseconds since the epoch.
    pub created_at: i64,
}

/// A page of users.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct UserPage {
    /// The users.
    pub items: Vec<User>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// Who is calling.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    /// The user.
    pub user: User,
    /// login, key or pass.
    pub via: String,
    /// The widest scope of the credential.
    pub scope: String,
    /// When the credential ends; milliseconds since the epoch.
    pub expires: i64,
}

/// Creates a user, with a password or the bcrypt hash of one.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUserRequest {
    /// Address, unique.
    #[schema(
        max_length = 254,
        pattern = r#"^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~.]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$"#
    )]
    pub email: String,
    /// How they are shown.
    #[schema(
        min_length = 1,
        max_length = 80,
        pattern = r#"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"#
    )]
    pub name: String,
    /// viewer, member, admin or owner.
    #[schema(pattern = r#"^(?:viewer|member|admin|owner)$"#)]
    pub role: String,
    /// At least 12 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, min_length = 12, max_length = 1024)]
    pub password: Option<Hidden>,
    /// A bcrypt hash with cost 12 or more, from another system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bcrypt: Option<Hidden>,
}

/// Changes a user.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateUserRequest {
    /// New name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 80,
        pattern = r#"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"#
    )]
    pub name: Option<String>,
    /// New role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r#"^(?:viewer|member|admin|owner)$"#)]
    pub role: Option<String>,
    /// Enables (true) or disables (false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Sets another user's password.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetPasswordRequest {
    /// At least 12 characters.
    #[schema(value_type = String, min_length = 12, max_length = 1024)]
    pub password: Hidden,
}

/// An API key, without what it is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiKey {
    /// `key_…`
    pub id: String,
    /// Whose.
    pub user: String,
    /// What it is for.
    pub label: String,
    /// runs:read, runs:write, runs:manage or admin.
    pub scope: String,
    /// Milliseconds since the epoch.
    pub created_at: i64,
    /// Milliseconds since the epoch.
    pub expires: i64,
    /// When it was revoked.
    pub revoked_at: Option<i64>,
    /// When it was last used, to the minute.
    pub used_at: Option<i64>,
}

/// A page of keys.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ApiKeyPage {
    /// The keys.
    pub items: Vec<ApiKey>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// Makes an API key for the caller.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKeyRequest {
    /// What it is for.
    #[schema(
        min_length = 1,
        max_length = 80,
        pattern = r#"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"#
    )]
    pub label: String,
    /// runs:read, runs:write, runs:manage or admin.
    #[schema(pattern = r#"^(?:runs:read|runs:write|runs:manage|admin)$"#)]
    pub scope: String,
    /// Days until it ends; 90 unless told, at most 365.
    #[serde(default, deserialize_with = "crate::whole", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 365)]
    pub days: Option<u32>,
}

/// A new key. The secret is shown this once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewApiKey {
    /// What is kept of it.
    pub key: ApiKey,
    /// The key itself.
    pub secret: Hidden,
}

/// What is shown on a device that is signed in, to be typed on one that is not.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PairingOffer {
    /// `XXXXX-XXXXX`; good once.
    pub code: Hidden,
    /// Milliseconds since the epoch.
    pub expires: i64,
}

/// Trades a pairing code for an API key.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PairRequest {
    /// The code, as it was shown.
    pub code: Hidden,
}
