//! Decides whom to ask: the first provider that is well, with a key that is not resting, a few times; then the next.

use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use redact::Redactor;
use zeroize::Zeroizing;

use super::breaker::{Breaker, Ended, Pass};
use super::http::{Order, Piece, Web};
use super::lines::Form;
use super::{Answer, Draft, Request, Trouble, wire};
use crate::cancel::Cancel;
use crate::config::{Kind, Provider};
use crate::limits::Limits;

/// How often whoever waits for a piece looks whether it should.
const LOOK: Duration = Duration::from_millis(20);

/// What is told while an answer comes.
#[derive(Debug)]
pub(crate) enum Delta<'a> {
    Text(&'a str),
    /// What was told of this answer so far is void; it is asked for again.
    Again,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("stopped")]
    Cancelled,
    #[error("no provider answered: {0}")]
    Nobody(String),
}

/// How a key stands.
#[derive(Clone, Copy, Debug, Default)]
struct KeyState {
    rests_until: Option<Instant>,
    dead: bool,
}

struct Member {
    provider: Provider,
    breaker: Breaker,
    keys: Mutex<Vec<KeyState>>,
}

/// All providers, in their order.
pub(crate) struct Pool {
    members: Vec<Member>,
    limits: Limits,
    redactor: Redactor,
    web: Web,
}

/// Which key to use now.
enum Choice {
    Key(usize),
    Wait(Duration),
    None,
}

impl Pool {
    pub(crate) fn new(providers: Vec<Provider>, limits: &Limits, redactor: &Redactor, web: &Web) -> Self {
        let members = providers.into_iter().map(|provider| {
            let open = Duration::from_millis(limits.breaker_open_ms);
            let breaker = Breaker::new(limits.breaker_failures, open, limits.breaker_probes);
            // A provider without keys has one that is nothing.
            let keys = Mutex::new(vec![KeyState::default(); provider.keys.len().max(1)]);
            Member { provider, breaker, keys }
        });
        Self {
            members: members.collect(),
            limits: limits.clone(),
            redactor: redactor.clone(),
            web: web.clone(),
        }
    }

    /// How each breaker stands.
    pub(crate) fn breakers(&self) -> Vec<(String, &'static str)> {
        let now = Instant::now();
        self.members.iter().map(|one| (one.provider.name.clone(), one.breaker.word(now))).collect()
    }

    /// Asks until somebody answers.
    pub(crate) fn ask(
        &self,
        request: &Request<'_>,
        cancel: &Cancel,
        tell: &mut dyn FnMut(Delta<'_>),
    ) -> Result<Answer, AskError> {
        let mut why = Vec::new();
        for member in &self.members {
            match self.ask_one(member, request, cancel, tell) {
                Ok(answer) => return Ok(answer),
                Err(None) => return Err(AskError::Cancelled),
                Err(Some(trouble)) => why.push(format!("`{}` {trouble}", member.provider.name)),
            }
        }
        Err(AskError::Nobody(self.redactor.scrub(&why.join("; ")).into_owned()))
    }

    /// Asks one provider, a few times. `Err(None)` is that somebody stopped it.
    fn ask_one(
        &self,
        member: &Member,
        request: &Request<'_>,
        cancel: &Cancel,
        tell: &mut dyn FnMut(Delta<'_>),
    ) -> Result<Answer, Option<String>> {
        let mut last = String::new();
        let mut backoff = Duration::from_millis(self.limits.backoff_ms);
        let mut attempt = 0;
        while attempt < self.limits.attempts {
            let key = match member.choose(Instant::now()) {
                Choice::Key(key) => key,
                Choice::None => return Err(Some(format!("has no key that is accepted{}", after(&last)))),
                Choice::Wait(time) if time > Duration::from_millis(self.limits.rate_wait_most_ms) => {
                    return Err(Some(format!("asks to wait for {} s{}", time.as_secs(), after(&last))));
                }
                Choice::Wait(time) if cancel.wait(time) => return Err(None),
                Choice::Wait(_) => continue,
            };
            let Some(pass) = member.breaker.enter(Instant::now()) else {
                return Err(Some(format!("is left alone after failures{}", after(&last))));
            };
            attempt += 1;
            let mut spoke = false;
            let mut told = |text: &str| {
                spoke = true;
                tell(Delta::Text(text));
            };
            let result = self.attempt(member, key, pass, request, cancel, &mut told);
            let ended = match &result {
                Ok(_) => Ended::Well,
                Err(None | Some(Trouble::Status { status: 400..500, .. })) => Ended::Neither,
                Err(Some(_)) => Ended::Badly,
            };
            member.breaker.leave(pass, ended, Instant::now());
            let trouble = match result {
                Ok(answer) => return Ok(answer),
                Err(None) => return Err(None),
                Err(Some(trouble)) => trouble,
            };
            if spoke {
                tell(Delta::Again);
            }
            last = format!("{trouble}");
            match member.after(key, &trouble, &self.limits) {
                Next::Elsewhere => break,
                // Another key, or a rest that the next choice finds.
                Next::Key => {}
                Next::Backoff if attempt < self.limits.attempts => {
                    if cancel.wait(backoff) {
                        return Err(None);
                    }
                    backoff = backoff.saturating_mul(2).min(Duration::from_secs(30));
                }
                Next::Backoff => {}
            }
        }
        Err(Some(format!("{last} (tried {attempt} of {} times)", self.limits.attempts)))
    }

    fn attempt(
        &self,
        member: &Member,
        key: usize,
        pass: Pass,
        request: &Request<'_>,
        cancel: &Cancel,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Answer, Option<Trouble>> {
        let provider = &member.provider;
        let wire = wire(provider.kind);
        let pieces = self.web.send(self.order(provider, key, pass, request));
        let until = Instant::now() + Duration::from_millis(self.limits.answer_ms);
        let mut draft = Draft::default();
        loop {
            if cancel.is_cancelled() {
                return Err(None);
            }
            if Instant::now() > until {
                return Err(Some(Trouble::Slow));
            }
            match pieces.recv_timeout(LOOK) {
                Ok(Piece::Event(data)) => {
                    let text = wire.event(&data, &mut draft).map_err(Some)?;
                    if !text.is_empty() {
                        tell(&text);
                    }
                }
                Ok(Piece::End) => return draft.finish(&provider.name, &provider.model).map_err(Some),
                Ok(Piece::Failed(trouble)) => return Err(Some(trouble)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Some(Trouble::CutOff)),
            }
        }
    }

    fn order(&self, provider: &Provider, key: usize, pass: Pass, request: &Request<'_>) -> Order {
        let wire = wire(provider.kind);
        let limits = &self.limits;
        let (name, before) = wire.key_header();
        let mut headers: Vec<_> = provider
            .keys
            .get(key)
            .map(|key| (name, Zeroizing::new(format!("{before}{}", key.as_str()))))
            .into_iter()
            .collect();
        if provider.kind == Kind::Anthropic {
            headers.push(("anthropic-version", Zeroizing::new("2023-06-01".to_owned())));
        }
        let operation = Duration::from_millis(limits.operation_ms);
        let first_byte = Duration::from_millis(limits.first_byte_ms);
        Order {
            url: format!("{}{}", provider.base, wire.path(&provider.model)),
            headers,
            body: wire.body(&provider.model, request).to_string().into_bytes(),
            form: match provider.kind {
                Kind::Anthropic | Kind::Openai | Kind::Gemini => Form::Sent,
                Kind::Ollama => Form::Lines,
            },
            connect: operation,
            first_byte: match pass {
                Pass::Plain => first_byte,
                Pass::Probe => first_byte.min(operation),
            },
            silence: Duration::from_millis(limits.silence_ms),
            whole: Duration::from_millis(limits.answer_ms),
            most: limits.answer_bytes,
        }
    }
}

fn after(last: &str) -> String {
    if last.is_empty() { String::new() } else { format!(" (it {last})") }
}

/// What to do after trouble.
enum Next {
    Backoff,
    Key,
    Elsewhere,
}

impl Member {
    fn choose(&self, now: Instant) -> Choice {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = |key: &KeyState| {
            key.rests_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
        };
        let alive = keys.iter().enumerate().filter(|(_, key)| !key.dead);
        match alive.min_by_key(|(_, key)| rest(key)) {
            None => Choice::None,
            Some((index, key)) if rest(key).is_zero() => Choice::Key(index),
            Some((_, key)) => Choice::Wait(rest(key)),
        }
    }

    /// Notes what trouble says of a key.
    fn after(&self, key: usize, trouble: &Trouble, limits: &Limits) -> Next {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = keys.get_mut(key) else { return Next::Backoff };
        match trouble {
            Trouble::Status { status: 429, wait_ms, .. } => {
                let wait = Duration::from_millis(wait_ms.unwrap_or(limits.rate_wait_ms));
                // A wait that no clock can hold is for ever.
                state.rests_until = Instant::now().checked_add(wait);
                state.dead = state.rests_until.is_none();
                Next::Key
            }
            Trouble::Status { status: 401 | 403, .. } => {
                state.dead = true;
                Next::Key
            }
            Trouble::Status { status: 408, .. } => Next::Backoff,
            Trouble::Status { status: 400..500, .. } => Next::Elsewhere,
            Trouble::Status { .. }
            | Trouble::Unreachable(_)
            | Trouble::Slow
            | Trouble::CutOff
            | Trouble::TooLong
            | Trouble::Garbage(_) => Next::Backoff,
        }
    }
}
