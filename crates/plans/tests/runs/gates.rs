//! ORC-10 and ORC-12: effects are classed and the class matters; a gate waits for a person who agrees to a hash.

use plans::{
    Actor, Cause, Decision, Event, Hash, Known, Noun, Outcome, Pins, Plan, Product, Question, Refused, State,
    Writes,
};
use serde_json::{Value, json};

use crate::kit::{Alone, ana, bo, hash, id, plan, task, task_with};

fn asked(alone: &Alone) -> Hash {
    let asked = alone.last.decisions.iter().find_map(|decision| match decision {
        Decision::Ask { question: Question::Approval(hash), .. } => Some(*hash),
        _ => None,
    });
    asked.unwrap_or_else(|| panic!("nobody was asked: {:?}", alone.last))
}

fn approve(alone: &mut Alone, item: &str, hash: Hash, by: Actor) -> Result<(), Refused> {
    alone.tell(Event::Approved { item: id(item), hash, by }).map(|_| ())
}

#[test]
fn orc_10_writing_needs_an_approval_or_a_rule() {
    for effect in [json!({ "effect": "write" }), json!({})] {
        let mut item = task_with("a", &[], effect.clone());
        if effect.get("effect").is_none() {
            item.as_object_mut().unwrap().remove("effect");
        }
        let document = plan(&[item, task("b", &[])]);
        let mut alone = Alone::begin_with(&document, Writes::Ask);
        assert_eq!((alone.state("a"), alone.starts()), (State::Pending, vec!["b".to_owned()]));
        let hash = asked(&alone);
        approve(&mut alone, "a", hash, ana()).unwrap();
        assert_eq!(alone.starts(), ["a"]);

        let alone = Alone::begin_with(&document, Writes::All);
        assert_eq!(alone.starts(), ["a", "b"]);
        let alone = Alone::begin_with(&document, Writes::These([id("a")].into()));
        assert_eq!(alone.starts(), ["a", "b"]);
        let alone = Alone::begin_with(&document, Writes::These([id("b")].into()));
        assert_eq!(alone.starts(), ["b"]);
    }
}

#[test]
fn orc_10_what_a_person_agrees_to_is_everything_that_is_done() {
    let with = |more: Value| {
        let mut item = task_with("a", &[], json!({ "effect": "write" }));
        for (key, value) in more.as_object().unwrap() {
            item["dispatch"][key] = value.clone();
        }
        asked(&Alone::begin_with(&plan(&[item]), Writes::Ask))
    };
    let plain = with(json!({}));
    assert_eq!(plain, with(json!({})));
    for other in [
        json!({ "input": 1 }),
        json!({ "subagent": "another" }),
        json!({ "callback": { "url": "https://a.example" } }),
        json!({ "secrets": { "K": "k" } }),
        json!({ "timeoutSeconds": 5 }),
        json!({ "env": "e" }),
    ] {
        assert_ne!(plain, with(other.clone()), "{other}");
    }
    // The order of keys says nothing.
    assert_eq!(with(json!({ "input": { "a": 1, "b": 2 } })), with(json!({ "input": { "b": 2, "a": 1 } })));
}

fn pure() -> Value {
    plan(&[task("a", &[]), {
        let mut item = task_with("b", &["a"], json!({ "effect": "pure" }));
        item["needs"] = json!([{ "item": "a", "patch": true }]);
        item
    }])
}

#[test]
fn orc_10_what_is_pure_is_done_once() {
    let mut alone = Alone::begin(&pure());
    alone.done("a");
    let [Decision::Recall { key, .. }] = alone.last.decisions[..] else { panic!("{:?}", alone.last) };
    alone.restarted();
    assert_eq!(alone.last.decisions, [Decision::Recall { item: id("b"), key }]);
    alone.tell(Event::Recalled { item: id("b"), key, found: None }).unwrap();
    assert_eq!(alone.starts(), ["b"]);
    alone.done("b");
    let left = alone.run.item(&id("b")).unwrap().progress.products.clone();

    let mut second = Alone::begin(&pure());
    second.done("a");
    second
        .tell(Event::Recalled {
            item: id("b"),
            key,
            found: Some(Known { products: left.clone(), verdict: None }),
        })
        .unwrap();
    assert_eq!((second.starts().len(), second.outcome()), (0, Some(Outcome::Done)));
    let row = second.run.item(&id("b")).unwrap();
    assert!(row.progress.is_recalled && row.progress.dispatch.is_none() && row.progress.products == left);

    // Another input is another key; what does not change the product is none.
    let mut third = Alone::begin(&pure());
    let other = plans::Products { patch: Some(hash("another")), ..Default::default() };
    third.ended("a", plans::Ended::Done { products: other, verdict: None });
    assert!(!matches!(third.last.decisions[..], [Decision::Recall { key: other, .. }] if other == key));
    let mut document = pure();
    document["items"][1]["dispatch"]["retentionDays"] = 7.into();
    let mut fourth = Alone::begin(&document);
    fourth.done("a");
    assert_eq!(fourth.last.decisions, [Decision::Recall { item: id("b"), key }]);
}

fn gated(more: Value) -> Alone {
    let mut deploy = task_with("deploy", &["build"], json!({ "effect": "write" }));
    deploy["needs"] = json!([{ "item": "build", "patch": true, "as": "patch" }]);
    deploy["approval"] = json!({ "of": "patch" });
    for (key, value) in more.as_object().unwrap() {
        deploy["approval"][key] = value.clone();
    }
    let mut alone = Alone::begin(&plan(&[task("build", &[]), deploy, task("after", &["deploy"])]));
    alone.done("build");
    alone
}

#[test]
fn orc_12_a_gate_waits_for_a_person_who_agrees_to_the_artifact() {
    let mut alone = gated(json!({}));
    let patch = hash("patch of build");
    assert_eq!(
        (alone.state("deploy"), asked(&alone)),
        (State::Pending, patch),
        "a rule does not open a gate"
    );
    assert_eq!(
        approve(&mut alone, "deploy", hash("something else"), bo()),
        Err(Refused::AnotherHash { item: id("deploy"), hash: patch })
    );
    assert_eq!(approve(&mut alone, "deploy", patch, Actor::program("agent")), Err(Refused::NotAPerson));
    assert_eq!(approve(&mut alone, "after", patch, bo()), Err(Refused::NotWaiting(id("after"))));
    assert_eq!(
        alone.restarted().decisions,
        [Decision::Ask { item: id("deploy"), question: Question::Approval(patch) }]
    );
    approve(&mut alone, "deploy", patch, ana()).unwrap();
    let [Decision::Start(start)] = &alone.last.decisions[..] else { panic!() };
    assert_eq!(start.approved, Some(patch));
    let approved = alone.run.item(&id("deploy")).unwrap().progress.approved.clone().unwrap();
    assert_eq!((approved.by, approved.hash), (ana(), patch));
}

#[test]
fn orc_12_four_eyes_are_two_people() {
    let mut alone = gated(json!({ "fourEyes": true }));
    let patch = asked(&alone);
    assert_eq!(approve(&mut alone, "deploy", patch, ana()), Err(Refused::OwnWork(id("deploy"))));
    assert_eq!(alone.state("deploy"), State::Pending);
    approve(&mut alone, "deploy", patch, bo()).unwrap();
    assert_eq!(alone.starts(), ["deploy"]);
}

#[test]
fn orc_12_a_changed_artifact_closes_the_gate_again() {
    let change = |alone: &mut Alone, text: &str| {
        let event = Event::Changed { item: id("build"), product: Product::Patch, hash: hash(text) };
        alone.tell(event).unwrap();
    };
    // Before anybody agreed: what they would agree to is another one.
    let mut alone = gated(json!({}));
    let patch = asked(&alone);
    change(&mut alone, "two");
    assert_eq!(asked(&alone), hash("two"));
    assert!(approve(&mut alone, "deploy", patch, bo()).is_err());
    // After, as long as it has not begun: here it waits for a lock.
    let mut deploy = task_with("deploy", &["build"], json!({ "effect": "write", "locks": ["x"] }));
    deploy["needs"] = json!([{ "item": "build", "patch": true, "as": "patch" }]);
    deploy["approval"] = json!({ "of": "patch" });
    let mut alone = Alone::begin(&plan(&[
        task("build", &[]),
        task_with("holds", &[], json!({ "locks": ["x"] })),
        deploy,
    ]));
    alone.done("build");
    let patch = asked(&alone);
    approve(&mut alone, "deploy", patch, bo()).unwrap();
    assert_eq!((alone.state("deploy"), alone.starts().len()), (State::Ready, 0));
    alone.restarted();
    change(&mut alone, "two");
    assert_eq!((alone.state("deploy"), asked(&alone)), (State::Pending, hash("two")));
    alone.done("holds");
    assert_eq!(alone.starts().len(), 0);
    approve(&mut alone, "deploy", hash("two"), bo()).unwrap();
    assert_eq!(alone.starts(), ["deploy"]);
    // What has begun uses what was agreed to, by its hash.
    change(&mut alone, "three");
    assert_eq!((alone.state("deploy"), alone.last.decisions.len()), (State::Running, 0));
}

#[test]
fn orc_12_another_attempt_uses_what_was_agreed_to_or_asks_again() {
    let begun = |key: Value| {
        let mut deploy =
            task_with("deploy", &["build"], json!({ "effect": "write", "approval": { "of": "patch" } }));
        deploy["needs"] = json!([{ "item": "build", "patch": true, "as": "patch" }]);
        deploy["idempotencyKey"] = key;
        let mut alone = Alone::begin(&plan(&[task("build", &[]), deploy]));
        alone.done("build");
        let patch = asked(&alone);
        approve(&mut alone, "deploy", patch, bo()).unwrap();
        assert_eq!(alone.starts(), ["deploy"]);
        alone
    };
    let change = |alone: &mut Alone| {
        alone.tell(Event::Changed { item: id("build"), product: Product::Patch, hash: hash("two") }).unwrap();
    };
    // It waits for its next attempt.
    let mut alone = begun("k".into());
    alone.failed("deploy", Cause::Lost);
    change(&mut alone);
    assert_eq!((alone.state("deploy"), asked(&alone)), (State::Pending, hash("two")));
    assert_eq!(alone.after(60).decisions, []);
    approve(&mut alone, "deploy", hash("two"), bo()).unwrap();
    assert_eq!(alone.starts(), ["deploy"]);
    // It waits for a person who says that it be tried again: that is no approval of something else.
    let mut alone = begun(Value::Null);
    alone.failed("deploy", Cause::Lost);
    change(&mut alone);
    alone.tell(Event::Retry { item: id("deploy"), by: ana() }).unwrap();
    assert_eq!((alone.starts().len(), asked(&alone)), (0, hash("two")));
    // It was to be started, and nobody knows whether it was.
    let mut alone = begun(Value::Null);
    alone.restarted();
    change(&mut alone);
    let dispatch = alone.dispatch("deploy");
    alone.tell(Event::NeverStarted { item: id("deploy"), dispatch }).unwrap();
    assert_eq!((alone.starts().len(), asked(&alone)), (0, hash("two")));
    assert_eq!(alone.run.item(&id("deploy")).unwrap().progress.attempt, 0);
    // It asked something, and goes on with another product: nobody agreed to that.
    let mut alone = begun("k".into());
    alone.ended("deploy", plans::Ended::NeedsInput);
    change(&mut alone);
    alone.tell(Event::Answered { item: id("deploy"), by: ana() }).unwrap();
    assert_eq!((alone.starts().len(), alone.state("deploy")), (0, State::Failed));
}

#[test]
fn orc_12_what_is_agreed_to_is_the_same_after_a_restart_to_the_last_digit() {
    let mut chance = crate::kit::Chance::new(7);
    for _ in 0..500 {
        let number = f64::from_bits(chance.below(u64::MAX) << 1);
        if !number.is_finite() {
            continue;
        }
        let mut item = task_with("a", &[], json!({ "effect": "write" }));
        item["dispatch"]["input"] = json!([number, -0.0, u64::MAX, i64::MIN]);
        let mut alone = Alone::begin_with(&plan(&[item]), Writes::Ask);
        let hash = asked(&alone);
        alone.restarted();
        approve(&mut alone, "a", hash, ana()).unwrap();
        assert_eq!(alone.starts(), ["a"], "{number}");
    }
}

#[test]
fn orc_12_a_person_may_refuse_and_has_as_long_as_was_said() {
    let mut alone = gated(json!({ "withinSeconds": 60 }));
    let patch = asked(&alone);
    assert!(alone.after(59).decisions.is_empty());
    alone.after(1);
    assert_eq!((alone.state("deploy"), alone.outcome()), (State::Denied, Some(Outcome::Denied)));
    assert!(approve(&mut alone, "deploy", patch, bo()).is_err());

    let mut alone = gated(json!({}));
    assert_eq!(alone.run.next_wake(), None, "and otherwise as long as it takes");
    alone.after(10_000_000);
    alone.tell(Event::Refused { item: id("deploy"), hash: patch, by: bo() }).unwrap();
    assert_eq!((alone.state("deploy"), alone.state("after")), (State::Denied, State::Skipped));
    let why = alone.run.item(&id("deploy")).unwrap().progress.why.clone().unwrap();
    assert_eq!((why.cause, why.by), (Cause::Refused, Some(bo())));
}

/// ORC-06, as far as the core goes: who resolves is asked once for each name, and the run keeps what it was told.
#[test]
fn orc_06_names_are_resolved_once() {
    let items = [task("a", &[]), task("b", &[]), {
        let mut item = task("c", &[]);
        item["dispatch"]["env"] = json!(["base", { "name": "base", "contentHash": hash("old").to_string() }]);
        item
    }];
    let mut document = plan(&items);
    document["open"] = true.into();
    let mut names = Vec::new();
    let plan = Plan::read(document.to_string().as_bytes(), plans::Format::Json).unwrap();
    let pinned = plan
        .clone()
        .pinned(Pins::default(), |noun, name| {
            names.push((noun, name.name.clone(), name.content_hash.is_some()));
            // Each answer is another one: a name that was asked for twice would have two meanings.
            Ok(name.content_hash.unwrap_or_else(|| hash(&format!("{} {}", name.name, names.len()))))
        })
        .unwrap();
    assert_eq!(
        names,
        [
            (Noun::Subagent, "worker".into(), false),
            (Noun::Env, "base".into(), false),
            (Noun::Env, "base".into(), true)
        ]
    );
    assert_eq!(pinned.pins().get(Noun::Subagent, "worker"), Some(hash("worker 1")));

    let mut alone = Alone::begin(&document);
    let held = alone.run.head().pins.clone();
    let more = crate::kit::plan(&[task("d", &["a"])]).to_string();
    let moved = |_: Noun, _: &plans::Ref| -> Result<Hash, String> { Ok(hash("registered anew")) };
    let (run, shared) = (&mut alone.run, &mut alone.shared);
    run.extend(2_000, &ana(), (more.as_bytes(), plans::Format::Json), moved, shared).unwrap();
    assert_eq!(alone.run.head().pins, held);
    let pins: std::collections::BTreeSet<Option<Hash>> = alone
        .run
        .rows()
        .iter()
        .map(|row| row.definition.task().unwrap().request.subagent.content_hash)
        .collect();
    assert_eq!(pins, [Some(hash("worker"))].into(), "every item has the same");

    let refused = plan.pinned(Pins::default(), |_, name| match name.content_hash {
        Some(_) => Ok(hash("not that")),
        None => Err(format!("there is no `{}`", name.name)),
    });
    let told: Vec<String> =
        refused.unwrap_err().iter().map(|fault| format!("{} {}", fault.at, fault.what)).collect();
    assert_eq!(
        told,
        [
            "/items/0/dispatch/subagent there is no `worker`".to_owned(),
            "/items/1/dispatch/subagent there is no `worker`".to_owned(),
            "/items/2/dispatch/env/0 there is no `base`".to_owned(),
            format!("/items/2/dispatch/env/1 `base` is another version than `{}`", hash("old")),
            "/items/2/dispatch/subagent there is no `worker`".to_owned(),
        ]
    );
}
