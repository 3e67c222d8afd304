//! `palisade plan`: a document checked and drawn, without a daemon.
//!
//! Not here: what a plan is (`plans`), and whether what it names exists, which the daemon says when a plan is submitted.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use plans::{Definition, Effect, Format, Group, ItemId, Kind, MOST_BYTES, On, Over, Plan, Product, Task};
use serde_json::{Value, json};

use crate::cli::PlanCommand;
use crate::failure::Failure;
use crate::output::Shown;

/// How deep the tree is drawn; below, the level is told by its number.
const MOST_DEPTH: usize = 24;

pub(super) fn run(command: &PlanCommand) -> Result<Shown, Failure> {
    match command {
        PlanCommand::Validate { file } => Ok(validated(&read(file)?)),
        PlanCommand::Show { file } => Ok(shown(&read(file)?)),
    }
}

fn read(path: &Path) -> Result<Plan, Failure> {
    let most = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    read.map_err(Failure::file(path))?;
    Plan::read(&bytes, format(path, &bytes)).map_err(|faults| {
        let count = faults.iter().count().saturating_add(faults.more());
        let told = if count == 1 { "1 fault".to_owned() } else { format!("{count} faults") };
        let value = serde_json::to_value(&faults).unwrap_or_default();
        Failure::Plan(
            format!("`{}` has {told}; nothing was run", path.display()),
            value,
            format!("{faults}\n"),
        )
    })
}

/// By its name, or as it looks.
fn format(path: &Path, bytes: &[u8]) -> Format {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json") => Format::Json,
        Some("toml") => Format::Toml,
        _ => Format::of(bytes),
    }
}

fn validated(plan: &Plan) -> Shown {
    let outline = plan.outline();
    let list = |words: Vec<String>| if words.is_empty() { "none".to_owned() } else { words.join(", ") };
    let queue = |(name, most): (&String, &Option<u32>)| match most {
        Some(most) => format!("{name} ({most} at a time)"),
        None => name.clone(),
    };
    let mut text = format!(
        "nothing is wrong: {} items, {} edges, {} layers, at most {} in one of them and {} at work at the same time\n",
        outline.items,
        outline.edges,
        outline.layers,
        outline.widest,
        plan.concurrency()
    );
    if outline.most_items > outline.items {
        text.push_str(&format!("with what its patterns may add: {} items\n", outline.most_items));
    }
    text.push_str(&format!("locks: {}\n", list(outline.locks.iter().cloned().collect())));
    text.push_str(&format!("queues: {}\n", list(outline.queues.iter().map(queue).collect())));
    let mut value = serde_json::to_value(&outline).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert("name".into(), json!(plan.name()));
        fields.insert("open".into(), json!(plan.is_open()));
        fields.insert("concurrency".into(), json!(plan.concurrency()));
    }
    Shown::new(&value, text)
}

/// Each item once, below the last of what it waits for; the others are named beside it.
fn shown(plan: &Plan) -> Shown {
    let items: Vec<&Definition> = plan.items().collect();
    let layers = plan.layers();
    let index: HashMap<&ItemId, usize> =
        items.iter().enumerate().map(|(place, item)| (&item.id, place)).collect();
    let layer = |id: &ItemId| index.get(id).and_then(|place| layers.get(*place)).copied();
    let mut below: HashMap<Option<&ItemId>, Vec<&Definition>> = HashMap::new();
    for item in &items {
        let parent = match &item.group {
            Some(group) => Some(group),
            // Of those in one layer the last that is named.
            None => item.after.iter().map(|edge| &edge.item).max_by_key(|id| layer(id)),
        };
        below.entry(parent).or_default().push(item);
    }
    // The parts of a group come before what waits for it.
    below.values_mut().for_each(|all| all.sort_by_key(|item| item.group.is_none()));
    let mut text = plan.name().map(|name| format!("{name}\n")).unwrap_or_default();
    let mut value = Vec::new();
    // What is still to be drawn: an item, whether it is the last of its kind, and what stands before it.
    let mut open: Vec<(&Definition, String, usize)> = Vec::new();
    let push = |open: &mut Vec<(_, String, usize)>, parent: Option<&ItemId>, before: &str, depth: usize| {
        let all = below.get(&parent).map(Vec::as_slice).unwrap_or_default();
        for (place, item) in all.iter().enumerate().rev() {
            let sign = if place + 1 == all.len() { "└─ " } else { "├─ " };
            open.push((*item, format!("{before}{sign}"), depth));
        }
    };
    push(&mut open, None, "", 0);
    while let Some((item, before, depth)) = open.pop() {
        let parent = item.after.iter().map(|edge| &edge.item).max_by_key(|id| layer(id));
        text.push_str(&format!("{before}{}  {}\n", item.id, told(item, parent)));
        value.push(json!({ "id": item.id, "group": item.group, "after": item.after, "does": does(item) }));
        let indent = if depth < MOST_DEPTH {
            before.replace("└─ ", "   ").replace("├─ ", "│  ")
        } else {
            format!("({}) ", depth + 1)
        };
        push(&mut open, Some(&item.id), &indent, depth + 1);
    }
    Shown::new(&json!({ "name": plan.name(), "items": value }), text)
}

/// What an item does, what else it waits for, and what holds it.
fn told(item: &Definition, parent: Option<&ItemId>) -> String {
    let mut words = vec![does(item)];
    let others: Vec<String> = item
        .after
        .iter()
        .filter(|edge| item.group.is_none() && (Some(&edge.item) != parent || edge.on == On::Ended))
        .map(|edge| match edge.on {
            On::Done => edge.item.to_string(),
            On::Ended => format!("{} (however it ends)", edge.item),
        })
        .collect();
    if !others.is_empty() {
        words.push(format!("after {}", others.join(", ")));
    }
    if let Kind::Task(task) = &item.kind {
        words.extend(held(task));
    }
    words.join(" · ")
}

fn does(item: &Definition) -> String {
    match &item.kind {
        Kind::Task(task) => {
            let effect = match task.effect {
                Effect::Pure => "pure",
                Effect::Read => "reads",
                Effect::Write => "writes",
            };
            let judges = if task.judges { ", judges" } else { "" };
            format!("{} {effect}{judges}", task.request.subagent.name)
        }
        Kind::Group(Group::Pipeline { .. }) => "pipeline with a gate, mended once".into(),
        Kind::Group(Group::MapReduce { over: Over::These(all), .. }) => {
            format!("map-reduce over {} elements", all.len())
        }
        Kind::Group(Group::MapReduce { over: Over::Output { item, path, most }, .. }) => {
            format!("map-reduce over `{path}` of {item}, at most {most} elements")
        }
        Kind::Group(Group::Quorum { threshold, reviewers }) => format!("quorum: {threshold} of {reviewers}"),
    }
}

fn held(task: &Task) -> Vec<String> {
    let mut words = Vec::new();
    let needs: Vec<String> = task
        .needs
        .iter()
        .map(|need| match &need.product {
            Product::Patch => format!("patch of {}", need.item),
            Product::Output(path) => format!("`{path}` of {}", need.item),
        })
        .collect();
    if !needs.is_empty() {
        words.push(format!("needs {}", needs.join(", ")));
    }
    if !task.locks.is_empty() {
        let locks: Vec<&str> = task.locks.iter().map(|lock| lock.as_str()).collect();
        words.push(format!("locks {}", locks.join(", ")));
    }
    if let Some(approval) = &task.approval {
        words.push(
            if approval.four_eyes { "waits for somebody else's approval" } else { "waits for approval" }
                .into(),
        );
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let part = json!({ "effect": "read", "dispatch": { "subagent": "reviewer" } });
        let document = json!({ "version": 1, "name": "Release", "queues": { "gpu": 1 }, "items": [
            { "id": "build", "effect": "read", "dispatch": { "subagent": "builder" } },
            { "id": "lint", "effect": "pure", "queue": "gpu", "dispatch": { "subagent": "linter" } },
            { "id": "ship", "after": ["review", { "item": "lint", "on": "ended" }], "locks": ["site"], "dispatch": { "subagent": "shipper" },
              "approval": { "fourEyes": true } },
            { "id": "review", "pattern": "quorum", "after": ["build"], "threshold": 1, "reviewers": [part, part] },
        ] });
        Plan::read(document.to_string().as_bytes(), Format::Json).unwrap()
    }

    #[test]
    fn each_item_is_drawn_once_below_what_it_waits_for() {
        let shown = format!("{:?}", shown(&plan()));
        let expected = "Release\n\
                        ├─ build  builder reads\n\
                        │  └─ review  quorum: 1 of 2\n\
                        │     ├─ review/reviewer-01  reviewer reads, judges\n\
                        │     ├─ review/reviewer-02  reviewer reads, judges\n\
                        │     └─ ship  shipper writes · after lint (however it ends) · locks site · waits for somebody else's approval\n\
                        └─ lint  linter pure\n";
        assert!(shown.contains(&format!("{expected:?}")), "{shown}");
    }

    #[test]
    fn a_long_chain_is_drawn_in_little_room() {
        let items: Vec<Value> = (0..1_000_u32)
            .map(|n| {
                let after: Vec<String> =
                    n.checked_sub(1).map(|before| format!("t{before}")).into_iter().collect();
                json!({ "id": format!("t{n}"), "after": after, "dispatch": { "subagent": "s" } })
            })
            .collect();
        let document = json!({ "version": 1, "items": items }).to_string();
        let plan = Plan::read(document.as_bytes(), Format::Json).unwrap();
        let shown = format!("{:?}", shown(&plan));
        assert!(shown.contains("(999) └─ t999") && shown.len() < 300_000, "{}", shown.len());
    }
}
