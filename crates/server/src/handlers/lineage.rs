//! Sessions that come from others, the order of what waits, and what is taken back.

use api::{
    ForkRequest, Lineage, ReorderRequest, Session, SpawnRequest, Spawned, Task, TaskList, UndoRequest,
};
use axum::extract::State;
use axum::http::StatusCode;
use model::{AgentName, DisplayName, SessionId, TaskId};
use runtime::NewChild;

use super::sessions::{prompt_fits, session, settings_fit, task};
use super::{Answer, Made};
use crate::app::App;
use crate::extract::{Caller, Id, Json, field, kept, refused};

/// Tasks that can be named at once.
const MOST_TASKS: usize = 1_000;

/// Goes on from a place of a session's conversation, in a session of the caller's own.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/fork", tag = "lineage", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$")), request_body = ForkRequest, responses((status = 201, body = Session)))]
pub(crate) async fn fork(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
    Json(body): Json<ForkRequest>,
) -> Made<Session> {
    const ACTION: &str = "session.fork";
    let title: Option<DisplayName> = match body.title.as_deref() {
        Some(title) => Some(kept(&app, &who, ACTION, "title", title).await?),
        None => None,
    };
    if body.at.is_some_and(i64::is_negative) {
        return Err(refused(&app, &who, ACTION, "`at`: the place of a step, 0 or more".into()).await);
    }
    let made = app.runtime.fork_session(&who, id, body.at, title).await?;
    Ok((StatusCode::CREATED, axum::Json(session(made))))
}

/// Opens a session for another, within what that one may, and asks it for something.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/spawn", tag = "lineage", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$")), request_body = SpawnRequest, responses((status = 201, body = Spawned)))]
pub(crate) async fn spawn(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
    Json(body): Json<SpawnRequest>,
) -> Made<Spawned> {
    const ACTION: &str = "session.spawn";
    let agent: Option<AgentName> = match body.agent.as_deref() {
        Some(agent) => Some(field(&app, &who, ACTION, "agent", agent).await?),
        None => None,
    };
    let title: Option<DisplayName> = match body.title.as_deref() {
        Some(title) => Some(kept(&app, &who, ACTION, "title", title).await?),
        None => None,
    };
    let fits = settings_fit(body.mode.as_deref(), body.model.as_deref(), &body.command);
    let prompt = match fits.and_then(|()| prompt_fits(body.prompt)) {
        Ok(prompt) => prompt,
        Err(why) => return Err(refused(&app, &who, ACTION, why).await),
    };
    let (mode, model, command) = (body.mode, body.model, body.command);
    let child = NewChild { agent, title, mode, model, command, prompt, reports: body.report };
    let (made, first) = app.runtime.spawn_session(&who, id, child).await?;
    Ok((StatusCode::CREATED, axum::Json(Spawned { session: session(made), task: task(first) })))
}

/// Where a session comes from and what comes from it.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/lineage", tag = "lineage", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$")), responses((status = 200, body = Lineage)))]
pub(crate) async fn read(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
) -> Answer<Lineage> {
    let all = app.runtime.lineage(&who, id).await?;
    let rows = |rows: Vec<runtime::Session>| rows.into_iter().map(session).collect();
    Ok(axum::Json(Lineage {
        ancestors: rows(all.ancestors),
        descendants: rows(all.descendants),
        more: all.more,
    }))
}

/// Puts what waits in another order. All of it is named; if something else waits by now, nothing changes.
#[utoipa::path(put, path = "/api/v1/sessions/{session}/queue", tag = "lineage", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$")), request_body = ReorderRequest, responses((status = 200, body = TaskList)))]
pub(crate) async fn reorder(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
    Json(body): Json<ReorderRequest>,
) -> Answer<TaskList> {
    const ACTION: &str = "session.reorder";
    if body.tasks.len() > MOST_TASKS {
        let why = format!("`tasks`: at most {MOST_TASKS}");
        return Err(refused(&app, &who, ACTION, why).await);
    }
    let mut tasks: Vec<TaskId> = Vec::with_capacity(body.tasks.len());
    for one in &body.tasks {
        tasks.push(field(&app, &who, ACTION, "tasks", one).await?);
    }
    let rows = app.runtime.reorder_tasks(&who, id, tasks).await?;
    Ok(axum::Json(TaskList { items: rows.into_iter().map(task).collect() }))
}

/// Takes back what a task changed in the tree, or brings it back.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/undo", tag = "lineage", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$")), request_body = UndoRequest, responses((status = 200, body = Task)))]
pub(crate) async fn undo(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
    Json(body): Json<UndoRequest>,
) -> Answer<Task> {
    let which: Option<TaskId> = match body.task.as_deref() {
        Some(text) => Some(field(&app, &who, "session.undo", "task", text).await?),
        None => None,
    };
    Ok(axum::Json(task(app.runtime.undo_task(&who, id, which, body.again).await?)))
}
