//! Turns that go in circles, and budgets.

use serde_json::{Value, json};

use crate::model::Reply;
use crate::world::World;

fn stopped(answer: &Value) -> (String, String) {
    let reason = answer["stopReason"].as_str().unwrap().to_owned();
    (reason, answer["_meta"]["palisade"]["stopped"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn ses_34_three_identical_calls_end_the_turn_with_the_reason() {
    let world = World::new();
    world.model.otherwise(Reply::Call(vec![("list", json!({}))]));
    let mut agent = world.opened();
    let answer = agent.prompt("go").unwrap();
    assert_eq!(stopped(&answer), ("max_turn_requests".into(), "identical_calls".into()));
    assert_eq!(world.model.seen().len(), 3);
    assert_eq!(agent.results().len(), 2, "the third is not made");
    assert!(agent.said().contains("3 times in a row"), "{}", agent.said());
    // The conversation is whole: the model can be asked again.
    world.model.otherwise(Reply::Say("sorry"));
    assert_eq!(agent.prompt("stop that").unwrap()["stopReason"], "end_turn");
    let seen = world.model.seen();
    let messages = seen.last().unwrap().body["messages"].as_array().unwrap();
    for pair in messages.windows(2) {
        if pair[0]["content"][0]["type"] == "tool_use" {
            assert_eq!(pair[1]["content"][0]["tool_use_id"], pair[0]["content"][0]["id"]);
        }
    }
}

#[test]
fn ses_34_calls_that_are_nearly_the_same_end_the_turn() {
    let world = World::new();
    for n in 0..9 {
        world.file(&format!("a/rather/long/path/to/file-{n}.txt"), "x");
        world.model.plays([Reply::Call(vec![(
            "read_file",
            json!({ "path": format!("a/rather/long/path/to/file-{n}.txt") }),
        )])]);
    }
    let answer = world.opened().prompt("go").unwrap();
    assert_eq!(stopped(&answer).1, "similar_calls");
    assert_eq!(world.model.seen().len(), 5);
}

#[test]
fn ses_34_three_failures_in_a_row_end_the_turn() {
    let world = World::new();
    for path in ["one", "/etc/two", "../completely/different/three", "four"] {
        world.model.plays([Reply::Call(vec![("read_file", json!({ "path": path }))])]);
    }
    let answer = world.opened().prompt("go").unwrap();
    assert_eq!(stopped(&answer).1, "failures_in_a_row");
    assert_eq!(world.model.seen().len(), 3);
}

#[test]
fn ses_34_twenty_answers_end_the_turn() {
    let world = World::new();
    // Different enough from each other, and all of them good.
    let mut agent = world.opened();
    for n in 0..30_u32 {
        let name = (0..12)
            .map(|k| char::from(b'a' + u8::try_from((n * 7 + k * (n + 3)) % 26).unwrap()))
            .collect::<String>();
        world.file(&name, "x");
        let call = if n % 2 == 0 {
            ("read_file", json!({ "path": name }))
        } else {
            ("search", json!({ "pattern": name }))
        };
        world.model.plays([Reply::Call(vec![call])]);
    }
    let answer = agent.prompt("go").unwrap();
    assert_eq!(stopped(&answer).1, "iterations");
    assert_eq!(world.model.seen().len(), 20);
}

#[test]
fn a_budget_that_is_used_up_ends_the_turn_before_the_next_call() {
    let everything = json!({
        "paths": { "allow": ["rw:/"] }, "hosts": { "allow": ["**"] }, "tools": { "allow": ["*"] },
        "secrets": { "allow": ["*"] }, "depth": 3,
        "budget": { "tokens": u64::MAX, "micro_usd": u64::MAX, "tool_calls": u64::MAX, "egress_bytes": u64::MAX,
            "wall_ms": u64::MAX },
    });
    for (part, most, word) in
        [("tokens", 5_000_u64, "tokens"), ("micro_usd", 8_000, "money"), ("tool_calls", 1, "tool calls")]
    {
        let mut grant = everything.clone();
        grant["budget"][part] = json!(most);
        let world = World::new().with("grant", grant);
        world.file("a", "x");
        world.model.plays([
            Reply::Call(vec![("list", json!({}))]),
            Reply::Call(vec![("read_file", json!({ "path": "a" }))]),
            Reply::Say("ok"),
        ]);
        let mut agent = world.opened();
        let answer = agent.prompt("go").unwrap();
        assert_eq!(stopped(&answer).1, "budget", "{part}");
        assert!(agent.said().contains(word), "{part}: {}", agent.said());
        assert!(world.model.seen().len() <= 2, "{part}");
        let again = agent.prompt("more").unwrap();
        assert_eq!(stopped(&again).1, "budget", "{part} stays used up");
    }
}

#[test]
fn a_hostile_model_is_bounded() {
    let many: Vec<_> = (0..40).map(|n| ("list", json!({ "path": format!("{n}") }))).collect();
    let huge = vec![("write_file", json!({ "path": "x", "content": "x".repeat(400_000) }))];
    for calls in [many, huge] {
        let world = World::new();
        world.model.otherwise(Reply::Call(calls));
        let why = world.opened().prompt("go").unwrap_err();
        assert!(why["message"].as_str().unwrap().contains("more than"), "{why}");
    }
    let world = World::new();
    world.model.plays([
        Reply::Call(vec![("no_such_tool\u{1b}[2J", json!({}))]),
        Reply::Call(vec![("read_file", json!(["not", "an", "object"]))]),
        Reply::Say("ok"),
    ]);
    let mut agent = world.opened();
    assert_eq!(agent.prompt("go").unwrap()["stopReason"], "end_turn");
    assert!(agent.results().iter().all(|(state, _)| state == "failed"));
    assert!(agent.updates.iter().all(|update| !update.to_string().contains("\\u001b")), "titles do not act");
}
