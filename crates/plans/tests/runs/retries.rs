//! ORC-04 and ORC-08: retries are few and never blind; every item has a deadline. Questions keep an item open.

use plans::{Actor, Cause, Decision, Ended, Event, Outcome, Question, Refused, State};
use serde_json::json;

use crate::kit::{Alone, ana, bo, id, plan, task, task_with};

#[test]
fn orc_04_transient_failures_are_tried_once_more_after_a_second() {
    for cause in [Cause::ProviderFailed, Cause::FetchFailed, Cause::StartFailed, Cause::Lost] {
        let mut alone = Alone::begin(&plan(&[task("a", &[])]));
        let first = alone.dispatch("a");
        alone.failed("a", cause);
        assert_eq!((alone.state("a"), alone.starts().len()), (State::Ready, 0));
        assert_eq!(alone.run.next_wake(), Some(alone.at + 1_000));
        alone.at += 999;
        assert!(alone.tell(Event::Tick).unwrap().decisions.is_empty());
        alone.at += 1;
        alone.tell(Event::Tick).unwrap();
        assert_eq!(alone.starts(), ["a"]);
        assert_ne!(alone.dispatch("a"), first);
        alone.failed("a", cause);
        assert_eq!((alone.state("a"), alone.outcome()), (State::Failed, Some(Outcome::Failed)));
    }
}

#[test]
fn orc_04_waits_double() {
    let mut alone = Alone::begin(&plan(&[task_with("a", &[], json!({ "attempts": 5 }))]));
    let mut waits = Vec::new();
    while alone.state("a") != State::Failed {
        alone.failed("a", Cause::ProviderFailed);
        if let Some(next) = alone.run.next_wake() {
            waits.push((next - alone.at) / 1_000);
            alone.at = next;
            alone.tell(Event::Tick).unwrap();
        }
    }
    assert_eq!(waits, [1, 2, 4, 8]);
}

#[test]
fn orc_04_what_fails_for_good_is_not_tried_again() {
    for cause in [Cause::WorkerFailed, Cause::Timeout, Cause::IntegrityFailed] {
        let mut alone = Alone::begin(&plan(&[task("a", &[])]));
        alone.failed("a", cause);
        assert_eq!(alone.state("a"), State::Failed, "{cause:?}");
    }
}

#[test]
fn orc_04_what_has_effects_is_tried_again_by_a_person_or_under_its_key_only() {
    let write = task_with("a", &[], json!({ "effect": "write" }));
    let mut alone = Alone::begin(&plan(&[write.clone(), task("b", &["a"])]));
    alone.failed("a", Cause::Lost);
    assert_eq!(alone.state("a"), State::Pending);
    assert_eq!(alone.last.decisions, [Decision::Ask { item: id("a"), question: Question::Retry }]);
    assert!(alone.after(60).decisions.is_empty(), "it waits");
    let refused = alone.tell(Event::Retry { item: id("a"), by: Actor::program("agent") }).unwrap_err();
    assert_eq!(refused, Refused::NotAPerson);
    alone.tell(Event::Retry { item: id("a"), by: ana() }).unwrap();
    assert_eq!(alone.starts(), ["a"]);
    alone.failed("a", Cause::Lost);
    assert_eq!((alone.state("a"), alone.state("b")), (State::Failed, State::Skipped), "two attempts in all");

    // Nobody is waited for for ever, and a person may say no.
    let mut alone = Alone::begin(&plan(std::slice::from_ref(&write)));
    alone.failed("a", Cause::Lost);
    assert_eq!(alone.run.next_wake(), Some(alone.at + 7_200_000));
    alone.after(7_200);
    assert_eq!(alone.state("a"), State::Failed);
    let mut alone = Alone::begin(&plan(&[write]));
    alone.failed("a", Cause::Lost);
    alone.tell(Event::GiveUp { item: id("a"), by: bo() }).unwrap();
    assert_eq!((alone.state("a"), alone.outcome()), (State::Failed, Some(Outcome::Failed)));

    let keyed = task_with("a", &[], json!({ "effect": "write", "idempotencyKey": "deploy-7" }));
    let mut alone = Alone::begin(&plan(&[keyed]));
    alone.failed("a", Cause::Lost);
    alone.after(1);
    assert_eq!(alone.starts(), ["a"]);
    let Some(Decision::Start(start)) = alone.last.decisions.first() else { panic!() };
    assert_eq!(start.idempotency_key.as_deref(), Some("deploy-7"));
}

#[test]
fn orc_08_overdue_items_are_stopped_and_failed_when_they_are_gone() {
    for (more, seconds) in [
        (json!({}), 7_200),
        (json!({ "deadlineSeconds": 86_400 }), 86_400),
        (json!({ "dispatch": { "subagent": "s", "timeoutSeconds": 60 } }), 60),
        (json!({ "dispatch": { "subagent": "s", "defaultDispatchTimeoutSeconds": 90 } }), 90),
    ] {
        let mut alone = Alone::begin(&plan(&[task_with("a", &[], more), task("b", &["a"])]));
        let Some(Decision::Start(start)) = alone.last.decisions.first() else { panic!() };
        assert_eq!(start.deadline, alone.at + seconds * 1_000);
        assert_eq!(start.request.timeout_seconds, Some(u64::try_from(seconds).unwrap()));
        alone.started("a");
        assert!(alone.after(seconds - 1).decisions.is_empty());
        alone.after(1);
        assert_eq!(alone.last.decisions, [Decision::Stop { item: id("a"), dispatch: alone.dispatch("a") }]);
        assert_eq!(alone.state("a"), State::Running, "until it is gone");
        assert!(alone.after(3_600).decisions.is_empty(), "once is enough");
        alone.done("a");
        assert_eq!((alone.state("a"), alone.state("b")), (State::Failed, State::Skipped));
        let why = alone.run.item(&id("a")).unwrap().progress.why.clone().unwrap();
        assert_eq!(why.cause, Cause::Timeout);
        assert_eq!(alone.outcome(), Some(Outcome::Failed));
    }
}

#[test]
fn orc_08_a_run_is_over_with_every_ending_of_its_items() {
    let mut seen = Vec::new();
    for ending in [State::Done, State::Failed, State::Cancelled, State::Denied] {
        let mut alone = Alone::begin(&plan(&[task("a", &[]), task("b", &["a"])]));
        match ending {
            State::Done => {
                alone.done("a");
                alone.done("b");
            }
            State::Failed => drop(alone.failed("a", Cause::WorkerFailed).clone()),
            State::Cancelled => drop(alone.ended("a", Ended::Cancelled).clone()),
            _ => drop(alone.denied("a", "no").clone()),
        }
        assert_eq!(alone.state("a"), ending);
        assert!(matches!(alone.last.decisions[..], [Decision::Over(_)]));
        assert_eq!(alone.run.next_wake(), None);
        seen.push(alone.outcome().unwrap());
    }
    assert_eq!(seen, [Outcome::Done, Outcome::Failed, Outcome::Cancelled, Outcome::Denied]);
}

#[test]
fn orc_09_a_right_that_is_lost_stops_what_is_at_work() {
    let mut alone = Alone::begin(&plan(&[task("a", &[])]));
    alone.started("a");
    alone.tell(Event::Denied { item: id("a"), why: "the subagent was revoked".into() }).unwrap();
    assert!(matches!(alone.last.decisions[..], [Decision::Stop { .. }]));
    assert_eq!(alone.state("a"), State::Running);
    alone.ended("a", Ended::Cancelled);
    assert_eq!((alone.state("a"), alone.outcome()), (State::Denied, Some(Outcome::Denied)));
}

/// What was to be started may be at work before anybody knows: it is stopped, and keeps its locks until it is gone.
#[test]
fn orc_09_what_is_denied_between_its_start_and_the_word_of_it_is_stopped() {
    let document = plan(&[
        task_with("a", &[], json!({ "locks": ["x"] })),
        task_with("b", &[], json!({ "locks": ["x"] })),
    ]);
    for (restarts, is_started) in [(false, true), (true, true), (false, false), (true, false)] {
        let mut alone = Alone::begin(&document);
        assert_eq!(alone.starts(), ["a"]);
        let dispatch = alone.dispatch("a");
        alone.tell(Event::Denied { item: id("a"), why: "the subagent was revoked".into() }).unwrap();
        assert_eq!(alone.last.decisions, [Decision::Stop { item: id("a"), dispatch }]);
        if restarts {
            let check = Decision::Check { item: id("a"), dispatch };
            assert_eq!(alone.restarted().decisions, [check, Decision::Stop { item: id("a"), dispatch }]);
        }
        if is_started {
            alone.started("a");
            assert_eq!((alone.state("a"), alone.starts().len()), (State::Running, 0), "until it is gone");
            alone.ended("a", Ended::Cancelled);
        } else {
            alone.tell(Event::NeverStarted { item: id("a"), dispatch }).unwrap();
        }
        assert_eq!((alone.state("a"), alone.starts()), (State::Denied, vec!["b".to_owned()]));
        let why = alone.run.item(&id("a")).unwrap().progress.why.clone().unwrap();
        assert_eq!((why.cause, why.detail.as_str()), (Cause::Policy, "the subagent was revoked"));
    }
}

/// What may be tried again and has no place waits for the place, and for no moment that is past.
#[test]
fn orc_04_what_may_be_tried_again_and_has_no_place_waits_for_no_moment() {
    let mut document = plan(&[task("a", &[]), task_with("b", &[], json!({ "deadlineSeconds": 60 }))]);
    document["concurrency"] = 1.into();
    let mut alone = Alone::begin(&document);
    alone.failed("a", Cause::ProviderFailed);
    assert_eq!((alone.state("a"), alone.starts()), (State::Ready, vec!["b".to_owned()]));
    let over = alone.at + 60_000;
    assert_eq!(alone.run.next_wake(), Some(alone.at + 1_000));
    alone.after(1);
    assert_eq!((alone.state("a"), alone.starts().len()), (State::Ready, 0));
    assert_eq!(alone.run.next_wake(), Some(over), "what is at work is overdue then; nothing is before");
    alone.restarted();
    assert_eq!(alone.run.next_wake(), Some(over));
    alone.done("b");
    assert_eq!(alone.starts(), ["a"]);
}

#[test]
fn reg_20_a_question_keeps_an_item_open_and_the_answer_starts_a_linked_dispatch() {
    let mut document =
        plan(&[task_with("a", &[], json!({ "locks": ["x"] })), task("b", &["a"]), task("c", &[])]);
    document["concurrency"] = 1.into();
    let mut alone = Alone::begin(&document);
    let asking = alone.dispatch("a");
    alone.ended("a", Ended::NeedsInput);
    assert_eq!(alone.state("a"), State::Running);
    assert_eq!(alone.run.question(&id("a")), Some(Question::Answer));
    assert_eq!(alone.starts(), ["c"], "its place is free meanwhile, its lock is not");
    assert_eq!(alone.shared.locks().count(), 1);
    alone.restarted();
    assert_eq!(alone.run.question(&id("a")), Some(Question::Answer));
    assert_eq!(alone.shared.locks().count(), 1);
    alone.tell(Event::Answered { item: id("a"), by: ana() }).unwrap();
    assert_eq!(alone.starts(), [""; 0], "there is one place");
    alone.restarted();
    alone.done("c");
    let Some(Decision::Start(start)) = alone.last.decisions.first() else { panic!("{:?}", alone.last) };
    assert_eq!((start.item.as_str(), start.attempt, start.continues), ("a", 1, Some(asking)));
    assert_ne!(start.dispatch, asking);
    alone.done("a");
    assert_eq!(alone.starts(), ["b"]);
    assert_eq!(alone.shared.locks().count(), 0);
}

#[test]
fn an_item_does_not_ask_for_ever() {
    let mut alone = Alone::begin(&plan(&[task("a", &[])]));
    for _ in 0..8 {
        alone.ended("a", Ended::NeedsInput);
        alone.tell(Event::Answered { item: id("a"), by: ana() }).unwrap();
    }
    alone.ended("a", Ended::NeedsInput);
    assert_eq!(alone.state("a"), State::Failed);
    let mut alone = Alone::begin(&plan(&[task("a", &[])]));
    alone.ended("a", Ended::NeedsInput);
    alone.after(7_200);
    assert_eq!((alone.state("a"), alone.outcome()), (State::Failed, Some(Outcome::Failed)));
}
