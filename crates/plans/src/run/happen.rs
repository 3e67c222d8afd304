//! What each event does to the item it is about. Its consequences for others are drawn afterwards.
//!
//! An event about a dispatch that is not the present one, or about an item that ended, comes late and changes nothing.

use super::event::{Decision, Ended, Event, Known, Question, Refused};
use super::row::{Approved, Cause, State, Stopping, Verdict, Waits, Why};
use super::{Now, Row, Run};
use crate::document::{Effect, Product, Task};
use crate::name::{Actor, DispatchId, Hash, ItemId};

/// How often an item may ask within one attempt.
const MOST_QUESTIONS: u32 = 8;
/// The most characters of a reason that are kept.
const MOST_DETAIL: usize = 500;
/// The longest wait before another attempt.
const MOST_WAIT_SECONDS: u64 = 3_600;

impl Run {
    pub(super) fn happen(&mut self, now: &mut Now<'_>, event: Event) -> Result<(), Refused> {
        match event {
            Event::Started { item, dispatch } => self.started(now, &item, dispatch),
            Event::Ended { item, dispatch, ended } => self.has_ended(now, &item, dispatch, ended),
            Event::NeverStarted { item, dispatch } => self.never_started(now, &item, dispatch),
            Event::Denied { item, why } => self.denied(now, &item, &why),
            Event::Recalled { item, key, found } => self.recalled(now, &item, key, found),
            Event::Elements { item, found } => self.elements(now, &item, found),
            Event::Approved { item, hash, by } => self.approved(now, &item, hash, by),
            Event::Refused { item, hash, by } => self.refused(now, &item, hash, by),
            Event::Changed { item, product, hash } => self.changed(now, &item, &product, hash),
            Event::Answered { item, by: _ } => self.answered(now, &item),
            Event::Retry { item, by } => self.again(now, &item, &by),
            Event::GiveUp { item, by } => self.given_up(now, &item, by),
            Event::CancelItem { item, by } => self.cancel_item(now, &item, &by),
            Event::CancelRun { by } => {
                self.cancel_run(now, by);
                Ok(())
            }
            Event::Close { by: _ } => {
                now.step.head |= self.head.open;
                self.head.open = false;
                Ok(())
            }
            Event::Tick => {
                self.tick(now);
                Ok(())
            }
        }
    }

    /// The place of an item whose present dispatch this is.
    fn at_work(&self, item: &ItemId, dispatch: DispatchId) -> Result<Option<usize>, Refused> {
        let place = self.place(item)?;
        let is_it = |row: &&Row| {
            let waits_for_answer = matches!(row.progress.waits, Some(Waits::Answer { .. }));
            row.progress.state == State::Running
                && row.progress.dispatch == Some(dispatch)
                && !waits_for_answer
        };
        Ok(self.rows.get(place).filter(is_it).map(|_| place))
    }

    fn started(&mut self, now: &mut Now<'_>, item: &ItemId, dispatch: DispatchId) -> Result<(), Refused> {
        if let Some(place) = self.at_work(item, dispatch)?
            && let Some(progress) = self.progress(now, place)
        {
            progress.is_confirmed = true;
        }
        Ok(())
    }

    fn has_ended(
        &mut self,
        now: &mut Now<'_>,
        item: &ItemId,
        dispatch: DispatchId,
        ended: Ended,
    ) -> Result<(), Refused> {
        let Some(place) = self.at_work(item, dispatch)? else { return Ok(()) };
        if let Ended::Done { products, .. } = &ended
            && let Some(progress) = self.progress(now, place)
        {
            progress.products = products.clone();
        }
        if self.end_of_stop(now, place) {
            return Ok(());
        }
        match ended {
            Ended::Done { verdict, .. } => self.done(now, place, verdict),
            Ended::Cancelled => {
                let why =
                    Why { cause: Cause::Cancelled, detail: "its dispatch was cancelled".into(), by: None };
                self.end(now, place, State::Cancelled, Some(why));
            }
            Ended::Failed { cause, detail } => self.failed(now, place, cause, &detail),
            Ended::NeedsInput => self.asks(now, place),
        }
        Ok(())
    }

    /// Ends an item that was being stopped, as what it was stopped for.
    fn end_of_stop(&mut self, now: &mut Now<'_>, place: usize) -> bool {
        let Some(row) = self.rows.get(place) else { return false };
        let why = row.progress.why.clone();
        let (state, cause) = match row.progress.stopping {
            None => return false,
            Some(Stopping::Cancelled) => (State::Cancelled, Cause::Cancelled),
            Some(Stopping::Overdue) => (State::Failed, Cause::Timeout),
            Some(Stopping::Denied) => (State::Denied, Cause::Policy),
        };
        let why = why.unwrap_or(Why { cause, detail: String::new(), by: None });
        self.end(now, place, state, Some(why));
        true
    }

    fn done(&mut self, now: &mut Now<'_>, place: usize, verdict: Option<Verdict>) {
        let judges = self.task(place).is_some_and(|task| task.judges);
        if let Some(progress) = self.progress(now, place) {
            // Who judges and says nothing does not approve.
            progress.verdict = judges.then(|| verdict.unwrap_or(Verdict::Reject));
        }
        self.end(now, place, State::Done, None);
    }

    fn task(&self, place: usize) -> Option<&Task> {
        self.rows.get(place).and_then(|row| row.definition.task())
    }

    /// Tries again, asks a person whether to, or gives up.
    fn failed(&mut self, now: &mut Now<'_>, place: usize, cause: Cause, detail: &str) {
        let why = Why { cause, detail: detail.chars().take(MOST_DETAIL).collect(), by: None };
        let Some(row) = self.rows.get(place) else { return };
        let Some(task) = row.definition.task() else { return };
        if !cause.is_transient() || row.progress.attempt >= task.attempts {
            return self.end(now, place, State::Failed, Some(why));
        }
        let is_safe = task.effect != Effect::Write || task.idempotency_key.is_some();
        let until = now.in_seconds(task.deadline_seconds);
        let again = now.in_seconds(wait_seconds(row.progress.attempt));
        self.release(now, place);
        let Some(progress) = self.progress(now, place) else { return };
        progress.why = Some(why);
        progress.deadline = None;
        if is_safe {
            progress.state = State::Ready;
            progress.not_before = Some(again);
        } else {
            progress.state = State::Pending;
            progress.waits = Some(Waits::Retry { until });
            self.ask_again(now, place);
        }
    }

    fn asks(&mut self, now: &mut Now<'_>, place: usize) {
        let Some(row) = self.rows.get(place) else { return };
        let Some(task) = row.definition.task() else { return };
        if row.progress.turn >= MOST_QUESTIONS {
            let detail = format!("it asked more than {MOST_QUESTIONS} times");
            let why = Why { cause: Cause::TooManyQuestions, detail, by: None };
            return self.end(now, place, State::Failed, Some(why));
        }
        let until = now.in_seconds(task.deadline_seconds);
        // Nothing of it is at work: others get its place. What it has locked may be half done, and stays locked.
        let mut wake = now.shared.leave(&self.holder(row), &task.queue);
        wake.remove(&self.head.id);
        now.step.wake.append(&mut wake);
        if let Some(progress) = self.progress(now, place) {
            progress.waits = Some(Waits::Answer { until });
            progress.deadline = None;
        }
        self.ask_again(now, place);
    }

    fn answered(&mut self, now: &mut Now<'_>, item: &ItemId) -> Result<(), Refused> {
        let place = self.waiting(item, |waits| matches!(waits, Waits::Answer { .. }))?;
        if let Some(progress) = self.progress(now, place) {
            progress.waits = None;
            progress.turn = progress.turn.saturating_add(1);
            progress.state = State::Ready;
        }
        Ok(())
    }

    fn waiting(&self, item: &ItemId, is_it: impl FnOnce(&Waits) -> bool) -> Result<usize, Refused> {
        let place = self.place(item)?;
        let waits = self.rows.get(place).and_then(|row| row.progress.waits.as_ref());
        if waits.is_some_and(is_it) { Ok(place) } else { Err(Refused::NotWaiting(item.clone())) }
    }

    /// It was to be started, and was not: it still is to be, by the same id.
    fn never_started(
        &mut self,
        now: &mut Now<'_>,
        item: &ItemId,
        dispatch: DispatchId,
    ) -> Result<(), Refused> {
        let Some(place) = self.at_work(item, dispatch)? else { return Ok(()) };
        if self.end_of_stop(now, place) {
            return Ok(());
        }
        if self.rows.get(place).is_some_and(|row| row.progress.is_confirmed) {
            self.failed(now, place, Cause::Lost, "it was started, and nobody knows of it any more");
        } else if !self.is_agreed(place) {
            // Nothing of this attempt happened.
            if let Some(progress) = self.progress(now, place) {
                progress.attempt = progress.attempt.saturating_sub(1);
            }
            self.take_back(now, place);
        } else {
            self.tell_start(now, place);
        }
        Ok(())
    }

    fn denied(&mut self, now: &mut Now<'_>, item: &ItemId, why: &str) -> Result<(), Refused> {
        let place = self.place(item)?;
        let Some(row) = self.rows.get(place) else { return Ok(()) };
        if row.progress.state.has_ended() {
            return Err(Refused::HasEnded(item.clone()));
        }
        let why = Why { cause: Cause::Policy, detail: why.chars().take(MOST_DETAIL).collect(), by: None };
        // Also what is not known to have been started: it may be at work by now, and its locks are its own until it is gone.
        if row.is_at_work() {
            self.stop(now, place, Stopping::Denied, why);
        } else {
            self.end(now, place, State::Denied, Some(why));
        }
        Ok(())
    }

    /// Lets an item that is at work be stopped; it ends when it is gone.
    fn stop(&mut self, now: &mut Now<'_>, place: usize, stopping: Stopping, why: Why) {
        let Some(progress) = self.progress(now, place) else { return };
        progress.why = Some(why);
        let is_new = progress.stopping.replace(stopping).is_none();
        let dispatch = progress.dispatch;
        let item = self.rows.get(place).map(|row| row.definition.id.clone());
        if let (true, Some(item), Some(dispatch)) = (is_new, item, dispatch) {
            now.decide(Decision::Stop { item, dispatch });
        }
    }

    fn recalled(
        &mut self,
        now: &mut Now<'_>,
        item: &ItemId,
        key: Hash,
        found: Option<Known>,
    ) -> Result<(), Refused> {
        let place = self.waiting(item, |waits| *waits == Waits::Recall { key })?;
        let judges = self.task(place).is_some_and(|task| task.judges);
        let Some(progress) = self.progress(now, place) else { return Ok(()) };
        progress.waits = None;
        // Who judged nothing then is asked now: no verdict would count as a no that nobody said.
        match found.filter(|known| !judges || known.verdict.is_some()) {
            Some(Known { products, verdict }) => {
                progress.products = products;
                progress.verdict = verdict.filter(|_| judges);
                progress.is_recalled = true;
                self.end(now, place, State::Done, None);
            }
            None => {
                progress.unknown = Some(key);
                now.look.insert(place);
            }
        }
        Ok(())
    }

    /// The place of an item that a person may decide on.
    fn at_gate(&self, item: &ItemId, hash: Hash, by: &Actor) -> Result<usize, Refused> {
        let place = self.place(item)?;
        let waits = self.rows.get(place).and_then(|row| row.progress.waits.as_ref());
        let Some(Waits::Approval { hash: asked, .. }) = waits else {
            return Err(Refused::NotWaiting(item.clone()));
        };
        if *asked != hash {
            return Err(Refused::AnotherHash { item: item.clone(), hash: *asked });
        }
        if by.is_person { Ok(place) } else { Err(Refused::NotAPerson) }
    }

    fn approved(&mut self, now: &mut Now<'_>, item: &ItemId, hash: Hash, by: Actor) -> Result<(), Refused> {
        let place = self.at_gate(item, hash, &by)?;
        if self.needs_four_eyes(place) && self.is_own(place, &by.id) {
            return Err(Refused::OwnWork(item.clone()));
        }
        let at = now.at;
        if let Some(progress) = self.progress(now, place) {
            progress.approved = Some(Approved { hash, by, at });
        }
        now.look.insert(place);
        Ok(())
    }

    fn refused(&mut self, now: &mut Now<'_>, item: &ItemId, hash: Hash, by: Actor) -> Result<(), Refused> {
        let place = self.at_gate(item, hash, &by)?;
        let why = Why { cause: Cause::Refused, detail: String::new(), by: Some(by) };
        self.end(now, place, State::Denied, Some(why));
        Ok(())
    }

    /// Whatever uses the product and was not started yet is looked at anew: what was agreed to is not there any more.
    fn changed(
        &mut self,
        now: &mut Now<'_>,
        item: &ItemId,
        product: &Product,
        hash: Hash,
    ) -> Result<(), Refused> {
        let place = self.place(item)?;
        if self.state(place) != State::Done {
            return Err(Refused::NotWaiting(item.clone()));
        }
        let Some(progress) = self.progress(now, place) else { return Ok(()) };
        match product {
            Product::Patch => progress.products.patch = Some(hash),
            Product::Output(path) => drop(progress.products.outputs.insert(path.clone(), hash)),
        }
        for other in 0..self.rows.len() {
            let Some(row) = self.rows.get(other) else { continue };
            // What goes on after an answer is looked at when it starts.
            let is_started = row.progress.holds;
            let uses = row.definition.task().is_some_and(|task| !task.needs.is_empty());
            if is_started || !uses || !matches!(row.progress.state, State::Pending | State::Ready) {
                continue;
            }
            let is_recall = matches!(row.progress.waits, Some(Waits::Recall { .. }));
            if row.progress.state == State::Ready || is_recall {
                self.release(now, other);
                if let Some(progress) = self.progress(now, other) {
                    progress.state = State::Pending;
                    progress.waits = None;
                }
            }
            now.look.insert(other);
        }
        Ok(())
    }

    fn again(&mut self, now: &mut Now<'_>, item: &ItemId, by: &Actor) -> Result<(), Refused> {
        let place = self.waiting(item, |waits| matches!(waits, Waits::Retry { .. }))?;
        if !by.is_person {
            return Err(Refused::NotAPerson);
        }
        // What it uses may have changed meanwhile.
        if let Some(progress) = self.progress(now, place) {
            progress.waits = None;
        }
        now.look.insert(place);
        Ok(())
    }

    fn given_up(&mut self, now: &mut Now<'_>, item: &ItemId, by: Actor) -> Result<(), Refused> {
        let place = self.waiting(item, |waits| matches!(waits, Waits::Retry { .. }))?;
        if !by.is_person {
            return Err(Refused::NotAPerson);
        }
        let why = Why { cause: Cause::GivenUp, detail: String::new(), by: Some(by) };
        self.end(now, place, State::Failed, Some(why));
        Ok(())
    }

    fn cancel_item(&mut self, now: &mut Now<'_>, item: &ItemId, by: &Actor) -> Result<(), Refused> {
        let place = self.place(item)?;
        if self.state(place).has_ended() {
            return Err(Refused::HasEnded(item.clone()));
        }
        self.cancel(now, place, by);
        for part in self.parts.get(place).cloned().unwrap_or_default() {
            self.cancel(now, part, by);
        }
        Ok(())
    }

    fn cancel_run(&mut self, now: &mut Now<'_>, by: Actor) {
        if self.head.ended.is_some() || self.head.cancelled.is_some() {
            return;
        }
        (0..self.rows.len()).for_each(|place| self.cancel(now, place, &by));
        self.head.cancelled = Some(by);
        self.head.open = false;
        now.step.head = true;
    }

    fn cancel(&mut self, now: &mut Now<'_>, place: usize, by: &Actor) {
        let Some(row) = self.rows.get(place).filter(|row| !row.progress.state.has_ended()) else { return };
        let why = Why { cause: Cause::Cancelled, detail: String::new(), by: Some(by.clone()) };
        if row.is_at_work() {
            self.stop(now, place, Stopping::Cancelled, why);
        } else {
            self.end(now, place, State::Cancelled, Some(why));
        }
    }

    /// What is overdue is stopped, and nobody is waited for any longer than was said.
    fn tick(&mut self, now: &mut Now<'_>) {
        for place in 0..self.rows.len() {
            let Some(row) = self.rows.get(place) else { continue };
            let is_past = |moment: Option<i64>| moment.is_some_and(|moment| moment <= now.at);
            let why = |cause, detail: &str| Why { cause, detail: detail.to_owned(), by: None };
            // From now on it waits for a place or a lock, and for no moment: one that is past would be waited for without end.
            let may_be_tried = is_past(row.progress.not_before);
            match row.progress.waits {
                Some(Waits::Approval { until, .. }) if is_past(until) => {
                    let why = why(Cause::Unanswered, "nobody agreed in time");
                    self.end(now, place, State::Denied, Some(why));
                }
                Some(Waits::Retry { until }) if is_past(Some(until)) => {
                    let why = row.progress.why.clone().unwrap_or(why(Cause::Unanswered, ""));
                    self.end(now, place, State::Failed, Some(why));
                }
                Some(Waits::Answer { until }) if is_past(Some(until)) => {
                    let why = why(Cause::Unanswered, "nobody answered in time");
                    self.end(now, place, State::Failed, Some(why));
                }
                Some(_) | None => {
                    let is_overdue = row.is_at_work() && row.progress.stopping.is_none();
                    if is_overdue && is_past(row.progress.deadline) {
                        let why = why(Cause::Timeout, "it took longer than it may");
                        self.stop(now, place, Stopping::Overdue, why);
                    }
                }
            }
            if may_be_tried && let Some(progress) = self.progress(now, place) {
                progress.not_before = None;
            }
        }
    }
}

/// How long to wait after an attempt: a second, then twice as long each time.
fn wait_seconds(attempt: u32) -> u64 {
    let doubled = 1_u64.checked_shl(attempt.saturating_sub(1)).filter(|seconds| *seconds > 0);
    doubled.unwrap_or(MOST_WAIT_SECONDS).min(MOST_WAIT_SECONDS)
}

impl Run {
    /// What an item asks a person, if it does.
    #[must_use]
    pub fn question(&self, item: &ItemId) -> Option<Question> {
        match self.item(item)?.progress.waits.as_ref()? {
            Waits::Approval { hash, .. } => Some(Question::Approval(*hash)),
            Waits::Retry { .. } => Some(Question::Retry),
            Waits::Answer { .. } => Some(Question::Answer),
            Waits::Recall { .. } | Waits::Elements => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orc_04_waits_double_from_a_second_and_never_overflow() {
        assert_eq!([1, 2, 3, 4].map(wait_seconds), [1, 2, 4, 8]);
        assert_eq!(
            [0, 12, 13, 63, 64, 65, u32::MAX].map(wait_seconds),
            [1, 2_048, 3_600, 3_600, 3_600, 3_600, 3_600]
        );
    }
}
