//! What an agent asks during a turn: shown to people as an effect, decided once, and answered.
//!
//! Invariants: nobody's silence is a yes; while somebody looks on who may decide, a question waits for so long (a minute unless settled otherwise) and is then denied; while
//! nobody does, the sandbox stands still until somebody decides. The agent cannot answer itself: it has no way here.

use std::path::Path;
use std::time::Instant;

use ::agents::Requests;
use acp::{ChoiceKind, Question};
use model::{ApprovalId, StepKind};
use serde_json::json;
use store::{BudgetStanding, NewApproval};
use tokio::task::JoinSet;

use super::{Outcome, Turn};
use crate::session::sandbox::{self, Agent, Wanted};
use crate::session::{budget, told};

/// What kind of question it is that no agent asks.
const BUDGET: &str = "budget";
const SPENT: &str = "a budget is spent: the agent stands still until somebody decides";
/// What is said where nobody can be asked and nothing waits for that.
const UNATTENDED: &str = "denied, because nobody looks on and nothing waits for that here (`sessions.unattended` is `deny`); follow the session, \
                          consent before, or open one in a mode that does not ask";
/// What is said of a question that no answer allows for this time only.
const NEVER_ONCE: &str = "denied, because the agent offers no answer that allows it once";
/// Questions of one turn that people are asked; more are denied.
const MOST_ASKED: usize = 500;

struct Open {
    id: ApprovalId,
    asks: Asks,
    /// Since when it waits, and since when somebody looks on and says nothing.
    since: Instant,
    seen: Option<Instant>,
}

/// Who asks.
enum Asks {
    /// The agent.
    Agent(Box<Question>),
    /// We do, because this is spent.
    Budget(BudgetStanding),
}

impl Open {
    fn is_budget(&self) -> bool {
        matches!(self.asks, Asks::Budget(_))
    }

    /// Whether whoever asks still wants to know.
    fn is_wanted(&self) -> bool {
        match &self.asks {
            Asks::Agent(question) => question.is_open(),
            Asks::Budget(_) => true,
        }
    }
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
    pub(super) async fn open(&mut self, turn: &mut Turn<'_>, question: Question, tree: &Path) {
        let rest = turn.told.rest();
        turn.tell(rest).await;
        // What the mode decides nobody is asked about; the sandbox holds all the same.
        match turn.requests {
            Requests::Ask => {}
            Requests::Allow => match told::once(&question) {
                Some(once) => return question.answer(&once),
                None => {
                    turn.note(NEVER_ONCE).await;
                    return deny(question);
                }
            },
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
        let (kind, likeness) = (told::kind(&question.call), told::likeness(&question.call));
        let new = NewApproval { id, effect: effect.clone(), body: body.clone(), kind, likeness };
        let heard = turn.runtime.desk.ask(id);
        if let Err(error) = turn.runtime.store.open_approval(turn.work, new).await {
            tracing::error!(%error, "what an agent asks could not be kept, so it is denied");
            turn.runtime.desk.answer(id, None);
            return deny(question);
        }
        turn.say(StepKind::System, json!({ "approval": id, "effect": effect.clone(), "asks": body })).await;
        self.answers.spawn(async move { (id, heard.await.ok().flatten()) });
        // Somebody may have consented before; then the answer is on its way.
        let consented = turn.runtime.consented(turn.work, id, &effect, &question, tree).await;
        self.open.push(Open { id, asks: Asks::Agent(Box::new(question)), since: Instant::now(), seen: None });
        if !consented
            && !turn.runtime.bounds.unattended_holds
            && !turn.runtime.journal.is_attended(turn.work.session())
        {
            turn.note(UNATTENDED).await;
            expire(turn, id).await;
        }
    }

    /// Asks whether more may be spent; the agent stands still until somebody says so.
    async fn open_budget(&mut self, turn: &Turn<'_>, wanted: &Wanted, agent: &Agent, spent: BudgetStanding) {
        self.freeze(turn, wanted, agent, SPENT).await;
        turn.runtime.note_spent(turn.work.session(), &spent).await;
        let id = ApprovalId::random();
        let title = format!("go on beyond {}, of which {} are spent", spent.budget, spent.spent);
        let body = json!({
            "call": { "call": id, "title": title, "kind": BUDGET },
            "budget": budget::told(&spent),
            "choices": [
                { "id": "extend", "name": "Go on, as much again", "kind": "allow_once" },
                { "id": "stop", "name": "End the task", "kind": "reject_once" },
            ],
        });
        let effect = told::digest_of(&body);
        let new = NewApproval {
            id,
            effect: effect.clone(),
            body: body.clone(),
            kind: BUDGET.into(),
            likeness: None,
        };
        let heard = turn.runtime.desk.ask(id);
        if let Err(error) = turn.runtime.store.open_approval(turn.work, new).await {
            tracing::error!(%error, "that a budget is spent could not be asked about, so the task ends");
            turn.runtime.desk.answer(id, None);
        } else {
            turn.say(StepKind::System, json!({ "approval": id, "effect": effect, "asks": body })).await;
        }
        self.answers.spawn(async move { (id, heard.await.ok().flatten()) });
        self.open.push(Open { id, asks: Asks::Budget(spent), since: Instant::now(), seen: None });
    }

    /// The next that was decided; never while nothing waits.
    pub(super) async fn answered(&mut self) -> Option<(ApprovalId, Option<String>)> {
        match self.answers.join_next().await {
            Some(answer) => answer.ok(),
            None => std::future::pending().await,
        }
    }

    /// Gives the agent its answer; how the task ends, if no more may be spent.
    pub(super) async fn settle(
        &mut self,
        turn: &mut Turn<'_>,
        wanted: &Wanted,
        agent: &Agent,
        id: ApprovalId,
        choice: Option<String>,
    ) -> Option<Outcome> {
        let at = self.open.iter().position(|one| one.id == id)?;
        let one = self.open.swap_remove(at);
        if self.open.is_empty() {
            self.thaw(turn, wanted, agent).await;
        }
        turn.say(
            StepKind::System,
            json!({ "approval": id, "decision": choice.as_deref().unwrap_or("deny") }),
        )
        .await;
        match (one.asks, choice) {
            (Asks::Agent(question), Some(choice)) => question.answer(&choice),
            (Asks::Agent(question), None) => deny(*question),
            (Asks::Budget(spent), Some(_)) => turn.purse.extend(&spent.budget),
            (Asks::Budget(spent), None) => {
                return Some(Outcome::Spent(format!("{} are spent, and nobody allowed more", spent.budget)));
            }
        }
        None
    }

    /// Whether somebody is asked something, or the sandbox stands still: who cannot go on is not silent.
    pub(super) fn is_waiting(&self) -> bool {
        !self.open.is_empty() || self.frozen.is_some()
    }

    /// Closes what the agent does not ask any more.
    async fn drop_withdrawn(&mut self, turn: &Turn<'_>) {
        let withdrawn: Vec<ApprovalId> =
            self.open.iter().filter(|one| !one.is_wanted()).map(|one| one.id).collect();
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

    /// Answers what was decided though nobody said so here: the connection to the database broke when the decision was on its disk.
    async fn hear_decisions(&self, turn: &Turn<'_>) {
        for one in &self.open {
            match turn.runtime.store.decision(turn.work, one.id).await {
                Ok(Some(choice)) => turn.runtime.desk.answer(one.id, choice),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "whether a question was decided cannot be told now"),
            }
        }
    }

    /// Looks at what waits, once a second.
    pub(super) async fn look_after(&mut self, turn: &mut Turn<'_>, wanted: &Wanted, agent: &Agent) {
        self.drop_withdrawn(turn).await;
        self.hear_decisions(turn).await;
        turn.purse.passed(self.frozen.is_some());
        turn.purse.measured(agent.spent().await);
        if !self.open.iter().any(Open::is_budget)
            && let Some(spent) = turn.over().await
        {
            self.open_budget(turn, wanted, agent, spent).await;
        }
        if self.open.is_empty() {
            return self.thaw(turn, wanted, agent).await;
        }
        let is_attended = turn.runtime.journal.is_attended(turn.work.session());
        let now = Instant::now();
        let mut late = Vec::new();
        let patience = turn.runtime.bounds.usual.patience;
        for one in &mut self.open {
            if one.is_budget() {
                if now.duration_since(one.since) >= patience {
                    late.push(one.id);
                }
                continue;
            }
            match (is_attended, one.seen) {
                (true, None) => one.seen = Some(now),
                (true, Some(since)) if now.duration_since(since) >= turn.runtime.bounds.answer => {
                    late.push(one.id)
                }
                (true, Some(_)) => {}
                (false, _) => one.seen = None,
            }
        }
        for id in late {
            expire(turn, id).await;
        }
        if self.open.iter().any(Open::is_budget) {
            self.freeze(turn, wanted, agent, SPENT).await;
        } else if !is_attended && self.frozen.is_none() {
            self.freeze(
                turn,
                wanted,
                agent,
                "nobody looks on: the agent stands still until somebody decides",
            )
            .await;
        }
    }

    async fn freeze(&mut self, turn: &Turn<'_>, wanted: &Wanted, agent: &Agent, why: &str) {
        if self.frozen.is_some() {
            return;
        }
        let Some(run) = agent.run().await else { return };
        match sandbox::tell(turn.runtime.trees.launcher(), wanted, "freeze", &run).await {
            Ok(()) => {
                if let Err(error) = turn.runtime.store.hold_task(turn.work, true).await {
                    tracing::warn!(%error, "that a task stands still could not be kept");
                }
                turn.note(why).await;
                self.frozen = Some(run);
            }
            Err(error) => {
                tracing::warn!(%error, "an agent that waits for a decision could not be made to stand still")
            }
        }
    }

    /// Lets the agent go on, if it stands still.
    pub(super) async fn thaw(&mut self, turn: &Turn<'_>, wanted: &Wanted, _agent: &Agent) {
        let Some(run) = self.frozen.clone() else { return };
        if let Err(error) = sandbox::tell(turn.runtime.trees.launcher(), wanted, "thaw", &run).await {
            tracing::error!(%error, "an agent that stands still could not be made to go on; it is tried again");
            return;
        }
        self.frozen = None;
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

/// Denies what nobody answered.
async fn expire(turn: &Turn<'_>, id: ApprovalId) {
    match turn.runtime.store.expire_approval(turn.work, id).await {
        Ok(true) => turn.runtime.desk.answer(id, None),
        // Somebody decided in the same moment, and that counts.
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(%error, "a question that nobody answered could not be closed; it is tried again");
        }
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
