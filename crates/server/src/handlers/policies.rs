//! Policies.

use access::Resource;
use api::{AddPolicyRequest, Policy, PolicyAnswer, PolicyList, TryPolicyRequest};
use axum::extract::State;
use axum::http::StatusCode;
use model::{Role, UserId};
use runtime::Question;

use super::Answer;
use crate::app::App;
use crate::extract::{Caller, Id, Json, field, kept};
use crate::problem::Problem;

/// Every policy in force.
#[utoipa::path(get, path = "/api/v1/policies", tag = "policies", responses((status = 200, body = PolicyList)))]
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Answer<PolicyList> {
    let policy =
        |(id, forbids, text): (String, bool, String)| Policy { id, effect: effect(forbids).into(), text };
    let items = app.runtime.policies(&who).await?.into_iter().map(policy).collect();
    Ok(axum::Json(PolicyList { items }))
}

fn effect(forbids: bool) -> &'static str {
    if forbids { "forbid" } else { "permit" }
}

/// Adds a `forbid` policy; it is in force when this answers.
#[utoipa::path(post, path = "/api/v1/policies", tag = "policies", request_body = AddPolicyRequest, responses((status = 204)))]
pub(crate) async fn add(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<AddPolicyRequest>,
) -> Result<StatusCode, Problem> {
    let id: String = kept(&app, &who, "policy.add", "id", &body.id).await?;
    let text: String = kept(&app, &who, "policy.add", "text", &body.text).await?;
    app.runtime.add_policy(&who, id, text).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes a policy that was added.
#[utoipa::path(delete, path = "/api/v1/policies/{policy}", tag = "policies", params(("policy" = String, Path)), responses((status = 204)))]
pub(crate) async fn remove(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<String>,
) -> Result<StatusCode, Problem> {
    app.runtime.remove_policy(&who, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Asks what the gate would say, and why, without an effect.
#[utoipa::path(post, path = "/api/v1/policies/try", tag = "policies", request_body = TryPolicyRequest,
    responses((status = 200, body = PolicyAnswer)))]
pub(crate) async fn try_policy(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<TryPolicyRequest>,
) -> Answer<PolicyAnswer> {
    const ACTION: &str = "policy.try";
    let user: UserId = field(&app, &who, ACTION, "user", &body.user).await?;
    let action = access::action_named(&body.action)
        .ok_or_else(|| Problem::unprocessable("`action`: there is no such action"))?;
    let resource = resource(&body.resource)
        .ok_or_else(|| Problem::unprocessable("`resource`: expected an id or `installation`"))?;
    let role: Option<Role> = match &body.role {
        Some(text) => Some(field(&app, &who, ACTION, "role", text).await?),
        None => None,
    };
    let with = body.with.map(|policy| (policy.id, policy.text));
    let answer = app.runtime.try_policy(&who, Question { user, action, resource, role, with }).await?;
    let decided = if answer.allowed { "permit" } else { "forbid" };
    let policy = |(id, text)| Policy { id, effect: decided.into(), text };
    Ok(axum::Json(PolicyAnswer {
        decision: if answer.allowed { "allow".into() } else { "deny".into() },
        because: answer.because,
        policies: answer.policies.into_iter().map(policy).collect(),
    }))
}

fn resource(text: &str) -> Option<Resource> {
    if text == "installation" {
        return Some(Resource::Installation);
    }
    let user = || text.parse().ok().map(Resource::User);
    let key = || text.parse().ok().map(Resource::Key);
    let pass = || text.parse().ok().map(Resource::Pass);
    let repo = || text.parse().ok().map(Resource::Repo);
    let worktree = || text.parse().ok().map(Resource::Worktree);
    user().or_else(key).or_else(pass).or_else(repo).or_else(worktree)
}
