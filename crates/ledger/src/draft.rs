//! Turns what happened into the caller's part of an entry, bounded and scrubbed.
//!
//! Flow: [`Draft`] (texts) -> [`Body`] (bytes, made in the caller's thread) -> a line (in the writer,
//! which alone knows sequence, time and predecessor). Invariants: every text passes the scrubber before it
//! is encoded; a body never exceeds [`MAX_BODY`], whatever the draft holds: what does not fit is cut and
//! the cut is visible. Not here: who may do what, how a line is stored ([`crate::entry`]).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::queue::Recorded;

/// The longest encoded text of an entry, in bytes.
pub const MAX_TEXT: usize = 4096;
/// The most details an entry holds.
pub const MAX_DETAILS: usize = 32;
/// The longest body; a line adds less than 300 bytes to it.
pub(crate) const MAX_BODY: usize = 60 * 1024;
/// The longest line a reader accepts.
pub(crate) const MAX_LINE: usize = 64 * 1024;

const MAX_KEY: usize = 64;
const CUT: &str = "[cut]";

/// Takes secrets out of a text before it is recorded.
pub type Scrub = Box<dyn Fn(&str) -> String + Send + Sync>;

/// The scrubber for texts that the ledger itself makes.
pub(crate) fn own_words() -> Scrub {
    Box::new(str::to_owned)
}

/// What an entry says about an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It was permitted, and starts after this entry.
    Allowed,
    /// It was not permitted.
    Refused,
    /// It happened.
    Done,
    /// It was tried and did not succeed, or its outcome is unknown.
    Failed,
    /// Nothing was decided; this happened.
    Noted,
}

impl Decision {
    /// The word stored in the entry.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Noted => "noted",
        }
    }
}

/// An entry before it has a place in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    who: String,
    action: String,
    resource: String,
    decision: Decision,
    cause: String,
    detail: BTreeMap<Cow<'static, str>, String>,
    opens: bool,
    closes: Option<Recorded>,
}

impl Draft {
    /// An entry saying that `who` did `action` and what came of it.
    #[must_use]
    pub fn new(who: impl Into<String>, action: impl Into<String>, decision: Decision) -> Self {
        Self {
            who: who.into(),
            action: action.into(),
            resource: String::new(),
            decision,
            cause: String::new(),
            detail: BTreeMap::new(),
            opens: false,
            closes: None,
        }
    }

    /// Names what the act was on.
    #[must_use]
    pub fn on(self, resource: impl Into<String>) -> Self {
        Self { resource: resource.into(), ..self }
    }

    /// Names why it was decided so.
    #[must_use]
    pub fn because(self, cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), ..self }
    }

    /// Adds one detail; the names `late` and `cut` belong to the ledger and are stored as `late_`, `cut_`.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        let name = match name.into() {
            Cow::Borrowed("late") => "late_".into(),
            Cow::Borrowed("cut") => "cut_".into(),
            Cow::Owned(name) if name == "late" || name == "cut" => format!("{name}_").into(),
            name => name,
        };
        self.detail.insert(name, value.into());
        self
    }

    /// An effect follows, and another entry will close this one.
    #[must_use]
    pub fn opens(self) -> Self {
        Self { opens: true, ..self }
    }

    /// Closes the entry `seq`.
    #[must_use]
    pub fn closes(self, seq: u64) -> Self {
        self.closes_recorded(Recorded::Entry(seq))
    }

    /// Closes an entry of a narrowing act, wherever it is kept by now.
    #[must_use]
    pub fn closes_recorded(self, opened: Recorded) -> Self {
        Self { closes: Some(opened), ..self }
    }

    pub(crate) fn encode(&self, scrub: &Scrub) -> Body {
        let mut out = Vec::with_capacity(320);
        // Ids and our own words stay, whatever value somebody calls a secret.
        for (name, text, is_own) in [
            ("\"who\":\"", self.who.as_str(), are_ids(&self.who)),
            ("\",\"action\":\"", &self.action, is_word(&self.action)),
            ("\",\"resource\":\"", &self.resource, are_ids(&self.resource)),
            ("\",\"decision\":\"", self.decision.word(), true),
            ("\",\"cause\":\"", &self.cause, false),
        ] {
            out.extend_from_slice(name.as_bytes());
            let text = if is_own { Cow::Borrowed(text) } else { Cow::Owned(scrub(text)) };
            escape(&mut out, &text, MAX_TEXT);
        }
        out.push(b'"');
        if self.opens {
            out.extend_from_slice(b",\"opens\":true");
        }
        if let Some(Recorded::Entry(seq)) = self.closes {
            out.extend_from_slice(closing(seq).as_bytes());
        }
        self.encode_detail(&mut out, scrub);
        Body { bytes: out, opens: self.opens, closes: self.closes }
    }

    /// The details come last in a body, so that the writer can add `late` to them.
    fn encode_detail(&self, out: &mut Vec<u8>, scrub: &Scrub) {
        out.extend_from_slice(DETAIL);
        let mut dropped = 0usize;
        let mut comma = false;
        for (place, (name, value)) in self.detail.iter().enumerate() {
            let room = MAX_BODY.saturating_sub(out.len().saturating_add(2 * MAX_KEY));
            if place >= MAX_DETAILS || room < MAX_KEY {
                dropped = dropped.saturating_add(1);
                continue;
            }
            out.extend_from_slice(if comma { b",\"" } else { b"\"" });
            comma = true;
            escape(out, &scrub(name), MAX_KEY);
            out.extend_from_slice(b"\":\"");
            escape(out, &scrub(value), MAX_TEXT.min(room));
            out.push(b'"');
        }
        if dropped > 0 {
            out.extend_from_slice(
                format!("{}\"cut\":\"{dropped}\"", if comma { "," } else { "" }).as_bytes(),
            );
        }
        out.push(b'}');
    }
}

/// The caller's part of a line, encoded: everything between the predecessor and the code.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    pub(crate) opens: bool,
    /// What it closes; a number is in the bytes already, a ticket is not.
    pub(crate) closes: Option<Recorded>,
}

const DETAIL: &[u8] = b",\"detail\":{";

fn closing(seq: u64) -> String {
    format!(",\"closes\":{seq}")
}

/// A body that closes the entry `seq`, from one that was encoded before the number was known.
pub(crate) fn mark_closes(body: &[u8], seq: u64) -> Vec<u8> {
    // No text of a body holds these bytes: a quote inside a text is escaped.
    let place = body.windows(DETAIL.len()).position(|bytes| bytes == DETAIL).unwrap_or(body.len());
    let (front, detail) = body.split_at(place);
    [front, closing(seq).as_bytes(), detail].concat()
}

/// Appends `text` as the inside of a JSON string of at most `max` bytes; a longer one ends in `[cut]`.
pub(crate) fn escape(out: &mut Vec<u8>, text: &str, max: usize) {
    // Most texts: short, and nothing in them to escape.
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if text.len() <= max && text.bytes().all(is_plain) {
        return out.extend_from_slice(text.as_bytes());
    }
    let start = out.len();
    let room = max.saturating_sub(CUT.len());
    let mut last_fit = start;
    for symbol in text.chars() {
        if out.len().saturating_sub(start) <= room {
            last_fit = out.len();
        }
        match symbol {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            // Also what a terminal would act on or hide: an entry may be shown with `cat`.
            symbol if symbol.is_control() || redact::is_unseen(symbol) => {
                for unit in symbol.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
            symbol => out.extend_from_slice(symbol.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        if out.len().saturating_sub(start) > max {
            out.truncate(last_fit);
            out.extend_from_slice(CUT.as_bytes());
            return;
        }
    }
}

/// Whether a text is one id or several, as the house writes them.
fn are_ids(text: &str) -> bool {
    text.split('/').all(|part| {
        part.split_once('_').is_some_and(|(kind, number)| {
            (2..=4).contains(&kind.len())
                && kind.bytes().all(|byte| byte.is_ascii_lowercase())
                && number.len() == 32
                && number.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
    })
}

/// Whether a text is a word of the kind that acts have; they come from no caller.
fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'.' | b'_'))
}

#[cfg(test)]
#[path = "draft_tests.rs"]
mod tests;
