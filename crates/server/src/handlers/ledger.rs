//! The ledger: search, check, export.

use api::{LedgerEntry, LedgerPage, LedgerReport, LedgerTrust};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use runtime::LedgerQuery;
use utoipa::IntoParams;

use super::{Answer, limit};
use crate::app::App;
use crate::extract::{Caller, Query};
use crate::problem::Problem;

/// Which entries.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct LedgerParams {
    /// The `next` of the page before.
    #[param(pattern = "^[0-9]{1,18}$")]
    after: Option<String>,
    /// How many, 50 unless told.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<i64>,
    /// The user who acted.
    #[param(max_length = 200, pattern = "^[ -~]*$")]
    user: Option<String>,
    /// The action.
    #[param(max_length = 200, pattern = "^[ -~]*$")]
    action: Option<String>,
    /// The resource.
    #[param(max_length = 200, pattern = "^[ -~]*$")]
    resource: Option<String>,
    /// allowed, refused, done, failed or noted.
    #[param(pattern = "^(?:allowed|refused|done|failed|noted)$")]
    decision: Option<String>,
    /// From this time on; milliseconds since the epoch.
    since: Option<i64>,
    /// Before this time; milliseconds since the epoch.
    until: Option<i64>,
}

fn entry(row: runtime::IndexedEntry) -> LedgerEntry {
    LedgerEntry {
        seq: u64::try_from(row.seq).unwrap_or_default(),
        at: row.at,
        who: row.who,
        action: row.action,
        resource: row.resource,
        decision: row.decision,
        line: row.line,
    }
}

/// Searches the ledger, newest first; without the right to read all, the own entries.
#[utoipa::path(get, path = "/api/v1/ledger", tag = "ledger", params(LedgerParams), responses((status = 200, body = LedgerPage)))]
pub(crate) async fn search(
    State(app): State<App>,
    Caller(who): Caller,
    Query(params): Query<LedgerParams>,
) -> Answer<LedgerPage> {
    let most = limit(params.limit, 1_000)?;
    let query = LedgerQuery {
        user: params.user.unwrap_or_default(),
        action: params.action.unwrap_or_default(),
        resource: params.resource.unwrap_or_default(),
        decision: params.decision.clone().unwrap_or_default(),
        since: params.since,
        until: params.until,
        before: super::cursor(params.after)?,
    };
    let decision = params.decision;
    let fits = |text: &&String| text.len() <= 200 && text.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
    if ![&query.user, &query.action, &query.resource].iter().all(fits) {
        return Err(Problem::unprocessable("a filter holds a character that no entry has, or is too long"));
    }
    let known = ["allowed", "refused", "done", "failed", "noted"];
    if decision.is_some_and(|word| !known.contains(&word.as_str())) {
        return Err(Problem::unprocessable("`decision`: expected allowed, refused, done, failed or noted"));
    }
    let page = app.runtime.search_ledger(&who, query, most).await?;
    let items = page.items.into_iter().map(entry).collect();
    Ok(axum::Json(LedgerPage { items, next: page.next.map(|seq| seq.to_string()) }))
}

/// Checks the whole ledger now.
#[utoipa::path(post, path = "/api/v1/ledger/verify", tag = "ledger", responses((status = 200, body = LedgerReport)))]
pub(crate) async fn verify(State(app): State<App>, Caller(who): Caller) -> Answer<LedgerReport> {
    let report = app.runtime.verify_ledger(&who).await?;
    Ok(axum::Json(LedgerReport {
        verdict: report.verdict.to_string(),
        claim: report.claim.to_string(),
        entries: report.entries,
        checkpoints: report.checkpoints,
        findings: report.findings.iter().map(ToString::to_string).collect(),
    }))
}

/// What a verifier elsewhere trusts: the public key of the checkpoints.
#[utoipa::path(get, path = "/api/v1/ledger/trust", tag = "ledger", responses((status = 200, body = LedgerTrust)))]
pub(crate) async fn trust(State(app): State<App>, Caller(who): Caller) -> Answer<LedgerTrust> {
    Ok(axum::Json(LedgerTrust { trust: app.runtime.ledger_trust(&who).await? }))
}

/// Every file of the ledger, as lines `{"file": …, "line": …}`: enough to check it elsewhere.
#[utoipa::path(get, path = "/api/v1/ledger/export", tag = "ledger",
    responses((status = 200, content_type = "application/x-ndjson", body = String)))]
pub(crate) async fn export(State(app): State<App>, Caller(who): Caller) -> Result<Response, Problem> {
    let dir = app.runtime.ledger_files(&who).await?;
    let (send, receive) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(8);
    tokio::task::spawn_blocking(move || {
        crate::export::lines(&dir, |piece| send.blocking_send(piece).is_ok())
    });
    let stream = futures_util::stream::unfold(receive, async |mut receive| {
        receive.recv().await.map(|piece| (piece, receive))
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(stream)).into_response())
}
