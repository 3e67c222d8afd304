//! ORC-02: order, concurrency and skips are right.

use std::collections::BTreeMap;

use plans::{Cause, Ended, Event, On, Outcome, Run, State};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kit::{Alone, Chance, World, ana, id, plan, run_id, scaled, task};

/// A graph without cycles, in any order of its items, with edges of both tags and queues.
pub(crate) fn random_plan(chance: &mut Chance, locks: u64) -> Value {
    let count = 1 + chance.below(24);
    let mut items: Vec<Value> = (0..count)
        .map(|number| {
            let mut after: Vec<Value> = Vec::new();
            for other in 0..number {
                if chance.one_in(4) {
                    let on = if chance.one_in(5) { "ended" } else { "done" };
                    after.push(json!({ "item": format!("t{other}"), "on": on }));
                }
            }
            let mut item = task(&format!("t{number}"), &[]);
            item["after"] = after.into();
            item["queue"] = format!("q{}", chance.below(3)).into();
            let wanted: Vec<String> =
                (0..locks).filter(|_| chance.one_in(3)).map(|lock| format!("lock-{lock}")).collect();
            item["locks"] = wanted.into();
            item
        })
        .collect();
    for place in (1..items.len()).rev() {
        items.swap(place, chance.below(place as u64 + 1) as usize);
    }
    let mut document = plan(&items);
    document["concurrency"] = (1 + chance.below(6)).into();
    document["queues"] = json!({ "q0": 1 + chance.below(3), "q1": 1 });
    document
}

pub(crate) fn random_end(chance: &mut Chance) -> Ended {
    match chance.below(10) {
        0 => Ended::Failed { cause: Cause::WorkerFailed, detail: "x".into() },
        1 => Ended::Failed { cause: Cause::ProviderFailed, detail: "x".into() },
        2 if chance.one_in(3) => Ended::Cancelled,
        _ => Ended::Done { products: plans::Products::default(), verdict: None },
    }
}

/// What holds after every step.
pub(crate) fn check(run: &Run) {
    let rows = run.rows();
    let states: BTreeMap<_, State> =
        rows.iter().map(|row| (row.definition.id.clone(), row.progress.state)).collect();
    let mut of_queue: BTreeMap<String, u32> = BTreeMap::new();
    for row in rows {
        let has_begun = row.progress.attempt > 0;
        for edge in &row.definition.after {
            let before = states[&edge.item];
            let fits = before == State::Done || (edge.on == On::Ended && before.has_ended());
            assert!(!has_begun || fits, "{} before {}", row.definition.id, edge.item);
            let spoils = before.has_ended() && before != State::Done && edge.on == On::Done;
            assert!(
                !spoils || row.progress.state.has_ended(),
                "{} outlives {}",
                row.definition.id,
                edge.item
            );
        }
        if row.progress.state == State::Running {
            *of_queue.entry(row.definition.task().unwrap().queue.to_string()).or_default() += 1;
        }
    }
    assert!(of_queue.values().sum::<u32>() <= run.head().concurrency);
    for (queue, most) in &run.head().queues {
        assert!(of_queue.get(queue.as_str()).copied().unwrap_or_default() <= *most);
    }
}

fn through(seed: u64) -> World {
    let mut chance = Chance::new(seed);
    let document = random_plan(&mut chance, 0);
    let mut world = World::new(seed.rotate_left(17));
    world.submit(1, &document);
    for _ in 0..2_000 {
        check(&world.runs[&run_id(1)]);
        if !world.happen(random_end) {
            break;
        }
    }
    world
}

#[test]
fn orc_02_random_graphs_with_random_failures() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: scaled(1_000, 200),
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner
        .run(&any::<u64>(), |seed| {
            let world = through(seed);
            let run = &world.runs[&run_id(1)];
            let (outcome, _) = run.head().ended.unwrap();
            let any = |state| run.rows().iter().any(|row| row.progress.state == state);
            prop_assert_eq!(
                outcome == Outcome::Done,
                run.rows().iter().all(|row| row.progress.state == State::Done)
            );
            prop_assert_eq!(outcome == Outcome::Failed, any(State::Failed));
            // Skipped is what waits for the success of something that had none, and nothing else.
            for row in run.rows() {
                let is_spoiled = row.definition.after.iter().any(|edge| {
                    edge.on == On::Done && run.item(&edge.item).unwrap().progress.state != State::Done
                });
                prop_assert_eq!(row.progress.state == State::Skipped, is_spoiled);
            }
            // Nothing is tried more often than it may be, and the same again gives the same.
            prop_assert!(run.rows().iter().all(|row| row.progress.attempt <= 2));
            let again = through(seed);
            prop_assert_eq!(&world.starts, &again.starts);
            Ok(())
        })
        .unwrap();
}

#[test]
fn orc_02_all_that_waits_for_a_failure_is_skipped_in_one_step() {
    let mut items: Vec<Value> = vec![task("t0", &[])];
    items.extend((1..1_000).map(|number| task(&format!("t{number}"), &[&format!("t{}", number - 1)])));
    let mut alone = Alone::begin(&plan(&items));
    let step = alone.failed("t0", Cause::WorkerFailed);
    assert_eq!(step.rows.len(), 1_000);
    assert!(alone.run.rows().iter().skip(1).all(|row| row.progress.state == State::Skipped));
    assert_eq!(alone.outcome(), Some(Outcome::Failed));
}

#[test]
fn orc_02_an_edge_may_wait_for_any_ending() {
    let mut tidy = task("tidy", &[]);
    tidy["after"] = json!([{ "item": "work", "on": "ended" }]);
    for cause in [Some(Cause::WorkerFailed), None] {
        let mut alone = Alone::begin(&plan(&[task("work", &[]), tidy.clone(), task("next", &["work"])]));
        match cause {
            Some(cause) => drop(alone.failed("work", cause).clone()),
            None => drop(alone.done("work").clone()),
        }
        assert!(alone.starts().contains(&"tidy".to_owned()));
        assert_eq!(alone.state("next"), if cause.is_some() { State::Skipped } else { State::Running });
    }
}

#[test]
fn orc_07_cancelling_reaches_what_is_at_work_and_is_not_undone() {
    let document = plan(&[task("a", &[]), task("b", &["a"]), task("c", &[])]);
    let mut alone = Alone::begin(&document);
    alone.started("a");
    let by = ana();
    alone.tell(Event::CancelItem { item: id("a"), by: by.clone() }).unwrap();
    // It is cancelled when it is gone, whatever it did meanwhile; then what waits for it is skipped.
    assert_eq!((alone.state("a"), alone.state("b")), (State::Running, State::Pending));
    assert!(matches!(alone.last.decisions[..], [plans::Decision::Stop { .. }]));
    alone.tell(Event::CancelItem { item: id("a"), by: by.clone() }).unwrap();
    assert!(alone.last.decisions.is_empty(), "once is enough");
    alone.done("a");
    assert_eq!((alone.state("a"), alone.state("b")), (State::Cancelled, State::Skipped));
    assert_eq!(alone.run.item(&id("a")).unwrap().progress.why.as_ref().unwrap().by, Some(by.clone()));
    alone.tell(Event::CancelRun { by: by.clone() }).unwrap();
    alone.tell(Event::Close { by: by.clone() }).unwrap();
    assert_eq!(alone.outcome(), None, "something is still at work");
    alone.ended("c", Ended::Cancelled);
    assert_eq!(alone.outcome(), Some(Outcome::Cancelled));
    alone.tell(Event::Close { by }).unwrap();
    assert_eq!(alone.outcome(), Some(Outcome::Cancelled));
}

#[test]
fn events_that_come_late_change_nothing() {
    let mut alone = Alone::begin(&plan(&[task("a", &[]), task("b", &["a"])]));
    let first = alone.dispatch("a");
    alone.failed("a", Cause::Lost);
    alone.after(1);
    assert_eq!(alone.starts(), ["a"]);
    let step =
        alone.tell(Event::Ended { item: id("a"), dispatch: first, ended: crate::kit::done("a") }).unwrap();
    assert_eq!((step.rows.len(), step.decisions.len()), (0, 0), "that was the first attempt");
    alone.done("a");
    let second = alone.dispatch("a");
    let step = alone.tell(Event::Ended { item: id("a"), dispatch: second, ended: Ended::Cancelled }).unwrap();
    assert_eq!((step.rows.len(), step.decisions.len()), (0, 0), "it ended before");
    assert!(alone.tell(Event::CancelItem { item: id("nobody"), by: ana() }).is_err());
}
