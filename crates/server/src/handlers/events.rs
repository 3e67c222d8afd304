//! Live events: tickets, and the stream over server-sent events. The socket is in [`super::socket`].

use std::convert::Infallible;
use std::time::Duration;

use api::{Hidden, Ticket};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::{Event as SseEvent, KeepAlive};
use futures_util::Stream;
use model::UserId;
use runtime::{ActError, EventError, Follower};
use tokio::sync::{mpsc, oneshot, watch};
use utoipa::IntoParams;

use super::Answer;
pub(crate) use super::socket::*;
use crate::app::App;
use crate::extract::{Caller, Query};
use crate::measure::Follower as Counted;
use crate::problem::Problem;
use crate::seats::Seat;

/// A reader that takes longer than this for one event is cut.
pub(crate) const SLOW: Duration = Duration::from_secs(10);
const UNREADABLE: &str = "events cannot be read now; reconnect with the last id";
const GONE: &str = "gone";

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
        session: event.session.map(|id| id.to_string()),
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
    let follower = app.runtime.follow(&who, resumed(&headers)?.or(query.after)).await?;
    streamed(&app, &who, follower)
}

/// Where a browser that reconnects wants to go on.
pub(crate) fn resumed(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    match headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default().parse()) {
        None => Ok(None),
        Some(Ok(seq)) => Ok(Some(seq)),
        Some(Err(_)) => Err(Problem::unprocessable("`Last-Event-ID` is not a number that was given")),
    }
}

/// Something that is followed from a place on, as long as that is allowed.
pub(crate) trait Followed: Send + 'static {
    /// One thing of it.
    type Item: Send + 'static;
    /// Waits for the next.
    fn next(&mut self) -> impl Future<Output = Result<Vec<Self::Item>, EventError>> + Send;
    /// Whether what was given may no longer be for this caller.
    fn is_stale(&self) -> bool;
    /// Goes back, so that this one comes next.
    fn back_before(&mut self, item: &Self::Item);
    /// As it is sent.
    fn sent(item: &Self::Item) -> SseEvent;
}

impl Followed for Follower {
    type Item = model::Event;

    async fn next(&mut self) -> Result<Vec<model::Event>, EventError> {
        Follower::next(self).await
    }

    fn is_stale(&self) -> bool {
        Follower::is_stale(self)
    }

    fn back_before(&mut self, item: &model::Event) {
        self.back_to(item.seq.saturating_sub(1));
    }

    fn sent(item: &model::Event) -> SseEvent {
        let plain = SseEvent::default().id(item.seq.to_string()).event(item.kind.word());
        plain.data(serde_json::to_string(&event(item)).unwrap_or_default())
    }
}

/// What is followed, as server-sent events.
pub(crate) fn streamed<F: Followed>(
    app: &App,
    who: &access::Principal,
    follower: F,
) -> Result<Sse<impl Stream<Item = Result<SseEvent, Infallible>> + use<F>>, Problem> {
    let seat = seat(app, who)?;
    let counted = Counted::new(Counted::STREAM);
    let live = Live { follower, stopping: app.stopping.clone(), seat, counted };
    let (send, receive) = mpsc::channel(1);
    let (end, ended_by) = oneshot::channel();
    tokio::spawn(async move {
        let why = live.run(send).await;
        end.send(why)
    });
    let stream = futures_util::stream::unfold(Some((receive, ended_by)), async |open| {
        let (mut receive, mut ended_by) = open?;
        tokio::select! {
            // The end comes first: what still waits may no longer be for this caller.
            biased;
            why = &mut ended_by => Some((Ok(ended(why.unwrap_or(UNREADABLE))), None)),
            Some(item) = receive.recv() => Some((Ok(F::sent(&item)), Some((receive, ended_by)))),
        }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

/// A place among the live connections.
pub(crate) fn seat(app: &App, who: &access::Principal) -> Result<Seat<UserId>, Problem> {
    app.sockets.take(who.user()).map_err(|full| full.problem("live connections"))
}

/// One stream under way. It runs whether or not the reader takes anything, so that it sees when it is over.
struct Live<F> {
    follower: F,
    stopping: watch::Receiver<bool>,
    #[expect(dead_code, reason = "holding it is its use")]
    seat: Seat<UserId>,
    #[expect(dead_code, reason = "holding it is its use")]
    counted: Counted,
}

impl<F: Followed> Live<F> {
    /// Gives events to the reader, until there is a reason to end.
    async fn run(mut self, send: mpsc::Sender<F::Item>) -> &'static str {
        loop {
            let next = tokio::select! {
                next = self.follower.next() => next,
                () = send.closed() => return GONE,
                () = crate::up::stopped(&mut self.stopping) => {
                    return "the daemon is shutting down; reconnect with the last id";
                }
            };
            let items = match next {
                Ok(items) => items,
                Err(error) => return why_ended(&error),
            };
            for item in items {
                let place = match tokio::time::timeout(SLOW, send.reserve()).await {
                    Ok(Ok(place)) => place,
                    Ok(Err(_)) => return GONE,
                    Err(_) => return "too slow; reconnect with the last id",
                };
                // A slow reader does not outlive the right to read: what waited too long is judged again.
                if self.follower.is_stale() {
                    self.follower.back_before(&item);
                    break;
                }
                place.send(item);
            }
        }
    }
}

/// What a follower is told at the end.
pub(crate) fn why_ended(error: &EventError) -> &'static str {
    match error {
        EventError::Act(ActError::Denied(_)) => "you may no longer follow; sign in again",
        EventError::Act(_) | EventError::TooOld(_) | EventError::Ahead(_) => UNREADABLE,
    }
}

fn ended(why: &str) -> SseEvent {
    SseEvent::default().event("ended").data(why)
}
