//! The members of an object that an agent wrote, taken out one by one, each within a bound.

use std::io::Write;

use serde_json::{Map, Value, json};

/// Bytes of a name or a title, of a path, of a longer text that explains something, and of JSON that is passed on as it is.
pub(crate) const NAME: usize = 1024;
pub(crate) const PATH: usize = 4096;
pub(crate) const ABOUT: usize = 8 << 10;
pub(crate) const JSON: usize = 64 << 10;
/// Members of a list.
pub(crate) const LIST: usize = 256;

/// An object.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    pub(crate) fn of(value: Value) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self(map)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
        }
    }

    /// What is there and not null.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    pub(crate) fn object(&mut self, name: &str) -> Option<Self> {
        self.take(name).and_then(Self::of)
    }

    /// A text, whole.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        match self.take(name) {
            Some(Value::String(text)) => Some(text),
            Some(_) | None => None,
        }
    }

    /// A text, cut at so many bytes.
    pub(crate) fn short(&mut self, name: &str, most: usize) -> Option<String> {
        self.text(name).map(|text| short(text, most))
    }

    /// A text that names something: nothing if it is too long for that.
    pub(crate) fn id(&mut self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.is_empty() && text.len() <= NAME)
    }

    pub(crate) fn number(&mut self, name: &str) -> Option<u64> {
        self.take(name).and_then(|value| value.as_u64())
    }

    pub(crate) fn is_set(&mut self, name: &str) -> bool {
        self.take(name).is_some_and(|value| value.as_bool().unwrap_or(false))
    }

    /// A list of what can be read of one, cut at its bound. Nothing if there is none.
    pub(crate) fn list<T>(&mut self, name: &str, mut read: impl FnMut(Value) -> Option<T>) -> Option<Vec<T>> {
        match self.take(name) {
            Some(Value::Array(values)) => Some(values.into_iter().filter_map(&mut read).take(LIST).collect()),
            Some(_) | None => None,
        }
    }

    /// JSON that is passed on as it is, if it is not too much.
    pub(crate) fn json(&mut self, name: &str) -> Option<Value> {
        self.take(name).map(bounded)
    }
}

/// The value, or how long it is.
fn bounded(value: Value) -> Value {
    let length = length(&value);
    if length <= JSON { value } else { json!({ "omitted": format!("{length} bytes") }) }
}

/// Bytes of a value as it is written.
pub(crate) fn length(value: &Value) -> usize {
    let mut length = Length(0);
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut length, value);
    length.0
}

struct Length(usize);

impl Write for Length {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// At most about so many bytes of a text.
pub(crate) fn short(mut text: String, most: usize) -> String {
    if text.len() > most {
        let left_out = text.len() - text.floor_char_boundary(most);
        text.truncate(text.floor_char_boundary(most));
        text.push_str(&format!(" [{left_out} bytes more]"));
    }
    text
}

/// The beginning of bytes that may be anything, for a message.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 200;
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let head = bytes.get(..SHOWN).unwrap_or(bytes);
    let text: String = String::from_utf8_lossy(head).trim_end().chars().map(plain).collect();
    if bytes.len() > SHOWN { format!("{text}…") } else { text }
}
