//! What happens in a session: pages of it, and the stream over server-sent events.

use std::convert::Infallible;
use std::sync::Arc;

use api::{Step, StepPage};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::Event as SseEvent;
use futures_util::Stream;
use model::SessionId;
use runtime::{EventError, SessionFollower};

use super::Answer;
use super::events::{After, Followed, resumed, streamed};
use super::sessions::PlacePaging;
use crate::app::App;
use crate::extract::{Caller, Id, Query};
use crate::problem::Problem;

fn step(step: &model::Step) -> Step {
    Step {
        seq: step.seq,
        at: step.at,
        task: step.task.map(|task| task.to_string()),
        kind: step.kind.to_string(),
        body: step.body.clone(),
    }
}

/// What happened in a session after a place, the oldest first.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/steps", tag = "steps", params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$"), PlacePaging), responses((status = 200, body = StepPage)))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
    Query(paging): Query<PlacePaging>,
) -> Answer<StepPage> {
    let (after, most) = paging.read()?;
    let page = app.runtime.steps(&who, id, after, most).await?;
    Ok(axum::Json(StepPage { items: page.items.iter().map(step).collect(), next: page.next }))
}

/// What happens in a session after a cursor, as it happens, as long as the caller may read it.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/stream", tag = "steps",
    params(("session" = String, Path, pattern = "^ses_[0-9a-f]{32}$"), After, ("last-event-id" = Option<String>, Header, description = "as browsers send it when they reconnect")),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(crate) async fn stream(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<SessionId>,
    Query(query): Query<After>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<SseEvent, Infallible>>>, Problem> {
    let follower = app.runtime.follow_session(&who, id, resumed(&headers)?.or(query.after)).await?;
    streamed(&app, &who, follower)
}

impl Followed for SessionFollower {
    type Item = Arc<model::Step>;

    async fn next(&mut self) -> Result<Vec<Self::Item>, EventError> {
        SessionFollower::next(self).await
    }

    fn is_stale(&self) -> bool {
        SessionFollower::is_stale(self)
    }

    fn back_before(&mut self, item: &Self::Item) {
        self.back_to(item.seq.saturating_sub(1));
    }

    fn sent(item: &Self::Item) -> SseEvent {
        let plain = SseEvent::default().id(item.seq.to_string()).event(item.kind.word());
        plain.data(serde_json::to_string(&step(item)).unwrap_or_default())
    }
}
