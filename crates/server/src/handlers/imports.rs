//! Transcripts of elsewhere that become sessions, a page at a time.

use api::{ImportRequest, Session};
use axum::extract::State;
use axum::http::StatusCode;
use model::{DisplayName, SessionId, WorktreeId};
use runtime::{ImportLine, ImportPage};
use zeroize::Zeroizing;

use super::Made;
use super::sessions::session;
use crate::app::App;
use crate::extract::{Caller, Json, field, kept, refused};

const ACTION: &str = "session.import";
/// Lines of a page, and characters of why one is missing.
const MOST_LINES: usize = 500;
const MOST_WHY: usize = 200;
/// How a session is shown that nobody named.
const TITLE: &str = "imported transcript";

/// Keeps a page of a transcript of Claude Code. The first page makes a session, which is closed and for reading; the others name it.
#[utoipa::path(post, path = "/api/v1/sessions/import", tag = "sessions", request_body = ImportRequest,
    responses((status = 201, body = Session)))]
pub(crate) async fn import(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<ImportRequest>,
) -> Made<Session> {
    let worktree: WorktreeId = field(&app, &who, ACTION, "worktree", &body.worktree).await?;
    let made: Option<SessionId> = match &body.session {
        Some(text) => Some(field(&app, &who, ACTION, "session", text).await?),
        None => None,
    };
    let title: DisplayName =
        kept(&app, &who, ACTION, "title", body.title.as_deref().unwrap_or(TITLE)).await?;
    if body.after < 0 || body.lines.len() > MOST_LINES {
        let why = format!("`lines`: at most {MOST_LINES}; `after`: how many came before");
        return Err(refused(&app, &who, ACTION, why).await);
    }
    let is_lost = |at: usize| body.lost.iter().any(|lost| usize::try_from(*lost) == Ok(at));
    let lost: Vec<bool> = (0..body.lines.len()).map(is_lost).collect();
    let lines = body.lines.into_iter().zip(lost).map(|(line, is_lost)| {
        let text = Zeroizing::new(line.into_text());
        match is_lost {
            true => ImportLine::Lost(text.chars().take(MOST_WHY).collect()),
            false => ImportLine::Text(text),
        }
    });
    let (after, last, lines) = (body.after, body.last, lines.collect());
    let page = ImportPage { worktree, session: made, title, after, lines, last };
    Ok((StatusCode::CREATED, axum::Json(session(app.runtime.import_session(&who, page).await?))))
}
