//! API keys.

use access::{Principal, Scope};
use api::{ApiKey, ApiKeyPage, CreateKeyRequest, Hidden, NewApiKey, PairRequest, PairingOffer};
use axum::extract::State;
use axum::http::StatusCode;
use model::{DisplayName, KeyId, UserId};

use super::{Answer, KeyPaging, Made, cursor, limit};
use crate::app::App;
use crate::extract::{Caller, From, Id, Json, Query, kept, refused};
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
    let (label, scope, life) = asked(&app, &who, "key.create", &body).await?;
    let (row, secret) = app.runtime.create_key(&who, label, scope, life).await??;
    Ok((
        StatusCode::CREATED,
        axum::Json(NewApiKey { key: key(row), secret: Hidden(secret.expose().clone()) }),
    ))
}

/// Shows a code with which one more device of the caller gets such a key, once, within ten minutes.
#[utoipa::path(post, path = "/api/v1/pairings", tag = "keys", request_body = CreateKeyRequest, responses((status = 201, body = PairingOffer)))]
pub(crate) async fn offer_pairing(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<CreateKeyRequest>,
) -> Made<PairingOffer> {
    let (label, scope, life) = asked(&app, &who, "pairing.offer", &body).await?;
    let (code, expires) = app.runtime.offer_pairing(&who, label, scope, life).await??;
    Ok((StatusCode::CREATED, axum::Json(PairingOffer { code: Hidden(code.expose().clone()), expires })))
}

/// Trades a pairing code for a key; it is used up.
#[utoipa::path(post, path = "/api/v1/auth/pair", tag = "auth", security(()), request_body = PairRequest, responses((status = 201, body = NewApiKey)))]
pub(crate) async fn pair(
    State(app): State<App>,
    From(peer): From,
    Json(body): Json<PairRequest>,
) -> Made<NewApiKey> {
    let (row, secret) = app.runtime.pair(&body.code.0, &peer).await?;
    Ok((
        StatusCode::CREATED,
        axum::Json(NewApiKey { key: key(row), secret: Hidden(secret.expose().clone()) }),
    ))
}

/// What a key is asked for, or what does not do, written down.
async fn asked(
    app: &App,
    who: &Principal,
    action: &'static str,
    body: &CreateKeyRequest,
) -> Result<(DisplayName, Scope, i64), Problem> {
    let label: DisplayName = kept(app, who, action, "label", &body.label).await?;
    let Some(scope) = Scope::from_word(&body.scope) else {
        let text = "`scope`: expected runs:read, runs:write, runs:manage or admin";
        return Err(refused(app, who, action, text.into()).await);
    };
    let days = body.days.unwrap_or(90);
    if !(1..=365).contains(&days) {
        return Err(refused(app, who, action, "`days` is 1 to 365".into()).await);
    }
    Ok((label, scope, i64::from(days) * DAY))
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
