//! What may be spent, and what was.

use access::UsageBy;
use api::{Budget, BudgetList, SessionUsage, SetBudgetRequest, Spent, Usage, UsageList};
use axum::extract::State;
use axum::http::StatusCode;
use model::{Allowance, BudgetKind, BudgetScope, SessionId, UserId, WorktreeId};
use utoipa::IntoParams;

use super::Answer;
use crate::app::App;
use crate::extract::{Caller, Id, Json, Query, refused};
use crate::problem::Problem;

/// Days that are looked back, at most.
const MOST_DAYS: i64 = 3_650;
const DAY: i64 = 24 * 60 * 60 * 1_000;

fn spent(of: model::Spending) -> Spent {
    Spent {
        tokens: of.tokens,
        cost_micro_usd: of.cost,
        calls: of.calls,
        wall_ms: of.wall,
        egress_bytes: of.egress,
        cpu_ms: of.cpu,
    }
}

fn budget(of: Allowance, spent: Option<i64>) -> Budget {
    Budget {
        scope: of.scope.to_string(),
        owner: of.owner,
        kind: of.kind.to_string(),
        seconds: of.period / 1_000,
        most: of.most,
        spent,
    }
}

/// What was spent in a session and those that were opened for it, and the budgets that are about it.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/usage", tag = "budgets", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$")), responses((status = 200, body = SessionUsage)))]
pub(crate) async fn session(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
) -> Answer<SessionUsage> {
    let (sum, standings) = app.runtime.session_usage(&who, id).await?;
    let budgets = standings.into_iter().map(|one| budget(one.budget, Some(one.spent))).collect();
    Ok(axum::Json(SessionUsage { spent: spent(sum), budgets }))
}

/// Which usage.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsageQuery {
    /// user, worktree, session or agent; user unless told.
    #[param(pattern = r#"^(?:user|worktree|session|agent)$"#)]
    by: Option<String>,
    /// How many days are looked back; 30 unless told.
    #[param(minimum = 1, maximum = 3650)]
    days: Option<i64>,
}

/// What was spent in the whole installation, the most expensive first.
#[utoipa::path(get, path = "/api/v1/usage", tag = "budgets", params(UsageQuery), responses((status = 200, body = UsageList)))]
pub(crate) async fn usage(
    State(app): State<App>,
    Caller(who): Caller,
    Query(query): Query<UsageQuery>,
) -> Answer<UsageList> {
    let by = match query.by.as_deref() {
        None | Some("user") => UsageBy::User,
        Some("worktree") => UsageBy::Worktree,
        Some("session") => UsageBy::Session,
        Some("agent") => UsageBy::Agent,
        Some(_) => return Err(Problem::unprocessable("`by`: user, worktree, session or agent")),
    };
    let days = query.days.unwrap_or(30);
    if !(1..=MOST_DAYS).contains(&days) {
        return Err(Problem::unprocessable(format!("`days`: 1 to {MOST_DAYS}")));
    }
    let rows = app.runtime.usage(&who, by, days * DAY).await?;
    let one = |row: runtime::Usage| Usage { by: row.by, spent: spent(row.spent) };
    Ok(axum::Json(UsageList { items: rows.into_iter().map(one).collect() }))
}

/// Budgets that somebody set; what is usual aside.
#[utoipa::path(get, path = "/api/v1/budgets", tag = "budgets", responses((status = 200, body = BudgetList)))]
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Answer<BudgetList> {
    let rows = app.runtime.budgets(&who).await?;
    Ok(axum::Json(BudgetList { items: rows.into_iter().map(|one| budget(one, None)).collect() }))
}

/// Sets a budget, or takes it away.
#[utoipa::path(put, path = "/api/v1/budgets", tag = "budgets", request_body = SetBudgetRequest, responses((status = 204)))]
pub(crate) async fn set(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<SetBudgetRequest>,
) -> Result<StatusCode, Problem> {
    match wanted(body) {
        Ok((of, most)) => app.runtime.set_budget(&who, of, most).await?,
        Err(why) => return Err(refused(&app, &who, "budget.set", why.into()).await),
    }
    Ok(StatusCode::NO_CONTENT)
}

fn wanted(body: SetBudgetRequest) -> Result<(Allowance, Option<i64>), &'static str> {
    let scope: BudgetScope = body.scope.parse().map_err(|_| "`scope`: user, worktree or session")?;
    let kind: BudgetKind =
        body.kind.parse().map_err(|_| "`kind`: tokens, cost, calls, wall, egress, cpu or sessions")?;
    if kind == BudgetKind::Sessions && body.seconds != 0 {
        return Err("`seconds`: 0 for `sessions`, which are counted while they are at work");
    }
    let fits = match scope {
        BudgetScope::User => body.owner.parse::<UserId>().is_ok(),
        BudgetScope::Worktree => body.owner.parse::<WorktreeId>().is_ok(),
        BudgetScope::Session => body.owner.parse::<SessionId>().is_ok(),
        // It is in the Pass.
        BudgetScope::Pass => false,
    };
    if !fits {
        return Err("`owner`: the id of a user, worktree or session, as `scope` says");
    }
    if !(0..=MOST_DAYS * 86_400).contains(&body.seconds) {
        return Err("`seconds`: up to ten years; 0 is ever");
    }
    if body.most.is_some_and(|most| !(0..=1_000_000_000_000_000).contains(&most)) {
        return Err("`most`: 0 to 10^15");
    }
    let period = body.seconds * 1_000;
    Ok((Allowance { scope, owner: body.owner, kind, period, most: 0 }, body.most))
}
