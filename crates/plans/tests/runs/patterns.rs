//! ORC-11: four patterns are built in and bounded. ORC-13's part of it: what is handed on is named by hash.

use plans::{Cause, Decision, Ended, Event, Known, Outcome, Products, Run, State, Verdict};
use serde_json::{Value, json};

use crate::kit::{Alone, ana, hash, id, kept, plan, task};

fn part(more: Value) -> Value {
    let mut part = json!({ "effect": "read", "dispatch": { "subagent": "worker" } });
    for (key, value) in more.as_object().unwrap() {
        part[key] = value.clone();
    }
    part
}

fn pipeline() -> Value {
    json!({
        "id": "ship", "pattern": "pipeline", "after": ["start"],
        "stages": [part(json!({ "id": "write" })), part(json!({ "id": "tidy", "needs": [{ "item": "ship/write", "patch": true }] }))],
        "gate": part(json!({ "needs": [{ "item": "ship/tidy", "patch": true, "as": "patch" }] })),
        "fix": part(json!({ "needs": [{ "item": "ship/tidy", "patch": true }, { "item": "ship/gate", "output": "out.json", "as": "review" }] })),
    })
}

fn begun() -> Alone {
    let mut alone = Alone::begin(&plan(&[task("start", &[]), pipeline(), {
        let mut next = task("next", &["ship"]);
        next["needs"] = json!([{ "item": "ship", "patch": true }]);
        next
    }]));
    alone.done("start");
    alone.done("ship/write");
    alone.done("ship/tidy");
    assert_eq!(alone.starts(), ["ship/gate"]);
    alone
}

/// What the last start uses.
fn used(alone: &Alone) -> Vec<(String, String)> {
    let Some(Decision::Start(start)) = alone.last.decisions.first() else { panic!("{:?}", alone.last) };
    start.inputs.iter().map(|input| (input.key.clone(), input.item.to_string())).collect()
}

fn judged(verdict: Option<Verdict>) -> Ended {
    let Ended::Done { products, .. } = crate::kit::done("gate") else { unreachable!() };
    Ended::Done { products, verdict }
}

#[test]
fn orc_11_a_pipeline_goes_through_its_gate() {
    let mut alone = begun();
    assert_eq!(used(&alone), [("patch".into(), "ship/tidy".into())]);
    alone.ended("ship/gate", judged(Some(Verdict::Approve)));
    assert_eq!((alone.state("ship"), alone.starts()), (State::Done, vec!["next".to_owned()]));
    assert_eq!(used(&alone), [("ship".into(), "ship/tidy".into())]);
    alone.done("next");
    assert_eq!(alone.outcome(), Some(Outcome::Done));
}

#[test]
fn orc_11_a_pipeline_is_mended_once() {
    for (second, state) in [(Verdict::Approve, State::Done), (Verdict::Reject, State::Failed)] {
        let mut alone = begun();
        // Who judges and says nothing does not approve.
        alone.ended("ship/gate", judged(None));
        assert_eq!(alone.starts(), ["ship/fix"]);
        assert_eq!(
            used(&alone),
            [("ship.tidy".into(), "ship/tidy".into()), ("review".into(), "ship/gate".into())]
        );
        alone.restarted();
        alone.done("ship/fix");
        assert_eq!(
            (alone.starts(), used(&alone)),
            (vec!["ship/gate-2".into()], vec![("patch".into(), "ship/fix".into())])
        );
        alone.ended("ship/gate-2", judged(Some(second)));
        assert_eq!(alone.state("ship"), state);
        if second == Verdict::Approve {
            assert_eq!(used(&alone), [("ship".into(), "ship/fix".into())], "what the fix made is handed on");
        } else {
            assert_eq!((alone.state("next"), alone.outcome()), (State::Skipped, Some(Outcome::Failed)));
        }
    }
}

#[test]
fn orc_11_a_pipeline_ends_as_its_parts_do() {
    type End = fn(&mut Alone);
    let endings: [(State, End); 4] = [
        (State::Failed, |alone| drop(alone.failed("ship/write", Cause::WorkerFailed).clone())),
        (State::Denied, |alone| drop(alone.denied("ship/write", "no").clone())),
        (State::Cancelled, |alone| drop(alone.ended("ship/write", Ended::Cancelled).clone())),
        (State::Cancelled, |alone| {
            alone.tell(Event::CancelItem { item: id("ship"), by: ana() }).unwrap();
            alone.ended("ship/write", Ended::Cancelled);
        }),
    ];
    for (state, end) in endings {
        let mut alone = Alone::begin(&plan(&[task("start", &[]), pipeline()]));
        alone.done("start");
        end(&mut alone);
        assert_eq!(alone.state("ship"), state);
        assert!(alone.outcome().is_some());
    }
    let mut alone = Alone::begin(&plan(&[task("start", &[]), pipeline()]));
    alone.failed("start", Cause::WorkerFailed);
    assert!(alone.run.rows().iter().skip(1).all(|row| row.progress.state == State::Skipped));
}

/// A judge that is pure is asked once for the same input, and what it said then counts.
#[test]
fn orc_10_a_judge_that_is_known_says_what_it_said() {
    for (known, ending) in [
        (Some(Verdict::Approve), Some((State::Done, Outcome::Done))),
        (Some(Verdict::Reject), Some((State::Failed, Outcome::Failed))),
        // What was done for another task, which did not judge, says nothing: it is asked.
        (None, None),
    ] {
        let judge = part(json!({ "effect": "pure" }));
        let quorum = json!({ "id": "review", "pattern": "quorum", "threshold": 1, "reviewers": [judge] });
        let mut alone = Alone::begin(&plan(&[quorum]));
        let [Decision::Recall { key, .. }] = alone.last.decisions[..] else { panic!("{:?}", alone.last) };
        let (item, found) =
            (id("review/reviewer-01"), Known { products: Products::default(), verdict: known });
        alone.tell(Event::Recalled { item: item.clone(), key, found: Some(found) }).unwrap();
        match ending {
            Some((state, outcome)) => {
                assert_eq!(alone.run.item(&item).unwrap().progress.verdict, known);
                assert_eq!((alone.state("review"), alone.outcome()), (state, Some(outcome)));
            }
            None => assert_eq!(alone.starts(), ["review/reviewer-01"]),
        }
    }
}

fn quorum(threshold: u32, reviewers: usize) -> Alone {
    let reviewers: Vec<Value> = (0..reviewers).map(|_| part(json!({}))).collect();
    let quorum =
        json!({ "id": "review", "pattern": "quorum", "threshold": threshold, "reviewers": reviewers });
    Alone::begin(&plan(&[quorum, task("next", &["review"])]))
}

#[test]
fn orc_11_a_quorum_counts_failed_and_denied_reviewers_as_no() {
    let mut alone = quorum(2, 4);
    alone.judged("review/reviewer-01", Verdict::Approve);
    alone.failed("review/reviewer-02", Cause::WorkerFailed);
    alone.denied("review/reviewer-03", "no");
    assert_eq!(alone.state("review"), State::Pending);
    alone.judged("review/reviewer-04", Verdict::Approve);
    assert_eq!((alone.state("review"), alone.starts()), (State::Done, vec!["next".to_owned()]));
    alone.done("next");
    assert_eq!(alone.outcome(), Some(Outcome::Done), "a reviewer that failed did not spoil it");

    let mut alone = quorum(3, 4);
    alone.judged("review/reviewer-01", Verdict::Reject);
    assert_eq!(alone.state("review"), State::Pending);
    alone.failed("review/reviewer-02", Cause::WorkerFailed);
    assert_eq!((alone.state("review"), alone.state("next")), (State::Failed, State::Skipped));
    assert_eq!(alone.outcome(), None, "two are still at work");
    alone.done("review/reviewer-03");
    alone.done("review/reviewer-04");
    assert_eq!(alone.outcome(), Some(Outcome::Failed));
}

#[test]
fn orc_11_a_quorum_is_decided_as_soon_as_it_can_be() {
    let reviewers: Vec<Value> = (0..3).map(|_| part(json!({}))).collect();
    let mut document =
        plan(&[json!({ "id": "r", "pattern": "quorum", "threshold": 1, "reviewers": reviewers })]);
    document["concurrency"] = 1.into();
    let mut alone = Alone::begin(&document);
    alone.judged("r/reviewer-01", Verdict::Approve);
    assert_eq!((alone.state("r"), alone.state("r/reviewer-02")), (State::Done, State::Skipped));
    assert_eq!(alone.outcome(), Some(Outcome::Done));
}

fn map(over: Value) -> Value {
    json!({
        "id": "all", "pattern": "map-reduce", "after": ["list"], "over": over,
        "map": part(json!({ "dispatch": { "subagent": "worker", "input": { "style": "short" } } })),
        "reduce": part(json!({ "needs": [{ "item": "all/map", "output": "out.json", "as": "each" }] })),
    })
}

#[test]
fn orc_11_a_map_over_a_list_of_the_document() {
    let mut alone = Alone::begin(&plan(&[task("list", &[]), map(json!(["x", "y"]))]));
    alone.done("list");
    assert_eq!(alone.starts(), ["all/map-0000", "all/map-0001"]);
    let Some(Decision::Start(start)) = alone.last.decisions.last() else { panic!() };
    assert_eq!(
        start.request.input,
        Some(json!({ "element": "y", "index": 1, "input": { "style": "short" } }))
    );
    alone.done("all/map-0001");
    alone.done("all/map-0000");
    assert_eq!(
        used(&alone),
        [("each.0000".into(), "all/map-0000".into()), ("each.0001".into(), "all/map-0001".into())]
    );
    alone.done("all/reduce");
    assert_eq!((alone.state("all"), alone.outcome()), (State::Done, Some(Outcome::Done)));
}

fn listed(found: Result<Vec<Value>, String>) -> Alone {
    let over = json!({ "item": "list", "output": "out.json", "most": 3 });
    let mut alone = Alone::begin(&plan(&[task("list", &[]), map(over)]));
    alone.done("list");
    let [Decision::Fetch { item, list }] = &alone.last.decisions[..] else { panic!("{:?}", alone.last) };
    assert_eq!((item.as_str(), list.hash), ("all", hash("out of list")));
    alone.restarted();
    assert!(matches!(alone.last.decisions[..], [Decision::Fetch { .. }]), "asked again");
    alone.tell(Event::Elements { item: id("all"), found }).unwrap();
    alone
}

#[test]
fn orc_11_a_map_over_a_list_that_an_item_made() {
    let mut alone = listed(Ok(vec![json!(1), json!({ "file": "b" })]));
    assert_eq!(alone.starts(), ["all/map-0000", "all/map-0001"]);
    alone.restarted();
    alone.done("all/map-0000");
    assert_eq!(alone.starts(), [""; 0]);
    alone.done("all/map-0001");
    assert_eq!(alone.starts(), ["all/reduce"]);
    alone.done("all/reduce");
    assert_eq!(alone.outcome(), Some(Outcome::Done));

    let mut empty = listed(Ok(Vec::new()));
    assert_eq!(empty.starts(), ["all/reduce"], "nothing to do is done");
    empty.done("all/reduce");
    assert_eq!(empty.outcome(), Some(Outcome::Done));
    for bad in [Ok(vec![json!(1); 4]), Ok(vec![json!("x".repeat(1 << 20))]), Err("not JSON".into())] {
        let alone = listed(bad);
        assert_eq!((alone.state("all"), alone.state("all/reduce")), (State::Failed, State::Skipped));
        assert_eq!(alone.outcome(), Some(Outcome::Failed));
    }
}

#[test]
fn orc_11_a_replay_gives_the_same_graph() {
    let graph = |run: &Run| -> Vec<plans::Definition> {
        run.rows().iter().map(|row| row.definition.clone()).collect()
    };
    let play = || {
        let mut alone = listed(Ok(vec![json!("a"), json!("b"), json!("c")]));
        for item in ["all/map-0002", "all/map-0000", "all/map-0001", "all/reduce"] {
            alone.done(item);
        }
        let mut mended = begun();
        mended.ended("ship/gate", judged(None));
        (graph(&alone.run), graph(&mended.run), kept(&alone.run).1 == alone.run.rows())
    };
    let (one, other) = (play(), play());
    assert_eq!(one, other);
    assert!(one.2, "what is kept is all there is");
}

#[test]
fn orc_13_a_product_that_is_not_there_fails_before_the_start() {
    let mut uses = task("b", &["a"]);
    uses["needs"] = json!([{ "item": "a", "output": "missing.json" }]);
    let mut alone = Alone::begin(&plan(&[task("a", &[]), uses]));
    alone.ended("a", Ended::Done { products: Products::default(), verdict: None });
    assert_eq!((alone.state("b"), alone.starts().len()), (State::Failed, 0));
    let why = alone.run.item(&id("b")).unwrap().progress.why.clone().unwrap();
    assert_eq!((why.cause, why.detail.as_str()), (Cause::Dangling, "`a` left no output `missing.json`"));
}
