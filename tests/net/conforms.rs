//! The contract that every agent keeps (SES-14), tried with the real ones: each by itself in `palisade run`, and each as an editor gets it
//! from `palisade acp`, behind the daemon. Their models are the test's own and play the scenes.
//!
//! What an agent does not keep is said in its row, and a row that says too much fails as well.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::agents::Mode;
use acp_kit::conforms::{Part, Report, Scene, Started, Subject, WORDS, conforms};
use serde_json::{Value, json};

use crate::agents::{installed, machine};
use crate::daemon::{ANTHROPIC, GEMINI, OPENAI, codex, programs};
use crate::world::{Request, Server, Who, World, answer};

/// How long one part may take: these start slowly, and several do at once.
const PATIENCE: Duration = Duration::from_secs(150);
/// What a prompt says by which the model knows that something is wanted of it that is asked about.
const DO_IT: &str = "please make that file";

/// Tokens that every answer says it took: new ones of the question, of the answer, read from a cache, written to one.
pub const TOKENS: [i64; 4] = [1_000, 200, 3_000, 50];

/// What is being played, and where the agent works.
#[derive(Clone)]
pub struct Play(Arc<Mutex<(Scene, String)>>);

/// What a model has to say next.
enum Line {
    Words,
    /// Something, and then nothing more.
    Begins,
    Calls,
}

impl Play {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new((Scene::Says, String::new()))))
    }

    pub fn at(&self, place: &std::path::Path) {
        self.0.lock().unwrap().1 = place.display().to_string();
    }

    /// What is played next, and what to prompt for it.
    pub fn next(&self, scene: Scene) -> String {
        self.0.lock().unwrap().0 = scene;
        if scene == Scene::Asks { DO_IT.to_owned() } else { "what is it?".to_owned() }
    }

    fn made(&self) -> String {
        format!("{}/made.txt", self.0.lock().unwrap().1)
    }

    /// The next line, for whoever offers tools. What was asked for last is done once: its result stands behind the prompt then.
    fn line(&self, request: &Request, is_agent: bool, result: &str) -> Line {
        let body = String::from_utf8_lossy(&request.body);
        match self.0.lock().unwrap().0 {
            Scene::Stalls if is_agent => Line::Begins,
            Scene::Asks if is_agent && body.rfind(DO_IT) > body.rfind(result) => Line::Calls,
            _ => Line::Words,
        }
    }
}

/// A name that no other answer has: two of the same are one to Claude Code.
fn name(kind: &str) -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("{kind}_{}", LAST.fetch_add(1, Ordering::Relaxed))
}

/// The words in pieces, as models send them.
fn pieces() -> Vec<String> {
    WORDS.split_inclusive(' ').map(str::to_owned).collect()
}

/// An answer that begins and does not go on: the connection stays as it is.
fn without_end(events: &str) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    format!("{head}{:x}\r\n{events}\r\n", events.len()).into_bytes()
}

fn with_end(events: &str) -> Vec<u8> {
    answer("200 OK", "Content-Type: text/event-stream\r\n", events.as_bytes())
}

fn nothing() -> Vec<u8> {
    answer("404 Not Found", "Content-Type: application/json\r\n", b"{}")
}

/// A model of Anthropic; the tools are those that the request names.
fn anthropic(request: &Request, play: &Play) -> Vec<u8> {
    if request.path() != "/v1/messages" {
        return nothing();
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let has =
        |name: &&str| body["tools"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == *name));
    let tool = ["Write", "write", "write_file"].into_iter().find(has);
    let event = |event: Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    let [input, output, read, written] = TOKENS;
    let usage = json!({ "input_tokens": input, "output_tokens": output, "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written });
    let mut events = event(
        json!({ "type": "message_start", "message": { "id": name("msg"), "type": "message", "role": "assistant",
        "model": "claude-sonnet-4-5", "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage } }),
    );
    let mut block = |block: Value, deltas: Vec<Value>| {
        events += &event(json!({ "type": "content_block_start", "index": 0, "content_block": block }));
        for delta in deltas {
            events += &event(json!({ "type": "content_block_delta", "index": 0, "delta": delta }));
        }
    };
    let text =
        |all: Vec<String>| all.into_iter().map(|one| json!({ "type": "text_delta", "text": one })).collect();
    let ends = match play.line(request, tool.is_some(), "\"tool_result\"") {
        Line::Begins => {
            block(json!({ "type": "text", "text": "" }), text(vec!["one moment ".into()]));
            return without_end(&events);
        }
        Line::Words => {
            block(json!({ "type": "text", "text": "" }), text(pieces()));
            "end_turn"
        }
        Line::Calls => {
            let tool = tool.unwrap_or_default();
            let path = match tool {
                "Write" => json!({ "file_path": play.made() }),
                "write" => json!({ "filePath": play.made() }),
                _ => json!({ "path": "made.txt" }),
            };
            let mut input = path;
            input["content"] = "made\n".into();
            let id = name("toolu");
            let delta = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
            block(json!({ "type": "tool_use", "id": id, "name": tool, "input": {} }), vec![delta]);
            "tool_use"
        }
    };
    events += &event(json!({ "type": "content_block_stop", "index": 0 }));
    let delta = json!({ "stop_reason": ends, "stop_sequence": null });
    events += &event(json!({ "type": "message_delta", "delta": delta, "usage": usage }));
    events += &event(json!({ "type": "message_stop" }));
    with_end(&events)
}

/// The same for Codex.
fn openai(request: &Request, play: &Play) -> Vec<u8> {
    if request.path() != "/v1/responses" || !request.head.starts_with("POST ") {
        return nothing();
    }
    let event = |kind: &str, rest: Value| (kind.to_owned(), rest.to_string());
    let item_id = name("msg");
    let message = |text: &str| {
        let content =
            if text.is_empty() { json!([]) } else { json!([{ "type": "output_text", "text": text }]) };
        json!({ "type": "message", "role": "assistant", "id": item_id, "content": content })
    };
    let spoken = |all: Vec<String>| {
        let delta = |text: String| {
            event(
                "response.output_text.delta",
                json!({ "item_id": item_id, "output_index": 0, "content_index": 0, "delta": text }),
            )
        };
        let added = event("response.output_item.added", json!({ "output_index": 0, "item": message("") }));
        [added].into_iter().chain(all.into_iter().map(delta)).collect::<Vec<_>>()
    };
    let mut events = vec![event("response.created", json!({ "response": { "id": "resp_1" } }))];
    let text = |events: &[(String, String)]| {
        let events: String = events
            .iter()
            .map(|(kind, rest)| {
                let rest = rest.trim_start_matches('{');
                format!("event: {kind}\ndata: {{\"type\":\"{kind}\",{rest}\n\n")
            })
            .collect();
        events
    };
    let item = match play.line(request, true, "_call_output\"") {
        Line::Begins => {
            events.extend(spoken(vec!["one moment ".into()]));
            return without_end(&text(&events));
        }
        Line::Words => {
            events.extend(spoken(pieces()));
            message(WORDS)
        }
        Line::Calls => {
            let id = name("call");
            let patch = "*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch";
            json!({ "type": "custom_tool_call", "id": id, "call_id": id, "name": "apply_patch", "input": patch })
        }
    };
    events.push(event("response.output_item.done", json!({ "output_index": 0, "item": item })));
    let [input, output, read, _] = TOKENS;
    let usage = json!({
        "input_tokens": input + read, "input_tokens_details": { "cached_tokens": read }, "output_tokens": output,
        "output_tokens_details": null, "total_tokens": input + read + output,
    });
    events.push(event("response.completed", json!({ "response": { "id": "resp_1", "usage": usage } })));
    with_end(&text(&events))
}

/// The same for Gemini CLI, which first asks a small model which model to ask.
fn gemini(request: &Request, play: &Play) -> Vec<u8> {
    if request.path().ends_with(":generateContent") {
        let text = r#"{"complexity_reasoning":"x","complexity_score":1}"#;
        let turn = json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] }, "finishReason": "STOP", "index": 0 }] });
        return answer("200 OK", "Content-Type: application/json\r\n", turn.to_string().as_bytes());
    }
    if !request.path().ends_with(":streamGenerateContent") {
        return nothing();
    }
    let event = |part: Value, ends: bool| {
        let mut candidate = json!({ "content": { "role": "model", "parts": [part] }, "index": 0 });
        if ends {
            candidate["finishReason"] = "STOP".into();
        }
        let [input, output, read, _] = TOKENS;
        let usage = json!({ "promptTokenCount": input + read, "cachedContentTokenCount": read,
            "candidatesTokenCount": output, "totalTokenCount": input + read + output });
        format!(
            "data: {}\r\n\r\n",
            json!({ "candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash" })
        )
    };
    match play.line(request, true, "\"functionResponse\"") {
        Line::Begins => without_end(&event(json!({ "text": "one moment " }), false)),
        Line::Words => {
            let (all, last) = (pieces(), pieces().len() - 1);
            let events: String = all
                .into_iter()
                .enumerate()
                .map(|(at, text)| event(json!({ "text": text }), at == last))
                .collect();
            with_end(&events)
        }
        Line::Calls => {
            let input = json!({ "file_path": play.made(), "content": "made\n" });
            with_end(&event(json!({ "functionCall": { "name": "write_file", "args": input } }), true))
        }
    }
}

/// A real agent.
pub struct Real {
    pub name: &'static str,
    pub key: (&'static str, &'static str),
    hosts: &'static [&'static str],
    links: Vec<(&'static str, String)>,
    model: fn(&Request, &Play) -> Vec<u8>,
    environment: &'static [&'static str],
}

const ADAPTER: &str = "@agentclientprotocol/claude-agent-acp/dist/index.js";
const GEMINI_CLI: &str = "@google/gemini-cli/bundle/gemini.js";

pub fn claude() -> Real {
    Real {
        name: "claude",
        key: ANTHROPIC,
        hosts: &["api.anthropic.com", "platform.claude.com"],
        links: vec![("node", crate::acp::node()), ("claude-agent-acp", ADAPTER.to_owned())],
        model: anthropic,
        environment: &[],
    }
}

pub fn codex_acp() -> Real {
    Real {
        name: "codex",
        key: OPENAI,
        hosts: &["api.openai.com", "chatgpt.com"],
        links: vec![("codex-acp", codex())],
        model: openai,
        environment: &[],
    }
}

pub fn gemini_cli() -> Real {
    Real {
        name: "gemini",
        key: GEMINI,
        hosts: &["generativelanguage.googleapis.com"],
        links: vec![("node", crate::acp::node()), ("gemini", GEMINI_CLI.to_owned())],
        model: gemini,
        environment: &[],
    }
}

pub fn opencode() -> Real {
    Real {
        name: "opencode",
        key: ANTHROPIC,
        hosts: &["api.anthropic.com"],
        links: vec![("opencode", format!("opencode-linux-{}/bin/opencode", machine().0))],
        model: anthropic,
        environment: &[r#"OPENCODE_CONFIG_CONTENT={"model":"anthropic/claude-sonnet-4-5"}"#],
    }
}

pub fn built_in() -> Real {
    Real {
        name: "palisade",
        key: ANTHROPIC,
        hosts: &["api.anthropic.com"],
        links: Vec::new(),
        model: anthropic,
        environment: &[],
    }
}

/// The same program again and again.
fn again(command: &Command) -> Box<dyn Fn() -> Started + Send + Sync> {
    let program = command.get_program().to_owned();
    let arguments: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
    Box::new(move || {
        let mut command = Command::new(&program);
        command.args(&arguments);
        Started::program(command)
    })
}

fn subject(command: &Command, play: &Play, cwd: PathBuf, made: PathBuf) -> Subject {
    let play = play.clone();
    Subject {
        start: again(command),
        scene: Box::new(move |scene| play.next(scene)),
        cwd,
        made,
        sign_in: None,
        asking_mode: None,
        patience: PATIENCE,
    }
}

fn tried(subject: &Subject) -> Report {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(conforms(subject))
}

impl Real {
    /// Its world, if npm has it for this machine.
    pub fn world(&self, play: &Play) -> Option<(World, Server, String)> {
        let agents = match self.links.is_empty() {
            true => None,
            false => {
                let agents = installed()?;
                if !self.links.iter().all(|(_, target)| crate::acp::has(&agents, target)) {
                    return None;
                }
                Some(agents)
            }
        };
        let world = World::new(Who::User(24_001));
        if let Some(agents) = agents {
            world.lends(&agents, ".npm-global/lib");
        }
        let (model, play) = (self.model, play.clone());
        let server =
            world.answering(443, self.hosts, Arc::new(move |request: &Request| model(request, &play)));
        let links: Vec<(&str, &str)> =
            self.links.iter().map(|(name, target)| (*name, target.as_str())).collect();
        let path = programs(&world, &links);
        Some((world, server, path))
    }

    /// By itself, in a sandbox, with pipes.
    #[track_caller]
    fn by_itself(&self, lacks: &[(Part, &str)]) {
        let play = Play::new();
        let Some((world, _server, path)) = self.world(&play) else { return };
        if self.links.is_empty() {
            std::fs::copy(
                tests::program("palisade-agent"),
                world.home().join(".npm-global/bin/palisade-agent"),
            )
            .unwrap();
        }
        let agent = ::agents::Catalog::shipped().unwrap().named(self.name).unwrap().clone();
        let how = agent.how(Mode::Default).unwrap();
        let mut words = vec!["run".to_owned()];
        let environment = how.environment.iter().map(|(name, value)| format!("{name}={value}"));
        for one in environment.chain(self.environment.iter().map(|one| (*one).to_owned())) {
            words.extend(["--env".to_owned(), one]);
        }
        words.push("--".to_owned());
        words.extend(agent.acp_in(Mode::Default).unwrap());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let path = path.strip_prefix("agents.path=").unwrap();
        let command = world.palisade_having(&[("PATH", path), self.key], &words);
        play.at(&world.project());
        let mut subject = subject(&command, &play, world.project(), world.project().join("made.txt"));
        subject.sign_in =
            agent.secrets.iter().find(|one| one.name == self.key.0).and_then(|one| one.method.clone());
        subject.asking_mode = how.id.clone();
        tried(&subject).assert_held_but(lacks);
    }

    /// As an editor gets it, from `palisade acp`.
    #[track_caller]
    fn in_an_editor(&self, lacks: &[(Part, &str)]) {
        let play = Play::new();
        let Some((world, _server, path)) = self.world(&play) else { return };
        let stage = crate::daemon::Stage::new(&world, &path);
        stage.keeps(self.key);
        let command = world.palisade(&["acp", "--agent", self.name, "--worktree", "work"]);
        play.at(&stage.tree);
        let made = stage.tree.join("made.txt");
        tried(&subject(&command, &play, "/".into(), made)).assert_held_but(lacks);
    }
}

#[test]
fn ses_14_claude_code_keeps_the_contract() {
    claude().by_itself(&[]);
}

#[test]
fn ses_14_codex_keeps_the_contract() {
    codex_acp().by_itself(&[]);
}

/// It says that it loads sessions, keeps them, and does not find them: also outside of a sandbox.
#[test]
fn ses_14_gemini_keeps_the_contract() {
    gemini_cli().by_itself(&[(Part::Load, "the agent refused `session/load`")]);
}

#[test]
fn ses_14_opencode_keeps_the_contract() {
    opencode().by_itself(&[]);
}

#[test]
fn ses_14_the_built_in_agent_keeps_the_contract() {
    built_in().by_itself(&[]);
}

#[test]
fn ses_14_claude_code_in_an_editor_keeps_the_contract() {
    claude().in_an_editor(&[]);
}

#[test]
fn ses_14_codex_in_an_editor_keeps_the_contract() {
    codex_acp().in_an_editor(&[]);
}

#[test]
fn ses_14_gemini_in_an_editor_keeps_the_contract() {
    gemini_cli().in_an_editor(&[]);
}

#[test]
fn ses_14_opencode_in_an_editor_keeps_the_contract() {
    opencode().in_an_editor(&[]);
}

#[test]
fn ses_14_the_built_in_agent_in_an_editor_keeps_the_contract() {
    built_in().in_an_editor(&[]);
}
