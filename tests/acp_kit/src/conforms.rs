//! What every agent that is driven over ACP must do (SES-14): new, prompt, stream, cancel, permission, load, crash. Written once, for
//! any agent: whoever calls says how to start it and how to bring it to do something.
//!
//! Each part has processes of its own and an end of its own; a part that fails does not keep the others from being tried.

mod talk;

use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::time::Duration;

use acp::{AcpError, Limits, Stop, Update};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

pub use talk::{Reply, Talk, Turn};

/// What an agent is to do in its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// Say [`WORDS`], in more than one piece.
    Says,
    /// Begin to say something, and then be silent for a minute.
    Stalls,
    /// Do something that it asks about, which makes the file [`Subject::made`]; then say anything.
    Asks,
}

/// What an agent says.
pub const WORDS: &str = "a horse, a staple and a battery";

/// An agent, and how to bring it to do something.
pub struct Subject {
    /// Starts it: a new process each time, with the same home.
    pub start: Box<dyn Fn() -> Started + Send + Sync>,
    /// Prepares the next turn (a model's script, say), and gives the words to prompt.
    pub scene: Box<dyn Fn(Scene) -> String + Send + Sync>,
    /// Where it works, as it sees it.
    pub cwd: PathBuf,
    /// What [`Scene::Asks`] makes, as we see it.
    pub made: PathBuf,
    /// The way to sign in that it wants named before it is used, if it does.
    pub sign_in: Option<String>,
    /// The mode in which it asks, if it is not the one that it begins with.
    pub asking_mode: Option<String>,
    /// How long one part may take.
    pub patience: Duration,
}

/// An agent that was started.
pub struct Started {
    pub to: Pin<Box<dyn AsyncWrite + Send>>,
    pub from: Pin<Box<dyn AsyncRead + Send>>,
    /// Ends it at once, as `kill -9` does.
    pub kill: Box<dyn FnMut() + Send>,
}

impl Started {
    /// Starts a program. What it says on standard error is for whoever runs the test.
    #[must_use]
    pub fn program(command: std::process::Command) -> Self {
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        let mut child = command.spawn().expect("the agent cannot be started");
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let kill = Box::new(move || drop(child.start_kill()));
        Self { to: Box::pin(to), from: Box::pin(from), kill }
    }
}

/// A part of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    New,
    Prompt,
    Stream,
    Cancel,
    Permission,
    Load,
    Crash,
}

/// How a part went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Held,
    /// The agent says that it cannot.
    NotOffered,
    Broken(String),
}

/// How all parts went, and what was odd meanwhile.
#[derive(Debug)]
pub struct Report {
    pub parts: Vec<(Part, Outcome)>,
    pub odd: Vec<String>,
}

impl Report {
    /// Whether every part held, but for those that the agent need not offer.
    #[track_caller]
    pub fn assert_held(&self, may_lack: &[Part]) {
        for (part, outcome) in &self.parts {
            let is_fine = match outcome {
                Outcome::Held => true,
                Outcome::NotOffered => may_lack.contains(part),
                Outcome::Broken(_) => false,
            };
            assert!(is_fine, "{part:?}: {outcome:?}\n{self:#?}");
        }
    }
}

impl Report {
    /// Whether every part held, but for those that are known not to: each has words of how it does not, and holds in no other way. One that
    /// holds after all is an error too, so that what is said of an agent stays true.
    #[track_caller]
    pub fn assert_held_but(&self, known: &[(Part, &str)]) {
        for (part, outcome) in &self.parts {
            let how = known.iter().find(|(one, _)| one == part).map(|(_, how)| *how);
            let is_so = match (outcome, how) {
                (Outcome::Held, None) => true,
                (Outcome::NotOffered, Some(how)) => how.is_empty(),
                (Outcome::Broken(why), Some(how)) => !how.is_empty() && why.contains(how),
                _ => false,
            };
            assert!(is_so, "{part:?}: {outcome:?}, where {how:?} was known\n{self:#?}");
        }
    }
}

/// Tries every part.
pub async fn conforms(subject: &Subject) -> Report {
    let mut report = Report { parts: Vec::new(), odd: Vec::new() };
    for part in
        [Part::New, Part::Prompt, Part::Stream, Part::Cancel, Part::Permission, Part::Load, Part::Crash]
    {
        let mut odd = Vec::new();
        let tried = timeout(subject.patience, tried(part, subject, &mut odd)).await;
        let outcome = match tried {
            Ok(Ok(())) => Outcome::Held,
            Ok(Err(Failed::NotOffered)) => Outcome::NotOffered,
            Ok(Err(Failed::Broken(why))) => Outcome::Broken(why),
            Err(_) => Outcome::Broken(format!("it took more than {:?}", subject.patience)),
        };
        report.parts.push((part, outcome));
        report.odd.extend(odd.into_iter().map(|why| format!("{part:?}: {why}")));
    }
    report
}

/// Why a part did not hold.
#[derive(Debug)]
pub enum Failed {
    NotOffered,
    Broken(String),
}

impl From<AcpError> for Failed {
    fn from(error: AcpError) -> Self {
        match error {
            AcpError::NotOffered { .. } => Self::NotOffered,
            other => Self::Broken(other.to_string()),
        }
    }
}

fn must(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(Failed::Broken(what())) }
}

async fn tried(part: Part, subject: &Subject, odd: &mut Vec<String>) -> Result<(), Failed> {
    let mut talk = Talk::greeted(subject).await?;
    let outcome = match part {
        Part::New => new(&mut talk, subject).await,
        Part::Prompt => prompt(&mut talk, subject).await,
        Part::Stream => stream(&mut talk, subject).await,
        Part::Cancel => cancel(&mut talk, subject).await,
        Part::Permission => permission(&mut talk, subject).await,
        Part::Load => load(&mut talk, subject).await,
        Part::Crash => crash(&mut talk, subject).await,
    };
    odd.append(&mut talk.odd);
    outcome
}

/// Two sessions have two names, and the mode a session is in is one that it offers.
async fn new(talk: &mut Talk, subject: &Subject) -> Result<(), Failed> {
    let first = talk.open(subject).await?;
    let offered = |id: &String| first.modes.iter().any(|mode| mode.id == *id);
    must(first.mode.as_ref().is_none_or(offered), || {
        format!("it is in a mode that it does not offer: {first:?}")
    })?;
    let mut other = Talk::greeted(subject).await?;
    let second = other.open(subject).await?;
    must(first.session != second.session, || format!("two sessions have one id: {first:?}"))
}

async fn prompt(talk: &mut Talk, subject: &Subject) -> Result<(), Failed> {
    talk.open(subject).await?;
    // Twice: a session goes on.
    for _ in 0..2 {
        let turn = talk.turn(&(subject.scene)(Scene::Says), Reply::Leave).await?;
        must(turn.why == Some(Stop::EndTurn), || format!("the turn ended otherwise: {turn:?}"))?;
        must(turn.said.concat().contains(WORDS), || format!("it did not say what it was to say: {turn:?}"))?;
    }
    Ok(())
}

async fn stream(talk: &mut Talk, subject: &Subject) -> Result<(), Failed> {
    talk.open(subject).await?;
    let turn = talk.turn(&(subject.scene)(Scene::Says), Reply::Leave).await?;
    must(turn.said.len() > 1, || format!("it came in one piece: {turn:?}"))
}

/// A turn that is stopped ends as such, soon, and the session goes on.
async fn cancel(talk: &mut Talk, subject: &Subject) -> Result<(), Failed> {
    talk.open(subject).await?;
    let turn = talk.stopped(&(subject.scene)(Scene::Stalls)).await?;
    must(turn.why == Some(Stop::Cancelled), || format!("the turn was not cancelled: {turn:?}"))?;
    let turn = talk.turn(&(subject.scene)(Scene::Says), Reply::Leave).await?;
    must(turn.said.concat().contains(WORDS), || format!("the session does not go on: {turn:?}"))
}

/// What is refused is not done; what is allowed is.
async fn permission(talk: &mut Talk, subject: &Subject) -> Result<(), Failed> {
    let opened = talk.open(subject).await?;
    if let Some(mode) = &subject.asking_mode {
        talk.agent.set_mode(&opened.session, mode).await?;
    }
    let _ = std::fs::remove_file(&subject.made);
    let turn = talk.turn(&(subject.scene)(Scene::Asks), Reply::Reject).await?;
    must(turn.asked > 0, || format!("it did not ask: {turn:?}"))?;
    must(!subject.made.exists(), || format!("it did what was refused: {turn:?}"))?;
    // Some end a turn in which they were refused, others go on; the session is usable in both cases.
    let turn = talk.turn(&(subject.scene)(Scene::Asks), Reply::Allow).await?;
    must(turn.asked > 0 && subject.made.exists(), || format!("it did not do what was allowed: {turn:?}"))?;
    must(turn.why == Some(Stop::EndTurn), || format!("the turn ended otherwise: {turn:?}"))
}

/// Another process goes on with a session, and tells first what was said.
async fn load(talk: &mut Talk, subject: &Subject) -> Result<(), Failed> {
    let opened = talk.open(subject).await?;
    talk.turn(&(subject.scene)(Scene::Says), Reply::Leave).await?;
    talk.leave().await;
    let mut later = Talk::greeted(subject).await?;
    let again = later.load(&opened.session, subject).await?;
    let said: String = again
        .iter()
        .filter_map(|update| if let Update::Said(text) = update { Some(&**text) } else { None })
        .collect();
    must(said.contains(WORDS), || format!("it does not tell again what it said: {again:?}"))?;
    let turn = later.turn(&(subject.scene)(Scene::Says), Reply::Leave).await?;
    talk.odd.append(&mut later.odd);
    must(turn.why == Some(Stop::EndTurn), || format!("the session does not go on: {turn:?}"))
}

/// Whoever waits is told at once when the process ends, and the next process works.
async fn crash(talk: &mut Talk, subject: &Subject) -> Result<(), Failed> {
    talk.open(subject).await?;
    talk.killed(&(subject.scene)(Scene::Stalls)).await?;
    let mut next = Talk::greeted(subject).await?;
    prompt(&mut next, subject).await
}

/// The limits that agents are tried with.
#[must_use]
pub fn limits(subject: &Subject) -> Limits {
    Limits { answer: subject.patience, turn: subject.patience, ..Limits::default() }
}
