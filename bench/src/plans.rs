//! What it costs to check a plan of 1,000 items and to decide about its run, beside merely reading its bytes.

use ::plans::{
    Actor, Decision, Ended, Event, Format, Hash, Pins, Plan, Products, Run, RunId, Shared, Submission, Writes,
};
use serde_json::{Value, json};

use crate::measure;
use crate::report::{Bound, Row};

const ITEMS: usize = 1_000;
const ROUNDS: usize = 30;

/// The figures, and how to read them.
pub(crate) fn rows() -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    // As people write them: each waits for three others, uses a product, has a lock.
    let usual = document(|number| (1..=3).filter_map(|back| number.checked_sub(back * 7)).collect());
    // Nearly as many edges as fit into what is read.
    let dense = document(|number| (0..number).rev().take(700).collect());
    let wrong = usual.replace("\"done\"", "\"wrong\"").replace("worker", "no worker");
    anyhow::ensure!(Plan::read(usual.as_bytes(), Format::Json).is_ok(), "the plan has faults");
    anyhow::ensure!(Plan::read(dense.as_bytes(), Format::Json).is_ok(), "the dense plan has faults");
    anyhow::ensure!(Plan::read(wrong.as_bytes(), Format::Json).is_err(), "the wrong plan has none");
    let mut rows = Vec::new();
    for (name, text, bound) in [
        ("checked", &usual, Bound::Below(50.0)),
        ("all of them wrong, checked", &wrong, Bound::Below(50.0)),
        ("450,000 edges, checked", &dense, Bound::Information),
    ] {
        let ours = || Plan::read(text.as_bytes(), Format::Json).is_ok();
        let pair = measure::side_by_side(ROUNDS, ours, || serde_json::from_str::<Value>(text).is_ok());
        rows.push(Row {
            name: format!("plan of 1,000 items, {name} / bytes read"),
            unit: "ms",
            ours: pair.ours / 1e6,
            reference: Some(pair.reference / 1e6),
            bound,
        });
    }
    let plan = Plan::read(usual.as_bytes(), Format::Json)?;
    let through = measure::alone(5, || run_through(&plan));
    let events = run_through(&plan);
    rows.push(Row {
        name: "run of 1,000 items, decided / event".into(),
        unit: "us",
        ours: through / 1e3 / events as f64,
        reference: None,
        bound: Bound::Information,
    });
    let note = format!(
        "plans: documents of {} and {} KiB; the run has {events} events, and each looks at every item that is ready",
        usual.len() / 1024,
        dense.len() / 1024
    );
    Ok((rows, vec![note]))
}

fn document(after: impl Fn(usize) -> Vec<usize>) -> String {
    let items: Vec<Value> = (0..ITEMS)
        .map(|number| {
            let before = after(number);
            let mut item = json!({
                "id": format!("t{number}"),
                "after": before.iter().map(|one| format!("t{one}")).collect::<Vec<_>>(),
                "effect": "read",
                "dispatch": { "subagent": "worker", "input": { "task": "a few words about what is to be done" } },
            });
            // One edge says its tag, so that something can be wrong with it.
            if let (Some(last), 0..=9) = (before.first(), before.len()) {
                item["after"][0] = json!({ "item": format!("t{last}"), "on": "done" });
                item["needs"] = json!([{ "item": format!("t{last}"), "patch": true }]);
                item["locks"] = json!([format!("lock-{}", number % 50)]);
            }
            item
        })
        .collect();
    json!({ "version": 1, "concurrency": 64, "items": items }).to_string()
}

/// Runs it until it is over; how many events that took.
fn run_through(plan: &Plan) -> usize {
    let hash = Hash::of("bench", &[]);
    let pinned = plan.clone().pinned(Pins::default(), |_, _| Ok(hash)).expect("every name is resolved");
    let mut shared = Shared::new();
    let submission = Submission {
        id: RunId::of([1; 16]),
        by: Actor::person("a"),
        at: 0,
        writes: Writes::All,
        four_eyes: false,
    };
    let (mut run, step) = Run::begin(pinned, submission, &mut shared);
    let (mut open, mut events) = (step.decisions, 0);
    while let Some(decision) = open.pop() {
        let Decision::Start(start) = decision else { continue };
        let (item, dispatch) = (start.item, start.dispatch);
        let products = Products { patch: Some(hash), ..Products::default() };
        for event in [
            Event::Started { item: item.clone(), dispatch },
            Event::Ended { item, dispatch, ended: Ended::Done { products, verdict: None } },
        ] {
            open.extend(run.handle(0, event, &mut shared).expect("it is taken").decisions);
            events += 1;
        }
    }
    assert!(run.head().ended.is_some());
    events
}
