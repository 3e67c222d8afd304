//! What a start is bound to: the products that it uses, the hash of its input, and whether a person agreed to it.

use sha2::{Digest, Sha256};

use super::event::{Decision, Input, Question};
use super::row::{Cause, State, Waits, Why};
use super::{Now, Run};
use crate::document::{Effect, Product, Task};
use crate::name::{Hash, ItemId};
use crate::plan::{Group, Kind};
use crate::request::Request;

impl Run {
    /// The products that a task uses, or which one is not there.
    pub(super) fn inputs(&self, task: &Task) -> Result<Vec<Input>, Why> {
        task.needs.iter().map(|need| self.product(&need.item, &need.product, &need.key)).collect()
    }

    /// A product of an item, or of the part that stands for a group.
    pub(super) fn product(&self, item: &ItemId, product: &Product, key: &str) -> Result<Input, Why> {
        let row = self.standing_for(item).and_then(|item| self.item(&item));
        let done = row.filter(|row| row.progress.state == State::Done);
        let found = done.and_then(|row| Some((row, row.progress.products.get(product)?)));
        let Some((row, hash)) = found else {
            let detail = match product {
                Product::Patch => format!("`{item}` left no patch"),
                Product::Output(path) => format!("`{item}` left no output `{path}`"),
            };
            return Err(Why { cause: Cause::Dangling, detail, by: None });
        };
        let dispatch = row.progress.dispatch.filter(|_| !row.progress.is_recalled);
        let item = row.definition.id.clone();
        Ok(Input { key: key.to_owned(), item, dispatch, product: product.clone(), hash })
    }

    /// The item whose products are meant: the fix of a pipeline that has one, else its last stage; of a map the end.
    fn standing_for(&self, item: &ItemId) -> Option<ItemId> {
        let row = self.item(item)?;
        Some(match &row.definition.kind {
            Kind::Task(_) => item.clone(),
            Kind::Group(Group::Pipeline { last, .. }) => {
                let fix = ItemId::member(item, "fix");
                if self.item(&fix).is_some() { fix } else { last.clone() }
            }
            Kind::Group(Group::MapReduce { .. }) => ItemId::member(item, "reduce"),
            Kind::Group(Group::Quorum { .. }) => return None,
        })
    }

    /// What a person has to agree to before this task starts; none if nobody has to.
    fn asks_for(&self, place: usize, inputs: &[Input]) -> Option<Hash> {
        let row = self.rows.get(place)?;
        let task = row.definition.task()?;
        match &task.approval {
            Some(approval) => {
                let of = approval.of.as_ref().and_then(|key| inputs.iter().find(|input| input.key == *key));
                Some(of.map_or_else(|| whole(task, inputs), |input| input.hash))
            }
            None if task.effect == Effect::Write && !self.head.writes.cover(&row.definition) => {
                Some(whole(task, inputs))
            }
            None => None,
        }
    }

    /// Whether a person agreed to what is there now, where one has to; otherwise one is asked.
    pub(super) fn passes_gate(&mut self, now: &mut Now<'_>, place: usize, inputs: &[Input]) -> bool {
        let Some(hash) = self.asks_for(place, inputs) else { return true };
        let Some(row) = self.rows.get(place) else { return false };
        if row.progress.approved.as_ref().is_some_and(|approved| approved.hash == hash) {
            return true;
        }
        let is_asked =
            matches!(&row.progress.waits, Some(Waits::Approval { hash: asked, .. }) if *asked == hash);
        if is_asked {
            return false;
        }
        let item = row.definition.id.clone();
        let approval = row.definition.task().and_then(|task| task.approval.as_ref());
        let within = approval.and_then(|approval| approval.within_seconds);
        let until = within.map(|seconds| now.in_seconds(seconds));
        if let Some(progress) = self.progress(now, place) {
            progress.waits = Some(Waits::Approval { hash, until });
            progress.approved = None;
        }
        now.decide(Decision::Ask { item, question: Question::Approval(hash) });
        false
    }

    /// Whether what would be started now is what a person agreed to, where one has to.
    pub(super) fn is_agreed(&self, place: usize) -> bool {
        let Some(row) = self.rows.get(place) else { return false };
        let Some(Ok(inputs)) = row.definition.task().map(|task| self.inputs(task)) else { return false };
        let asked = self.asks_for(place, &inputs);
        asked.is_none() || asked == row.progress.approved.as_ref().map(|approved| approved.hash)
    }

    /// Takes back that an item is to start, since what it uses is not what was agreed to: it waits for approval again. What was
    /// begun and only goes on cannot be begun anew without anybody's word, and fails.
    pub(super) fn take_back(&mut self, now: &mut Now<'_>, place: usize) {
        let Some(row) = self.rows.get(place) else { return };
        if row.progress.turn > 0 {
            let detail = "what was agreed to is another one by now".to_owned();
            let why = Why { cause: Cause::IntegrityFailed, detail, by: None };
            return self.end(now, place, State::Failed, Some(why));
        }
        self.release(now, place);
        if let Some(progress) = self.progress(now, place) {
            progress.state = State::Pending;
            progress.waits = None;
            progress.deadline = None;
        }
        now.look.insert(place);
    }

    /// Whether somebody is the one who wanted this item, or made what it asks agreement for.
    pub(super) fn is_own(&self, place: usize, who: &str) -> bool {
        let Some(row) = self.rows.get(place) else { return true };
        let task = row.definition.task();
        let of = task.and_then(|task| task.approval.as_ref()).and_then(|approval| approval.of.as_ref());
        let need = of.and_then(|key| task?.needs.iter().find(|need| need.key == *key));
        let maker = need.and_then(|need| self.item(&need.item)).map(|row| row.added_by.id.as_str());
        self.head.submitted_by.id == who || row.added_by.id == who || maker == Some(who)
    }

    /// Whether an approval has to be somebody else's.
    pub(super) fn needs_four_eyes(&self, place: usize) -> bool {
        let task = self.rows.get(place).and_then(|row| row.definition.task());
        let approval = task.and_then(|task| task.approval.as_ref());
        self.head.four_eyes || approval.is_some_and(|approval| approval.four_eyes)
    }
}

/// The hash of everything that a task does and uses: what a person agrees to.
fn whole(task: &Task, inputs: &[Input]) -> Hash {
    hashed("palisade/plan/effect/1", &task.request, inputs)
}

/// The hash of everything that what a task leaves depends on: under it the products of pure tasks are known.
pub(super) fn key(task: &Task, inputs: &[Input]) -> Hash {
    let mut request = task.request.clone();
    request.callback = None;
    request.notifications = Vec::new();
    request.retention_days = None;
    request.timeout_seconds = None;
    request.default_dispatch_timeout_seconds = None;
    request.pipeline_ref = None;
    hashed("palisade/plan/input/1", &request, inputs)
}

fn hashed(purpose: &str, request: &Request, inputs: &[Input]) -> Hash {
    // A request has no value that cannot be written.
    let request = serde_json::to_value(request).unwrap_or_default();
    let mut hasher = Sha256::new();
    digest(&request, &mut hasher);
    let mut parts: Vec<Vec<u8>> = vec![hasher.finalize().to_vec()];
    let mut inputs: Vec<&Input> = inputs.iter().collect();
    inputs.sort_by(|one, other| one.key.cmp(&other.key));
    for input in inputs {
        parts.push(input.key.clone().into_bytes());
        parts.push(input.hash.to_string().into_bytes());
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Hash::of(purpose, &parts)
}

/// Writes a value so that the order of its keys does not matter and no two values are written alike.
fn digest(value: &serde_json::Value, hasher: &mut Sha256) {
    use serde_json::Value;
    let mut word = |tag: u8, text: &str| {
        hasher.update([tag]);
        hasher.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(text.as_bytes());
    };
    match value {
        Value::Null => word(b'n', ""),
        Value::Bool(is) => word(b'b', if *is { "1" } else { "0" }),
        Value::Number(number) => word(b'i', &number.to_string()),
        Value::String(text) => word(b's', text),
        Value::Array(all) => {
            word(b'[', &all.len().to_string());
            all.iter().for_each(|one| digest(one, hasher));
        }
        Value::Object(all) => {
            word(b'{', &all.len().to_string());
            let mut fields: Vec<(&String, &Value)> = all.iter().collect();
            fields.sort_by(|one, other| one.0.cmp(other.0));
            for (key, one) in fields {
                digest(&Value::String(key.clone()), hasher);
                digest(one, hasher);
            }
        }
    }
}
