//! Turns a record into a message of JSON-RPC, or says why it is none.

use serde_json::{Value, json};

use crate::depth;
use crate::fields::{ABOUT, NAME, short, shown};

/// What an agent's line is.
pub(crate) enum Message {
    Request { id: TheirId, method: String, params: Value },
    Notice { method: String, params: Value },
    Answer { id: u64, answer: Answer },
}

/// What became of a request of ours.
pub(crate) enum Answer {
    Result(Value),
    Refusal {
        code: i64,
        message: String,
    },
    /// It was there and could not be kept, or was nothing.
    Unusable(&'static str),
}

/// The id that an agent gave to a request of its own: given back with the answer, and meaning nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TheirId(Value);

impl TheirId {
    pub(crate) fn of(value: Value) -> Option<Self> {
        let fits = match &value {
            Value::String(text) => text.len() <= NAME,
            Value::Number(_) => true,
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
        };
        fits.then_some(Self(value))
    }
}

/// Reads a record.
pub(crate) fn read(record: &[u8], most_depth: usize) -> Result<Message, String> {
    let no = |why: &str| format!("{why}: `{}`", shown(record));
    let mut value = match serde_json::from_slice(&depth::cut(record, most_depth)) {
        Ok(Value::Object(value)) => value,
        Ok(_) => return Err(no("a record is no object")),
        Err(error) => return Err(no(&format!("a record is no JSON ({error})"))),
    };
    let params = value.remove("params").unwrap_or(Value::Null);
    match (value.remove("method"), value.remove("id")) {
        (Some(Value::String(method)), None) if method.len() <= NAME => Ok(Message::Notice { method, params }),
        (Some(Value::String(method)), Some(id)) if method.len() <= NAME => match TheirId::of(id) {
            Some(id) => Ok(Message::Request { id, method, params }),
            None => Err(no("the id of a request is no number and no short text")),
        },
        (None, Some(id)) => match id.as_u64() {
            Some(id) => {
                Ok(Message::Answer { id, answer: answer(value.remove("result"), value.remove("error")) })
            }
            None => Err(no("an answer to nothing that was asked")),
        },
        (Some(_), _) | (None, None) => Err(no("a record is no message")),
    }
}

fn answer(result: Option<Value>, error: Option<Value>) -> Answer {
    match (result, error.filter(|error| !error.is_null())) {
        (_, Some(error)) => {
            let message = error.get("message").and_then(Value::as_str).unwrap_or("it does not say why");
            // Some put what is worth knowing only here.
            let details = error.pointer("/data/details").or_else(|| error.pointer("/data/message"));
            let details = details.and_then(Value::as_str).filter(|text| !message.contains(text));
            let message = details.map_or_else(|| message.to_owned(), |more| format!("{message}: {more}"));
            let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
            Answer::Refusal { code, message: short(message, ABOUT) }
        }
        (Some(result), None) => Answer::Result(result),
        (None, None) => Answer::Unusable("it has neither a result nor an error"),
    }
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

pub(crate) fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

pub(crate) fn notice(method: &str, params: &Value) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

pub(crate) fn result(id: &TheirId, result: &Value) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": id.0, "result": result }))
}

pub(crate) fn refusal(id: &TheirId, code: i64, message: &str) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": id.0, "error": { "code": code, "message": message } }))
}
