//! ORC-05, as far as the core goes: cut anywhere, what is kept goes on; nothing that writes is begun twice, nothing is lost.
//!
//! The world here has what a daemon has: records that are written before anything is done, and dispatches that are known by their
//! id from before they start. It dies between any two of these.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use plans::{
    Cause, Decision, DispatchId, Ended, Event, Head, ItemId, Outcome, Question, Refused, Row, Run, RunId,
    Shared, State, Step, Submission, Verdict, Writes,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kit::{Chance, ana, bo, done, kept, pinned, plan, run_id, scaled};

/// Everything that outlives the daemon.
#[derive(Default)]
struct Disk {
    records: BTreeMap<RunId, (Head, Vec<Row>)>,
    /// Dispatches by id: whether they are at work, and how they ended.
    dispatches: BTreeMap<DispatchId, Option<Ended>>,
    /// How often something was really begun, by run and item.
    begun: BTreeMap<(RunId, ItemId), Vec<DispatchId>>,
    /// Whether a person said that an item be tried again.
    again: BTreeSet<(RunId, ItemId)>,
}

/// What dies.
struct Daemon {
    shared: Shared,
    runs: BTreeMap<RunId, Run>,
    /// Decisions that are written down and not done yet.
    open: Vec<(RunId, Decision)>,
    woken: BTreeSet<RunId>,
}

struct Theatre {
    disk: Disk,
    at: i64,
    chance: Chance,
    deaths: u32,
}

/// An early end of the daemon.
struct Died;

impl Theatre {
    /// A place where the daemon may die.
    fn survives(&mut self) -> Result<(), Died> {
        if self.deaths > 0 && self.chance.one_in(12) {
            self.deaths -= 1;
            return Err(Died);
        }
        Ok(())
    }

    fn keep(&mut self, run: &Run, step: &Step) {
        let (head, rows) = kept(run);
        let id = head.id.clone();
        let entry = self.disk.records.entry(id).or_insert_with(|| (head.clone(), Vec::new()));
        // Only what the step names is written: whatever else changed would be lost.
        if step.head {
            entry.0 = head;
        }
        for place in &step.rows {
            match entry.1.get_mut(*place) {
                Some(row) => *row = rows[*place].clone(),
                None => entry.1.push(rows[*place].clone()),
            }
        }
        assert_eq!(
            (&entry.0, &entry.1[..]),
            (run.head(), run.rows()),
            "a step names everything that changed"
        );
    }

    fn tell(&mut self, daemon: &mut Daemon, id: &RunId, event: Event) -> Result<(), Died> {
        let run = daemon.runs.get_mut(id).unwrap();
        let step = match run.handle(self.at, event, &mut daemon.shared) {
            Ok(step) => step,
            // Whoever was asked answered too late.
            Err(Refused::NotWaiting(_) | Refused::AnotherHash { .. }) => return Ok(()),
            Err(refused) => panic!("{refused}"),
        };
        self.survives()?;
        self.keep(&daemon.runs[id], &step);
        daemon.woken.extend(step.wake);
        daemon.open.extend(step.decisions.into_iter().map(|decision| (id.clone(), decision)));
        self.survives()
    }

    /// Does one thing that was decided.
    fn act(&mut self, daemon: &mut Daemon, run: &RunId, decision: Decision) -> Result<(), Died> {
        match decision {
            Decision::Start(start) => {
                // A second dispatch of one id is the first one.
                if let Entry::Vacant(unknown) = self.disk.dispatches.entry(start.dispatch) {
                    unknown.insert(None);
                    let begun = self.disk.begun.entry((run.clone(), start.item.clone()));
                    begun.or_default().push(start.dispatch);
                }
                self.survives()?;
                self.tell(daemon, run, Event::Started { item: start.item, dispatch: start.dispatch })
            }
            Decision::Stop { item, dispatch } => {
                if let Some(ended) = self.disk.dispatches.get_mut(&dispatch) {
                    ended.get_or_insert(Ended::Cancelled);
                    let ended = ended.clone().unwrap();
                    return self.tell(daemon, run, Event::Ended { item, dispatch, ended });
                }
                self.tell(daemon, run, Event::NeverStarted { item, dispatch })
            }
            Decision::Check { item, dispatch } => match self.disk.dispatches.get(&dispatch).cloned() {
                None => self.tell(daemon, run, Event::NeverStarted { item, dispatch }),
                // The sandbox ended with the daemon that it belonged to; that it is gone is checked before this is said.
                Some(None) => {
                    let ended = Ended::Failed { cause: Cause::Lost, detail: String::new() };
                    self.disk.dispatches.insert(dispatch, Some(ended.clone()));
                    self.tell(daemon, run, Event::Ended { item, dispatch, ended })
                }
                Some(Some(ended)) => self.tell(daemon, run, Event::Ended { item, dispatch, ended }),
            },
            Decision::Recall { item, key } => {
                self.tell(daemon, run, Event::Recalled { item, key, found: None })
            }
            Decision::Fetch { item, .. } => {
                let found = Ok(vec![json!(1), json!(2)]);
                self.tell(daemon, run, Event::Elements { item, found })
            }
            Decision::Ask { item, question } => match question {
                Question::Approval(hash) => self.tell(daemon, run, Event::Approved { item, hash, by: bo() }),
                Question::Retry if self.chance.one_in(2) => {
                    self.disk.again.insert((run.clone(), item.clone()));
                    self.tell(daemon, run, Event::Retry { item, by: ana() })
                }
                Question::Retry => self.tell(daemon, run, Event::GiveUp { item, by: ana() }),
                Question::Answer => self.tell(daemon, run, Event::Answered { item, by: ana() }),
            },
            Decision::Over(_) => Ok(()),
        }
    }

    /// Something that is at work ends.
    fn work_ends(&mut self, daemon: &mut Daemon) -> Result<bool, Died> {
        let mut at_work = Vec::new();
        for (id, run) in &daemon.runs {
            for row in run.rows().iter().filter(|row| row.progress.state == State::Running) {
                let Some(dispatch) = row.progress.dispatch else { continue };
                if self.disk.dispatches.get(&dispatch) == Some(&None) {
                    at_work.push((id.clone(), row.definition.id.clone(), dispatch));
                }
            }
        }
        if at_work.is_empty() {
            return Ok(false);
        }
        let place = self.chance.below(at_work.len() as u64) as usize;
        let (run, item, dispatch) = at_work.swap_remove(place);
        let ended = match self.chance.below(12) {
            0 => Ended::Failed { cause: Cause::ProviderFailed, detail: String::new() },
            1 => Ended::NeedsInput,
            2 => Ended::Failed { cause: Cause::WorkerFailed, detail: String::new() },
            number => {
                let Ended::Done { products, .. } = done(item.as_str()) else { unreachable!() };
                let verdict = Some(if number < 5 { Verdict::Reject } else { Verdict::Approve });
                Ended::Done { products, verdict }
            }
        };
        self.disk.dispatches.insert(dispatch, Some(ended.clone()));
        self.survives()?;
        self.tell(daemon, &run, Event::Ended { item, dispatch, ended })?;
        Ok(true)
    }

    /// One life of the daemon, from what is on the disk until everything is over.
    fn live(&mut self) -> Result<(), Died> {
        let mut shared = Shared::new();
        let mut runs = BTreeMap::new();
        for (id, (head, rows)) in &self.disk.records {
            runs.insert(id.clone(), Run::restore(head.clone(), rows.clone(), &mut shared).unwrap());
        }
        let ids: Vec<RunId> = runs.keys().cloned().collect();
        let mut daemon = Daemon { shared, runs, open: Vec::new(), woken: BTreeSet::new() };
        for id in &ids {
            let run = daemon.runs.get_mut(id).unwrap();
            let step = run.resume(self.at, &mut daemon.shared);
            self.survives()?;
            self.keep(&daemon.runs[id], &step);
            daemon.woken.extend(step.wake);
            daemon.open.extend(step.decisions.into_iter().map(|decision| (id.clone(), decision)));
        }
        for _ in 0..5_000 {
            self.check_locks(&daemon);
            if !daemon.open.is_empty() {
                let (run, decision) = daemon.open.remove(0);
                self.act(&mut daemon, &run, decision)?;
            } else if let Some(run) = daemon.woken.pop_first() {
                self.tell(&mut daemon, &run, Event::Tick)?;
            } else if !self.work_ends(&mut daemon)? {
                let Some(next) = daemon.runs.values().filter_map(Run::next_wake).min() else { return Ok(()) };
                self.at = self.at.max(next);
                daemon.woken = ids.iter().cloned().collect();
            }
        }
        panic!("it never ends");
    }

    fn check_locks(&self, daemon: &Daemon) {
        for (_, holder) in daemon.shared.locks() {
            let row = daemon.runs[&holder.run].item(&holder.item).unwrap();
            assert!(row.progress.holds && !row.progress.state.has_ended());
        }
    }
}

fn item(chance: &mut Chance, number: u64) -> Value {
    let effects = ["pure", "read", "write", "write"];
    let mut item = json!({
        "id": format!("t{number}"),
        "after": (0..number).filter(|_| chance.one_in(3)).map(|other| format!("t{other}")).collect::<Vec<_>>(),
        "effect": effects[chance.below(4) as usize],
        "locks": (0..3).filter(|_| chance.one_in(3)).map(|lock| format!("l{lock}")).collect::<Vec<_>>(),
        "dispatch": { "subagent": "s" },
    });
    if chance.one_in(3) {
        item["idempotencyKey"] = "k".into();
    }
    if chance.one_in(4) {
        item["approval"] = json!({});
    }
    item
}

fn document(chance: &mut Chance) -> Value {
    let count = 2 + chance.below(6);
    let mut items: Vec<Value> = (0..count).map(|number| item(chance, number)).collect();
    let part = json!({ "effect": "write", "dispatch": { "subagent": "s" } });
    let mut stage = part.clone();
    stage["id"] = "one".into();
    items.push(json!({ "id": "p", "pattern": "pipeline", "after": ["t0"], "stages": [stage], "gate": part, "fix": part }));
    let over = json!({ "item": "t1", "output": "out.json", "most": 4 });
    items.push(json!({ "id": "m", "pattern": "map-reduce", "after": ["t1"], "over": over, "map": part, "reduce": part }));
    items.push(
        json!({ "id": "q", "pattern": "quorum", "after": [], "threshold": 1, "reviewers": [part, part] }),
    );
    let mut document = plan(&items);
    document["concurrency"] = (1 + chance.below(4)).into();
    document
}

#[test]
fn orc_05_a_crash_at_any_point_loses_and_doubles_nothing() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: scaled(4_000, 200),
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let died = std::cell::Cell::new(0_u32);
    runner
        .run(&any::<u64>(), |seed| {
            let mut chance = Chance::new(seed);
            let mut theatre = Theatre { disk: Disk::default(), at: 0, chance: chance.clone(), deaths: 6 };
            let mut shared = Shared::new();
            for number in 1..=2 {
                let writes = if chance.one_in(2) { Writes::All } else { Writes::Ask };
                let submission =
                    Submission { id: run_id(number), by: ana(), at: 0, writes, four_eyes: false };
                let (run, step) = Run::begin(pinned(&document(&mut chance)), submission, &mut shared);
                theatre.keep(&run, &step);
                // The daemon dies here: nothing that was decided was done.
            }
            let mut lives = 1;
            while theatre.live().is_err() {
                lives += 1;
            }
            died.set(died.get() + lives - 1);
            for (id, (head, rows)) in &theatre.disk.records {
                prop_assert!(head.ended.is_some(), "{id} is lost");
                prop_assert!(matches!(
                    head.ended.unwrap().0,
                    Outcome::Done | Outcome::Failed | Outcome::Denied | Outcome::Cancelled
                ));
                for row in rows {
                    let Some(task) = row.definition.task() else { continue };
                    let key = (id.clone(), row.definition.id.clone());
                    let begun = theatre.disk.begun.get(&key).cloned().unwrap_or_default();
                    let distinct: BTreeSet<&DispatchId> = begun.iter().collect();
                    prop_assert_eq!(distinct.len(), begun.len(), "an id was begun twice");
                    // Turns after an answer are one attempt.
                    let attempts: BTreeSet<u32> = (1..=10)
                        .filter(|attempt| {
                            (0..=8).any(|turn| {
                                begun.contains(&DispatchId::of(id, &row.definition.id, *attempt, turn))
                            })
                        })
                        .collect();
                    let is_safe = task.effect != plans::Effect::Write || task.idempotency_key.is_some();
                    let may = if is_safe || theatre.disk.again.contains(&key) { task.attempts } else { 1 };
                    prop_assert!(attempts.len() <= may as usize, "{} began {attempts:?}", row.definition.id);
                    prop_assert_eq!(
                        row.progress.state == State::Done && begun.is_empty(),
                        row.progress.is_recalled
                    );
                }
            }
            Ok(())
        })
        .unwrap();
    assert!(died.get() >= scaled(200, 200), "{}", died.get());
}
