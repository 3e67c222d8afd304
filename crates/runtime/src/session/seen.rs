//! What is refused in the network of a task and what must not happen there, as its launcher sees it, on its way to people.
//!
//! Flow: a line of the pipe beside the report -> without secrets -> the ledger, a step of the session, an event; sums -> what is measured.
//!
//! Invariants: it is heard beside the agent, whatever that does; the ledger has it before a step tells it; what comes is bounded, and noise of one kind
//! hides nothing of another; what was not told one by one is told as a number.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use access::Principal;
use ledger::{Decision, Draft};
use model::{EventKind, StepKind};
use serde_json::{Map, Value, json};
use store::AtWork;
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;

use super::sandbox::{Pipe, Wanted};
use super::told::clean;
use super::{measured, turn};
use crate::Runtime;

/// Bytes of one line; more of it is dropped.
const LONGEST: usize = 32 << 10;
/// Things of one kind that are told one by one in a task.
const MOST: u64 = 200;
/// How long after an event the next may be, at the least.
const EVENTS: Duration = Duration::from_secs(1);
/// How long is heard at the end what was told before it.
const PARTING: Duration = Duration::from_secs(2);
/// Fields of what was wanted, as they are told.
const FIELDS: [&str; 6] = ["host", "port", "method", "path", "by", "decoy"];

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Refused,
    Found,
    Proxy,
}

impl About {
    fn of(word: &str) -> Option<Self> {
        match word {
            "refused" => Some(Self::Refused),
            "found" => Some(Self::Found),
            "proxy" => Some(Self::Proxy),
            _ => None,
        }
    }

    /// What the ledger calls it; as in the record of the run.
    fn action(self) -> (&'static str, Decision) {
        match self {
            Self::Refused => ("network.connect", Decision::Refused),
            Self::Found => ("network.finding", Decision::Noted),
            Self::Proxy => ("network.proxy", Decision::Failed),
        }
    }

    fn event(self) -> EventKind {
        match self {
            Self::Found => EventKind::NetworkFound,
            Self::Refused | Self::Proxy => EventKind::NetworkRefused,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Found => "found",
            Self::Proxy => "proxy",
        }
    }
}

/// The pipe of one task, and what came of it.
pub(super) struct Seen<'a> {
    runtime: &'a Arc<Runtime>,
    work: &'a AtWork,
    /// Whoever asked, as the ledger names them.
    who: String,
    pipe: Pipe,
    line: Vec<u8>,
    /// How many came of each kind, by [`About`].
    came: [u64; 3],
    /// Events that are to be told, and when the last one was.
    due: Vec<EventKind>,
    told_at: Option<Instant>,
    sums: Map<String, Value>,
}

impl Drop for Seen<'_> {
    fn drop(&mut self) {
        // Nothing of it is open any more.
        measured::network(&self.sums, &Map::new());
    }
}

impl<'a> Seen<'a> {
    /// The pipe beside the report of what is to run.
    pub(super) fn of(
        runtime: &'a Arc<Runtime>,
        work: &'a AtWork,
        who: &Principal,
        wanted: &Wanted,
    ) -> std::io::Result<Self> {
        let pipe = Pipe::of(wanted)?;
        let (who, line, due, sums) = (who.label(), Vec::new(), Vec::new(), Map::new());
        Ok(Self { runtime, work, who, pipe, line, came: [0; 3], due, told_at: None, sums })
    }

    /// Hears what comes for as long as this goes on, and then what was told until then.
    pub(super) async fn beside<T>(mut self, talk: impl Future<Output = T>) -> T {
        let ((ends, mut over), (ends_too, over_too)) = (oneshot::channel::<()>(), oneshot::channel::<()>());
        let talk = async {
            let talked = talk.await;
            drop((ends, ends_too));
            talked
        };
        let hears = async {
            let all = async {
                self.hear(&mut over).await;
                self.end().await;
            };
            // It is over: nobody is kept waiting by a disk that takes nothing, whatever came before.
            let late = async {
                let _ = over_too.await;
                tokio::time::sleep(PARTING).await;
            };
            tokio::select! {
                () = all => {}
                () = late => {
                    tracing::error!("the last that was seen of the network of a task could not be told in time");
                }
            }
        };
        tokio::join!(talk, hears).0
    }

    async fn hear(&mut self, over: &mut oneshot::Receiver<()>) {
        let (mut piece, mut is_open) = (vec![0; 16 << 10], true);
        loop {
            let due = self.events_due();
            tokio::select! {
                _ = &mut *over => return,
                read = self.pipe.from.read(&mut piece), if is_open => match read {
                    Ok(count @ 1..) => self.take(piece.get(..count).unwrap_or_default()).await,
                    // The launcher has ended; nobody else has the other end.
                    Ok(0) | Err(_) => is_open = false,
                },
                () = turn::due(due) => self.publish().await,
            }
        }
    }

    /// What is still in the pipe; and what was not told one by one, as a number.
    async fn end(&mut self) {
        let mut piece = vec![0; 16 << 10];
        while let Ok(count @ 1..) = self.pipe.from.try_read(&mut piece) {
            self.take(piece.get(..count).unwrap_or_default()).await;
        }
        let untold = self.sums.get("untold").and_then(Value::as_u64).unwrap_or(0);
        let over = self.came.iter().map(|came| came.saturating_sub(MOST)).sum::<u64>().saturating_add(untold);
        if over > 0 {
            let text = format!(
                "{over} more kinds of what was refused or found in its network are not told one by one here; the record of the run has them"
            );
            let body = json!({ "text": text, "network": { "kind": "more", "count": over } });
            self.say(StepKind::System, body).await;
        }
        if self.sums.values().any(|number| number.as_u64().is_some_and(|number| number > 0)) {
            self.note_sums().await;
        }
        self.publish().await;
    }

    /// Puts the sums on the record.
    async fn note_sums(&self) {
        let note = self.entry("network.counts", Decision::Noted);
        let numbers = self.sums.iter().filter(|(name, _)| *name != "open");
        let note = numbers.fold(note, |note, (name, number)| note.with(name.clone(), number.to_string()));
        self.note(note).await;
    }

    fn entry(&self, action: &str, decision: Decision) -> Draft {
        let (session, task) = (self.work.session().to_string(), self.work.task().to_string());
        Draft::new(self.who.clone(), action, decision).on(session).with("task", task)
    }

    async fn note(&self, note: Draft) {
        if !matches!(self.runtime.ledger.note(note).await, Ok(Ok(_))) {
            let task = self.work.task();
            tracing::error!(%task, "what was seen of the network of a task could not be recorded");
        }
    }

    async fn say(&self, kind: StepKind, body: Value) {
        let (session, task) = (self.work.session(), Some(self.work.task()));
        self.runtime.journal.write_soon(session, task, kind, body).await;
    }

    async fn take(&mut self, mut piece: &[u8]) {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = piece.split_at(end);
            self.keep(line);
            piece = rest.get(1..).unwrap_or_default();
            let line = std::mem::take(&mut self.line);
            if let Ok(Value::Object(told)) = serde_json::from_slice(&line) {
                self.heard(&told).await;
            }
        }
        self.keep(piece);
        if self.events_due().is_some_and(|due| due <= Instant::now()) {
            self.publish().await;
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        let room = LONGEST.saturating_sub(self.line.len()).min(piece.len());
        self.line.extend_from_slice(piece.get(..room).unwrap_or_default());
    }

    async fn heard(&mut self, told: &Map<String, Value>) {
        if let Some(Value::Object(sums)) = told.get("counts") {
            measured::network(&self.sums, sums);
            self.sums = sums.clone();
            return;
        }
        let text = |name: &str| told.get(name).and_then(Value::as_str);
        let Some(about) = text("kind").and_then(About::of) else { return };
        if let Some(came) = self.came.get_mut(about as usize) {
            *came = came.saturating_add(1);
            if *came > MOST {
                return;
            }
        }
        let clean = |text: &str| clean(&self.runtime.redactor, text);
        let (what, why) = (clean(text("what").unwrap_or_default()), clean(text("why").unwrap_or_default()));
        let (action, decision) = about.action();
        let mut note = self.entry(action, decision).because(why.clone()).with("what", what.clone());
        let mut network = Map::from_iter([("kind".to_owned(), Value::from(about.word()))]);
        for name in FIELDS {
            let Some(text) = text(name) else { continue };
            let text = clean(text);
            note = note.with(name, text.clone());
            network.insert(name.to_owned(), text.into());
        }
        self.note(note).await;
        let by =
            network.get("by").and_then(Value::as_str).map(|by| format!(" (by {by})")).unwrap_or_default();
        let (kind, text) = match about {
            About::Refused => (StepKind::System, format!("refused {what}: {why}{by}")),
            About::Found => (StepKind::Error, format!("found: {what}")),
            About::Proxy => (StepKind::Error, format!("the network of this task: {why}")),
        };
        network.insert("why".to_owned(), why.into());
        self.say(kind, json!({ "text": text, "network": network })).await;
        if !self.due.contains(&about.event()) {
            self.due.push(about.event());
        }
    }

    /// When what is to be told as an event is; the first is at once.
    fn events_due(&self) -> Option<Instant> {
        let next = self.told_at.map_or_else(Instant::now, |at| at + EVENTS);
        (!self.due.is_empty()).then_some(next)
    }

    /// Tells those who follow events that there is something to read.
    async fn publish(&mut self) {
        for kind in std::mem::take(&mut self.due) {
            if let Err(error) = self.runtime.store.tell_of_network(self.work, kind).await {
                tracing::warn!(%error, "that something was refused in the network of a task could not be told as an event");
            }
        }
        self.told_at = Some(Instant::now());
        self.runtime.store.publish();
    }
}
