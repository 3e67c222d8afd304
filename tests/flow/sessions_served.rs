//! Files and terminals that an agent asks its client for: served beside it, inside the sandbox, in its worktree, and by nobody else.

use std::path::Path;

use serde_json::{Value, json};
use tests::{Host, Person};

use crate::calls::new_session;
use crate::sessions::{ended, said, steps};

/// The agent of every test here, with somebody beside it or without.
fn host(beside: bool) -> Host {
    let mut host = Host::builder()
        .set("limits.requests_per_minute", "0")
        .set("budgets.session_messages_per_minute", "0")
        .stopped();
    let document = format!(
        "title = \"An agent that asks its client\"\ncommand = \"acp-fake\"\nacp = [\"acp-fake\"]\nbeside = {beside}\n\
         [modes]\ndefault = {{ requests = \"ask\" }}\n"
    );
    std::fs::write(host.place().join("agents/fake.toml"), document).unwrap();
    host.start_daemon().unwrap();
    host.claim();
    host
}

/// What the agent was told to each of its questions, and whether the daemon had to refuse anything.
#[track_caller]
fn answers(person: &Person, worktree: &str, questions: &Value) -> (Vec<Value>, bool) {
    let session = person.client.create_session(&new_session(worktree)).unwrap().id;
    let task = person.client.prompt_session(&session, &format!("client {questions}")).unwrap();
    let over = ended(person, &session, &task.id);
    let told = steps(person, &session);
    assert_eq!(over.state, "done", "{over:?} {told:?}");
    let answers = said(&told).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (answers, told.iter().any(|step| step.kind == "error"))
}

fn ask(tree: &Path) -> Value {
    json!([
        ["fs/write_text_file", { "path": tree.join("made"), "content": "one\ntwo\n" }],
        ["fs/read_text_file", { "path": tree.join("made"), "line": 2 }],
        ["terminal/create", { "command": "wc", "args": ["-c", "made"], "cwd": tree }],
        ["terminal/wait_for_exit", { "terminalId": "terminal_1" }],
        ["terminal/output", { "terminalId": "terminal_1" }],
        ["terminal/release", { "terminalId": "terminal_1" }],
    ])
}

/// SES-14: what an agent asks of a client is done in its worktree, by whoever is beside it inside; the daemon is asked for none of it.
#[test]
fn ses_14_files_and_terminals_are_served_inside_the_sandbox() {
    let host = host(true);
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let tree = host.data().join("worktrees").join(&worktree);
    let (answers, is_refused) = answers(owner, &worktree, &ask(&tree));
    assert!(!is_refused, "{answers:?}");
    assert_eq!(answers[0], json!({}));
    assert_eq!(answers[1], json!({ "content": "two\n" }));
    assert_eq!(answers[3]["exitCode"], 0, "{answers:?}");
    assert_eq!(answers[4]["output"], "8 made\n", "{answers:?}");
    assert_eq!(answers[5], json!({}));
    assert_eq!(std::fs::read_to_string(tree.join("made")).unwrap(), "one\ntwo\n", "carried into the tree");
}

/// SES-14: nothing that lies outside of the worktree is served, by whatever name, and a terminal has no more than the sandbox.
#[test]
fn ses_14_what_is_served_is_confined_to_the_worktree() {
    let host = host(true);
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let tree = host.data().join("worktrees").join(&worktree);
    let outside = host.place().join("outside");
    std::fs::write(&outside, "as it was").unwrap();
    let config = host.place().join("config.toml");
    let up = tree.join("../../../outside");
    let questions = json!([
        ["fs/read_text_file", { "path": "/etc/shadow" }],
        ["fs/read_text_file", { "path": tree.join("../../../config.toml") }],
        ["fs/read_text_file", { "path": "../config.toml" }],
        ["fs/read_text_file", { "path": config }],
        ["fs/write_text_file", { "path": up, "content": "planted" }],
        ["fs/write_text_file", { "path": outside, "content": "planted" }],
        ["fs/write_text_file", { "path": "/etc/shadow", "content": "planted" }],
        ["terminal/create", { "command": "true", "cwd": "/etc" }],
        ["terminal/create", { "command": "true", "cwd": tree.join("..") }],
        ["terminal/create", { "command": "cat", "args": [config] }],
        ["terminal/wait_for_exit", { "terminalId": "terminal_1" }],
    ]);
    let (answers, is_refused) = answers(owner, &worktree, &questions);
    assert!(!is_refused, "they are refused where they are served: {answers:?}");
    for (question, answer) in questions.as_array().unwrap().iter().zip(&answers).take(9) {
        assert_eq!(answer["code"], -32_602, "{question}: {answer}");
    }
    assert_ne!(answers[10]["exitCode"], 0, "it is not there inside: {answers:?}");
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "as it was");
}

/// SES-14: an agent whose document says nothing of it is served by nobody: the daemon refuses each, and nothing is written.
#[test]
fn ses_14_the_daemon_itself_serves_no_file_and_no_terminal() {
    let host = host(false);
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let tree = host.data().join("worktrees").join(&worktree);
    let (answers, is_refused) = answers(owner, &worktree, &ask(&tree));
    assert!(is_refused && answers.iter().all(|answer| answer["code"] == -32_601), "{answers:?}");
    assert!(!tree.join("made").exists());
}
