//! The generateContent format of Gemini.

use serde_json::{Value, json};

use super::{Draft, Entry, Request, Stop, Trouble, Wire, count, document, text_at};
use crate::document::set;

pub(crate) struct Gemini;

impl Wire for Gemini {
    fn path(&self, model: &str) -> String {
        format!("/v1beta/models/{model}:streamGenerateContent?alt=sse")
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("x-goog-api-key", "")
    }

    fn body(&self, _model: &str, request: &Request<'_>) -> Value {
        let mut body = json!({
            "systemInstruction": { "parts": [{ "text": request.system }] },
            "contents": request.entries.iter().map(content).collect::<Vec<_>>(),
            "generationConfig": { "maxOutputTokens": request.answer_tokens },
        });
        if !request.offers.is_empty() {
            let offers = request.offers.iter();
            let functions: Vec<Value> = offers
                .map(|tool| json!({ "name": tool.name, "description": tool.about, "parametersJsonSchema": tool.input }))
                .collect();
            set(&mut body, "tools", json!([{ "functionDeclarations": functions }]));
        }
        body
    }

    fn event(&self, data: &str, draft: &mut Draft) -> Result<String, Trouble> {
        let event = document(data)?;
        if event.get("error").is_some() {
            let status = text_at(&event, "/error/status").unwrap_or("error").chars().take(64).collect();
            return Err(Trouble::Garbage(status));
        }
        if let Some(input) = count(&event, "/usageMetadata/promptTokenCount") {
            let usage = |name: &str| count(&event, &format!("/usageMetadata/{name}")).unwrap_or_default();
            let cached = usage("cachedContentTokenCount");
            draft.usage.input = input.saturating_sub(cached);
            draft.usage.cache_read = cached;
            // What it thought is paid for like what it said.
            draft.usage.output = usage("candidatesTokenCount").saturating_add(usage("thoughtsTokenCount"));
        }
        let mut added = String::new();
        for part in
            event.pointer("/candidates/0/content/parts").and_then(Value::as_array).into_iter().flatten()
        {
            if part.get("thought").and_then(Value::as_bool) == Some(true) {
                continue;
            }
            if let Some(text) = text_at(part, "/text") {
                draft.say(text)?;
                added.push_str(text);
            }
            if let Some(name) = text_at(part, "/functionCall/name") {
                draft.whole(name, part.pointer("/functionCall/args"), text_at(part, "/thoughtSignature"))?;
            }
        }
        if let Some(reason) = text_at(&event, "/candidates/0/finishReason") {
            draft.ended = true;
            draft.stop = Some(match reason {
                "STOP" => Stop::Done,
                "MAX_TOKENS" => Stop::Length,
                _ => Stop::Refusal,
            });
        } else if text_at(&event, "/promptFeedback/blockReason").is_some() {
            draft.ended = true;
            draft.stop = Some(Stop::Refusal);
        }
        Ok(added)
    }
}

fn content(entry: &Entry) -> Value {
    match entry {
        Entry::User { text } => json!({ "role": "user", "parts": [{ "text": text }] }),
        Entry::Assistant { text, calls } => {
            let mut parts = Vec::new();
            if !text.is_empty() {
                parts.push(json!({ "text": text }));
            }
            for call in calls {
                let args = if call.input.is_object() { call.input.clone() } else { json!({}) };
                let mut part = json!({ "functionCall": { "name": call.name, "args": args } });
                if let Some(signature) = &call.signature {
                    set(&mut part, "thoughtSignature", json!(signature));
                }
                parts.push(part);
            }
            json!({ "role": "model", "parts": parts })
        }
        Entry::Results { results } => {
            let parts = results.iter().map(|one| {
                let response = json!({ if one.failed { "error" } else { "output" }: one.text });
                json!({ "functionResponse": { "name": one.name, "response": response } })
            });
            json!({ "role": "user", "parts": parts.collect::<Vec<_>>() })
        }
    }
}
