//! A turn with an agent that speaks ACP.

use std::path::Path;
use std::time::{Duration, Instant};

use access::Via;
use acp::{AcpError, AgentSession, Limits, Stop, Stopped, Update};
use model::StepKind;
use tokio::process::{ChildStdin, ChildStdout};

use super::asked::Questions;
use super::{LOOK, Outcome, PARTING, Turn, due, with_complaint};
use crate::session::sandbox::{Agent, Ended, Wanted};

/// How long an agent has to end its turn when it is told to, before its program is.
const CANCELLING: Duration = Duration::from_secs(3);
/// How long what an agent said before it refused a prompt may take to come.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How we are called.
const CLIENT: &str = "palisade";

/// What came of talking.
struct Talk {
    session: Option<AgentSession>,
    ended: Result<Stopped, AcpError>,
    /// A conversation that could not be gone on with, and why.
    fresh: Option<String>,
    /// Whether the agent was given what was said before as text.
    recalled: bool,
    /// The model that it uses, as far as it tells.
    model: Option<String>,
}

/// What is asked of the agent.
struct Asking<'a> {
    cwd: &'a Path,
    earlier: Option<AgentSession>,
    sign_in: Option<&'a str>,
    mode: Option<&'a str>,
    model: Option<&'a str>,
    prompt: &'a str,
    /// What was said before, if the agent does not remember it.
    record: Option<&'a str>,
}

async fn talk(
    agent: acp::Agent,
    asking: Asking<'_>,
    opened: tokio::sync::watch::Sender<Option<AgentSession>>,
) -> Talk {
    let mut talk =
        Talk { session: None, ended: Err(AcpError::Gone), fresh: None, recalled: false, model: None };
    talk.ended = async {
        let abilities = agent.initialize(CLIENT, env!("CARGO_PKG_VERSION")).await?;
        if let Some(method) = asking.sign_in {
            agent.authenticate(method).await?;
        }
        let open = match &asking.earlier {
            Some(earlier) if abilities.can_load => match agent.load(earlier, asking.cwd).await {
                Ok(open) => open,
                Err(AcpError::Gone) => return Err(AcpError::Gone),
                Err(error) => {
                    talk.fresh = Some(error.to_string());
                    agent.open(asking.cwd, &[]).await?
                }
            },
            Some(_) => {
                talk.fresh = Some("the agent cannot go on with an earlier conversation".into());
                agent.open(asking.cwd, &[]).await?
            }
            None => agent.open(asking.cwd, &[]).await?,
        };
        talk.session = Some(open.session.clone());
        opened.send_replace(Some(open.session.clone()));
        if let Some(mode) = asking.mode {
            agent.set_mode(&open.session, mode).await?;
        }
        if let Some(model) = asking.model {
            agent.set_model(&open.session, model).await?;
        }
        let begins_anew = asking.earlier.is_none() || talk.fresh.is_some();
        let record = asking.record.filter(|_| begins_anew);
        talk.recalled = record.is_some();
        let ended = match record {
            Some(record) => agent.prompt_with(&open.session, &[record, asking.prompt]).await,
            None => agent.prompt(&open.session, asking.prompt).await,
        };
        talk.model = agent.model().or_else(|| asking.model.map(str::to_owned)).or(open.model);
        ended
    }
    .await;
    talk
}

impl Turn<'_> {
    /// Talks with the agent until its turn is over, somebody ends it, or it is gone.
    pub(super) async fn converse(
        &mut self,
        agent: Agent,
        to: ChildStdin,
        from: ChildStdout,
        wanted: &Wanted,
        prompt: &str,
    ) -> (Outcome, Ended) {
        let (said, mut heard) = acp::connect(to, from, Limits::default());
        let earlier = self.earlier().await;
        let (mode, sign_in) = (self.mode.clone(), self.sign_in.clone());
        let record = self.record().await;
        let asking = Asking {
            cwd: &wanted.tree,
            earlier: earlier.clone(),
            sign_in: sign_in.as_deref(),
            mode: mode.as_deref(),
            model: self.session.model.as_deref(),
            prompt,
            record: record.as_deref(),
        };
        let (open, opened) = tokio::sync::watch::channel(None);
        let talk = talk(said.clone(), asking, open);
        tokio::pin!(talk);
        let mut questions = Questions::default();
        let mut every = tokio::time::interval(LOOK);
        let (mut stopping, mut over): (Option<Outcome>, Option<Talk>) = (None, None);
        let mut heard_all = false;
        let begun = Instant::now();
        let mut last_heard = begun;
        let patience = tokio::time::sleep(Duration::MAX);
        tokio::pin!(patience);
        loop {
            tokio::select! {
                update = heard.next() => { match update {
                    Some(Update::Asked(question)) => questions.open(self, question, &wanted.tree).await,
                    // What stands before it is heard; the answer itself may come a moment later, or came before.
                    Some(Update::TurnOver) => {
                        heard_all = true;
                        if over.is_some() { break }
                    }
                    Some(update) => {
                        self.counts_on(&earlier, &opened);
                        self.purse.heard(&update);
                        let drafts = self.told.update(&update);
                        self.tell(drafts).await;
                    }
                    None => break,
                // Keeping what it said can take as long as a full disk does.
                } last_heard = Instant::now(); },
                came = &mut talk, if over.is_none() => {
                    let is_over = came.ended.is_err() || heard_all;
                    over = Some(came);
                    if is_over { break }
                }
                Some((id, choice)) = questions.answered() => {
                    if let Some(spent) = questions.settle(self, wanted, &agent, id, choice).await {
                        stopping = Some(spent);
                        break;
                    }
                }
                _ = self.wishes.changed(), if stopping.is_none() => {
                    let wish = self.wishes.borrow_and_update().clone();
                    if let Some(wish) = wish {
                        let is_daemon = wish == super::Wish::Daemon;
                        stopping = Some(Outcome::Stopped(wish));
                        questions.thaw(self, wanted, &agent).await;
                        if let Some(session) = opened.borrow().as_ref() { said.cancel(session) }
                        let grace = if is_daemon { Duration::ZERO } else { CANCELLING };
                        patience.as_mut().reset(tokio::time::Instant::now() + grace);
                    }
                }
                () = due(self.flush) => {
                    let rest = self.told.rest();
                    self.tell(rest).await;
                }
                _ = every.tick() => {
                    self.name(&agent).await;
                    if questions.is_waiting() {
                        last_heard = Instant::now();
                    }
                    let begin = self.runtime.bounds.begin;
                    if stopping.is_none() && opened.borrow().is_none() && begun.elapsed() >= begin {
                        let why = format!("the agent did not begin within {} s", begin.as_secs());
                        stopping = Some(Outcome::Failed(why));
                        break;
                    }
                    if stopping.is_none() && let Some(silent) = self.silent(last_heard, "agent") {
                        stopping = Some(silent);
                        break;
                    }
                    if stopping.is_none() && let Some(lost) = self.lost(&agent).await {
                        stopping = Some(lost);
                        break;
                    }
                    questions.look_after(self, wanted, &agent).await;
                }
                () = &mut patience, if stopping.is_some() => break,
            }
        }
        // What it told before it was refused may still be on its way: among it what the turn took.
        let is_refused = over.as_ref().is_some_and(|talk| talk.ended.is_err());
        let until = tokio::time::Instant::now() + LAST_WORDS;
        while is_refused && !heard_all {
            let Ok(Some(update)) = tokio::time::timeout_at(until, heard.next()).await else { break };
            heard_all = matches!(update, Update::TurnOver);
            self.counts_on(&earlier, &opened);
            self.purse.heard(&update);
        }
        self.counts_on(&earlier, &opened);
        // Whatever is still asked is answered by nobody.
        questions.end(self).await;
        questions.thaw(self, wanted, &agent).await;
        drop((said, heard));
        // Where its output ended first, whoever launched it may be about to say why.
        let ended = if stopping.is_some() { agent.stop().await } else { agent.end(PARTING).await };
        (self.outcome(stopping, over, &ended).await, ended)
    }

    /// The agent's own conversation, if it is in the home of whoever asks.
    async fn earlier(&self) -> Option<AgentSession> {
        let earlier = self.session.agent_session.as_deref().and_then(|id| id.parse().ok());
        let of = self.session.agent_session_of.unwrap_or(self.session.creator());
        // Where an agent is at work by a Pass it has a home of its own, and what it remembers there is for nobody else.
        if let Via::Pass(_) = self.who.via() {
            return None;
        }
        if earlier.is_some() && of != self.who.user() {
            let why = "the conversation begins anew, with what was said before as text: the agent was last at work for somebody \
                       else, in a home of theirs";
            self.note(why).await;
            return None;
        }
        earlier
    }

    /// An agent that goes on with a conversation tells what all of it cost. As long as nobody knows whether it does, it does.
    fn counts_on(
        &mut self,
        earlier: &Option<AgentSession>,
        opened: &tokio::sync::watch::Receiver<Option<AgentSession>>,
    ) {
        let opened = opened.borrow();
        self.goes_on = earlier.is_some() && (opened.is_none() || *opened == *earlier);
        self.purse.goes_on_from(if self.goes_on { self.session.agent_told } else { 0 });
    }

    async fn outcome(&mut self, stopping: Option<Outcome>, over: Option<Talk>, ended: &Ended) -> Outcome {
        let Some(Talk { session, ended: came, fresh, recalled, model }) = over else {
            return stopping.unwrap_or_else(|| {
                Outcome::Failed(with_complaint("the agent ended before its turn did", ended))
            });
        };
        if let Some(why) = fresh {
            let how =
                if recalled { "with what was said before as text" } else { "without what was said before" };
            self.note(&format!("the conversation begins anew, {how}: {why}")).await;
        }
        if let Some(model) = model {
            let model = crate::session::told::clean(&self.runtime.redactor, &model);
            self.say(StepKind::System, serde_json::json!({ "model": model })).await;
        }
        if !matches!(self.who.via(), Via::Pass(_)) {
            self.agent_session = session.map(|session| session.as_str().to_owned());
        }
        // Also of one that was stopped: it is spent.
        if let Ok(stopped) = &came {
            self.purse.ended(stopped);
        }
        if let Some(stopping) = stopping {
            return stopping;
        }
        match came {
            Ok(Stopped { why: Stop::EndTurn, .. }) => Outcome::Done("the agent came to its end".into()),
            Ok(Stopped { why, .. }) => Outcome::Failed(match why {
                Stop::EndTurn => "it ended".into(),
                Stop::MaxTokens => "the model had no room left for its answer".into(),
                Stop::MaxTurnRequests => "the agent asked its model as often as it may".into(),
                Stop::Refusal => "the model refused to go on".into(),
                Stop::Cancelled => "the agent gave its turn up".into(),
                Stop::Other(word) => format!("the agent ended its turn with `{word}`"),
            }),
            Err(AcpError::Gone) => {
                Outcome::Failed(with_complaint("the agent ended before its turn did", ended))
            }
            Err(error) => Outcome::Failed(with_complaint(&error.to_string(), ended)),
        }
    }
}
