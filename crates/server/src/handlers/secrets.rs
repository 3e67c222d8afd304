//! Secrets: what there is, new ones, and new keys. No answer holds a value.

use std::path::Path;

use access::Principal;
use api::{AddSecretRequest, RotateRequest, RotationStep, SecretAbout, SecretList};
use axum::extract::State;
use axum::http::StatusCode;
use model::{HostPattern, SecretName, SecretOwner, WorktreeId};
use runtime::{Masking, NewSecret, NextMaster, SecretView, Whose};
use utoipa::IntoParams;
use vault::Secret;
use vault::source::{Closed, read_file, read_passphrase};

use super::{Answer, Made};
use crate::app::App;
use crate::extract::{Caller, Ids, Json, Query, field, kept, refused};
use crate::master::MasterFrom;
use crate::problem::Problem;

const MOST_VALUE: usize = 65_536;
const MOST_HOSTS: usize = 32;

/// Which secrets.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretQuery {
    /// Those of one owner.
    #[param(pattern = "^(?:daemon|usr_[0-9a-f]{32}|wt_[0-9a-f]{32})$")]
    owner: Option<String>,
    /// Those that count for the caller in this worktree.
    #[param(pattern = "^wt_[0-9a-f]{32}$")]
    worktree: Option<String>,
}

fn about(view: SecretView, now: i64) -> SecretAbout {
    let row = view.about;
    SecretAbout {
        name: view.name.to_string(),
        source: view.source.word().into(),
        owner: row.as_ref().map_or_else(|| view.source.word().to_owned(), |row| row.owner.to_string()),
        effective: view.effective,
        id: row.as_ref().map(|row| row.id.to_string()),
        hosts: row.iter().flat_map(|row| &row.hosts).map(ToString::to_string).collect(),
        created_by: row.as_ref().map(|row| row.created_by.to_string()),
        created_at: row.as_ref().map(|row| row.created_at),
        expires: row.as_ref().and_then(|row| row.expires),
        expired: row.as_ref().and_then(|row| row.expires).is_some_and(|expires| expires <= now),
        used_at: row.as_ref().and_then(|row| row.used_at),
        warning: None,
    }
}

/// Lists secrets without their values: those of one owner, or all that could count for the caller.
#[utoipa::path(get, path = "/api/v1/secrets", tag = "secrets", params(SecretQuery), responses((status = 200, body = SecretList)))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(who): Caller,
    Query(query): Query<SecretQuery>,
) -> Answer<SecretList> {
    let bad = |name: &str| Problem::unprocessable(format!("`{name}` is not one"));
    let owner: Option<SecretOwner> =
        query.owner.map(|text| text.parse().map_err(|_| bad("owner"))).transpose()?;
    let worktree: Option<WorktreeId> =
        query.worktree.map(|text| text.parse().map_err(|_| bad("worktree"))).transpose()?;
    let whose = match (owner, worktree) {
        (Some(_), Some(_)) => return Err(Problem::unprocessable("`owner` or `worktree`, not both")),
        (Some(owner), None) => Whose::One(owner),
        (None, worktree) => Whose::Counting(worktree),
    };
    let now = app.runtime.clock().now();
    let all = app.runtime.secrets(&who, whose).await?;
    Ok(axum::Json(SecretList { items: all.into_iter().map(|one| about(one, now)).collect() }))
}

/// Keeps a secret; its value is told to nobody again.
#[utoipa::path(post, path = "/api/v1/secrets", tag = "secrets", request_body = AddSecretRequest, responses((status = 201, body = SecretAbout)))]
pub(crate) async fn add(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<AddSecretRequest>,
) -> Made<SecretAbout> {
    const ACTION: &str = "secret.add";
    let value = Secret::new(body.value.into_text().into_bytes());
    let name: SecretName = kept(&app, &who, ACTION, "name", &body.name).await?;
    let owner = match &body.owner {
        Some(text) => field(&app, &who, ACTION, "owner", text).await?,
        None => SecretOwner::User(who.user()),
    };
    let now = app.runtime.clock().now();
    let fault = if value.expose().is_empty() || value.expose().len() > MOST_VALUE {
        Some("`value` has 1 to 65536 bytes")
    } else if value.expose().contains(&0) {
        Some("`value`: a NUL character cannot be given to a program")
    } else if body.hosts.len() > MOST_HOSTS {
        Some("`hosts` are at most 32")
    } else if body.expires.is_some_and(|expires| expires <= now) {
        Some("`expires` is over already")
    } else {
        None
    };
    if let Some(fault) = fault {
        return Err(refused(&app, &who, ACTION, fault.into()).await);
    }
    let mut hosts: Vec<HostPattern> = Vec::new();
    for host in &body.hosts {
        hosts.push(kept(&app, &who, ACTION, "hosts", host).await?);
    }
    let new = NewSecret { owner, name, hosts, expires: body.expires, replace: body.replace };
    let warning = match app.runtime.masking(&value) {
        Masking::Exact => None,
        Masking::TooShort => Some(
            "the value is so short that it cannot be told from ordinary text: where it appears it is not masked",
        ),
        Masking::TooLong => Some("the value is too long to be looked for: where it appears it is not masked"),
    };
    let row = app.runtime.add_secret(&who, new, value).await?;
    let view =
        SecretView { name: row.name.clone(), source: row.owner.into(), effective: None, about: Some(row) };
    let told = SecretAbout { warning: warning.map(str::to_owned), ..about(view, now) };
    Ok((StatusCode::CREATED, axum::Json(told)))
}

/// Removes a secret.
#[utoipa::path(delete, path = "/api/v1/secrets/{owner}/{name}", tag = "secrets",
    params(("owner" = String, Path, pattern = "^(?:daemon|usr_[0-9a-f]{32}|wt_[0-9a-f]{32})$"), ("name" = String, Path, pattern = "^[A-Za-z_][A-Za-z0-9_]{0,127}$")),
    responses((status = 204)))]
pub(crate) async fn remove(
    State(app): State<App>,
    Caller(who): Caller,
    Ids(owner, name): Ids<SecretOwner, SecretName>,
) -> Result<StatusCode, Problem> {
    app.runtime.remove_secret(&who, owner, name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Does one step of a rotation: a new master key, a new epoch, a new data key for every value. Call it until it is
/// finished; one that was interrupted goes on.
#[utoipa::path(post, path = "/api/v1/secrets/rotation", tag = "secrets", request_body = RotateRequest, responses((status = 200, body = RotationStep)))]
pub(crate) async fn rotate(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<RotateRequest>,
) -> Answer<RotationStep> {
    let next = next_master(&app, &who, body.new_key_file.as_deref()).await?;
    let step = app.runtime.rotate_keys(&who, next, !body.resume).await?;
    Ok(axum::Json(RotationStep {
        epoch: step.epoch,
        key: app.runtime.ring().master().to_string(),
        begun: step.begun,
        done: step.done,
        left: step.left,
        damaged: step.damaged.count,
        damaged_first: step.damaged.first,
        finished: step.finished,
        own_root: step.own_root,
        same_passphrase: step.same_passphrase,
    }))
}

/// Where the new master key comes from. A file is looked at only for those who may rotate.
async fn next_master(app: &App, who: &Principal, given: Option<&str>) -> Result<Option<NextMaster>, Problem> {
    const ACTION: &str = "secret.rotate";
    let Some(given) = given else {
        return match &app.master {
            MasterFrom::File(file) => Ok(Some(NextMaster::InPlace(file.clone()))),
            // One that cannot be read now is not needed by a rotation that goes on.
            MasterFrom::Passphrase(from) => Ok(from.read().ok().map(NextMaster::SamePassphrase)),
            MasterFrom::Environment | MasterFrom::Credential(_) | MasterFrom::Program(_) => Ok(None),
        };
    };
    let action = access::action_named(ACTION).ok_or_else(Problem::internal)?;
    let gate = app.runtime.gate();
    gate.check(who, action, access::Resource::Installation, access::Asks::default()).await?;
    let file = Path::new(given);
    if !file.is_absolute() {
        return Err(refused(app, who, ACTION, "`new_key_file` is a path from the root".into()).await);
    }
    // The new one is of the same kind as the present one.
    let read = match &app.master {
        MasterFrom::Passphrase(_) => read_passphrase(file, Closed::Private).map(NextMaster::GivenPassphrase),
        MasterFrom::Environment
        | MasterFrom::File(_)
        | MasterFrom::Credential(_)
        | MasterFrom::Program(_) => read_file(file).map(NextMaster::Given),
    };
    match read {
        Ok(next) => Ok(Some(next)),
        Err(error) => {
            let cause =
                std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
            Err(refused(app, who, ACTION, format!("{error}{cause}")).await)
        }
    }
}
