//! Stands between another agent and its client, inside the sandbox, and serves what that agent asks of a client: files and terminals.
//!
//! Flow: a line of the client -> the agent, the greeting with what is served here added to it; a line of the agent -> the client, or, if it
//! asks for a file or a terminal, an answer to the agent. Everything else passes byte for byte.
//!
//! Invariants: such a request does not reach the client (but for one in a line longer than [`lines::LINE`], which passes whole and which
//! the client refuses); what is served lies beneath the directory that it was started in, within the limits of the built-in
//! agent; it ends with the agent, and what ran in terminals ends too.
//!
//! Like the built-in agent this is no wall: what it refuses an agent may try by itself, and the sandbox is what holds.

mod files;
mod lines;
mod terminals;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::Deserialize;
use serde_json::{Value, json};

use self::files::Files;
use self::lines::{Fate, passed, put};
use self::terminals::{Answer, Terminals};
use crate::document::set;
use crate::limits::Limits;
use crate::tools::ToolError;

/// How long an agent may take to end when its client has gone, and when it has closed its own output.
const FAREWELL: Duration = Duration::from_secs(15);
const CLOSED: Duration = Duration::from_secs(2);
/// How long the last words of an agent that has ended are waited for: somebody else may hold its output open.
const LAST: Duration = Duration::from_secs(1);

/// Where the agent's input is, while it has one.
type Inlet = Arc<Mutex<Option<ChildStdin>>>;

/// Starts the agent that stands behind `--` and serves it to its end; the code it ended with.
pub fn beside(
    mut arguments: impl Iterator<Item = OsString>,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<u8, String> {
    let usage = || "usage: palisade-agent beside -- COMMAND …".to_owned();
    arguments.next().filter(|word| word == "--").ok_or_else(usage)?;
    let program = arguments.next().ok_or_else(usage)?;
    let served = Arc::new(Served::here()?);
    // The agent's environment is ours: it was chosen for the agent.
    let command = Command::new(&program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = command.map_err(|error| format!("`{}` cannot be started: {error}", program.display()))?;
    let inlet: Inlet = Arc::new(Mutex::new(child.stdin.take()));
    let pid = Pid::from_child(&child);
    std::thread::spawn({
        let inlet = Arc::clone(&inlet);
        move || towards_agent(input, &inlet, pid)
    });
    let ended = towards_client(&mut child, output, &inlet, Arc::clone(&served));
    let status = child.wait().map_err(|error| format!("the agent is lost: {error}"))?;
    let _ = ended.recv_timeout(LAST);
    served.terminals.end();
    let signal = std::os::unix::process::ExitStatusExt::signal(&status).map(|signal| 128 + signal);
    Ok(status.code().or(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(255))
}

fn towards_agent(input: impl Read, inlet: &Inlet, pid: Pid) {
    let mut is_greeted = false;
    passed(input, inlet, |line| {
        if is_greeted {
            return Fate::On;
        }
        let greeting = greeting(line);
        is_greeted = greeting.is_some();
        greeting.map_or(Fate::On, Fate::Changed)
    });
    // The client has gone: so does the agent, or it is ended.
    drop(inlet.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take());
    std::thread::sleep(FAREWELL);
    let _ = rustix::process::kill_process(pid, Signal::KILL);
}

/// The greeting with what is served here, if the line is one.
fn greeting(line: &[u8]) -> Option<Vec<u8>> {
    let mut message: Value = serde_json::from_slice(line).ok()?;
    if message.get("method").and_then(Value::as_str) != Some("initialize") {
        return None;
    }
    let params = message.get_mut("params").filter(|params| params.is_object())?;
    let mut able = params
        .get("clientCapabilities")
        .filter(|able| able.is_object())
        .cloned()
        .unwrap_or_else(|| json!({}));
    set(&mut able, "fs", json!({ "readTextFile": true, "writeTextFile": true }));
    set(&mut able, "terminal", json!(true));
    set(params, "clientCapabilities", able);
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    Some(line)
}

/// Passes on what the agent says, in a thread; that is told when it is over.
fn towards_client(
    child: &mut Child,
    output: impl Write + Send + 'static,
    inlet: &Inlet,
    served: Arc<Served>,
) -> Receiver<()> {
    let (told, ended) = sync_channel(1);
    let (from, inlet, pid) = (child.stdout.take(), Arc::clone(inlet), Pid::from_child(child));
    std::thread::spawn(move || {
        let output = Arc::new(Mutex::new(Some(output)));
        if let Some(from) = from {
            passed(from, &output, |line| served.judged(line, &inlet));
        }
        let _ = told.send(());
        // An agent that says nothing any more is none.
        std::thread::sleep(CLOSED);
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    });
    ended
}

/// What is served.
struct Served {
    files: Files,
    terminals: Arc<Terminals>,
}

#[derive(Deserialize)]
struct Request {
    id: Value,
    method: String,
    #[serde(default)]
    params: Value,
}

impl Served {
    fn here() -> Result<Self, String> {
        let here =
            std::env::current_dir().map_err(|error| format!("there is no directory to work in: {error}"))?;
        // As far as the table lets a person raise them: this agent is not ours to be careful for.
        let limits =
            Limits { read_bytes: 262_144, shell_args: 32, shell_arg_chars: 4_096, ..Limits::default() };
        Ok(Self { files: Files::open(&here, &limits)?, terminals: Arc::new(Terminals::new(&here, limits)) })
    }

    /// What becomes of a line of the agent.
    fn judged(&self, line: &[u8], inlet: &Inlet) -> Fate {
        // Most lines are looked at no further.
        let may_ask = std::str::from_utf8(line)
            .is_ok_and(|text| text.contains("_text_file\"") || text.contains("\"terminal/"));
        if !may_ask {
            return Fate::On;
        }
        let Ok(Request { id, method, params }) = serde_json::from_slice(line) else { return Fate::On };
        if !id.is_string() && !id.is_number() {
            return Fate::On;
        }
        let result = match method.as_str() {
            "fs/read_text_file" => self.files.read(params),
            "fs/write_text_file" => self.files.write(params),
            "terminal/create" => self.terminals.create(params),
            "terminal/output" => self.terminals.output(params),
            "terminal/kill" => self.terminals.kill(params),
            "terminal/release" => self.terminals.release(params),
            "terminal/wait_for_exit" => {
                let inlet = Arc::clone(inlet);
                let answer: Answer = Box::new(move |result| answered(&inlet, &id, result));
                self.terminals.wait(params, answer);
                return Fate::Taken;
            }
            _ => return Fate::On,
        };
        answered(inlet, &id, result);
        Fate::Taken
    }
}

fn answered(inlet: &Inlet, id: &Value, result: Result<Value, ToolError>) {
    let mut answer = json!({ "jsonrpc": "2.0", "id": id });
    match result {
        Ok(result) => set(&mut answer, "result", result),
        Err(error) => {
            let code = match error {
                ToolError::Refused { .. } => -32_602,
                ToolError::Failed(_) => -32_603,
            };
            set(&mut answer, "error", json!({ "code": code, "message": error.to_string() }));
        }
    }
    let mut line = answer.to_string().into_bytes();
    line.push(b'\n');
    put(inlet, &line);
}
