//! Permission modes of real agents in sessions of the real daemon: what each asks a person in it, what it does then, and what its
//! model is told of it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::acp::{anthropic, gemini, has, node};
use crate::agents::installed;
use crate::daemon::{ANTHROPIC, GEMINI, Stage, id, programs};
use crate::world::{Request, Server, Who, World};

/// How long a task may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// What an agent does in a mode: whether it asks before it changes a file and before it runs a command, and whether these are done.
struct Row {
    mode: &'static str,
    asks: [bool; 2],
    does: [bool; 2],
}

const fn row(mode: &'static str, asks: [bool; 2], does: [bool; 2]) -> Row {
    Row { mode, asks, does }
}

/// Nobody allows anything: the kinds of what was asked until the task was over.
#[track_caller]
fn denies(stage: &Stage<'_>, session: &str, task: &str) -> Vec<String> {
    let (end, mut kinds) = (Instant::now() + PATIENCE, Vec::new());
    loop {
        let now = stage.task(session, task);
        if ["done", "failed", "stopped"].contains(&now["state"].as_str().unwrap()) {
            return kinds;
        }
        for one in stage.approvals(session) {
            kinds.push(one["asks"]["call"]["kind"].as_str().unwrap_or("none").to_owned());
            stage.palisade(&["approval", "deny", session, one["id"].as_str().unwrap()]);
        }
        assert!(Instant::now() < end, "{now} {}", stage.daemon.log());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Each mode in a worktree of its own. `planning` is what a model is told in `plan`, and never otherwise.
#[track_caller]
fn keep_their_word(
    (agent, key, host): (&str, (&'static str, &'static str), &str),
    links: &[(&str, &str)],
    model: fn(&Request, &str, &str) -> Vec<u8>,
    planning: &str,
    rows: &[Row],
) {
    let Some(agents) = installed().filter(|agents| has(agents, &node())) else { return };
    let world = World::new(Who::User(24_001));
    world.lends(&agents, ".npm-global/lib");
    let place = Arc::<Mutex<String>>::default();
    let at = Arc::clone(&place);
    let answers = move |request: &Request| model(request, key.0, &at.lock().unwrap().clone());
    let server: Server = world.answering(443, &[host, "platform.claude.com"], Arc::new(answers));
    let stage = Stage::new(&world, &programs(&world, links));
    stage.keeps(key);
    for Row { mode, asks, does } in rows {
        let worktree = id(&stage.palisade(&["worktree", "create", "demo", &mode.to_lowercase()]));
        let tree: PathBuf = stage.tree.with_file_name(&worktree);
        *place.lock().unwrap() = tree.display().to_string();
        let session = id(&stage.palisade(&["session", "new", &worktree, "--agent", agent, "--mode", mode]));
        let before = server.seen().len();
        let task = stage.asks(&session, "what is it?");
        let kinds = match *mode {
            "plan" => denies(&stage, &session, &task),
            _ => stage.allows(&session, &task).1,
        };
        let shown = || format!("{agent} {mode} {kinds:?} {:?}", stage.steps(&session));
        let asked = |kind: &str| kinds.iter().any(|one| one == kind);
        assert_eq!([asked("edit"), asked("execute")], *asks, "{}", shown());
        let log = stage.palisade(&["worktree", "log", &worktree]);
        let is_committed = log[0]["subject"] == "by the agent";
        assert_eq!([tree.join("made.txt").exists(), is_committed], *does, "{log} {}", shown());
        let state: Value = stage.task(&session, &task)["state"].clone();
        assert_eq!(state, "done", "{}", shown());
        let seen = server.seen();
        let is_told = seen[before..].iter().any(|one| String::from_utf8_lossy(&one.body).contains(planning));
        assert_eq!(is_told, *mode == "plan", "{}", shown());
    }
}

/// SES-16: what people are promised of the modes of Claude Code.
#[test]
fn ses_16_the_modes_of_claude_code_keep_their_word() {
    keep_their_word(
        ("claude", ANTHROPIC, "api.anthropic.com"),
        &[("node", &node()), ("claude-agent-acp", "@agentclientprotocol/claude-agent-acp/dist/index.js")],
        anthropic,
        "Plan mode is active",
        &[
            row("default", [true, true], [true, true]),
            row("acceptEdits", [false, true], [true, true]),
            row("bypassPermissions", [false, false], [true, true]),
            row("allow-all", [false, false], [true, true]),
            // It asks all the same, and whoever is asked is who refuses.
            row("plan", [true, true], [false, false]),
        ],
    );
}

/// SES-16: the same of Gemini CLI.
#[test]
fn ses_16_the_modes_of_gemini_keep_their_word() {
    keep_their_word(
        ("gemini", GEMINI, "generativelanguage.googleapis.com"),
        &[("node", &node()), ("gemini", "@google/gemini-cli/bundle/gemini.js")],
        gemini,
        "Active Approval Mode: Plan",
        &[
            row("default", [true, true], [true, true]),
            row("acceptEdits", [false, true], [true, true]),
            row("bypassPermissions", [false, false], [true, true]),
            row("allow-all", [false, false], [true, true]),
            // It refuses by itself: nobody is asked.
            row("plan", [false, false], [false, false]),
        ],
    );
}
