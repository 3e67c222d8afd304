//! A checked plan: what was written, with every pattern laid out as items that wait for each other.
//!
//! Flow: bytes -> [`Plan::read`] (every fault at once) -> [`Plan::pinned`] (every name resolved, once) -> [`crate::Run::begin`].
//!
//! Invariant: the same document always gives the same items, with the same ids, in the same order.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::check::{self, Known};
use crate::document::{Document, Edge, Item, On, Over, Task, Work};
use crate::fault::{Faults, What};
use crate::graph;
use crate::name::{Hash, ItemId, QueueName};
use crate::read::Reader;
use crate::request::{Ref, Request};
use crate::tree::{Format, Tree};

/// One item of a run: a task, or a group whose end its parts decide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Its name.
    pub id: ItemId,
    /// What it waits for.
    pub after: Vec<Edge>,
    /// The group that it is a part of.
    pub group: Option<ItemId>,
    /// What it is.
    pub kind: Kind,
}

/// What an item is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One dispatch.
    Task(Box<Task>),
    /// The parts of a pattern.
    Group(Group),
}

/// What decides how a group ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Stages, one after the other, then a gate; if that rejects, one fix and the gate once more.
    Pipeline {
        /// The last stage.
        last: ItemId,
        /// Who judges.
        gate: Box<Task>,
        /// Who mends.
        fix: Box<Task>,
    },
    /// One task for each element, then one that brings the products together.
    MapReduce {
        /// The elements.
        over: Over,
        /// What is done with each.
        map: Box<Task>,
    },
    /// Reviewers, of whom so many must approve. There is one round.
    Quorum {
        /// How many.
        threshold: u32,
        /// Of how many.
        reviewers: u32,
    },
}

/// A plan without faults.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub(crate) name: Option<String>,
    pub(crate) open: bool,
    pub(crate) concurrency: u32,
    pub(crate) queues: BTreeMap<QueueName, u32>,
    pub(crate) definitions: Vec<Definition>,
    pub(crate) count: usize,
}

/// A plan whose names are resolved: they mean the same for as long as its run lasts.
#[derive(Clone, Debug, PartialEq)]
pub struct Pinned {
    pub(crate) plan: Plan,
    pub(crate) pins: Pins,
}

/// What a name stands for in a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Noun {
    /// Who does it.
    Subagent,
    /// What it can do.
    Capability,
    /// What surrounds it.
    Env,
    /// Where it runs.
    Target,
}

/// What names were resolved to, for one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(Noun, String, Hash)>", into = "Vec<(Noun, String, Hash)>")]
pub struct Pins(BTreeMap<(Noun, String), Hash>);

impl From<Vec<(Noun, String, Hash)>> for Pins {
    fn from(all: Vec<(Noun, String, Hash)>) -> Self {
        Self(all.into_iter().map(|(noun, name, hash)| ((noun, name), hash)).collect())
    }
}

impl From<Pins> for Vec<(Noun, String, Hash)> {
    fn from(pins: Pins) -> Self {
        pins.0.into_iter().map(|((noun, name), hash)| (noun, name, hash)).collect()
    }
}

impl Pins {
    /// What a name was resolved to.
    #[must_use]
    pub fn get(&self, noun: Noun, name: &str) -> Option<Hash> {
        self.0.get(&(noun, name.to_owned())).copied()
    }

    /// Each name and what it was resolved to.
    pub fn iter(&self) -> impl Iterator<Item = (Noun, &str, Hash)> {
        self.0.iter().map(|((noun, name), hash)| (*noun, name.as_str(), *hash))
    }
}

/// How large a plan is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outline {
    /// Items as they stand.
    pub items: usize,
    /// Items with those that patterns may add.
    pub most_items: usize,
    /// Edges.
    pub edges: usize,
    /// How many items in a row wait for each other.
    pub layers: usize,
    /// How many stand in the widest layer.
    pub widest: usize,
    /// Locks.
    pub locks: BTreeSet<String>,
    /// Queues, and how many of each may be at work at the same time in one run, where that is said.
    pub queues: BTreeMap<String, Option<u32>>,
}

impl Plan {
    /// The plan in these bytes.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(bytes: &[u8], format: Format) -> Result<Self, Faults> {
        Self::read_beside(bytes, format, None)
    }

    /// An extension of a run that has these items already, and room for what is left.
    pub(crate) fn read_beside(
        bytes: &[u8],
        format: Format,
        beside: Option<(&Known, usize)>,
    ) -> Result<Self, Faults> {
        let tree = Tree::read(bytes, format)?;
        let mut reader = Reader::default();
        let document = Document::read(&mut reader, &tree, beside.is_some());
        let nothing = Known::new();
        let (known, taken) = beside.unwrap_or((&nothing, 0));
        check::check(&mut reader, &document, known, taken);
        let count = check::count(&document);
        let Document { name, open, concurrency, queues, items } = document;
        let definitions = items.into_iter().flat_map(laid_out).collect();
        reader.faults.or(Self { name, open, concurrency, queues, definitions, count })
    }

    /// The items, each after the group that it belongs to.
    pub fn items(&self) -> impl Iterator<Item = &Definition> {
        self.definitions.iter()
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether its run can be extended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// How many of its items may be at work at the same time.
    #[must_use]
    pub fn concurrency(&self) -> u32 {
        self.concurrency
    }

    /// In which layer each item stands, in the order of [`Self::items`].
    #[must_use]
    pub fn layers(&self) -> Vec<usize> {
        graph::layers(&self.edges())
    }

    /// What each item waits for, by number.
    fn edges(&self) -> Vec<Vec<usize>> {
        let index: HashMap<&ItemId, usize> =
            self.definitions.iter().enumerate().map(|(number, item)| (&item.id, number)).collect();
        let mut edges: Vec<Vec<usize>> = self
            .definitions
            .iter()
            .map(|item| item.after.iter().filter_map(|edge| index.get(&edge.item).copied()).collect())
            .collect();
        // A group ends after its parts.
        for (number, item) in self.definitions.iter().enumerate() {
            let group = item.group.as_ref().and_then(|group| index.get(group)).copied();
            if let Some(edges) = group.and_then(|group| edges.get_mut(group)) {
                edges.push(number);
            }
        }
        edges
    }

    /// How large it is.
    #[must_use]
    pub fn outline(&self) -> Outline {
        let layers = self.layers();
        let mut wide: BTreeMap<usize, usize> = BTreeMap::new();
        layers.iter().for_each(|layer| *wide.entry(*layer).or_default() += 1);
        let tasks = self.definitions.iter().flat_map(Definition::tasks);
        let (mut locks, mut queues) = (BTreeSet::new(), BTreeMap::new());
        for task in tasks {
            locks.extend(task.locks.iter().map(ToString::to_string));
            queues.insert(task.queue.to_string(), self.queues.get(&task.queue).copied());
        }
        Outline {
            items: self.definitions.len(),
            most_items: self.count,
            edges: self.definitions.iter().map(|item| item.after.len()).sum(),
            layers: wide.len(),
            widest: wide.values().max().copied().unwrap_or_default(),
            locks,
            queues,
        }
    }

    /// The same with every name resolved. Each is asked for once, however often it stands in the plan; what `pins` has is not
    /// asked for again.
    ///
    /// # Errors
    /// Every name that `resolve` refuses, with its words.
    pub fn pinned(
        mut self,
        mut pins: Pins,
        mut resolve: impl FnMut(Noun, &Ref) -> Result<Hash, String>,
    ) -> Result<Pinned, Faults> {
        let mut faults = Faults::default();
        let mut refused: BTreeMap<(Noun, Ref), String> = BTreeMap::new();
        let mut asked: BTreeMap<(Noun, Ref), Hash> = BTreeMap::new();
        let mut pin = |noun: Noun, one: &mut Ref, at: String| {
            if one.content_hash.is_none() {
                one.content_hash = pins.get(noun, &one.name);
                if one.content_hash.is_some() {
                    return;
                }
            }
            let question = (noun, one.clone());
            if !asked.contains_key(&question) && !refused.contains_key(&question) {
                match resolve(noun, one) {
                    Ok(hash) => drop(asked.insert(question.clone(), hash)),
                    Err(why) => drop(refused.insert(question.clone(), why)),
                }
            }
            match (asked.get(&question), one.content_hash) {
                (Some(hash), Some(pinned)) if *hash != pinned => {
                    faults.add(
                        at,
                        What::Unresolved(format!("`{}` is another version than `{pinned}`", one.name)),
                    );
                }
                (Some(_), Some(_)) => {}
                (Some(hash), None) => {
                    pins.0.insert((noun, one.name.clone()), *hash);
                    one.content_hash = Some(*hash);
                }
                (None, _) => {
                    let why = refused.get(&question).cloned().unwrap_or_default();
                    faults.add(at, What::Unresolved(why));
                }
            }
        };
        for task in self.definitions.iter_mut().flat_map(Definition::tasks_mut) {
            let at = task.at.0.clone();
            task.request.each_name(|noun, one, key| pin(noun, one, format!("{at}/dispatch/{key}")));
        }
        faults.or(Pinned { plan: self, pins })
    }
}

impl Pinned {
    /// What the names were resolved to.
    #[must_use]
    pub fn pins(&self) -> &Pins {
        &self.pins
    }
}

impl Request {
    fn each_name(&mut self, mut take: impl FnMut(Noun, &mut Ref, String)) {
        take(Noun::Subagent, &mut self.subagent, "subagent".into());
        if let Some(target) = &self.target {
            let mut target = Ref { name: target.clone(), content_hash: None };
            take(Noun::Target, &mut target, "target".into());
        }
        let capabilities = self.capabilities.iter_mut().flatten();
        for (noun, key, list) in [
            (Noun::Env, "env", self.env.iter_mut().collect::<Vec<_>>()),
            (Noun::Capability, "capabilities", capabilities.collect()),
            (Noun::Capability, "addCapabilities", self.add_capabilities.iter_mut().collect()),
        ] {
            list.into_iter().enumerate().for_each(|(number, one)| take(noun, one, format!("{key}/{number}")));
        }
    }
}

impl Definition {
    /// The task, if it is one.
    #[must_use]
    pub fn task(&self) -> Option<&Task> {
        match &self.kind {
            Kind::Task(task) => Some(task),
            Kind::Group(_) => None,
        }
    }

    /// Every task in it, also those that do not stand for themselves yet.
    fn tasks(&self) -> Vec<&Task> {
        match &self.kind {
            Kind::Task(task) => vec![task],
            Kind::Group(Group::Pipeline { gate, fix, .. }) => vec![gate, fix],
            Kind::Group(Group::MapReduce { map, .. }) => vec![map],
            Kind::Group(Group::Quorum { .. }) => Vec::new(),
        }
    }

    fn tasks_mut(&mut self) -> Vec<&mut Task> {
        match &mut self.kind {
            Kind::Task(task) => vec![task],
            Kind::Group(Group::Pipeline { gate, fix, .. }) => vec![gate, fix],
            Kind::Group(Group::MapReduce { map, .. }) => vec![map],
            Kind::Group(Group::Quorum { .. }) => Vec::new(),
        }
    }

    /// How many items this may still add.
    pub(crate) fn may_add(&self) -> usize {
        match &self.kind {
            Kind::Task(_)
            | Kind::Group(Group::Quorum { .. } | Group::MapReduce { over: Over::These(_), .. }) => 0,
            Kind::Group(Group::Pipeline { .. }) => 2,
            Kind::Group(Group::MapReduce { over: Over::Output { most, .. }, .. }) => {
                usize::try_from(*most).unwrap_or(usize::MAX)
            }
        }
    }

    /// Whether others can use what it leaves.
    pub(crate) fn leaves_a_product(&self) -> bool {
        !matches!(self.kind, Kind::Group(Group::Quorum { .. }))
    }
}

/// The items that one item of a document stands for.
fn laid_out(item: Item) -> Vec<Definition> {
    let Item { id, after, work, .. } = item;
    let after: Vec<Edge> = after.into_iter().map(|(_, edge)| edge).collect();
    let group =
        |kind| Definition { id: id.clone(), after: after.clone(), group: None, kind: Kind::Group(kind) };
    let part = |name: &str, after: Vec<Edge>, task| part(&id, name, after, task);
    match work {
        None => Vec::new(),
        Some(Work::One(task)) => {
            vec![Definition { id, after, group: None, kind: Kind::Task(Box::new(task)) }]
        }
        Some(Work::Pipeline { stages, gate, fix }) => {
            let Some((last, _)) = stages.last() else { return Vec::new() };
            let last = ItemId::member(&id, last);
            let pipeline = Group::Pipeline { last, gate: Box::new(gate.clone()), fix: Box::new(fix) };
            let mut all = vec![group(pipeline)];
            let mut before = after.clone();
            for (name, task) in stages {
                let stage = part(&name, before, task);
                before = vec![done(&stage.id)];
                all.push(stage);
            }
            all.push(part("gate", before, gate));
            all
        }
        Some(Work::MapReduce { over, map, mut reduce }) => {
            let mut parts = Vec::new();
            if let Over::These(elements) = &over {
                for (number, element) in elements.iter().enumerate() {
                    parts.push(part(&mapper(number), after.clone(), with_element(&map, number, element)));
                }
                use_all(&mut reduce, &id, elements.len());
            }
            let waits = if parts.is_empty() {
                after.clone()
            } else {
                parts.iter().map(|one| done(&one.id)).collect()
            };
            let mut all = vec![group(Group::MapReduce { over, map: Box::new(map) })];
            all.append(&mut parts);
            all.push(part("reduce", waits, reduce));
            all
        }
        Some(Work::Quorum { threshold, reviewers }) => {
            let count = u32::try_from(reviewers.len()).unwrap_or(u32::MAX);
            let mut all = vec![group(Group::Quorum { threshold, reviewers: count })];
            let parts = reviewers.into_iter().enumerate();
            all.extend(parts.map(|(n, task)| part(&format!("reviewer-{:02}", n + 1), after.clone(), task)));
            all
        }
    }
}

pub(crate) fn part(group: &ItemId, name: &str, after: Vec<Edge>, task: Task) -> Definition {
    let kind = Kind::Task(Box::new(task));
    Definition { id: ItemId::member(group, name), after, group: Some(group.clone()), kind }
}

pub(crate) fn done(item: &ItemId) -> Edge {
    Edge { item: item.clone(), on: On::Done }
}

/// What the task for an element is called.
pub(crate) fn mapper(number: usize) -> String {
    format!("map-{number:04}")
}

/// The task for one element: it is told which, and what it would have been told anyway.
pub(crate) fn with_element(map: &Task, number: usize, element: &serde_json::Value) -> Task {
    let own = map.request.input.clone();
    let input = serde_json::json!({ "element": element, "index": number, "input": own });
    let mut task = map.clone();
    task.request.input = Some(input);
    task
}

/// Lets a need of all elements' products be one of each.
pub(crate) fn use_all(reduce: &mut Task, group: &ItemId, count: usize) {
    let all = ItemId::member(group, "map");
    let mut needs = Vec::new();
    for need in std::mem::take(&mut reduce.needs) {
        if need.item != all {
            needs.push(need);
            continue;
        }
        for number in 0..count {
            let mut one = need.clone();
            one.item = ItemId::member(group, &mapper(number));
            one.key = format!("{}.{number:04}", need.key);
            needs.push(one);
        }
    }
    reduce.needs = needs;
}
