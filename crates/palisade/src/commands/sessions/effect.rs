//! An effect that waits for a person, as it is shown to whoever decides: what it is, where, the command, the change.
//!
//! Invariants: one line here is one line there; whatever acts on a terminal, turns the direction of writing or cannot be
//! seen is written out; on a screen, what is long is cut in the middle, with a count, since a deceit would be at its end.

use std::time::Duration;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

/// How much of an effect is shown.
#[derive(Clone, Copy)]
struct Room {
    /// Characters of one line, and lines of one change.
    wide: usize,
    long: usize,
    /// Changes and paths.
    many: usize,
    /// Bytes of a change that is compared line by line.
    compared: usize,
}

/// On a screen, beside what else happens.
const SCREEN: Room = Room { wide: 400, long: 60, many: 20, compared: 256 << 10 };
/// For whoever wants to see all of it.
const WHOLE: Room = Room { wide: usize::MAX, long: usize::MAX, many: usize::MAX, compared: usize::MAX };
/// For comparing one change; after it the comparison is coarse.
const DEADLINE: Duration = Duration::from_millis(500);

/// What is said where not all of an effect is shown.
pub(in crate::commands) const HIDDEN: &str =
    "  ! a part of this is not shown, because it looks like a secret; what is hidden may be more than that";

/// The lines that show it on a screen.
pub(super) fn shown(asks: &Value) -> Vec<String> {
    SCREEN.shown(asks)
}

/// The lines that show all of it, and what can be chosen.
pub(super) fn whole(asks: &Value) -> Vec<String> {
    let mut lines = WHOLE.shown(asks);
    for choice in asks.get("choices").and_then(Value::as_array).into_iter().flatten() {
        let word = |name: &str| WHOLE.line(choice.get(name).and_then(Value::as_str).unwrap_or_default());
        lines.push(format!("  choice   {} ({}): {}", word("id"), word("kind"), word("name")));
    }
    lines
}

/// One line that looks like what it is.
pub(super) fn line(text: &str) -> String {
    SCREEN.line(text)
}

impl Room {
    fn shown(self, asks: &Value) -> Vec<String> {
        let call = asks.get("call").unwrap_or(&Value::Null);
        let text = |name: &str| call.get(name).and_then(Value::as_str);
        let list = |name: &str| call.get(name).and_then(Value::as_array).into_iter().flatten();
        let mut lines = vec![format!(
            "? {} {}",
            self.line(text("kind").unwrap_or("call")),
            self.line(text("title").unwrap_or_default())
        )];
        let path = |path: &str| format!("  path     {}", self.line(path));
        lines.extend(middle(list("paths").filter_map(Value::as_str).map(path).collect(), self.many, "paths"));
        lines.extend(call.get("input").into_iter().flat_map(|input| self.input(input)));
        for content in list("content").take(self.many) {
            lines.extend(self.changed(content));
        }
        let more = list("content").count().saturating_sub(self.many);
        if more > 0 {
            lines.push(format!("  [{more} more changes: `palisade approval list` shows them]"));
        }
        if asks.get("hidden").and_then(Value::as_bool) == Some(true) {
            lines.push(HIDDEN.to_owned());
        }
        lines
    }

    fn input(self, input: &Value) -> Vec<String> {
        let mut lines = vec![match input.get("command") {
            Some(Value::String(command)) => format!("  command  {}", self.line(command)),
            Some(command) => format!("  command  {}", self.line(&command.to_string())),
            None => format!("  input    {}", self.line(&input.to_string())),
        }];
        let rest: serde_json::Map<String, Value> = input
            .as_object()
            .filter(|fields| fields.contains_key("command"))
            .into_iter()
            .flatten()
            .filter(|(name, _)| *name != "command")
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !rest.is_empty() {
            lines.push(format!("  with     {}", self.line(&Value::Object(rest).to_string())));
        }
        lines
    }

    fn changed(self, content: &Value) -> Vec<String> {
        let text = |name: &str| content.get(name).and_then(Value::as_str);
        let (Some(path), Some(new)) = (text("path"), text("new")) else {
            let words = text("text").or(text("terminal")).unwrap_or_default();
            let lines = words.lines().map(|one| format!("  {}", self.line(one))).collect();
            return middle(lines, self.long, "lines");
        };
        let old = text("old").unwrap_or_default();
        let what = if text("old").is_some() { "change  " } else { "new file" };
        let mut lines = vec![format!("  {what} {}", self.line(path))];
        if old.len() + new.len() > self.compared {
            lines.push(format!(
                "  [{} bytes become {}: too much to show here; `palisade approval list` does]",
                old.len(),
                new.len()
            ));
            return lines;
        }
        let diff = TextDiff::configure().timeout(DEADLINE).diff_lines(old, new);
        let mut all = Vec::new();
        for change in diff.iter_all_changes() {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => continue,
            };
            all.push(format!("  {sign} {}", self.line(change.value().trim_end_matches('\n'))));
        }
        lines.extend(middle(all, self.long, "lines"));
        lines
    }

    fn line(self, text: &str) -> String {
        let count = text.chars().count();
        // The style of a picture stays: a change of a document may be full of check marks.
        let plain = |(c, hides): (char, bool)| -> String {
            if c.is_control() || hides { c.escape_default().to_string() } else { c.to_string() }
        };
        if count <= self.wide {
            return redact::hiding(text).map(plain).collect();
        }
        let (head, tail) = (self.wide * 2 / 3, self.wide / 3);
        let first: String = redact::hiding(text).take(head).map(plain).collect();
        let last: String = redact::hiding(text).skip(count - tail).map(plain).collect();
        format!("{first} [{} characters] {last}", count - head - tail)
    }
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
        assert!(!all.contains(|c: char| redact::is_unseen(c) || (c.is_control() && c != '\n')), "{all}");
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
        let all = whole(&asks).join("\n");
        assert!(
            all.contains(&long) && all.contains("\n  + line 250\n") && !all.contains(" left out"),
            "{all}"
        );
        assert!(!all.contains(|c: char| redact::is_unseen(c) || (c.is_control() && c != '\n')), "{all}");
    }

    #[test]
    fn acc_12_nothing_unseen_is_decided_on_and_honest_signs_stay() {
        let title = "rm\u{3164}a\u{e0062}b\u{fe0f}c\u{2028} \u{2714}\u{fe0f} done";
        let choice = json!({ "id": "a\u{202e}", "kind": "allow_once", "name": "\u{1b}[2Jyes\u{feff}" });
        let asks =
            json!({ "call": { "kind": "execute", "title": title }, "choices": [choice], "hidden": true });
        let lines = whole(&asks);
        assert_eq!(
            lines,
            [
                "? execute rm\\u{3164}a\\u{e0062}b\\u{fe0f}c\\u{2028} \u{2714}\u{fe0f} done",
                HIDDEN,
                "  choice   a\\u{202e} (allow_once): \\u{1b}[2Jyes\\u{feff}",
            ]
        );
        assert_eq!(lines[..2], shown(&asks)[..]);
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
