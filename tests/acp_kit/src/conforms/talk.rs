//! A talk with one process: turns from their prompt to their end.

use std::time::Duration;

use acp::{AcpError, Agent, AgentSession, ChoiceKind, Heard, Opened, Question, Stop, Update};
use tokio::time::timeout;

use super::{Failed, Subject, limits};

/// How long an agent may be silent at the beginning of a turn before it is stopped anyway, and take to end.
const SILENCE: Duration = Duration::from_secs(10);
const END: Duration = Duration::from_secs(20);

/// What questions are answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Allow,
    Reject,
    /// Dropped.
    Leave,
}

/// What came of a prompt.
#[derive(Debug, Default)]
pub struct Turn {
    pub why: Option<Stop>,
    pub error: Option<AcpError>,
    pub said: Vec<String>,
    pub asked: usize,
    /// Everything else, as it is printed.
    pub others: Vec<String>,
}

pub struct Talk {
    pub agent: Agent,
    pub heard: Heard,
    pub odd: Vec<String>,
    session: Option<AgentSession>,
    kill: Box<dyn FnMut() + Send>,
}

impl Drop for Talk {
    fn drop(&mut self) {
        (self.kill)();
    }
}

impl Talk {
    pub async fn greeted(subject: &Subject) -> Result<Self, Failed> {
        let started = (subject.start)();
        let (agent, heard) = acp::connect(started.to, started.from, limits(subject));
        let talk = Self { agent, heard, odd: Vec::new(), session: None, kill: started.kill };
        talk.agent.initialize("conforms", "1").await?;
        if let Some(method) = &subject.sign_in {
            talk.agent.authenticate(method).await?;
        }
        Ok(talk)
    }

    pub async fn open(&mut self, subject: &Subject) -> Result<Opened, Failed> {
        let opened = self.agent.open(&subject.cwd, &[]).await?;
        self.session = Some(opened.session.clone());
        Ok(opened)
    }

    /// Loads, and gives what was told meanwhile.
    pub async fn load(&mut self, session: &AgentSession, subject: &Subject) -> Result<Vec<Update>, Failed> {
        self.session = Some(session.clone());
        let (agent, session, cwd) = (self.agent.clone(), session.clone(), subject.cwd.clone());
        let mut loading = tokio::spawn(async move { agent.load(&session, &cwd).await });
        let mut again = Vec::new();
        loop {
            tokio::select! {
                biased;
                update = self.heard.next() => match update {
                    Some(Update::Again(update)) => again.push(*update),
                    Some(Update::Odd(why)) => self.odd.push(why),
                    Some(_) => {}
                    None => return Err(Failed::from(AcpError::Gone)),
                },
                loaded = &mut loading => {
                    loaded.expect("loading does not panic")?;
                    return Ok(again);
                }
            }
        }
    }

    fn begun(&self, text: &str) -> tokio::task::JoinHandle<Result<acp::Stopped, AcpError>> {
        let (agent, text) = (self.agent.clone(), text.to_owned());
        let session = self.session.clone().expect("a session was opened");
        tokio::spawn(async move { agent.prompt(&session, &text).await })
    }

    /// A turn to its end.
    pub async fn turn(&mut self, text: &str, reply: Reply) -> Result<Turn, Failed> {
        let prompt = self.begun(text);
        let mut turn = Turn::default();
        self.follow(&mut turn, reply, |_| false).await;
        ended(prompt, &mut turn).await;
        Ok(turn)
    }

    /// A turn that is stopped when it has begun to say something.
    pub async fn stopped(&mut self, text: &str) -> Result<Turn, Failed> {
        let prompt = self.begun(text);
        let mut turn = Turn::default();
        let _ = timeout(SILENCE, self.follow(&mut turn, Reply::Leave, speaks)).await;
        self.agent.cancel(self.session.as_ref().expect("a session was opened"));
        let end = timeout(END, self.follow(&mut turn, Reply::Leave, |_| false)).await;
        end.map_err(|_| Failed::Broken(format!("it did not end when it was stopped: {turn:?}")))?;
        ended(prompt, &mut turn).await;
        Ok(turn)
    }

    /// A turn in which the process is killed.
    pub async fn killed(&mut self, text: &str) -> Result<(), Failed> {
        let prompt = self.begun(text);
        let mut turn = Turn::default();
        let _ = timeout(SILENCE, self.follow(&mut turn, Reply::Leave, speaks)).await;
        (self.kill)();
        let told = timeout(END, prompt).await.map(|joined| joined.expect("a prompt does not panic"));
        match told {
            Ok(Err(AcpError::Gone)) => {}
            other => return Err(Failed::Broken(format!("whoever waited was told {other:?}"))),
        }
        let silence = async { while self.heard.next().await.is_some() {} };
        let silent = timeout(END, silence).await;
        silent.map_err(|_| Failed::Broken("updates do not end with the process".to_owned()))
    }

    /// Lets the process end by itself, or ends it when it does not.
    pub async fn leave(&mut self) {
        self.agent.close();
        let silence = async { while self.heard.next().await.is_some() {} };
        let _ = timeout(END, silence).await;
        (self.kill)();
    }

    /// Takes updates until the turn is over, the stream ends, or one is enough.
    async fn follow(&mut self, turn: &mut Turn, reply: Reply, enough: impl Fn(&Update) -> bool) {
        while let Some(update) = self.heard.next().await {
            let is_enough = enough(&update);
            match update {
                Update::TurnOver => return,
                Update::Said(text) => turn.said.push(text),
                Update::Asked(question) => {
                    turn.asked += 1;
                    turn.others.push(format!("{question:?}"));
                    replied(question, reply);
                }
                Update::Odd(why) => self.odd.push(why),
                other => turn.others.push(format!("{other:?}")),
            }
            if is_enough {
                return;
            }
        }
    }
}

fn speaks(update: &Update) -> bool {
    matches!(update, Update::Said(_) | Update::Thought(_))
}

fn replied(question: Question, reply: Reply) {
    let wanted = match reply {
        Reply::Allow => [ChoiceKind::AllowOnce, ChoiceKind::AllowAlways],
        Reply::Reject => [ChoiceKind::RejectOnce, ChoiceKind::RejectAlways],
        Reply::Leave => return,
    };
    let choice = wanted.iter().find_map(|kind| question.choices.iter().find(|choice| choice.kind == *kind));
    if let Some(id) = choice.map(|choice| choice.id.clone()) {
        question.answer(&id);
    }
}

async fn ended(prompt: tokio::task::JoinHandle<Result<acp::Stopped, AcpError>>, turn: &mut Turn) {
    match prompt.await.expect("a prompt does not panic") {
        Ok(stopped) => turn.why = Some(stopped.why),
        Err(error) => turn.error = Some(error),
    }
}
