//! Turns a document into a plan as it was written: its items, what each waits for and needs, and how each is done.
//!
//! Here every value is read and checked by itself; what items say about each other is checked in `check`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fault::What;
use crate::name::{ID, ItemId, LockName, QueueName, is_id};
use crate::read::{At, Reader, Table, cut};
use crate::request::{MOST_DEADLINE_SECONDS, Request, is_key};
use crate::tree::Tree;

/// The most items of a run, with those that its patterns make.
pub const MOST_ITEMS: usize = 1_000;
/// How many items of a run are at work at the same time unless told.
pub const CONCURRENCY: u64 = 8;
/// How many attempts there are in all unless told.
pub const ATTEMPTS: u64 = 2;
/// How many attempts there may be.
pub const MOST_ATTEMPTS: u64 = 10;
const MOST_CONCURRENCY: u64 = 256;
const MOST_QUEUES: usize = 64;
const MOST_LOCKS: usize = 32;
const MOST_NEEDS: usize = 64;
const MOST_PARTS: usize = 64;
/// How many elements there may be in a list that an item makes, unless told.
const ELEMENTS: u64 = 100;

/// What an item does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Nothing, and the same input gives the same product: it is done once.
    Pure,
    /// Nothing, but the product depends on more than the input.
    Read,
    /// Something: it needs an approval or a rule, and is never done twice without a person or a key.
    Write,
}

impl Effect {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "pure" => Self::Pure,
            "read" => Self::Read,
            "write" => Self::Write,
            _ => return None,
        })
    }
}

/// What ending of another item an item waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// That it is done; with any other ending this item is skipped.
    #[default]
    Done,
    /// Any.
    Ended,
}

/// That one item waits for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The other.
    pub item: ItemId,
    /// What it waits for.
    #[serde(default)]
    pub on: On,
}

/// What an item leaves that others can use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Product {
    /// What it changed in the worktree.
    Patch,
    /// A file that it put out.
    Output(String),
}

/// That an item uses a product of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// The other.
    pub item: ItemId,
    /// Which product.
    pub product: Product,
    /// What it is called for whoever uses it.
    pub key: String,
    #[serde(skip)]
    pub(crate) at: Place,
}

/// Where something stands in the document, for what is found out later. It is no part of what stands there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place(pub(crate) String);

impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Place {}

/// That a person has to agree before an item starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The key of the need whose product they agree to; everything that the item does and uses if none.
    pub of: Option<String>,
    /// Whether it has to be somebody else than who wanted it.
    pub four_eyes: bool,
    /// How long they have; nothing is for ever.
    pub within_seconds: Option<u64>,
}

/// One dispatch, and how it is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// What is dispatched.
    pub request: Request,
    /// What it uses of others.
    pub needs: Vec<Need>,
    /// What it must have for itself, in all runs.
    pub locks: Vec<LockName>,
    /// Where it queues.
    pub queue: QueueName,
    /// How often it is tried in all.
    pub attempts: u32,
    /// How long each may take.
    pub deadline_seconds: u64,
    /// What it does to the world; nothing said counts as writing.
    pub effect: Effect,
    /// That doing it twice is doing it once.
    pub idempotency_key: Option<String>,
    /// Whom it waits for.
    pub approval: Option<Approval>,
    /// Whether its verdict counts, and not only that it is done.
    pub judges: bool,
    #[serde(skip)]
    pub(crate) at: Place,
}

/// Where the elements of a map come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// The document.
    These(Vec<serde_json::Value>),
    /// A list, in JSON, that an item puts out.
    Output {
        /// Which item.
        item: ItemId,
        /// Which file.
        path: String,
        /// How many there may be in it.
        most: u32,
    },
}

/// How an item is done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Work {
    One(Task),
    Pipeline { stages: Vec<(String, Task)>, gate: Task, fix: Task },
    MapReduce { over: Over, map: Task, reduce: Task },
    Quorum { threshold: u32, reviewers: Vec<Task> },
}

/// One item, as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) id: ItemId,
    /// With their places in the list.
    pub(crate) after: Vec<(usize, Edge)>,
    /// Nothing where something is wrong with it.
    pub(crate) work: Option<Work>,
    pub(crate) at: String,
}

/// A whole document, as written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Document {
    pub(crate) name: Option<String>,
    pub(crate) open: bool,
    pub(crate) concurrency: u32,
    pub(crate) queues: BTreeMap<QueueName, u32>,
    pub(crate) items: Vec<Item>,
}

const PATH: &str = "a path of an output: relative, without `.` and `..`, at most 512 visible characters";
const NAME: &str = "a name: one line of 1 to 200 characters";
const KEY: &str = "a key: 1 to 64 letters, digits, `.`, `_` or `-`, a letter or digit first";

impl Document {
    pub(crate) fn read(reader: &mut Reader, tree: &Tree, is_extension: bool) -> Self {
        const KEYS: &[&str] = &["version", "name", "open", "concurrency", "queues", "items"];
        const OF_EXTENSIONS: &[&str] = &["version", "items"];
        let at = &At::TOP;
        let Some(table) = reader.table(at, tree, if is_extension { OF_EXTENSIONS } else { KEYS }) else {
            return Self::default();
        };
        if let Some(version) = reader.required(at, table, "version") {
            reader.number(&at.key("version"), version, 1, 1);
        }
        let items = reader.required(at, table, "items").map(|tree| items(reader, &at.key("items"), tree));
        let is_line =
            |text: &str| (1..=200).contains(&text.chars().count()) && !text.contains(char::is_control);
        Self {
            name: table.get("name").and_then(|tree| reader.word(&at.key("name"), tree, NAME, is_line)),
            open: table.get("open").and_then(|tree| reader.is(&at.key("open"), tree)).unwrap_or_default(),
            concurrency: small(table.get("concurrency").map_or(Some(CONCURRENCY), |tree| {
                reader.number(&at.key("concurrency"), tree, 1, MOST_CONCURRENCY)
            })),
            queues: table
                .get("queues")
                .map(|tree| queues(reader, &at.key("queues"), tree))
                .unwrap_or_default(),
            items: items.unwrap_or_default(),
        }
    }
}

/// A number within bounds that fit; nothing was told of.
fn small(number: Option<u64>) -> u32 {
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(1)
}

fn queues(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> BTreeMap<QueueName, u32> {
    let Some(table) = reader.any_table(at, tree) else { return BTreeMap::new() };
    if !reader.count(at, table.keys().count(), 0, MOST_QUEUES) {
        return BTreeMap::new();
    }
    let mut all = BTreeMap::new();
    for name in table.keys() {
        let at = at.key(name);
        let most = table.get(name).and_then(|tree| reader.number(&at, tree, 1, MOST_CONCURRENCY));
        match (QueueName::parse(name), most) {
            (Some(queue), Some(most)) => drop(all.insert(queue, small(Some(most)))),
            (None, _) => reader.fault(&at, What::Word { found: cut(name), expected: QueueName::EXPECTED }),
            (Some(_), None) => {}
        }
    }
    all
}

fn items(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Vec<Item> {
    let Some(all) = reader.list(at, tree, 1, MOST_ITEMS) else { return Vec::new() };
    all.iter().enumerate().filter_map(|(index, tree)| item(reader, &at.index(index), tree)).collect()
}

const TASK: &[&str] = &[
    "dispatch",
    "needs",
    "locks",
    "queue",
    "attempts",
    "deadlineSeconds",
    "effect",
    "idempotencyKey",
    "approval",
];
const STAGE: &[&str] = &[
    "id",
    "dispatch",
    "needs",
    "locks",
    "queue",
    "attempts",
    "deadlineSeconds",
    "effect",
    "idempotencyKey",
    "approval",
];
const STATIC: &[&str] = &[
    "id",
    "after",
    "pattern",
    "dispatch",
    "needs",
    "locks",
    "queue",
    "attempts",
    "deadlineSeconds",
    "effect",
    "idempotencyKey",
    "approval",
];

/// Reads how an item is done, by its pattern.
type ReadWork = fn(&mut Reader, &At<'_>, Table<'_>) -> Option<Work>;

fn item(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Option<Item> {
    let any = reader.any_table(at, tree)?;
    let pattern = match any.get("pattern") {
        None => "static",
        Some(tree) => reader.text(&at.key("pattern"), tree)?,
    };
    let (known, read): (&'static [&'static str], ReadWork) = match pattern {
        "static" => (STATIC, |reader, at, table| Some(Work::One(task(reader, at, table, false)?))),
        "pipeline" => (&["id", "after", "pattern", "stages", "gate", "fix"], pipeline),
        "map-reduce" => (&["id", "after", "pattern", "over", "map", "reduce"], map_reduce),
        "quorum" => (&["id", "after", "pattern", "threshold", "reviewers"], quorum),
        other => {
            reader.fault(&at.key("pattern"), What::Pattern(cut(other)));
            (&[], |_, _, _| None)
        }
    };
    for key in any.keys().filter(|key| !known.is_empty() && !known.contains(key)) {
        reader.fault(&at.key(key), What::UnknownKey { key: cut(key), known });
    }
    let id = reader.required(at, any, "id");
    let id = id.and_then(|tree| {
        reader.parsed(&at.key("id"), tree, ID, |text| ItemId::parse(text).filter(|_| is_id(text)))
    });
    let after = any.get("after").map(|tree| after(reader, &at.key("after"), tree)).unwrap_or_default();
    let work = read(reader, at, any);
    Some(Item { id: id?, after, work, at: at.pointer() })
}

fn after(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Vec<(usize, Edge)> {
    let Some(all) = reader.list(at, tree, 0, MOST_ITEMS) else { return Vec::new() };
    let read = |(index, tree)| Some((index, edge(reader, &at.index(index), tree)?));
    all.iter().enumerate().filter_map(read).collect()
}

fn edge(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Option<Edge> {
    if matches!(tree, Tree::Text(_)) {
        let item = reader.parsed(at, tree, ID, ItemId::parse)?;
        return Some(Edge { item, on: On::Done });
    }
    let table = reader.table(at, tree, &["item", "on"])?;
    let on = match table.get("on") {
        None => Some(On::Done),
        Some(tree) => match reader.text(&at.key("on"), tree) {
            Some("done") => Some(On::Done),
            Some("ended") => Some(On::Ended),
            Some(other) => {
                reader.fault(&at.key("on"), What::EdgeTag(cut(other)));
                None
            }
            None => None,
        },
    };
    let item = reader.required(at, table, "item");
    let item = item.and_then(|tree| reader.parsed(&at.key("item"), tree, ID, ItemId::parse));
    Some(Edge { item: item?, on: on? })
}

/// The task in a table whose keys are known to be right.
fn task(reader: &mut Reader, at: &At<'_>, table: Table<'_>, judges: bool) -> Option<Task> {
    let request = reader.required(at, table, "dispatch");
    let request = request.and_then(|tree| Request::read(reader, &at.key("dispatch"), tree));
    let needs = table.get("needs").map(|tree| needs(reader, &at.key("needs"), tree)).unwrap_or_default();
    let locks = table.get("locks").map(|tree| locks(reader, &at.key("locks"), tree)).unwrap_or_default();
    let queue = table
        .get("queue")
        .and_then(|tree| reader.parsed(&at.key("queue"), tree, QueueName::EXPECTED, QueueName::parse));
    let attempts = table
        .get("attempts")
        .map_or(Some(ATTEMPTS), |tree| reader.number(&at.key("attempts"), tree, 1, MOST_ATTEMPTS));
    let deadline = table
        .get("deadlineSeconds")
        .and_then(|tree| reader.number(&at.key("deadlineSeconds"), tree, 1, MOST_DEADLINE_SECONDS));
    let effect = table.get("effect").and_then(|tree| {
        reader.parsed(&at.key("effect"), tree, "an effect: `pure`, `read` or `write`", Effect::parse)
    });
    let idempotency_key = table
        .get("idempotencyKey")
        .and_then(|tree| reader.word(&at.key("idempotencyKey"), tree, KEY, is_key));
    let approval = table.get("approval").and_then(|tree| approval(reader, &at.key("approval"), tree, &needs));
    let request = request?;
    Some(Task {
        needs,
        locks,
        queue: queue.unwrap_or_default(),
        attempts: small(attempts),
        deadline_seconds: deadline.unwrap_or_else(|| request.seconds()),
        // What is not classed counts as the worst.
        effect: effect.unwrap_or(Effect::Write),
        idempotency_key,
        approval,
        judges,
        at: Place(at.pointer()),
        request,
    })
}

fn needs(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Vec<Need> {
    let Some(all) = reader.list(at, tree, 0, MOST_NEEDS) else { return Vec::new() };
    let mut found: Vec<Need> = Vec::new();
    for (index, tree) in all.iter().enumerate() {
        let at = at.index(index);
        let Some(need) = need(reader, &at, tree) else { continue };
        if found.iter().any(|other| other.key == need.key) {
            reader.fault(&at, What::Twice(need.key));
        } else {
            found.push(need);
        }
    }
    found
}

fn need(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Option<Need> {
    let table = reader.table(at, tree, &["item", "patch", "output", "as"])?;
    let item = reader.required(at, table, "item");
    let item = item.and_then(|tree| reader.parsed(&at.key("item"), tree, ItemId::EXPECTED, ItemId::parse));
    let product = match (table.get("patch"), table.get("output")) {
        (Some(_), Some(_)) => {
            reader.fault(at, What::Together("patch", "output"));
            None
        }
        (None, None) => {
            reader.fault(at, What::Missing("patch` or `output"));
            None
        }
        (Some(tree), None) => match reader.is(&at.key("patch"), tree) {
            Some(true) => Some(Product::Patch),
            Some(false) => {
                reader.fault(at, What::Missing("output"));
                None
            }
            None => None,
        },
        (None, Some(tree)) => reader.word(&at.key("output"), tree, PATH, is_path).map(Product::Output),
    };
    let key = match table.get("as") {
        Some(tree) => reader.word(&at.key("as"), tree, KEY, is_key),
        // The item's own name, or that of the part.
        None => item.as_ref().map(|item| item.as_str().replace('/', ".")),
    };
    Some(Need { item: item?, product: product?, key: key?, at: Place(at.pointer()) })
}

fn is_path(text: &str) -> bool {
    (1..=512).contains(&text.len())
        && !text.contains(char::is_control)
        && !text.contains('\\')
        && text.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

fn locks(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Vec<LockName> {
    let Some(all) = reader.list(at, tree, 0, MOST_LOCKS) else { return Vec::new() };
    let mut found: Vec<LockName> = Vec::new();
    for (index, tree) in all.iter().enumerate() {
        let at = at.index(index);
        match reader.parsed(&at, tree, LockName::EXPECTED, LockName::parse) {
            Some(lock) if found.contains(&lock) => reader.fault(&at, What::Twice(lock.into())),
            Some(lock) => found.push(lock),
            None => {}
        }
    }
    found
}

fn approval(reader: &mut Reader, at: &At<'_>, tree: &Tree, needs: &[Need]) -> Option<Approval> {
    let table = reader.table(at, tree, &["of", "fourEyes", "withinSeconds"])?;
    let of = table.get("of").and_then(|tree| {
        reader.word(&at.key("of"), tree, "the key of one of this item's needs", |text| {
            needs.iter().any(|need| need.key == text)
        })
    });
    let four_eyes = table.get("fourEyes").and_then(|tree| reader.is(&at.key("fourEyes"), tree));
    let within = table.get("withinSeconds");
    let within_seconds =
        within.and_then(|tree| reader.number(&at.key("withinSeconds"), tree, 1, 30 * MOST_DEADLINE_SECONDS));
    Some(Approval { of, four_eyes: four_eyes.unwrap_or_default(), within_seconds })
}

/// A part of a pattern that is one task.
fn part(reader: &mut Reader, at: &At<'_>, tree: &Tree, judges: bool) -> Option<Task> {
    let table = reader.table(at, tree, TASK)?;
    task(reader, at, table, judges)
}

fn required_part(
    reader: &mut Reader,
    at: &At<'_>,
    table: Table<'_>,
    key: &'static str,
    judges: bool,
) -> Option<Task> {
    let tree = reader.required(at, table, key)?;
    part(reader, &at.key(key), tree, judges)
}

fn pipeline(reader: &mut Reader, at: &At<'_>, table: Table<'_>) -> Option<Work> {
    let stages = reader.required(at, table, "stages").map(|tree| stages(reader, &at.key("stages"), tree));
    let gate = required_part(reader, at, table, "gate", true);
    let fix = required_part(reader, at, table, "fix", false);
    Some(Work::Pipeline { stages: stages?, gate: gate?, fix: fix? })
}

/// Names that a pipeline gives its own parts.
pub(crate) const OF_PIPELINES: [&str; 3] = ["gate", "fix", "gate-2"];

fn stages(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Vec<(String, Task)> {
    let Some(all) = reader.list(at, tree, 1, MOST_PARTS) else { return Vec::new() };
    let mut found: Vec<(String, Task)> = Vec::new();
    for (index, tree) in all.iter().enumerate() {
        let at = at.index(index);
        let Some(table) = reader.table(&at, tree, STAGE) else { continue };
        let id = reader.required(&at, table, "id");
        let id = id.and_then(|tree| {
            reader.word(
                &at.key("id"),
                tree,
                "the id of a stage: as that of an item, and not `gate`, `fix` or `gate-2`",
                |text| is_id(text) && !OF_PIPELINES.contains(&text),
            )
        });
        let task = task(reader, &at, table, false);
        let (Some(id), Some(task)) = (id, task) else { continue };
        match found.iter().find(|(other, _)| other.eq_ignore_ascii_case(&id)) {
            Some((_, first)) => {
                let first = first.at.0.clone();
                reader.fault(&at.key("id"), What::DuplicateId { id, first });
            }
            None => found.push((id, task)),
        }
    }
    found
}

fn map_reduce(reader: &mut Reader, at: &At<'_>, table: Table<'_>) -> Option<Work> {
    let over = reader.required(at, table, "over").and_then(|tree| over(reader, &at.key("over"), tree));
    let map = required_part(reader, at, table, "map", false);
    let reduce = required_part(reader, at, table, "reduce", false);
    Some(Work::MapReduce { over: over?, map: map?, reduce: reduce? })
}

fn over(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Option<Over> {
    if matches!(tree, Tree::List(_)) {
        let all = reader.list(at, tree, 1, MOST_ITEMS)?;
        let all = all.iter().enumerate().map(|(index, one)| reader.opaque(&at.index(index), one));
        return Some(Over::These(all.collect()));
    }
    let table = reader.table(at, tree, &["item", "output", "most"])?;
    let item = reader.required(at, table, "item");
    let item = item.and_then(|tree| reader.parsed(&at.key("item"), tree, ID, ItemId::parse));
    let path = reader.required(at, table, "output");
    let path = path.and_then(|tree| reader.word(&at.key("output"), tree, PATH, is_path));
    let most = u64::try_from(MOST_ITEMS).unwrap_or(u64::MAX);
    let most = table.get("most").map_or(Some(ELEMENTS), |tree| reader.number(&at.key("most"), tree, 1, most));
    Some(Over::Output { item: item?, path: path?, most: small(most) })
}

fn quorum(reader: &mut Reader, at: &At<'_>, table: Table<'_>) -> Option<Work> {
    let threshold = reader.required(at, table, "threshold");
    let most = u64::try_from(MOST_PARTS).unwrap_or(u64::MAX);
    let threshold = threshold.and_then(|tree| reader.number(&at.key("threshold"), tree, 1, most));
    let place = at.key("reviewers");
    let all =
        reader.required(at, table, "reviewers").and_then(|tree| reader.list(&place, tree, 1, MOST_PARTS));
    let all = all?;
    let reviewers: Vec<Task> = all
        .iter()
        .enumerate()
        .filter_map(|(index, tree)| part(reader, &place.index(index), tree, true))
        .collect();
    let threshold = threshold?;
    if usize::try_from(threshold).is_ok_and(|threshold| threshold > all.len()) {
        reader.fault(&at.key("threshold"), What::Threshold { threshold, reviewers: all.len() });
    }
    Some(Work::Quorum { threshold: small(Some(threshold)), reviewers })
}
