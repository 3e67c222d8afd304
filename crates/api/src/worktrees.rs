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
    /// The branch that is worked from unless another is named, once it was fetched.
    pub default_branch: Option<String>,
    /// When it was last fetched.
    pub fetched_at: Option<i64>,
    /// The name of the secret that its origin asks for.
    pub asks_for: Option<String>,
    /// Who that secret is for, as the origin knows them, unless it does not look.
    pub login: Option<String>,
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
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRepoRequest {
    /// a-z, 0-9 and `-`.
    #[schema(min_length = 1, max_length = 80, pattern = r#"^[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?$"#)]
    pub name: String,
    /// `https://…` or `ssh://…`, without credentials; in solo mode also a directory of this machine.
    #[schema(
        max_length = 1000,
        pattern = r#"^(?:https://(?:git@)?[A-Za-z0-9.:][A-Za-z0-9.:-]*/[!$-&(->A-\[\]-_a-~]+|ssh://(?:git@)?[A-Za-z0-9.][A-Za-z0-9.-]*(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?/[A-Za-z0-9._~/+-]+|/[^\x00-\x1f\x7f-\x9f]*)$"#
    )]
    pub origin: String,
    /// The name of a secret in the vault, if the origin asks for one; each caller's own, else the daemon's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128, pattern = r#"^[A-Za-z_][A-Za-z0-9_]*$"#)]
    pub asks_for: Option<String>,
    /// Who that secret is for; needed by origins that look at more than the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100, pattern = r#"^[A-Za-z0-9][A-Za-z0-9._@+-]*$"#)]
    pub login: Option<String>,
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
    /// The branch that is checked out, if it has a tree on the disk.
    pub branch: Option<String>,
    /// The commit that the branch began at.
    pub base: Option<String>,
    /// The issue that it is about.
    pub issue: Option<String>,
    /// The pull request that came of it.
    pub pull_request: Option<String>,
    /// Who archived it.
    pub archived_by: Option<String>,
    /// What became of its files when it was archived: kept, cleaned or removed.
    pub files: Option<String>,
    /// Whether people may prompt each other's sessions in it, if the daemon lets them, too.
    #[serde(default)]
    pub shares: bool,
}

/// Joins what was committed in a worktree into a branch.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MergeRequest {
    /// The branch; the usual one of the origin unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200, pattern = r#"^[A-Za-z0-9_][A-Za-z0-9_/-]*$"#)]
    pub into: Option<String>,
    /// Whether what is new in the branch is handed out as well, for a repository that has the origin's branches.
    #[serde(default)]
    pub bundle: bool,
}

/// What became of a merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorktreeMerge {
    /// The branch that was joined into.
    pub into: String,
    /// forwards, merged (by a commit that joins both) or nothing (it had everything).
    pub how: String,
    /// What the branch named before; none if it is new here.
    pub before: Option<String>,
    /// What it names now.
    pub commit: String,
    /// A git bundle in base 64 with what is new in it, if that was asked for and is anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
}

/// Pushes what was committed in a worktree to where its repository comes from.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PushRequest {
    /// The branch there; the one of the same name unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200, pattern = r#"^[A-Za-z0-9_][A-Za-z0-9_/-]*$"#)]
    pub to: Option<String>,
}

/// What became of a push.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorktreePush {
    /// The branch at the origin.
    pub to: String,
    /// What it names now.
    pub commit: String,
}

/// One commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Commit {
    /// Its name.
    pub id: String,
    /// Who wrote it.
    pub author: String,
    /// Seconds since the epoch.
    pub at: i64,
    /// The first line of its message.
    pub subject: String,
}

/// What was committed in a worktree, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorktreeLog {
    /// The commits.
    pub items: Vec<Commit>,
}

/// What was committed in a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorktreeDiff {
    /// A patch, without what is secret in it.
    pub patch: String,
    /// Whether the rest was left out.
    pub truncated: bool,
}

/// What is in a directory of a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileEntry {
    /// Its name.
    pub name: String,
    /// file, folder, link or other.
    pub kind: String,
    /// How long it is.
    pub size: u64,
}

/// What is at a path of a worktree: a directory's entries, or a file's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorktreeFiles {
    /// The path that was asked for.
    pub path: String,
    /// What is in it, if it is a directory.
    pub entries: Option<Vec<FileEntry>>,
    /// What it says, if it is a file of text, without what is secret in it.
    pub text: Option<String>,
    /// Whether it is a file that is no text.
    pub binary: bool,
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
    /// The branch to be on; `palisade/NAME` unless told. One that is there is taken as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200, pattern = r#"^[A-Za-z0-9_][A-Za-z0-9_/-]*$"#)]
    pub branch: Option<String>,
    /// The branch of the origin to begin at; the usual one unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200, pattern = r#"^[A-Za-z0-9_][A-Za-z0-9_/-]*$"#)]
    pub base: Option<String>,
}

/// Changes what a worktree says of itself; what is not given stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateWorktreeRequest {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096, pattern = r#"^[^\u0000-\u0008\u000b-\u001f\u007f-\u009f]*$"#)]
    pub about: Option<String>,
    /// The issue that it is about, `https://…` or `http://…`; nothing between the quotes takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        max_length = 1000,
        pattern = r#"^(?:https?://[A-Za-z0-9][A-Za-z0-9.:-]*(?:[/?#][A-Za-z0-9/._~?#=&%+,;:@!$()*-]*)?)?$"#
    )]
    pub issue: Option<String>,
    /// The pull request that came of it, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        max_length = 1000,
        pattern = r#"^(?:https?://[A-Za-z0-9][A-Za-z0-9.:-]*(?:[/?#][A-Za-z0-9/._~?#=&%+,;:@!$()*-]*)?)?$"#
    )]
    pub pull_request: Option<String>,
}

/// Lets people prompt each other's sessions, or ends that.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSharingRequest {
    /// Whether they may.
    pub shares: bool,
}

/// Changes what non-owners may do.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetTierRequest {
    /// none, view, session, prompt or all.
    #[schema(pattern = r#"^(?:none|view|session|prompt|all)$"#)]
    pub tier: String,
}
