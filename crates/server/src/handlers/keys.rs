//! API keys.

use access::Scope;
use api::{ApiKey, ApiKeyPage, CreateKeyRequest, Hidden, NewApiKey};
use axum::extract::State;
use axum::http::StatusCode;
use model::{DisplayName, KeyId, UserId};

use super::{Answer, KeyPaging, Made, cursor, limit};
use crate::app::App;
use crate::extract::{Caller, Id, Json, Query, field, refused};
use crate::problem::Problem;

const DAY: i64 = 24 * 60 * 60 * 1_000;

fn key(row: runtime::ApiKey) -> ApiKey {
    ApiKey {
        id: row.id.to_string(),
        user: row.user.to_string(),
        label: row.label.to_string(),
        scope: row.scope.word().into(),
        created_at: row.created_at,
        expires: row.expires,
        revoked_at: row.revoked_at,
        used_at: row.used_at,
    }
}

/// Lists a user's keys.
#[utoipa::path(get, path = "/api/v1/users/{user}/keys", tag = "keys", params(("user" = String, Path, pattern = "^usr_[0-9a-f]{32}$"), KeyPaging),
    responses((status = 200, body = ApiKeyPage)))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(who): Caller,
    Id(user): Id<UserId>,
    Query(paging): Query<KeyPaging>,
) -> Answer<ApiKeyPage> {
    let most = limit(paging.limit, 100)?;
    let page = app.runtime.keys(&who, user, cursor(paging.after)?, most).await?;
    Ok(axum::Json(ApiKeyPage {
        items: page.items.into_iter().map(key).collect(),
        next: page.next.map(|id| id.to_string()),
    }))
}

/// Makes a key for the caller; its secret is shown this once.
#[utoipa::path(post, path = "/api/v1/keys", tag = "keys", request_body = CreateKeyRequest, responses((status = 201, body = NewApiKey)))]
pub(crate) async fn create(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<CreateKeyRequest>,
) -> Made<NewApiKey> {
    const ACTION: &str = "key.create";
    let label: DisplayName = field(&app, &who, ACTION, "label", &body.label).await?;
    let Some(scope) = Scope::from_word(&body.scope) else {
        return Err(refused(
            &app,
            &who,
            ACTION,
            "`scope`: expected runs:read, runs:write, runs:manage or admin".into(),
        )
        .await);
    };
    let days = body.days.unwrap_or(90);
    if !(1..=365).contains(&days) {
        return Err(refused(&app, &who, ACTION, "`days` is 1 to 365".into()).await);
    }
    let (row, secret) = app.runtime.create_key(&who, label, scope, i64::from(days) * DAY).await??;
    Ok((
        StatusCode::CREATED,
        axum::Json(NewApiKey { key: key(row), secret: Hidden(secret.expose().clone()) }),
    ))
}

/// Revokes a key.
#[utoipa::path(delete, path = "/api/v1/keys/{key}", tag = "keys", params(("key" = String, Path, pattern = "^key_[0-9a-f]{32}$")), responses((status = 204)))]
pub(crate) async fn revoke(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<KeyId>,
) -> Result<StatusCode, Problem> {
    app.runtime.revoke_key(&who, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
