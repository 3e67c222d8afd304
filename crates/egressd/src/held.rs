//! Connections that wait while a person is asked whether they may go.
//!
//! Flow: no rule knows this destination -> the launcher is told -> rules that allow it, or a no -> it is judged as any other.
//! Invariants: what waits has sent nothing anywhere, not even a question for the name; a rule that denies is never asked
//! about; how many may wait, and for how long, has a bound; that something is asked, and that nobody waits for the answer any
//! more, is told in the order in which it is so.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use egress::control::{Report, Verdict};
use rules::Host;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

use crate::house::{FROM, House};

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
    /// Connections that were allowed after they had waited, and of which nothing more was told, by where they come from.
    allowed: HashMap<SocketAddr, (String, u16)>,
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

    /// Joins those who wait for the same; the first asks. None if too much is asked already.
    fn join(&self, key: &(String, u16), room: Option<mpsc::Permit<'_, Report>>) -> Option<Waits<'_>> {
        let mut state = self.state();
        let is_new = !state.waits.contains_key(key);
        if is_new && state.waits.len() >= MOST_ASKED {
            return None;
        }
        *state.waits.entry(key.clone()).or_default() += 1;
        let is_asked = is_new && !state.all && !state.refused.contains(key);
        // While nobody else can join or leave: who comes next must not be told of before.
        if let Some(room) = room.filter(|_| is_asked) {
            room.send(Report::Asks { host: key.0.clone(), port: key.1 });
        }
        drop(state);
        Some(Waits { questions: self, key: key.clone() })
    }

    /// A connection that waited may go on; it has to say what for.
    fn allow(&self, from: SocketAddr, key: (String, u16)) {
        self.state().allowed.insert(from, key);
    }

    /// Something is told of a connection. What it was allowed before, if that was the first.
    pub(crate) fn used(&self, from: SocketAddr) -> Option<(String, u16)> {
        if !self.asks.load(Ordering::Acquire) {
            return None;
        }
        self.state().allowed.remove(&from)
    }
}

/// One connection that waits.
struct Waits<'a> {
    questions: &'a Questions,
    key: (String, u16),
}

impl Waits<'_> {
    /// Goes; the last one takes the question back.
    fn leave(self, room: Option<mpsc::Permit<'_, Report>>) {
        let mut state = self.questions.state();
        let count = state.waits.get_mut(&self.key).map(|count| {
            *count = count.saturating_sub(1);
            *count
        });
        if count.is_some_and(|count| count > 0) {
            return;
        }
        state.waits.remove(&self.key);
        // While nobody else can join: a question that is asked anew is told of after this.
        if let Some(room) = room {
            let (host, port) = self.key.clone();
            room.send(Report::Unasked { host, port });
        }
        drop(state);
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
    let Some(waits) = questions.join(&key, house.room().await) else {
        return no("too many other hosts wait for a person's word; try again when they are answered");
    };
    let verdict = waited(house, &key, inside, &is_unlisted).await;
    waits.leave(house.room().await);
    if verdict.is_none() {
        let _ = FROM.try_with(|from| questions.allow(*from, key));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::house::Said;

    fn key() -> (String, u16) {
        ("site.test".to_owned(), 443)
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
    }

    #[test]
    fn egr_20_a_question_is_never_lost_as_its_last_waiter_leaves_and_another_comes() {
        let (house, Said { mut said, .. }) = House::new();
        let house = Arc::new(house);
        house.questions.begin();
        let runtime = runtime();
        for _ in 0..8 {
            let house = Arc::clone(&house);
            runtime.spawn(async move {
                for turn in 0..10_000 {
                    let Some(waits) = house.questions.join(&key(), house.room().await) else { return };
                    if turn % 3 == 0 {
                        tokio::task::yield_now().await;
                    }
                    waits.leave(house.room().await);
                }
            });
        }
        drop(house);
        // Whoever hears this in its order knows at every moment whether somebody waits.
        let (mut is_asked, mut count) = (false, 0);
        while let Some(report) = said.blocking_recv() {
            match report {
                Report::Asks { .. } => {
                    assert!(!std::mem::replace(&mut is_asked, true), "asked twice, {count}")
                }
                Report::Unasked { .. } => assert!(std::mem::replace(&mut is_asked, false), "lost, {count}"),
                other => panic!("{other:?}"),
            }
            count += 1;
        }
        assert!(!is_asked && count >= 2, "{count}");
    }

    #[test]
    fn egr_20_what_was_allowed_once_is_told_of_when_its_client_has_gone_without_a_word() {
        let (house, Said { mut said, .. }) = House::new();
        let house = Arc::new(house);
        house.questions.begin();
        let runtime = runtime();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, from) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let served = Arc::clone(&house);
        let serves = runtime.spawn(FROM.scope(from, async move {
            let inside = TcpStream::from_std(stream).unwrap();
            crate::connection::admit(
                Arc::clone(&served),
                "site.test".parse().unwrap(),
                443,
                inside,
                Vec::new(),
            )
            .await;
            served.ended().await;
        }));
        assert!(matches!(said.blocking_recv(), Some(Report::Asks { .. })));
        house.rule(1, vec![rules::Rule::new("site.test")]);
        // It is past the question, and nothing was asked for yet.
        while !matches!(said.blocking_recv(), Some(Report::Unasked { .. })) {}
        drop(client);
        runtime.block_on(serves).unwrap();
        drop(house);
        let told: Vec<Report> = std::iter::from_fn(|| said.try_recv().ok()).collect();
        let is_refusal = |report: &Report| {
            matches!(report, Report::Judged { wanted, verdict: Verdict::Refused { why }, from: Some(_), .. }
                if wanted.host == "site.test" && why.contains("did not use it"))
        };
        assert_eq!(told.iter().filter(|report| is_refusal(report)).count(), 1, "{told:?}");
    }
}
