//! Levels and classes: what is refused, what is asked, what is done.

use std::process::Command;

use agent::{Autonomy, Class, Verdict, registry};
use serde_json::{Value, json};

use crate::model::Reply;
use crate::world::{KEY, World};

/// One harmless call of every tool.
fn examples() -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({ "path": "a.txt" })),
        ("list", json!({})),
        ("search", json!({ "pattern": "x" })),
        ("write_file", json!({ "path": "new.txt", "content": "x" })),
        ("edit", json!({ "path": "a.txt", "old": "content", "new": "other" })),
        ("apply_patch", json!({ "patch": "--- /dev/null\n+++ b/p.txt\n@@ -0,0 +1,1 @@\n+x\n" })),
        ("shell", json!({ "command": "echo hi" })),
        ("run_code", json!({ "interpreter": "python3", "code": "print(1)" })),
        ("start_process", json!({ "command": "echo hi" })),
        ("process_output", json!({ "number": 1 })),
        ("stop_process", json!({ "number": 1 })),
        ("web_fetch", json!({ "url": "http://localhost:9/" })),
        ("plan", json!({ "entries": [] })),
        ("delegate", json!({ "task": "nothing" })),
    ]
}

#[test]
fn acc_17_the_examples_are_every_tool() {
    let names: Vec<_> = registry().iter().map(|tool| tool.name).collect();
    assert_eq!(names, examples().iter().map(|(name, _)| *name).collect::<Vec<_>>());
}

#[test]
fn acc_17_read_only_refuses_every_tool_that_writes_runs_or_sends_and_offers_none() {
    let world = World::new().with("autonomy", json!("read_only"));
    world.file("a.txt", "content");
    let before = world.snapshot();
    let mut agent = world.opened();
    for (name, input) in examples() {
        let class = registry().iter().find(|tool| tool.name == name).unwrap().class;
        world.model.plays([Reply::Call(vec![(name, input)])]);
        agent.prompt("go").unwrap();
        let refused = agent.results().iter().any(|(_, text)| text.contains("`autonomy`"));
        let writes = matches!(class, Class::Write | Class::Execute | Class::Network);
        assert_eq!(refused, writes, "{name}: {:?}", agent.results());
    }
    assert!(agent.questions.is_empty());
    assert_eq!(world.snapshot(), before);
    let seen = world.model.seen();
    let offered = seen[0].body["tools"].as_array().unwrap();
    let offered: Vec<_> = offered.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        offered,
        ["read_file", "list", "search", "process_output", "stop_process", "plan", "delegate"]
    );
}

#[test]
fn acc_17_supervised_asks_for_each_and_does_what_was_shown_or_nothing() {
    for answer in ["once", "no", "cancelled"] {
        let world =
            World::new().with("autonomy", json!("supervised")).with("interpreters", json!(["python3"]));
        world.file("a.txt", "content");
        let before = world.snapshot();
        let mut agent = world.opened();
        agent.answer = Some(answer);
        let mut asked = Vec::new();
        for (name, input) in examples() {
            world.model.plays([Reply::Call(vec![(name, input)])]);
            let before = agent.questions.len();
            agent.prompt("go").unwrap();
            if agent.questions.len() > before {
                asked.push(name);
            }
        }
        let expected =
            registry().iter().filter(|tool| Autonomy::Supervised.judge(tool.class) == Verdict::Ask);
        assert_eq!(asked, expected.map(|tool| tool.name).collect::<Vec<_>>());
        if answer == "once" {
            assert_eq!(world.read("a.txt"), "other");
        } else {
            assert_eq!(world.snapshot(), before, "{answer}");
        }
        let edit = agent.questions.iter().find(|one| one["toolCall"]["title"] == "edit a.txt").unwrap();
        assert_eq!(edit["toolCall"]["content"][0]["oldText"], "content");
        assert_eq!(edit["toolCall"]["content"][0]["newText"], "other");
    }
}

#[test]
fn acc_17_always_is_for_one_tool_and_one_subject() {
    let world = World::new().with("autonomy", json!("supervised"));
    let mut agent = world.opened();
    agent.answer = Some("always");
    let write = |path: &str, content: &str| {
        ("write_file", json!({ "path": path, "content": content, "overwrite": true }))
    };
    for (call, questions) in [
        (write("a", "1"), 1),
        (write("a", "2"), 1),
        (write("b", "1"), 2),
        (("shell", json!({ "command": "echo 1" })), 3),
        (("shell", json!({ "command": "echo 2" })), 3),
        (("shell", json!({ "command": "ls" })), 4),
    ] {
        world.model.plays([Reply::Call(vec![call.clone()])]);
        agent.prompt("go").unwrap();
        assert_eq!(agent.questions.len(), questions, "{call:?}");
    }
    agent.mode("supervised").unwrap();
    world.model.plays([Reply::Call(vec![write("a", "3")])]);
    agent.prompt("go").unwrap();
    assert_eq!(agent.questions.len(), 5, "a change of the level forgets");
}

#[test]
fn acc_17_what_changed_while_somebody_thought_is_not_overwritten() {
    let world = World::new().with("autonomy", json!("supervised"));
    let file = world.file("a.txt", "content");
    world
        .model
        .plays([Reply::Call(vec![("edit", json!({ "path": "a.txt", "old": "content", "new": "theirs" }))])]);
    let mut agent = world.opened();
    agent.answer = None;
    let prompt = json!([{ "type": "text", "text": "go" }]);
    let id = agent.begin("session/prompt", json!({ "sessionId": agent.session, "prompt": prompt }));
    let question = loop {
        let message = agent.heard();
        if message["method"] == "session/request_permission" {
            break message["id"].clone();
        }
    };
    std::fs::write(&file, "content, and more by hand").unwrap();
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "once" } });
    agent.send(&json!({ "jsonrpc": "2.0", "id": question, "result": outcome }));
    agent.finish(id, "session/prompt").unwrap();
    assert!(agent.results()[0].1.contains("changed_since"), "{:?}", agent.results());
    assert_eq!(world.read("a.txt"), "content, and more by hand");
}

#[test]
fn acc_17_a_level_is_chosen_by_the_client_within_the_ceiling() {
    let world =
        World::new().with("autonomy", json!("read_only")).with("autonomy_ceiling", json!("supervised"));
    let mut agent = world.agent();
    let made = agent.open(&world.tree());
    let modes = made["modes"]["availableModes"].as_array().unwrap();
    assert_eq!(modes.len(), 2);
    agent.mode("supervised").unwrap();
    assert!(agent.mode("full").unwrap_err()["message"].as_str().unwrap().contains("no further"));
    assert!(agent.mode("yolo").is_err());
}

#[test]
fn acc_17_an_unknown_level_refuses_to_start() {
    let world = World::new();
    for config in [
        world.config.to_string().replace("\"full\"", "\"yolo\""),
        world.config.to_string().replace("\"writing\"", "\"wirting\""),
        String::new(),
        "{".to_owned(),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_palisade-agent"));
        let command = command.env_clear().env("PALISADE_AGENT_CONFIG", &config).env("MODEL_KEY", KEY);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{config}");
        assert!(output.stdout.is_empty());
        assert!(!output.stderr.is_empty());
        assert!(!String::from_utf8_lossy(&output.stderr).contains(KEY));
    }
}

#[test]
fn acc_17_the_table_in_the_documentation_is_the_registry() {
    let mut table = String::from("| tool | class | read_only | supervised | full |\n|---|---|---|---|---|\n");
    for tool in registry() {
        let verdicts = Autonomy::ALL.map(|level| level.judge(tool.class).word());
        table.push_str(&format!("| `{}` | {} | {} |\n", tool.name, tool.class.word(), verdicts.join(" | ")));
    }
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agent.md")).unwrap();
    assert!(page.contains(&table), "docs/agent.md must have this table:\n{table}");
}
