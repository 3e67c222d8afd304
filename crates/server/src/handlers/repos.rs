//! Repositories.

use api::{CreateRepoRequest, Repo, RepoPage};
use axum::extract::State;
use axum::http::StatusCode;
use model::{RepoId, RepoName, SecretName};
use runtime::NewRepo;

use super::{Answer, Made, RepoPaging, cursor, limit};
use crate::app::App;
use crate::extract::{Caller, Id, Json, Query, field, kept, refused};
use crate::problem::Problem;

fn repo(row: runtime::Repo) -> Repo {
    Repo {
        id: row.id.to_string(),
        name: row.name.to_string(),
        origin: row.origin,
        created_by: row.created_by.to_string(),
        created_at: row.created_at,
        default_branch: row.default_branch,
        fetched_at: row.fetched_at,
        asks_for: row.secret.map(|name| name.to_string()),
        login: row.login,
    }
}

/// Lists repositories.
#[utoipa::path(get, path = "/api/v1/repos", tag = "repos", params(RepoPaging), responses((status = 200, body = RepoPage)))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(who): Caller,
    Query(paging): Query<RepoPaging>,
) -> Answer<RepoPage> {
    let most = limit(paging.limit, 100)?;
    let page = app.runtime.repos(&who, cursor(paging.after)?, most).await?;
    Ok(axum::Json(RepoPage {
        items: page.items.into_iter().map(repo).collect(),
        next: page.next.map(|id| id.to_string()),
    }))
}

/// Registers a repository.
#[utoipa::path(post, path = "/api/v1/repos", tag = "repos", request_body = CreateRepoRequest, responses((status = 201, body = Repo)))]
pub(crate) async fn create(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<CreateRepoRequest>,
) -> Made<Repo> {
    const ACTION: &str = "repo.create";
    let name: RepoName = kept(&app, &who, ACTION, "name", &body.name).await?;
    let fits = runtime::Origin::parse(&body.origin, app.settings.mode);
    let fits =
        fits.map_err(|error| format!("`origin`: {error}")).and_then(|_| {
            match crate::logs::holds_secret(&body.origin) {
                true => Err("`origin`: it holds what looks like a secret; register it without".to_owned()),
                false => Ok(()),
            }
        });
    if let Err(text) = fits {
        return Err(refused(&app, &who, ACTION, text).await);
    }
    let secret: Option<SecretName> = match &body.asks_for {
        Some(text) => Some(field(&app, &who, ACTION, "asks_for", text).await?),
        None => None,
    };
    let is_odd = |login: &String| !runtime::is_login(login) || crate::logs::holds_secret(login);
    if body.login.as_ref().is_some_and(is_odd) || (body.login.is_some() && secret.is_none()) {
        let why = "`login`: letters, digits and `._@+-`, for what `asks_for` names".to_owned();
        return Err(refused(&app, &who, ACTION, why).await);
    }
    let new = NewRepo { name, origin: body.origin, secret, login: body.login };
    Ok((StatusCode::CREATED, axum::Json(repo(app.runtime.create_repo(&who, new).await?))))
}

/// One repository.
#[utoipa::path(get, path = "/api/v1/repos/{repo}", tag = "repos", params(("repo" = String, Path, pattern = "^rep_[0-9a-f]{32}$")), responses((status = 200, body = Repo)))]
pub(crate) async fn read(State(app): State<App>, Caller(who): Caller, Id(id): Id<RepoId>) -> Answer<Repo> {
    Ok(axum::Json(repo(app.runtime.repo(&who, id).await?)))
}

/// Fetches a repository from where it comes from, in a sandbox that reaches nothing else.
#[utoipa::path(post, path = "/api/v1/repos/{repo}/fetch", tag = "repos", params(("repo" = String, Path, pattern = "^rep_[0-9a-f]{32}$")), responses((status = 200, body = Repo)))]
pub(crate) async fn fetch(State(app): State<App>, Caller(who): Caller, Id(id): Id<RepoId>) -> Answer<Repo> {
    Ok(axum::Json(repo(app.runtime.fetch_repo(&who, id).await?)))
}

/// Removes a repository that no worktree uses.
#[utoipa::path(delete, path = "/api/v1/repos/{repo}", tag = "repos", params(("repo" = String, Path, pattern = "^rep_[0-9a-f]{32}$")), responses((status = 204)))]
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<RepoId>,
) -> Result<StatusCode, Problem> {
    app.runtime.delete_repo(&who, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
