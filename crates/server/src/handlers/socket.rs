//! The stream over a WebSocket, bounded and tidy.
//!
//! A socket opens only from our own origin and with a credential or a ticket (the pipeline has checked
//! those). Text only; the server sends events, the client may send `{"type":"ping"}`.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::UserId;
use runtime::{ActError, EventError, Follower};

use super::events::{After, SLOW, event, seat, why_ended};
use crate::app::App;
use crate::extract::{Caller, Query};
use crate::measure::Follower as Counted;
use crate::pipeline::our_origin;
use crate::problem::Problem;
use crate::seats::Seat;

const NO_PONG: Duration = Duration::from_secs(60);
const IDLE: Duration = Duration::from_secs(300);
const MINUTE: Duration = Duration::from_secs(60);
const MESSAGES_PER_MINUTE: usize = 600;
/// Pongs that may come for each ping, and how many may be saved up.
const PONGS: u32 = 2;
const MOST_PONGS: u32 = 10;

mod code {
    pub(super) const NORMAL: u16 = 1000;
    pub(super) const AWAY: u16 = 1001;
    pub(super) const POLICY: u16 = 1008;
    pub(super) const TOO_BIG: u16 = 1009;
    pub(super) const AGAIN: u16 = 1013;
}

/// The live stream over a WebSocket.
#[utoipa::path(get, path = "/api/v1/events/socket", tag = "events", params(After),
    responses((status = 101, description = "the socket is open")))]
pub(crate) async fn socket(
    State(app): State<App>,
    Caller(who): Caller,
    Query(query): Query<After>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let origin = headers.get(header::ORIGIN);
    if !origin.is_some_and(|origin| our_origin(&app, origin)) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            api::Code::Forbidden,
            "a socket opens only from our own origin",
        ));
    }
    let upgrade = upgrade.map_err(|_| Problem::bad_request("this path is a WebSocket"))?;
    let follower = app.runtime.follow(&who, query.after).await?;
    let seat = seat(&app, &who)?;
    let most = app.settings.socket_message_bytes;
    let ping = Duration::from_secs(app.settings.socket_ping_seconds);
    let upgrade = upgrade.protocols(["palisade.v1"]).max_message_size(most).max_frame_size(most);
    Ok(upgrade.on_upgrade(move |socket| serve(app, socket, follower, ping, seat)).into_response())
}

/// One open socket.
struct Open {
    socket: WebSocket,
    pulse: Pulse,
}

/// When the other side last gave a sign of life, and how often it spoke.
struct Pulse {
    last_pong: Instant,
    last_use: Instant,
    messages: VecDeque<Instant>,
    /// How many pongs may still come.
    pongs: u32,
}

impl Pulse {
    fn new(now: Instant) -> Self {
        Self { last_pong: now, last_use: now, messages: VecDeque::new(), pongs: 0 }
    }

    fn used(&mut self, now: Instant) {
        self.last_use = now;
    }

    /// Whether the socket may stay open when a ping is due.
    fn check(&self, now: Instant) -> Result<(), Close> {
        if now.duration_since(self.last_pong) > NO_PONG {
            return Err(Close(code::POLICY, "no answer to pings"));
        }
        if now.duration_since(self.last_use) > IDLE {
            return Err(Close(code::NORMAL, "idle; reconnect with the last sequence number"));
        }
        Ok(())
    }

    /// A ping was sent: answers to it may come.
    fn pinged(&mut self) {
        self.pongs = self.pongs.saturating_add(PONGS).min(MOST_PONGS);
    }

    /// Counts an answer to a ping. Answers that nobody asked for are work too.
    fn ponged(&mut self, now: Instant) -> Result<(), Close> {
        self.pongs = self.pongs.checked_sub(1).ok_or(Close(code::POLICY, "too many pongs"))?;
        self.last_pong = now;
        Ok(())
    }

    /// Counts a message in the sliding minute.
    fn spoke(&mut self, now: Instant) -> Result<(), Close> {
        self.last_use = now;
        while self.messages.front().is_some_and(|first| now.duration_since(*first) > MINUTE) {
            self.messages.pop_front();
        }
        if self.messages.len() >= MESSAGES_PER_MINUTE {
            return Err(Close(code::POLICY, "too many messages"));
        }
        self.messages.push_back(now);
        Ok(())
    }
}

/// Why a socket is closed.
#[derive(Debug, PartialEq, Eq)]
struct Close(u16, &'static str);

/// What comes next for a follower, and the follower back: a future that stays the same while messages arrive.
async fn next(mut follower: Follower) -> (Follower, Result<Vec<model::Event>, EventError>) {
    let events = follower.next().await;
    (follower, events)
}

async fn serve(app: App, socket: WebSocket, follower: Follower, ping: Duration, seat: Seat<UserId>) {
    let _counted = Counted::new(Counted::SOCKET);
    let mut open = Open { socket, pulse: Pulse::new(Instant::now()) };
    let mut stopping = app.stopping.clone();
    let mut pings = tokio::time::interval(ping);
    let mut coming = pin!(next(follower));
    let Close(code, reason) = loop {
        let step = tokio::select! {
            (mut follower, events) = &mut coming => match events {
                Ok(events) => {
                    let sent = open.send_events(&mut follower, &events).await;
                    coming.set(next(follower));
                    sent
                }
                Err(error @ EventError::Act(ActError::Denied(_))) => Err(Close(code::POLICY, why_ended(&error))),
                Err(error) => Err(Close(code::AGAIN, why_ended(&error))),
            },
            message = open.socket.recv() => open.received(message).await,
            _ = pings.tick() => open.ping().await,
            () = crate::up::stopped(&mut stopping) => Err(Close(code::AWAY, "the daemon is shutting down")),
        };
        if let Err(close) = step {
            break close;
        }
    };
    let frame = CloseFrame { code, reason: reason.into() };
    drop(tokio::time::timeout(SLOW, open.socket.send(Message::Close(Some(frame)))).await);
    drop(seat);
}

impl Open {
    async fn send(&mut self, message: Message) -> Result<(), Close> {
        match tokio::time::timeout(SLOW, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Close(code::NORMAL, "gone")),
            Err(_) => Err(Close(code::POLICY, "too slow")),
        }
    }

    /// A slow reader does not outlive the right to read: what waits too long is judged again.
    async fn send_events(&mut self, follower: &mut Follower, events: &[model::Event]) -> Result<(), Close> {
        for one in events {
            if follower.is_stale() {
                follower.back_to(one.seq.saturating_sub(1));
                return Ok(());
            }
            self.pulse.used(Instant::now());
            let text = serde_json::to_string(&event(one)).unwrap_or_default();
            self.send(Message::Text(text.into())).await?;
        }
        Ok(())
    }

    async fn ping(&mut self) -> Result<(), Close> {
        self.pulse.check(Instant::now())?;
        self.pulse.pinged();
        self.send(Message::Ping(Vec::new().into())).await
    }

    async fn received(&mut self, message: Option<Result<Message, axum::Error>>) -> Result<(), Close> {
        let now = Instant::now();
        match message {
            None | Some(Ok(Message::Close(_))) => return Err(Close(code::NORMAL, "closed")),
            // The one error whose cause the other side should learn.
            Some(Err(error)) if error.to_string().contains("too long") => {
                return Err(Close(code::TOO_BIG, "the message is too large"));
            }
            Some(Err(_)) => return Err(Close(code::NORMAL, "closed")),
            Some(Ok(Message::Pong(_))) => return self.pulse.ponged(now),
            Some(Ok(Message::Ping(_) | Message::Text(_) | Message::Binary(_))) => {}
        }
        self.pulse.spoke(now)?;
        match message {
            Some(Ok(Message::Text(text))) => self.answer(text.as_str()).await,
            Some(Ok(Message::Binary(_))) => self.complain("this socket takes text only").await,
            _ => Ok(()),
        }
    }

    async fn answer(&mut self, text: &str) -> Result<(), Close> {
        let kind = serde_json::from_str::<serde_json::Value>(text).ok();
        match kind.as_ref().and_then(|value| value.get("type")).and_then(serde_json::Value::as_str) {
            Some("ping") => self.send(Message::Text(r#"{"type":"pong"}"#.into())).await,
            _ => self.complain("the only message there is is {\"type\":\"ping\"}").await,
        }
    }

    async fn complain(&mut self, what: &str) -> Result<(), Close> {
        let text = serde_json::json!({ "type": "error", "detail": what }).to_string();
        self.send(Message::Text(text.into())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gtw_04_silence_and_idleness_end_a_socket() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut pulse = Pulse::new(start);
        assert_eq!(pulse.check(after(60)), Ok(()));
        assert_eq!(pulse.check(after(61)), Err(Close(1008, "no answer to pings")));
        pulse.last_pong = after(300);
        assert_eq!(pulse.check(after(300)), Ok(()));
        assert_eq!(pulse.check(after(301)).unwrap_err().0, 1000, "idle");
        pulse.used(after(301));
        assert_eq!(pulse.check(after(301)), Ok(()));
    }

    #[test]
    fn gtw_04_pongs_answer_pings() {
        let start = Instant::now();
        let mut pulse = Pulse::new(start);
        assert_eq!(pulse.ponged(start), Err(Close(1008, "too many pongs")), "nobody asked");
        pulse.pinged();
        assert_eq!((pulse.ponged(start), pulse.ponged(start)), (Ok(()), Ok(())));
        assert!(pulse.ponged(start).is_err(), "two for one");
        (0..1_000).for_each(|_| pulse.pinged());
        let taken = (0..1_000).take_while(|_| pulse.ponged(start).is_ok()).count();
        assert_eq!(taken, 10, "few are saved up");
    }

    #[test]
    fn gtw_04_six_hundred_messages_a_minute_and_no_more() {
        let start = Instant::now();
        let mut pulse = Pulse::new(start);
        for n in 0..600 {
            assert_eq!(pulse.spoke(start + Duration::from_millis(n)), Ok(()));
        }
        assert_eq!(pulse.spoke(start + Duration::from_secs(59)), Err(Close(1008, "too many messages")));
        assert_eq!(pulse.spoke(start + Duration::from_millis(60_001)), Ok(()), "the window slides");
    }
}
