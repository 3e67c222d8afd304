//! How work leaves a worktree, and how an archived one comes back.

use api::{MergeRequest, PushRequest, Worktree, WorktreeMerge, WorktreePush};
use axum::extract::State;
use base64::Engine as _;
use model::WorktreeId;
use runtime::Joined;

use super::Answer;
use super::worktrees::{branch, worktree};
use crate::app::App;
use crate::extract::{Caller, Id, Json};

/// Brings an archived worktree back, with the sessions that were archived with it.
#[utoipa::path(post, path = "/api/v1/worktrees/{worktree}/restore", tag = "worktrees", params(("worktree" = String, Path, pattern = "^wt_[0-9a-f]{32}$")),
    responses((status = 200, body = Worktree)))]
pub(crate) async fn restore(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<WorktreeId>,
) -> Answer<Worktree> {
    Ok(axum::Json(worktree(app.runtime.restore_worktree(&who, id).await?)))
}

/// Joins what was committed in a worktree into a branch; what both changed is told, and changes nothing.
#[utoipa::path(post, path = "/api/v1/worktrees/{worktree}/merge", tag = "worktrees", params(("worktree" = String, Path, pattern = "^wt_[0-9a-f]{32}$")),
    request_body = MergeRequest, responses((status = 200, body = WorktreeMerge)))]
pub(crate) async fn merge(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<WorktreeId>,
    Json(body): Json<MergeRequest>,
) -> Answer<WorktreeMerge> {
    let into = branch(&app, &who, "worktree.merge", "into", body.into).await?;
    let done = app.runtime.merge_worktree(&who, id, into, body.bundle).await?;
    let how = match done.merged.how {
        Joined::There => "nothing",
        Joined::Forwards => "forwards",
        Joined::Commit => "merged",
    };
    Ok(axum::Json(WorktreeMerge {
        into: done.into,
        how: how.to_owned(),
        before: done.merged.before,
        commit: done.merged.after,
        bundle: done.bundle.map(|bytes| base64::engine::general_purpose::STANDARD.encode(bytes)),
    }))
}

/// Pushes what was committed in a worktree to where its repository comes from, forwards only, in a sandbox that reaches nothing else.
#[utoipa::path(post, path = "/api/v1/worktrees/{worktree}/push", tag = "worktrees", params(("worktree" = String, Path, pattern = "^wt_[0-9a-f]{32}$")),
    request_body = PushRequest, responses((status = 200, body = WorktreePush)))]
pub(crate) async fn push(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<WorktreeId>,
    Json(body): Json<PushRequest>,
) -> Answer<WorktreePush> {
    let to = branch(&app, &who, "worktree.push", "to", body.to).await?;
    let done = app.runtime.push_worktree(&who, id, to).await?;
    Ok(axum::Json(WorktreePush { to: done.to, commit: done.commit }))
}
