//! A client of ACP, small: sends requests, collects what comes meanwhile, answers questions as it was told to.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::schema;

/// No test waits longer for one message.
const PATIENCE: Duration = Duration::from_secs(40);

/// The agent's program, at work.
pub(crate) struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    next: u64,
    pub(crate) session: String,
    /// Updates of the session since the last prompt.
    pub(crate) updates: Vec<Value>,
    /// Questions since the start.
    pub(crate) questions: Vec<Value>,
    /// What questions are answered with; nothing is no answer.
    pub(crate) answer: Option<&'static str>,
    /// Cancels the turn when this many updates came.
    pub(crate) cancel_after: Option<usize>,
}

impl Agent {
    pub(crate) fn start(config: &Value, variables: &[(&str, &str)], home: &Path) -> Self {
        Self::spawned(Self::command(config, variables, home))
    }

    pub(crate) fn command(config: &Value, variables: &[(&str, &str)], home: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_palisade-agent"));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home);
        command.env("PALISADE_AGENT_CONFIG", config.to_string()).envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        command
    }

    /// The same where the filter of a sandbox holds: calls whose arguments lie in memory are not there.
    pub(crate) fn start_filtered(config: &Value, variables: &[(&str, &str)], home: &Path) -> Self {
        use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
        let command = Self::command(config, variables, home);
        // A filter holds for the thread that takes it, and what that starts.
        let started = std::thread::spawn(move || {
            let calls = [libc::SYS_openat2, libc::SYS_clone3];
            let rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
            let missing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
            let here = std::env::consts::ARCH.try_into().unwrap();
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, missing, here).unwrap();
            let program: BpfProgram = filter.try_into().unwrap();
            seccompiler::apply_filter(&program).unwrap();
            Self::spawned(command)
        });
        started.join().unwrap()
    }

    fn spawned(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (told, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if told.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            stdin,
            lines,
            next: 0,
            session: String::new(),
            updates: Vec::new(),
            questions: Vec::new(),
            answer: Some("once"),
            cancel_after: None,
        }
    }

    pub(crate) fn raw(&mut self, line: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line).unwrap();
        stdin.write_all(b"\n").unwrap();
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.raw(message.to_string().as_bytes());
    }

    /// The next message, whatever it is.
    pub(crate) fn heard(&mut self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("the agent says nothing")
    }

    /// Sends a request and gives its number.
    pub(crate) fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Waits for an answer, and does what a client does meanwhile.
    pub(crate) fn finish(&mut self, id: u64, method: &str) -> Result<Value, Value> {
        let until = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < until, "no answer to {method}");
            let message = self.heard();
            if let Some(name) = message["method"].as_str() {
                self.took(name, &message);
                continue;
            }
            assert_eq!(message["id"], id, "{message}");
            return match message.get("result") {
                Some(result) => {
                    schema::check_answer(method, result);
                    Ok(result.clone())
                }
                None => Err(message["error"].clone()),
            };
        }
    }

    fn took(&mut self, method: &str, message: &Value) {
        schema::check_sent(method, &message["params"]);
        assert_eq!(message["params"]["sessionId"], self.session.as_str());
        if method == "session/update" {
            self.updates.push(message["params"]["update"].clone());
            if self.cancel_after.is_some_and(|count| self.updates.len() >= count) {
                self.cancel_after = None;
                self.cancel();
            }
            return;
        }
        self.questions.push(message["params"].clone());
        let outcome = match self.answer {
            Some("cancelled") => json!({ "outcome": "cancelled" }),
            Some(option) => json!({ "outcome": "selected", "optionId": option }),
            None => return,
        };
        self.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "outcome": outcome } }));
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.begin(method, params);
        self.finish(id, method)
    }

    /// Greets and opens a session.
    pub(crate) fn open(&mut self, cwd: &Path) -> Value {
        self.request("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} })).unwrap();
        let made = self.request("session/new", json!({ "cwd": cwd, "mcpServers": [] })).unwrap();
        self.session = made["sessionId"].as_str().unwrap().to_owned();
        made
    }

    pub(crate) fn prompt(&mut self, text: &str) -> Result<Value, Value> {
        self.updates.clear();
        let prompt = json!([{ "type": "text", "text": text }]);
        let session = self.session.clone();
        self.request("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
    }

    pub(crate) fn cancel(&mut self) {
        let session = self.session.clone();
        self.send(
            &json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }),
        );
    }

    pub(crate) fn mode(&mut self, mode: &str) -> Result<Value, Value> {
        let session = self.session.clone();
        self.request("session/set_mode", json!({ "sessionId": session, "modeId": mode }))
    }

    /// What the agent said since the last prompt, joined.
    pub(crate) fn said(&self) -> String {
        let chunks = self.updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        chunks.map(|update| update["content"]["text"].as_str().unwrap()).collect()
    }

    /// The last word on each call since the last prompt: its state and its text.
    pub(crate) fn results(&self) -> Vec<(String, String)> {
        let ended = self.updates.iter().filter(|update| {
            update["sessionUpdate"] == "tool_call_update"
                && ["completed", "failed"].iter().any(|s| update["status"] == *s)
        });
        let text = |update: &Value| update["content"][0]["content"]["text"].as_str().unwrap().to_owned();
        ended.map(|update| (update["status"].as_str().unwrap().to_owned(), text(update))).collect()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes its input and waits for its end.
    pub(crate) fn leave(mut self) -> i32 {
        drop(self.stdin.take());
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(Instant::now() < until, "the agent does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
