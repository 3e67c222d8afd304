//! What is open between us and one agent: what it was asked, what it asked, and which conversation all of it is about.
//!
//! Invariant: an entry is taken out by whoever answers it, so nothing is answered twice. Our ids count upwards; a question is known
//! by a number of ours, never by the id that the agent chose.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;

use crate::error::AcpError;
use crate::limits::Limits;
use crate::message::{self, Answer, TheirId};
use crate::offered::{Abilities, AgentSession, Mode, Setting};
use crate::outbox::{Outbox, Tag};
use crate::question::cancelled;

/// Requests under way at once.
const REQUESTS: usize = 8;
/// The protocol's code for an agent that nobody signed in.
const SIGN_IN: i64 = -32_000;

/// What a request is for, where that matters when its answer comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Plain,
    Open,
    Load(AgentSession),
    Turn { session: AgentSession, is_cancelled: bool },
}

struct Request {
    method: &'static str,
    purpose: Purpose,
    told: oneshot::Sender<Result<Value, AcpError>>,
}

struct Open {
    id: TheirId,
    session: AgentSession,
}

#[derive(Default)]
struct State {
    last: u64,
    requests: HashMap<u64, Request>,
    questions: HashMap<u64, Open>,
    session: Option<AgentSession>,
    offer: Offer,
    is_over: bool,
}

/// What the agent and its session can do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offer {
    pub(crate) abilities: Abilities,
    pub(crate) modes: Vec<Mode>,
    pub(crate) has_models: bool,
    pub(crate) settings: Vec<Setting>,
}

/// Whether an update is for anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Belongs {
    Now,
    Again,
    Elsewhere,
}

/// Whether a question may be put to somebody.
pub(crate) enum Put {
    Open(u64),
    /// Its turn was stopped.
    Cancelled,
    Refused(&'static str),
}

pub(crate) struct Link {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) places: Semaphore,
    pub(crate) limits: Limits,
    state: Mutex<State>,
    writer: AbortHandle,
}

impl Link {
    pub(crate) fn new(outbox: Arc<Outbox>, writer: AbortHandle, limits: Limits) -> Self {
        Self { outbox, places: Semaphore::new(REQUESTS), limits, state: Mutex::default(), writer }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn offer(&self) -> Offer {
        self.state().offer.clone()
    }

    pub(crate) fn change_offer(&self, change: impl FnOnce(&mut Offer)) {
        change(&mut self.state().offer);
    }

    /// Puts a request on the way. It is taken back when the ticket is dropped.
    pub(crate) fn ask(
        self: &Arc<Self>,
        method: &'static str,
        params: &Value,
        purpose: Purpose,
    ) -> Result<(Ticket, oneshot::Receiver<Result<Value, AcpError>>), AcpError> {
        let (told, heard) = oneshot::channel();
        let mut state = self.state();
        if state.is_over {
            return Err(AcpError::Gone);
        }
        if let Purpose::Turn { session, .. } = &purpose {
            let running = |one: &Request| matches!(&one.purpose, Purpose::Turn { session: other, .. } if other == session);
            if state.requests.values().any(running) {
                return Err(AcpError::Busy);
            }
        }
        if let Purpose::Load(session) = &purpose {
            state.session = Some(session.clone());
        }
        state.last += 1;
        let id = state.last;
        state.requests.insert(id, Request { method, purpose, told });
        drop(state);
        self.outbox.push(Tag::Request(id), message::request(id, method, params));
        Ok((Ticket { link: Arc::clone(self), id }, heard))
    }

    /// An answer came; what it was for, or nothing if nobody waits for it.
    pub(crate) fn answered(&self, id: u64, answer: Answer) -> Option<Purpose> {
        let mut state = self.state();
        let Request { method, purpose, told } = state.requests.remove(&id)?;
        // Before anything else is read: what follows may belong to it.
        if let (Purpose::Open, Answer::Result(result)) = (&purpose, &answer) {
            let session = result.get("sessionId").and_then(Value::as_str).and_then(|id| id.parse().ok());
            state.session = session.or(state.session.take());
        }
        drop(state);
        // Whoever asked may have stopped waiting.
        let _ = told.send(match answer {
            Answer::Result(result) => Ok(result),
            Answer::Refusal { code: SIGN_IN, message } => Err(AcpError::SignIn { message }),
            Answer::Refusal { code, message } => Err(AcpError::Refused { method, code, message }),
            Answer::Unusable(why) => Err(AcpError::Garbled { method, why: why.to_owned() }),
        });
        Some(purpose)
    }

    /// Whose an update is. While a session is being opened its id is not known yet.
    pub(crate) fn belongs(&self, session: &AgentSession) -> Belongs {
        let state = self.state();
        let mut purposes = state.requests.values().map(|request| &request.purpose);
        if purposes.clone().any(|purpose| matches!(purpose, Purpose::Load(loading) if loading == session)) {
            Belongs::Again
        } else if state.session.as_ref() == Some(session) || purposes.any(|purpose| *purpose == Purpose::Open)
        {
            Belongs::Now
        } else {
            Belongs::Elsewhere
        }
    }

    /// The agent asks.
    pub(crate) fn put(&self, id: TheirId, session: AgentSession) -> Put {
        let mut state = self.state();
        if state.session.as_ref() != Some(&session) {
            return Put::Refused("it is of another session");
        }
        if state.questions.values().any(|open| open.id == id) {
            return Put::Refused("its id is that of another question that is open");
        }
        let stopped = Purpose::Turn { session: session.clone(), is_cancelled: true };
        if state.requests.values().any(|request| request.purpose == stopped) {
            return Put::Cancelled;
        }
        if state.questions.len() >= self.limits.questions {
            return Put::Refused("too many are open");
        }
        state.last += 1;
        let number = state.last;
        state.questions.insert(number, Open { id, session });
        Put::Open(number)
    }

    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.state().questions.contains_key(&number)
    }

    /// Answers a question, unless it was.
    pub(crate) fn answer(&self, number: u64, result: &Value) {
        let open = self.state().questions.remove(&number);
        if let Some(open) = open {
            self.outbox.push(Tag::Answer, message::result(&open.id, result));
        }
    }

    /// The agent takes a question back.
    pub(crate) fn taken_back(&self, id: &TheirId) {
        let mut state = self.state();
        let number = state.questions.iter().find(|(_, open)| open.id == *id).map(|(number, _)| *number);
        let open = number.and_then(|number| state.questions.remove(&number));
        drop(state);
        if let Some(open) = open {
            self.outbox.push(Tag::Answer, message::result(&open.id, &cancelled()));
        }
    }

    /// Stops what runs in a session: says so, and answers what it asked.
    pub(crate) fn cancel(&self, session: &AgentSession) {
        let params = json!({ "sessionId": session.as_str() });
        self.outbox.push(Tag::Cancel, message::notice("session/cancel", &params));
        let mut state = self.state();
        for request in state.requests.values_mut() {
            if let Purpose::Turn { session: running, is_cancelled } = &mut request.purpose {
                *is_cancelled |= running == session;
            }
        }
        let mut numbers: Vec<u64> =
            state.questions.iter().filter(|(_, open)| open.session == *session).map(|(n, _)| *n).collect();
        drop(state);
        numbers.sort_unstable();
        for number in numbers {
            self.answer(number, &cancelled());
        }
    }

    /// Asks nothing more; what is on the way is still written and answered.
    pub(crate) fn close(&self) {
        self.state().is_over = true;
        self.outbox.close();
    }

    /// The stream has ended: nobody waits any longer.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        // Whoever waits sees that nobody will tell.
        state.requests.clear();
        state.questions.clear();
        drop(state);
        self.outbox.close();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

/// A request under way.
pub(crate) struct Ticket {
    link: Arc<Link>,
    id: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.link.outbox.withdraw(self.id);
        self.link.state().requests.remove(&self.id);
    }
}
