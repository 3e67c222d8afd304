//! The protocol itself: greeting, sessions, streaming, stopping, and what is no message.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::model::Reply;
use crate::world::World;

#[test]
fn ses_14_the_agent_greets_opens_a_session_streams_and_ends_its_turn() {
    let world = World::new();
    world.model.plays([Reply::Say("hello there, person")]);
    let mut agent = world.agent();
    let greeting =
        agent.request("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} })).unwrap();
    assert_eq!(greeting["protocolVersion"], 1);
    assert_eq!(greeting["agentCapabilities"]["loadSession"], true);
    let made = agent.request("session/new", json!({ "cwd": world.tree(), "mcpServers": [] })).unwrap();
    agent.session = made["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(made["modes"]["currentModeId"], "full");
    let ended = agent.prompt("hi").unwrap();
    assert_eq!(ended["stopReason"], "end_turn");
    assert_eq!(agent.said(), "hello there, person");
    assert!(agent.updates.len() > 2, "it came in pieces");
    assert_eq!(agent.leave(), 0);
}

#[test]
fn ses_14_an_edit_from_prompt_to_file_with_every_step_told() {
    let world = World::new();
    world.file("src/a.txt", "one\ntwo\n");
    world.model.plays([
        Reply::Call(vec![("read_file", json!({ "path": "src/a.txt" }))]),
        Reply::Call(vec![
            ("edit", json!({ "path": "src/a.txt", "old": "two", "new": "2" })),
            ("shell", json!({ "command": "cat src/a.txt" })),
        ]),
        Reply::Say("it is done"),
    ]);
    let mut agent = world.opened();
    let ended = agent.prompt("make it a number").unwrap();
    assert_eq!(ended["stopReason"], "end_turn");
    assert_eq!(world.read("src/a.txt"), "one\n2\n");
    let states: Vec<_> =
        agent.updates.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect();
    assert_eq!(states.iter().filter(|state| **state == "tool_call").count(), 3);
    let results = agent.results();
    assert!(results[2].1.contains("one\n2\n"), "{results:?}");
    let edited = agent.updates.iter().rfind(|update| update["content"][1]["type"] == "diff").unwrap();
    assert_eq!(edited["content"][1]["newText"], "one\n2\n");
    assert_eq!(edited["content"][1]["path"], world.tree().join("src/a.txt").to_str().unwrap());
    // The model saw each call of its own, and its result behind it.
    let seen = world.model.seen();
    let messages = seen[2].body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 5);
    assert_eq!(messages[3]["content"][0]["type"], "tool_use");
    assert_eq!(messages[4]["content"][0]["tool_use_id"], messages[3]["content"][0]["id"]);
}

#[test]
fn ses_04_a_turn_is_stopped_while_the_model_is_silent_and_the_session_goes_on() {
    let world = World::new();
    world.model.plays([Reply::Stall("thinking", Duration::from_secs(30)), Reply::Say("again")]);
    let mut agent = world.opened();
    agent.cancel_after = Some(2);
    let before = Instant::now();
    assert_eq!(agent.prompt("go").unwrap()["stopReason"], "cancelled");
    assert!(before.elapsed() < Duration::from_secs(10));
    assert_eq!(agent.prompt("and now").unwrap()["stopReason"], "end_turn");
    assert_eq!(agent.said(), "again");
}

#[test]
fn ses_04_a_turn_is_stopped_while_a_person_is_asked() {
    let world = World::new().with("autonomy", json!("supervised"));
    world.model.plays([Reply::Call(vec![("write_file", json!({ "path": "x", "content": "x" }))])]);
    let mut agent = world.opened();
    agent.answer = None;
    let prompt = json!([{ "type": "text", "text": "go" }]);
    let session = agent.session.clone();
    let id = agent.begin("session/prompt", json!({ "sessionId": session, "prompt": prompt }));
    loop {
        let message = agent.heard();
        if message["method"] == "session/request_permission" {
            break;
        }
    }
    agent.cancel();
    assert_eq!(agent.finish(id, "session/prompt").unwrap()["stopReason"], "cancelled");
    assert!(!world.tree().join("x").exists());
}

#[test]
fn one_turn_at_a_time() {
    let world = World::new();
    world.model.plays([Reply::Mute(Duration::from_secs(20))]);
    let mut agent = world.opened();
    let prompt = json!([{ "type": "text", "text": "go" }]);
    let params = json!({ "sessionId": agent.session, "prompt": prompt });
    let first = agent.begin("session/prompt", params.clone());
    let refused = agent.request("session/prompt", params).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("running"), "{refused}");
    agent.cancel();
    assert_eq!(agent.finish(first, "session/prompt").unwrap()["stopReason"], "cancelled");
}

#[test]
fn ses_12_a_session_is_loaded_by_another_process_with_all_that_was_said() {
    let world = World::new();
    world.file("a.txt", "content");
    world.model.plays([
        Reply::Call(vec![("read_file", json!({ "path": "a.txt" }))]),
        Reply::Say("first answer"),
        Reply::Say("second answer"),
    ]);
    let mut agent = world.opened();
    agent.prompt("first question").unwrap();
    let session = agent.session.clone();
    assert_eq!(agent.leave(), 0);

    let kept = world.home().join(format!(".palisade-agent/sessions/{session}.json"));
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    let mut agent = world.agent();
    agent.request("initialize", json!({ "protocolVersion": 1 })).unwrap();
    agent.session = session.clone();
    let params = json!({ "sessionId": session, "cwd": world.tree(), "mcpServers": [] });
    agent.request("session/load", params.clone()).unwrap();
    let kinds: Vec<_> =
        agent.updates.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["user_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk"]);
    agent.prompt("second question").unwrap();
    let seen = world.model.seen();
    let asked = seen[2].body["messages"].to_string();
    assert!(
        asked.contains("first question")
            && asked.contains("first answer")
            && asked.contains("second question")
    );
}

#[test]
fn ses_12_a_session_that_cannot_be_loaded_is_an_honest_error() {
    let world = World::new();
    let mut agent = world.opened();
    agent.prompt("hello").unwrap();
    let session = agent.session.clone();
    agent.leave();
    let kept = world.home().join(format!(".palisade-agent/sessions/{session}.json"));
    let mut agent = world.agent();
    agent.request("initialize", json!({ "protocolVersion": 1 })).unwrap();
    let mut load = |session: &str, cwd: &std::path::Path| {
        let params = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
        agent.request("session/load", params).unwrap_err()["message"].as_str().unwrap().to_owned()
    };
    assert!(load("ses_00000000000000000000000000000000", &world.tree()).contains("nothing is kept"));
    assert!(load("../../etc/passwd", &world.tree()).contains("32 digits"));
    assert!(load(&session, &world.home()).contains("another directory"));
    std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(load(&session, &world.tree()).contains("cannot be read"));
    std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&kept, "{\"version\":1").unwrap();
    assert!(load(&session, &world.tree()).contains("damaged"));
}

#[test]
fn ses_08_what_is_no_message_is_answered_as_such_and_changes_nothing() {
    let world = World::new();
    let mut agent = world.opened();
    let long = vec![b'x'; 9 << 20];
    let deep =
        format!("{{\"id\":1,\"method\":\"x\",\"params\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for bad in [
        b"nonsense".as_slice(),
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"{\"id\":1,\"method\":7}",
        &long,
        deep.as_bytes(),
    ] {
        agent.raw(bad);
        let answer = agent.heard();
        assert_eq!(answer["error"]["code"], -32_700, "{answer}");
    }
    let unknown = agent.request("session/fly", json!({})).unwrap_err();
    assert_eq!(unknown["code"], -32_601);
    for (method, params) in [
        ("session/new", json!({ "cwd": "relative", "mcpServers": [] })),
        ("session/new", json!({ "cwd": "/nowhere/at/all", "mcpServers": [] })),
        ("session/new", json!({ "cwd": world.tree(), "mcpServers": [{ "name": "x", "command": "x" }] })),
        ("session/prompt", json!({ "sessionId": agent.session, "prompt": [] })),
        ("session/prompt", json!({ "sessionId": agent.session, "prompt": [{ "type": "image" }] })),
        ("session/prompt", json!({ "sessionId": agent.session })),
        ("session/set_mode", json!({ "sessionId": agent.session, "modeId": "god" })),
    ] {
        assert_eq!(agent.request(method, params.clone()).unwrap_err()["code"], -32_602, "{method} {params}");
    }
    assert_eq!(agent.prompt("still there?").unwrap()["stopReason"], "end_turn");
}

#[test]
fn nothing_is_done_before_the_greeting() {
    let world = World::new();
    let mut agent = world.agent();
    let refused = agent.request("session/new", json!({ "cwd": world.tree(), "mcpServers": [] })).unwrap_err();
    assert_eq!(refused["code"], -32_600);
}

#[test]
fn a_plan_is_told() {
    let world = World::new();
    let step = json!({ "content": "look", "priority": "high", "status": "in_progress" });
    world.model.plays([Reply::Call(vec![("plan", json!({ "entries": [step] }))]), Reply::Say("ok")]);
    let mut agent = world.opened();
    agent.prompt("go").unwrap();
    let plan = agent.updates.iter().find(|update| update["sessionUpdate"] == "plan").unwrap();
    assert_eq!(plan["entries"][0]["content"], "look");
}
