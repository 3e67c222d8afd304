//! What a task spends, as it is spent, against what may be.
//!
//! Flow: what the agent tells and what passes -> [`Purse`] -> the disk, once a second at most -> each budget that is about it ->
//! one that is spent stops the sandbox where it stands, and somebody is asked.
//!
//! Invariants: nothing is ended in the middle of a write: what is spent is first frozen; an extension is for this task and
//! as much again.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use access::{ListBudgets, Principal, ReadSession, ReadUsage, SetBudget, UsageBy, Via};
use acp::{Stopped, Update};
use ledger::{Decision, Draft};
use model::{Allowance, BudgetKind, BudgetScope, Millis, PassId, SessionId, Spending, StepKind};
use serde_json::{Value, json};
use store::{BudgetStanding, Spender, StoreError, Usage};

use super::measured;
use super::turn::Turn;
use crate::{ActError, Runtime};

/// How long time at work waits to be kept, if nothing else is spent.
const RESTING: Duration = Duration::from_secs(10);

/// What every session and person has, unless somebody settled it for them; and how long is waited for a decision.
#[derive(Clone, Debug)]
pub struct UsualBudgets {
    /// The budgets.
    pub budgets: Vec<Allowance>,
    /// Prompts that a session takes in a minute; 0 is as many as there are.
    pub messages: i64,
    /// How long one that is spent waits for somebody before the task is ended.
    pub patience: Duration,
}

impl Default for UsualBudgets {
    fn default() -> Self {
        Self { budgets: Vec::new(), messages: 30, patience: Duration::from_mins(15) }
    }
}

/// What an agent may tell of one turn, at most: more is not believed, and sums stay within what a database adds up.
const BELIEVED: i64 = 1_000_000_000_000;

/// Names of calls that are remembered at once: one that was forgotten and changes is counted again.
const REMEMBERED: usize = 4_096;

/// What a task spent and nobody kept yet.
#[derive(Debug)]
pub(super) struct Purse {
    more: Spending,
    /// The calls that were counted.
    calls: HashSet<String>,
    /// What the agent told of the whole turn so far.
    told_cost: i64,
    told_tokens: i64,
    /// What it told of its whole conversation: before this turn, where it goes on with one, and so far.
    before: i64,
    in_all: Option<i64>,
    /// What of that is of this turn.
    of_turn: i64,
    /// What its launcher told of it so far.
    told_cpu: i64,
    told_egress: i64,
    /// How much time at work, and of the processor, may pass until a budget of it is to be looked at.
    room: (i64, i64),
    at: Instant,
    kept: Instant,
    /// What was allowed beyond a budget.
    extended: Vec<(Allowance, i64)>,
    /// Whether what was kept is still to be compared.
    unjudged: bool,
}

impl Purse {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let (more, extended) = (Spending::default(), Vec::new());
        Self {
            more,
            calls: HashSet::new(),
            told_cost: 0,
            told_tokens: 0,
            before: 0,
            in_all: None,
            of_turn: 0,
            told_cpu: 0,
            told_egress: 0,
            room: (0, 0),
            at: now,
            kept: now,
            extended,
            unjudged: false,
        }
    }

    /// Time that passed since this was last said; none of it counts while the task stood still.
    pub(super) fn passed(&mut self, stood_still: bool) {
        let now = Instant::now();
        let passed = now.duration_since(std::mem::replace(&mut self.at, now));
        if !stood_still {
            self.more.wall = self.more.wall.saturating_add(millis(passed));
        }
    }

    /// What an agent told.
    pub(super) fn heard(&mut self, update: &Update) {
        match update {
            Update::Call(call) => self.called(&call.id),
            // Gemini CLI tells of a call only when it changes.
            Update::CallChanged(change) if !self.calls.contains(&change.id) => self.called(&change.id),
            Update::Usage(usage) => {
                if let Some(cost) =
                    usage.cost.as_ref().filter(|cost| cost.currency.eq_ignore_ascii_case("usd"))
                {
                    self.cost_in_all_is(micro(cost.amount));
                }
                self.tokens_are(i64::try_from(usage.used).unwrap_or(i64::MAX));
                self.told_beyond(usage.meta.as_ref());
            }
            _ => {}
        }
    }

    fn called(&mut self, id: &str) {
        self.more.calls = self.more.calls.saturating_add(1);
        if self.calls.len() >= REMEMBERED {
            self.calls.clear();
        }
        self.calls.insert(id.to_owned());
    }

    /// What it told at the end of its turn.
    pub(super) fn ended(&mut self, stopped: &Stopped) {
        if let Some(usage) = &stopped.usage {
            let total = number(usage.get("totalTokens")).or_else(|| {
                let parts = ["inputTokens", "outputTokens", "cachedReadTokens", "cachedWriteTokens"];
                let parts: Vec<i64> = parts.iter().filter_map(|name| number(usage.get(name))).collect();
                (!parts.is_empty()).then(|| parts.iter().fold(0, |sum: i64, part| sum.saturating_add(*part)))
            });
            self.tokens_are(total.unwrap_or(0));
        }
        // Gemini CLI tells it there and nowhere else.
        let quota = stopped.meta.as_ref().and_then(|meta| meta.pointer("/quota/token_count"));
        if let (None, Some(counts)) = (&stopped.usage, quota) {
            let parts = ["input_tokens", "output_tokens"].map(|name| number(counts.get(name)).unwrap_or(0));
            self.tokens_are(parts.iter().fold(0, |sum: i64, part| sum.saturating_add(*part)));
        }
        self.told_beyond(stopped.meta.as_ref());
    }

    /// The built-in agent tells what its turn took, by prices that are data: after each answer of a model, and at the end.
    fn told_beyond(&mut self, meta: Option<&Value>) {
        let Some(told) = meta.and_then(|meta| meta.get("palisade")) else { return };
        self.cost_is(number(told.get("costMicroUsd")).unwrap_or(0));
        let usage = told.get("usage").and_then(Value::as_object);
        let total = usage.into_iter().flat_map(|usage| usage.values()).filter_map(|part| number(Some(part)));
        self.tokens_are(total.fold(0, i64::saturating_add));
    }

    /// Its agent goes on with a conversation of which it told this sum before; none of a new one.
    pub(super) const fn goes_on_from(&mut self, sum: i64) {
        self.before = sum;
    }

    /// What it told last of its whole conversation.
    pub(super) fn in_all(&self) -> i64 {
        self.in_all.unwrap_or(self.before)
    }

    /// The protocol has agents tell the sum of a conversation, over all of its turns. One that tells less than before began to count
    /// anew; nothing at all says that it knows of none.
    fn cost_in_all_is(&mut self, total: i64) {
        if total == 0 {
            return;
        }
        let total = total.min(BELIEVED);
        let before = self.in_all();
        self.of_turn = self.of_turn.saturating_add(if total < before { total } else { total - before });
        self.in_all = Some(total);
        self.cost_is(self.of_turn);
    }

    /// What its launcher tells while it is at work: milliseconds of the processor and bytes of network, in all.
    pub(super) fn measured(&mut self, (cpu, egress): (i64, i64)) {
        self.more.cpu = self.more.cpu.saturating_add((cpu - self.told_cpu).max(0));
        self.told_cpu = self.told_cpu.max(cpu);
        self.more.egress = self.more.egress.saturating_add((egress - self.told_egress).max(0));
        self.told_egress = self.told_egress.max(egress);
    }

    /// The same at its end.
    fn reported(&mut self, report: &Value) {
        let bytes = |name: &str| report.pointer(&format!("/network/counts/{name}")).and_then(Value::as_i64);
        let both = bytes("sent").unwrap_or(0).saturating_add(bytes("received").unwrap_or(0));
        let cpu = report.get("cpu_ms").and_then(Value::as_i64).unwrap_or(0);
        self.measured((cpu, both));
    }

    fn cost_is(&mut self, total: i64) {
        let total = total.min(BELIEVED);
        self.more.cost = self.more.cost.saturating_add((total - self.told_cost).max(0));
        self.told_cost = self.told_cost.max(total);
    }

    fn tokens_are(&mut self, total: i64) {
        let total = total.min(BELIEVED);
        self.more.tokens = self.more.tokens.saturating_add((total - self.told_tokens).max(0));
        self.told_tokens = self.told_tokens.max(total);
    }

    /// What is to be kept now, if anything.
    fn due(&mut self, all: bool) -> Option<Spending> {
        let only_time = Spending { wall: 0, cpu: 0, ..self.more } == Spending::default();
        let has_room = self.more.wall <= self.room.0 && self.more.cpu <= self.room.1;
        let rests = only_time && has_room && !all && self.kept.elapsed() < RESTING;
        if self.more == Spending::default() || rests {
            return None;
        }
        self.kept = Instant::now();
        Some(std::mem::take(&mut self.more))
    }

    /// Allows as much again.
    pub(super) fn extend(&mut self, budget: &Allowance) {
        match self.extended.iter_mut().find(|(of, _)| of == budget) {
            Some((_, more)) => *more = more.saturating_add(budget.most),
            None => self.extended.push((budget.clone(), budget.most)),
        }
    }

    fn is_over(&self, standing: &BudgetStanding) -> bool {
        self.left(standing) < 0
    }

    /// How much of it is left, with what was allowed beyond it.
    fn left(&self, standing: &BudgetStanding) -> i64 {
        let more = self.extended.iter().find(|(of, _)| *of == standing.budget).map_or(0, |(_, more)| *more);
        standing.budget.most.saturating_add(more).saturating_sub(standing.spent)
    }

    /// Remembers when time is to be compared again.
    fn compared(&mut self, all: &[BudgetStanding]) {
        let least = |kind| {
            let of_kind = all.iter().filter(|one| one.budget.kind == kind);
            of_kind.map(|one| self.left(one)).min().unwrap_or(i64::MAX)
        };
        self.room = (least(BudgetKind::Wall), least(BudgetKind::Cpu));
    }
}

/// The Pass that somebody asks by.
fn pass(who: &Principal) -> Option<PassId> {
    match who.via() {
        Via::Pass(chain) => chain.last().copied(),
        Via::Login(_) | Via::Key(_) => None,
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn number(value: Option<&Value>) -> Option<i64> {
    value.and_then(Value::as_i64).filter(|number| *number >= 0)
}

/// Dollars in millionths; what is no amount is none.
fn micro(dollars: f64) -> i64 {
    let micro = dollars * 1_000_000.0;
    // Beyond any budget, and within what the type holds.
    if micro.is_finite() && micro > 0.0 { micro.min(1e15) as i64 } else { 0 }
}

impl Turn<'_> {
    fn spender(&self) -> Spender {
        Spender { session: self.session.id(), worktree: self.session.worktree(), user: self.who.user() }
    }

    /// Keeps what was spent, and tells a budget that is spent by it.
    pub(super) async fn over(&mut self) -> Option<BudgetStanding> {
        match self.purse.due(false) {
            Some(more) => self.keep(more).await,
            None if self.purse.unjudged => {}
            None => return None,
        }
        let standings = self.runtime.standings(self.spender(), self.who).await;
        self.purse.unjudged = standings.is_err();
        match standings {
            Ok(standings) => {
                self.purse.compared(&standings);
                standings.into_iter().find(|one| self.purse.is_over(one))
            }
            Err(error) => {
                tracing::warn!(%error, "what was spent cannot be compared with budgets now; it is tried again");
                None
            }
        }
    }

    async fn keep(&mut self, more: Spending) {
        let in_all = self.goes_on.then(|| self.purse.in_all());
        match self.runtime.store.spend(self.work, &more, pass(self.who), in_all).await {
            Ok(()) => measured::spent(&more),
            Err(error) => {
                tracing::error!(%error, "what was spent could not be kept");
                self.purse.more = more;
            }
        }
    }

    /// Keeps the rest at the end.
    pub(super) async fn settle_up(&mut self, report: &Value) {
        self.purse.reported(report);
        if let Some(more) = self.purse.due(true) {
            self.keep(more).await;
        }
    }
}

impl Runtime {
    /// A budget that is spent before anything is begun there.
    pub(super) async fn spent_before(
        &self,
        session: SessionId,
        who: &Principal,
    ) -> Result<Option<BudgetStanding>, StoreError> {
        let facts = self.gate.session(session).await.ok().flatten().ok_or(StoreError::Missing("session"))?;
        let spender = Spender { session, worktree: facts.worktree.id, user: who.user() };
        // Nothing is begun without a moment of time; what else a Pass has nothing of need not be used.
        let least = |budget: &Allowance| match (budget.scope, budget.kind) {
            (BudgetScope::Pass, BudgetKind::Wall) => 0,
            _ => 1,
        };
        let standings = self.standings(spender, who).await?;
        Ok(standings.into_iter().find(|one| one.spent >= one.budget.most.max(least(&one.budget))))
    }

    /// What may be spent, and what was: by whoever asks, there, and with what they ask by.
    async fn standings(&self, spender: Spender, who: &Principal) -> Result<Vec<BudgetStanding>, StoreError> {
        let mut all = self.store.standings(spender, &self.bounds.usual.budgets).await?;
        if let Some(pass) = pass(who) {
            all.extend(self.store.pass_standings(pass, &who.grant().budget).await?);
        }
        Ok(all)
    }

    /// Puts on the record that a budget is spent.
    pub(super) async fn note_spent(&self, session: SessionId, standing: &BudgetStanding) {
        let budget = &standing.budget;
        measured::reached(budget.kind, budget.scope);
        let note = Draft::new("budget", "budget.reached", Decision::Noted)
            .because(budget.to_string())
            .with("session", session.to_string())
            .with("scope", budget.scope.to_string())
            .with("owner", budget.owner.clone())
            .with("kind", budget.kind.to_string())
            .with("spent", standing.spent.to_string());
        if !matches!(self.ledger.note(note).await, Ok(Ok(_))) {
            tracing::error!(%session, "that a budget is spent could not be recorded");
        }
        let body = json!({ "text": format!("spent: {budget}"), "budget": told(standing) });
        self.journal.write_soon(session, None, StepKind::System, body).await;
    }

    /// What was spent in a session and those that were opened for it, and the budgets that are about it.
    pub async fn session_usage(
        &self,
        who: &Principal,
        session: SessionId,
    ) -> Result<(Spending, Vec<BudgetStanding>), ActError> {
        let permit = self.look(who, ReadSession { session }).await?;
        let spent = self.store.usage_of(permit).await?;
        let facts = self.gate.session(session).await.ok().flatten().ok_or(StoreError::Missing("session"))?;
        let spender = Spender { session, worktree: facts.worktree.id, user: facts.creator };
        let standings = self.store.standings(spender, &self.bounds.usual.budgets).await?;
        // How much a person spends elsewhere is theirs to know.
        let theirs =
            |one: &BudgetStanding| one.budget.scope != BudgetScope::User || who.user() == facts.creator;
        Ok((spent, standings.into_iter().filter(theirs).collect()))
    }

    /// What was spent in the whole installation in so many milliseconds up to now.
    pub async fn usage(&self, who: &Principal, by: UsageBy, back: Millis) -> Result<Vec<Usage>, ActError> {
        let since = self.clock.now().saturating_sub(back);
        let permit = self.look(who, ReadUsage { by, since }).await?;
        Ok(self.store.usage(permit).await?)
    }

    /// Budgets that somebody set.
    pub async fn budgets(&self, who: &Principal) -> Result<Vec<Allowance>, ActError> {
        let permit = self.look(who, ListBudgets {}).await?;
        Ok(self.store.list_budgets(permit).await?)
    }

    /// Sets a budget; none takes it away.
    pub async fn set_budget(
        self: &Arc<Self>,
        who: &Principal,
        budget: Allowance,
        most: Option<i64>,
    ) -> Result<(), ActError> {
        let Allowance { scope, owner, kind, period, .. } = budget;
        let effect = async |store: Arc<store::Store>, permit| store.set_budget(permit).await;
        self.perform(who, SetBudget { scope, owner, kind, period, most }, effect).await
    }
}

/// A budget and what was spent of it, as it is told.
pub(super) fn told(standing: &BudgetStanding) -> Value {
    let budget = &standing.budget;
    json!({
        "scope": budget.scope, "owner": budget.owner, "kind": budget.kind, "period": budget.period, "most": budget.most,
        "spent": standing.spent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(used: u64, cost: Option<f64>) -> Update {
        let cost = cost.map(|amount| acp::Cost { amount, currency: "USD".into() });
        Update::Usage(acp::Usage { used, size: 200_000, cost, meta: None })
    }

    /// ACC-19: what an agent tells in sums is counted once.
    #[test]
    fn acc_19_what_is_told_in_sums_is_counted_once() {
        let mut purse = Purse::new();
        for update in [usage(1_000, Some(0.5)), usage(1_500, Some(0.75)), usage(1_200, Some(0.75))] {
            purse.heard(&update);
        }
        assert_eq!((purse.more.tokens, purse.more.cost), (1_500, 750_000));
        let end = |usage, meta| Stopped { why: acp::Stop::EndTurn, usage, meta };
        purse.ended(&end(Some(json!({ "totalTokens": 4_000 })), None));
        assert_eq!(purse.more.tokens, 4_000);
        let meta =
            json!({ "palisade": { "costMicroUsd": 900_000, "usage": { "input": 4_000, "output": 500 } } });
        purse.ended(&end(None, Some(meta)));
        assert_eq!((purse.more.tokens, purse.more.cost), (4_500, 900_000));
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(micro(bad), 0);
        }
    }

    /// ACC-19: a conversation that goes on tells its sum from its beginning; only what is new is counted, also when its agent counts anew.
    #[test]
    fn acc_19_a_conversation_that_goes_on_is_not_counted_again() {
        let mut purse = Purse::new();
        purse.goes_on_from(500_000);
        purse.heard(&usage(1, Some(0.5)));
        assert_eq!((purse.more.cost, purse.in_all()), (0, 500_000));
        purse.heard(&usage(1, Some(0.75)));
        assert_eq!((purse.more.cost, purse.in_all()), (250_000, 750_000));
        let mut anew = Purse::new();
        anew.goes_on_from(500_000);
        assert_eq!(anew.in_all(), 500_000, "nothing was told yet");
        for cost in [0.1, 0.3] {
            anew.heard(&usage(1, Some(cost)));
        }
        assert_eq!((anew.more.cost, anew.in_all()), (300_000, 300_000));
    }

    /// ACC-19: an agent that forgets its conversation in the middle of a turn counts from nothing, one that knows of no cost does not.
    #[test]
    fn acc_19_an_agent_that_counts_anew_in_a_turn_is_counted_on() {
        let mut purse = Purse::new();
        purse.goes_on_from(5_000_000);
        for cost in [0.0, 5.9, 0.0, 0.1, 0.3] {
            purse.heard(&usage(1, Some(cost)));
        }
        assert_eq!((purse.more.cost, purse.in_all()), (1_200_000, 300_000));
        // Nobody knew yet that the conversation is another one.
        let mut fresh = Purse::new();
        fresh.goes_on_from(500_000);
        fresh.goes_on_from(0);
        assert_eq!(fresh.in_all(), 0);
        fresh.heard(&usage(1, Some(0.8)));
        assert_eq!((fresh.more.cost, fresh.in_all()), (800_000, 800_000));
    }

    /// ACC-19: what the built-in agent tells on its way counts as what it tells at the end, once.
    #[test]
    fn acc_19_what_is_told_on_the_way_is_counted_though_no_end_comes() {
        let meta = |cost: i64, input: i64| json!({ "palisade": { "costMicroUsd": cost, "usage": { "input": input } } });
        let mut purse = Purse::new();
        for (cost, input) in [(100, 1_000), (250, 2_500)] {
            let meta = Some(meta(cost, input));
            purse.heard(&Update::Usage(acp::Usage { used: 900, size: 1, cost: None, meta }));
        }
        assert_eq!((purse.more.cost, purse.more.tokens), (250, 2_500));
        purse.ended(&Stopped { why: acp::Stop::Cancelled, usage: None, meta: Some(meta(250, 2_500)) });
        assert_eq!((purse.more.cost, purse.more.tokens), (250, 2_500));
    }

    /// ACC-19: what is measured while a task is at work is counted once, also with the last word; time is compared when it is near.
    #[test]
    fn acc_19_what_is_measured_is_counted_once() {
        let mut purse = Purse::new();
        purse.measured((100, 1_000));
        purse.measured((250, 900));
        purse
            .reported(&json!({ "cpu_ms": 300, "network": { "counts": { "sent": 1_500, "received": 500 } } }));
        assert_eq!((purse.more.cpu, purse.more.egress), (300, 2_000));
        assert!(purse.due(false).is_some() && purse.due(false).is_none());
        let budget = |kind, most| {
            let (scope, owner) = (BudgetScope::Session, String::new());
            Allowance { scope, owner, kind, period: 0, most }
        };
        purse.compared(&[BudgetStanding { budget: budget(BudgetKind::Cpu, 1_000), spent: 300 }]);
        purse.measured((900, 2_000));
        assert!(purse.due(false).is_none(), "far from it: it waits");
        purse.measured((1_001, 2_000));
        assert_eq!(purse.due(false).unwrap().cpu, 701, "near: at once");
    }

    #[test]
    fn acc_20_an_extension_is_as_much_again() {
        let budget = Allowance {
            scope: BudgetScope::Session,
            owner: "x".into(),
            kind: BudgetKind::Calls,
            period: 60_000,
            most: 10,
        };
        let at = |spent| BudgetStanding { budget: budget.clone(), spent };
        let mut purse = Purse::new();
        assert!(!purse.is_over(&at(10)) && purse.is_over(&at(11)));
        purse.extend(&budget);
        assert!(!purse.is_over(&at(20)) && purse.is_over(&at(21)));
    }
}
