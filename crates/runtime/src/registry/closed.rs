//! Reads closed documents: every key that nobody knows and every value that does not fit is a fault with its place, and
//! all of them are told at once.
//!
//! Invariant: a fault names places and rules, never a value: that may be a secret.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

/// Faults that are told; the others are counted.
const MOST: usize = 50;

/// What does not do, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Like `allow.hosts` or `files/bin/run`.
    pub place: String,
    /// What is wrong there.
    pub why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.place, self.why)
    }
}

/// Everything that is wrong with a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    told: Vec<Fault>,
    more: usize,
}

impl Faults {
    /// One more.
    pub fn add(&mut self, place: impl Into<String>, why: impl Into<String>) {
        if self.told.len() < MOST {
            self.told.push(Fault { place: place.into(), why: why.into() });
        } else {
            self.more += 1;
        }
    }

    /// Those that are told.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.told.iter()
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.told.iter().enumerate() {
            write!(f, "{}{fault}", if at == 0 { "" } else { "; " })?;
        }
        if self.more > 0 {
            write!(f, "; and {} more", self.more)?;
        }
        Ok(())
    }
}

/// How a key is told: one of a plain shape as it is, any other by what stands for it.
fn plain(key: &str) -> &str {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    if (1..=64).contains(&key.len()) && key.bytes().all(fits) { key } else { "…" }
}

/// An object whose keys are taken one after the other; what is left at the end is a fault.
pub(super) struct Object<'f> {
    place: String,
    fields: Map<String, Value>,
    faults: &'f mut Faults,
}

impl<'f> Object<'f> {
    /// The object at this place; anything else there is a fault.
    pub(super) fn at(place: &str, value: Value, faults: &'f mut Faults) -> Option<Self> {
        match value {
            Value::Object(fields) => Some(Self { place: place.to_owned(), fields, faults }),
            _ => {
                faults.add(if place.is_empty() { "document" } else { place }, "expected an object");
                None
            }
        }
    }

    fn place(&self, key: &str) -> String {
        let key = plain(key);
        if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) }
    }

    pub(super) fn fault(&mut self, key: &str, why: impl Into<String>) {
        let place = self.place(key);
        self.faults.add(place, why);
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.fields.remove(key).filter(|value| !value.is_null())
    }

    /// Text of so many bytes at the most, without NUL.
    pub(super) fn text(&mut self, key: &str, most: usize) -> Option<String> {
        match self.take(key)? {
            Value::String(text) if (1..=most).contains(&text.len()) && !text.contains('\0') => Some(text),
            _ => {
                self.fault(key, format!("expected text of 1 to {most} bytes without NUL"));
                None
            }
        }
    }

    /// Text that means something.
    pub(super) fn word<T: FromStr<Err: fmt::Display>>(&mut self, key: &str) -> Option<T> {
        let text = self.text(key, 4_096)?;
        match text.parse() {
            Ok(word) => Some(word),
            Err(error) => {
                self.fault(key, format!("{error}"));
                None
            }
        }
    }

    pub(super) fn number(&mut self, key: &str, least: i64, most: i64) -> Option<i64> {
        match self.take(key)?.as_i64() {
            Some(number) if (least..=most).contains(&number) => Some(number),
            _ => {
                self.fault(key, format!("expected a whole number from {least} to {most}"));
                None
            }
        }
    }

    pub(super) fn switch(&mut self, key: &str) -> Option<bool> {
        match self.take(key)? {
            Value::Bool(is_on) => Some(is_on),
            _ => {
                self.fault(key, "expected true or false");
                None
            }
        }
    }

    /// A list of texts, in its order.
    pub(super) fn texts(&mut self, key: &str, most: usize) -> Option<Vec<String>> {
        let why = format!("expected a list of at most {most} texts of 1 to 4096 bytes without NUL");
        let fits = |text: &String| (1..=4_096).contains(&text.len()) && !text.contains('\0');
        let Value::Array(all) = self.take(key)? else {
            self.fault(key, why);
            return None;
        };
        let count = all.len();
        let all: Vec<String> = all
            .into_iter()
            .filter_map(|one| match one {
                Value::String(text) => Some(text).filter(fits),
                _ => None,
            })
            .collect();
        if all.len() < count || count > most {
            self.fault(key, why);
            return None;
        }
        Some(all)
    }

    /// A set of words: their order does not matter, nor how often one is named.
    pub(super) fn set<T: FromStr<Err: fmt::Display> + Ord>(&mut self, key: &str) -> Option<BTreeSet<T>> {
        let mut set = BTreeSet::new();
        for (at, text) in self.texts(key, 256)?.into_iter().enumerate() {
            match text.parse() {
                Ok(word) => drop(set.insert(word)),
                Err(error) => self.fault(&format!("{key}.{at}"), format!("{error}")),
            }
        }
        Some(set)
    }

    /// An object in this one, read by `read`.
    pub(super) fn object<T>(&mut self, key: &str, read: impl FnOnce(&mut Object<'_>) -> T) -> Option<T> {
        let (value, place) = (self.take(key)?, self.place(key));
        let mut inner = Object::at(&place, value, self.faults)?;
        let read = read(&mut inner);
        inner.end();
        Some(read)
    }

    /// Every entry of an object whose keys people choose, at most so many.
    pub(super) fn entries<T>(
        &mut self,
        key: &str,
        most: usize,
        read: impl Fn(&str, Value, &mut Object<'_>) -> Option<T>,
    ) -> Option<Vec<(String, T)>> {
        let (value, place) = (self.take(key)?, self.place(key));
        let mut inner = Object::at(&place, value, self.faults)?;
        let fields = std::mem::take(&mut inner.fields);
        if fields.len() > most {
            inner.faults.add(place, format!("expected at most {most} entries"));
            return None;
        }
        let mut all: Vec<(String, T)> = fields
            .into_iter()
            .filter_map(|(name, value)| read(&name, value, &mut inner).map(|read| (name, read)))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Some(all)
    }

    /// The same for one object of a list.
    pub(super) fn objects<T>(
        &mut self,
        key: &str,
        most: usize,
        read: impl Fn(&mut Object<'_>) -> T,
    ) -> Option<Vec<T>> {
        let (value, place) = (self.take(key)?, self.place(key));
        let all = match value {
            Value::Array(all) if all.len() <= most => all,
            _ => {
                self.fault(key, format!("expected a list of at most {most} objects"));
                return None;
            }
        };
        let mut done = Vec::new();
        for (at, one) in all.into_iter().enumerate() {
            let Some(mut inner) = Object::at(&format!("{place}.{at}"), one, self.faults) else { continue };
            done.push(read(&mut inner));
            inner.end();
        }
        Some(done)
    }

    /// Puts a value of the own choosing at a key, to be read as an object.
    pub(super) fn read_as<T>(
        &mut self,
        key: &str,
        value: Value,
        read: impl FnOnce(&mut Object<'_>) -> T,
    ) -> Option<T> {
        let place = self.place(key);
        let mut inner = Object::at(&place, value, self.faults)?;
        let read = read(&mut inner);
        inner.end();
        Some(read)
    }

    /// Whatever was not taken is not known.
    pub(super) fn end(self) {
        for key in self.fields.keys() {
            let key = plain(key);
            let place = if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) };
            self.faults.add(place, "there is no such key");
        }
    }
}

/// A value in the one form that its hash is made of: keys in order, nothing between.
pub(super) fn canonical(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by(|a, b| a.0.cmp(b.0));
            out.push(b'{');
            for (at, (key, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write(&Value::String(key.clone()), out);
                out.push(b':');
                write(value, out);
            }
            out.push(b'}');
        }
        Value::Array(all) => {
            out.push(b'[');
            for (at, value) in all.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write(value, out);
            }
            out.push(b']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.extend_from_slice(value.to_string().as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reg_01_one_content_has_one_form() {
        let one: Value = serde_json::from_str(r#"{"b":[1,{"y":null,"x":"ä\n"}],"a":true}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"a":true,"b":[1,{"x":"ä\n","y":null}]}"#).unwrap();
        assert_eq!(canonical(&one), canonical(&other));
        assert_eq!(String::from_utf8(canonical(&one)).unwrap(), r#"{"a":true,"b":[1,{"x":"ä\n","y":null}]}"#);
    }

    #[test]
    fn reg_11_every_unknown_key_is_told_with_its_place_and_no_value_is() {
        let mut faults = Faults::default();
        let document = json!({
            "a": {"deep": {"no": "sk-secret"}}, "n": 99, "odd key \u{7}": 1, "list": ["x", 7], "b": "yes",
        });
        let mut object = Object::at("", document, &mut faults).unwrap();
        object.object("a", |a| a.object("deep", |_| ()));
        object.number("n", 1, 10);
        object.texts("list", 5);
        object.switch("b");
        object.end();
        let told = faults.to_string();
        for expected in [
            "`a.deep.no`: there is no such key",
            "`n`: expected a whole number from 1 to 10",
            "`…`",
            "`list`",
            "`b`",
        ] {
            assert!(told.contains(expected), "{told}");
        }
        assert!(!told.contains("sk-secret") && faults.iter().count() == 5, "{told}");
    }
}
