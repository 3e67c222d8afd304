//! Turns a conversation into a model's answer, by whichever provider answers.
//!
//! Flow: [`Request`] -> [`pool`] (which provider, which key, how often) -> one of the wire formats (a body) -> [`http`] ->
//! [`lines`] (events) -> the same wire format -> [`Draft`] -> [`Answer`].
//!
//! Invariant: whatever a provider sends, what is kept of it is bounded, and what is said of it holds no key.

mod anthropic;
mod breaker;
mod draft;
mod gemini;
mod http;
mod lines;
mod ollama;
mod openai;
mod pool;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::prices::Usage;

pub(crate) use draft::Draft;
pub(crate) use http::Web;
pub(crate) use pool::{AskError, Delta, Pool};

/// One part of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Entry {
    User { text: String },
    Assistant { text: String, calls: Vec<Call> },
    Results { results: Vec<CallResult> },
}

/// A tool that the model wants used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: Value,
    /// What one provider wants back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signature: Option<String>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallResult {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) failed: bool,
}

/// A tool as a model is told of it.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) input: Value,
}

/// What a model is asked.
pub(crate) struct Request<'a> {
    pub(crate) system: &'a str,
    pub(crate) entries: &'a [Entry],
    pub(crate) offers: &'a [Offer],
    pub(crate) answer_tokens: u64,
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Done,
    Tools,
    Length,
    Refusal,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    pub(crate) stop: Stop,
    pub(crate) usage: Usage,
    pub(crate) provider: String,
    pub(crate) model: String,
}

/// What is wrong with one try.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("could not be reached: {0}")]
    Unreachable(String),
    #[error("did not answer in time")]
    Slow,
    #[error("answered {status}{}", if excerpt.is_empty() { String::new() } else { format!(": {excerpt}") })]
    Status { status: u16, excerpt: String, wait_ms: Option<u64> },
    #[error("cut its answer off")]
    CutOff,
    #[error("sent more than an answer may have")]
    TooLong,
    #[error("sent what is no answer: {0}")]
    Garbage(String),
}

/// One wire format.
pub(crate) trait Wire {
    /// Where to send it, beneath the base.
    fn path(&self, model: &str) -> String;
    /// The header that carries the key, and what stands before the key in it.
    fn key_header(&self) -> (&'static str, &'static str);
    /// What to send.
    fn body(&self, model: &str, request: &Request<'_>) -> Value;
    /// Takes in one event; gives the text that it added.
    fn event(&self, data: &str, draft: &mut Draft) -> Result<String, Trouble>;
}

pub(crate) fn wire(kind: crate::config::Kind) -> &'static dyn Wire {
    use crate::config::Kind;
    match kind {
        Kind::Anthropic => &anthropic::Anthropic,
        Kind::Openai => &openai::Openai,
        Kind::Gemini => &gemini::Gemini,
        Kind::Ollama => &ollama::Ollama,
    }
}

/// An event as a document.
fn document(data: &str) -> Result<Value, Trouble> {
    serde_json::from_str(data).map_err(|_| Trouble::Garbage("an event that is no JSON".to_owned()))
}

/// A number of tokens at a place, if there is one.
fn count(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}

fn text_at<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer).and_then(Value::as_str)
}
