//! Steps of a session on the screen: as JSON, as plain lines, or live on a terminal, where what is said is rendered, a call is
//! one line with its state, and a line at the end says what is being done.
//!
//! Invariant: what comes from a session is shown by [`Plain`] or [`effect::line`] and nothing else, so that it does not act.

use std::collections::HashMap;
use std::time::Instant;

use api::Step;
use serde_json::Value;

use super::effect;
use super::markdown::{Markdown, Plain};
use crate::output;

/// Calls whose titles are remembered.
const CALLS: usize = 1024;

/// Where steps are shown.
pub(super) struct Screen {
    json: bool,
    is_live: bool,
    session: String,
    /// Who speaks, what was said of the line so far, and whether the cursor is behind something.
    voice: &'static str,
    line: String,
    markdown: Markdown,
    is_partial: bool,
    calls: HashMap<String, String>,
    /// Since when something is at work, and the call that was begun last.
    began: Option<Instant>,
    at: Option<(String, String)>,
    has_progress: bool,
    /// The question that stands at the end of the screen.
    asks: Option<String>,
}

impl Screen {
    pub(super) fn new(json: bool, is_live: bool, session: &str) -> Self {
        Self {
            json,
            is_live,
            session: session.to_owned(),
            voice: "",
            line: String::new(),
            markdown: Markdown::default(),
            is_partial: false,
            calls: HashMap::new(),
            began: None,
            at: None,
            has_progress: false,
            asks: None,
        }
    }

    pub(super) fn is_at_work(&mut self, is: bool) {
        self.began = is.then(Instant::now);
        self.tick();
    }

    /// Shows one step; false if nobody reads any more.
    pub(super) fn shows(&mut self, step: &Step) -> bool {
        if self.json {
            return output::next_line(&format!("{}\n", serde_json::to_string(step).unwrap_or_default()));
        }
        let text = |name: &str| step.body.get(name).and_then(Value::as_str);
        let is_read = match (step.kind.as_str(), text("text"), text("thought")) {
            ("assistant", Some(said), _) => self.says("says", said),
            ("assistant", None, Some(thought)) => self.says("thinks", thought),
            _ => self.silence() && self.other(step),
        };
        self.tick();
        is_read
    }

    fn says(&mut self, voice: &'static str, text: &str) -> bool {
        if self.voice != voice && !self.silence() {
            return false;
        }
        self.voice = voice;
        self.began.get_or_insert_with(Instant::now);
        if !self.is_live {
            self.line.push_str(text);
            while let Some((line, rest)) = self.line.split_once('\n') {
                let (line, rest) = (Plain::text(line), rest.to_owned());
                self.line = rest;
                if !output::next_line(&format!("{line}\n")) {
                    return false;
                }
            }
            return true;
        }
        let piece = if voice == "says" {
            self.markdown.push(text)
        } else {
            format!("\x1b[2m{}\x1b[0m", Plain::text(text))
        };
        self.piece(&piece)
    }

    /// A piece that need not end its line.
    fn piece(&mut self, piece: &str) -> bool {
        if piece.is_empty() {
            return true;
        }
        self.clear();
        self.is_partial = !piece.trim_end_matches("\x1b[0m").ends_with('\n');
        output::next_line(piece)
    }

    /// Whoever spoke has ended.
    fn silence(&mut self) -> bool {
        let rest = std::mem::take(&mut self.line);
        if !rest.is_empty() && !output::next_line(&format!("{}\n", Plain::text(&rest))) {
            return false;
        }
        if self.voice == "says" && self.is_live {
            let rest = self.markdown.finish();
            self.piece(&rest);
        }
        self.voice = "";
        if std::mem::take(&mut self.is_partial) {
            return output::next_line("\n");
        }
        true
    }

    fn other(&mut self, step: &Step) -> bool {
        let text = |name: &str| step.body.get(name).and_then(Value::as_str);
        let word = |name: &str| effect::line(text(name).unwrap_or_default());
        let mut lines: Vec<String> = Vec::new();
        match step.kind.as_str() {
            "user" => {
                self.began = Some(Instant::now());
                lines.extend(
                    Plain::text(text("text").unwrap_or_default()).lines().map(|line| format!("> {line}")),
                );
            }
            "tool_use" => lines.extend(self.call_begins(step)),
            "tool_result" => {
                let is_failed = text("status") == Some("failed");
                lines.push(self.call_ends(step, if is_failed { "✗" } else { "✓" }));
            }
            "result" => {
                if let Some((_, title)) = self.at.take() {
                    lines.push(format!("  ○ {title} (it did not end)"));
                }
                self.began = None;
                lines.push(format!("[{}] {}", word("state"), word("text")));
            }
            "error" => lines.extend(
                Plain::text(text("text").unwrap_or_default()).lines().map(|line| format!("! {line}")),
            ),
            _ => match (text("approval"), text("decision")) {
                (Some(_), None) => {
                    let title =
                        step.body.pointer("/asks/call/title").and_then(Value::as_str).unwrap_or_default();
                    let session = &self.session;
                    lines.push(format!("? {}", effect::line(title)));
                    lines.push(format!(
                        "  palisade approval allow {session} {}   (or deny; list shows it whole)",
                        word("approval")
                    ));
                }
                (Some(_), Some(_)) => lines.push(format!("  {}: {}", word("approval"), word("decision"))),
                (None, _) => {
                    lines.extend(text("text").map(|text| format!("  {}", effect::line(text))));
                    for one in step.body.get("plan").and_then(Value::as_array).into_iter().flatten() {
                        let part = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default();
                        let mark = match part("status") {
                            "completed" => "✓",
                            "in_progress" => "▸",
                            _ => "·",
                        };
                        lines.push(format!("  {mark} {}", effect::line(part("text"))));
                    }
                }
            },
        }
        self.lines(&lines)
    }

    /// A call is one line: where there is a terminal, once it is over; until then it is in the last line.
    fn call_begins(&mut self, step: &Step) -> Option<String> {
        let text = |name: &str| step.body.get(name).and_then(Value::as_str);
        let (id, title) = (text("call")?, effect::line(text("title")?));
        let is_new = self.calls.get(id).is_none_or(|known| *known != title);
        if self.calls.len() >= CALLS {
            self.calls.clear();
        }
        self.calls.insert(id.to_owned(), title.clone());
        self.at = Some((id.to_owned(), title.clone()));
        (is_new && !self.is_live).then(|| format!("  · {title}"))
    }

    fn call_ends(&mut self, step: &Step, mark: &str) -> String {
        let text = |name: &str| step.body.get(name).and_then(Value::as_str);
        let id = text("call").unwrap_or_default();
        self.at.take_if(|(at, _)| at == id);
        let title = text("title").map(effect::line).or_else(|| self.calls.remove(id));
        format!("  {mark} {}", title.unwrap_or_else(|| effect::line(id)))
    }

    fn lines(&mut self, lines: &[String]) -> bool {
        if lines.is_empty() {
            return true;
        }
        self.clear();
        lines.iter().all(|line| output::next_line(&format!("{line}\n")))
    }

    /// Says something beside what happens.
    pub(super) fn tells(&mut self, text: &str) {
        if !self.json {
            self.silence();
            self.clear();
        }
        output::tell(text);
    }

    /// Whether this question stands at the end of the screen.
    pub(super) fn asks(&self, id: &str) -> bool {
        self.asks.as_deref() == Some(id)
    }

    pub(super) fn question(&mut self, id: &str, lines: &[String], question: &str) {
        self.silence();
        self.lines(lines);
        output::progress(Some(&format!("  {question} ")));
        (self.has_progress, self.asks) = (true, Some(id.to_owned()));
    }

    pub(super) fn decided(&mut self, state: &str) {
        self.lines(&[format!("  {}", effect::line(state))]);
    }

    /// The last line says what is being done; a question is not written over.
    pub(super) fn tick(&mut self) {
        if !self.is_live || self.is_partial || self.asks.is_some() {
            return;
        }
        let Some(began) = self.began else { return self.clear() };
        let doing = self.at.as_ref().map_or("at work", |(_, title)| title.as_str());
        let seconds = began.elapsed().as_secs();
        output::progress(Some(&format!("  … {seconds} s, Ctrl-C detaches: {doing}")));
        self.has_progress = true;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.has_progress) {
            output::progress(None);
        }
        self.asks = None;
    }

    /// Leaves the screen in order.
    pub(super) fn ends(&mut self) {
        if !self.json {
            self.silence();
            self.clear();
        }
    }
}
