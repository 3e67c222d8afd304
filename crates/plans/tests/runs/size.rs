//! ORC-17: reading a run costs the same however much happened: what is kept is bounded by its items.

use plans::{Cause, Ended, Event, State};
use serde_json::json;

use crate::kit::{Alone, ana, id, kept, plan, scaled, task, task_with};

fn bytes(alone: &Alone) -> usize {
    let (head, rows) = kept(&alone.run);
    serde_json::to_string(&head).unwrap().len() + serde_json::to_string(&rows).unwrap().len()
}

#[test]
fn orc_17_records_are_bounded_by_items_not_by_what_happens() {
    let items: Vec<_> =
        (0..20).map(|n| task_with(&format!("t{n}"), &[], json!({ "attempts": 10 }))).collect();
    let mut alone = Alone::begin(&plan(&items));
    let before = bytes(&alone);
    for turn in 0..scaled(1_000_000, 20_000) {
        alone.at += 1;
        let step = alone.tell(Event::Tick).unwrap();
        assert!(step.rows.is_empty() && !step.head, "nothing to write when nothing happens");
        let dispatch = alone.dispatch("t0");
        alone.tell(Event::Started { item: id("t0"), dispatch }).unwrap();
        if turn % 1_000 == 0 {
            assert!(alone.tell(Event::Retry { item: id("t0"), by: ana() }).is_err());
        }
    }
    assert_eq!(alone.run.rows().len(), 20);
    assert!(bytes(&alone) <= before + 100, "{before} {}", bytes(&alone));
}

#[test]
fn orc_17_whatever_is_told_is_cut() {
    let mut alone = Alone::begin(&plan(&[task("a", &[]), task("b", &[])]));
    alone.ended("a", Ended::Failed { cause: Cause::WorkerFailed, detail: "é".repeat(1 << 20) });
    alone.denied("b", &"x".repeat(1 << 20));
    assert_eq!((alone.state("a"), alone.state("b")), (State::Failed, State::Denied));
    assert!(bytes(&alone) < 10_000);
}
