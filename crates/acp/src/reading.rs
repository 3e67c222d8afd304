//! Reads an agent's stream: records become updates, answers go to whoever asked, questions are put.
//!
//! What comes for nothing (odd records, lines that are too long) is paid for with time, so that an agent that sends without end takes
//! little of the processor; what comes for something waits until the update before it was taken.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout};

use crate::fields::{Fields, shown};
use crate::limits::Limits;
use crate::lines::{Found, Joiner, Outline};
use crate::link::{Belongs, Link, Purpose, Put};
use crate::message::{self, Answer, Message, TheirId};
use crate::offered::AgentSession;
use crate::outbox::Tag;
use crate::question::{Asked, Question, Slip, cancelled};
use crate::update::{self, NoUpdate, Update};

/// Bytes for nothing that are read in a second, and what a record and an empty line count at least.
const WASTE: u64 = 32 << 20;
const RECORD: u64 = 4 << 10;
const BLANK: u64 = 512;
/// Bytes that an update counts at least.
const UPDATE: usize = 256;
/// How long odd records that were only counted wait for something else to be told before them.
const QUIET: Duration = Duration::from_secs(1);
/// Names that are told as unknown, each once.
const NAMES: usize = 64;

const NO_REQUEST: i64 = -32_600;
const NO_METHOD: i64 = -32_601;
const BAD_PARAMS: i64 = -32_602;

/// Nobody takes updates any more, or nothing more is to be heard.
pub(crate) struct Untaken;

pub(crate) struct Reading {
    link: Arc<Link>,
    told: mpsc::Sender<(Update, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    limits: Limits,
    odd: Odd,
    /// Bytes that were read for nothing and not yet paid for.
    waste: u64,
    unknown: BTreeSet<String>,
}

/// Odd records: how many may still be told, and how many were not.
struct Odd {
    left: u32,
    since: Instant,
    untold: u64,
}

/// Reads to the end. However that comes, also by being aborted, whoever waits is told.
pub(crate) async fn read<R: AsyncRead + Unpin>(mut from: R, mut reading: Reading) {
    let _farewell = Farewell(Arc::clone(&reading.link));
    let mut joiner = Joiner::new(reading.limits.record);
    let mut buffer = vec![0; reading.limits.line.max(1)];
    loop {
        let read = from.read(&mut buffer);
        let read = if reading.odd.untold == 0 { Ok(read.await) } else { timeout(QUIET, read).await };
        let count = match read {
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(count)) => count,
            // A pause: the place for what was only counted.
            Err(_) => match reading.tell_untold().await {
                Ok(()) => continue,
                Err(Untaken) => return,
            },
        };
        let mut rest = buffer.get(..count).unwrap_or_default();
        while !rest.is_empty() {
            let (taken, found) = joiner.take(rest);
            if joiner.is_passing() {
                reading.waste += taken as u64;
            }
            rest = rest.get(taken..).unwrap_or_default();
            if let Some(found) = found
                && reading.found(found).await.is_err()
            {
                return;
            }
        }
        reading.pay().await;
    }
    // Also when nobody takes it: the talk is over.
    if reading.found(joiner.finish()).await.is_ok() {
        let _ = reading.tell_untold().await;
    }
}

struct Farewell(Arc<Link>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Reading {
    pub(crate) fn new(
        link: Arc<Link>,
        told: mpsc::Sender<(Update, OwnedSemaphorePermit)>,
        limits: Limits,
    ) -> Self {
        let room = Arc::new(Semaphore::new(limits.ahead));
        let odd = Odd { left: limits.odd, since: Instant::now(), untold: 0 };
        Self { link, told, room, limits, odd, waste: 0, unknown: BTreeSet::new() }
    }

    /// Waits as long as reading for nothing costs.
    async fn pay(&mut self) {
        // In steps that a timer can tell apart.
        if self.waste >= WASTE / 32 {
            sleep(Duration::from_micros(self.waste.saturating_mul(1_000_000) / WASTE)).await;
            self.waste = 0;
        }
    }

    async fn tell(&mut self, update: Update, weight: usize) -> Result<(), Untaken> {
        self.tell_untold().await?;
        self.send(update, weight).await
    }

    async fn send(&mut self, update: Update, weight: usize) -> Result<(), Untaken> {
        let weight = weight.max(UPDATE).min(self.limits.ahead);
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(weight).await.map_err(|_| Untaken)?;
        self.told.send((update, room)).await.map_err(|_| Untaken)
    }

    /// Tells of a record that is not understood, or counts it.
    async fn odd(&mut self, why: String, weight: usize) -> Result<(), Untaken> {
        self.waste += (weight as u64).max(RECORD);
        let seconds = u32::try_from(self.odd.since.elapsed().as_secs()).unwrap_or(u32::MAX);
        if seconds > 0 {
            self.odd.left = self.odd.left.saturating_add(seconds).min(self.limits.odd);
            self.odd.since = Instant::now();
        }
        if self.odd.left == 0 {
            self.odd.untold += 1;
            self.pay().await;
            return Ok(());
        }
        self.odd.left -= 1;
        self.tell(Update::Odd(why), UPDATE).await
    }

    async fn tell_untold(&mut self) -> Result<(), Untaken> {
        match std::mem::take(&mut self.odd.untold) {
            0 => Ok(()),
            count => {
                let why = format!("{count} further records were not understood and are not told one by one");
                self.send(Update::Odd(why), UPDATE).await
            }
        }
    }

    async fn found(&mut self, found: Found) -> Result<(), Untaken> {
        match found {
            Found::Record(record) => match message::read(&record, self.limits.depth) {
                Ok(message) => self.message(message, record.len()).await,
                Err(why) => self.odd(why, record.len()).await,
            },
            Found::TooLong => {
                let why = format!("a record longer than {} bytes was left out", self.limits.record);
                self.odd(why, 0).await
            }
            Found::Passed(outline) => self.passed(&outline).await,
            Found::Blank => {
                self.waste += BLANK;
                Ok(())
            }
        }
    }

    /// Whoever waits for what was in a line that nobody kept is told so.
    async fn passed(&mut self, outline: &Outline) -> Result<(), Untaken> {
        let Some(id) = outline.id() else { return Ok(()) };
        if !outline.is_request() {
            let purpose =
                id.as_u64().and_then(|id| self.link.answered(id, Answer::Unusable("it is too long")));
            return match purpose {
                Some(Purpose::Turn { .. }) => self.tell(Update::TurnOver, 0).await,
                Some(Purpose::Plain | Purpose::Open | Purpose::Load(_)) | None => Ok(()),
            };
        }
        self.answerable().await?;
        if let Some(id) = TheirId::of(id) {
            self.refuse(&id, NO_REQUEST, "the request is too long");
        }
        Ok(())
    }

    /// Waits until an answer can be given: they pile up only as long as the agent reads none.
    async fn answerable(&mut self) -> Result<(), Untaken> {
        if timeout(self.limits.answer, self.link.outbox.room()).await.is_err() {
            let why = "the agent asks and does not read its answers; nothing more is heard of it";
            self.tell(Update::Odd(why.to_owned()), UPDATE).await?;
            return Err(Untaken);
        }
        Ok(())
    }

    fn refuse(&self, id: &TheirId, code: i64, why: &str) {
        self.link.outbox.push(Tag::Answer, message::refusal(id, code, why));
    }

    async fn message(&mut self, message: Message, weight: usize) -> Result<(), Untaken> {
        match message {
            Message::Answer { id, answer } => match self.link.answered(id, answer) {
                Some(Purpose::Turn { .. }) => self.tell(Update::TurnOver, 0).await,
                Some(Purpose::Plain | Purpose::Open | Purpose::Load(_)) => Ok(()),
                None => {
                    let why = format!(
                        "an answer to nothing that was asked, or a second one, or one that came late (`{id}`)"
                    );
                    self.odd(why, weight).await
                }
            },
            Message::Notice { method, params } => self.notice(&method, params, weight).await,
            Message::Request { id, method, params } => {
                self.answerable().await?;
                match method.as_str() {
                    "session/request_permission" => self.asked(id, params, weight).await,
                    other => {
                        self.refuse(&id, NO_METHOD, "there is no such method here");
                        self.once(other, "the agent asked for a method that is not served", weight).await
                    }
                }
            }
        }
    }

    async fn notice(&mut self, method: &str, params: Value, weight: usize) -> Result<(), Untaken> {
        match method {
            "session/update" => self.update(params, weight).await,
            "$/cancel_request" => {
                let id =
                    Fields::of(params).and_then(|mut fields| fields.take("requestId")).and_then(TheirId::of);
                if let Some(id) = id {
                    self.link.taken_back(&id);
                }
                Ok(())
            }
            // Of what agents add to the protocol, by this sign, whoever does not know it takes no notice.
            other if other.starts_with('_') => {
                self.waste += (weight as u64).max(RECORD);
                self.pay().await;
                Ok(())
            }
            other => self.once(other, "the agent told something that is not known", weight).await,
        }
    }

    /// Tells once of each thing that is not known here.
    async fn once(&mut self, name: &str, what: &str, weight: usize) -> Result<(), Untaken> {
        let name = shown(name.as_bytes());
        let is_new = self.unknown.len() < NAMES && self.unknown.insert(name.clone());
        if is_new {
            return self.odd(format!("{what}: `{name}`"), weight).await;
        }
        self.waste += (weight as u64).max(RECORD);
        self.pay().await;
        Ok(())
    }

    async fn update(&mut self, params: Value, weight: usize) -> Result<(), Untaken> {
        let Some((session, update)) =
            Fields::of(params).and_then(|mut fields| Some((session(&mut fields)?, fields.take("update")?)))
        else {
            return self.odd("an update without a session or without news".to_owned(), weight).await;
        };
        let belongs = self.link.belongs(&session);
        let update = match update::read(update) {
            Ok(update) => update,
            Err(NoUpdate::NoNews) => return Ok(()),
            Err(NoUpdate::Corrupt(why)) => return self.odd(why, weight).await,
            Err(NoUpdate::Unknown(kind)) => {
                return self
                    .once(&kind, "the agent told an update of a kind that is not known", weight)
                    .await;
            }
        };
        if let Update::Settings(settings) = &update {
            self.link.change_offer(|offer| offer.settings.clone_from(settings));
        }
        match belongs {
            Belongs::Now => self.tell(update, weight).await,
            Belongs::Again => self.tell(Update::Again(Box::new(update)), weight).await,
            Belongs::Elsewhere => self.odd("an update of another session".to_owned(), weight).await,
        }
    }

    async fn asked(&mut self, id: TheirId, params: Value, weight: usize) -> Result<(), Untaken> {
        let Some((session, asked)) =
            Fields::of(params).and_then(|mut fields| Some((session(&mut fields)?, Asked::read(&mut fields))))
        else {
            self.refuse(&id, BAD_PARAMS, "there is no `sessionId`");
            return self.odd("a question without a session".to_owned(), weight).await;
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err(why) => {
                self.refuse(&id, BAD_PARAMS, why);
                return self.odd(format!("a question was not put to anybody: {why}"), weight).await;
            }
        };
        match self.link.put(id.clone(), session) {
            Put::Open(number) => {
                let question = Question::new(asked, Slip::new(Arc::clone(&self.link), number));
                self.tell(Update::Asked(question), weight).await
            }
            Put::Cancelled => {
                self.link.outbox.push(Tag::Answer, message::result(&id, &cancelled()));
                Ok(())
            }
            Put::Refused(why) => {
                self.refuse(&id, NO_REQUEST, why);
                self.odd(format!("a question was not put to anybody: {why}"), weight).await
            }
        }
    }
}

fn session(fields: &mut Fields) -> Option<AgentSession> {
    fields.text("sessionId")?.parse().ok()
}
