//! An effect that waits for a person, as it is shown to whoever decides: what it is, where, the command, the change.
//!
//! Invariants: one line here is one line there; whatever acts on a terminal, turns the direction of writing or cannot be
//! seen is written out; what is long is cut in the middle, with a count, since a deceit would be at its end.

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::markdown::turns;

/// Characters of one line, and lines of one change.
const WIDE: usize = 400;
const LONG: usize = 60;
/// Changes and paths that are shown.
const MANY: usize = 20;
/// Bytes of a change that is compared line by line.
const COMPARED: usize = 256 << 10;

/// What is said where not all of an effect is shown.
pub(in crate::commands) const HIDDEN: &str =
    "  ! a part of this is not shown, because it looks like a secret; what is hidden may be more than that";

/// The lines that show it.
pub(super) fn shown(asks: &Value) -> Vec<String> {
    let call = asks.get("call").unwrap_or(&Value::Null);
    let text = |name: &str| call.get(name).and_then(Value::as_str);
    let list = |name: &str| call.get(name).and_then(Value::as_array).into_iter().flatten();
    let mut lines = vec![format!(
        "? {} {}",
        line(text("kind").unwrap_or("call")),
        line(text("title").unwrap_or_default())
    )];
    let paths: Vec<String> =
        list("paths").filter_map(Value::as_str).map(|path| format!("  path     {}", line(path))).collect();
    lines.extend(middle(paths, MANY, "paths"));
    if let Some(input) = call.get("input") {
        match input.get("command") {
            Some(Value::String(command)) => lines.push(format!("  command  {}", line(command))),
            Some(command) => lines.push(format!("  command  {}", line(&command.to_string()))),
            None => lines.push(format!("  input    {}", line(&input.to_string()))),
        }
        let rest: serde_json::Map<String, Value> = input
            .as_object()
            .filter(|fields| fields.contains_key("command"))
            .into_iter()
            .flatten()
            .filter(|(name, _)| *name != "command")
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !rest.is_empty() {
            lines.push(format!("  with     {}", line(&Value::Object(rest).to_string())));
        }
    }
    let mut contents = Vec::new();
    for content in list("content").take(MANY) {
        contents.extend(changed(content));
    }
    lines.extend(contents);
    let more = list("content").count().saturating_sub(MANY);
    if more > 0 {
        lines.push(format!("  [{more} more changes: `palisade approval list` shows them]"));
    }
    if asks.get("hidden").and_then(Value::as_bool) == Some(true) {
        lines.push(HIDDEN.to_owned());
    }
    lines
}

fn changed(content: &Value) -> Vec<String> {
    let text = |name: &str| content.get(name).and_then(Value::as_str);
    let (Some(path), Some(new)) = (text("path"), text("new")) else {
        let words = text("text").or(text("terminal")).unwrap_or_default();
        return middle(words.lines().map(|one| format!("  {}", line(one))).collect(), LONG, "lines");
    };
    let old = text("old").unwrap_or_default();
    let mut lines =
        vec![format!("  {} {}", if text("old").is_some() { "change  " } else { "new file" }, line(path))];
    if old.len() + new.len() > COMPARED {
        lines.push(format!("  [{} bytes become {}: too much to show]", old.len(), new.len()));
        return lines;
    }
    let diff = TextDiff::from_lines(old, new);
    let mut all = Vec::new();
    for change in diff.iter_all_changes() {
        let sign = match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => continue,
        };
        all.push(format!("  {sign} {}", line(change.value().trim_end_matches('\n'))));
    }
    lines.extend(middle(all, LONG, "lines"));
    lines
}

/// At most so many, the middle left out.
fn middle(mut all: Vec<String>, most: usize, what: &str) -> Vec<String> {
    if all.len() <= most {
        return all;
    }
    let (head, tail) = (most * 2 / 3, most / 3);
    let rest = all.split_off(all.len() - tail);
    let left_out = all.len() - head;
    all.truncate(head);
    all.push(format!("  [{left_out} {what} left out]"));
    all.extend(rest);
    all
}

/// One line that looks like what it is.
pub(super) fn line(text: &str) -> String {
    let count = text.chars().count();
    let plain = |c: char| -> String {
        let unseen = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}' | '\u{e0000}'..='\u{e007f}');
        if c.is_control() || turns(c) || unseen { c.escape_default().to_string() } else { c.to_string() }
    };
    if count <= WIDE {
        return text.chars().map(plain).collect();
    }
    let (head, tail) = (WIDE * 2 / 3, WIDE / 3);
    let first: String = text.chars().take(head).map(plain).collect();
    let last: String = text.chars().skip(count - tail).map(plain).collect();
    format!("{first} [{} characters] {last}", count - head - tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn acc_12_what_is_decided_on_is_shown_whole_enough_and_cannot_deceive() {
        let long = format!("echo {}; rm -rf /", "x".repeat(5_000));
        let new: String = (0..500).map(|n| format!("line {n}\n")).collect();
        let asks = json!({ "call": {
            "kind": "execute", "title": "list\u{202e}\u{1b}[2J\nallowed: y", "paths": ["/a\u{200b}b"],
            "input": { "command": long }, "content": [{ "path": "/w/a.txt", "old": "one\ntwo\n", "new": "one\nthree\n" }, { "path": "/w/b", "old": null, "new": new }],
        } });
        let lines = shown(&asks);
        let all = lines.join("\n");
        assert!(!all.contains(|c: char| turns(c) || (c.is_control() && c != '\n')), "{all}");
        assert!(lines[0].contains("list\\u{202e}\\u{1b}[2J\\nallowed: y"), "{}", lines[0]);
        assert!(lines[1].contains("/a\\u{200b}b"));
        assert!(
            lines[2].ends_with("; rm -rf /") && lines[2].contains(" characters] "),
            "the end is shown: {}",
            lines[2]
        );
        assert!(all.contains("  - two\n  + three\n"), "{all}");
        assert!(all.contains("[440 lines left out]") && all.contains("line 499"), "{all}");
        assert!(lines.len() < 80);
    }

    #[test]
    fn anything_at_all_can_be_shown() {
        for odd in [
            json!(null),
            json!([]),
            json!({ "call": 7 }),
            json!({ "call": { "content": [1, {}, []], "paths": [7], "input": [] } }),
        ] {
            assert!(!shown(&odd).is_empty());
        }
    }
}
