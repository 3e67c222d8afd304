//! Passes: signed tokens that carry a part of the caller's authority.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Hidden;

/// A Grant as the daemon shows it. Only answers carry this; a request names a Grant that is understood.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ShownGrant {
    /// One that this program understands.
    Known(model::Grant),
    /// One with words of a newer server, as it came: to be shown, never to be judged by.
    Newer(serde_json::Value),
}

/// A Pass, without what it is made of.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Pass {
    /// `pas_…`
    pub id: String,
    /// Whose authority it carries a part of.
    pub user: String,
    /// The Pass it was made from.
    pub parent: Option<String>,
    /// What it is for.
    pub label: String,
    /// What it allows.
    #[schema(value_type = Object)]
    pub grant: ShownGrant,
    /// Milliseconds since the epoch.
    pub created_at: i64,
    /// Milliseconds since the epoch.
    pub expires: i64,
    /// When it was revoked.
    pub revoked_at: Option<i64>,
}

/// A page of Passes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PassPage {
    /// The Passes.
    pub items: Vec<Pass>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// Mints a Pass. Called with a Pass, the new one is made from that and is no wider.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MintPassRequest {
    /// What it is for.
    #[schema(
        min_length = 1,
        max_length = 80,
        pattern = r#"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"#
    )]
    pub label: String,
    /// What is asked for; what the caller does not have is left out.
    #[schema(value_type = Object)]
    pub grant: model::Grant,
    /// Minutes until it ends; 60 unless told, at most 30 days.
    #[serde(default, deserialize_with = "crate::whole", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 43200)]
    pub minutes: Option<u32>,
}

/// A new Pass. The token is shown this once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewPass {
    /// What is kept of it.
    pub pass: Pass,
    /// The token itself.
    pub token: Hidden,
}

/// How many Passes a revocation reached.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Revoked {
    /// The Pass and those made from it.
    pub count: u64,
}
