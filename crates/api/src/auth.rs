//! Signing in and out.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Hidden;

/// Makes the first owner.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BootstrapRequest {
    /// The one-time secret that the daemon printed.
    pub secret: Hidden,
    /// Address of the owner.
    #[schema(
        max_length = 254,
        pattern = r#"^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~.]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$"#
    )]
    pub email: String,
    /// How the owner is shown.
    #[schema(
        min_length = 1,
        max_length = 80,
        pattern = r#"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"#
    )]
    pub name: String,
    /// At least 12 characters.
    #[schema(value_type = String, min_length = 12, max_length = 1024)]
    pub password: Hidden,
}

/// Signs in.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginRequest {
    /// Address.
    pub email: String,
    /// Password.
    pub password: Hidden,
    /// One-time password, where turned on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totp: Option<Hidden>,
}

/// Trades a refresh token.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RefreshRequest {
    /// The token; it is used up.
    pub refresh_token: Hidden,
}

/// The header in which a one-time password comes with a request that asks for one.
pub const TOTP_HEADER: &str = "x-palisade-totp";

/// What signing in gives.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TokenResponse {
    /// Who.
    pub user: String,
    /// For the Authorization header.
    pub access_token: Hidden,
    /// Milliseconds since the epoch.
    pub access_expires: i64,
    /// For the next access token, once.
    pub refresh_token: Hidden,
    /// Milliseconds since the epoch.
    pub refresh_expires: i64,
}

/// Changes the own password.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePasswordRequest {
    /// The present one.
    pub current: Hidden,
    /// The next one.
    #[schema(value_type = String, min_length = 12, max_length = 1024)]
    pub new: Hidden,
    /// One-time password, where turned on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totp: Option<Hidden>,
}

/// What turning on one-time passwords gives, once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TotpOffer {
    /// For an authenticator app; not in force until a code confirms it.
    pub link: Hidden,
    /// Sent back to confirm.
    pub handle: Hidden,
}

/// Confirms one-time passwords.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfirmTotpRequest {
    /// What the offer gave.
    #[schema(value_type = String, pattern = "^(?:[0-9a-f]{2}){1,500}$")]
    pub handle: Hidden,
    /// A code made from it.
    pub code: Hidden,
    /// The caller's password.
    pub password: Hidden,
}

/// Turns one-time passwords off.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveTotpRequest {
    /// The caller's password.
    pub password: Hidden,
    /// A present code.
    pub totp: Hidden,
}
