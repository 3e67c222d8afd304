//! Makes what is told to a client, and reads what a person said.

use std::path::Path;

use serde_json::{Value, json};

use crate::document::set;
use crate::limits::Limits;
use crate::provider::{Call, Entry};
use crate::session::Session;
use crate::tools::{Prepared, Tool, registry};

/// Characters of a title, and bytes of a call's own arguments that are passed on.
const TITLE: usize = 200;
const INPUT: usize = 65_536;

/// The text of a prompt's parts.
pub(crate) fn prompted(parts: &[Value], limits: &Limits) -> Result<String, String> {
    let mut texts = Vec::new();
    for part in parts {
        let text = |pointer: &str| part.pointer(pointer).and_then(Value::as_str);
        texts.push(match text("/type") {
            Some("text") => text("/text").ok_or("a text without text")?.to_owned(),
            Some("resource_link") => {
                let name = text("/name").unwrap_or_default();
                format!("[see {name}: {}]", text("/uri").ok_or("a link without an address")?)
            }
            Some("resource") => {
                let content = text("/resource/text").ok_or("only resources of text are understood")?;
                let uri = text("/resource/uri").unwrap_or_default();
                format!("[content of {uri}]\n{content}\n[end of {uri}]")
            }
            _ => return Err("only text, links and resources of text are understood".to_owned()),
        });
    }
    let text = texts.join("\n\n");
    if text.trim().is_empty() {
        return Err("a prompt has words".to_owned());
    }
    if text.chars().count() as u64 > limits.prompt_chars {
        return Err(format!("a prompt has at most {} characters", limits.prompt_chars));
    }
    Ok(text)
}

pub(crate) fn said(text: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } })
}

/// How full a conversation is, and what its turn took so far: whoever counts it must not wait for an end that may not come.
pub(crate) fn spent(used: u64, size: u64, spent: Value) -> Value {
    json!({ "sessionUpdate": "usage_update", "used": used, "size": size, "_meta": { "palisade": spent } })
}

/// A call before it is known whether it will be made.
pub(crate) fn call(id: &str, call: &Call, tool: Option<&Tool>, who: &str) -> Value {
    json!({
        "sessionUpdate": "tool_call",
        "toolCallId": id,
        "title": shown(&format!("{who}{}", call.name)),
        "kind": tool.map_or("other", |tool| tool.kind),
        "status": "pending",
        "rawInput": input(&call.input),
    })
}

/// What is known of a call once it is prepared.
pub(crate) fn prepared(id: &str, prepared: &Prepared, root: &Path, who: &str) -> Value {
    let mut fields = json!({
        "toolCallId": id,
        "title": shown(&format!("{who}{}", prepared.title)),
        "locations": prepared.places.iter().map(|place| json!({ "path": absolute(root, place) })).collect::<Vec<_>>(),
    });
    if !prepared.changes.is_empty() {
        set(&mut fields, "content", diffs(prepared, root));
    }
    fields
}

/// The whole effect of a call, for whoever decides on it.
fn diffs(prepared: &Prepared, root: &Path) -> Value {
    let changes = prepared.changes.iter().map(|change| {
        let mut diff = json!({ "type": "diff", "path": absolute(root, &change.path), "newText": change.new });
        if let Some(old) = &change.old {
            set(&mut diff, "oldText", json!(old));
        }
        diff
    });
    changes.collect()
}

/// How a call ended. A change that was made stays shown as one.
pub(crate) fn ended(id: &str, failed: bool, text: &str, changes: Option<Value>) -> Value {
    let status = if failed { "failed" } else { "completed" };
    let mut content = vec![json!({ "type": "content", "content": { "type": "text", "text": text } })];
    if let Some(Value::Array(changes)) = changes {
        content.extend(changes);
    }
    json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "content": content })
}

/// A question to whoever decides.
pub(crate) fn question(session: &Session, fields: &Value, tool: &Tool, subject: &str) -> Value {
    let always = format!("Allow {} for {} in this session", tool.name, shown(subject));
    let mut call = fields.clone();
    set(&mut call, "kind", json!(tool.kind));
    set(&mut call, "status", json!("pending"));
    json!({
        "sessionId": session.id.as_str(),
        "toolCall": call,
        "options": [
            { "optionId": "once", "name": "Allow once", "kind": "allow_once" },
            { "optionId": "always", "name": always, "kind": "allow_always" },
            { "optionId": "no", "name": "Reject", "kind": "reject_once" },
        ],
    })
}

/// A conversation told again, as it was told when it took place.
pub(crate) fn told_again(session: &Session) -> Vec<Value> {
    let mut updates = Vec::new();
    for entry in session.entries() {
        match entry {
            Entry::User { text } => updates.push(
                json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": text } }),
            ),
            Entry::Assistant { text, calls } => {
                if !text.is_empty() {
                    updates.push(said(&text));
                }
                for one in &calls {
                    let tool = registry().iter().find(|tool| tool.name == one.name);
                    updates.push(call(&one.id, one, tool, ""));
                }
            }
            Entry::Results { results } => {
                updates.extend(results.iter().map(|one| ended(&one.id, one.failed, &one.text, None)));
            }
        }
    }
    updates
}

fn absolute(root: &Path, place: &str) -> String {
    let path: std::path::PathBuf = root.join(place).components().collect();
    path.display().to_string()
}

fn input(input: &Value) -> Value {
    let length = input.to_string().len();
    if length <= INPUT { input.clone() } else { json!({ "omitted": format!("{length} bytes") }) }
}

/// A short text that looks like what it is: one line, nothing that acts on a terminal or turns the direction of writing.
fn shown(text: &str) -> String {
    // The style of a picture stays: a message of a commit may have a check mark.
    let plain = |(c, hides): (char, bool)| if hides || c.is_control() { '\u{fffd}' } else { c };
    let count = text.chars().count();
    if count <= TITLE {
        return redact::hiding(text).map(plain).collect();
    }
    // The end of a long text is where a deceit would be.
    let (head, tail) = (TITLE * 2 / 3, TITLE / 3);
    let first: String = redact::hiding(text).take(head).map(plain).collect();
    let last: String = redact::hiding(text).skip(count - tail).map(plain).collect();
    format!("{first} [{} characters] {last}", count - head - tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ses_01_prompts_at_their_bounds() {
        let limits = Limits::default();
        let text = |text: String| vec![json!({ "type": "text", "text": text })];
        assert!(prompted(&text("x".repeat(256_000)), &limits).is_ok());
        assert!(prompted(&text("ä".repeat(256_000)), &limits).is_ok());
        assert!(prompted(&text("x".repeat(256_001)), &limits).is_err());
        for blank in ["", " \n\t"] {
            assert!(prompted(&text(blank.to_owned()), &limits).is_err());
        }
        assert!(
            prompted(&[json!({ "type": "image", "data": "", "mimeType": "image/png" })], &limits).is_err()
        );
        assert!(prompted(&[], &limits).is_err());
    }

    #[test]
    fn titles_cannot_deceive() {
        assert_eq!(shown("ls \u{202e}x\u{1b}[2J\n"), "ls \u{fffd}x\u{fffd}[2J\u{fffd}");
        assert_eq!(shown("rm\u{3164}a\u{e0062} \u{2714}\u{fe0f}"), "rm\u{fffd}a\u{fffd} \u{2714}\u{fe0f}");
        let long = format!("echo {}; rm", "x".repeat(500));
        assert!(
            shown(&long).ends_with("; rm") && shown(&long).contains("[310 characters]"),
            "{}",
            shown(&long)
        );
    }
}
