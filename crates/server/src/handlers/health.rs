//! Health, for machines that watch: no credential, no detail that helps an attacker.

use api::{Check, Health};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::app::App;

/// Whether the process answers.
#[utoipa::path(get, path = "/healthz", tag = "health", security(()), responses((status = 200, body = Health)))]
pub(crate) async fn healthz() -> Json<Health> {
    Json(Health { status: "ok".into(), checks: Vec::new() })
}

/// Whether the process answers.
#[utoipa::path(get, path = "/livez", tag = "health", security(()), responses((status = 200, body = Health)))]
pub(crate) async fn livez() -> Json<Health> {
    healthz().await
}

/// Whether the daemon can do its work: store, ledger, policies, keys.
#[utoipa::path(get, path = "/readyz", tag = "health", security(()),
    responses((status = 200, body = Health), (status = 503, body = Health)))]
pub(crate) async fn readyz(State(app): State<App>) -> (StatusCode, Json<Health>) {
    let checks = checks(&app).await;
    let ready = checks.iter().all(|check| check.ok);
    let (code, status) =
        if ready { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "unavailable") };
    (code, Json(Health { status: status.into(), checks }))
}

/// Everything that readiness depends on, looked at now.
pub(crate) async fn checks(app: &App) -> Vec<Check> {
    let stopping = *app.stopping.borrow();
    let mut checks: Vec<Check> = app
        .runtime
        .checks()
        .await
        .into_iter()
        .map(|check| Check {
            name: check.name.into(),
            ok: check.fault.is_none(),
            detail: check.fault.unwrap_or_default(),
        })
        .collect();
    // This process goes on without its key, the next start would not.
    let fault = app.master.fault(app.runtime.ring(), &app.tried).await;
    checks.push(Check { name: "keys".into(), ok: fault.is_none(), detail: fault.unwrap_or_default().into() });
    checks.push(Check {
        name: "running".into(),
        ok: !stopping,
        detail: if stopping { "shutting down".into() } else { String::new() },
    });
    checks
}
