//! Sub-agents: what they get, how deep and how many.

use serde_json::json;

use crate::model::Reply;
use crate::world::World;

fn delegate(task: &str) -> Reply {
    Reply::Call(vec![("delegate", json!({ "task": task }))])
}

#[test]
fn a_sub_agent_has_a_fresh_conversation_and_answers_its_parent() {
    let world = World::new();
    world.file("a.txt", "content");
    world.model.plays([
        delegate("look into a.txt"),
        Reply::Call(vec![("read_file", json!({ "path": "a.txt" }))]),
        Reply::Say("it says content"),
        Reply::Say("my helper found it"),
    ]);
    let mut agent = world.opened();
    let answer = agent.prompt("a secret of the parent").unwrap();
    assert_eq!(agent.said(), "my helper found it");
    let seen = world.model.seen();
    assert!(!seen[1].body.to_string().contains("a secret of the parent"));
    assert!(world.model.last_result().contains("it says content"));
    let titles: Vec<_> = agent.updates.iter().filter_map(|update| update["title"].as_str()).collect();
    assert!(titles.contains(&"sub-agent 1: read a.txt"), "{titles:?}");
    assert_eq!(answer["_meta"]["palisade"]["calls"].as_array().unwrap().len(), 4, "what it used is counted");
}

#[test]
fn ses_09_a_sub_agent_has_no_more_than_its_parent() {
    let world = World::new();
    let narrow = json!({ "task": "write", "tools": ["read_file", "list"] });
    world.model.plays([
        Reply::Call(vec![("delegate", narrow)]),
        Reply::Call(vec![("write_file", json!({ "path": "x", "content": "x" }))]),
        Reply::Say("I could not"),
        Reply::Say("ok"),
    ]);
    let mut agent = world.opened();
    agent.prompt("go").unwrap();
    assert!(agent.results()[0].1.contains("`grant_tools`"), "{:?}", agent.results());
    assert!(!world.tree().join("x").exists());
    let offered: Vec<_> = world.model.seen()[1].body["tools"].as_array().unwrap().clone();
    assert_eq!(offered.len(), 2);
}

#[test]
fn a_supervised_agents_sub_agent_is_supervised() {
    let world = World::new().with("autonomy", json!("supervised"));
    world.model.plays([
        delegate("write"),
        Reply::Call(vec![("write_file", json!({ "path": "x", "content": "x" }))]),
        Reply::Say("done"),
    ]);
    let mut agent = world.opened();
    agent.answer = Some("no");
    agent.prompt("go").unwrap();
    assert_eq!(agent.questions.len(), 1);
    assert_eq!(agent.questions[0]["toolCall"]["title"], "sub-agent 1: write x");
    assert!(!world.tree().join("x").exists());
}

#[test]
fn sub_agents_go_three_deep_and_eight_wide() {
    let world = World::new();
    world.model.plays([
        delegate("first level, aaa"),
        delegate("second: bbbb"),
        delegate("the third one ccccc"),
        delegate("4 dddddd"),
    ]);
    let mut agent = world.opened();
    agent.prompt("go").unwrap();
    let refused = agent.results().iter().filter(|(_, text)| text.contains("`depth`")).count();
    assert_eq!(refused, 1, "{:?}", agent.results());
    let offered = world.model.seen()[3].body["tools"].to_string();
    assert!(!offered.contains("delegate"), "what cannot be done is not offered");

    let world = World::new();
    let tasks = [
        "weigh the apples",
        "count every star",
        "name 12 rivers",
        "fold paper",
        "boil it",
        "read on",
        "zip",
        "quo vadis",
        "nine!",
    ];
    let calls = tasks.iter().map(|task| ("delegate", json!({ "task": task }))).collect();
    world.model.plays([Reply::Call(calls)]);
    let mut agent = world.opened();
    agent.prompt("go").unwrap();
    let results = agent.results();
    assert_eq!(results.iter().filter(|(state, _)| state == "completed").count(), 8, "{results:?}");
    assert!(results[8].1.contains("`fan_out`"));
}
