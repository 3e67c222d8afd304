//! Who is calling, and how the daemon is.

use api::{Status, WhoAmI};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use super::Answer;
use crate::app::App;
use crate::extract::Caller;
use crate::problem::Problem;

/// Who is calling.
#[utoipa::path(get, path = "/api/v1/whoami", tag = "auth", responses((status = 200, body = WhoAmI)))]
pub(crate) async fn whoami(State(app): State<App>, Caller(who): Caller) -> Answer<WhoAmI> {
    let user = app.runtime.user(&who, who.user()).await?;
    Ok(axum::Json(WhoAmI {
        user: super::users::user(user),
        via: who.via().word().into(),
        scope: who.scope().word().into(),
        expires: who.expires(),
    }))
}

/// How the daemon is.
#[utoipa::path(get, path = "/api/v1/status", tag = "status", responses((status = 200, body = Status)))]
pub(crate) async fn status(State(app): State<App>, Caller(who): Caller) -> Answer<Status> {
    let status = app.runtime.status(&who).await?;
    Ok(axum::Json(Status {
        version: env!("CARGO_PKG_VERSION").into(),
        mode: status.mode.word().into(),
        worktree_rbac: status.worktree_rbac,
        store: status.store.into(),
        key: status.key,
        key_epoch: status.key_epoch,
        key_rotating: status.key_rotating,
        ledger_head: status.ledger_head,
        ledger: status.ledger,
        started_at: status.started_at,
        degraded: app.settings.degraded.clone(),
    }))
}

/// This description.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "status", responses((status = 200, content_type = "application/json", body = serde_json::Value)))]
pub(crate) async fn openapi(
    State(app): State<App>,
    Caller(who): Caller,
) -> Result<impl IntoResponse, Problem> {
    drop(app.runtime.status(&who).await?);
    Ok(([(header::CONTENT_TYPE, "application/json")], app.openapi.clone()))
}

/// Metrics for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "status", responses((status = 200, content_type = "text/plain", body = String)))]
pub(crate) async fn metrics(
    State(app): State<App>,
    Caller(who): Caller,
) -> Result<impl IntoResponse, Problem> {
    let reader = app.runtime.permit_metrics(&who).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], crate::measure::text(&app, reader).await))
}
