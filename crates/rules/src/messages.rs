//! What messages of a WebSocket may say: objects of JSON, by the texts that stand at their top.
//!
//! Invariant: a message that could be read in two ways fits nothing. Not here: frames, and bytes, which nobody can judge.

use std::collections::{BTreeMap, HashSet};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// One kind of message: keys, and the texts of which each has to have one.
pub type Shape = BTreeMap<String, Vec<String>>;

/// Which messages may go each way. A way that is left out has no limits; one with an empty list has no messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// What may be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<Vec<Shape>>,
    /// What may come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<Vec<Shape>>,
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Out of the sandbox.
    Out,
    /// Back into it.
    Back,
}

impl Messages {
    /// Whether they can be kept.
    pub(crate) fn is_right(&self) -> bool {
        let is_shape = |shape: &Shape| {
            !shape.is_empty() && shape.iter().all(|(key, texts)| !key.is_empty() && !texts.is_empty())
        };
        let mut ways = [&self.out, &self.back].into_iter().flatten().peekable();
        ways.peek().is_some() && ways.flatten().all(is_shape)
    }

    fn shapes(&self, direction: Direction) -> Option<&[Shape]> {
        match direction {
            Direction::Out => self.out.as_deref(),
            Direction::Back => self.back.as_deref(),
        }
    }

    /// Whether there are limits this way; bytes keep to none.
    #[must_use]
    pub fn limit(&self, direction: Direction) -> bool {
        self.shapes(direction).is_some()
    }

    /// Whether a text may go this way.
    #[must_use]
    pub fn allow(&self, direction: Direction, text: &str) -> bool {
        let Some(shapes) = self.shapes(direction) else { return true };
        let Ok(Top(top)) = serde_json::from_str::<Top>(text) else { return false };
        let has = |key: &String, texts: &Vec<String>| {
            top.get(key)
                .and_then(serde_json::Value::as_str)
                .is_some_and(|text| texts.iter().any(|one| one == text))
        };
        shapes.iter().any(|shape| shape.iter().all(|(key, texts)| has(key, texts)))
    }
}

/// The top of a message. A key that stands there twice, in whatever case, is taken for the first by some and for the last by others.
struct Top(BTreeMap<String, serde_json::Value>);

impl<'de> Deserialize<'de> for Top {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Top;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Top, A::Error> {
                let (mut top, mut seen) = (BTreeMap::new(), HashSet::new());
                while let Some((key, value)) = map.next_entry::<String, serde_json::Value>()? {
                    if !seen.insert(key.to_uppercase().to_lowercase()) {
                        return Err(serde::de::Error::custom("a key stands there twice"));
                    }
                    top.insert(key, value);
                }
                Ok(Top(top))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rules;

    fn messages(text: &str) -> Option<Messages> {
        let rules =
            Rules::from_toml(&format!("[[rule]]\nhost = 'site.org'\nwebsocket = true\nmessages = {text}\n"));
        rules.ok()?.list().next()?.1.messages.clone()
    }

    #[test]
    fn egr_11_a_message_is_what_a_rule_says_or_does_not_go() {
        let one = messages(
            "{ out = [{ type = ['ping', 'say'] }, { op = ['sub'], room = ['a', 'b'] }], back = [] }",
        )
        .unwrap();
        let fits = |text: &str| one.allow(Direction::Out, text);
        for good in [
            r#"{"type":"ping"}"#,
            r#" {"text": {"type": "other"}, "type": "say"} "#,
            r#"{"op":"sub","room":"b","more":[1]}"#,
            r#"{"\u0074ype":"ping"}"#,
        ] {
            assert!(fits(good), "{good}");
        }
        for bad in [
            "",
            "ping",
            r#"{"type":"pong"}"#,
            r#"{"type":["ping"]}"#,
            r#"{"type":1}"#,
            r#"{"op":"sub"}"#,
            r#"{"op":"sub","room":"c"}"#,
            r#"[{"type":"ping"}]"#,
            r#"{"type":"ping"} {"type":"ping"}"#,
            r#"{"type":"pong","type":"ping"}"#,
            r#"{"type":"ping","\u0074ype":"pong"}"#,
            r#"{"Type":"pong","type":"ping"}"#,
            r#"{"op":"sub","room":"a","other":1,"Other":2}"#,
            r#"{"\u212aey":1,"key":2,"type":"ping"}"#,
            r#"{"type":"ping""#,
            r#"{"TYPE":"ping"}"#,
        ] {
            assert!(!fits(bad), "{bad}");
        }
        assert!(one.limit(Direction::Back) && !one.allow(Direction::Back, r#"{"type":"ping"}"#));
        let back = messages("{ back = [{ type = ['news'] }] }").unwrap();
        assert!(!back.limit(Direction::Out) && back.allow(Direction::Out, "anything"));
    }

    #[test]
    fn egr_11_messages_that_mean_nothing_refuse_the_set() {
        for bad in [
            "{}",
            "{ out = [{}] }",
            "{ out = [{ type = [] }] }",
            "{ out = [{ '' = ['a'] }] }",
            "{ forth = [] }",
            "true",
        ] {
            assert_eq!(messages(bad), None, "{bad}");
        }
        let rule = |more: &str| {
            Rules::from_toml(&format!("[[rule]]\nhost = 'site.org'\nmessages = {{ out = [] }}\n{more}\n"))
        };
        assert!(rule("websocket = true").is_ok());
        for beside in ["", "websocket = false", "websocket = true\ndeny = true", "access = 'pass'"] {
            assert!(rule(beside).is_err(), "{beside}");
        }
    }
}
