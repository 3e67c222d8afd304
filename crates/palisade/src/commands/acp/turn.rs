//! One prompt, from what an editor asks to the end of the task that it became.
//!
//! Invariant: the stream is gone on with behind the last step that was seen, whatever breaks it, so that the editor sees each step
//! once; a daemon that stays away is told of, and its task is left to it.

use std::time::{Duration, Instant};

use api::{Client, ClientError, Step};
use serde_json::Value;

use super::peer::{Fault, Peer};
use super::words::{self, When, Words};
use super::{Desk, Open};
use crate::failure::Failure;

/// How long a daemon may stay away.
const OUTAGE: Duration = Duration::from_mins(2);
/// Between two tries to connect: at first, and at most.
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(5);

/// How a task ended.
struct Ended {
    state: String,
    why: String,
}

/// Asks, tells what happens, and gives the reason why the turn ended.
pub(super) fn taken(desk: &Desk, open: &Open, text: &str) -> Result<&'static str, Fault> {
    let client = desk.client()?;
    let before = client.session(&open.id)?.steps;
    let task = client.prompt_session(&open.id, text)?.id;
    if open.begun(&task) {
        desk.stop(&open.id, &task);
    }
    let ended = followed(desk, open, &task, before);
    desk.peer.forget_all_of(&open.id);
    let Ended { state, why } = ended?;
    match state.as_str() {
        _ if open.is_cancelled() => Ok("cancelled"),
        "done" => Ok("end_turn"),
        "stopped" => Ok("cancelled"),
        other => Err(Fault::internal(format!("the task is {other}: {why}"))),
    }
}

fn followed(desk: &Desk, open: &Open, task: &str, mut last: i64) -> Result<Ended, Fault> {
    let mut words = Words::default();
    let (mut away, mut pause): (Option<Instant>, Duration) = (None, PAUSE);
    loop {
        let stream = desk.client().and_then(|client| Ok(client.follow_session(&open.id, last)?));
        match stream {
            Ok(stream) => {
                away = None;
                for step in stream.map_while(Result::ok) {
                    (last, pause) = (step.seq, PAUSE);
                    if let Some(ended) = told(&desk.peer, &mut words, &open.id, task, &step) {
                        return Ok(ended);
                    }
                }
            }
            Err(failure) if is_final(&failure) => return Err(failure.into()),
            Err(failure) => {
                if away.get_or_insert_with(Instant::now).elapsed() > OUTAGE {
                    let id = &open.id;
                    return Err(Fault::internal(format!(
                        "{failure}; what was asked may go on: see `palisade session show {id}`"
                    )));
                }
            }
        }
        if desk.peer.is_gone() {
            return Err(Fault::internal("nobody reads any more"));
        }
        std::thread::sleep(pause);
        pause = pause.saturating_mul(2).min(LONGEST);
    }
}

/// Whether asking again would be answered the same way.
fn is_final(failure: &Failure) -> bool {
    match failure {
        Failure::Client(ClientError::Problem(problem)) => {
            (400..500).contains(&problem.status) && problem.status != 429
        }
        Failure::Client(ClientError::Unreachable { .. } | ClientError::Unexpected(_)) => false,
        _ => true,
    }
}

/// Tells of one step; how the task ended, if this was its end.
fn told(peer: &Peer, words: &mut Words, session: &str, task: &str, step: &Step) -> Option<Ended> {
    // Others may have asked for something in the same session.
    if step.task.as_deref() != Some(task) {
        return None;
    }
    if let Some((waiting, question)) = words::question(step, session) {
        peer.ask(session, waiting, &question);
        return None;
    }
    if let Some(approval) = words::decided(step) {
        peer.forget(approval);
        return None;
    }
    if step.kind == "result" {
        let text = |name: &str| step.body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        return Some(Ended { state: text("state"), why: text("text") });
    }
    if let Some(update) = words.update(step, When::Now) {
        peer.update(session, update);
    }
    None
}

/// Tells everything that happened in a session before, in order.
pub(super) fn told_again(client: &Client, peer: &Peer, session: &str) -> Result<(), Fault> {
    let (mut words, mut after) = (Words::default(), 0);
    loop {
        let page = client.steps_page(session, after, 200)?;
        for step in &page.items {
            let is_decision = step.body.get("approval").is_some();
            if !is_decision && let Some(update) = words.update(step, When::Again) {
                peer.update(session, update);
            }
        }
        match page.next {
            Some(next) if !peer.is_gone() => after = next,
            _ => return Ok(()),
        }
    }
}
