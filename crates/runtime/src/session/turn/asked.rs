//! What an agent asks during a turn: shown to people as an effect, decided once, and answered.
//!
//! Invariants: nobody's silence is a yes; while somebody looks on, a question waits a minute and is then denied; while
//! nobody does, the sandbox stands still until somebody decides. The agent cannot answer itself: it has no way here.

use std::time::{Duration, Instant};

use ::agents::Requests;
use acp::{ChoiceKind, Question};
use model::{ApprovalId, StepKind};
use serde_json::json;
use store::NewApproval;
use tokio::task::JoinSet;

use super::Turn;
use crate::session::sandbox::{self, Agent, Wanted};
use crate::session::told;

/// How long a question waits while somebody looks on.
const ATTENDED: Duration = Duration::from_mins(1);

/// Questions of one turn that people are asked; more are denied.
const MOST_ASKED: usize = 500;

struct Open {
    id: ApprovalId,
    question: Question,
    /// Since when somebody looks on and says nothing.
    seen: Option<Instant>,
}

/// Questions that wait.
#[derive(Default)]
pub(super) struct Questions {
    open: Vec<Open>,
    answers: JoinSet<(ApprovalId, Option<String>)>,
    frozen: Option<String>,
    /// How often it asked.
    asked: usize,
}

impl Questions {
    /// Keeps and shows one.
    pub(super) async fn open(&mut self, turn: &mut Turn<'_>, question: Question) {
        let rest = turn.told.rest();
        turn.tell(rest).await;
        // What the mode decides nobody is asked about; the sandbox holds all the same.
        match turn.requests {
            Requests::Ask => {}
            Requests::Allow => return allow(question),
            Requests::Refuse => {
                let asks = turn.told.question(&question);
                turn.say(
                    StepKind::System,
                    json!({ "text": "the mode of this session refuses this", "asks": asks }),
                )
                .await;
                return deny(question);
            }
        }
        self.drop_withdrawn(turn).await;
        self.asked += 1;
        if self.asked > MOST_ASKED {
            return deny(question);
        }
        let id = ApprovalId::random();
        let (effect, body) = (told::digest(&question), turn.told.question(&question));
        let new = NewApproval { id, effect: effect.clone(), body: body.clone() };
        let heard = turn.runtime.desk.ask(id);
        if let Err(error) = turn.runtime.store.open_approval(turn.work, new).await {
            tracing::error!(%error, "what an agent asks could not be kept, so it is denied");
            turn.runtime.desk.answer(id, None);
            return deny(question);
        }
        turn.say(StepKind::System, json!({ "approval": id, "effect": effect, "asks": body })).await;
        self.answers.spawn(async move { (id, heard.await.ok().flatten()) });
        self.open.push(Open { id, question, seen: None });
    }

    /// The next that was decided; never while nothing waits.
    pub(super) async fn answered(&mut self) -> Option<(ApprovalId, Option<String>)> {
        match self.answers.join_next().await {
            Some(answer) => answer.ok(),
            None => std::future::pending().await,
        }
    }

    /// Gives the agent its answer.
    pub(super) async fn settle(
        &mut self,
        turn: &Turn<'_>,
        wanted: &Wanted,
        agent: &Agent,
        id: ApprovalId,
        choice: Option<String>,
    ) {
        let Some(at) = self.open.iter().position(|one| one.id == id) else { return };
        let one = self.open.swap_remove(at);
        if self.open.is_empty() {
            self.thaw(turn, wanted, agent).await;
        }
        turn.say(
            StepKind::System,
            json!({ "approval": id, "decision": choice.as_deref().unwrap_or("deny") }),
        )
        .await;
        match choice {
            Some(choice) => one.question.answer(&choice),
            None => deny(one.question),
        }
    }

    /// Whether somebody is asked something.
    pub(super) fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    /// Closes what the agent does not ask any more.
    async fn drop_withdrawn(&mut self, turn: &Turn<'_>) {
        let withdrawn: Vec<ApprovalId> =
            self.open.iter().filter(|one| !one.question.is_open()).map(|one| one.id).collect();
        for id in withdrawn {
            match turn.runtime.store.expire_approval(turn.work, id).await {
                Ok(_) => {
                    turn.runtime.desk.answer(id, None);
                    self.open.retain(|one| one.id != id);
                }
                Err(error) => {
                    tracing::warn!(%error, "a question that was withdrawn could not be closed; it is tried again");
                }
            }
        }
    }

    /// Looks at what waits, once a second.
    pub(super) async fn look_after(&mut self, turn: &Turn<'_>, wanted: &Wanted, agent: &Agent) {
        self.drop_withdrawn(turn).await;
        if self.open.is_empty() {
            return self.thaw(turn, wanted, agent).await;
        }
        let is_attended = turn.runtime.journal.is_followed(turn.work.session());
        let now = Instant::now();
        let mut late = Vec::new();
        for one in &mut self.open {
            match (is_attended, one.seen) {
                (true, None) => one.seen = Some(now),
                (true, Some(since)) if now.duration_since(since) >= ATTENDED => late.push(one.id),
                (true, Some(_)) => {}
                (false, _) => one.seen = None,
            }
        }
        for id in late {
            match turn.runtime.store.expire_approval(turn.work, id).await {
                Ok(true) => turn.runtime.desk.answer(id, None),
                // Somebody decided in the same moment, and that counts.
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "a question that nobody answered could not be closed; it is tried again");
                }
            }
        }
        if !is_attended && self.frozen.is_none() {
            self.freeze(turn, wanted, agent).await;
        }
    }

    async fn freeze(&mut self, turn: &Turn<'_>, wanted: &Wanted, agent: &Agent) {
        let Some(run) = agent.run().await else { return };
        match sandbox::tell(turn.runtime.trees.launcher(), wanted, "freeze", &run).await {
            Ok(()) => {
                if let Err(error) = turn.runtime.store.hold_task(turn.work, true).await {
                    tracing::warn!(%error, "that a task stands still could not be kept");
                }
                turn.note("nobody looks on: the agent stands still until somebody decides").await;
                self.frozen = Some(run);
            }
            Err(error) => {
                tracing::warn!(%error, "an agent that waits for a decision could not be made to stand still")
            }
        }
    }

    /// Lets the agent go on, if it stands still.
    pub(super) async fn thaw(&mut self, turn: &Turn<'_>, wanted: &Wanted, _agent: &Agent) {
        let Some(run) = self.frozen.take() else { return };
        if let Err(error) = sandbox::tell(turn.runtime.trees.launcher(), wanted, "thaw", &run).await {
            tracing::error!(%error, "an agent that stands still could not be made to go on");
        }
        if let Err(error) = turn.runtime.store.hold_task(turn.work, false).await {
            tracing::warn!(%error, "that a task goes on could not be kept");
        }
    }

    /// The turn is over: nobody decides what is still open.
    pub(super) async fn end(&mut self, turn: &Turn<'_>) {
        for one in self.open.drain(..) {
            if let Err(error) = turn.runtime.store.expire_approval(turn.work, one.id).await {
                tracing::warn!(%error, "a question of a turn that is over could not be closed");
            }
            turn.runtime.desk.answer(one.id, None);
        }
        self.answers.abort_all();
    }
}

fn allow(question: Question) {
    let yes =
        |kind| question.choices.iter().find(|choice| choice.kind == kind).map(|choice| choice.id.clone());
    match yes(ChoiceKind::AllowOnce).or_else(|| yes(ChoiceKind::AllowAlways)) {
        Some(id) => question.answer(&id),
        None => question.cancel(),
    }
}

fn deny(question: Question) {
    let no =
        |kind| question.choices.iter().find(|choice| choice.kind == kind).map(|choice| choice.id.clone());
    match no(ChoiceKind::RejectOnce).or_else(|| no(ChoiceKind::RejectAlways)) {
        Some(id) => question.answer(&id),
        None => question.cancel(),
    }
}
