//! Chat completions, as OpenAI and many compatible servers speak them.

use serde_json::{Value, json};

use super::{Draft, Entry, Request, Stop, Trouble, Wire, count, document, text_at};
use crate::document::set;

pub(crate) struct Openai;

impl Wire for Openai {
    fn path(&self, _model: &str) -> String {
        "/chat/completions".to_owned()
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("authorization", "Bearer ")
    }

    fn body(&self, model: &str, request: &Request<'_>) -> Value {
        let mut messages = vec![json!({ "role": "system", "content": request.system })];
        for entry in request.entries {
            messages.extend(said(entry));
        }
        let mut body = json!({
            "model": model,
            "stream": true,
            "stream_options": { "include_usage": true },
            "max_completion_tokens": request.answer_tokens,
            "messages": messages,
        });
        if !request.offers.is_empty() {
            let tools = request.offers.iter().map(|tool| {
                let function =
                    json!({ "name": tool.name, "description": tool.about, "parameters": tool.input });
                json!({ "type": "function", "function": function })
            });
            set(&mut body, "tools", tools.collect());
        }
        body
    }

    fn event(&self, data: &str, draft: &mut Draft) -> Result<String, Trouble> {
        if data.trim() == "[DONE]" {
            draft.ended = true;
            return Ok(String::new());
        }
        let event = document(data)?;
        if event.get("error").is_some_and(|error| !error.is_null()) {
            let kind = text_at(&event, "/error/type").unwrap_or("error").chars().take(64).collect();
            return Err(Trouble::Garbage(kind));
        }
        if let Some(input) = count(&event, "/usage/prompt_tokens") {
            let cached = count(&event, "/usage/prompt_tokens_details/cached_tokens").unwrap_or_default();
            draft.usage.input = input.saturating_sub(cached);
            draft.usage.cache_read = cached;
            draft.usage.output = count(&event, "/usage/completion_tokens").unwrap_or_default();
        }
        for call in
            event.pointer("/choices/0/delta/tool_calls").and_then(Value::as_array).into_iter().flatten()
        {
            let index = count(call, "/index").unwrap_or_default();
            let name = text_at(call, "/function/name").unwrap_or_default();
            draft.call(index, name, text_at(call, "/function/arguments").unwrap_or_default())?;
        }
        if let Some(reason) = text_at(&event, "/choices/0/finish_reason") {
            draft.stop = Some(match reason {
                "length" => Stop::Length,
                "content_filter" => Stop::Refusal,
                "tool_calls" => Stop::Tools,
                _ => Stop::Done,
            });
        }
        let text = text_at(&event, "/choices/0/delta/content").unwrap_or_default();
        draft.say(text)?;
        Ok(text.to_owned())
    }
}

fn said(entry: &Entry) -> Vec<Value> {
    match entry {
        Entry::User { text } => vec![json!({ "role": "user", "content": text })],
        Entry::Assistant { text, calls } => {
            let mut message = json!({ "role": "assistant", "content": text });
            if !calls.is_empty() {
                let calls = calls.iter().map(|call| {
                    let function = json!({ "name": call.name, "arguments": call.input.to_string() });
                    json!({ "id": call.id, "type": "function", "function": function })
                });
                set(&mut message, "tool_calls", calls.collect());
            }
            vec![message]
        }
        Entry::Results { results } => {
            let results = results.iter();
            results
                .map(|one| json!({ "role": "tool", "tool_call_id": one.id, "content": one.text }))
                .collect()
        }
    }
}
