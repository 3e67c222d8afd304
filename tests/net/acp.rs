//! Real agents over ACP, as a daemon starts them: through `palisade run` with pipes, a model of the test's own that plays a script
//! (change a file, run a command, commit, say something), and a key that they never have.
//!
//! How each is started, and in which of its modes, is what `agents/*.toml` says. Where files, index and commits end up is looked at too.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::agents::{Agent, Catalog, Mode, Requests};
use serde_json::{Value, json};

use crate::agents::{SAYS, anthropic_turn, installed, machine, streamed};
use crate::world::{EVERYONE, Request, Server, Who, World, answer};

/// What the model has it write.
pub const MADE: &str = "made by the agent\n";

/// What the model has it run: everybody's environment shows what stands in the place of the key.
pub fn command(key: &str) -> String {
    format!(
        "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep '^{key}=' | sort -u > seen.txt; git add -A && git commit -qm 'by the agent'"
    )
}

/// How often this is in the body of a request.
pub fn count(request: &Request, what: &str) -> usize {
    String::from_utf8_lossy(&request.body).matches(what).count()
}

fn nothing() -> Vec<u8> {
    answer("404 Not Found", "Content-Type: application/json\r\n", b"{}")
}

/// The script, for those who ask a model of Anthropic: the tools are those that the request names.
pub fn anthropic(request: &Request, key: &str, project: &str) -> Vec<u8> {
    if request.path() != "/v1/messages" {
        return nothing();
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let has =
        |name: &str| body["tools"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == name));
    let made = format!("{project}/made.txt");
    let (write, path) = match () {
        () if has("Write") => ("Write", json!({ "file_path": made })),
        () if has("write") => ("write", json!({ "filePath": made })),
        () if has("write_file") => ("write_file", json!({ "path": "made.txt" })),
        () => ("", Value::Null),
    };
    let done = count(request, "\"tool_result\"");
    let use_of = |name: &str, input: Value| {
        let block = json!({ "type": "tool_use", "id": format!("toolu_{done}"), "name": name, "input": {} });
        let delta = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
        anthropic_turn(&block.to_string(), &delta.to_string(), "tool_use")
    };
    match (write, done) {
        ("Write" | "write" | "write_file", 0) => {
            let mut input = path;
            input["content"] = MADE.into();
            use_of(write, input)
        }
        ("Write", 1) => use_of("Bash", json!({ "command": command(key), "description": "commit" })),
        ("write", 1) => use_of("bash", json!({ "command": command(key), "description": "commit" })),
        // Programs and no shell.
        ("write_file", 1) => use_of("shell", json!({ "command": "git add made.txt" })),
        ("write_file", 2) => use_of("shell", json!({ "command": "git commit -qm 'by the agent'" })),
        _ => {
            let delta = json!({ "type": "text_delta", "text": SAYS }).to_string();
            anthropic_turn(r#"{"type":"text","text":""}"#, &delta, "end_turn")
        }
    }
}

/// The same for Codex.
pub fn openai(request: &Request, key: &str) -> Vec<u8> {
    if request.path() != "/v1/responses" || !request.head.starts_with("POST ") {
        return nothing();
    }
    let usage = json!({
        "input_tokens": 1, "input_tokens_details": null, "output_tokens": 1, "output_tokens_details": null, "total_tokens": 2,
    });
    let item = match count(request, "_call_output\"") {
        0 => {
            let patch = format!("*** Begin Patch\n*** Add File: made.txt\n+{MADE}*** End Patch");
            json!({ "type": "custom_tool_call", "id": "c_0", "call_id": "call_0", "name": "apply_patch", "input": patch })
        }
        1 => {
            // After ten seconds, if nothing is said, it goes on beside the command: on a machine with much to do its commit came too late.
            let arguments = json!({ "cmd": command(key), "yield_time_ms": 30_000 }).to_string();
            json!({ "type": "function_call", "id": "c_1", "call_id": "call_1", "name": "exec_command", "arguments": arguments })
        }
        _ => {
            let content = json!([{ "type": "output_text", "text": SAYS }]);
            json!({ "type": "message", "role": "assistant", "id": "msg_1", "content": content })
        }
    };
    streamed(&[
        ("response.created", r#""response":{"id":"resp_1"}"#.to_owned()),
        ("response.output_item.done", format!(r#""item":{item}"#)),
        ("response.completed", format!(r#""response":{{"id":"resp_1","usage":{usage}}}"#)),
    ])
}

/// The same for Gemini CLI, which first asks a small model which model to ask.
pub fn gemini(request: &Request, key: &str, project: &str) -> Vec<u8> {
    let is_small = request.path().ends_with(":generateContent");
    if !is_small && !request.path().ends_with(":streamGenerateContent") {
        return nothing();
    }
    let call = |name: &str, arguments: Value| json!({ "functionCall": { "name": name, "args": arguments } });
    let made = format!("{project}/made.txt");
    let part = match count(request, "\"functionResponse\"") {
        _ if is_small => json!({ "text": r#"{"complexity_reasoning":"x","complexity_score":1}"# }),
        0 => call("write_file", json!({ "file_path": made, "content": MADE })),
        1 => call("run_shell_command", json!({ "command": command(key) })),
        _ => json!({ "text": SAYS }),
    };
    let turn = json!({
        "candidates": [{ "content": { "role": "model", "parts": [part] }, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": { "promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2 },
        "modelVersion": "gemini-2.5-flash",
    });
    if is_small {
        return answer("200 OK", "Content-Type: application/json\r\n", turn.to_string().as_bytes());
    }
    answer("200 OK", "Content-Type: text/event-stream\r\n", format!("data: {turn}\r\n\r\n").as_bytes())
}

/// The client's end of a conversation.
struct Client {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    asked: u64,
    /// What becomes of what it asks for.
    answers: Requests,
    /// What it asked for: the kind of the tool.
    permissions: Vec<String>,
    said: String,
}

impl Client {
    fn new(mut child: Child, answers: Requests) -> Self {
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from, asked: 0, answers, permissions: Vec::new(), said: String::new() }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.to, "{message}").unwrap();
    }

    /// Asks, and answers what is asked meanwhile; the result.
    #[track_caller]
    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }));
        loop {
            let mut line = String::new();
            assert!(
                self.from.read_line(&mut line).unwrap() > 0,
                "it ended at `{method}`: {}",
                self.complaints()
            );
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"));
            if message["method"].is_null() && message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {message} {}", self.complaints());
                return message["result"].clone();
            }
            self.heard(&message);
        }
    }

    fn heard(&mut self, message: &Value) {
        let (id, parameters) = (&message["id"], &message["params"]);
        match message["method"].as_str().unwrap_or_default() {
            "session/request_permission" => {
                self.permissions.push(parameters["toolCall"]["kind"].as_str().unwrap_or("none").to_owned());
                let options = parameters["options"].as_array().unwrap();
                let kind = if self.answers == Requests::Refuse { "reject_once" } else { "allow_once" };
                let chosen = options.iter().find(|option| option["kind"] == kind).unwrap();
                let outcome = json!({ "outcome": "selected", "optionId": chosen["optionId"] });
                self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": { "outcome": outcome } }));
            }
            "session/update" => {
                let update = &parameters["update"];
                if update["sessionUpdate"] == "agent_message_chunk" {
                    self.said.push_str(update["content"]["text"].as_str().unwrap_or_default());
                }
            }
            _ if !id.is_null() => {
                let error = json!({ "code": -32601, "message": "not here" });
                self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
            _ => {}
        }
    }

    fn complaints(&mut self) -> String {
        let mut text = String::new();
        let _ = self.child.kill();
        if let Some(mut from) = self.child.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut from, &mut text);
        }
        text
    }

    /// Hangs up; whether it ended by itself then. What does not is asked to.
    fn end(self) -> bool {
        let Self { mut child, to, from, .. } = self;
        drop((to, from));
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            if child.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        child.wait().unwrap();
        false
    }
}

/// A person with a repository, an agent of the catalog, and a key for it.
struct Stage {
    world: World,
    server: Server,
    agent: Agent,
    key: (&'static str, &'static str),
}

impl Stage {
    /// Programs are links in a folder of the person's, as npm makes them.
    fn new(
        world: World,
        server: Server,
        name: &str,
        key: (&'static str, &'static str),
        programs: &[(&str, &str)],
    ) -> Self {
        let bin = world.home().join(".npm-global/bin");
        std::fs::create_dir_all(&bin).unwrap();
        for (name, target) in programs {
            std::os::unix::fs::symlink(format!("../lib/node_modules/{target}"), bin.join(name)).unwrap();
        }
        let agent = Catalog::shipped().unwrap().named(name).unwrap().clone();
        let who = "[user]\n\tname = Ana\n\temail = ana@host.example\n";
        world.keep(&world.home().join(".gitconfig"), who);
        let stage = Self { world, server, agent, key };
        stage.git(&["init", "-q", "-b", "main"]);
        stage.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
        stage
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(arguments);
        git.env("HOME", self.world.home()).current_dir(self.world.project());
        if let Who::User(user) = self.world.who {
            git.uid(user).gid(user);
        }
        let output = git.output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    fn palisade(&self, arguments: &[&str]) -> Command {
        let path =
            format!("{}:/usr/local/bin:/usr/bin:/bin", self.world.home().join(".npm-global/bin").display());
        self.world.palisade_having(&[("PATH", path.as_str()), self.key], arguments)
    }

    /// From `initialize` to the end of a turn, in this mode.
    #[track_caller]
    fn turn(&self, mode: Mode, options: &[&str]) -> Client {
        let how = self.agent.how(mode).unwrap();
        let report = self.world.home().join("report.json").display().to_string();
        let mut words: Vec<String> = ["run", "--overlay", "--report", &report].map(str::to_owned).to_vec();
        words.extend(options.iter().map(|word| (*word).to_owned()));
        for (name, value) in &how.environment {
            words.extend(["--env".to_owned(), format!("{name}={value}")]);
        }
        words.push("--".to_owned());
        words.extend(self.agent.acp_in(mode).unwrap());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = self.palisade(&words);
        let child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut client = Client::new(child, how.requests);
        let capabilities =
            json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
        let told =
            client.call("initialize", &json!({ "protocolVersion": 1, "clientCapabilities": capabilities }));
        assert_eq!(told["protocolVersion"], 1, "{told}");
        let bound = self.agent.secrets.iter().find(|bound| bound.name == self.key.0).unwrap();
        if let Some(method) = &bound.method {
            client.call("authenticate", &json!({ "methodId": method }));
        }
        let new = json!({ "cwd": self.world.project(), "mcpServers": [] });
        let session = client.call("session/new", &new)["sessionId"].clone();
        if let Some(id) = &how.id {
            client.call("session/set_mode", &json!({ "sessionId": session, "modeId": id }));
        }
        let prompt = json!([{ "type": "text", "text": "what is it?" }]);
        let ended = client.call("session/prompt", &json!({ "sessionId": session, "prompt": prompt }));
        // One that is refused may leave it at that.
        if how.requests != Requests::Refuse {
            assert_eq!(ended["stopReason"], "end_turn", "{ended}");
            assert!(client.said.contains(SAYS), "{}", client.said);
        }
        client
    }

    /// What became of the run; it is applied.
    #[track_caller]
    fn applied(&self) -> Value {
        let report = std::fs::read_to_string(self.world.home().join("report.json")).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["state"], "ended", "{report}");
        let output = self.palisade(&["apply", report["run"].as_str().unwrap(), "--json"]).output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["ok"], true, "{told} {report}");
        told["result"].clone()
    }

    /// The whole script in the mode that people get without a word: asked, done, committed, with a word for a key.
    #[track_caller]
    fn plays_the_script(&self, field: &str, options: &[&str], ends_by_itself: bool) {
        assert_eq!(self.agent.how(Mode::Default).unwrap().requests, Requests::Ask);
        let client = self.turn(Mode::Default, options);
        assert_eq!(client.permissions.first().map(String::as_str), Some("edit"), "{:?}", client.permissions);
        assert!(client.permissions.iter().skip(1).any(|kind| kind == "execute"), "{:?}", client.permissions);
        assert_eq!(client.end(), ends_by_itself);
        assert!(!self.world.project().join("made.txt").exists(), "it is in a layer");
        let done = self.applied();
        let last = || self.server.seen().iter().rfind(|one| one.head.starts_with("POST ")).cloned();
        let asked = || last().map(|one| String::from_utf8_lossy(&one.body).into_owned());
        assert_eq!(done["branch"]["became"], "moved", "{done} {:?}", asked());
        assert_eq!(std::fs::read_to_string(self.world.project().join("made.txt")).unwrap(), MADE);
        assert_eq!(self.git(&["log", "--format=%s"]), "by the agent\nfirst");
        assert_eq!(self.git(&["status", "--porcelain"]), "");
        let (name, key) = self.key;
        if let Ok(seen) = std::fs::read_to_string(self.world.project().join("seen.txt")) {
            let words: Vec<&str> =
                seen.lines().filter_map(|line| line.strip_prefix(&format!("{name}="))).collect();
            assert!(!words.is_empty() && words.iter().all(|word| *word != key), "{seen}");
        }
        let turns: Vec<Request> =
            self.server.seen().into_iter().filter(|request| request.head.starts_with("POST ")).collect();
        let asked: Vec<&str> = turns.iter().filter_map(|request| request.field(field)).collect();
        assert!(!asked.is_empty());
        assert!(asked.iter().all(|sent| sent.strip_prefix("Bearer ").unwrap_or(sent) == key), "{asked:?}");
        crate::agents::is_known(&self.world);
    }
}

impl Stage {
    /// SES-16: without a person nothing is asked, and with one who only wants a plan nothing is changed.
    #[track_caller]
    /// Takes the agent's commit back. What it commits next has another parent: with the same one, in the same second, it would be the
    /// same commit, which is there already.
    fn goes_back(&self) {
        self.git(&["reset", "-q", "--hard", "HEAD~1"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "meanwhile"]);
    }

    fn keeps_its_modes(&self, options: &[&str]) {
        let report = || -> Value {
            let text = std::fs::read_to_string(self.world.home().join("report.json")).unwrap();
            serde_json::from_str(&text).unwrap()
        };
        let client = self.turn(Mode::Plan, options);
        client.end();
        let told = report();
        let nothing = (Value::from(0), json!([]));
        assert_eq!(
            (told["layer"]["changed"].clone(), told["commits"]["branches"].clone()),
            nothing,
            "{told}"
        );
        let client = self.turn(Mode::BypassPermissions, options);
        assert_eq!(client.permissions, [] as [&str; 0]);
        client.end();
        assert_eq!(report()["commits"]["branches"][0]["became"], "waits", "{}", report());
    }
}

pub fn node() -> String {
    format!("node-linux-{}/bin/node", machine().0)
}

pub fn has(agents: &Path, program: &str) -> bool {
    let is_there = agents.join("node_modules").join(program).exists();
    if !is_there {
        tests::cannot_run(&format!("npm has no `{program}` for this machine"));
    }
    is_there
}

#[test]
fn ses_14_claude_code_over_acp() {
    let Some(agents) = installed().filter(|agents| has(agents, &node())) else { return };
    for who in EVERYONE {
        let world = World::new(who);
        world.lends(&agents, ".npm-global/lib");
        let key = ("ANTHROPIC_API_KEY", "sk-ant-api03-Zm9ydHktdHdvIGlzIHdoYXQgdGhlIG1vZGVsIHNheXMuLi4uLi4x");
        let project = world.project().display().to_string();
        let model = move |request: &Request| anthropic(request, key.0, &project);
        let server = world.answering(443, &["api.anthropic.com", "platform.claude.com"], Arc::new(model));
        let adapter = "@agentclientprotocol/claude-agent-acp/dist/index.js";
        let programs = [("node", node()), ("claude-agent-acp", adapter.to_owned())];
        let programs = programs.each_ref().map(|(name, target)| (*name, target.as_str()));
        let stage = Stage::new(world, server, "claude", key, &programs);
        stage.plays_the_script("x-api-key", &[], true);
    }
}

#[test]
fn ses_14_codex_over_acp() {
    let program = format!("@zed-industries/codex-acp-linux-{}/bin/codex-acp", machine().0);
    let Some(agents) = installed().filter(|agents| has(agents, &program)) else { return };
    for who in EVERYONE {
        let world = World::new(who);
        world.lends(&agents, ".npm-global/lib");
        let key = ("OPENAI_API_KEY", "sk-proj-Zm9ydHktdHdvIGlzIHdoYXQgdGhlIG1vZGVsIHNheXMuLi4uLi4x");
        let model = move |request: &Request| openai(request, key.0);
        let server = world.answering(443, &["api.openai.com", "chatgpt.com"], Arc::new(model));
        let stage = Stage::new(world, server, "codex", key, &[("codex-acp", &program)]);
        stage.plays_the_script("authorization", &[], false);
        if who != Who::Root {
            stage.goes_back();
            stage.keeps_its_modes(&[]);
        }
    }
}

#[test]
fn ses_14_gemini_over_acp() {
    let Some(agents) = installed().filter(|agents| has(agents, &node())) else { return };
    for who in EVERYONE {
        let world = World::new(who);
        world.lends(&agents, ".npm-global/lib");
        let key = ("GEMINI_API_KEY", "AIzaZm9ydHktdHdvIGlzIHdoYXQgdGhlIG1vZGVs");
        let project = world.project().display().to_string();
        let model = move |request: &Request| gemini(request, key.0, &project);
        let server = world.answering(443, &["generativelanguage.googleapis.com"], Arc::new(model));
        let programs = [("node", node()), ("gemini", "@google/gemini-cli/bundle/gemini.js".to_owned())];
        let programs = programs.each_ref().map(|(name, target)| (*name, target.as_str()));
        let stage = Stage::new(world, server, "gemini", key, &programs);
        // What it starts gets too little of its environment to find who commits where git was installed by hand.
        stage.git(&["config", "user.name", "Ana"]);
        stage.git(&["config", "user.email", "ana@host.example"]);
        stage.plays_the_script("x-goog-api-key", &[], true);
    }
}

#[test]
fn ses_14_opencode_over_acp() {
    let program = format!("opencode-linux-{}/bin/opencode", machine().0);
    let Some(agents) = installed().filter(|agents| has(agents, &program)) else { return };
    for who in EVERYONE {
        let world = World::new(who);
        world.lends(&agents, ".npm-global/lib");
        let key = ("ANTHROPIC_API_KEY", "sk-ant-api03-Zm9ydHktdHdvIGlzIHdoYXQgdGhlIG1vZGVsIHNheXMuLi4uLi4x");
        let project = world.project().display().to_string();
        let model = move |request: &Request| anthropic(request, key.0, &project);
        let server = world.answering(443, &["api.anthropic.com"], Arc::new(model));
        let stage = Stage::new(world, server, "opencode", key, &[("opencode", &program)]);
        let model = r#"OPENCODE_CONFIG_CONTENT={"model":"anthropic/claude-sonnet-4-5"}"#;
        stage.plays_the_script("x-api-key", &["--env", model], true);
        if who != Who::Root {
            stage.goes_back();
            stage.keeps_its_modes(&["--env", model]);
        }
    }
}

#[test]
fn ses_14_the_built_in_agent_over_acp() {
    for who in EVERYONE {
        let world = World::new(who);
        let bin = world.home().join(".npm-global/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::copy(tests::program("palisade-agent"), bin.join("palisade-agent")).unwrap();
        let key = ("ANTHROPIC_API_KEY", "sk-ant-api03-Zm9ydHktdHdvIGlzIHdoYXQgdGhlIG1vZGVsIHNheXMuLi4uLi4x");
        let project = world.project().display().to_string();
        let model = move |request: &Request| anthropic(request, key.0, &project);
        let server = world.answering(443, &["api.anthropic.com"], Arc::new(model));
        let stage = Stage::new(world, server, "palisade", key, &[]);
        stage.plays_the_script("x-api-key", &[], true);
        if who != Who::Root {
            stage.goes_back();
            stage.keeps_its_modes(&[]);
        }
    }
}
