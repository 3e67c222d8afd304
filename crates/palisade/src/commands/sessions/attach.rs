//! Shows what happens in a session, as it happens, and lets the person at the terminal decide what is asked there.
//!
//! Flow: a thread follows the stream and connects again where it breaks; another reads keys; both give events to one loop, which
//! shows them ([`super::screen`]).
//!
//! Invariants: a key decides only what was on the screen when it was struck, by the digest of that; Ctrl-C lets go of the session and
//! changes nothing in it; the terminal is as it was when this ends.

use std::collections::VecDeque;
use std::io::{IsTerminal, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use api::{AllowRequest, Approval, Client, ClientError, DenyRequest, Step};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios};
use serde_json::Value;

use super::screen::Screen;
use super::{effect, once};
use crate::failure::Failure;
use crate::output::{self, Shown};
use crate::session::Session;

/// How often a connection is made again that brings nothing.
const MOST_BROKEN: u32 = 10;
/// How long a question stands before a key counts: it may have been meant for something else.
const SEEN: Duration = Duration::from_millis(300);
/// Events that wait to be shown.
const AHEAD: usize = 64;

/// What becomes of what is asked where nobody can be asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Questions {
    /// It is denied, if it is asked by the task that is waited for.
    Denied,
    /// It waits for others.
    Left,
}

/// What is said of a question that was denied because nobody can be asked.
const NOBODY: &str = "denied, because there is no terminal here to ask at; run this on one, leave it to others by `--leave-questions` \
                      (they decide by `palisade approval`), or open the session in a mode that does not ask";

/// What can happen.
enum Event {
    Step(Box<Step>),
    /// The connection broke, and is made again.
    Broken(String),
    /// It is not made again.
    Over(Failure),
    Key(u8, Instant),
}

/// Shows what happens, until the task that is waited for is over or the person lets go.
pub(super) fn watch(
    session: &Session,
    id: &str,
    after: Option<i64>,
    task: Option<&str>,
    questions: Questions,
    json: bool,
) -> Result<Shown, Failure> {
    let client = session.client()?;
    let row = client.session(id)?;
    let mut last = after.unwrap_or(row.steps);
    let is_live = !json
        && std::io::stdin().is_terminal()
        && output::is_terminal()
        && std::env::var_os("NO_COLOR").is_none();
    let mut screen = Screen::new(json, is_live, id);
    let nothing = || Ok(Shown::new(&Value::Null, ""));
    // Nothing happens any more in one that is closed and has nothing at work.
    while row.closed_at.is_some() && row.at_work.is_none() {
        let page = client.steps(id, last)?;
        for step in &page.items {
            last = step.seq;
            if !screen.shows(step) {
                return nothing();
            }
        }
        if page.next.is_none() {
            screen.ends();
            return nothing();
        }
    }
    let (tell, events) = sync_channel(AHEAD);
    let keys = is_live.then(Keys::taken).flatten();
    if keys.is_some() {
        let tell = tell.clone();
        std::thread::spawn(move || struck(&tell));
    }
    let (owned, named) = (session.clone(), id.to_owned());
    std::thread::spawn(move || follow(&owned, &named, last, &tell));
    let mut asking = Asking { session, id, open: VecDeque::new(), since: Instant::now(), questions };
    if keys.is_some() {
        // What was asked before somebody came.
        let mut open = client.approvals(id, false)?.items;
        open.reverse();
        asking.open.extend(open);
        asking.show(&mut screen);
    }
    screen.is_at_work(row.at_work.is_some());
    let outcome = shown(&events, &mut screen, &mut asking, keys.is_some(), task);
    screen.ends();
    drop(keys);
    outcome.unwrap_or_else(nothing)
}

/// Shows events until there is a reason to stop.
fn shown(
    events: &Receiver<Event>,
    screen: &mut Screen,
    asking: &mut Asking<'_>,
    decides: bool,
    task: Option<&str>,
) -> Option<Result<Shown, Failure>> {
    loop {
        match events.recv_timeout(Duration::from_secs(1)) {
            Err(RecvTimeoutError::Timeout) => screen.tick(),
            Err(RecvTimeoutError::Disconnected) => return None,
            Ok(Event::Broken(why)) => screen.tells(&format!("{why}; connecting again")),
            Ok(Event::Over(failure)) => return Some(Err(failure)),
            Ok(Event::Key(3 | 4, _)) => {
                let id = asking.id;
                screen.ends();
                output::tell(&format!(
                    "detached; the session goes on: `palisade session attach {id}` shows it, `palisade session stop {id}` ends what is at work"
                ));
                return None;
            }
            Ok(Event::Key(key, at)) => asking.struck(screen, key, at),
            Ok(Event::Step(step)) => {
                let approval = |name: &str| step.body.get(name).and_then(Value::as_str);
                match (approval("approval"), approval("decision")) {
                    (Some(one), None) if decides => asking.asked(screen, one, &step),
                    (Some(one), None) => {
                        if !screen.shows(&step) {
                            return None;
                        }
                        if task.is_some() && step.task.as_deref() == task {
                            asking.nobody_is_here(screen, one, &step);
                        }
                    }
                    (Some(one), Some(_)) => {
                        asking.open.retain(|open| open.id != one);
                        if !screen.shows(&step) {
                            return None;
                        }
                    }
                    _ => {
                        if !screen.shows(&step) {
                            return None;
                        }
                    }
                }
                asking.show(screen);
                if task.is_some() && step.kind == "result" && step.task.as_deref() == task {
                    let state = step.body.get("state").and_then(Value::as_str).unwrap_or_default();
                    return (state != "done").then(|| Err(Failure::Task(state.to_owned())));
                }
            }
        }
    }
}

fn is_budget(step: &Step) -> bool {
    step.body.pointer("/asks/budget").is_some()
}

/// Follows the stream behind a place, and goes on where it broke.
fn follow(session: &Session, id: &str, mut last: i64, tell: &SyncSender<Event>) {
    let mut broken = 0;
    loop {
        // A fresh client each time: a token may have ended.
        let why = match session.client().and_then(|client| Ok(client.follow_session(id, last)?)) {
            Ok(followed) => {
                let mut why = "the connection ended".to_owned();
                for step in followed {
                    match step {
                        Ok(step) => {
                            (broken, last) = (0, step.seq);
                            if tell.send(Event::Step(Box::new(step))).is_err() {
                                return;
                            }
                        }
                        Err(error) => {
                            why = error.to_string();
                            break;
                        }
                    }
                }
                why
            }
            Err(Failure::Client(error @ ClientError::Unreachable { .. })) if broken < MOST_BROKEN => {
                error.to_string()
            }
            Err(failure) => return drop(tell.send(Event::Over(failure))),
        };
        broken += 1;
        if broken > MOST_BROKEN {
            return drop(tell.send(Event::Over(Failure::Client(ClientError::Unexpected(why)))));
        }
        if tell.send(Event::Broken(why)).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Reads keys.
fn struck(tell: &SyncSender<Event>) {
    let mut keys = [0; 64];
    while let Ok(count @ 1..) = std::io::stdin().lock().read(&mut keys) {
        let now = Instant::now();
        if keys.iter().take(count).any(|key| tell.send(Event::Key(*key, now)).is_err()) {
            return;
        }
    }
}

/// A terminal whose keys come one by one, unseen, and do nothing by themselves; as it was when dropped.
struct Keys(Termios);

impl Keys {
    fn taken() -> Option<Self> {
        let before = rustix::termios::tcgetattr(rustix::stdio::stdin()).ok()?;
        let mut now = before.clone();
        now.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        rustix::termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &now).ok()?;
        Some(Self(before))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// What waits for the person at the terminal.
struct Asking<'a> {
    session: &'a Session,
    id: &'a str,
    open: VecDeque<Approval>,
    /// When the first of them was shown.
    since: Instant,
    questions: Questions,
}

impl Asking<'_> {
    /// A step asks something: it is shown if it still waits, as the step tells it.
    fn asked(&mut self, screen: &mut Screen, id: &str, step: &Step) {
        let open = self.client().and_then(|client| Ok(client.approvals(self.id, false)?.items));
        let told = step.body.get("effect").and_then(Value::as_str);
        match open {
            Ok(open) => {
                let waits = open.into_iter().find(|one| one.id == id && Some(one.effect.as_str()) == told);
                let is_known = self.open.iter().any(|one| one.id == id);
                self.open.extend(waits.filter(|_| !is_known));
            }
            Err(failure) => screen.tells(&failure.to_string()),
        }
    }

    /// A step asks something and there is no way to ask: nobody's silence is a yes, and nobody waits for it. Budgets have a patience
    /// of their own.
    fn nobody_is_here(&self, screen: &mut Screen, id: &str, step: &Step) {
        let effect = step.body.get("effect").and_then(Value::as_str).filter(|_| !is_budget(step));
        let (Questions::Denied, Some(effect)) = (self.questions, effect) else { return };
        let body = DenyRequest { effect: effect.to_owned() };
        match self.client().and_then(|client| Ok(client.deny_approval(self.id, id, &body)?)) {
            Ok(_) => output::tell(NOBODY),
            Err(failure) => screen.tells(&failure.to_string()),
        }
    }

    fn client(&self) -> Result<Client, Failure> {
        self.session.client()
    }

    /// Shows the first that waits, unless it is on the screen.
    fn show(&mut self, screen: &mut Screen) {
        let Some(one) = self.open.front() else { return };
        if screen.asks(&one.id) {
            return;
        }
        let lines = effect::shown(&one.asks);
        let question = match once(one) {
            Some(_) => "allow this once? [y/n]",
            None => "it cannot be allowed once; deny it? [n]",
        };
        // What was typed before is not about this.
        let _ = rustix::termios::tcflush(rustix::stdio::stdin(), QueueSelector::IFlush);
        screen.question(&one.id, &lines, question);
        self.since = Instant::now();
    }

    fn struck(&mut self, screen: &mut Screen, key: u8, at: Instant) {
        let allows = match key {
            b'y' | b'Y' => true,
            b'n' | b'N' => false,
            _ => return,
        };
        if at < self.since + SEEN {
            return;
        }
        let Some(one) = self.open.front() else { return };
        let choice = if allows { once(one) } else { None };
        if (allows && choice.is_none()) || !screen.asks(&one.id) {
            return;
        }
        let effect = one.effect.clone();
        let decided = self.client().and_then(|client| match choice {
            Some(choice) => {
                Ok(client.allow_approval(self.id, &one.id, &AllowRequest::once(effect, choice))?)
            }
            None => Ok(client.deny_approval(self.id, &one.id, &DenyRequest { effect })?),
        });
        self.open.pop_front();
        match decided {
            Ok(one) => screen.decided(&one.state),
            Err(failure) => screen.tells(&failure.to_string()),
        }
        self.show(screen);
    }
}
