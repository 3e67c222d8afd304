//! One task, from its beginning to its end: an agent in a sandbox is told what was asked, what it does is written down, and
//! what it changed is carried into the worktree.
//!
//! Invariants: it ends truthfully whatever the agent does; nothing of the agent is left when it ended; what was lent to it
//! ends with it; whoever asked may lose the right to it at any time, and then it ends.

mod asked;
mod converse;
mod left;
mod loans;
mod models;
mod stands;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::agents::{Bound, Requests};
use access::{Act, Principal, Resource, StartTask};
use model::{HoldCause, StepKind, TaskState};
use serde_json::{Value, json};
use store::{AtWork, Moment, Session, TaskEnd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, watch};
use zeroize::Zeroizing;

use self::asked::Questions;
use self::loans::{LONGEST, Loan};
use super::agents::{How, Kind};
use super::budget::Purse;
use super::cut::Cut;
use super::sandbox::{self, Agent, Carried, Ended, Layer, Wanted};
use super::seen::Seen;
use super::told::{Draft, LATEST, Told};
use super::{SEALED, opened};
use crate::Runtime;
use crate::trees::frames;

/// How often rights and loans are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long an agent has to end when its turn is over.
const PARTING: Duration = Duration::from_secs(5);
/// Bytes of what one task may say.
const MOST_SAID: usize = 64 << 20;

/// Why a task is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Somebody said so.
    Person,
    /// The session is closed.
    Closed,
    /// The worktree is archived or deleted.
    Ended,
    /// The daemon ends.
    Daemon,
}

/// How the agent's part of a task ended.
#[derive(Debug)]
enum Outcome {
    Done(String),
    Failed(String),
    Stopped(Wish),
    /// What may be spent is spent, and nobody allowed more.
    Spent(String),
    /// Whoever asked may not any more, or what was lent was taken back.
    Lost(&'static str),
}

/// One task.
pub(super) struct Turn<'a> {
    pub(super) runtime: &'a Arc<Runtime>,
    pub(super) work: &'a AtWork,
    pub(super) session: &'a Session,
    pub(super) who: &'a Principal,
    wishes: watch::Receiver<Option<Wish>>,
    epoch: watch::Receiver<u64>,
    told: Told,
    /// What a program says on its other output: apart, so that neither cuts a line of the other, and a secret in it, in two.
    complains: Told,
    leases: Vec<Loan>,
    agent_session: Option<String>,
    /// Whether that is a conversation that it goes on with.
    pub(super) goes_on: bool,
    /// Whether something that it changed is in the worktree.
    carried: bool,
    /// What the agent calls its mode, and what becomes of what it asks.
    mode: Option<String>,
    requests: Requests,
    /// Hosts that its document names for what is lent to it: its models are there.
    models: Vec<String>,
    /// How the agent is told that it has a credential.
    sign_in: Option<String>,
    /// What was said so far, and when the rest of it is due.
    bytes: usize,
    flush: Option<Instant>,
    /// Whether its run is kept.
    is_named: bool,
    /// The place behind the last step that was there before it.
    begun_at: i64,
    /// What it spends.
    pub(super) purse: Purse,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        runtime: &'a Arc<Runtime>,
        work: &'a AtWork,
        session: &'a Session,
        who: &'a Principal,
        wishes: watch::Receiver<Option<Wish>>,
    ) -> Self {
        // Rights may have changed since they were judged: they are looked at once more.
        let mut epoch = runtime.gate.epoch().watch();
        epoch.mark_changed();
        Self {
            told: Told::new(runtime.redactor.clone()),
            complains: Told::new(runtime.redactor.clone()),
            epoch,
            runtime,
            work,
            session,
            who,
            wishes,
            leases: Vec::new(),
            agent_session: None,
            goes_on: false,
            carried: false,
            mode: None,
            requests: Requests::Refuse,
            models: Vec::new(),
            sign_in: None,
            bytes: 0,
            flush: None,
            is_named: false,
            begun_at: session.steps.saturating_add(1),
            purse: Purse::new(),
        }
    }

    /// Carries it out.
    pub(super) async fn run(mut self) -> TaskEnd {
        self.keep_standing(Moment::Began).await;
        let prepared = self.prepared().await;
        let wish = self.wishes.borrow().clone();
        let outcome = match (prepared, wish) {
            (Ok(_), Some(wish)) => Outcome::Stopped(wish),
            (Ok((wanted, how, prompt)), None) => self.carried_out(&wanted, how, &prompt).await,
            (Err(why), _) => Outcome::Failed(why),
        };
        self.runtime.end_leases_of(&self.consumer());
        self.keep_standing(Moment::Ended).await;
        let agent_told = self.purse.in_all();
        let (state, why, holds) = match outcome {
            Outcome::Done(why) => (TaskState::Done, why, None),
            Outcome::Failed(why) => {
                (TaskState::Failed, why, (!self.runtime.bounds.goes_on).then_some(HoldCause::Failed))
            }
            Outcome::Stopped(Wish::Person) => {
                (TaskState::Stopped, "somebody stopped it".into(), Some(HoldCause::Stopped))
            }
            Outcome::Stopped(Wish::Closed) => (TaskState::Stopped, "the session was closed".into(), None),
            Outcome::Stopped(Wish::Ended) => {
                (TaskState::Stopped, "its worktree was archived or deleted".into(), Some(HoldCause::Stopped))
            }
            Outcome::Stopped(Wish::Daemon) => (
                TaskState::Failed,
                "the daemon ended while it was at work".into(),
                Some(HoldCause::Interrupted),
            ),
            Outcome::Spent(why) => (TaskState::Failed, why, Some(HoldCause::Budget)),
            Outcome::Lost(why) => (TaskState::Failed, why.into(), Some(HoldCause::Refused)),
        };
        let Self { agent_session, carried, .. } = self;
        TaskEnd { state, why, agent_session, agent_told, carried, holds }
    }

    fn consumer(&self) -> String {
        self.work.task().to_string()
    }

    /// Writes down what happened. Nobody is kept from ending this by a disk that takes nothing.
    async fn say(&self, kind: StepKind, body: Value) {
        let mut wishes = self.wishes.clone();
        tokio::select! {
            biased;
            () = self.runtime.journal.write(self.work.session(), Some(self.work.task()), kind, body) => {}
            _ = wishes.wait_for(Option::is_some) => {}
        }
    }

    /// Writes these down, and sees to it that what waits is told in time.
    async fn tell(&mut self, drafts: Vec<Draft>) {
        for (kind, body) in drafts {
            self.bytes = self.bytes.saturating_add(super::journal::size(&body));
            self.say(kind, body).await;
        }
        self.flush = match (self.told.waits() || self.complains.waits(), self.flush) {
            (false, _) => None,
            (true, due) => Some(due.unwrap_or_else(|| Instant::now() + LATEST)),
        };
    }

    /// Keeps the run of its sandbox as soon as there is one.
    async fn name(&mut self, agent: &Agent) {
        if self.is_named {
            return;
        }
        if let Some(run) = agent.run().await {
            match self.runtime.store.name_run(self.work, &run).await {
                Ok(()) => self.is_named = true,
                Err(error) => tracing::warn!(%error, "the run of a task could not be kept"),
            }
        }
    }

    async fn note(&self, text: &str) {
        let text = super::told::clean(&self.runtime.redactor, text);
        self.say(StepKind::System, json!({ "text": text })).await;
    }

    /// Everything that is needed before anything starts.
    async fn prepared(&mut self) -> Result<(Wanted, How, Zeroizing<String>), String> {
        let prompt = opened(&self.runtime.ring, self.work.task(), self.work.session(), self.work.sealed());
        let prompt = prompt.map_err(|why| format!("{SEALED}: {why}"))?;
        let shown = super::told::clean(&self.runtime.redactor, &prompt);
        self.say(StepKind::User, json!({ "text": shown })).await;
        let mut kind = Kind::of(self.session, &self.runtime.agents, self.runtime.trees.launcher())?;
        let tree = self.runtime.trees.tree(self.session.worktree());
        if !tree.is_dir() {
            return Err(
                "the worktree has no tree on this machine; fetch its repository and make another".into()
            );
        }
        let cut = Cut::of(self.who.grant());
        let cuts = cut.options()?;
        kind.secrets.retain(|bound| cut.lends(&bound.name));
        kind.options.extend(cuts);
        let state = self.state()?;
        kind.write_document(&state).await?;
        let secrets = self.lent(&kind).await;
        if let (true, Some(Bound { name, .. })) = (secrets.is_empty(), kind.secrets.first()) {
            self.note(&format!(
                "nothing that `{}` could sign in with is lent: none of its secrets is in the vault; `palisade secret add {name}` adds one",
                self.session.agent
            ))
            .await;
        }
        let Kind { how, mut options, secrets: bound, mode, requests, document: _ } = kind;
        if let Some((name, address)) = self.runtime.store.who_asked(self.work).await.ok().flatten() {
            options.extend(sandbox::commits_as(&state, &name, &address).await?);
        }
        let is_lent = |bound: &&Bound| secrets.iter().any(|(lent, _)| *lent == bound.name);
        for bound in bound.iter().filter(is_lent) {
            for host in &bound.hosts {
                let every = String::new();
                let paths = if bound.paths.is_empty() { std::slice::from_ref(&every) } else { &bound.paths };
                for path in paths {
                    options.extend(frames::option(&bound.name, &format!("{host}{path}")));
                }
            }
        }
        self.models = bound.iter().flat_map(|bound| bound.hosts.iter().cloned()).collect();
        let sign_in = bound.iter().filter(is_lent).find_map(|bound| bound.method.clone());
        (self.mode, self.requests, self.sign_in) = (mode, requests, sign_in);
        let command = how.command().to_vec();
        let (name, grace) = (self.consumer(), self.runtime.bounds.grace);
        Ok((Wanted { name, tree, state, options, command, secrets, grace }, how, prompt))
    }

    /// Where the runs of this session keep what they keep for whoever asked.
    fn state(&self) -> Result<PathBuf, String> {
        let state = self.runtime.trees.launcher().state_for(&self.session.facts, self.who);
        crate::trees::private(&state).map_err(|error| error.to_string())?;
        Ok(state)
    }

    /// What the vault has of the secrets that this agent knows; for the caller, in this worktree.
    async fn lent(&mut self, kind: &Kind) -> Vec<(String, Zeroizing<String>)> {
        let mut lent = Vec::new();
        for Bound { name, hosts, .. } in &kind.secrets {
            let (Ok(secret), hosts) =
                (name.parse(), hosts.iter().filter_map(|host| host.parse().ok()).collect())
            else {
                continue;
            };
            let wish = crate::Wish { name: secret, worktree: Some(self.session.worktree()), hosts };
            let consumer = self.consumer();
            let Ok(loan) = self.runtime.lease_secret(self.who, wish.clone(), &consumer, LONGEST).await else {
                continue;
            };
            let value = self.runtime.with_lease(loan.lease, &consumer, |value| {
                std::str::from_utf8(value).map(|text| Zeroizing::new(text.to_owned()))
            });
            if let Ok(Ok(value)) = value {
                self.leases.push(Loan::new(&loan, wish));
                lent.push((name.clone(), value));
            }
        }
        lent
    }

    /// What was said before this task, for an agent that does not remember it: as much of the newest as fits.
    async fn record(&self) -> Option<String> {
        let mut recall = super::recall::Recall::default();
        let mut before = self.begun_at;
        loop {
            let read = access::ReadSession { session: self.work.session() };
            let permit = self.runtime.look(self.who, read).await.ok()?;
            let steps = self.runtime.store.steps_before(permit, before, super::recall::PAGE).await.ok()?;
            let Some(last) = steps.last().map(|step| step.seq) else { break };
            if !recall.takes(&steps) {
                break;
            }
            before = last;
        }
        recall.told()
    }

    async fn carried_out(&mut self, wanted: &Wanted, how: How, prompt: &str) -> Outcome {
        // What a program prints is what it says, on both; an agent says what it says over its protocol.
        let (complains, complaints) = match how {
            How::Plain(_) => Some(mpsc::channel(16)).unzip(),
            How::Acp(_) => (None, None),
        };
        let seen = match Seen::of(self.runtime, self.work, self.who, wanted) {
            Ok(seen) => seen,
            Err(error) => {
                return Outcome::Failed(format!("what its network refuses could not be told: {error}"));
            }
        };
        let started = Agent::start(self.runtime.trees.launcher(), wanted, complains).await;
        let (agent, to, from) = match started {
            Ok(started) => started,
            Err(error) => return Outcome::Failed(error.to_string()),
        };
        let talk = async {
            match how {
                How::Plain(_) => self.listen(agent, to, (from, complaints), wanted, prompt).await,
                How::Acp(_) => self.converse(agent, to, from, wanted, prompt).await,
            }
        };
        let (outcome, ended) = seen.beside(talk).await;
        let rest = [self.told.rest(), self.complains.rest()].concat();
        self.tell(rest).await;
        self.settle_up(&ended.report).await;
        let outcome = self.borne_out(outcome, &ended.report).await;
        self.take_over(wanted, &ended).await;
        match ended.is_gone {
            true => outcome,
            false => Outcome::Failed(
                "it was killed, and something of it is still there; look for it on the machine".into(),
            ),
        }
    }

    /// Carries what the run changed into the worktree, also of one that failed: the conversation goes on from there.
    async fn take_over(&mut self, wanted: &Wanted, ended: &Ended) {
        let Some(run) = ended.run() else { return };
        self.tell_found(&ended.report, run).await;
        if !self.is_named
            && let Err(error) = self.runtime.store.name_run(self.work, run).await
        {
            tracing::warn!(%error, "the run of a task could not be kept");
        }
        if let Some(why) = ended.lost_commits() {
            let why = super::told::clean(&self.runtime.redactor, why);
            let text = format!("what was committed was not taken over: {why}");
            self.say(StepKind::Error, json!({ "text": text, "run": run })).await;
        }
        if !ended.left_changes() {
            return;
        }
        // Before it is: whoever takes it back looks for those that may have been.
        self.carried = true;
        if let Err(error) = self.runtime.store.carries_over(self.work).await {
            tracing::warn!(%error, "that a task is carried over could not be kept");
        }
        let layer = sandbox::carry(self.runtime.trees.launcher(), wanted, run).await;
        // What was not carried whole may be there in part.
        self.carried = !matches!(&layer, Layer::Carried(carried) if !carried.counts);
        match layer {
            Layer::Carried(Carried { count, stays, left, counts: _ }) => {
                self.tell_left(&left, run).await;
                if let Some(why) = stays {
                    let why = super::told::clean(&self.runtime.redactor, &why);
                    let text = format!(
                        "what was committed is in the repository, and the branch stays where it was: {why}"
                    );
                    self.say(StepKind::Error, json!({ "text": text, "run": run })).await;
                }
                self.say(
                    StepKind::System,
                    json!({ "text": format!("{count} changed path{} in the worktree", if count == 1 { " is" } else { "s are" }), "run": run }),
                )
                .await;
            }
            Layer::Kept(why) => {
                let why = super::told::clean(&self.runtime.redactor, &why);
                let text = format!(
                    "what it changed is kept beside the worktree, because it could not be carried over: {why}"
                );
                self.say(StepKind::Error, json!({ "text": text, "run": run })).await;
            }
        }
    }

    /// A program that knows no protocol: what was asked on its standard input, what it prints for an answer.
    async fn listen(
        &mut self,
        mut agent: Agent,
        mut to: ChildStdin,
        (mut from, complaints): (ChildStdout, Option<mpsc::Receiver<Vec<u8>>>),
        wanted: &Wanted,
        prompt: &str,
    ) -> (Outcome, Ended) {
        // As somebody would type it: programs that read lines read this one.
        let text =
            Zeroizing::new(if prompt.ends_with('\n') { prompt.to_owned() } else { format!("{prompt}\n") });
        // One that does not read waits in its own pipe.
        let writing = tokio::spawn(async move {
            let _ = to.write_all(text.as_bytes()).await;
        });
        let mut every = tokio::time::interval(LOOK);
        let mut piece = vec![0; 32 << 10];
        let (mut odd, mut odd_complaint) = (Vec::new(), Vec::new());
        let (mut speaks, mut complaints) = (true, complaints);
        let mut questions = Questions::default();
        let mut last_heard = Instant::now();
        let outcome = loop {
            if !speaks && complaints.is_none() {
                break None;
            }
            tokio::select! {
                read = from.read(&mut piece), if speaks => match read {
                    Ok(count @ 1..) => {
                        odd.extend(piece.iter().take(count));
                        let text = whole_text(&mut odd);
                        let drafts = self.told.printed(&text);
                        self.tell(drafts).await;
                        last_heard = Instant::now();
                    }
                    Ok(0) | Err(_) => speaks = false,
                },
                complaint = heard(&mut complaints) => match complaint {
                    Some(said) => {
                        odd_complaint.extend(said);
                        let text = whole_text(&mut odd_complaint);
                        let drafts = self.complains.printed(&text);
                        self.tell(drafts).await;
                        last_heard = Instant::now();
                    }
                    None => complaints = None,
                },
                _ = self.wishes.changed() => {
                    let wish = self.wishes.borrow_and_update().clone();
                    if let Some(wish) = wish { break Some(Outcome::Stopped(wish)) }
                }
                () = due(self.flush) => {
                    let rest = [self.told.rest(), self.complains.rest()].concat();
                    self.tell(rest).await;
                }
                Some((id, choice)) = questions.answered() => {
                    if let Some(spent) = questions.settle(self, wanted, &agent, id, choice).await {
                        break Some(spent);
                    }
                }
                _ = every.tick() => {
                    self.name(&agent).await;
                    if questions.is_waiting() {
                        last_heard = Instant::now();
                    }
                    if let Some(silent) = self.silent(last_heard, "program") {
                        break Some(silent);
                    }
                    if let Some(lost) = self.lost(&agent).await {
                        break Some(lost);
                    }
                    questions.look_after(self, wanted, &agent).await;
                }
            }
        };
        questions.end(self).await;
        questions.thaw(self, wanted, &agent).await;
        writing.abort();
        // Whoever still says something is not kept waiting for us to hear it.
        drop(complaints);
        match outcome {
            Some(outcome) => (outcome, agent.stop().await),
            None => {
                // It said all that it will; how it ends is told by its exit code.
                let status = tokio::select! {
                    status = agent.wait() => status,
                    _ = self.wishes.changed() => None,
                };
                let ended = agent.end(PARTING).await;
                let wish = self.wishes.borrow().clone();
                let outcome = match (wish, status.and_then(|status| status.code())) {
                    (Some(wish), _) => Outcome::Stopped(wish),
                    (None, Some(0)) => Outcome::Done("the program ended".into()),
                    (None, Some(code)) => {
                        Outcome::Failed(with_complaint(&format!("the program ended with {code}"), &ended))
                    }
                    (None, None) => Outcome::Failed(with_complaint("the program was killed", &ended)),
                };
                (outcome, ended)
            }
        }
    }

    /// Whether nothing was heard of it for longer than it may say nothing.
    fn silent(&self, last_heard: Instant, what: &str) -> Option<Outcome> {
        let silence = self.runtime.bounds.silence;
        (last_heard.elapsed() >= silence).then(|| {
            Outcome::Failed(format!(
                "nothing was heard of the {what} for {} s; one may be silent for longer where `sessions.silence_seconds` says so",
                silence.as_secs()
            ))
        })
    }

    /// Whether whoever asked may not have this any more, what was lent is over, or nobody looks after its sandbox.
    async fn lost(&mut self, agent: &Agent) -> Option<Outcome> {
        // We may not have looked for a while ourselves: who waits for a full disk looks at nothing.
        agent.spent().await;
        if agent.is_stale() {
            return Some(Outcome::Failed("what looks after its sandbox gives no sign of life".into()));
        }
        if self.bytes > MOST_SAID {
            return Some(Outcome::Failed(format!("it said more than {} MiB", MOST_SAID >> 20)));
        }
        if self.runtime.clock.now() >= self.who.expires() {
            return Some(Outcome::Lost("the key that it was asked with has ended"));
        }
        let consumer = self.consumer();
        self.keep_lent().await;
        if self.leases.iter().any(|loan| self.runtime.with_lease(loan.lease, &consumer, |_| ()).is_err()) {
            return Some(Outcome::Lost("a secret that it used was taken back"));
        }
        if !self.epoch.has_changed().unwrap_or(false) {
            return None;
        }
        self.epoch.borrow_and_update();
        let resource = Resource::Session(self.work.session());
        match self.runtime.gate.still_allows(self.who, StartTask::ACTION, resource).await {
            Ok(true) => None,
            Ok(false) => Some(Outcome::Lost("whoever asked for it may not do that any more")),
            // What nobody can tell now is asked again.
            Err(_) => {
                self.epoch.mark_changed();
                None
            }
        }
    }
}

/// Waits until then; for ever if there is nothing to wait for.
pub(super) async fn due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

pub(super) fn with_complaint(text: &str, ended: &Ended) -> String {
    if ended.complaint.is_empty() { text.to_owned() } else { format!("{text}: {}", ended.complaint) }
}

/// The next that is complained of, from whoever does.
async fn heard(complaints: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match complaints {
        Some(complaints) => complaints.recv().await,
        None => std::future::pending().await,
    }
}

/// As much of these bytes as is whole text; the rest waits for its end.
fn whole_text(bytes: &mut Vec<u8>) -> String {
    let cut = match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => bytes.len(),
    };
    let rest = bytes.split_off(cut);
    let whole = std::mem::replace(bytes, rest);
    String::from_utf8_lossy(&whole).into_owned()
}
