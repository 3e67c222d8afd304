//! Draws the consequences: what ended skips or frees others, what waits for nothing more becomes ready, what is ready starts.

use std::collections::BTreeMap;

use super::event::{Decision, Input, Question, Start};
use super::row::{Cause, Outcome, State, Waits, Why};
use super::{Now, Row, Run};
use crate::document::{Effect, On, Over, Task};
use crate::name::{DispatchId, QueueName};
use crate::plan::{Group, Kind};

impl Run {
    pub(super) fn settle(&mut self, now: &mut Now<'_>) {
        loop {
            while let Some(place) = now.ended.pop_front() {
                self.after_end(now, place);
            }
            if let Some(place) = now.look.pop_first() {
                self.look_at(now, place);
            } else {
                self.start_what_can(now);
                if now.ended.is_empty() && now.look.is_empty() {
                    break;
                }
            }
        }
        self.finish(now);
    }

    /// Ends an item and gives back what it has.
    pub(super) fn end(&mut self, now: &mut Now<'_>, place: usize, state: State, why: Option<Why>) {
        if self.state(place).has_ended() {
            return;
        }
        self.release(now, place);
        let at = now.at;
        let Some(progress) = self.progress(now, place) else { return };
        progress.state = state;
        progress.why = why;
        progress.waits = None;
        progress.stopping = None;
        progress.deadline = None;
        progress.not_before = None;
        progress.ended = Some(at);
        now.ended.push_back(place);
    }

    /// Gives back locks, wishes for locks, and the place in the queue.
    pub(super) fn release(&mut self, now: &mut Now<'_>, place: usize) {
        let Some(row) = self.rows.get(place) else { return };
        let Some(task) = row.definition.task() else { return };
        let holder = self.holder(row);
        let mut wake = now.shared.give_back(&holder, &task.locks);
        wake.append(&mut now.shared.leave(&holder, &task.queue));
        wake.remove(&self.head.id);
        now.step.wake.append(&mut wake);
        if row.progress.holds
            && let Some(progress) = self.progress(now, place)
        {
            progress.holds = false;
        }
    }

    fn after_end(&mut self, now: &mut Now<'_>, place: usize) {
        let state = self.state(place);
        let Some(row) = self.rows.get(place) else { return };
        let id = row.definition.id.clone();
        let group = row.definition.group.as_ref().and_then(|group| self.index.get(group)).copied();
        for (dependent, on) in self.dependents.get(place).cloned().unwrap_or_default() {
            if self.state(dependent).has_ended() {
                continue;
            }
            if state == State::Done || on == On::Ended {
                now.look.insert(dependent);
            } else {
                let why =
                    Why { cause: Cause::Dependency, detail: format!("`{id}` is {}", state.word()), by: None };
                self.end(now, dependent, State::Skipped, Some(why));
            }
        }
        if let Some(group) = group {
            self.judge(now, group);
        }
        // What was decided needs no more of its parts; those at work end by themselves.
        for part in self.parts.get(place).cloned().unwrap_or_default() {
            if matches!(self.state(part), State::Pending | State::Ready) {
                let why =
                    Why { cause: Cause::NotNeeded, detail: format!("`{id}` is {}", state.word()), by: None };
                self.end(now, part, State::Skipped, Some(why));
            }
        }
    }

    /// Whether everything that an item waits for ended as it must.
    fn is_due(&self, row: &Row) -> bool {
        row.definition.after.iter().all(|edge| {
            let state = self.index.get(&edge.item).map_or(State::Pending, |place| self.state(*place));
            state == State::Done || (edge.on == On::Ended && state.has_ended())
        })
    }

    /// Lets a pending item go as far as it can without starting it.
    fn look_at(&mut self, now: &mut Now<'_>, place: usize) {
        let Some(row) = self.rows.get(place) else { return };
        let waits = matches!(row.progress.waits, None | Some(Waits::Approval { .. }));
        if row.progress.state != State::Pending || !waits {
            return;
        }
        if let Some(why) = self.spoiled(row) {
            return self.end(now, place, State::Skipped, Some(why));
        }
        if !self.is_due(row) || self.is_held(row) {
            return;
        }
        match &row.definition.kind {
            Kind::Group(group) => self.look_at_group(now, place, group.clone()),
            Kind::Task(task) => match self.inputs(task) {
                Err(why) => self.end(now, place, State::Failed, Some(why)),
                Ok(inputs) => self.look_at_task(now, place, &inputs),
            },
        }
    }

    /// Why an item can never start: what it waits for ended otherwise before it was added.
    fn spoiled(&self, row: &Row) -> Option<Why> {
        let bad = row.definition.after.iter().filter(|edge| edge.on == On::Done).find_map(|edge| {
            let state = self.index.get(&edge.item).map(|place| self.state(*place))?;
            (state.has_ended() && state != State::Done)
                .then(|| format!("`{}` is {}", edge.item, state.word()))
        })?;
        Some(Why { cause: Cause::Dependency, detail: bad, by: None })
    }

    fn look_at_group(&mut self, now: &mut Now<'_>, place: usize, group: Group) {
        let Group::MapReduce { over: Over::Output { item, path, .. }, .. } = group else { return };
        let Some(id) = self.rows.get(place).filter(|row| row.progress.elements.is_none()) else { return };
        let id = id.definition.id.clone();
        match self.product(&item, &crate::document::Product::Output(path), "list") {
            Err(why) => self.end(now, place, State::Failed, Some(why)),
            Ok(list) => {
                if let Some(progress) = self.progress(now, place) {
                    progress.waits = Some(Waits::Elements);
                }
                now.decide(Decision::Fetch { item: id, list });
            }
        }
    }

    fn look_at_task(&mut self, now: &mut Now<'_>, place: usize, inputs: &[Input]) {
        if !self.passes_gate(now, place, inputs) {
            return;
        }
        let Some(row) = self.rows.get(place) else { return };
        let (id, unknown) = (row.definition.id.clone(), row.progress.unknown);
        let Some(task) = row.definition.task() else { return };
        let key = (task.effect == Effect::Pure).then(|| super::gate::key(task, inputs));
        let Some(progress) = self.progress(now, place) else { return };
        match key {
            Some(key) if unknown != Some(key) => {
                progress.waits = Some(Waits::Recall { key });
                now.decide(Decision::Recall { item: id, key });
            }
            Some(_) | None => {
                progress.waits = None;
                progress.state = State::Ready;
            }
        }
    }

    fn start_what_can(&mut self, now: &mut Now<'_>) {
        if self.head.cancelled.is_some() || !self.rows.iter().any(|row| row.progress.state == State::Ready) {
            return;
        }
        let (mut at_work, mut of_queue): (u32, BTreeMap<QueueName, u32>) = (0, BTreeMap::new());
        for row in self.rows.iter().filter(|row| row.is_at_work()) {
            at_work = at_work.saturating_add(1);
            if let Some(task) = row.definition.task() {
                *of_queue.entry(task.queue.clone()).or_default() += 1;
            }
        }
        for place in 0..self.rows.len() {
            if at_work >= self.head.concurrency {
                return;
            }
            let Some(row) = self.rows.get(place).filter(|row| row.progress.state == State::Ready) else {
                continue;
            };
            let Some(task) = row.definition.task() else { continue };
            let is_early = row.progress.not_before.is_some_and(|moment| moment > now.at);
            let used = of_queue.get(&task.queue).copied().unwrap_or_default();
            let is_full = self.head.queues.get(&task.queue).is_some_and(|most| used >= *most);
            if is_early || is_full || !now.shared.take(&self.holder(row), &task.queue, &task.locks) {
                continue;
            }
            *of_queue.entry(task.queue.clone()).or_default() += 1;
            at_work = at_work.saturating_add(1);
            self.start(now, place);
        }
    }

    /// Starts an item that has everything it needs.
    fn start(&mut self, now: &mut Now<'_>, place: usize) {
        if !self.is_agreed(place) {
            return self.take_back(now, place);
        }
        let Some(row) = self.rows.get_mut(place) else { return };
        let Some(task) = row.definition.task() else { return };
        let deadline = now.in_seconds(task.deadline_seconds);
        let progress = &mut row.progress;
        // What goes on after an answer kept its locks.
        if !progress.holds {
            progress.attempt = progress.attempt.saturating_add(1);
            progress.turn = 0;
        }
        let id = DispatchId::of(&self.head.id, &row.definition.id, progress.attempt, progress.turn);
        progress.state = State::Running;
        progress.dispatch = Some(id);
        progress.is_confirmed = false;
        progress.waits = None;
        progress.why = None;
        progress.not_before = None;
        progress.holds = true;
        progress.deadline = Some(deadline);
        progress.began = progress.began.or(Some(now.at));
        now.step.rows.insert(place);
        self.tell_start(now, place);
    }

    /// Decides the start that an item's record tells of.
    pub(super) fn tell_start(&mut self, now: &mut Now<'_>, place: usize) {
        let Some(row) = self.rows.get(place) else { return };
        let (Some(task), Some(dispatch)) = (row.definition.task(), row.progress.dispatch) else { return };
        let inputs = match self.inputs(task) {
            Ok(inputs) => inputs,
            Err(why) => return self.end(now, place, State::Failed, Some(why)),
        };
        let id = &row.definition.id;
        let before = row.progress.turn.checked_sub(1);
        let continues = before.map(|turn| DispatchId::of(&self.head.id, id, row.progress.attempt, turn));
        let start = Start {
            item: id.clone(),
            dispatch,
            attempt: row.progress.attempt,
            continues,
            request: within(task),
            inputs,
            deadline: row.progress.deadline.unwrap_or(now.at),
            idempotency_key: task.idempotency_key.clone(),
            approved: row.progress.approved.as_ref().map(|approved| approved.hash),
        };
        now.decide(Decision::Start(Box::new(start)));
    }

    /// Asks again what was asked before.
    pub(super) fn ask_again(&self, now: &mut Now<'_>, place: usize) {
        let Some(row) = self.rows.get(place) else { return };
        let item = row.definition.id.clone();
        let question = match &row.progress.waits {
            Some(Waits::Approval { hash, .. }) => Question::Approval(*hash),
            Some(Waits::Retry { .. }) => Question::Retry,
            Some(Waits::Answer { .. }) => Question::Answer,
            Some(Waits::Recall { key }) => return now.decide(Decision::Recall { item, key: *key }),
            Some(Waits::Elements) | None => return,
        };
        now.decide(Decision::Ask { item, question });
    }

    fn finish(&mut self, now: &mut Now<'_>) {
        if self.head.open || self.head.ended.is_some() {
            return;
        }
        if !self.rows.iter().all(|row| row.progress.state.has_ended()) {
            return;
        }
        // Parts count by what they made of their group.
        let whole = |state: State| {
            self.rows.iter().any(|row| row.definition.group.is_none() && row.progress.state == state)
        };
        let outcome = if self.head.cancelled.is_some() {
            Outcome::Cancelled
        } else if whole(State::Failed) {
            Outcome::Failed
        } else if whole(State::Denied) {
            Outcome::Denied
        } else if whole(State::Cancelled) {
            Outcome::Cancelled
        } else {
            Outcome::Done
        };
        self.head.ended = Some((outcome, now.at));
        now.step.head = true;
        now.decide(Decision::Over(outcome));
    }
}

/// What is dispatched, with the time that the item has.
fn within(task: &Task) -> crate::request::Request {
    let mut request = task.request.clone();
    let own = request.timeout_seconds.unwrap_or(task.deadline_seconds);
    request.timeout_seconds = Some(own.min(task.deadline_seconds));
    request
}
