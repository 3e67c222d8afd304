//! Turns a transcript of Claude Code into a session: a page of lines into tasks and steps, in order.
//!
//! Invariants: every line is at its place: what is no record is an error there, what nobody here knows is named; nothing of
//! it is kept but without secrets and without what acts on a terminal; what a person asked begins a task, what a
//! sub-agent said is told as such.

use std::sync::Arc;

use access::{ImportSession, Principal};
use model::{DisplayName, Millis, SessionId, StepKind, TaskId, WorktreeId};
use redact::Redactor;
use serde_json::{Map, Value, json};
use store::{ImportedPage, ImportedStep, ImportedTask, Session};
use zeroize::Zeroizing;

use super::told;
use crate::{ActError, Runtime};

/// Parts of one record; more is told as an error.
const MOST_PARTS: usize = 1_000;
/// Characters of a title that is made of a call's arguments, and bytes of a name.
const TITLE: usize = 120;
const NAME: usize = 200;

/// A line of a transcript.
#[derive(Debug)]
pub enum ImportLine {
    /// As it stands there.
    Text(Zeroizing<String>),
    /// It could not be brought here, and why.
    Lost(String),
}

/// A page of a transcript.
#[derive(Debug)]
pub struct ImportPage {
    /// Where.
    pub worktree: WorktreeId,
    /// The session that the first page made.
    pub session: Option<SessionId>,
    /// How it is shown.
    pub title: DisplayName,
    /// How many lines came before.
    pub after: i64,
    /// The lines.
    pub lines: Vec<ImportLine>,
    /// Whether nothing more comes.
    pub last: bool,
}

impl Runtime {
    /// Keeps a page of a transcript; the first makes a session, which is closed: it is for reading.
    pub async fn import_session(
        self: &Arc<Self>,
        who: &Principal,
        page: ImportPage,
    ) -> Result<Session, ActError> {
        let ImportPage { worktree, session, title, after, lines, last } = page;
        let count = i64::try_from(lines.len()).unwrap_or(i64::MAX);
        let act = ImportSession {
            session: session.unwrap_or_else(SessionId::random),
            worktree,
            title,
            begins: session.is_none(),
            after,
            lines: count,
            last,
        };
        let (redactor, now) = (self.redactor.clone(), self.clock.now());
        let effect = async move |store: Arc<store::Store>, permit| {
            let page = Reading::new(&redactor, now, after).page(&lines);
            store.import_page(permit, page).await
        };
        self.perform(who, act, effect).await
    }
}

/// A page that is being read.
struct Reading<'a> {
    redactor: &'a Redactor,
    now: Millis,
    /// The number of the line, from one, and the time that was told last.
    line: i64,
    at: Millis,
    task: Option<TaskId>,
    page: ImportedPage,
}

impl<'a> Reading<'a> {
    fn new(redactor: &'a Redactor, now: Millis, after: i64) -> Self {
        Self { redactor, now, line: after, at: now, task: None, page: ImportedPage::default() }
    }

    fn page(mut self, lines: &[ImportLine]) -> ImportedPage {
        // What tells no time has that of its neighbours.
        let told = lines.iter().find_map(|line| match line {
            ImportLine::Text(text) => {
                serde_json::from_str::<Value>(text).ok().and_then(|one| moment(&one, self.now))
            }
            ImportLine::Lost(_) => None,
        });
        self.at = told.unwrap_or(self.now);
        for line in lines {
            self.line += 1;
            match line {
                ImportLine::Lost(why) => self.error(why),
                ImportLine::Text(text) if text.trim().is_empty() => {}
                // How deep it may be nested has a bound there.
                ImportLine::Text(text) => match serde_json::from_str::<Value>(text) {
                    Ok(Value::Object(record)) => self.record(&record),
                    Ok(_) => self.error("the line is no record"),
                    Err(error) => self.error(&format!("the line is no JSON: {error}")),
                },
            }
        }
        self.page
    }

    fn clean(&self, text: &str) -> String {
        told::clean(self.redactor, text)
    }

    fn step(&mut self, kind: StepKind, mut body: Map<String, Value>) {
        body.insert("line".into(), json!(self.line));
        self.page.steps.push(ImportedStep { task: self.task, at: self.at, kind, body: Value::Object(body) });
    }

    fn error(&mut self, why: &str) {
        let text = self.clean(why);
        self.step(StepKind::Error, fields(json!({ "text": text })));
    }

    fn record(&mut self, record: &Map<String, Value>) {
        let record = Value::Object(record.clone());
        let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str);
        let is_set = |name: &str| record.get(name).and_then(Value::as_bool).unwrap_or(false);
        if let Some(at) = moment(&record, self.now) {
            self.at = at;
        }
        let is_aside = is_set("isSidechain");
        match text("/type") {
            Some(kind @ ("user" | "assistant")) => match record.pointer("/message/content") {
                Some(Value::String(said)) => {
                    let block = json!({ "type": "text", "text": said });
                    self.blocks(kind, &[block], is_aside, is_set("isMeta"));
                }
                Some(Value::Array(blocks)) => self.blocks(kind, blocks, is_aside, is_set("isMeta")),
                _ => self.error(&format!("a record of the kind `{kind}` says nothing")),
            },
            Some("summary") => {
                let told = self.clean(text("/summary").unwrap_or_default());
                self.step(StepKind::System, fields(json!({ "text": format!("summary: {told}") })));
            }
            Some("system") => {
                let told = self.clean(text("/content").unwrap_or_default());
                self.step(StepKind::System, fields(json!({ "text": told })));
            }
            Some(other) => {
                let name: String = other.chars().take(NAME).collect();
                let told = format!("a record of the kind `{}` is not told", self.clean(&name));
                self.step(StepKind::System, fields(json!({ "text": told })));
            }
            None => self.error("the record has no kind"),
        }
    }

    fn blocks(&mut self, who: &str, blocks: &[Value], is_aside: bool, is_meta: bool) {
        let is_text = |block: &Value| block.get("type").and_then(Value::as_str) == Some("text");
        // What a person said; results of tools come in their name, too, and what the program itself adds.
        if who == "user" && !is_aside && !is_meta && blocks.iter().any(is_text) {
            let said =
                blocks.iter().filter(|block| is_text(block)).filter_map(|block| block.get("text")?.as_str());
            let shown = self.clean(&said.collect::<Vec<_>>().join("\n"));
            let id = TaskId::random();
            self.task = Some(id);
            self.page.tasks.push(ImportedTask { id, shown, at: self.at });
        }
        if blocks.is_empty() {
            return self.error("the record has nothing in it");
        }
        if blocks.len() > MOST_PARTS {
            return self.error(&format!("the record has {} parts, which is too many", blocks.len()));
        }
        for block in blocks {
            match self.block(who, block) {
                Ok((kind, body)) if is_aside => {
                    let mut body = fields(body);
                    body.insert("was".into(), json!(kind.word()));
                    self.step(StepKind::Subagent, body);
                }
                Ok((kind, body)) => self.step(kind, fields(body)),
                Err(why) => self.error(&why),
            }
        }
    }

    fn block(&self, who: &str, block: &Value) -> Result<(StepKind, Value), String> {
        let text = |name: &str| block.get(name).and_then(Value::as_str);
        let needed = |name: &str| text(name).ok_or_else(|| format!("a part of the record has no `{name}`"));
        let speaks = if who == "user" { StepKind::User } else { StepKind::Assistant };
        match text("type") {
            Some("text") => Ok((speaks, json!({ "text": self.clean(needed("text")?) }))),
            Some("thinking") => Ok((speaks, json!({ "thought": self.clean(needed("thinking")?) }))),
            Some("tool_use") => {
                let name: String = needed("name")?.chars().take(NAME).collect();
                let input = block.get("input").cloned().unwrap_or(Value::Null);
                let body = json!({
                    "call": self.clean(needed("id")?),
                    "title": self.title(&name, &input),
                    "kind": kind(&name),
                    "status": "pending",
                    "input": told::clean_value(self.redactor, &input),
                });
                Ok((StepKind::ToolUse, body))
            }
            Some("tool_result") => {
                let is_error = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
                let body = json!({
                    "call": self.clean(needed("tool_use_id")?),
                    "status": if is_error { "failed" } else { "completed" },
                    "content": self.content(block.get("content")),
                });
                Ok((StepKind::ToolResult, body))
            }
            Some(other) => {
                let name: String = other.chars().take(NAME).collect();
                Ok((speaks, json!({ "text": format!("[content of the kind `{}`]", self.clean(&name)) })))
            }
            None => Err("a part of the record has no kind".to_owned()),
        }
    }

    fn title(&self, name: &str, input: &Value) -> String {
        let about = ["command", "file_path", "path", "pattern", "url", "description"]
            .iter()
            .find_map(|field| input.get(*field)?.as_str())
            .and_then(|about| about.lines().next());
        let Some(about) = about else { return self.clean(name) };
        // Cleaned whole: a piece of a secret is not known for one.
        let about = self.clean(about);
        let short: String = about.chars().take(TITLE).collect();
        format!("{}: {short}{}", self.clean(name), if short.len() < about.len() { "…" } else { "" })
    }

    fn content(&self, content: Option<&Value>) -> Value {
        let one = |block: &Value| match (
            block.get("text").and_then(Value::as_str),
            block.get("type").and_then(Value::as_str),
        ) {
            (Some(text), _) => json!({ "text": self.clean(text) }),
            (None, kind) => {
                let kind: String = kind.unwrap_or("?").chars().take(NAME).collect();
                json!({ "text": format!("[content of the kind `{}`]", self.clean(&kind)) })
            }
        };
        match content {
            Some(Value::String(text)) => json!([{ "text": self.clean(text) }]),
            Some(Value::Array(blocks)) => blocks.iter().map(one).collect(),
            _ => json!([]),
        }
    }
}

fn fields(body: Value) -> Map<String, Value> {
    match body {
        Value::Object(fields) => fields,
        other => Map::from_iter([("text".to_owned(), other)]),
    }
}

/// What sort of tool it is, in the words that agents use.
fn kind(tool: &str) -> &'static str {
    match tool {
        "Read" | "NotebookRead" => "read",
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => "edit",
        "Bash" => "execute",
        "Grep" | "Glob" | "LS" => "search",
        "WebFetch" | "WebSearch" => "fetch",
        _ => "other",
    }
}

/// When a record says that it was, if it says so and that is not in the future.
fn moment(record: &Value, now: Millis) -> Option<Millis> {
    let text = record.get("timestamp")?.as_str()?;
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let number = |text: &str, most: i64| text.parse::<i64>().ok().filter(|n| (0..=most).contains(n));
    let mut date = date.splitn(3, '-');
    let (year, month, day) =
        (number(date.next()?, 9_999)?, number(date.next()?, 12)?, number(date.next()?, 31)?);
    let mut time = time.splitn(3, ':');
    let (hour, minute, rest) = (number(time.next()?, 23)?, number(time.next()?, 59)?, time.next()?);
    let (second, part) = rest.split_once('.').unwrap_or((rest, "0"));
    let digits: String = part.chars().chain("00".chars()).take(3).collect();
    let millis = number(&digits, 999)?;
    // Days since 1970, by the calendar's cycle of 400 years, whose year begins in March.
    let shifted = if month <= 2 { year - 1 } else { year };
    let of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days =
        shifted.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468;
    let at = ((days * 24 + hour) * 60 + minute) * 60_000 + number(second, 60)? * 1_000 + millis;
    (0..=now).contains(&at).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = 1_800_000_000_000;

    fn read(lines: &[String]) -> ImportedPage {
        let redactor = Redactor::new();
        let lines: Vec<ImportLine> =
            lines.iter().map(|line| ImportLine::Text(Zeroizing::new(line.clone()))).collect();
        Reading::new(&redactor, NOW, 0).page(&lines)
    }

    #[test]
    fn moments_are_read_and_the_future_is_not_believed() {
        for (text, at) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T00:00:00.000Z", Some(951_782_400_000)),
            ("2026-11-15T09:42:48.740Z", Some(1_794_735_768_740)),
            ("2026-11-15T09:42:48.74Z", Some(1_794_735_768_740)),
            ("9999-01-01T00:00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("yesterday", None),
            ("-1-01-01T00:00:00Z", None),
        ] {
            assert_eq!(moment(&json!({ "timestamp": text }), NOW), at, "{text}");
        }
    }

    #[test]
    fn ses_12_hostile_lines_are_errors_at_their_places() {
        let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let deep = format!("{{\"type\":\"user\",\"message\":{}1{}}}", "[".repeat(50_000), "]".repeat(50_000));
        let good = |text: &str| json!({ "type": "user", "message": { "content": text } }).to_string();
        let lines = [
            good("first"),
            "{\"type\":".into(),
            good(&format!("second with {secret}")),
            deep,
            "[1,2]".into(),
            json!({ "type": "assistant", "message": { "content": [{ "type": "tool_use" }] } }).to_string(),
            json!({ "type": "user", "message": { "content": [] } }).to_string(),
            json!({ "type": "user" }).to_string(),
            "{}".into(),
            good("third \u{1b}[2J\u{0}"),
        ];
        let page = read(&lines);
        let kinds: Vec<&str> = page.steps.iter().map(|step| step.kind.word()).collect();
        assert_eq!(
            kinds,
            ["user", "error", "user", "error", "error", "error", "error", "error", "error", "user"]
        );
        let places: Vec<i64> = page.steps.iter().filter_map(|step| step.body["line"].as_i64()).collect();
        assert_eq!(places, (1..=10).collect::<Vec<_>>());
        let shown: Vec<&str> = page.tasks.iter().map(|task| task.shown.split(' ').next().unwrap()).collect();
        assert_eq!(shown, ["first", "second", "third"]);
        let all = format!("{:?}", page);
        assert!(!all.contains("k1L2m3N4") && !all.contains("\\u{1b}") && !all.contains("\\0"), "{all}");
    }

    #[test]
    fn ses_12_tools_thoughts_and_sub_agents_are_told_as_such() {
        let said = |who: &str, blocks: Value| json!({ "type": who, "timestamp": "2026-01-02T03:04:05Z", "message": { "content": blocks } });
        let mut aside = said("user", json!([{ "type": "text", "text": "look there" }]));
        aside["isSidechain"] = json!(true);
        let lines = [
            json!({ "type": "summary", "summary": "a talk" }),
            said("user", json!([{ "type": "text", "text": "do it" }])),
            said(
                "assistant",
                json!([{ "type": "thinking", "thinking": "hm" }, { "type": "text", "text": "yes" }, { "type": "tool_use", "id": "t1", "name": "Bash", "input": { "command": "ls\nrm" , "password": "hunter2hunter2x" } }]),
            ),
            said(
                "user",
                json!([{ "type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": [{ "type": "text", "text": "no" }, { "type": "image" }] }]),
            ),
            aside,
            json!({ "type": "file-history-snapshot" }),
        ];
        let page = read(&lines.map(|line| line.to_string()));
        let kinds: Vec<&str> = page.steps.iter().map(|step| step.kind.word()).collect();
        assert_eq!(
            kinds,
            ["system", "user", "assistant", "assistant", "tool_use", "tool_result", "subagent", "system"]
        );
        assert_eq!(page.tasks.len(), 1, "results of tools and sub-agents begin none");
        assert_eq!(page.steps[2].body["thought"], "hm");
        assert_eq!(page.steps[4].body["title"], "Bash: ls");
        assert!(!page.steps[4].body.to_string().contains("hunter2"));
        assert_eq!(page.steps[5].body["status"], "failed");
        assert_eq!(page.steps[5].body["content"].as_array().unwrap().len(), 2);
        assert!(page.steps.iter().all(|step| step.at == 1_767_323_045_000), "{:?}", page.steps);
        assert_eq!(page.steps[0].task, None);
        assert!(page.steps[1..].iter().all(|step| step.task == Some(page.tasks[0].id)));
    }
}
