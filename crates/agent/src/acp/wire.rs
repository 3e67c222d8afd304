//! Messages as lines: JSON-RPC 2.0, one message a line, in both directions.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cancel::Cancel;
use crate::history::SessionId;

/// Bytes of a line.
const LINE: usize = 8 << 20;

/// Why a request was not answered as it wished.
#[derive(Debug)]
pub(crate) struct Fault {
    code: i64,
    message: String,
}

impl Fault {
    pub(crate) fn parse(why: impl Into<String>) -> Self {
        Self { code: -32_700, message: why.into() }
    }
    pub(crate) fn request(why: impl Into<String>) -> Self {
        Self { code: -32_600, message: why.into() }
    }
    pub(crate) fn method(name: &str) -> Self {
        let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        Self { code: -32_601, message: format!("there is no method `{name}`") }
    }
    pub(crate) fn params(why: impl Into<String>) -> Self {
        Self { code: -32_602, message: why.into() }
    }
    pub(crate) fn internal(why: impl Into<String>) -> Self {
        Self { code: -32_603, message: why.into() }
    }
    pub(crate) fn missing(why: impl Into<String>) -> Self {
        Self { code: -32_002, message: why.into() }
    }
}

/// What came in.
pub(crate) enum Incoming {
    Request(Value, String, Value),
    Notice(String, Value),
    /// The answer to a request of ours; nothing if it was refused.
    Answer(u64, Option<Value>),
    Bad(&'static str),
    End,
}

/// Messages of a stream.
pub(crate) struct Lines<R>(R);

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self(reader)
    }

    pub(crate) fn next(&mut self) -> Incoming {
        let mut line = Vec::new();
        loop {
            match self.line(&mut line) {
                None => return Incoming::End,
                Some(false) => return Incoming::Bad("the line is too long"),
                Some(true) if line.iter().all(u8::is_ascii_whitespace) => line.clear(),
                Some(true) => return message(&line),
            }
        }
    }

    /// Reads a line. One that is too long is read to its end and dropped: false.
    fn line(&mut self, line: &mut Vec<u8>) -> Option<bool> {
        let mut fits = true;
        loop {
            let piece = match self.0.fill_buf() {
                Ok(piece) if !piece.is_empty() => piece,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Ok(_) | Err(_) => return if line.is_empty() && fits { None } else { Some(fits) },
            };
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(piece.len(), |end| end + 1);
            if fits && line.len() + taken > LINE {
                fits = false;
                *line = Vec::new();
            }
            if fits {
                line.extend(piece.iter().take(taken));
            }
            self.0.consume(taken);
            if end.is_some() {
                return Some(fits);
            }
        }
    }
}

fn message(line: &[u8]) -> Incoming {
    let Ok(Value::Object(mut message)) = serde_json::from_slice(line) else {
        return Incoming::Bad("the line is no JSON object");
    };
    let params = message.remove("params").unwrap_or(Value::Null);
    match (message.remove("method"), message.remove("id")) {
        (Some(Value::String(method)), None) => Incoming::Notice(method, params),
        (Some(Value::String(method)), Some(id @ (Value::String(_) | Value::Number(_)))) => {
            Incoming::Request(id, method, params)
        }
        (None, Some(id)) => match id.as_u64() {
            Some(id) => Incoming::Answer(id, message.remove("result")),
            None => Incoming::Bad("an answer to nothing that was asked"),
        },
        (Some(_), _) | (None, None) => Incoming::Bad("the line is no message"),
    }
}

/// Why a question of ours has no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    Cancelled,
    Refused,
    Late,
}

/// Questions that wait for their answers.
#[derive(Default)]
struct Asked {
    last: u64,
    waiting: HashMap<u64, SyncSender<Option<Value>>>,
}

/// The other side.
pub(crate) struct Peer {
    out: Mutex<Option<Box<dyn Write + Send>>>,
    asked: Mutex<Asked>,
}

impl Peer {
    pub(crate) fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out: Mutex::new(Some(out)), asked: Mutex::default() }
    }

    /// Says nothing more: there is nobody.
    pub(crate) fn close(&self) {
        *self.out.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn say(&self, message: &Value) {
        let mut line = message.to_string();
        line.push('\n');
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let said =
            out.as_mut().is_none_or(|out| out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_ok());
        if !said {
            *out = None;
        }
    }

    pub(crate) fn answer(&self, id: &Value, result: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    pub(crate) fn fail(&self, id: &Value, fault: &Fault) {
        let error = json!({ "code": fault.code, "message": fault.message });
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
    }

    pub(crate) fn update(&self, session: &SessionId, update: Value) {
        let params = json!({ "sessionId": session.as_str(), "update": update });
        self.say(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
    }

    /// An answer came.
    pub(crate) fn heard(&self, id: u64, result: Option<Value>) {
        let waiting = self.asked.lock().unwrap_or_else(PoisonError::into_inner).waiting.remove(&id);
        if let Some(waiting) = waiting {
            // Whoever asked may have stopped waiting.
            let _ = waiting.try_send(result);
        }
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(
        &self,
        method: &str,
        params: Value,
        cancel: &Cancel,
        time: Duration,
    ) -> Result<Value, Unanswered> {
        let (told, heard) = sync_channel(1);
        let id = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.last += 1;
            let id = asked.last;
            asked.waiting.insert(id, told);
            id
        };
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let until = Instant::now() + time;
        let result = loop {
            match heard.recv_timeout(Duration::from_millis(20)) {
                Ok(Some(result)) => break Ok(result),
                Ok(None) | Err(RecvTimeoutError::Disconnected) => break Err(Unanswered::Refused),
                Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => break Err(Unanswered::Cancelled),
                Err(RecvTimeoutError::Timeout) if Instant::now() > until => break Err(Unanswered::Late),
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).waiting.remove(&id);
        result
    }
}
