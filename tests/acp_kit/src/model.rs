//! A model that plays a script: speaks four wire formats on a port of its own, and can be ill in many ways.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// What it does when it is asked.
#[derive(Clone)]
pub enum Reply {
    Say(&'static str),
    /// Says something and calls tools.
    Call(Vec<(&'static str, Value)>),
    /// An error with headers.
    Status(u16, Vec<(&'static str, String)>, String),
    /// These bytes for an answer.
    Raw(Vec<u8>),
    /// Begins to speak and goes away.
    CutOff(&'static str),
    /// Says nothing for that long, then closes.
    Mute(Duration),
    /// The same bytes without end.
    Endless(&'static str),
    /// Begins to speak and then says nothing for that long.
    Stall(&'static str, Duration),
}

/// A question as it came.
#[derive(Clone)]
pub struct Seen {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
    pub at: Instant,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }
}

/// Tokens that every answer says it took: input, output, read from a cache, written to one.
pub const TOKENS: [u64; 4] = [1_000, 200, 3_000, 50];

#[derive(Clone)]
pub struct Model {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    script: Arc<Mutex<VecDeque<Reply>>>,
    /// What it does when the script is over.
    rest: Arc<Mutex<Reply>>,
}

impl Model {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let model = Self {
            address: listener.local_addr().unwrap(),
            seen: Arc::default(),
            script: Arc::default(),
            rest: Arc::new(Mutex::new(Reply::Say("done"))),
        };
        let at_work = model.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let model = at_work.clone();
                std::thread::spawn(move || drop(model.answer(stream)));
            }
        });
        model
    }

    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn plays(&self, script: impl IntoIterator<Item = Reply>) {
        self.script.lock().unwrap().extend(script);
    }

    pub fn otherwise(&self, reply: Reply) {
        *self.rest.lock().unwrap() = reply;
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// What the last question told of the last tool call.
    pub fn last_result(&self) -> String {
        let seen = self.seen();
        let messages = seen.last().unwrap().body["messages"].as_array().unwrap().clone();
        let results = messages.last().unwrap()["content"].as_array().unwrap();
        results.last().unwrap()["content"].as_str().unwrap().to_owned()
    }

    fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let (mut headers, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().unwrap();
            }
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        self.seen.lock().unwrap().push(Seen { path: path.clone(), headers, body, at: Instant::now() });
        let reply = self.script.lock().unwrap().pop_front();
        let reply = reply.unwrap_or_else(|| self.rest.lock().unwrap().clone());
        played(stream, &path, reply)
    }
}

fn played(mut stream: TcpStream, path: &str, reply: Reply) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    match reply {
        Reply::Say(text) => write!(stream, "{head}{}", spoken(path, text, &[], true)),
        Reply::Call(calls) => write!(stream, "{head}{}", spoken(path, "", &calls, true)),
        Reply::CutOff(text) => write!(stream, "{head}{}", spoken(path, text, &[], false)),
        Reply::Status(status, headers, body) => {
            let headers: String =
                headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
            )
        }
        Reply::Raw(bytes) => {
            stream.write_all(head.as_bytes())?;
            stream.write_all(&bytes)
        }
        Reply::Mute(time) => {
            std::thread::sleep(time);
            Ok(())
        }
        Reply::Stall(text, time) => {
            write!(stream, "{head}{}", spoken(path, text, &[], false))?;
            std::thread::sleep(time);
            Ok(())
        }
        Reply::Endless(bytes) => {
            stream.write_all(head.as_bytes())?;
            loop {
                stream.write_all(bytes.as_bytes())?;
            }
        }
    }
}

/// An answer in the format that the path asks for.
fn spoken(path: &str, text: &str, calls: &[(&str, Value)], whole: bool) -> String {
    if path.starts_with("/v1/messages") {
        anthropic(text, calls, whole)
    } else if path.ends_with("/chat/completions") {
        openai(text, calls, whole)
    } else if path.contains(":streamGenerateContent") {
        gemini(text, calls, whole)
    } else if path == "/api/chat" {
        ollama(text, calls, whole)
    } else {
        panic!("there is nothing at {path}")
    }
}

fn pieces(text: &str) -> Vec<String> {
    text.chars().collect::<Vec<_>>().chunks(4).map(|chunk| chunk.iter().collect()).collect()
}

fn anthropic(text: &str, calls: &[(&str, Value)], whole: bool) -> String {
    let [input, output, read, written] = TOKENS;
    let mut events = vec![json!({ "type": "message_start", "message": { "usage": { "input_tokens": input,
        "output_tokens": 1, "cache_read_input_tokens": read, "cache_creation_input_tokens": written } } })];
    events.push(json!({ "type": "ping" }));
    if !text.is_empty() {
        events.push(json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }));
        for piece in pieces(text) {
            events.push(json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": piece } }));
        }
        events.push(json!({ "type": "content_block_stop", "index": 0 }));
    }
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let index = index + 1;
        let block = json!({ "type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": {} });
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": block }));
        for piece in pieces(&arguments.to_string()) {
            let delta = json!({ "type": "input_json_delta", "partial_json": piece });
            events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    if whole {
        let reason = if calls.is_empty() { "end_turn" } else { "tool_use" };
        events.push(json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": output } }));
        events.push(json!({ "type": "message_stop" }));
    }
    let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", kind(event))).collect()
}

fn openai(text: &str, calls: &[(&str, Value)], whole: bool) -> String {
    let [input, output, read, _] = TOKENS;
    let chunk = |delta: Value, reason: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
    let mut events: Vec<Value> =
        pieces(text).into_iter().map(|piece| chunk(json!({ "content": piece }), Value::Null)).collect();
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let first = json!({ "index": index, "id": format!("c{index}"), "type": "function",
            "function": { "name": name, "arguments": "" } });
        events.push(chunk(json!({ "tool_calls": [first] }), Value::Null));
        for piece in pieces(&arguments.to_string()) {
            let more = json!({ "index": index, "function": { "arguments": piece } });
            events.push(chunk(json!({ "tool_calls": [more] }), Value::Null));
        }
    }
    let mut text: String = String::new();
    if whole {
        let reason = if calls.is_empty() { "stop" } else { "tool_calls" };
        events.push(chunk(json!({}), json!(reason)));
        events.push(
            json!({ "choices": [], "usage": { "prompt_tokens": input + read, "completion_tokens": output,
            "prompt_tokens_details": { "cached_tokens": read } } }),
        );
        text = "data: [DONE]\n\n".to_owned();
    }
    events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>() + &text
}

fn gemini(text: &str, calls: &[(&str, Value)], whole: bool) -> String {
    let [input, output, read, _] = TOKENS;
    let event = |parts: Value| json!({ "candidates": [{ "content": { "role": "model", "parts": parts } }] });
    let mut events: Vec<Value> =
        pieces(text).into_iter().map(|piece| event(json!([{ "text": piece }]))).collect();
    for (name, arguments) in calls {
        let part = json!({ "functionCall": { "name": name, "args": arguments }, "thoughtSignature": "sig" });
        events.push(event(json!([part])));
    }
    if whole {
        events.push(json!({ "candidates": [{ "content": { "parts": [] }, "finishReason": "STOP" }],
            "usageMetadata": { "promptTokenCount": input + read, "cachedContentTokenCount": read,
                "candidatesTokenCount": output - 20, "thoughtsTokenCount": 20 } }));
    }
    events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect()
}

fn ollama(text: &str, calls: &[(&str, Value)], whole: bool) -> String {
    let [input, output, ..] = TOKENS;
    let mut lines: Vec<Value> = pieces(text)
        .into_iter()
        .map(|piece| json!({ "message": { "role": "assistant", "content": piece }, "done": false }))
        .collect();
    for (name, arguments) in calls {
        let call = json!({ "function": { "name": name, "arguments": arguments } });
        lines.push(
            json!({ "message": { "role": "assistant", "content": "", "tool_calls": [call] }, "done": false }),
        );
    }
    if whole {
        lines.push(
            json!({ "message": { "role": "assistant", "content": "" }, "done": true, "done_reason": "stop",
            "prompt_eval_count": input, "eval_count": output }),
        );
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}
