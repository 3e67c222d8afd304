//! Passes.

use api::{Hidden, MintPassRequest, NewPass, Pass, PassPage, Revoked};
use axum::extract::State;
use axum::http::StatusCode;
use model::{DisplayName, PassId, UserId};

use super::{Answer, Made, PassPaging, cursor, limit};
use crate::app::App;
use crate::extract::{Caller, Id, Json, Query, kept, refused};

const MINUTE: i64 = 60_000;
const MOST_MINUTES: u32 = 30 * 24 * 60;

fn pass(row: runtime::PassRow) -> Pass {
    Pass {
        id: row.id.to_string(),
        user: row.user.to_string(),
        parent: row.parent.map(|id| id.to_string()),
        label: row.label.to_string(),
        grant: api::ShownGrant::Known(row.grant),
        created_at: row.created_at,
        expires: row.expires,
        revoked_at: row.revoked_at,
    }
}

/// Lists a user's Passes.
#[utoipa::path(get, path = "/api/v1/users/{user}/passes", tag = "passes", params(("user" = String, Path, pattern = "^usr_[0-9a-f]{32}$"), PassPaging),
    responses((status = 200, body = PassPage)))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(who): Caller,
    Id(user): Id<UserId>,
    Query(paging): Query<PassPaging>,
) -> Answer<PassPage> {
    let most = limit(paging.limit, 100)?;
    let page = app.runtime.passes(&who, user, cursor(paging.after)?, most).await?;
    Ok(axum::Json(PassPage {
        items: page.items.into_iter().map(pass).collect(),
        next: page.next.map(|id| id.to_string()),
    }))
}

/// Mints a Pass; its token is shown this once.
#[utoipa::path(post, path = "/api/v1/passes", tag = "passes", request_body = MintPassRequest, responses((status = 201, body = NewPass)))]
pub(crate) async fn mint(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<MintPassRequest>,
) -> Made<NewPass> {
    const ACTION: &str = "pass.mint";
    let label: DisplayName = kept(&app, &who, ACTION, "label", &body.label).await?;
    let minutes = body.minutes.unwrap_or(60);
    if !(1..=MOST_MINUTES).contains(&minutes) {
        return Err(refused(&app, &who, ACTION, format!("`minutes` is 1 to {MOST_MINUTES}")).await);
    }
    let (row, token) = app.runtime.mint_pass(&who, label, &body.grant, i64::from(minutes) * MINUTE).await??;
    Ok((StatusCode::CREATED, axum::Json(NewPass { pass: pass(row), token: Hidden(token.expose().clone()) })))
}

/// Revokes a Pass and everything made from it.
#[utoipa::path(delete, path = "/api/v1/passes/{pass}", tag = "passes", params(("pass" = String, Path, pattern = "^pas_[0-9a-f]{32}$")),
    responses((status = 200, body = Revoked)))]
pub(crate) async fn revoke(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<PassId>,
) -> Answer<Revoked> {
    Ok(axum::Json(Revoked { count: app.runtime.revoke_pass(&who, id).await? }))
}
