//! Turns a plan and what happened into what is to be started, stopped, asked and looked up.
//!
//! Flow: [`Run::begin`], then [`Run::handle`] for each [`Event`]; each gives a [`Step`]. Whoever calls writes the records that
//! the step names in one transaction and only then does what it decided. After a restart: [`Run::restore`] for every run, then
//! [`Run::resume`] for each.
//!
//! Invariants: nothing here reads a clock, a disk or a socket; the same records and events give the same decisions. An item starts
//! after everything it waits for, with all of its locks or none, within every bound on how many are at work. What ends badly
//! skips, in the same step, all that waits for it. An item that writes is begun a second time only by a person's word or under
//! its idempotency key. A dispatch that is not known to have been started is asked about before anything is started again.

mod event;
mod extend;
mod gate;
mod happen;
mod pattern;
mod restore;
mod row;
mod settle;

use std::collections::{BTreeSet, HashMap, VecDeque};

pub use event::{Decision, Ended, Event, Input, Known, Question, Refused, Start, Step};
pub use restore::BadRows;
pub use row::{
    Approved, Cause, Head, Millis, Outcome, Products, Progress, Row, State, Stopping, Verdict, Waits, Why,
    Writes,
};

use crate::document::On;
use crate::name::{Actor, ItemId, RunId};
use crate::plan::{Definition, Pinned};
use crate::shared::{Holder, Shared};

/// Who submits a plan, and what holds for its run.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The name of the run.
    pub id: RunId,
    /// Who submits it.
    pub by: Actor,
    /// When.
    pub at: Millis,
    /// Which items may write without being asked for.
    pub writes: Writes,
    /// Whether every approval has to be given by somebody else than who wanted it, whatever the plan says.
    pub four_eyes: bool,
}

/// One execution of a plan.
#[derive(Clone, Debug)]
pub struct Run {
    head: Head,
    rows: Vec<Row>,
    /// Made from the rows.
    index: HashMap<ItemId, usize>,
    dependents: Vec<Vec<(usize, On)>>,
    parts: Vec<Vec<usize>>,
}

/// One step while it is made.
struct Now<'a> {
    at: Millis,
    shared: &'a mut Shared,
    step: Step,
    /// Items that ended, whose consequences are still to be drawn.
    ended: VecDeque<usize>,
    /// Items that may be able to go on.
    look: BTreeSet<usize>,
}

impl<'a> Now<'a> {
    fn new(at: Millis, shared: &'a mut Shared) -> Self {
        Self { at, shared, step: Step::default(), ended: VecDeque::new(), look: BTreeSet::new() }
    }

    /// A moment that is so many seconds away.
    fn in_seconds(&self, seconds: u64) -> Millis {
        let millis = Millis::try_from(seconds).unwrap_or(Millis::MAX).saturating_mul(1_000);
        self.at.saturating_add(millis)
    }

    fn decide(&mut self, decision: Decision) {
        self.step.decisions.push(decision);
    }
}

impl Run {
    /// The run of a plan, and its first step.
    #[must_use]
    pub fn begin(pinned: Pinned, submission: Submission, shared: &mut Shared) -> (Self, Step) {
        let Pinned { plan, pins } = pinned;
        let Submission { id, by, at, writes, four_eyes } = submission;
        let head = Head {
            id,
            name: plan.name,
            submitted_by: by.clone(),
            at,
            open: plan.open,
            concurrency: plan.concurrency,
            queues: plan.queues,
            pins,
            writes,
            four_eyes,
            cancelled: None,
            ended: None,
        };
        let mut run =
            Self { head, rows: Vec::new(), index: HashMap::new(), dependents: Vec::new(), parts: Vec::new() };
        let mut now = Now::new(at, shared);
        now.step.head = true;
        for definition in plan.definitions {
            run.add(&mut now, definition, by.clone());
        }
        run.wire_all();
        run.settle(&mut now);
        (run, now.step)
    }

    /// What is to be done about an event.
    ///
    /// # Errors
    /// [`Refused`]; then nothing changed.
    pub fn handle(&mut self, at: Millis, event: Event, shared: &mut Shared) -> Result<Step, Refused> {
        let mut now = Now::new(at, shared);
        self.happen(&mut now, event)?;
        self.settle(&mut now);
        Ok(now.step)
    }

    /// The record of the run.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The records of its items.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The record of one item.
    #[must_use]
    pub fn item(&self, id: &ItemId) -> Option<&Row> {
        self.index.get(id).and_then(|index| self.rows.get(*index))
    }

    /// When something is to be done although nothing happens: give it a [`Event::Tick`] then.
    #[must_use]
    pub fn next_wake(&self) -> Option<Millis> {
        self.rows.iter().filter_map(Row::next_wake).min()
    }

    /// Adds an item at the end. Its edges are wired by whoever adds it.
    fn add(&mut self, now: &mut Now<'_>, definition: Definition, added_by: Actor) -> usize {
        let place = self.rows.len();
        self.index.insert(definition.id.clone(), place);
        let index = u32::try_from(place).unwrap_or(u32::MAX);
        self.rows.push(Row { index, added_by, definition, progress: Progress::default() });
        self.dependents.push(Vec::new());
        self.parts.push(Vec::new());
        now.step.rows.insert(place);
        now.look.insert(place);
        place
    }

    fn wire_all(&mut self) {
        self.dependents.iter_mut().for_each(Vec::clear);
        self.parts.iter_mut().for_each(Vec::clear);
        (0..self.rows.len()).for_each(|place| self.wire(place));
    }

    /// Lets an item be found by what it waits for and by its group. Once for each.
    fn wire(&mut self, place: usize) {
        let Some(row) = self.rows.get(place) else { return };
        for edge in &row.definition.after {
            let target = self.index.get(&edge.item).and_then(|target| self.dependents.get_mut(*target));
            if let Some(all) = target {
                all.push((place, edge.on));
            }
        }
        let group = row.definition.group.as_ref().and_then(|group| self.index.get(group));
        if let Some(all) = group.and_then(|group| self.parts.get_mut(*group)) {
            all.push(place);
        }
    }

    fn place(&self, item: &ItemId) -> Result<usize, Refused> {
        self.index.get(item).copied().ok_or_else(|| Refused::UnknownItem(item.clone()))
    }

    fn state(&self, place: usize) -> State {
        self.rows.get(place).map_or(State::Skipped, |row| row.progress.state)
    }

    /// How far an item is, to be changed.
    fn progress(&mut self, now: &mut Now<'_>, place: usize) -> Option<&mut Progress> {
        now.step.rows.insert(place);
        self.rows.get_mut(place).map(|row| &mut row.progress)
    }

    fn holder(&self, row: &Row) -> Holder {
        Holder { run: self.head.id.clone(), item: row.definition.id.clone() }
    }
}

impl Row {
    /// Whether it takes a place among those at work.
    pub(crate) fn is_at_work(&self) -> bool {
        self.progress.state == State::Running && !matches!(self.progress.waits, Some(Waits::Answer { .. }))
    }

    fn next_wake(&self) -> Option<Millis> {
        let until = match &self.progress.waits {
            Some(Waits::Approval { until, .. }) => *until,
            Some(Waits::Retry { until } | Waits::Answer { until }) => Some(*until),
            Some(Waits::Recall { .. } | Waits::Elements) | None => None,
        };
        let deadline = self.progress.deadline.filter(|_| self.progress.stopping.is_none());
        let again = self.progress.not_before.filter(|_| self.progress.state == State::Ready);
        [until, deadline, again].into_iter().flatten().min()
    }
}
