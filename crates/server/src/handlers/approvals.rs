//! What waits in sessions for a person, and consent that holds for longer.

use access::WiderConsent;
use api::{AllowRequest, Approval, ApprovalList, Consent, ConsentList, DenyRequest};
use axum::extract::State;
use axum::http::StatusCode;
use model::{ApprovalId, ConsentId, ConsentScope, SessionId};
use utoipa::IntoParams;

use super::Answer;
use crate::app::App;
use crate::extract::{Caller, Id, Ids, Json, Query, refused};
use crate::problem::Problem;

/// Approvals that are listed.
const MOST_APPROVALS: i64 = 200;
const MOST_OPEN: usize = 200;
/// How often a consent is good unless told, and for how many hours.
const USES: i64 = 100;
const HOURS: i64 = 8;

fn approval(row: runtime::Approval) -> Approval {
    Approval {
        id: row.id.to_string(),
        session: row.session.to_string(),
        task: row.task.to_string(),
        effect: row.effect,
        asks: row.body,
        state: row.state.to_string(),
        choice: row.choice,
        decided_by: row.decided_by.map(|user| user.to_string()),
        created_at: row.created_at,
        decided_at: row.decided_at,
        consent: row.consent.map(|id| id.to_string()),
    }
}

/// Which approvals.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovalQuery {
    /// Also those that are over.
    all: Option<bool>,
}

/// What waits for a person in a session, the newest first.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/approvals", tag = "approvals", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$"), ApprovalQuery), responses((status = 200, body = ApprovalList)))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
    Query(query): Query<ApprovalQuery>,
) -> Answer<ApprovalList> {
    let rows = app.runtime.approvals(&who, id, query.all.unwrap_or(false), MOST_APPROVALS).await?;
    Ok(axum::Json(ApprovalList { items: rows.into_iter().map(approval).collect() }))
}

/// What waits for a person in any session that the caller may read, the newest first.
#[utoipa::path(get, path = "/api/v1/approvals", tag = "approvals", responses((status = 200, body = ApprovalList)))]
pub(crate) async fn open(State(app): State<App>, Caller(who): Caller) -> Answer<ApprovalList> {
    let rows = app.runtime.open_approvals(&who, MOST_OPEN).await?;
    Ok(axum::Json(ApprovalList { items: rows.into_iter().map(approval).collect() }))
}

/// The digest of an effect, as it was told.
async fn effect(
    app: &App,
    who: &access::Principal,
    action: &'static str,
    text: String,
) -> Result<String, Problem> {
    match text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        true => Ok(text),
        false => {
            Err(refused(app, who, action, "`effect`: repeat the digest of the effect that was shown".into())
                .await)
        }
    }
}

/// What is consented to beyond the effect that was shown.
fn wider(
    scope: Option<&str>,
    beneath: Option<String>,
    uses: Option<i64>,
    hours: Option<i64>,
) -> Result<Option<WiderConsent>, String> {
    let scope: ConsentScope = match scope {
        None | Some("once") if beneath.is_none() && uses.is_none() && hours.is_none() => return Ok(None),
        None | Some("once") => return Err("`beneath`, `uses` and `hours` go with a scope".into()),
        Some(word) => word.parse().map_err(|_| "`scope`: once, session or worktree".to_owned())?,
    };
    let (uses, hours) = (uses.unwrap_or(USES), hours.unwrap_or(HOURS));
    if !(1..=1_000).contains(&uses) || !(1..=720).contains(&hours) {
        return Err("`uses` is 1 to 1000 and `hours` 1 to 720".into());
    }
    let plain = |path: &String| {
        let parts = std::path::Path::new(path).components();
        let mut parts = parts.peekable();
        parts.peek().is_some()
            && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
            && path.len() <= 1_000
            && !path.chars().any(char::is_control)
            && !crate::logs::holds_secret(path)
    };
    if beneath.as_ref().is_some_and(|path| !plain(path)) {
        return Err("`beneath`: a directory of the worktree, as `src/web`".into());
    }
    Ok(Some(WiderConsent { scope, beneath, uses, lasts: hours * 60 * 60 * 1_000 }))
}

/// Allows an effect that waits: once, or those that are like it as well.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/approvals/{approval}/allow", tag = "approvals", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$"), ("approval" = String, Path, pattern = "^apr_[0-9a-f]{32}$")), request_body = AllowRequest, responses((status = 200, body = Approval)))]
pub(crate) async fn allow(
    State(app): State<App>,
    Caller(who): Caller,
    Ids(id, one): Ids<SessionId, ApprovalId>,
    Json(body): Json<AllowRequest>,
) -> Answer<Approval> {
    const ACTION: &str = "approval.allow";
    let effect = effect(&app, &who, ACTION, body.effect).await?;
    let choice = body.choice;
    if choice.is_empty() || choice.len() > 200 || !choice.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(
            refused(&app, &who, ACTION, "`choice`: name one of the choices that were shown".into()).await
        );
    }
    let wider = match wider(body.scope.as_deref(), body.beneath, body.uses, body.hours) {
        Ok(wider) => wider,
        Err(why) => return Err(refused(&app, &who, ACTION, why).await),
    };
    Ok(axum::Json(approval(app.runtime.allow_approval(&who, id, one, effect, choice, wider).await?)))
}

/// Denies an effect that waits, once.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/approvals/{approval}/deny", tag = "approvals", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$"), ("approval" = String, Path, pattern = "^apr_[0-9a-f]{32}$")), request_body = DenyRequest, responses((status = 200, body = Approval)))]
pub(crate) async fn deny(
    State(app): State<App>,
    Caller(who): Caller,
    Ids(id, one): Ids<SessionId, ApprovalId>,
    Json(body): Json<DenyRequest>,
) -> Answer<Approval> {
    let effect = effect(&app, &who, "approval.deny", body.effect).await?;
    Ok(axum::Json(approval(app.runtime.deny_approval(&who, id, one, effect).await?)))
}

/// Consents that hold in a session now, the newest first.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/consents", tag = "approvals", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$")), responses((status = 200, body = ConsentList)))]
pub(crate) async fn consents(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
) -> Answer<ConsentList> {
    let one = |row: runtime::Consent| Consent {
        id: row.id.to_string(),
        scope: row.scope.to_string(),
        approval: row.approval.to_string(),
        kind: row.kind,
        beneath: row.beneath,
        left: row.left,
        given_by: row.given_by.to_string(),
        created_at: row.created_at,
        expires_at: row.expires_at,
    };
    let rows = app.runtime.consents(&who, id).await?;
    Ok(axum::Json(ConsentList { items: rows.into_iter().map(one).collect() }))
}

/// Takes a consent back: the next question is asked again.
#[utoipa::path(delete, path = "/api/v1/sessions/{session}/consents/{consent}", tag = "approvals", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$"), ("consent" = String, Path, pattern = "^con_[0-9a-f]{32}$")), responses((status = 204)))]
pub(crate) async fn revoke(
    State(app): State<App>,
    Caller(who): Caller,
    Ids(id, consent): Ids<SessionId, ConsentId>,
) -> Result<StatusCode, Problem> {
    app.runtime.revoke_consent(&who, id, consent).await?;
    Ok(StatusCode::NO_CONTENT)
}
