//! Turns steps of a session into the words of the protocol, and what an editor prompts into a text.
//!
//! What the daemon tells is clean already: without secrets, and without what acts on a terminal.

use std::collections::HashSet;

use api::Step;
use serde_json::{Map, Value, json};

use crate::commands::sessions::HIDDEN;

/// Characters of a prompt.
const PROMPT: usize = 256_000;
/// Calls that are remembered; more are told as new ones.
const CALLS: usize = 4096;

/// What an editor was told so far.
#[derive(Debug, Default)]
pub(super) struct Words {
    calls: HashSet<String>,
}

/// Whether it happens now or is told again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Now,
    Again,
}

impl Words {
    /// The update that says what this step does; none where there is no word for it.
    pub(super) fn update(&mut self, step: &Step, when: When) -> Option<Value> {
        let text = |name: &str| step.body.get(name).and_then(Value::as_str);
        match step.kind.as_str() {
            "assistant" => match text("text") {
                Some(said) => Some(chunk("agent_message_chunk", said)),
                None => text("thought").map(|thought| chunk("agent_thought_chunk", thought)),
            },
            // Whoever asked knows what was asked.
            "user" => {
                text("text").filter(|_| when == When::Again).map(|asked| chunk("user_message_chunk", asked))
            }
            "tool_use" | "tool_result" => self.call(&step.body),
            "error" => {
                text("text").map(|why| chunk("agent_message_chunk", &format!("\n[palisade: {why}]\n")))
            }
            "system" => system(&step.body),
            // How a turn ended is its answer; when it is told again there is none.
            "result" if when == When::Again && text("state") != Some("done") => {
                let why = format!("\n[palisade: {}: {}]\n", text("state")?, text("text").unwrap_or_default());
                Some(chunk("agent_message_chunk", &why))
            }
            _ => None,
        }
    }

    fn call(&mut self, body: &Value) -> Option<Value> {
        let mut fields = call(body)?;
        let id = fields.get("toolCallId")?.as_str()?.to_owned();
        if self.calls.len() >= CALLS {
            self.calls.clear();
        }
        let kind = if self.calls.insert(id) {
            fields.entry("title").or_insert_with(|| json!("a call"));
            "tool_call"
        } else {
            "tool_call_update"
        };
        fields.insert("sessionUpdate".into(), json!(kind));
        Some(Value::Object(fields))
    }
}

fn chunk(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

/// A word of Palisade's own, beside what the agent says.
pub(super) fn note(text: &str) -> Value {
    chunk("agent_thought_chunk", &format!("[palisade: {text}]\n"))
}

fn system(body: &Value) -> Option<Value> {
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    if let Some(steps) = body.get("plan").and_then(Value::as_array) {
        let entry = |step: &Value| {
            let word = |name: &str| step.get(name).and_then(Value::as_str);
            let status = word("status").unwrap_or("pending");
            json!({ "content": word("text").unwrap_or_default(), "priority": "medium", "status": status })
        };
        return Some(
            json!({ "sessionUpdate": "plan", "entries": steps.iter().map(entry).collect::<Vec<_>>() }),
        );
    }
    if let Some(usage) = body.get("usage") {
        let count = |name: &str| usage.get(name).and_then(Value::as_u64);
        let mut update =
            json!({ "sessionUpdate": "usage_update", "used": count("used")?, "size": count("size")? });
        if let (Some(update), Some(cost)) =
            (update.as_object_mut(), usage.get("cost").filter(|cost| cost.is_object()))
        {
            update.insert("cost".into(), cost.clone());
        }
        return Some(update);
    }
    match text("title") {
        Some(title) => Some(json!({ "sessionUpdate": "session_info_update", "title": title })),
        None => text("text").map(note),
    }
}

/// What is told of a call, by the protocol's names.
fn call(body: &Value) -> Option<Map<String, Value>> {
    let mut fields = Map::new();
    fields.insert("toolCallId".into(), json!(body.get("call")?.as_str()?));
    for name in ["title", "kind", "status"] {
        if let Some(word) = body.get(name).and_then(Value::as_str) {
            fields.insert(name.into(), json!(word));
        }
    }
    if let Some(input) = body.get("input") {
        fields.insert("rawInput".into(), input.clone());
    }
    if let Some(all) = body.get("content").and_then(Value::as_array) {
        fields.insert("content".into(), all.iter().map(content).collect());
    }
    if let Some(paths) = body.get("paths").and_then(Value::as_array) {
        let place = |path: &Value| path.as_str().map(|path| json!({ "path": path }));
        fields.insert("locations".into(), paths.iter().filter_map(place).collect());
    }
    Some(fields)
}

fn content(shown: &Value) -> Value {
    let text = |name: &str| shown.get(name).and_then(Value::as_str);
    if let (Some(path), Some(new)) = (text("path"), text("new")) {
        return match text("old") {
            Some(old) => json!({ "type": "diff", "path": path, "oldText": old, "newText": new }),
            None => json!({ "type": "diff", "path": path, "newText": new }),
        };
    }
    let words = match (text("text"), text("terminal")) {
        (Some(text), _) => text.to_owned(),
        // It is the agent's, inside its sandbox.
        (None, Some(id)) => format!("[terminal {id}]"),
        (None, None) => String::new(),
    };
    json!({ "type": "content", "content": { "type": "text", "text": words } })
}

/// Something that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) approval: String,
    /// The digest of what is shown.
    pub(super) effect: String,
    /// The ids of the choices that allow it.
    pub(super) allows: Vec<String>,
}

/// What a step asks of a person: what to remember, and the question.
pub(super) fn question(step: &Step, session: &str) -> Option<(Waiting, Value)> {
    let text = |name: &str| step.body.get(name).and_then(Value::as_str);
    let (approval, effect) = (text("approval")?, text("effect")?);
    let mut fields = call(step.body.pointer("/asks/call")?)?;
    fields.insert("status".into(), json!("pending"));
    if step.body.pointer("/asks/hidden").and_then(Value::as_bool) == Some(true) {
        tell_hidden(&mut fields);
    }
    let (mut allows, mut options) = (Vec::new(), Vec::new());
    for choice in step.body.pointer("/asks/choices")?.as_array()? {
        let word = |name: &str| choice.get(name).and_then(Value::as_str);
        let (id, kind) = (word("id")?, word("kind")?);
        match kind {
            "allow_once" => allows.push(id.to_owned()),
            "reject_once" | "reject_always" => {}
            // What an older daemon kept may offer more than it takes.
            _ => continue,
        }
        options.push(json!({ "optionId": id, "name": word("name")?, "kind": kind }));
    }
    let waiting = Waiting { approval: approval.into(), effect: effect.into(), allows };
    Some((waiting, json!({ "sessionId": session, "toolCall": fields, "options": options })))
}

/// Says with an effect that not all of it is shown: in its title, which every editor has on the screen, and before what it changes.
fn tell_hidden(fields: &mut Map<String, Value>) {
    let title = fields.get("title").and_then(Value::as_str).unwrap_or("a call");
    let title = format!("[not all of this is shown] {title}");
    fields.insert("title".into(), json!(title));
    let told = json!({ "type": "content", "content": { "type": "text", "text": HIDDEN.trim_start() } });
    let shown = fields.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
    fields.insert("content".into(), [vec![told], shown].concat().into());
}

/// The approval that a step says is decided.
pub(super) fn decided(step: &Step) -> Option<&str> {
    step.body.get("decision").and_then(|_| step.body.get("approval")?.as_str())
}

/// The text of what an editor prompts.
pub(super) fn prompted(parts: &[Value]) -> Result<String, String> {
    let mut texts = Vec::new();
    for part in parts {
        let text = |pointer: &str| part.pointer(pointer).and_then(Value::as_str);
        texts.push(match text("/type") {
            Some("text") => text("/text").ok_or("a text without text")?.to_owned(),
            Some("resource_link") => {
                let uri = text("/uri").ok_or("a link without an address")?;
                format!("[see {}: {uri}]", text("/name").unwrap_or_default())
            }
            Some("resource") => {
                let inside = text("/resource/text").ok_or("only resources of text are understood")?;
                let uri = text("/resource/uri").unwrap_or_default();
                format!("[content of {uri}]\n{inside}\n[end of {uri}]")
            }
            _ => return Err("only text, links and resources of text are understood".to_owned()),
        });
    }
    let text = texts.join("\n\n");
    match text.chars().take(PROMPT + 1).count() {
        _ if text.trim().is_empty() => Err("a prompt has words".to_owned()),
        count if count > PROMPT => Err(format!("a prompt has at most {PROMPT} characters")),
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(kind: &str, body: Value) -> Step {
        Step { seq: 1, at: 0, task: None, kind: kind.into(), body }
    }

    #[test]
    fn a_call_is_new_once_and_changes_then() {
        let mut words = Words::default();
        let begun = json!({ "call": "c1", "title": "write a", "kind": "edit", "status": "pending", "content": [{ "path": "/a", "old": null, "new": "x" }], "paths": ["/a"], "input": { "p": 1 } });
        let told = words.update(&step("tool_use", begun), When::Now).unwrap();
        assert_eq!(
            told,
            json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "write a", "kind": "edit", "status": "pending",
                "rawInput": { "p": 1 }, "content": [{ "type": "diff", "path": "/a", "newText": "x" }], "locations": [{ "path": "/a" }] })
        );
        let over =
            words.update(&step("tool_result", json!({ "call": "c1", "status": "completed" })), When::Now);
        assert_eq!(
            over.unwrap(),
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed" })
        );
        let unknown =
            words.update(&step("tool_result", json!({ "call": "c2", "status": "failed" })), When::Now);
        assert_eq!(unknown.unwrap()["sessionUpdate"], "tool_call");
        for odd in [json!({}), json!({ "call": 7 }), json!([]), json!("x")] {
            assert_eq!(words.update(&step("tool_use", odd), When::Now), None);
        }
        for n in 0..3 * CALLS {
            words.update(&step("tool_use", json!({ "call": n.to_string() })), When::Now);
        }
        assert!(words.calls.len() <= CALLS);
    }

    /// ADV-A01: whoever decides in an editor is told that there is something that they do not see.
    #[test]
    fn adv_a01_an_editor_is_told_that_not_all_is_shown() {
        let asks = |hidden: bool| {
            let call = json!({ "call": "c1", "title": "write a", "content": [{ "path": "/a", "new": "x" }] });
            let choices = json!([{ "id": "yes", "name": "Yes", "kind": "allow_once" }]);
            let asks = json!({ "call": call, "choices": choices, "hidden": hidden });
            let step = step("system", json!({ "approval": "apr_1", "effect": "e", "asks": asks }));
            question(&step, "ses_1").unwrap().1["toolCall"].clone()
        };
        let plain = asks(false);
        assert_eq!(
            (plain["title"].as_str(), plain["content"].as_array().unwrap().len()),
            (Some("write a"), 1)
        );
        let hidden = asks(true);
        assert_eq!(hidden["title"], "[not all of this is shown] write a");
        assert!(
            hidden["content"][0]["content"]["text"].as_str().unwrap().contains("is not shown"),
            "{hidden}"
        );
        assert_eq!(hidden["content"][1]["type"], "diff");
    }

    #[test]
    fn what_was_asked_is_told_only_again() {
        let mut words = Words::default();
        let asked = step("user", json!({ "text": "do it" }));
        assert_eq!(words.update(&asked, When::Now), None);
        assert_eq!(words.update(&asked, When::Again).unwrap()["sessionUpdate"], "user_message_chunk");
        let plan =
            step("system", json!({ "plan": [{ "text": "one", "status": "completed" }, { "text": "two" }] }));
        let told = words.update(&plan, When::Now).unwrap();
        assert_eq!(told["entries"][0]["status"], "completed");
        assert_eq!(told["entries"][1]["status"], "pending");
    }

    #[test]
    fn ses_01_prompts_at_their_bounds() {
        let text = |text: String| vec![json!({ "type": "text", "text": text })];
        assert!(prompted(&text("ä".repeat(PROMPT))).is_ok());
        assert!(prompted(&text("x".repeat(PROMPT + 1))).is_err());
        assert!(prompted(&text(" \n".into())).is_err());
        assert!(prompted(&[]).is_err());
        assert!(prompted(&[json!({ "type": "image", "data": "", "mimeType": "image/png" })]).is_err());
        let all = [
            json!({ "type": "text", "text": "a" }),
            json!({ "type": "resource_link", "name": "n", "uri": "file:///n" }),
        ];
        assert_eq!(prompted(&all).unwrap(), "a\n\n[see n: file:///n]");
    }
}
