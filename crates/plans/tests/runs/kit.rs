//! A small world for runs: it does what is decided, and chance says how that ends.

use std::collections::{BTreeMap, BTreeSet};

use plans::{
    Actor, Decision, DispatchId, Ended, Event, Format, Hash, Head, ItemId, Millis, Outcome, Pins, Plan,
    Products, Refused, Row, Run, RunId, Shared, Start, State, Step, Submission, Verdict, Writes,
};
use serde_json::{Value, json};

/// A count, scaled by `PALISADE_SCALE` (a twentieth unless told), at least `least`.
pub(crate) fn scaled(full: u32, least: u32) -> u32 {
    let scale =
        std::env::var("PALISADE_SCALE").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.05);
    ((f64::from(full) * scale) as u32).max(least)
}

/// Numbers by chance, the same for the same seed.
#[derive(Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most.max(1)
    }

    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

pub(crate) fn id(text: &str) -> ItemId {
    text.parse().unwrap()
}

pub(crate) fn hash(text: &str) -> Hash {
    Hash::of("test", &[text.as_bytes()])
}

pub(crate) fn run_id(number: u8) -> RunId {
    RunId::of([number; 16])
}

pub(crate) fn ana() -> Actor {
    Actor::person("ana")
}

pub(crate) fn bo() -> Actor {
    Actor::person("bo")
}

/// An item that reads.
pub(crate) fn task(id: &str, after: &[&str]) -> Value {
    json!({ "id": id, "after": after, "effect": "read", "dispatch": { "subagent": "worker" } })
}

/// The same with more keys.
pub(crate) fn task_with(id: &str, after: &[&str], more: Value) -> Value {
    let mut item = task(id, after);
    for (key, value) in more.as_object().unwrap() {
        item[key] = value.clone();
    }
    item
}

pub(crate) fn plan(items: &[Value]) -> Value {
    json!({ "version": 1, "items": items })
}

pub(crate) fn pinned(document: &Value) -> plans::Pinned {
    let plan =
        Plan::read(document.to_string().as_bytes(), Format::Json).unwrap_or_else(|faults| panic!("{faults}"));
    plan.pinned(Pins::default(), |_, name| Ok(name.content_hash.unwrap_or_else(|| hash(&name.name)))).unwrap()
}

/// One run alone, with every rule that lets it write.
pub(crate) struct Alone {
    pub(crate) run: Run,
    pub(crate) shared: Shared,
    pub(crate) at: Millis,
    pub(crate) last: Step,
}

impl Alone {
    pub(crate) fn begin(document: &Value) -> Self {
        Self::begin_with(document, Writes::All)
    }

    pub(crate) fn begin_with(document: &Value, writes: Writes) -> Self {
        let mut shared = Shared::new();
        let submission = Submission { id: run_id(1), by: ana(), at: 1_000, writes, four_eyes: false };
        let (run, last) = Run::begin(pinned(document), submission, &mut shared);
        Self { run, shared, at: 1_000, last }
    }

    pub(crate) fn tell(&mut self, event: Event) -> Result<&Step, Refused> {
        self.last = self.run.handle(self.at, event, &mut self.shared)?;
        Ok(&self.last)
    }

    pub(crate) fn after(&mut self, seconds: i64) -> &Step {
        self.at += seconds * 1_000;
        self.tell(Event::Tick).unwrap()
    }

    pub(crate) fn state(&self, item: &str) -> State {
        self.run.item(&id(item)).unwrap().progress.state
    }

    pub(crate) fn dispatch(&self, item: &str) -> DispatchId {
        self.run.item(&id(item)).unwrap().progress.dispatch.unwrap()
    }

    pub(crate) fn started(&mut self, item: &str) {
        let event = Event::Started { item: id(item), dispatch: self.dispatch(item) };
        self.tell(event).unwrap();
    }

    /// A policy says no to what was to be started and was not.
    pub(crate) fn denied(&mut self, item: &str, why: &str) -> &Step {
        let (item, dispatch) = (id(item), self.dispatch(item));
        self.tell(Event::Denied { item: item.clone(), why: why.to_owned() }).unwrap();
        assert_eq!(self.last.decisions, [Decision::Stop { item: item.clone(), dispatch }]);
        self.tell(Event::NeverStarted { item, dispatch }).unwrap()
    }

    pub(crate) fn ended(&mut self, item: &str, ended: Ended) -> &Step {
        let event = Event::Ended { item: id(item), dispatch: self.dispatch(item), ended };
        self.tell(event).unwrap()
    }

    pub(crate) fn done(&mut self, item: &str) -> &Step {
        self.ended(item, done(item))
    }

    pub(crate) fn judged(&mut self, item: &str, verdict: Verdict) -> &Step {
        self.ended(item, Ended::Done { products: Products::default(), verdict: Some(verdict) })
    }

    pub(crate) fn failed(&mut self, item: &str, cause: plans::Cause) -> &Step {
        self.ended(item, Ended::Failed { cause, detail: String::new() })
    }

    /// What the last step starts.
    pub(crate) fn starts(&self) -> Vec<String> {
        starts(&self.last)
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.run.head().ended.map(|(outcome, _)| outcome)
    }

    /// The same run from what is kept of it.
    pub(crate) fn restarted(&mut self) -> &Step {
        let (head, rows) = kept(&self.run);
        self.shared = Shared::new();
        self.run = Run::restore(head, rows, &mut self.shared).unwrap();
        self.last = self.run.resume(self.at, &mut self.shared);
        &self.last
    }
}

/// The records of a run, once through their text.
pub(crate) fn kept(run: &Run) -> (Head, Vec<Row>) {
    let head = serde_json::from_str(&serde_json::to_string(run.head()).unwrap()).unwrap();
    let rows =
        run.rows().iter().map(|row| serde_json::from_str(&serde_json::to_string(row).unwrap()).unwrap());
    (head, rows.collect())
}

pub(crate) fn starts(step: &Step) -> Vec<String> {
    let starts = step.decisions.iter().filter_map(|decision| match decision {
        Decision::Start(start) => Some(start.item.to_string()),
        _ => None,
    });
    starts.collect()
}

/// Done, with a patch and an output of its own.
pub(crate) fn done(item: &str) -> Ended {
    let outputs = BTreeMap::from([("out.json".to_owned(), hash(&format!("out of {item}")))]);
    Ended::Done {
        products: Products { patch: Some(hash(&format!("patch of {item}"))), outputs },
        verdict: None,
    }
}

/// Many runs that share locks and queues.
pub(crate) struct World {
    pub(crate) shared: Shared,
    pub(crate) runs: BTreeMap<RunId, Run>,
    pub(crate) at: Millis,
    pub(crate) chance: Chance,
    /// Starts that were decided, in order.
    pub(crate) starts: Vec<(RunId, Start)>,
    /// What is at work.
    pub(crate) at_work: BTreeSet<(RunId, ItemId, DispatchId)>,
    pub(crate) woken: BTreeSet<RunId>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            shared: Shared::new(),
            runs: BTreeMap::new(),
            at: 0,
            chance: Chance::new(seed),
            starts: Vec::new(),
            at_work: BTreeSet::new(),
            woken: BTreeSet::new(),
        }
    }

    pub(crate) fn submit(&mut self, number: u8, document: &Value) {
        let submission =
            Submission { id: run_id(number), by: ana(), at: self.at, writes: Writes::All, four_eyes: false };
        let (run, step) = Run::begin(pinned(document), submission, &mut self.shared);
        let id = run.head().id.clone();
        self.runs.insert(id.clone(), run);
        self.take(&id, step);
    }

    pub(crate) fn tell(&mut self, run: &RunId, event: Event) {
        let one = self.runs.get_mut(run).unwrap();
        let is_tick = event == Event::Tick;
        let step = one.handle(self.at, event, &mut self.shared).unwrap();
        let next = one.next_wake().filter(|_| is_tick);
        assert!(
            next.is_none_or(|next| next > self.at),
            "the same moment would be waited for again and again"
        );
        self.take(run, step);
    }

    pub(crate) fn take(&mut self, run: &RunId, step: Step) {
        self.woken.extend(step.wake);
        for decision in step.decisions {
            match decision {
                Decision::Start(start) => {
                    self.at_work.insert((run.clone(), start.item.clone(), start.dispatch));
                    self.starts.push((run.clone(), *start));
                }
                Decision::Stop { .. }
                | Decision::Check { .. }
                | Decision::Recall { .. }
                | Decision::Fetch { .. }
                | Decision::Ask { .. }
                | Decision::Over(_) => {}
            }
        }
    }

    /// Lets one thing happen: something at work ends, somebody is woken, or time passes. Whether anything is left to happen.
    pub(crate) fn happen(&mut self, end: impl FnOnce(&mut Chance) -> Ended) -> bool {
        if let Some(run) = self.woken.pop_first() {
            self.tell(&run, Event::Tick);
            return true;
        }
        if self.at_work.is_empty() {
            let Some(next) = self.runs.values().filter_map(Run::next_wake).min() else { return false };
            self.at = self.at.max(next);
            self.woken = self.runs.keys().cloned().collect();
            return true;
        }
        let place = self.chance.below(self.at_work.len() as u64) as usize;
        let one = self.at_work.iter().nth(place).unwrap().clone();
        self.at_work.remove(&one);
        let (run, item, dispatch) = one;
        let ended = end(&mut self.chance);
        self.tell(&run, Event::Started { item: item.clone(), dispatch });
        self.tell(&run, Event::Ended { item, dispatch, ended });
        true
    }
}
