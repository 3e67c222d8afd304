//! Repositories and worktrees.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Repo {
    /// `rep_…`
    pub id: String,
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub origin: String,
    /// Who registered it.
    pub created_by: String,
    /// Milliseconds since the epoch.
    pub created_at: i64,
}

/// A page of repositories.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RepoPage {
    /// The repositories.
    pub items: Vec<Repo>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// Registers a repository.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRepoRequest {
    /// a-z, 0-9 and `-`.
    #[schema(min_length = 1, max_length = 80, pattern = r#"^[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?$"#)]
    pub name: String,
    /// `https://…` or `ssh://…`, without credentials.
    #[schema(
        max_length = 1000,
        pattern = r#"^(?:https|ssh)://(?:git@)?[A-Za-z0-9.:][A-Za-z0-9.:-]*/[!$-&(->A-\[\]-_a-~]+$"#
    )]
    pub origin: String,
}

/// A worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Worktree {
    /// `wt_…`
    pub id: String,
    /// Of which repository.
    pub repo: String,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub about: String,
    /// none, view, session, prompt or all.
    pub tier: String,
    /// Who owns it.
    pub owners: Vec<String>,
    /// Who made it.
    pub created_by: String,
    /// Milliseconds since the epoch.
    pub created_at: i64,
    /// When it was archived.
    pub archived_at: Option<i64>,
}

/// A page of worktrees.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WorktreePage {
    /// The worktrees.
    pub items: Vec<Worktree>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// Creates a worktree; the caller owns it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWorktreeRequest {
    /// Of which repository.
    #[schema(pattern = r#"^rep_[0-9a-f]{32}$"#)]
    pub repo: String,
    /// a-z, 0-9 and `-`.
    #[schema(min_length = 1, max_length = 80, pattern = r#"^[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?$"#)]
    pub name: String,
    /// What it is for.
    #[serde(default)]
    #[schema(max_length = 4096, pattern = r#"^[^\u0000-\u0008\u000b-\u001f\u007f-\u009f]*$"#)]
    pub about: String,
    /// What non-owners may do; `session` unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = r#"^(?:none|view|session|prompt|all)$"#)]
    pub tier: Option<String>,
}

/// Changes what a worktree says of itself.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateWorktreeRequest {
    /// What it is for.
    #[schema(max_length = 4096, pattern = r#"^[^\u0000-\u0008\u000b-\u001f\u007f-\u009f]*$"#)]
    pub about: String,
}

/// Changes what non-owners may do.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetTierRequest {
    /// none, view, session, prompt or all.
    #[schema(pattern = r#"^(?:none|view|session|prompt|all)$"#)]
    pub tier: String,
}
