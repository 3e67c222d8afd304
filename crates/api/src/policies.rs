//! Policies: what is in force, and what it would say.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A policy in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// Its id.
    pub id: String,
    /// permit or forbid.
    pub effect: String,
    /// Its Cedar text.
    pub text: String,
}

/// All policies in force.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PolicyList {
    /// The policies.
    pub items: Vec<Policy>,
}

/// Adds a `forbid` policy.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddPolicyRequest {
    /// a-z, 0-9 and `-`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-z0-9-]+$")]
    pub id: String,
    /// One `forbid` statement.
    pub text: String,
}

/// Asks what the gate would say, without an effect.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TryPolicyRequest {
    /// For whom.
    #[schema(pattern = r#"^usr_[0-9a-f]{32}$"#)]
    pub user: String,
    /// Which action.
    pub action: String,
    /// On what: an id, or `installation`.
    pub resource: String,
    /// The role a user would have afterwards, for `user.create` and `user.update`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r#"^(?:viewer|member|admin|owner)$"#)]
    pub role: Option<String>,
    /// A further `forbid` policy to try with those in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<AddPolicyRequest>,
}

/// What the gate would say.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PolicyAnswer {
    /// allow or deny.
    pub decision: String,
    /// In words.
    pub because: String,
    /// The policies that decided.
    pub policies: Vec<Policy>,
}
