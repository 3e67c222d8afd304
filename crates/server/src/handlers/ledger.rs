//! The ledger: search, check, export.

use std::sync::Arc;

use api::{LedgerEntry, LedgerPage, LedgerReport, LedgerTrust};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ledger::Selection;
use runtime::LedgerQuery;
use utoipa::IntoParams;

use super::{Answer, limit};
use crate::app::App;
use crate::extract::{Caller, Query};
use crate::outflow;
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
    let seat = app.heavy.take(who.user()).map_err(|full| full.problem("checks and exports under way"))?;
    let runtime = Arc::clone(&app.runtime);
    let (_, report) = seat.during(async move { runtime.verify_ledger(&who).await }).await?;
    let report = report?;
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

/// What to export.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportParams {
    /// `files` (every file, unless told) or `bundle` (some entries, proved).
    #[serde(rename = "as")]
    #[param(rename = "as", pattern = "^(?:files|bundle)$")]
    form: Option<String>,
    /// Of a bundle: only entries that name this id, as actor, as resource or in a detail.
    #[param(max_length = 200, pattern = "^[ -~]*$")]
    about: Option<String>,
    /// Of a bundle: from this entry on.
    #[param(minimum = 1)]
    from: Option<i64>,
    /// Of a bundle: up to this entry.
    #[param(minimum = 1)]
    to: Option<i64>,
}

/// The ledger for checking elsewhere: every file, as lines `{"file": …, "line": …}`; or a bundle, as pieces
/// `{"file": …, "text": …}` (or `"hex"`), the manifest last.
#[utoipa::path(get, path = "/api/v1/ledger/export", tag = "ledger", params(ExportParams),
    responses((status = 200, content_type = "application/x-ndjson", body = String)))]
pub(crate) async fn export(
    State(app): State<App>,
    Caller(who): Caller,
    Query(params): Query<ExportParams>,
) -> Result<Response, Problem> {
    let selection = selection(params)?;
    let seat = app.heavy.take(who.user()).map_err(|full| full.problem("exports and backups under way"))?;
    let runtime = Arc::clone(&app.runtime);
    let body = match selection {
        None => {
            let (seat, files) = seat.during(async move { runtime.ledger_files(&who).await }).await?;
            let (dir, held) = files?;
            outflow::produced(seat, move |send| {
                crate::export::lines(&dir, send);
                drop(held); // until here no segment goes
            })?
        }
        Some(selection) => {
            let work = async move { runtime.ledger_bundle(&who, selection).await };
            let (seat, bundle) = seat.during(work).await?;
            let bundle = bundle?;
            outflow::produced(seat, move |send| crate::export::pieces(&bundle, send))?
        }
    };
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// Which entries a bundle is asked for; `None` for every file.
fn selection(params: ExportParams) -> Result<Option<Selection>, Problem> {
    let ExportParams { form, about, from, to } = params;
    let number = |value: Option<i64>, otherwise: u64| match value.map(u64::try_from) {
        None => Ok(otherwise),
        Some(Ok(number)) if number > 0 => Ok(number),
        Some(_) => Err(Problem::unprocessable("`from` and `to` are numbers of entries, from 1")),
    };
    let whole = about.is_none() && from.is_none() && to.is_none();
    match form.as_deref() {
        None | Some("files") if whole => Ok(None),
        None | Some("files") => Err(Problem::unprocessable("`about`, `from` and `to` are for `as=bundle`")),
        Some("bundle") => {
            let fits =
                |text: &String| (1..=200).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
            if about.as_ref().is_some_and(|text| !fits(text)) {
                return Err(Problem::unprocessable(
                    "`about` holds a character that no id has, or is too long",
                ));
            }
            Ok(Some(Selection { about, from: number(from, 1)?, to: number(to, u64::MAX)? }))
        }
        Some(_) => Err(Problem::unprocessable("`as`: expected files or bundle")),
    }
}
