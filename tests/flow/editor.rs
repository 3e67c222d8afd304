//! `palisade acp`: an editor that speaks ACP uses the daemon's agents. The editor is the project's own client of the protocol, or lines
//! written by hand; the daemon, the sandbox and the worktree are real.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use acp_kit::conforms::{Scene, Started, Subject, WORDS, conforms};
use acp_kit::schema;
use serde_json::{Value, json};
use tests::{Host, Person};

use crate::sessions::{ended, quiet, steps, tasks, until};

const PATIENCE: Duration = Duration::from_secs(60);

fn palisade_acp(host: &Host, who: &Person, words: &[&str]) -> Command {
    let mut command = host.command("palisade");
    command.args(["--url", host.base(), "acp", "--agent", "fake"]).args(words);
    command.env("PALISADE_API_KEY", who.client.token().unwrap());
    command
}

/// An editor that writes lines and reads them; every one it reads is a message of the protocol.
struct Editor {
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<Value>,
    last: u64,
    /// What was told while something else was waited for.
    told: Vec<Value>,
}

impl Editor {
    fn starts(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (told, from) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let message: Value =
                    serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"));
                if let Some(method) = message["method"].as_str() {
                    schema::check_sent(method, &message["params"]);
                }
                if told.send(message).is_err() {
                    return;
                }
            }
        });
        Self { to: child.stdin.take(), child, from, last: 0, told: Vec::new() }
    }

    fn greeted(command: Command) -> Self {
        let mut editor = Self::starts(command);
        let answer = editor.calls("initialize", &json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        editor
    }

    fn writes(&mut self, line: &str) {
        self.to.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn asks(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.writes(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id
    }

    #[track_caller]
    fn hears(&mut self, what: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self
                .from
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("waited in vain: {:?}", self.told));
            if what(&message) {
                return message;
            }
            self.told.push(message);
        }
    }

    #[track_caller]
    fn answer(&mut self, id: u64) -> Value {
        self.hears(|message| message["id"] == id && message.get("method").is_none())
    }

    #[track_caller]
    fn calls(&mut self, method: &str, params: &Value) -> Value {
        let id = self.asks(method, params);
        let answer = self.answer(id);
        if answer.get("result").is_some() {
            schema::check_answer(method, &answer["result"]);
        }
        answer
    }

    fn opens(&mut self, cwd: &Path) -> String {
        let answer = self.calls("session/new", &json!({ "cwd": cwd, "mcpServers": [] }));
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn prompts(&mut self, session: &str, text: &str) -> u64 {
        self.asks(
            "session/prompt",
            &json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] }),
        )
    }

    fn question(&mut self) -> Value {
        self.hears(|message| message["method"] == "session/request_permission")
    }

    fn decides(&mut self, question: &Value, outcome: &Value) {
        self.writes(
            &json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "outcome": outcome } }).to_string(),
        );
    }

    /// What the agent said so far, put together.
    fn said(&self) -> String {
        let said = self.told.iter().map(|message| &message["params"]["update"]);
        let said = said.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        said.filter_map(|update| update["content"]["text"].as_str()).collect()
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// SES-14: what an editor gets keeps the contract that every agent keeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ses_14_what_an_editor_gets_keeps_the_contract() {
    let host = tokio::task::spawn_blocking(quiet).await.unwrap();
    let (subject, host) = tokio::task::spawn_blocking(move || {
        let owner = host.owner().clone();
        let worktree = host.tree(&owner, "demo", "session").id;
        let made = host.data().join("worktrees").join(&worktree).join("made.txt");
        let (base, config) = (host.base().to_owned(), host.place().to_owned());
        let start = move || {
            let mut command = Command::new(tests::program("palisade"));
            command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &config);
            command.arg("--config").arg(config.join("config.toml"));
            command.args(["--url", &base, "acp", "--agent", "fake", "--worktree", "demo"]);
            command.env("PALISADE_API_KEY", owner.client.token().unwrap());
            Started::program(command)
        };
        let scene = |scene| match scene {
            Scene::Says => format!("say {WORDS}"),
            Scene::Stalls => "stall one moment please".to_owned(),
            Scene::Asks => "ask made.txt".to_owned(),
        };
        let subject = Subject {
            start: Box::new(start),
            scene: Box::new(scene),
            cwd: "/".into(),
            made,
            sign_in: None,
            asking_mode: None,
            patience: Duration::from_secs(100),
        };
        (subject, host)
    })
    .await
    .unwrap();
    let report = conforms(&subject).await;
    report.assert_held(&[]);
    assert!(report.odd.is_empty(), "{report:#?}");
    tokio::task::spawn_blocking(move || drop(host)).await.unwrap();
}

/// An editor's directory leads to the worktree of its repository, or to an error that says what to do.
#[test]
fn ses_14_an_editor_s_directory_leads_to_its_worktree() {
    let host = quiet();
    let owner = host.owner();
    let first = host.tree(owner, "demo", "session");
    let origin = host.origin("demo");
    std::fs::create_dir(origin.join("deep")).unwrap();
    let mut editor = Editor::greeted(palisade_acp(&host, owner, &[]));
    for cwd in [origin.clone(), origin.join("deep")] {
        let session = editor.opens(&cwd);
        assert_eq!(owner.client.session(&session).unwrap().worktree, first.id);
    }
    for (cwd, said) in [
        (host.place(), "no repository"),
        (Path::new("/does/not/exist"), "No such file"),
        (Path::new("relative"), "absolute"),
    ] {
        let answer = editor.calls("session/new", &json!({ "cwd": cwd, "mcpServers": [] }));
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(said) && answer["error"]["code"] == -32_602, "{answer}");
    }
    let second = owner.worktree(&first.repo, "other", "session");
    let answer = editor.calls("session/new", &json!({ "cwd": origin, "mcpServers": [] }));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("--worktree") && message.contains("other") && message.contains("demo"),
        "{answer}"
    );
    let mut chosen = Editor::greeted(palisade_acp(&host, owner, &["--worktree", "other"]));
    let session = chosen.opens(&origin);
    assert_eq!(owner.client.session(&session).unwrap().worktree, second.id);

    // Whoever is not signed in is told so, and how to.
    let mut command = host.command("palisade");
    command.args(["--url", host.base(), "acp"]);
    let mut stranger = Editor::greeted(command);
    for (method, params) in [
        ("session/new", json!({ "cwd": origin, "mcpServers": [] })),
        ("authenticate", json!({ "methodId": "palisade-login" })),
    ] {
        let answer = stranger.calls(method, &params);
        assert_eq!(answer["error"]["code"], -32_000, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("palisade login"), "{answer}");
    }
    assert!(editor.calls("authenticate", &json!({ "methodId": "palisade-login" })).get("result").is_some());
}

/// SES-19, SES-01: what is no message, unknown or too much is refused by its code, and what is at work goes on.
#[test]
fn ses_01_one_prompt_at_a_time_and_junk_changes_nothing() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let mut editor = Editor::starts(palisade_acp(&host, owner, &["--worktree", "demo"]));
    let early = editor.calls("session/new", &json!({ "cwd": "/", "mcpServers": [] }));
    assert_eq!(early["error"]["code"], -32_600, "{early}");
    editor.calls("initialize", &json!({ "protocolVersion": 1 }));
    let session = editor.opens(Path::new("/"));
    let running = editor.prompts(&session, "stall here I am");
    editor.hears(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");

    let again = editor.prompts(&session, "say more");
    let refused = editor.answer(again);
    assert_eq!(refused["error"]["code"], -32_600, "{refused}");
    let load = editor.calls("session/load", &json!({ "sessionId": session, "cwd": "/", "mcpServers": [] }));
    assert_eq!(load["error"]["code"], -32_600, "{load}");
    let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"{}\"}}", "x".repeat(9 << 20));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for line in ["nonsense", "[]", "{}", "{\"id\":{},\"method\":\"x\"}", "\u{1b}[2J", &deep, &long] {
        editor.writes(line);
        let answer = editor.hears(|message| message["id"].is_null() && message.get("method").is_none());
        assert_eq!(answer["error"]["code"], -32_700, "{answer}");
    }
    for method in ["session/set_mode", "terminal/create", "no/such\u{7}thing", ""] {
        let answer = editor.calls(method, &json!({ "sessionId": session }));
        assert_eq!(answer["error"]["code"], -32_601, "{answer}");
    }
    for params in [
        json!(null),
        json!({}),
        json!({ "sessionId": 7, "prompt": [] }),
        json!({ "sessionId": session, "prompt": [] }),
        json!([[[[]]]]),
    ] {
        let answer = editor.calls("session/prompt", &params);
        assert_eq!(answer["error"]["code"], -32_602, "{answer}");
    }
    let unknown = json!({ "sessionId": "ses_0", "prompt": [{ "type": "text", "text": "x" }] });
    assert_eq!(editor.calls("session/prompt", &unknown)["error"]["code"], -32_002);
    // Answers to nothing that was asked.
    for id in [0, 1, 999] {
        editor.writes(&json!({ "jsonrpc": "2.0", "id": id, "result": { "outcome": { "outcome": "selected", "optionId": "yes" } } }).to_string());
    }
    assert_eq!(tasks(owner, &session).len(), 1, "nothing else was asked");
    editor.writes(
        &json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } })
            .to_string(),
    );
    let answer = editor.answer(running);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    assert_eq!(tasks(owner, &session)[0].state, "stopped");

    // The editor goes in the middle of a turn: the task is the daemon's, and ends by the daemon.
    editor.prompts(&session, "stall again");
    let task =
        until("it is at work", || tasks(owner, &session).into_iter().find(|task| task.state == "running"));
    drop(editor.to.take());
    assert!(editor.child.wait().unwrap().success());
    assert_eq!(tasks(owner, &session).last().unwrap().state, "running");
    owner.client.stop_session(&session).unwrap();
    assert_eq!(ended(owner, &session, &task.id).state, "stopped");
    drop(worktree);
}

/// ACC-12: a yes in the editor is for the effect that it showed; whatever is no clear yes is a no.
#[test]
fn acc_12_what_the_person_says_in_the_editor_decides_what_was_shown() {
    let host = quiet();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session").id;
    let mut editor = Editor::greeted(palisade_acp(&host, owner, &[]));
    let session = editor.opens(&host.origin("demo"));
    let is_there = |name: &str| owner.client.worktree_files(&worktree, name).is_ok();
    let selected = |id: &str| json!({ "outcome": "selected", "optionId": id });
    let outcomes = [
        ("first", selected("yes"), true),
        ("second", selected("no"), false),
        ("third", json!({ "outcome": "cancelled" }), false),
        ("fourth", selected("maybe"), false),
        ("fifth", json!({ "outcome": "maybe", "optionId": "yes" }), false),
        ("sixth", json!("yes"), false),
    ];
    for (name, outcome, done) in outcomes {
        let prompt = editor.prompts(&session, &format!("ask {name}"));
        let question = editor.question();
        let call = &question["params"]["toolCall"];
        assert!(call["title"].as_str().unwrap().contains(name), "{question}");
        assert_eq!(call["content"][0]["type"], "diff", "{question}");
        let waits = owner.client.approvals(&session, false).unwrap().items.pop().unwrap();
        let head = host.ledger_head();
        editor.decides(&question, &outcome);
        let answer = editor.answer(prompt);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert_eq!(is_there(name), done, "{name}");
        let action = if done { "approval.allow" } else { "approval.deny" };
        let entries = host.since(head);
        let entry = entries.iter().find(|entry| entry.action == action && entry.line.contains(&waits.effect));
        assert!(entry.is_some(), "{name}: {entries:?}");
    }
    // A part that looks like a secret is not shown, and that is said where the person decides.
    let prompt = editor.prompts(&session, &format!("ask ghp_{}", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hL3nR6"));
    let question = editor.question();
    let call = &question["params"]["toolCall"];
    assert!(call["title"].as_str().unwrap().starts_with("[not all of this is shown] "), "{question}");
    assert!(call["content"][0]["content"]["text"].as_str().unwrap().contains("is not shown"), "{question}");
    editor.decides(&question, &selected("no"));
    editor.answer(prompt);
    // Decided elsewhere: the turn goes on, and what the editor says later changes nothing.
    let prompt = editor.prompts(&session, "ask seventh");
    let question = editor.question();
    let waits = owner.client.approvals(&session, false).unwrap().items.pop().unwrap();
    owner
        .client
        .deny_approval(&session, &waits.id, &api::DenyRequest { effect: waits.effect.clone() })
        .unwrap();
    editor.answer(prompt);
    editor.decides(&question, &selected("yes"));
    assert!(!is_there("seventh"));
    let calls: Vec<&Value> = editor.told.iter().map(|message| &message["params"]["update"]).collect();
    for (kind, status) in
        [("tool_call", "pending"), ("tool_call_update", "completed"), ("tool_call_update", "failed")]
    {
        let is_told = |update: &&&Value| update["sessionUpdate"] == kind && update["status"] == status;
        assert!(calls.iter().any(|update| is_told(&update)), "{kind} {status}: {calls:?}");
    }
}

/// SES-03, SES-12: the daemon is killed in the middle of a turn: the editor sees each step once and is told the truth, and
/// another editor that loads the session is told all of it again.
#[test]
fn ses_03_a_daemon_that_is_started_again_is_gone_on_with() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut host = Host::builder()
        .set("limits.requests_per_minute", "0")
        .set("server.listen", &free.to_string())
        .start();
    let owner = host.owner().clone();
    let _worktree = host.tree(&owner, "demo", "session");
    let mut editor = Editor::greeted(palisade_acp(&host, &owner, &[]));
    let session = editor.opens(&host.origin("demo"));
    let prompt = editor.prompts(&session, "stall one two three");
    until("it says something", || {
        let said = steps(&owner, &session);
        said.iter().any(|step| step.kind == "assistant").then_some(())
    });
    host.kill();
    std::thread::sleep(Duration::from_millis(700));
    host.restart();
    let answer = editor.answer(prompt);
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("the daemon ended"), "{answer}");
    let said: String = steps(&owner, &session)
        .iter()
        .filter(|step| step.kind == "assistant")
        .filter_map(|step| step.body["text"].as_str())
        .collect();
    assert_eq!(editor.said(), said, "each piece once, in order");
    let next = editor.prompts(&session, "say and now on");
    let answer = editor.answer(next);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(editor.said().ends_with("and now on"), "{}", editor.said());

    let mut later = Editor::greeted(palisade_acp(&host, &owner, &[]));
    let missing = format!("ses_{}", "0".repeat(32));
    let place = |id: &str| json!({ "sessionId": id, "cwd": "/", "mcpServers": [] });
    assert_eq!(later.calls("session/load", &place(&missing))["error"]["code"], -32_002);
    assert!(later.calls("session/load", &place(&session)).get("result").is_some());
    let again: Vec<&str> =
        later.told.iter().filter_map(|told| told["params"]["update"]["sessionUpdate"].as_str()).collect();
    assert_eq!(again.iter().filter(|kind| **kind == "user_message_chunk").count(), 2, "{again:?}");
    assert!(later.said().contains("one two") && later.said().ends_with("and now on"), "{}", later.said());
}
