//! The Messages format of Anthropic.

use serde_json::{Value, json};

use super::{Draft, Entry, Request, Stop, Trouble, Wire, count, document, text_at};

pub(crate) struct Anthropic;

impl Wire for Anthropic {
    fn path(&self, _model: &str) -> String {
        "/v1/messages".to_owned()
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("x-api-key", "")
    }

    fn body(&self, model: &str, request: &Request<'_>) -> Value {
        let offers = request.offers.iter();
        let tools: Vec<Value> = offers
            .map(|tool| json!({ "name": tool.name, "description": tool.about, "input_schema": tool.input }))
            .collect();
        json!({
            "model": model,
            "max_tokens": request.answer_tokens,
            "stream": true,
            "system": [{ "type": "text", "text": request.system, "cache_control": { "type": "ephemeral" } }],
            "messages": request.entries.iter().map(message).collect::<Vec<_>>(),
            "tools": tools,
        })
    }

    fn event(&self, data: &str, draft: &mut Draft) -> Result<String, Trouble> {
        let event = document(data)?;
        let index = count(&event, "/index").unwrap_or_default();
        match text_at(&event, "/type").unwrap_or_default() {
            "message_start" => {
                let usage = |name: &str| count(&event, &format!("/message/usage/{name}"));
                draft.usage.input = usage("input_tokens").unwrap_or_default();
                draft.usage.cache_read = usage("cache_read_input_tokens").unwrap_or_default();
                draft.usage.cache_write = usage("cache_creation_input_tokens").unwrap_or_default();
                draft.usage.output = usage("output_tokens").unwrap_or_default();
            }
            "content_block_start" => match text_at(&event, "/content_block/type") {
                Some("tool_use") => {
                    draft.call(index, text_at(&event, "/content_block/name").unwrap_or_default(), "")?;
                }
                Some("text") => {
                    let text = text_at(&event, "/content_block/text").unwrap_or_default();
                    draft.say(text)?;
                    return Ok(text.to_owned());
                }
                _ => {}
            },
            "content_block_delta" => {
                if let Some(text) = text_at(&event, "/delta/text") {
                    draft.say(text)?;
                    return Ok(text.to_owned());
                }
                if let Some(input) = text_at(&event, "/delta/partial_json") {
                    draft.call(index, "", input)?;
                }
            }
            "message_delta" => {
                if let Some(output) = count(&event, "/usage/output_tokens") {
                    draft.usage.output = output;
                }
                draft.stop = text_at(&event, "/delta/stop_reason").map(|reason| match reason {
                    "max_tokens" => Stop::Length,
                    "refusal" => Stop::Refusal,
                    "tool_use" => Stop::Tools,
                    _ => Stop::Done,
                });
            }
            "message_stop" => draft.ended = true,
            "error" => {
                let kind = text_at(&event, "/error/type").unwrap_or("error").chars().take(64).collect();
                return Err(Trouble::Garbage(kind));
            }
            _ => {}
        }
        Ok(String::new())
    }
}

fn message(entry: &Entry) -> Value {
    match entry {
        Entry::User { text } => json!({ "role": "user", "content": text }),
        Entry::Assistant { text, calls } => {
            let mut content = Vec::new();
            if !text.is_empty() {
                content.push(json!({ "type": "text", "text": text }));
            }
            for call in calls {
                let input = if call.input.is_object() { call.input.clone() } else { json!({}) };
                content.push(json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input }));
            }
            json!({ "role": "assistant", "content": content })
        }
        Entry::Results { results } => {
            let content = results.iter().map(|one| {
                json!({ "type": "tool_result", "tool_use_id": one.id, "content": one.text, "is_error": one.failed })
            });
            json!({ "role": "user", "content": content.collect::<Vec<_>>() })
        }
    }
}
