//! Sessions and their tasks. What happens in them is in [`super::steps`], what waits there for a person in [`super::approvals`].

use api::{
    Agent, AgentList, CreateSessionRequest, Origin, PromptRequest, Session, SessionPage, Stopping, Task,
    TaskPage,
};
use axum::extract::State;
use axum::http::StatusCode;
use model::{AgentName, DisplayName, SessionId, TaskId, UserId, WorktreeId};
use runtime::{MOST_PROMPT, NewSession, SessionFilter};
use utoipa::IntoParams;
use zeroize::Zeroizing;

use super::{Answer, Made, cursor, limit};
use crate::app::App;
use crate::extract::{Caller, Id, Ids, Json, Query, field, kept, refused};
use crate::problem::Problem;

/// Characters of one word of a command, and words.
const MOST_WORD: usize = 4_096;
const MOST_WORDS: usize = 64;

pub(super) fn session(row: runtime::Session) -> Session {
    Session {
        id: row.id().to_string(),
        worktree: row.worktree().to_string(),
        creator: row.creator().to_string(),
        agent: row.agent.to_string(),
        title: row.title.to_string(),
        mode: row.mode,
        model: row.model,
        command: row.command,
        held: row.held.map(|cause| cause.to_string()),
        at_work: row.at_work.map(|task| task.to_string()),
        queued: row.queued,
        steps: row.steps,
        created_at: row.created_at,
        closed_at: row.closed_at,
        origin: row.origin.map(|from| Origin {
            parent: from.parent.to_string(),
            born: from.born.to_string(),
            at: from.at,
        }),
        depth: row.depth,
        imported: row.imported,
    }
}

pub(super) fn task(row: runtime::Task) -> Task {
    Task {
        id: row.id.to_string(),
        session: row.session.to_string(),
        seq: row.seq,
        asked_by: row.asked_by.to_string(),
        state: row.state.to_string(),
        prompt: row.shown,
        run: row.run,
        why: row.why,
        created_at: row.created_at,
        started_at: row.started_at,
        stopping_at: row.stopping_at,
        ended_at: row.ended_at,
        undone_at: row.undone_at,
        tree_before: None,
        tree_after: None,
    }
}

fn stood(tree: runtime::Standing) -> api::TreeState {
    let runtime::Standing { branch, commit, dirty, at } = tree;
    api::TreeState { branch, commit, dirty, at }
}

fn stopping(what: &runtime::Stopping) -> Stopping {
    let (task, state) = match what {
        runtime::Stopping::Cancelled(task) => (Some(task.to_string()), "cancelled"),
        runtime::Stopping::AtWork(task) => (Some(task.to_string()), "ending"),
        runtime::Stopping::Nothing => (None, "nothing"),
    };
    Stopping { task, state: state.to_owned() }
}

fn agent(agent: runtime::AgentView) -> Agent {
    Agent {
        name: agent.name,
        title: agent.title,
        modes: agent.modes,
        secrets: agent.secrets,
        needs: agent.needs,
        program: agent.program,
        installed: agent.is_installed,
        hosts: agent.hosts,
        presets: agent.presets,
        version: agent.version,
        fault: agent.fault,
    }
}

/// The agents that sessions can be opened with.
#[utoipa::path(get, path = "/api/v1/agents", tag = "sessions", responses((status = 200, body = AgentList)))]
pub(crate) async fn agents(State(app): State<App>, Caller(who): Caller) -> Answer<AgentList> {
    let all = app.runtime.agents(&who).await?;
    Ok(axum::Json(AgentList { items: all.into_iter().map(agent).collect() }))
}

/// The same, after each that is installed was started in a sandbox without a network, to hear which version it is.
#[utoipa::path(post, path = "/api/v1/agents/check", tag = "sessions", responses((status = 200, body = AgentList)))]
pub(crate) async fn check(State(app): State<App>, Caller(who): Caller) -> Answer<AgentList> {
    let all = app.runtime.check_agents(&who).await?;
    Ok(axum::Json(AgentList { items: all.into_iter().map(agent).collect() }))
}

/// Which sessions.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionQuery {
    /// The `next` of the page before.
    #[param(pattern = r#"^ses_[0-9a-f]{32}$"#)]
    after: Option<String>,
    /// How many, 50 unless told.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<i64>,
    /// In this worktree only.
    #[param(pattern = r#"^wt_[0-9a-f]{32}$"#)]
    worktree: Option<String>,
    /// Of this person only.
    #[param(pattern = r#"^usr_[0-9a-f]{32}$"#)]
    creator: Option<String>,
    /// Also those that are finished.
    closed: Option<bool>,
}

/// Lists the sessions that the caller may know of, the newest first.
#[utoipa::path(get, path = "/api/v1/sessions", tag = "sessions", params(SessionQuery), responses((status = 200, body = SessionPage)))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(who): Caller,
    Query(query): Query<SessionQuery>,
) -> Answer<SessionPage> {
    fn one<T: std::str::FromStr<Err: std::fmt::Display>>(
        name: &str,
        text: Option<String>,
    ) -> Result<Option<T>, Problem> {
        text.map(|text| text.parse().map_err(|error| Problem::unprocessable(format!("`{name}`: {error}"))))
            .transpose()
    }
    let most = limit(query.limit, 100)?;
    let worktree: Option<WorktreeId> = one("worktree", query.worktree)?;
    let creator: Option<UserId> = one("creator", query.creator)?;
    let filter = SessionFilter { worktree, creator, closed: query.closed.unwrap_or(false) };
    let page = app.runtime.sessions(&who, &filter, cursor(query.after)?, most).await?;
    let items = page.items.into_iter().map(session).collect();
    Ok(axum::Json(SessionPage { items, next: page.next.map(|id| id.to_string()) }))
}

/// Whether an agent can be told these.
pub(super) fn settings_fit(
    mode: Option<&str>,
    model: Option<&str>,
    command: &[String],
) -> Result<(), String> {
    for (name, word) in [("mode", mode), ("model", model)] {
        if let Some(word) = word
            && (word.is_empty()
                || word.len() > 80
                || !word.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:/-".contains(&b))
                || crate::logs::holds_secret(word))
        {
            return Err(format!("`{name}`: expected 1 to 80 letters, digits and `._:/-`"));
        }
    }
    let fits =
        |word: &String| word.len() <= MOST_WORD && !word.contains('\0') && !crate::logs::holds_secret(word);
    // An option can say what the word behind it is.
    let together = || !crate::logs::holds_secret(&command.join(" "));
    match command.len() <= MOST_WORDS && command.iter().all(fits) && together() {
        true => Ok(()),
        false => Err(format!(
            "`command`: at most {MOST_WORDS} words of {MOST_WORD} characters, none of which holds a secret"
        )),
    }
}

/// What is asked, if it can be.
pub(super) fn prompt_fits(prompt: api::Hidden) -> Result<Zeroizing<String>, String> {
    let prompt = Zeroizing::new(prompt.into_text());
    let length = prompt.chars().take(MOST_PROMPT + 1).count();
    // As the description says it: what regular expressions call a space, and the next line of old terminals.
    let is_space = |c: char| c.is_whitespace() || c == '\u{feff}';
    match prompt.chars().all(is_space) || length > MOST_PROMPT {
        true => Err(format!("`prompt`: 1 to {MOST_PROMPT} characters, not only spaces")),
        false => Ok(prompt),
    }
}

/// Opens a session in a worktree; nothing runs before something is asked.
#[utoipa::path(post, path = "/api/v1/sessions", tag = "sessions", request_body = CreateSessionRequest,
    responses((status = 201, body = Session)))]
pub(crate) async fn create(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<CreateSessionRequest>,
) -> Made<Session> {
    const ACTION: &str = "session.create";
    let worktree: WorktreeId = field(&app, &who, ACTION, "worktree", &body.worktree).await?;
    let agent: AgentName = field(&app, &who, ACTION, "agent", &body.agent).await?;
    let title: DisplayName =
        kept(&app, &who, ACTION, "title", body.title.as_deref().unwrap_or(&body.agent)).await?;
    if let Err(why) = settings_fit(body.mode.as_deref(), body.model.as_deref(), &body.command) {
        return Err(refused(&app, &who, ACTION, why).await);
    }
    let new =
        NewSession { worktree, agent, title, mode: body.mode, model: body.model, command: body.command };
    Ok((StatusCode::CREATED, axum::Json(session(app.runtime.create_session(&who, new).await?))))
}

/// One session.
#[utoipa::path(get, path = "/api/v1/sessions/{session}", tag = "sessions", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$")), responses((status = 200, body = Session)))]
pub(crate) async fn read(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
) -> Answer<Session> {
    Ok(axum::Json(session(app.runtime.session(&who, id).await?)))
}

/// Asks the session's agent for something: kept when this answers, begun when its turn comes.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/tasks", tag = "sessions", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$")), request_body = PromptRequest, responses((status = 201, body = Task)))]
pub(crate) async fn prompt(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
    Json(body): Json<PromptRequest>,
) -> Made<Task> {
    let prompt = match prompt_fits(body.prompt) {
        Ok(prompt) => prompt,
        Err(why) => return Err(refused(&app, &who, "session.prompt", why).await),
    };
    Ok((StatusCode::CREATED, axum::Json(task(app.runtime.prompt_session(&who, id, prompt).await?))))
}

/// Which page of a session's tasks or steps.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlacePaging {
    /// The `next` of the page before, or the place of the last one that was seen.
    #[param(minimum = 0)]
    pub(crate) after: Option<i64>,
    /// How many, 50 unless told.
    #[param(minimum = 1, maximum = 500)]
    pub(crate) limit: Option<i64>,
}

impl PlacePaging {
    pub(crate) fn read(&self) -> Result<(i64, i64), Problem> {
        match self.after.unwrap_or(0) {
            after @ 0.. => Ok((after, limit(self.limit, 500)?)),
            _ => Err(Problem::unprocessable("`after` is not a cursor of this list")),
        }
    }
}

/// The tasks of a session, the oldest first.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/tasks", tag = "sessions", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$"), PlacePaging), responses((status = 200, body = TaskPage)))]
pub(crate) async fn tasks(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
    Query(paging): Query<PlacePaging>,
) -> Answer<TaskPage> {
    let (after, most) = paging.read()?;
    let page = app.runtime.tasks(&who, id, after, most).await?;
    let mut items: Vec<Task> = page.items.into_iter().map(task).collect();
    for tree in app.runtime.task_trees(&who, id, after, most).await? {
        if let Some(one) = items.iter_mut().find(|one| one.id == tree.task.to_string()) {
            (one.tree_before, one.tree_after) = (tree.began.map(stood), tree.ended.map(stood));
        }
    }
    Ok(axum::Json(TaskPage { items, next: page.next }))
}

/// Ends one task: takes it from the queue, or ends it where it is at work.
#[utoipa::path(delete, path = "/api/v1/sessions/{session}/tasks/{task}", tag = "sessions", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$"), ("task" = String, Path, pattern = "^tsk_[0-9a-f]{32}$")), responses((status = 200, body = Stopping)))]
pub(crate) async fn stop_task(
    State(app): State<App>,
    Caller(who): Caller,
    Ids(id, task): Ids<SessionId, TaskId>,
) -> Answer<Stopping> {
    Ok(axum::Json(stopping(&app.runtime.stop_session(&who, id, Some(task)).await?)))
}

/// Ends what is at work in a session; what waits stays, behind a hold.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/stop", tag = "sessions", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$")), responses((status = 200, body = Stopping)))]
pub(crate) async fn stop(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
) -> Answer<Stopping> {
    Ok(axum::Json(stopping(&app.runtime.stop_session(&who, id, None).await?)))
}

/// Lets a session go on with its queue.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/resume", tag = "sessions", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$")), responses((status = 200, body = Session)))]
pub(crate) async fn resume(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
) -> Answer<Session> {
    Ok(axum::Json(session(app.runtime.resume_session(&who, id).await?)))
}

/// Finishes a session: what is at work ends, what waits is dropped.
#[utoipa::path(post, path = "/api/v1/sessions/{session}/close", tag = "sessions", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$")), responses((status = 200, body = Session)))]
pub(crate) async fn close(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
) -> Answer<Session> {
    Ok(axum::Json(session(app.runtime.close_session(&who, id).await?)))
}
