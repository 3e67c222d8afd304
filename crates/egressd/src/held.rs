//! Connections that wait while a person is asked whether they may go.
//!
//! Flow: no rule knows this destination -> the launcher is told -> rules that allow it, or a no -> it is judged as any other.
//! Invariants: what waits has sent nothing anywhere, not even a question for the name; a rule that denies is never asked
//! about; how many may wait, and for how long, has a bound.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use egress::control::{Report, Verdict};
use rules::Host;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::house::House;

/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often it is looked whether the client still waits.
const LOOKS: Duration = Duration::from_secs(1);
/// The most destinations that are asked about at once.
const MOST_ASKED: usize = 32;
/// The most destinations that were refused by a person; with more, everything is.
const MOST_REFUSED: usize = 4096;

/// What is asked, and what was answered with no.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// Whether there is somebody to ask.
    asks: AtomicBool,
    state: Mutex<State>,
    answered: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Destinations that wait for an answer, and how many connections do so for each.
    waits: HashMap<(String, u16), usize>,
    refused: HashSet<(String, u16)>,
    /// The person does not want to be asked any more.
    all: bool,
}

impl Questions {
    /// There is somebody to ask.
    pub(crate) fn begin(&self) {
        self.asks.store(true, Ordering::Release);
    }

    /// A person said no: to one destination, or to all that are not known.
    pub(crate) fn refuse(&self, destination: Option<(String, u16)>) {
        let mut state = self.state();
        match destination {
            Some(one) if state.refused.len() < MOST_REFUSED => drop(state.refused.insert(one)),
            Some(_) | None => state.all = true,
        }
        drop(state);
        self.answered.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_refused(&self, key: &(String, u16)) -> bool {
        let state = self.state();
        state.all || state.refused.contains(key)
    }

    /// Joins those who wait for the same; whether it is the first. None if too much is asked already.
    fn join(&self, key: &(String, u16)) -> Option<(Waits<'_>, bool)> {
        let mut state = self.state();
        let is_new = !state.waits.contains_key(key);
        if is_new && state.waits.len() >= MOST_ASKED {
            return None;
        }
        *state.waits.entry(key.clone()).or_default() += 1;
        Some((Waits { questions: self, key: key.clone() }, is_new))
    }
}

/// One connection that waits.
struct Waits<'a> {
    questions: &'a Questions,
    key: (String, u16),
}

impl Waits<'_> {
    /// Goes; whether nobody waits any more.
    fn leave(self) -> bool {
        let mut state = self.questions.state();
        let Some(count) = state.waits.get_mut(&self.key) else { return true };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            state.waits.remove(&self.key);
        }
        is_last
    }
}

/// Lets a connection to a destination that no rule knows wait for a person's word. The verdict if that is no; none if the
/// rules are to judge.
pub(crate) async fn refused(house: &House, host: &Host, port: u16, inside: &TcpStream) -> Option<Verdict> {
    let questions = &house.questions;
    let is_unlisted = || house.rules().rules.could_be_asked_for(host, port);
    if !questions.asks.load(Ordering::Acquire) || !is_unlisted() {
        return None;
    }
    let no = |why: &str| Some(Verdict::Refused { why: why.to_owned() });
    let key = (host.to_string(), port);
    let Some((waits, is_new)) = questions.join(&key) else {
        return no("too many other hosts wait for a person's word; try again when they are answered");
    };
    if is_new && !questions.is_refused(&key) {
        house.say(Report::Asks { host: key.0.clone(), port }).await;
    }
    let verdict = waited(house, &key, inside, &is_unlisted).await;
    if waits.leave() {
        house.say(Report::Unasked { host: key.0, port }).await;
    }
    verdict
}

/// Waits until it is known what becomes of it, or nobody waits for that.
async fn waited(
    house: &House,
    key: &(String, u16),
    inside: &TcpStream,
    is_unlisted: &impl Fn() -> bool,
) -> Option<Verdict> {
    let questions = &house.questions;
    let no = |why: &str| Some(Verdict::Refused { why: why.to_owned() });
    let until = Instant::now() + PATIENCE;
    let mut turns = house.turns();
    loop {
        let answered = questions.answered.notified();
        if house.is_closed() || !is_unlisted() {
            return None;
        }
        if questions.is_refused(key) {
            return no("it was asked about, and refused for this run");
        }
        if Instant::now() >= until {
            return no("a person was asked, and did not answer");
        }
        if is_gone(inside).await {
            return no("a person was asked, and the program did not wait for the answer");
        }
        tokio::select! {
            () = answered => {}
            turned = turns.changed() => if turned.is_err() { return None },
            () = tokio::time::sleep(LOOKS) => {}
        }
    }
}

/// Whether the client has gone.
async fn is_gone(inside: &TcpStream) -> bool {
    let state = tokio::time::timeout(Duration::ZERO, inside.ready(Interest::READABLE)).await;
    matches!(state, Ok(Ok(ready)) if ready.is_read_closed())
}
