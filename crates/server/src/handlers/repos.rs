//! Repositories.

use api::{CreateRepoRequest, Repo, RepoPage};
use axum::extract::State;
use axum::http::StatusCode;
use model::{RepoId, RepoName};

use super::{Answer, Made, RepoPaging, cursor, limit};
use crate::app::App;
use crate::extract::{Caller, Id, Json, Query, kept, refused};
use crate::problem::Problem;

fn repo(row: runtime::Repo) -> Repo {
    Repo {
        id: row.id.to_string(),
        name: row.name.to_string(),
        origin: row.origin,
        created_by: row.created_by.to_string(),
        created_at: row.created_at,
    }
}

/// A place that can be cloned from and holds no credential. Git itself comes later; the record is strict now.
fn origin_fits(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("ssh://"));
    let Some((host, path)) = rest.and_then(|rest| rest.split_once('/')) else { return false };
    // `git@` is a name, not a secret; anything else before `@` could be one.
    let host = host.strip_prefix("git@").unwrap_or(host);
    let host_fits = !host.is_empty()
        && !host.starts_with('-')
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:".contains(&b));
    let path_fits =
        !path.is_empty() && path.bytes().all(|b| b.is_ascii_graphic() && !b"@?#\\\"'`".contains(&b));
    text.len() <= 1_000 && host_fits && path_fits
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
    if !origin_fits(&body.origin) || crate::logs::holds_secret(&body.origin) {
        let text =
            "`origin`: expected `https://host/path` or `ssh://host/path` without user, password or query";
        return Err(refused(&app, &who, ACTION, text.into()).await);
    }
    Ok((StatusCode::CREATED, axum::Json(repo(app.runtime.create_repo(&who, name, body.origin).await?))))
}

/// One repository.
#[utoipa::path(get, path = "/api/v1/repos/{repo}", tag = "repos", params(("repo" = String, Path, pattern = "^rep_[0-9a-f]{32}$")), responses((status = 200, body = Repo)))]
pub(crate) async fn read(State(app): State<App>, Caller(who): Caller, Id(id): Id<RepoId>) -> Answer<Repo> {
    Ok(axum::Json(repo(app.runtime.repo(&who, id).await?)))
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

#[cfg(test)]
mod tests {
    use super::origin_fits;

    #[test]
    fn an_origin_holds_no_credential_and_runs_no_program() {
        for good in [
            "https://forge.example/a/b.git",
            "ssh://git@forge.example/a/b.git",
            "https://forge.example:8443/a",
        ] {
            assert!(origin_fits(good), "{good}");
        }
        for bad in [
            "",
            "file:///etc",
            "ext::sh -c id",
            "https://user:pw@forge.example/a",
            "https://token@forge.example/a",
            "https://forge.example",
            "https:///a",
            "https://forge.example/a?token=x",
            "https://-oProxyCommand=x/a",
            "https://forge.example/a b",
            "http://forge.example/a",
        ] {
            assert!(!origin_fits(bad), "{bad}");
        }
    }
}
