//! Turns what an agent tells into steps: the words of the protocol into ours, without secrets, without what acts on a
//! terminal, within bounds.
//!
//! Invariants: text that comes in pieces is looked at for secrets with all of its line that came before, and the piece behind
//! the last space waits for its end; a key of many lines waits for its last; nothing waits longer than [`LATEST`].

use std::time::Duration;

use acp::{Call, CallChange, Choice, ChoiceKind, Content, Question, Status, Update};
use model::StepKind;
use redact::Redactor;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// How long a piece of text may wait for the next.
pub(super) const LATEST: Duration = Duration::from_secs(2);
/// Bytes of a line, or of a key, that are looked at together.
const PIECE: usize = 32 << 10;

/// What was told and not written yet.
#[derive(Debug)]
pub(super) struct Told {
    redactor: Redactor,
    /// Which voice speaks, the line that it is in, and how much of that line was told, as it was told.
    voice: Voice,
    line: String,
    shown: usize,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    Nobody,
    Says,
    Thinks,
}

/// A step, before it has a place.
pub(super) type Draft = (StepKind, Value);

impl Told {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, voice: Voice::Nobody, line: String::new(), shown: 0 }
    }

    /// Whether something waits.
    pub(super) fn waits(&self) -> bool {
        !self.line.is_empty()
    }

    /// What is to be written now that this was told. A question is for somebody else.
    pub(super) fn update(&mut self, update: &Update) -> Vec<Draft> {
        match update {
            Update::Said(text) => self.speaks(Voice::Says, text),
            Update::Thought(text) => self.speaks(Voice::Thinks, text),
            Update::Call(call) => self.after_words(StepKind::ToolUse, self.words().call(call)),
            Update::CallChanged(change) => {
                let over = matches!(change.status, Some(Status::Completed | Status::Failed));
                let kind = if over { StepKind::ToolResult } else { StepKind::ToolUse };
                self.after_words(kind, self.words().changed(change))
            }
            Update::Plan(steps) => {
                let steps: Vec<Value> = steps
                    .iter()
                    .map(|step| json!({ "text": self.clean(&step.text), "status": step.status.word() }))
                    .collect();
                self.after_words(StepKind::System, json!({ "plan": steps }))
            }
            Update::Mode(mode) => self.after_words(StepKind::System, json!({ "mode": self.clean(mode) })),
            Update::Title(title) => self.after_words(StepKind::System, json!({ "title": self.clean(title) })),
            Update::Usage(usage) => {
                let cost = usage
                    .cost
                    .as_ref()
                    .map(|cost| json!({ "amount": cost.amount, "currency": self.clean(&cost.currency) }));
                let body = json!({ "usage": { "used": usage.used, "size": usage.size, "cost": cost } });
                self.after_words(StepKind::System, body)
            }
            Update::Odd(why) => self.after_words(StepKind::Error, json!({ "text": self.clean(why) })),
            Update::TurnOver => self.rest(),
            // What was told before is known; commands and settings are the agent's own matter.
            Update::Again(_)
            | Update::Person(_)
            | Update::Commands(_)
            | Update::Settings(_)
            | Update::Asked(_) => Vec::new(),
        }
    }

    /// What an agent asks for, as an effect that can be decided on.
    pub(super) fn question(&self, question: &Question) -> Value {
        let mut shown = self.words().question(question);
        // Whoever decides is told that there is something that they do not see.
        let hides = hides(&shown, &tamed(&Words(None).question(question)));
        if let Some(fields) = shown.as_object_mut().filter(|_| hides) {
            fields.insert("hidden".into(), json!(true));
        }
        shown
    }

    fn words(&self) -> Words<'_> {
        Words(Some(&self.redactor))
    }

    /// A piece of plain text, as a program without a protocol prints it.
    pub(super) fn printed(&mut self, text: &str) -> Vec<Draft> {
        self.speaks(Voice::Says, text)
    }

    /// What waits, written now.
    pub(super) fn rest(&mut self) -> Vec<Draft> {
        let draft = self.told_up_to(self.line.len());
        (self.voice, self.shown) = (Voice::Nobody, 0);
        self.line.clear();
        draft.into_iter().collect()
    }

    fn speaks(&mut self, voice: Voice, text: &str) -> Vec<Draft> {
        let mut drafts = if self.voice == voice { Vec::new() } else { self.rest() };
        self.voice = voice;
        self.line.push_str(text);
        loop {
            if begins_key(&self.line) && self.line.len() < PIECE {
                return drafts;
            }
            let ended = self.line.find('\n').map(|end| end + 1);
            let Some(end) = ended.or((self.line.len() >= PIECE).then_some(self.line.len())) else { break };
            drafts.extend(self.told_up_to(end));
            self.line = self.line.split_off(end);
            self.shown = 0;
        }
        let whole = self.line.rfind(char::is_whitespace).and_then(|at| {
            let space = self.line.get(at..)?.chars().next()?;
            Some(at + space.len_utf8())
        });
        drafts.extend(whole.and_then(|whole| self.told_up_to(whole)));
        drafts
    }

    /// What was not told yet of this much of the line. What is found behind it changes nothing that was told.
    fn told_up_to(&mut self, end: usize) -> Option<Draft> {
        let clean = self.clean(self.line.get(..end)?);
        let news = clean.get(self.shown..)?;
        if news.is_empty() {
            return None;
        }
        let body = match self.voice {
            Voice::Thinks => json!({ "thought": news }),
            Voice::Says | Voice::Nobody => json!({ "text": news }),
        };
        self.shown = clean.len();
        Some((StepKind::Assistant, body))
    }

    fn after_words(&mut self, kind: StepKind, body: Value) -> Vec<Draft> {
        let mut drafts = self.rest();
        drafts.push((kind, body));
        drafts
    }

    fn clean(&self, text: &str) -> String {
        clean(&self.redactor, text)
    }
}

/// The digest of an effect as it will be, with every secret in it.
pub(super) fn digest(question: &Question) -> String {
    digest_of(&Words(None).question(question))
}

/// The digest of a document.
pub(super) fn digest_of(body: &Value) -> String {
    hex::encode(Sha256::digest(body.to_string().as_bytes()))
}

/// What kind of effect is asked for, by its word.
pub(super) fn kind(call: &CallChange) -> String {
    call.kind.map_or_else(|| "other".to_owned(), |kind| kind.word().to_owned())
}

/// What effects that are the same have in common: all of it but which call it is. Nothing, if it does not say what it does.
pub(super) fn likeness(call: &CallChange) -> Option<String> {
    let says = call.input.as_ref().is_some_and(|input| !input.is_null())
        || call.content.as_ref().is_some_and(|content| !content.is_empty());
    let mut body = Words(None).changed(call);
    if let Some(fields) = body.as_object_mut() {
        fields.remove("call");
        fields.remove("status");
    }
    says.then(|| hex::encode(Sha256::digest(body.to_string().as_bytes())))
}

/// The choice that allows this once.
pub(super) fn once(question: &Question) -> Option<String> {
    let allows = |choice: &&Choice| choice.kind == ChoiceKind::AllowOnce;
    question.choices.iter().find(allows).map(|choice| choice.id.clone())
}

/// Words of the protocol in ours: as they are, or as they can be shown.
struct Words<'a>(Option<&'a Redactor>);

impl Words<'_> {
    fn question(&self, question: &Question) -> Value {
        let choice = |choice: &Choice| json!({ "id": self.clean(&choice.id), "name": self.clean(&choice.name), "kind": choice.kind.word() });
        // What would have the agent keep a rule of its own is nobody's choice: a consent is kept here, narrow, counted and with an end.
        let offered = question.choices.iter().filter(|one| one.kind != ChoiceKind::AllowAlways);
        let choices: Vec<Value> = offered.map(choice).collect();
        json!({ "call": self.changed(&question.call), "choices": choices })
    }

    fn call(&self, call: &Call) -> Value {
        let mut body = Map::new();
        body.insert("call".into(), json!(self.clean(&call.id)));
        body.insert("title".into(), json!(self.clean(&call.title)));
        body.insert("kind".into(), json!(call.kind.word()));
        body.insert("status".into(), json!(call.status.word()));
        body.insert("content".into(), self.contents(&call.content));
        if let Some(input) = &call.input {
            body.insert("input".into(), self.value(input));
        }
        let paths: Vec<String> = call.locations.iter().map(|place| self.clean(&place.path)).collect();
        body.insert("paths".into(), json!(paths));
        Value::Object(body)
    }

    fn changed(&self, change: &CallChange) -> Value {
        let mut body = Map::new();
        body.insert("call".into(), json!(self.clean(&change.id)));
        if let Some(title) = &change.title {
            body.insert("title".into(), json!(self.clean(title)));
        }
        if let Some(kind) = change.kind {
            body.insert("kind".into(), json!(kind.word()));
        }
        if let Some(status) = change.status {
            body.insert("status".into(), json!(status.word()));
        }
        if let Some(content) = &change.content {
            body.insert("content".into(), self.contents(content));
        }
        if let Some(input) = &change.input {
            body.insert("input".into(), self.value(input));
        }
        if let Some(places) = &change.locations {
            let paths: Vec<String> = places.iter().map(|place| self.clean(&place.path)).collect();
            body.insert("paths".into(), json!(paths));
        }
        Value::Object(body)
    }

    fn contents(&self, contents: &[Content]) -> Value {
        let one = |content: &Content| match content {
            Content::Text(text) => json!({ "text": self.clean(text) }),
            Content::Diff { path, old, new } => json!({
                "path": self.clean(path),
                "old": old.as_deref().map(|old| self.clean(old)),
                "new": self.clean(new),
            }),
            Content::Terminal(id) => json!({ "terminal": self.clean(id) }),
        };
        contents.iter().map(one).collect()
    }

    /// Every text in a document, cleaned; names as well.
    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.clean(text)),
            Value::Array(all) => all.iter().map(|one| self.value(one)).collect(),
            Value::Object(all) => {
                // A name can tell what its value is: looked at together.
                let pairs = all.iter().map(|(name, value)| {
                    let shown = match value {
                        Value::String(text) => Value::String(self.named(name, text)),
                        other => self.value(other),
                    };
                    (self.clean(name), shown)
                });
                Value::Object(pairs.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// A value as it is told beside its name.
    fn named(&self, name: &str, text: &str) -> String {
        let Some(redactor) = self.0 else { return text.to_owned() };
        // Written as JSON a sequence would be no sequence any more, and part what it stands in.
        let both = json!({ name: String::from_utf8_lossy(&redact::tame(text.as_bytes())) }).to_string();
        let clean = redactor.scrub(&both);
        let told = serde_json::from_str::<Map<String, Value>>(&clean).ok();
        match told.and_then(|mut told| told.remove(name)) {
            Some(Value::String(told)) => self.clean(&told),
            _ => redact::MARK.to_owned(),
        }
    }

    fn clean(&self, text: &str) -> String {
        self.0.map_or_else(|| text.to_owned(), |redactor| clean(redactor, text))
    }
}

/// Whether a text of the first document is not that of the second, and something in it is masked.
fn hides(shown: &Value, whole: &Value) -> bool {
    match (shown, whole) {
        (Value::String(shown), Value::String(whole)) => shown != whole && shown.contains(redact::MARK),
        (Value::Array(shown), Value::Array(whole)) => {
            shown.len() != whole.len() || shown.iter().zip(whole).any(|(shown, whole)| hides(shown, whole))
        }
        (Value::Object(shown), Value::Object(whole)) => shown.iter().any(|(name, one)| {
            whole.get(name).map_or_else(|| name.contains(redact::MARK), |whole| hides(one, whole))
        }),
        (shown, whole) => shown != whole,
    }
}

/// A document whose texts do nothing to a terminal.
fn tamed(value: &Value) -> Value {
    let tame = |text: &str| String::from_utf8_lossy(&redact::tame(text.as_bytes())).into_owned();
    match value {
        Value::String(text) => Value::String(tame(text)),
        Value::Array(all) => all.iter().map(tamed).collect(),
        Value::Object(all) => Value::Object(all.iter().map(|(name, one)| (tame(name), tamed(one))).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Text without secrets that does nothing to a terminal.
pub(crate) fn clean(redactor: &Redactor, text: &str) -> String {
    // In this order: what is left out of a token must not hide it.
    let tame = redact::tame(text.as_bytes());
    redactor.scrub(&String::from_utf8_lossy(&tame)).into_owned()
}

/// The same for every text in a document; a name can tell what its value is.
pub(super) fn clean_value(redactor: &Redactor, value: &Value) -> Value {
    Words(Some(redactor)).value(value)
}

/// Whether a key of many lines begins and has not ended.
fn begins_key(text: &str) -> bool {
    let begins = text.rfind("-----BEGIN ");
    begins.is_some_and(|at| !text.get(at..).is_some_and(|rest| rest.contains("-----END ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(drafts: &[Draft]) -> String {
        drafts.iter().filter_map(|(_, body)| body.get("text").and_then(Value::as_str)).collect()
    }

    /// SES-03: the pieces joined are what was said. SES-08: one voice at a time.
    #[test]
    fn ses_03_joined_text_is_what_was_said() {
        let mut told = Told::new(Redactor::new());
        let mut all = Vec::new();
        for piece in ["Hello, ", "I look\nat ", "it", ".\n", "Done"] {
            all.extend(told.update(&Update::Said(piece.into())));
        }
        all.extend(told.rest());
        assert_eq!(texts(&all), "Hello, I look\nat it.\nDone");
    }

    #[test]
    fn a_secret_that_comes_in_pieces_is_masked_whole() {
        let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        for cut in 1..secret.len() {
            let mut told = Told::new(Redactor::new());
            let (one, two) = secret.split_at(cut);
            let mut all = told.update(&Update::Said(format!("the token is {one}")));
            all.extend(told.update(&Update::Said(format!("{two} and more"))));
            all.extend(told.rest());
            assert!(!texts(&all).contains("k1L2m3N4"), "{cut}: {}", texts(&all));
        }
    }

    /// SEC-16: a terminal shows a token whole that sequences stand in, and so does a step once they are left out.
    #[test]
    fn sec_16_no_sequence_carries_a_secret_past_the_redactor() {
        let redactor = Redactor::new();
        redactor.learn(b"lent value of a vault").unwrap();
        for sequence in ["\x1b[1C", "\x1b[0J", "\x1b[?25l", "\x1b[2 q", "\x1b[K", "\x1b[31m", "\x1b[>4;1m"] {
            for text in [
                format!("ghp_16C7e4{sequence}2F292c6912E7710c838347Ae178B4a"),
                format!("lent va{sequence}lue of a vault"),
            ] {
                let mut told = Told::new(redactor.clone());
                let mut all = told.update(&Update::Said(format!("it is {text} ")));
                all.extend(told.rest());
                assert_eq!(texts(&all).trim_end(), "it is ***", "{sequence:?}");
                let shown = told.words().value(&json!({ "note": text, "deep": [text] }));
                assert_eq!(shown, json!({ "note": "***", "deep": ["***"] }), "{sequence:?}");
            }
        }
    }

    #[test]
    fn acc_12_what_is_masked_is_known_to_be() {
        let whole = json!({ "a": ["x *** y", { "b": "z" }] });
        assert!(!hides(&whole, &whole));
        assert!(
            hides(&json!({ "a": ["x ***", { "b": "z" }] }), &whole),
            "a mark in the text itself hides no mask"
        );
        assert!(!hides(
            &json!({ "a": ["x *** y", { "b": "~/z" }] }),
            &json!({ "a": ["x *** y", { "b": "/h/z" }] })
        ));
        assert!(hides(&json!({ "***": 1 }), &json!({ "s3cr3t": 1 })));
    }

    #[test]
    fn what_a_call_was_given_is_told_without_secrets() {
        let told = Told::new(Redactor::new());
        let input = json!({ "password": "hunter2hunter2x", "path": "a.txt", "deep": [{ "api_key": "k3yk3yk3yk3yk3y1" }] });
        let shown = told.words().value(&input).to_string();
        assert!(
            !shown.contains("hunter2") && !shown.contains("k3yk3y") && shown.contains("a.txt"),
            "{shown}"
        );
    }
}
