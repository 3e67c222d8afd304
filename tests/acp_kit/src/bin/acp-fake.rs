//! An agent that does what its prompt says: what every agent does, and what no agent should.
//!
//! | a prompt | what it does |
//! |---|---|
//! | `say WORDS` | says them, a word at a time |
//! | `stall WORDS` | says them, and nothing more until it is stopped |
//! | `calls COUNT` | calls a tool so often, ten times a second, and counts into the file `count` |
//! | `spend CENTS` | tells that this was spent, and waits a little |
//! | `tab CENTS` | waits until it is stopped, and tells then that this was spent |
//! | `pace COUNT MILLIS` | says a number, from 0 on, and the time in nanoseconds so often, with that much between; in the end, also when it is cancelled, how often |
//! | `run WORDS` | runs them in a shell, and says how that ended |
//! | `recall` | says what stood before the prompt |
//! | `write NAME WORDS` | writes them into the file, without asking |
//! | `ask NAME` | asks whether it may write the file, and does so if it may |
//! | `greedy NAME` | the same, and a yes is one for ever: it offers no other |
//! | `bold NAME` | tells that it is in another mode now, and asks whether it may write the file as if it was |
//! | `effect JSON` | asks whether it may have this effect, a call as the protocol has it, and adds it to the file `done` if it may |
//! | `junk` | lines that are no messages, then `say after` |
//! | `long BYTES` | one line of that length, then `say after` |
//! | `deep LEVELS` | a call whose arguments are nested so deep, then `say after` |
//! | `flood LINES` | so many updates as fast as it can, then ends the turn |
//! | `twice` | answers the prompt twice, and things that nobody asked |
//! | `late COUNT` | answers, and goes on to report that often |
//! | `unserved` | asks for files and terminals, then `say` what it was told |
//! | `client JSON` | asks its client each `[METHOD, PARAMS]` of a list, and says what it was told, a line each |
//! | `deaf` | reads nothing more and sends questions without end |
//! | `mute` | answers nothing any more |
//! | `close` | closes its standard output and lives on |
//! | `die` | ends in the middle of the turn, without a word |
//!
//! Sessions are kept in `ACP_FAKE_HOME` (`~` is the home), so that another process can load them.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// What all turns share.
#[derive(Default)]
struct Fake {
    cancelled: AtomicBool,
    last: AtomicU64,
    asked: Mutex<HashMap<u64, Sender<Value>>>,
    cwd: Mutex<PathBuf>,
    /// What stood before the prompt.
    before: Mutex<String>,
}

fn main() {
    let fake = Arc::new(Fake::default());
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let id = message["id"].clone();
        match message["method"].as_str() {
            None => {
                let told = id.as_u64().and_then(|id| fake.asked.lock().unwrap().remove(&id));
                told.map(|told| told.send(message));
            }
            Some("session/cancel") => fake.cancelled.store(true, Ordering::SeqCst),
            Some("session/prompt") => {
                let mut texts: Vec<String> = message["params"]["prompt"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|block| block["text"].as_str().unwrap_or_default().to_owned())
                    .collect();
                let text = texts.pop().unwrap_or_default();
                *fake.before.lock().unwrap() = texts.concat();
                if text == "deaf" {
                    deaf(&message["params"]["sessionId"]);
                }
                let fake = Arc::clone(&fake);
                fake.cancelled.store(false, Ordering::SeqCst);
                std::thread::spawn(move || fake.turn(&id, &message["params"]["sessionId"], &text));
            }
            Some(method) => fake.request(&id, method, &message["params"]),
        }
    }
}

fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody may be there.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
}

fn send(message: &Value) {
    line(&message.to_string());
}

fn update(session: &Value, update: &Value) {
    send(
        &json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": update } }),
    );
}

fn chunk(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

fn kept(session: &str) -> Option<PathBuf> {
    let name: String = session.chars().filter(char::is_ascii_alphanumeric).collect();
    let home = std::env::var_os("ACP_FAKE_HOME")?;
    let home = if home == "~" { std::env::var_os("HOME")? } else { home };
    Some(PathBuf::from(home).join(name))
}

/// Asks without end and hears nothing.
fn deaf(session: &Value) -> ! {
    for id in 1u64.. {
        send(
            &json!({ "jsonrpc": "2.0", "id": id, "method": "fs/read_text_file", "params": { "sessionId": session } }),
        );
    }
    unreachable!("numbers do not end");
}

impl Fake {
    fn request(&self, id: &Value, method: &str, params: &Value) {
        let modes = json!({ "currentModeId": "careful", "availableModes": [{ "id": "careful", "name": "Careful" }, { "id": "bold", "name": "Bold" }] });
        let model = |current: &str| {
            json!([{ "id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": current,
                "options": [{ "value": "small", "name": "Small" }, { "value": "large", "name": "Large" }] }])
        };
        if params["cwd"].is_string() {
            *self.cwd.lock().unwrap() = params["cwd"].as_str().unwrap_or_default().into();
        }
        let result = match method {
            "initialize" => json!({
                "protocolVersion": 1,
                "agentCapabilities": { "loadSession": true },
                "agentInfo": { "name": "acp-fake", "version": "1" },
                "authMethods": [{ "id": "word", "name": "By a word" }],
            }),
            "session/new" => {
                let nanos = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
                let session = format!("fake{}x{nanos}", std::process::id());
                json!({ "sessionId": session, "modes": modes, "configOptions": model("small") })
            }
            "session/load" => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                let Some(told) = kept(session).and_then(|path| std::fs::read_to_string(path).ok()) else {
                    let error = json!({ "code": -32_002, "message": "nothing is kept of that session" });
                    return send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                };
                for one in told.lines().filter_map(|one| serde_json::from_str(one).ok()) {
                    update(&params["sessionId"], &one);
                }
                json!({ "modes": modes, "configOptions": model("small") })
            }
            "session/set_config_option" => {
                json!({ "configOptions": model(params["value"].as_str().unwrap_or_default()) })
            }
            "session/set_mode" | "authenticate" => json!({}),
            _ => {
                let error = json!({ "code": -32_601, "message": "there is no such method" });
                return send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
        };
        send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    fn turn(&self, id: &Value, session: &Value, text: &str) {
        self.keep(session, &chunk("user_message_chunk", text));
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        let count = rest.parse::<usize>().unwrap_or_default();
        let mut why = "end_turn";
        match verb {
            "say" => self.say(session, rest),
            "stall" => {
                self.say(session, rest);
                let until = Instant::now() + Duration::from_secs(60);
                while !self.cancelled.load(Ordering::SeqCst) && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(2));
                }
                why = "cancelled";
            }
            "calls" => {
                use std::os::unix::fs::FileExt;
                let path = self.cwd.lock().unwrap().join("count");
                let file = std::fs::File::create(path).expect("the file is made");
                for n in 0..count {
                    update(
                        session,
                        &json!({ "sessionUpdate": "tool_call", "toolCallId": format!("c{n}"), "title": "count" }),
                    );
                    file.write_all_at(format!("{n:08}\n").as_bytes(), 9 * n as u64).expect("it is written");
                    if self.cancelled.load(Ordering::SeqCst) {
                        why = "cancelled";
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
            "spend" => {
                let cost = json!({ "amount": count as f64 / 100.0, "currency": "USD" });
                update(
                    session,
                    &json!({ "sessionUpdate": "usage_update", "used": 1_000 + count, "size": 200_000, "cost": cost }),
                );
                std::thread::sleep(Duration::from_secs(3));
            }
            "tab" => {
                self.say(session, "open ");
                while !self.cancelled.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(2));
                }
                let spent =
                    json!({ "costMicroUsd": 10_000 * count, "usage": { "input": 1_000, "output": count } });
                let result = json!({ "stopReason": "cancelled", "_meta": { "palisade": spent } });
                return send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
            }
            "late" => {
                send(&json!({ "jsonrpc": "2.0", "id": id, "result": { "stopReason": "end_turn" } }));
                for n in 0..count {
                    update(session, &chunk("agent_message_chunk", &format!("late {n} ")));
                    let result = json!({ "stopReason": if n % 2 == 0 { "refusal" } else { "cancelled" } });
                    send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
                }
                return;
            }
            "run" => {
                let mut shell = std::process::Command::new("sh");
                let shell = shell.args(["-c", rest]).stdin(std::process::Stdio::null()).output();
                let told = shell.expect("there is a shell");
                let text = [told.stdout.as_slice(), told.stderr.as_slice()].concat();
                self.say(session, &format!("{}: {}", told.status, String::from_utf8_lossy(&text)));
            }
            "pace" => {
                let (count, millis) = rest.split_once(' ').unwrap_or((rest, "20"));
                let every = Duration::from_millis(millis.parse().unwrap_or(20));
                let mut next = Instant::now();
                let mut said = 0;
                for n in 0..count.parse::<u64>().unwrap_or_default() {
                    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
                    update(session, &chunk("agent_message_chunk", &format!("{n}:{now} ")));
                    said = n + 1;
                    next += every;
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                    if self.cancelled.load(Ordering::SeqCst) {
                        why = "cancelled";
                        break;
                    }
                }
                update(session, &chunk("agent_message_chunk", &format!("all:{said} ")));
            }
            "recall" => {
                let before = self.before.lock().unwrap().clone();
                self.say(session, &before);
            }
            "write" => {
                let (name, words) = rest.split_once(' ').unwrap_or((rest, ""));
                let path = self.cwd.lock().unwrap().join(name);
                let written = std::fs::write(path, format!("{words}\n"));
                self.say(session, &format!("{written:?}"));
            }
            "ask" => why = self.ask(session, rest),
            "greedy" => {
                let call =
                    json!({ "toolCallId": "greedy", "title": format!("Write {rest}"), "kind": "edit" });
                let options = json!([{ "optionId": "always", "name": "Always", "kind": "allow_always" }, { "optionId": "no", "name": "No", "kind": "reject_once" }]);
                let outcome = self.choice(session, &call, &options);
                if outcome["optionId"] == "always" {
                    std::fs::write(self.cwd.lock().unwrap().join(rest), "asked\n").expect("it is written");
                }
                self.say(session, &format!("told {outcome}"));
            }
            "bold" => {
                update(session, &json!({ "sessionUpdate": "current_mode_update", "currentModeId": "bold" }));
                why = self.ask(session, rest);
            }
            "effect" => {
                let mut call: Value = serde_json::from_str(rest).expect("an effect");
                call["toolCallId"] = json!("effect");
                let outcome = self.permission(session, &call);
                if outcome["optionId"] == "yes" {
                    let path = self.cwd.lock().unwrap().join("done");
                    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
                    writeln!(file.expect("the file is there"), "{rest}").expect("it is written");
                }
            }
            "junk" => {
                let junk =
                    ["nonsense", "[]", "{}", "{\"id\":1,\"method\":7}", "\u{1b}[2J", "null", "{\"a\":"];
                junk.into_iter().for_each(line);
                self.say(session, "after");
            }
            "long" => {
                let head = "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":\"";
                line(&format!("{head}{}\"}}", "x".repeat(count.saturating_sub(head.len() + 2))));
                self.say(session, "after");
            }
            "deep" => {
                let nested = format!("{}{}", "[".repeat(count), "]".repeat(count));
                line(&format!(
                    "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":{session},\"update\":{{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"deep\",\"title\":\"deep\",\"rawInput\":{nested}}}}}}}"
                ));
                self.say(session, "after");
            }
            "flood" => {
                (0..count).for_each(|n| update(session, &chunk("agent_message_chunk", &format!("{n} "))))
            }
            "twice" => {
                send(&json!({ "jsonrpc": "2.0", "id": id, "result": { "stopReason": "end_turn" } }));
                send(&json!({ "jsonrpc": "2.0", "id": 999_999, "result": {} }));
            }
            "unserved" => {
                let told = ["fs/read_text_file", "terminal/create", "fs/read_text_file"].map(|method| {
                    self.wait(&self.question(method, &json!({ "sessionId": session, "path": "/etc/passwd" })))
                        ["error"]["code"]
                        .to_string()
                });
                self.say(session, &told.join(" "));
            }
            "client" => {
                let asks: Vec<(String, Value)> = serde_json::from_str(rest).expect("a list of questions");
                for (method, mut params) in asks {
                    params["sessionId"] = session.clone();
                    let told = self.wait(&self.question(&method, &params));
                    let told = told.get("result").or_else(|| told.get("error"));
                    self.say(session, &format!("{}\n", told.unwrap_or(&Value::Null)));
                }
            }
            "mute" => return,
            "close" => {
                let nowhere = std::fs::File::create("/dev/null").expect("there is nowhere");
                rustix::stdio::dup2_stdout(nowhere).expect("standard output is replaced");
                return;
            }
            _ => std::process::exit(3),
        }
        send(&json!({ "jsonrpc": "2.0", "id": id, "result": { "stopReason": why } }));
    }

    fn say(&self, session: &Value, words: &str) {
        for word in words.split_inclusive(' ') {
            let one = chunk("agent_message_chunk", word);
            update(session, &one);
            self.keep(session, &one);
        }
    }

    fn keep(&self, session: &Value, one: &Value) {
        let file = session.as_str().and_then(kept);
        let file =
            file.and_then(|path| std::fs::OpenOptions::new().create(true).append(true).open(path).ok());
        if let Some(mut file) = file {
            writeln!(file, "{one}").expect("what was said is kept");
        }
    }

    fn question(&self, method: &str, params: &Value) -> Receiver<Value> {
        let (told, heard) = channel();
        let id = self.last.fetch_add(1, Ordering::SeqCst) + 1;
        self.asked.lock().unwrap().insert(id, told);
        send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        heard
    }

    fn wait(&self, heard: &Receiver<Value>) -> Value {
        heard.recv_timeout(Duration::from_secs(60)).unwrap_or_default()
    }

    /// What becomes of a question whether a call may be made.
    fn permission(&self, session: &Value, call: &Value) -> Value {
        let options = json!([{ "optionId": "yes", "name": "Yes", "kind": "allow_once" }, { "optionId": "always", "name": "Always", "kind": "allow_always" },
            { "optionId": "no", "name": "No", "kind": "reject_once" }]);
        self.choice(session, call, &options)
    }

    fn choice(&self, session: &Value, call: &Value, options: &Value) -> Value {
        let heard = self.question(
            "session/request_permission",
            &json!({ "sessionId": session, "toolCall": call, "options": options }),
        );
        self.wait(&heard)["result"]["outcome"].clone()
    }

    fn ask(&self, session: &Value, name: &str) -> &'static str {
        let path = self.cwd.lock().unwrap().join(name);
        let call = json!({ "toolCallId": "write", "title": format!("Write {name}"), "kind": "edit", "status": "pending",
            "content": [{ "type": "diff", "path": path, "newText": "asked\n" }], "locations": [{ "path": path }], "rawInput": { "path": path } });
        let mut told = call.clone();
        told["sessionUpdate"] = json!("tool_call");
        update(session, &told);
        let outcome = self.permission(session, &call);
        let is_allowed = (outcome["optionId"] == "yes" || outcome["optionId"] == "always")
            && std::fs::write(&path, "asked\n").is_ok();
        let status = if is_allowed { "completed" } else { "failed" };
        update(
            session,
            &json!({ "sessionUpdate": "tool_call_update", "toolCallId": "write", "status": status }),
        );
        if outcome["outcome"] == "cancelled" { "cancelled" } else { "end_turn" }
    }
}
