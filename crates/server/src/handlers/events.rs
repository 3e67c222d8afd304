//! Live events: tickets, and the stream over server-sent events. The socket is in [`super::socket`].

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use api::{Hidden, Ticket};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::{Event as SseEvent, KeepAlive};
use futures_util::Stream;
use runtime::{ActError, EventError, Follower};
use tokio::sync::{OwnedSemaphorePermit, watch};
use utoipa::IntoParams;

use super::Answer;
pub(crate) use super::socket::*;
use crate::app::App;
use crate::extract::{Caller, Query};
use crate::problem::Problem;

/// Where to begin.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct After {
    /// The last event that was seen; without it the stream begins now.
    #[param(minimum = 0)]
    pub(crate) after: Option<i64>,
}

/// An event as the wire shows it.
pub(crate) fn event(event: &model::Event) -> api::Event {
    api::Event {
        seq: event.seq,
        at: event.at,
        kind: event.kind.word().into(),
        worktree: event.worktree.map(|id| id.to_string()),
        user: event.user.map(|id| id.to_string()),
    }
}

/// A ticket for one socket, single use.
#[utoipa::path(post, path = "/api/v1/events/ticket", tag = "events", responses((status = 200, body = Ticket)))]
pub(crate) async fn ticket(State(app): State<App>, Caller(who): Caller) -> Answer<Ticket> {
    // Who may not follow gets no ticket.
    drop(app.runtime.follow(&who, None).await?);
    let ticket = app.runtime.auth().ticket(&who)?;
    Ok(axum::Json(Ticket { ticket: Hidden(ticket.expose().clone()), lasts_ms: 30_000 }))
}

/// Events after a cursor, as they happen, cut to what the caller may read at that moment.
#[utoipa::path(get, path = "/api/v1/events", tag = "events",
    params(After, ("last-event-id" = Option<String>, Header, description = "as browsers send it when they reconnect")),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(crate) async fn stream(
    State(app): State<App>,
    Caller(who): Caller,
    Query(query): Query<After>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<SseEvent, Infallible>>>, Problem> {
    let resumed = match headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default().parse()) {
        None => None,
        Some(Ok(seq)) => Some(seq),
        Some(Err(_)) => return Err(Problem::unprocessable("`Last-Event-ID` is not a number that was given")),
    };
    let follower = app.runtime.follow(&who, resumed.or(query.after)).await?;
    let held = app
        .sockets
        .clone()
        .try_acquire_owned()
        .map_err(|_| Problem::unavailable("too many live connections; try again later"))?;
    let live = Live { follower, waiting: VecDeque::new(), stopping: app.stopping.clone(), held };
    let stream = futures_util::stream::unfold(Some(live), async |live| {
        let mut live = live?;
        Some(match live.next().await {
            Ok(event) => (Ok(sent(&event)), Some(live)),
            Err(why) => (Ok(ended(why)), None),
        })
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

/// One stream under way.
struct Live {
    follower: Follower,
    waiting: VecDeque<model::Event>,
    stopping: watch::Receiver<bool>,
    #[expect(dead_code, reason = "holding it is its use")]
    held: OwnedSemaphorePermit,
}

impl Live {
    /// The next event, or why there is none any more. A slow reader does not outlive the right to read.
    async fn next(&mut self) -> Result<model::Event, &'static str> {
        loop {
            match self.waiting.pop_front() {
                Some(event) if self.follower.is_stale() => {
                    self.follower.back_to(event.seq.saturating_sub(1));
                    self.waiting.clear();
                }
                Some(event) => return Ok(event),
                None => {}
            }
            let next = tokio::select! {
                next = self.follower.next() => next,
                () = crate::up::stopped(&mut self.stopping) => {
                    return Err("the daemon is shutting down; reconnect with the last id");
                }
            };
            self.waiting.extend(next.map_err(|error| why_ended(&error))?);
        }
    }
}

/// What a follower is told at the end.
pub(crate) fn why_ended(error: &EventError) -> &'static str {
    match error {
        EventError::Act(ActError::Denied(_)) => "you may no longer follow; sign in again",
        EventError::Act(_) | EventError::TooOld(_) | EventError::Ahead(_) => {
            "events cannot be read now; reconnect with the last id"
        }
    }
}

fn sent(one: &model::Event) -> SseEvent {
    let plain = SseEvent::default().id(one.seq.to_string()).event(one.kind.word());
    let text = serde_json::to_string(&event(one)).unwrap_or_default();
    plain.data(text)
}

fn ended(why: &str) -> SseEvent {
    SseEvent::default().event("ended").data(why)
}

/// A follower with its place, for the socket.
pub(crate) async fn follower(
    app: &App,
    who: &access::Principal,
    after: Option<i64>,
) -> Result<Follower, Problem> {
    Ok(app.runtime.follow(who, after).await?)
}
