//! Real agents in sessions of the real daemon whose model is ill: it answers with errors, with nonsense, or late. Agents end their turns as if
//! nothing had been; what becomes of the task is the truth all the same, in a bounded time, and the next prompt works when the model is well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::acp::{has, node};
use crate::agents::{SAYS, installed, machine};
use crate::daemon::{ANTHROPIC, GEMINI, OPENAI, Stage, codex, document, programs, said};
use crate::world::{Request, Who, World, answer};

/// How long a task may take whose model is ill: agents try again for minutes.
const BOUND: Duration = Duration::from_secs(600);
/// What a model has that is asked with these words, and whether a task can end well with it.
const ILLS: [(&str, bool); 5] =
    [("error-500", false), ("error-429", false), ("noise", false), ("nonsense", false), ("late", true)];

/// Asked with these words a model keeps whoever asks waiting.
const SILENT: &str = "the silent one";

/// What an ill model answers; none if it is well.
fn ill(request: &Request) -> Option<Vec<u8>> {
    let body = String::from_utf8_lossy(&request.body);
    if body.contains(SILENT) {
        std::thread::sleep(Duration::from_secs(30));
    }
    let (ill, _) = ILLS.iter().find(|(word, _)| body.contains(&format!("the {word} one")))?;
    let json = "Content-Type: application/json\r\n";
    let error = |status: &str, kind: &str| {
        let body = format!(
            "{{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"not now\",\"code\":429}}}}"
        );
        answer(status, json, body.as_bytes())
    };
    match *ill {
        "error-500" => Some(error("500 Internal Server Error", "api_error")),
        "error-429" => Some(error("429 Too Many Requests", "rate_limit_error")),
        "noise" => Some(b"\x16\x03\x01 this is no HTTP at all\r\n\r\n".to_vec()),
        "nonsense" => Some(answer(
            "200 OK",
            "Content-Type: text/event-stream\r\n",
            b"data: {\"neither\": \"here nor there\n\n",
        )),
        // A part of what is tried: every answer waits.
        _ => {
            std::thread::sleep(Duration::from_secs(2));
            None
        }
    }
}

fn is_over(task: &Value) -> bool {
    ["done", "failed", "stopped"].contains(&task["state"].as_str().unwrap())
}

/// Waits for the end of every task; nobody is asked anything here.
#[track_caller]
fn ends(stage: &Stage<'_>, tasks: &[(String, String)]) -> Vec<Value> {
    let end = Instant::now() + BOUND;
    let over = |(session, task): &(String, String)| loop {
        let now = stage.task(session, task);
        if is_over(&now) {
            return now;
        }
        assert!(Instant::now() < end, "{now} {:?}", stage.steps(session));
        std::thread::sleep(Duration::from_millis(200));
    };
    tasks.iter().map(over).collect()
}

/// One agent, with every ill in a session of its own, at once.
fn tells_the_truth(
    agent: &str,
    key: (&'static str, &'static str),
    hosts: &[&str],
    links: &[(&str, &str)],
    model: fn(&Request) -> Vec<u8>,
) {
    let world = World::new(Who::User(24_001));
    if let Some(agents) = (!links.is_empty()).then(|| installed().unwrap()) {
        world.lends(&agents, ".npm-global/lib");
    }
    let well = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&well);
    let asked = Arc::new(AtomicUsize::new(0));
    let is_asked = Arc::clone(&asked);
    let answers = move |request: &Request| {
        if String::from_utf8_lossy(&request.body).contains(SILENT) {
            is_asked.fetch_add(1, Ordering::SeqCst);
        }
        let ill = if is_well.load(Ordering::SeqCst) { None } else { ill(request) };
        ill.unwrap_or_else(|| model(request))
    };
    let server = world.answering(443, hosts, Arc::new(answers));
    let stage = Stage::new(&world, &programs(&world, links));
    stage.keeps(key);
    let ask = |session: String, prompt: &str| {
        let task = stage.asks(&session, prompt);
        (session, task)
    };
    let tasks: Vec<_> = ILLS
        .iter()
        .map(|(ill, _)| ask(stage.session(&["--agent", agent]), &format!("what does the {ill} one say?")))
        .collect();
    // SES-04: when a task is `stopped` its agent asks its provider nothing any more.
    let stopped = ask(stage.session(&["--agent", agent]), &format!("what does {SILENT} say?"));
    let end = Instant::now() + BOUND;
    while asked.load(Ordering::SeqCst) == 0 {
        let now = stage.task(&stopped.0, &stopped.1);
        assert!(
            Instant::now() < end && !is_over(&now),
            "it does not ask: {now} {:?}",
            stage.steps(&stopped.0)
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    stage.palisade(&["session", "stop", &stopped.0]);
    let state = ends(&stage, std::slice::from_ref(&stopped))[0]["state"].clone();
    let before = asked.load(Ordering::SeqCst);
    assert_eq!(state, "stopped");

    let over = ends(&stage, &tasks);
    assert!(!server.seen().is_empty());
    for ((ill, _), ((session, _), task)) in ILLS.iter().zip(tasks.iter().zip(&over)) {
        println!("{agent}, {ill}: {} {} | {}", task["state"], task["why"], said(&stage.steps(session)));
    }
    for (((ill, can_end_well), (session, _)), task) in ILLS.iter().zip(&tasks).zip(&over) {
        let steps = stage.steps(session);
        let shown = || format!("{agent} {ill}: {task} {}", serde_json::to_string_pretty(&steps).unwrap());
        match can_end_well {
            true => assert!(task["state"] == "done" && said(&steps).contains(SAYS), "{}", shown()),
            false => assert_eq!(task["state"], "failed", "{}", shown()),
        }
        let why = task["why"].as_str().unwrap_or_default();
        let told = match *ill {
            "error-500" => "the provider answered 500",
            "error-429" => "the provider answered 429",
            "noise" => "the provider did not answer",
            _ => "",
        };
        assert!(why.contains(told), "{}", shown());
    }
    assert_eq!(asked.load(Ordering::SeqCst), before, "nothing was asked after it was stopped");
    // The next prompt of each works when the model does.
    well.store(true, Ordering::SeqCst);
    let again: Vec<_> = tasks.iter().map(|(session, _)| ask(session.clone(), "and now?")).collect();
    for ((session, _), task) in again.iter().zip(ends(&stage, &again)) {
        let steps = stage.steps(session);
        assert!(task["state"] == "done" && said(&steps).contains(SAYS), "{agent}: {task} {steps:?}");
    }
}

/// An agent that runs what it is told, ends its turn well whatever came of it, and knows a key.
const FAKE: &str = "title = \"An agent that runs what it is told\"\ncommand = \"acp-fake\"\nacp = [\"acp-fake\"]\n\
                    presets = [\"anthropic\"]\n[modes]\ndefault = { requests = \"ask\" }\n\
                    [[secret]]\nname = \"ANTHROPIC_API_KEY\"\nhosts = [\"api.anthropic.com\"]\n";

/// SES-21: an agent that ends its turn as if all was well is believed as far as its provider's answers bear it out: none that was good is a
/// failure, one that was bad at the end is told, one that became good is nothing.
#[test]
fn ses_21_an_agent_that_ends_well_after_an_error_of_its_provider_is_not_believed() {
    let world = World::new(Who::User(24_001));
    let by_path = |request: &Request| {
        let status = request.field("x-wants").unwrap_or("200 OK").to_owned();
        answer(&status, "Content-Type: application/json\r\n", b"{}")
    };
    let server = world.answering(443, &["api.anthropic.com"], Arc::new(by_path));
    let folder = world.home().join(".npm-global/bin");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(tests::program("acp-fake"), folder.join("acp-fake")).unwrap();
    document(&world, "runs", FAKE);
    let stage = Stage::new(&world, &format!("agents.path={}:/usr/local/bin:/usr/bin:/bin", folder.display()));
    stage.keeps(ANTHROPIC);
    let ask = |path: &str, status: &str| {
        format!(
            "curl -s -o /dev/null -X POST -H \"x-api-key: $ANTHROPIC_API_KEY\" -H 'x-wants: {status}' -d '{{}}' https://api.anthropic.com{path}; "
        )
    };
    let (bad, good) = (ask("/v1/messages", "500 Internal Server Error"), ask("/v1/messages", "200 OK"));
    let limit = ask("/v1/messages", "429 Too Many Requests");
    let count = ask("/v1/messages/count_tokens", "400 Bad Request");
    let note = "the last time it was asked";
    for (script, state, why, is_noted) in [
        (bad.clone(), "failed", "the provider answered 500, and nothing else", false),
        (format!("{bad}{limit}"), "failed", "the provider answered 429, and nothing else", false),
        (format!("{good}{bad}"), "done", "", true),
        (format!("{bad}{good}"), "done", "", false),
        (format!("{good}{count}"), "done", "", false),
        ("true".to_owned(), "done", "", false),
    ] {
        let session = stage.session(&["--agent", "runs"]);
        let task = (session.clone(), stage.asks(&session, &format!("run {script}")));
        let over = ends(&stage, std::slice::from_ref(&task)).remove(0);
        let steps = serde_json::to_string(&stage.steps(&session)).unwrap();
        assert_eq!(over["state"], state, "{script}: {over} {steps}");
        assert!(over["why"].as_str().unwrap().contains(why), "{script}: {over}");
        assert_eq!(steps.contains(note), is_noted, "{script}: {steps}");
    }
    assert!(server.seen().len() >= 8);
}

fn is_there(program: &str) -> bool {
    installed().is_some_and(|agents| has(&agents, program))
}

/// SES-21: Claude Code.
#[test]
fn ses_21_claude_code_with_an_ill_model_ends_in_truth() {
    if !is_there(&node()) {
        return;
    }
    let links = [
        ("node", node()),
        ("claude-agent-acp", "@agentclientprotocol/claude-agent-acp/dist/index.js".to_owned()),
    ];
    let links = links.each_ref().map(|(name, target)| (*name, target.as_str()));
    let hosts = ["api.anthropic.com", "platform.claude.com"];
    tells_the_truth("claude", ANTHROPIC, &hosts, &links, crate::agents::anthropic);
}

/// SES-21: Codex.
#[test]
fn ses_21_codex_with_an_ill_model_ends_in_truth() {
    let program = codex();
    if is_there(&program) {
        let hosts = ["api.openai.com", "chatgpt.com"];
        tells_the_truth("codex", OPENAI, &hosts, &[("codex-acp", &program)], crate::agents::openai);
    }
}

/// SES-21: Gemini CLI.
#[test]
fn ses_21_gemini_with_an_ill_model_ends_in_truth() {
    if !is_there(&node()) {
        return;
    }
    let links = [("node", node()), ("gemini", "@google/gemini-cli/bundle/gemini.js".to_owned())];
    let links = links.each_ref().map(|(name, target)| (*name, target.as_str()));
    tells_the_truth("gemini", GEMINI, &["generativelanguage.googleapis.com"], &links, crate::agents::gemini);
}

/// SES-21: OpenCode.
#[test]
fn ses_21_opencode_with_an_ill_model_ends_in_truth() {
    let program = format!("opencode-linux-{}/bin/opencode", machine().0);
    if is_there(&program) {
        let links = [("opencode", program.as_str())];
        tells_the_truth("opencode", ANTHROPIC, &["api.anthropic.com"], &links, crate::agents::anthropic);
    }
}

/// SES-21: the built-in agent.
#[test]
fn ses_21_the_built_in_agent_with_an_ill_model_ends_in_truth() {
    tells_the_truth("palisade", ANTHROPIC, &["api.anthropic.com"], &[], crate::agents::anthropic);
}
