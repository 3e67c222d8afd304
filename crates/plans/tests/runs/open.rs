//! ORC-14: a run can be left open, extended and closed.

use plans::{Event, Format, MOST_ITEMS, Outcome, Refused, State, Step};
use serde_json::{Value, json};

use crate::kit::{Alone, ana, bo, hash, id, plan, starts, task};

fn open(items: &[Value]) -> Value {
    let mut document = plan(items);
    document["open"] = true.into();
    document
}

fn extend(alone: &mut Alone, document: &Value) -> Result<Step, Refused> {
    let text = document.to_string();
    let (run, shared) = (&mut alone.run, &mut alone.shared);
    run.extend(alone.at, &bo(), (text.as_bytes(), Format::Json), |_, name| Ok(hash(&name.name)), shared)
}

#[test]
fn orc_14_a_run_is_extended_until_it_is_closed() {
    let mut alone = Alone::begin(&open(&[task("a", &[])]));
    alone.done("a");
    assert_eq!(alone.outcome(), None, "it is open");
    let step = extend(&mut alone, &plan(&[task("c", &["b"]), task("b", &["a"])])).unwrap();
    assert_eq!((starts(&step), step.rows.len()), (vec!["b".to_owned()], 2));
    assert_eq!(alone.run.item(&id("b")).unwrap().added_by, bo());
    alone.restarted();
    alone.tell(Event::Close { by: ana() }).unwrap();
    assert_eq!(extend(&mut alone, &plan(&[task("d", &[])])).unwrap_err(), Refused::Closed);
    alone.done("b");
    alone.done("c");
    assert_eq!(alone.outcome(), Some(Outcome::Done));
    assert_eq!(extend(&mut alone, &plan(&[task("d", &[])])).unwrap_err(), Refused::Closed);
    assert_eq!(alone.run.rows().len(), 3);
}

#[test]
fn orc_14_an_extension_is_checked_like_a_submission_and_all_or_nothing() {
    let part = json!({ "effect": "read", "dispatch": { "subagent": "s" } });
    let quorum = json!({ "id": "q", "pattern": "quorum", "threshold": 1, "reviewers": [part] });
    let mut alone = Alone::begin(&open(&[task("a", &[]), quorum]));
    let before = alone.run.rows().to_vec();
    let mut uses = task("d", &["q"]);
    uses["needs"] = json!([{ "item": "q", "patch": true }]);
    let bad = json!({ "version": 1, "name": "x", "items": [task("b", &[]), task("A", &[]), task("c", &["nobody"]), uses, task("e", &["e"])] });
    let Err(Refused::Faults(faults)) = extend(&mut alone, &bad) else { panic!() };
    let told: Vec<String> =
        faults.iter().map(|fault| format!("{} {}", fault.at, fault.what.code())).collect();
    assert_eq!(
        told,
        [
            "/name unknown_key",
            "/items/1/id alike_id",
            "/items/2/after/0 unknown_item",
            "/items/3/needs/0 no_product",
            "/items/4/after cycle",
        ]
    );
    assert_eq!(alone.run.rows(), before);
}

#[test]
fn orc_14_a_run_never_has_more_items_than_it_may() {
    let part = json!({ "effect": "read", "dispatch": { "subagent": "s" } });
    let over = json!({ "item": "a", "output": "out.json", "most": 500 });
    let map = json!({ "id": "m", "pattern": "map-reduce", "after": ["a"], "over": over, "map": part, "reduce": part });
    let mut alone = Alone::begin(&open(&[task("a", &[]), map]));
    let many = |count: usize| plan(&(0..count).map(|n| task(&format!("x{n}"), &["a"])).collect::<Vec<_>>());
    // Three items, and five hundred that may come.
    assert!(matches!(extend(&mut alone, &many(498)), Err(Refused::Faults(_))));
    extend(&mut alone, &many(497)).unwrap();
    assert!(matches!(extend(&mut alone, &plan(&[task("one", &[])])), Err(Refused::Faults(_))));
    alone.done("a");
    let elements = (0..500).map(|n| json!(n)).collect();
    alone.tell(Event::Elements { item: id("m"), found: Ok(elements) }).unwrap();
    assert_eq!(alone.run.rows().len(), MOST_ITEMS);
    assert!(matches!(extend(&mut alone, &plan(&[task("one", &[])])), Err(Refused::Faults(_))));
}

#[test]
fn orc_14_what_is_added_after_a_failure_is_skipped_at_once() {
    let mut alone = Alone::begin(&open(&[task("a", &[])]));
    alone.failed("a", plans::Cause::WorkerFailed);
    let mut tidy = task("tidy", &[]);
    tidy["after"] = json!([{ "item": "a", "on": "ended" }]);
    let step = extend(&mut alone, &plan(&[task("b", &["a"]), task("c", &["b"]), tidy])).unwrap();
    assert_eq!(
        (alone.state("b"), alone.state("c"), starts(&step)),
        (State::Skipped, State::Skipped, vec!["tidy".to_owned()])
    );
    alone.tell(Event::CancelRun { by: ana() }).unwrap();
    assert_eq!(extend(&mut alone, &plan(&[task("d", &[])])).unwrap_err(), Refused::Closed);
}
