//! Worktrees.

use std::path::PathBuf;

use access::CreateWorktree;
use api::{
    Commit, CreateWorktreeRequest, FileEntry, SetSharingRequest, SetTierRequest, UpdateWorktreeRequest,
    Worktree, WorktreeDiff, WorktreeFiles, WorktreeLog, WorktreePage,
};
use axum::extract::State;
use axum::http::StatusCode;
use files::{FileError, Kind};
use model::{Link, Links, RepoId, Tier, TreeFiles, UserId, WorktreeId, WorktreeName};
use runtime::WorktreeFilter;
use utoipa::IntoParams;

use super::{Answer, Made, cursor, limit};
use crate::app::App;
use crate::extract::{Caller, Id, Ids, Json, Query, field, kept, refused};
use crate::problem::Problem;

const MOST_ABOUT: usize = 4_096;
/// The longest patch that is shown.
const MOST_PATCH: usize = 4 << 20;
/// The longest file that is shown.
const MOST_FILE: u64 = 1 << 20;

pub(super) fn worktree(row: runtime::Worktree) -> Worktree {
    Worktree {
        id: row.id.to_string(),
        repo: row.repo.to_string(),
        name: row.name.to_string(),
        about: row.about,
        tier: row.tier.to_string(),
        owners: row.owners.iter().map(ToString::to_string).collect(),
        created_by: row.created_by.to_string(),
        created_at: row.created_at,
        archived_at: row.archived_at,
        issue: row.issue,
        pull_request: row.pull_request,
        archived_by: row.archived_by.map(|id| id.to_string()),
        files: row.files.map(|files| files.to_string()),
        shares: row.shares,
        base: row.tree.as_ref().map(|tree| tree.base.clone()),
        branch: row.tree.map(|tree| tree.branch),
    }
}

/// Which worktrees.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorktreeQuery {
    /// The `next` of the page before.
    #[param(pattern = r#"^wt_[0-9a-f]{32}$"#)]
    after: Option<String>,
    /// How many, 50 unless told.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<i64>,
    /// Of this repository only.
    #[param(pattern = r#"^rep_[0-9a-f]{32}$"#)]
    repo: Option<String>,
    /// Whose name contains this.
    #[param(max_length = 80, pattern = "^[a-z0-9-]*$")]
    name: Option<String>,
    /// Also those that are archived.
    archived: Option<bool>,
}

/// Lists the worktrees that the caller may know of.
#[utoipa::path(get, path = "/api/v1/worktrees", tag = "worktrees", params(WorktreeQuery), responses((status = 200, body = WorktreePage)))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(who): Caller,
    Query(query): Query<WorktreeQuery>,
) -> Answer<WorktreePage> {
    let most = limit(query.limit, 100)?;
    let repo: Option<RepoId> = query
        .repo
        .map(|text| text.parse().map_err(|error| Problem::unprocessable(format!("`repo`: {error}"))))
        .transpose()?;
    let name = query.name.unwrap_or_default();
    if name.len() > 80 || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        return Err(Problem::unprocessable("`name`: names have a-z, 0-9 and `-`"));
    }
    let filter = WorktreeFilter { repo, name, archived: query.archived.unwrap_or(false) };
    let page = app.runtime.worktrees(&who, &filter, cursor(query.after)?, most).await?;
    let items = page.items.into_iter().map(worktree).collect();
    Ok(axum::Json(WorktreePage { items, next: page.next.map(|id| id.to_string()) }))
}

/// Creates a worktree; the caller owns it.
#[utoipa::path(post, path = "/api/v1/worktrees", tag = "worktrees", request_body = CreateWorktreeRequest,
    responses((status = 201, body = Worktree)))]
pub(crate) async fn create(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<CreateWorktreeRequest>,
) -> Made<Worktree> {
    const ACTION: &str = "worktree.create";
    let repo: RepoId = field(&app, &who, ACTION, "repo", &body.repo).await?;
    let name: WorktreeName = kept(&app, &who, ACTION, "name", &body.name).await?;
    let tier: Tier = match &body.tier {
        Some(text) => field(&app, &who, ACTION, "tier", text).await?,
        None => Tier::Session,
    };
    let about = about(&app, &who, ACTION, body.about).await?;
    let branch = branch(&app, &who, ACTION, "branch", body.branch).await?;
    let base = self::branch(&app, &who, ACTION, "base", body.base).await?;
    let act = CreateWorktree { worktree: WorktreeId::random(), repo, name, about, tier, branch, base };
    Ok((StatusCode::CREATED, axum::Json(worktree(app.runtime.create_worktree(&who, act).await?))))
}

/// The name of a branch, as it was asked for.
pub(super) async fn branch(
    app: &App,
    who: &access::Principal,
    action: &'static str,
    field: &str,
    name: Option<String>,
) -> Result<Option<String>, Problem> {
    // A branch of an origin may be called as it likes.
    let fits = if ["base", "to"].contains(&field) { runtime::is_branch } else { runtime::may_be_named };
    match name {
        Some(name) if !fits(&name) || crate::logs::holds_secret(&name) => {
            let why = format!("`{field}`: that cannot be the name of a branch here");
            Err(refused(app, who, action, why).await)
        }
        other => Ok(other),
    }
}

async fn about(
    app: &App,
    who: &access::Principal,
    action: &'static str,
    text: String,
) -> Result<String, Problem> {
    let odd = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.chars().count() > MOST_ABOUT || text.chars().any(odd) {
        return Err(refused(
            app,
            who,
            action,
            format!("`about`: at most {MOST_ABOUT} characters of plain text"),
        )
        .await);
    }
    // What a person notes down is read by others: what is a secret in it stays out.
    Ok(crate::logs::redactor().scrub(&text).into_owned())
}

/// One worktree.
#[utoipa::path(get, path = "/api/v1/worktrees/{worktree}", tag = "worktrees", params(("worktree" = String, Path, pattern = "^wt_[0-9a-f]{32}$")),
    responses((status = 200, body = Worktree)))]
pub(crate) async fn read(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<WorktreeId>,
) -> Answer<Worktree> {
    Ok(axum::Json(worktree(app.runtime.worktree(&who, id).await?)))
}

/// Changes what a worktree says of itself.
#[utoipa::path(patch, path = "/api/v1/worktrees/{worktree}", tag = "worktrees", params(("worktree" = String, Path, pattern = "^wt_[0-9a-f]{32}$")),
    request_body = UpdateWorktreeRequest, responses((status = 200, body = Worktree)))]
pub(crate) async fn update(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<WorktreeId>,
    Json(body): Json<UpdateWorktreeRequest>,
) -> Answer<Worktree> {
    const ACTION: &str = "worktree.update";
    let about = match body.about {
        Some(text) => Some(about(&app, &who, ACTION, text).await?),
        None => None,
    };
    let issue = link(&app, &who, "issue", body.issue).await?;
    let links = Links { issue, pull_request: link(&app, &who, "pull_request", body.pull_request).await? };
    Ok(axum::Json(worktree(app.runtime.update_worktree(&who, id, about, links).await?)))
}

/// A link that was given; an empty one goes.
async fn link(
    app: &App,
    who: &access::Principal,
    name: &str,
    text: Option<String>,
) -> Result<Option<Option<Link>>, Problem> {
    match text {
        None => Ok(None),
        Some(text) if text.is_empty() => Ok(Some(None)),
        Some(text) => Ok(Some(Some(kept(app, who, "worktree.update", name, &text).await?))),
    }
}

/// What becomes of the files.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilesKept {
    /// kept, cleaned (what is in no commit goes) or removed. An archived worktree keeps them unless told, one that is deleted does not.
    #[param(pattern = "^(?:kept|cleaned|removed)$")]
    files: Option<String>,
}

impl FilesKept {
    async fn read(
        self,
        app: &App,
        who: &access::Principal,
        action: &'static str,
        usual: TreeFiles,
    ) -> Result<TreeFiles, Problem> {
        match self.files {
            Some(text) => field(app, who, action, "files", &text).await,
            None => Ok(usual),
        }
    }
}

/// Deletes a worktree.
#[utoipa::path(delete, path = "/api/v1/worktrees/{worktree}", tag = "worktrees", params(("worktree" = String, Path, pattern = "^wt_[0-9a-f]{32}$"), FilesKept), responses((status = 204)))]
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<WorktreeId>,
    Query(query): Query<FilesKept>,
) -> Result<StatusCode, Problem> {
    let files = query.read(&app, &who, "worktree.delete", TreeFiles::Removed).await?;
    app.runtime.delete_worktree(&who, id, files).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Changes what non-owners may do.
#[utoipa::path(put, path = "/api/v1/worktrees/{worktree}/tier", tag = "worktrees", params(("worktree" = String, Path, pattern = "^wt_[0-9a-f]{32}$")),
    request_body = SetTierRequest, responses((status = 200, body = Worktree)))]
pub(crate) async fn set_tier(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<WorktreeId>,
    Json(body): Json<SetTierRequest>,
) -> Answer<Worktree> {
    let tier: Tier = field(&app, &who, "worktree.set_tier", "tier", &body.tier).await?;
    Ok(axum::Json(worktree(app.runtime.set_tier(&who, id, tier).await?)))
}

/// Lets people prompt each other's sessions in a worktree, each with their own rights and secrets, or ends that. The daemon has to
/// allow it, too.
#[utoipa::path(put, path = "/api/v1/worktrees/{worktree}/sharing", tag = "worktrees", params(("worktree" = String, Path, pattern = "^wt_[0-9a-f]{32}$")),
    request_body = SetSharingRequest, responses((status = 200, body = Worktree)))]
pub(crate) async fn set_sharing(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<WorktreeId>,
    Json(body): Json<SetSharingRequest>,
) -> Answer<Worktree> {
    Ok(axum::Json(worktree(app.runtime.set_sharing(&who, id, body.shares).await?)))
}

/// Adds an owner.
#[utoipa::path(put, path = "/api/v1/worktrees/{worktree}/owners/{user}", tag = "worktrees",
    params(("worktree" = String, Path, pattern = "^wt_[0-9a-f]{32}$"), ("user" = String, Path, pattern = "^usr_[0-9a-f]{32}$")), responses((status = 200, body = Worktree)))]
pub(crate) async fn add_owner(
    State(app): State<App>,
    Caller(who): Caller,
    Ids(id, owner): Ids<WorktreeId, UserId>,
) -> Answer<Worktree> {
    Ok(axum::Json(worktree(app.runtime.add_owner(&who, id, owner).await?)))
}

/// Removes an owner; the last one stays.
#[utoipa::path(delete, path = "/api/v1/worktrees/{worktree}/owners/{user}", tag = "worktrees",
    params(("worktree" = String, Path, pattern = "^wt_[0-9a-f]{32}$"), ("user" = String, Path, pattern = "^usr_[0-9a-f]{32}$")), responses((status = 200, body = Worktree)))]
pub(crate) async fn remove_owner(
    State(app): State<App>,
    Caller(who): Caller,
    Ids(id, owner): Ids<WorktreeId, UserId>,
) -> Answer<Worktree> {
    Ok(axum::Json(worktree(app.runtime.remove_owner(&who, id, owner).await?)))
}

/// Archives a worktree; it stays readable.
#[utoipa::path(post, path = "/api/v1/worktrees/{worktree}/archive", tag = "worktrees", params(("worktree" = String, Path, pattern = "^wt_[0-9a-f]{32}$"), FilesKept),
    responses((status = 200, body = Worktree)))]
pub(crate) async fn archive(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<WorktreeId>,
    Query(query): Query<FilesKept>,
) -> Answer<Worktree> {
    let files = query.read(&app, &who, "worktree.archive", TreeFiles::Kept).await?;
    Ok(axum::Json(worktree(app.runtime.archive_worktree(&who, id, files).await?)))
}

/// How many commits.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogQuery {
    /// How many, 50 unless told.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<i64>,
}

/// What was committed in a worktree, the newest first.
#[utoipa::path(get, path = "/api/v1/worktrees/{worktree}/log", tag = "worktrees",
    params(("worktree" = String, Path, pattern = "^wt_[0-9a-f]{32}$"), LogQuery), responses((status = 200, body = WorktreeLog)))]
pub(crate) async fn log(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<WorktreeId>,
    Query(query): Query<LogQuery>,
) -> Answer<WorktreeLog> {
    let most = u32::try_from(limit(query.limit, 1000)?).unwrap_or(50);
    let commits = app.runtime.worktree_log(&who, id, most).await?;
    let shown = |text: &str| crate::logs::redactor().scrub(text).into_owned();
    let items = commits.into_iter().map(|one| Commit {
        id: one.id,
        author: shown(&one.author),
        at: one.at,
        subject: shown(&one.subject),
    });
    Ok(axum::Json(WorktreeLog { items: items.collect() }))
}

/// What was committed in a worktree, as a patch.
#[utoipa::path(get, path = "/api/v1/worktrees/{worktree}/diff", tag = "worktrees",
    params(("worktree" = String, Path, pattern = "^wt_[0-9a-f]{32}$")), responses((status = 200, body = WorktreeDiff)))]
pub(crate) async fn diff(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<WorktreeId>,
) -> Answer<WorktreeDiff> {
    let cut = app.runtime.worktree_diff(&who, id, MOST_PATCH).await?;
    let patch = crate::logs::redactor().scrub(&cut.text).into_owned();
    Ok(axum::Json(WorktreeDiff { patch, truncated: cut.truncated }))
}

/// Which path of a tree.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilesQuery {
    /// Beneath the tree; the tree itself unless told.
    #[param(max_length = 4096)]
    path: Option<String>,
}

/// What is at a path of a worktree's tree: a directory's entries, or a file's text.
#[utoipa::path(get, path = "/api/v1/worktrees/{worktree}/files", tag = "worktrees",
    params(("worktree" = String, Path, pattern = "^wt_[0-9a-f]{32}$"), FilesQuery), responses((status = 200, body = WorktreeFiles)))]
pub(crate) async fn files(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<WorktreeId>,
    Query(query): Query<FilesQuery>,
) -> Answer<WorktreeFiles> {
    let path = query.path.unwrap_or_default();
    let there = PathBuf::from(&path);
    let odd = |error: FileError| match error {
        FileError::Missing => Problem::not_found(),
        other => Problem::conflict(format!("`path` {other}")),
    };
    match app.runtime.worktree_files(&who, id, there.clone()).await? {
        Ok(found) => {
            let entries = found.into_iter().map(|entry| FileEntry {
                name: crate::logs::redactor().scrub(&entry.name.to_string_lossy()).into_owned(),
                kind: kind(entry.kind).to_owned(),
                size: entry.size,
            });
            Ok(axum::Json(WorktreeFiles {
                path,
                entries: Some(entries.collect()),
                text: None,
                binary: false,
            }))
        }
        // Not a directory: a file, or nothing.
        Err(FileError::Missing | FileError::NotPlain) => {
            let bytes = app.runtime.worktree_file(&who, id, there, MOST_FILE).await?.map_err(odd)?;
            let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
            let text = text.map(|text| crate::logs::redactor().scrub(&text).into_owned());
            Ok(axum::Json(WorktreeFiles { path, entries: None, binary: text.is_none(), text }))
        }
        Err(other) => Err(odd(other)),
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Folder => "folder",
        Kind::Link => "link",
        Kind::Other => "other",
    }
}
