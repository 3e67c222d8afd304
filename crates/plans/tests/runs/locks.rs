//! ORC-03: locks are taken all together, across runs, and always given back.

use plans::{Cause, Event, Shared, State};
use proptest::prelude::*;
use serde_json::json;

use crate::kit::{Alone, Chance, World, ana, id, plan, run_id, scaled, task, task_with};
use crate::order::{random_end, random_plan};

fn with_locks(name: &str, locks: &[&str]) -> serde_json::Value {
    task_with(name, &[], json!({ "locks": locks }))
}

#[test]
fn orc_03_disjoint_locks_run_in_parallel_and_shared_ones_one_by_one() {
    let mut alone = Alone::begin(&plan(&[
        with_locks("a", &["x", "y"]),
        with_locks("b", &["z"]),
        with_locks("c", &["y", "z"]),
        with_locks("d", &["x"]),
    ]));
    assert_eq!(alone.starts(), ["a", "b"]);
    alone.done("b");
    assert_eq!(alone.starts(), [""; 0], "`c` has all of its locks or none");
    assert!(alone.shared.holder(&"z".parse().unwrap()).is_none());
    alone.done("a");
    assert_eq!(alone.starts(), ["c", "d"]);
}

#[test]
fn orc_03_a_large_wish_is_not_passed_by_small_ones() {
    let mut world = World::new(1);
    world.submit(1, &plan(&[with_locks("holds", &["x"])]));
    world.submit(2, &plan(&[with_locks("wants", &["x", "y"])]));
    world.submit(3, &plan(&[with_locks("small", &["y"])]));
    let begun =
        |world: &World| world.starts.iter().map(|(_, start)| start.item.to_string()).collect::<Vec<_>>();
    assert_eq!(begun(&world), ["holds"]);
    while world.happen(|_| crate::kit::done("x")) {}
    assert_eq!(begun(&world), ["holds", "wants", "small"]);
    // Who gives up waiting lets the others through.
    let mut world = World::new(1);
    world.submit(1, &plan(&[with_locks("holds", &["x"])]));
    world.submit(2, &plan(&[with_locks("wants", &["x", "y"])]));
    world.submit(3, &plan(&[with_locks("small", &["y"])]));
    world.tell(&run_id(2), Event::CancelRun { by: ana() });
    assert_eq!(world.woken.len(), 1);
    world.happen(|_| unreachable!());
    assert_eq!(begun(&world), ["holds", "small"]);
}

#[test]
fn orc_03_every_ending_gives_locks_back() {
    type End = fn(&mut Alone);
    let endings: [(State, End); 7] = [
        (State::Done, |alone| drop(alone.done("a").clone())),
        (State::Failed, |alone| drop(alone.failed("a", Cause::WorkerFailed).clone())),
        (State::Cancelled, |alone| {
            alone.tell(Event::CancelItem { item: id("a"), by: ana() }).unwrap();
            alone.done("a");
        }),
        (State::Denied, |alone| drop(alone.denied("a", "revoked").clone())),
        (State::Failed, |alone| {
            alone.started("a");
            alone.after(7_200);
            alone.ended("a", plans::Ended::Cancelled);
        }),
        (State::Ready, |alone| drop(alone.failed("a", Cause::Lost).clone())),
        (State::Failed, |alone| {
            alone.ended("a", plans::Ended::NeedsInput);
            assert_eq!(alone.shared.locks().count(), 1, "what waits for an answer keeps its lock");
            alone.after(7_200);
        }),
    ];
    for (number, (state, end)) in endings.into_iter().enumerate() {
        for restarts in [false, true] {
            let mut alone = Alone::begin(&plan(&[with_locks("a", &["x"]), with_locks("b", &["x"])]));
            assert_eq!(alone.shared.locks().count(), 1);
            if restarts {
                alone.restarted();
                assert_eq!(alone.shared.locks().count(), 1, "also after a restart");
            }
            end(&mut alone);
            assert_eq!(alone.state("a"), state, "{number}");
            assert_eq!(alone.starts(), ["b"], "{number}");
        }
    }
}

#[test]
fn orc_03_random_sets_of_locks_never_deadlock() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: scaled(1_000, 50),
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    // Each case has about ten items with locks, in up to four runs.
    let mut sets = 0_usize;
    let mut total = std::cell::Cell::new(0_usize);
    runner
        .run(&any::<u64>(), |seed| {
            let mut chance = Chance::new(seed);
            let mut world = World::new(seed ^ 0x5555);
            if chance.one_in(2) {
                world.shared = Shared::new().with_queue("q2".parse().unwrap(), 1);
            }
            for number in 1..=(1 + chance.below(4) as u8) {
                let document = random_plan(&mut chance, 6);
                world.submit(number, &document);
            }
            total.set(total.get() + world.runs.values().map(|run| run.rows().len()).sum::<usize>());
            for _ in 0..20_000 {
                for (lock, holder) in world.shared.locks() {
                    let row = world.runs[&holder.run].item(&holder.item).unwrap();
                    prop_assert_eq!(row.progress.state, State::Running);
                    prop_assert!(row.definition.task().unwrap().locks.contains(lock));
                }
                let held: usize = world
                    .at_work
                    .iter()
                    .map(|(run, item, _)| {
                        world.runs[run].item(item).unwrap().definition.task().unwrap().locks.len()
                    })
                    .sum();
                // Nobody at work shares a lock with anybody.
                prop_assert_eq!(held, world.shared.locks().count());
                if !world.happen(random_end) {
                    break;
                }
            }
            prop_assert!(world.runs.values().all(|run| run.head().ended.is_some()), "a deadlock");
            prop_assert_eq!(world.shared.locks().count(), 0);
            prop_assert!(!world.shared.is_waited_for());
            Ok(())
        })
        .unwrap();
    sets += *total.get_mut();
    assert!(sets >= scaled(10_000, 500) as usize, "{sets}");
}

#[test]
fn a_bound_on_a_queue_holds_over_all_runs() {
    let mut world = World::new(1);
    world.shared = Shared::new().with_queue("gpu".parse().unwrap(), 1);
    for number in 1..=3 {
        world.submit(number, &plan(&[task_with("a", &[], json!({ "queue": "gpu" })), task("b", &[])]));
    }
    let of_gpu = |world: &World| world.at_work.iter().filter(|(_, item, _)| item.as_str() == "a").count();
    loop {
        assert!(of_gpu(&world) <= 1);
        if !world.happen(|_| crate::kit::done("x")) {
            break;
        }
    }
    assert_eq!(world.starts.len(), 6);
    assert!(world.runs.values().all(|run| run.head().ended.is_some()));
}
