//! Turns the bytes of a document into a tree in which nothing was lost: the order of keys, and keys that stand twice.
//!
//! Invariants: a document that is too long is refused before it is read, one that is too deep while it is; whatever comes,
//! the tree is at most a small multiple of the document. Not here: what a plan is (`document`).

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::fault::{Faults, What};

/// The longest document.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;
/// The deepest one.
pub const MOST_DEPTH: usize = 64;

/// So many keys of a table are compared one by one.
const FEW: usize = 16;

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For programs.
    Json,
    /// For people.
    Toml,
}

impl Format {
    /// What it is written in: a document in JSON is a table, and begins with its brace.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        if first == Some(&b'{') { Self::Json } else { Self::Toml }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Null,
    Bool(bool),
    Natural(u64),
    Negative(i64),
    Float(f64),
    Text(String),
    List(Vec<Self>),
    Table(Fields),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fields {
    /// As written; of a key that stands twice the first.
    pub(crate) fields: Vec<(String, Tree)>,
    /// Keys that stand once more.
    pub(crate) doubled: Vec<String>,
}

impl Tree {
    pub(crate) fn read(bytes: &[u8], format: Format) -> Result<Self, Faults> {
        if bytes.len() > MOST_BYTES {
            return Err(Faults::one(What::TooLong(MOST_BYTES)));
        }
        match format {
            Format::Json => json(bytes),
            Format::Toml => toml(bytes),
        }
    }

    /// What this is called in a message.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Natural(_) | Self::Negative(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    /// The same as it would have been read by anybody else. Keys that stand twice were told of before.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value;
        match self {
            Self::Null => Value::Null,
            Self::Bool(is) => Value::Bool(*is),
            Self::Natural(number) => Value::from(*number),
            Self::Negative(number) => Value::from(*number),
            Self::Float(number) => Value::from(*number),
            Self::Text(text) => Value::String(text.clone()),
            Self::List(all) => all.iter().map(Self::to_json).collect(),
            Self::Table(table) => {
                table.fields.iter().map(|(key, value)| (key.clone(), value.to_json())).collect()
            }
        }
    }
}

const DEEP: &str = "nested too deep";

fn json(bytes: &[u8]) -> Result<Tree, Faults> {
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let read = Seed { left: MOST_DEPTH }.deserialize(&mut from).and_then(|tree| from.end().map(|()| tree));
    read.map_err(|error| {
        let text = error.to_string();
        let is_deep = text.starts_with(DEEP) || text.starts_with("recursion limit");
        Faults::one(if is_deep {
            What::TooDeep(MOST_DEPTH)
        } else {
            What::Syntax(format!("not JSON: {text}"))
        })
    })
}

fn toml(bytes: &[u8]) -> Result<Tree, Faults> {
    let bad = |text: String| Faults::one(What::Syntax(format!("not TOML: {}", text.trim_end())));
    let text = std::str::from_utf8(bytes).map_err(|error| bad(error.to_string()))?;
    let table: toml::Table = toml::from_str(text).map_err(|error| bad(error.to_string()))?;
    from_toml(toml::Value::Table(table), MOST_DEPTH).map_err(Faults::one)
}

fn from_toml(value: toml::Value, left: usize) -> Result<Tree, What> {
    let Some(left) = left.checked_sub(1) else { return Err(What::TooDeep(MOST_DEPTH)) };
    Ok(match value {
        toml::Value::String(text) => Tree::Text(text),
        toml::Value::Integer(number) => u64::try_from(number).map_or(Tree::Negative(number), Tree::Natural),
        toml::Value::Float(number) if number.is_finite() => Tree::Float(number),
        // Numbers that JSON does not have, and moments, which no key of a plan takes: they stay what was typed.
        toml::Value::Float(number) => Tree::Text(number.to_string()),
        toml::Value::Datetime(moment) => Tree::Text(moment.to_string()),
        toml::Value::Boolean(is) => Tree::Bool(is),
        toml::Value::Array(all) => {
            Tree::List(all.into_iter().map(|one| from_toml(one, left)).collect::<Result<_, _>>()?)
        }
        toml::Value::Table(all) => {
            let fields = all.into_iter().map(|(key, one)| Ok((key, from_toml(one, left)?)));
            Tree::Table(Fields { fields: fields.collect::<Result<_, What>>()?, doubled: Vec::new() })
        }
    })
}

/// Reads one value, so many levels deep.
#[derive(Clone, Copy)]
struct Seed {
    left: usize,
}

impl Seed {
    fn below<E: Error>(self) -> Result<Self, E> {
        self.left.checked_sub(1).map(|left| Self { left }).ok_or_else(|| E::custom(DEEP))
    }
}

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = Tree;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Tree, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed {
    type Value = Tree;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, is: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(is))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Natural(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(u64::try_from(number).map_or(Tree::Negative(number), Tree::Natural))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Tree, E> {
        Ok(Tree::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Tree, A::Error> {
        let below = self.below()?;
        let mut all = Vec::new();
        while let Some(one) = from.next_element_seed(below)? {
            all.push(one);
        }
        Ok(Tree::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Tree, A::Error> {
        let below = self.below()?;
        let (mut table, mut seen) = (Fields::default(), HashSet::new());
        while let Some(key) = from.next_key::<String>()? {
            let value = from.next_value_seed(below)?;
            // Most tables are small: only large ones are worth a set.
            if table.fields.len() == FEW {
                seen.extend(table.fields.iter().map(|(key, _)| key.clone()));
            }
            let is_new = if table.fields.len() < FEW {
                table.fields.iter().all(|(other, _)| *other != key)
            } else {
                seen.insert(key.clone())
            };
            if is_new {
                table.fields.push((key, value));
            } else {
                table.doubled.push(key);
            }
        }
        Ok(Tree::Table(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_or_deep_document_is_refused_as_what_it_is() {
        let long = vec![b' '; MOST_BYTES + 1];
        assert!(Tree::read(&long, Format::Json).unwrap_err().to_string().contains("longer than"));
        for deep in [65, 100, 1_000, 100_000] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let text = format!("{{\"a\":{}0{}}}", open.repeat(deep), close.repeat(deep));
                let told = Tree::read(text.as_bytes(), Format::Json).unwrap_err().to_string();
                assert!(told.starts_with("nested deeper than 64"), "{deep} {told}");
            }
            let text = format!("a = {}{}", "[".repeat(deep), "]".repeat(deep));
            assert!(Tree::read(text.as_bytes(), Format::Toml).is_err(), "{deep}");
        }
        let fits = format!("{}{}", "[".repeat(64), "]".repeat(64));
        assert!(Tree::read(fits.as_bytes(), Format::Json).is_ok());
    }

    #[test]
    fn a_key_that_stands_twice_is_not_lost() {
        let Ok(Tree::Table(table)) = Tree::read(br#"{"a":1,"b":2,"a":3}"#, Format::Json) else { panic!() };
        assert_eq!(table.doubled, ["a"]);
        assert_eq!(table.fields, [("a".into(), Tree::Natural(1)), ("b".into(), Tree::Natural(2))]);
    }

    #[test]
    fn keys_of_a_large_table_are_not_lost_either() {
        let keys = |from: usize, to: usize| (from..to).map(|n| format!("\"k{n}\":{n}")).collect::<Vec<_>>();
        for count in [FEW - 1, FEW, FEW + 1, 100] {
            let mut all = keys(0, count);
            all.extend(keys(0, count));
            let text = format!("{{{}}}", all.join(","));
            let Ok(Tree::Table(table)) = Tree::read(text.as_bytes(), Format::Json) else { panic!() };
            assert_eq!((table.fields.len(), table.doubled.len()), (count, count));
        }
    }

    #[test]
    fn what_it_is_written_in_is_seen() {
        assert_eq!(Format::of(b" \n{}"), Format::Json);
        assert_eq!(Format::of(b"name = 'x'"), Format::Toml);
    }
}
