//! The chat format of Ollama: one JSON document a line.

use serde_json::{Value, json};

use super::{Draft, Entry, Request, Stop, Trouble, Wire, count, document, text_at};

pub(crate) struct Ollama;

impl Wire for Ollama {
    fn path(&self, _model: &str) -> String {
        "/api/chat".to_owned()
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("authorization", "Bearer ")
    }

    fn body(&self, model: &str, request: &Request<'_>) -> Value {
        let mut messages = vec![json!({ "role": "system", "content": request.system })];
        for entry in request.entries {
            messages.extend(said(entry));
        }
        let tools = request.offers.iter().map(|tool| {
            let function = json!({ "name": tool.name, "description": tool.about, "parameters": tool.input });
            json!({ "type": "function", "function": function })
        });
        json!({
            "model": model,
            "stream": true,
            "messages": messages,
            "tools": tools.collect::<Vec<_>>(),
            "options": { "num_predict": request.answer_tokens },
        })
    }

    fn event(&self, data: &str, draft: &mut Draft) -> Result<String, Trouble> {
        let event = document(data)?;
        if let Some(error) = text_at(&event, "/error") {
            return Err(Trouble::Garbage(error.chars().take(200).collect()));
        }
        for call in event.pointer("/message/tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let name = text_at(call, "/function/name").unwrap_or_default();
            draft.whole(name, call.pointer("/function/arguments"), None)?;
        }
        if event.get("done").and_then(Value::as_bool) == Some(true) {
            draft.ended = true;
            draft.usage.input = count(&event, "/prompt_eval_count").unwrap_or_default();
            draft.usage.output = count(&event, "/eval_count").unwrap_or_default();
            draft.stop = Some(match text_at(&event, "/done_reason") {
                Some("length") => Stop::Length,
                _ => Stop::Done,
            });
        }
        let text = text_at(&event, "/message/content").unwrap_or_default();
        draft.say(text)?;
        Ok(text.to_owned())
    }
}

fn said(entry: &Entry) -> Vec<Value> {
    match entry {
        Entry::User { text } => vec![json!({ "role": "user", "content": text })],
        Entry::Assistant { text, calls } => {
            let calls = calls.iter().map(|call| {
                let arguments = if call.input.is_object() { call.input.clone() } else { json!({}) };
                json!({ "function": { "name": call.name, "arguments": arguments } })
            });
            vec![json!({ "role": "assistant", "content": text, "tool_calls": calls.collect::<Vec<_>>() })]
        }
        Entry::Results { results } => {
            let results = results.iter();
            results.map(|one| json!({ "role": "tool", "tool_name": one.name, "content": one.text })).collect()
        }
    }
}
