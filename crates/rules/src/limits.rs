//! How much a sandbox may do with its network, whatever its rules allow.
//!
//! Written as a `[limits]` table beside rules, or as words: `bytes=100M,requests=1000,connections=64,rate=50/s`.
//! Invariant: limits that meet only narrow ([`Limits::and`]).

use serde::{Deserialize, Deserializer, Serialize};

use crate::fault::What;

/// The most connections at a time that can be asked for: each costs descriptors and memory of the proxy.
pub const MOST_CONNECTIONS: u64 = 8_192;

/// The longest that an answer may be given to come, in seconds.
pub const MOST_SECONDS: u64 = 60;

/// How much of an answer is taken, and how long it may take: for tools that read the web. What is left out is as small as
/// most of them need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Bytes of content, unpacked.
    #[serde(default = "usual_bytes", deserialize_with = "some")]
    pub bytes: u64,
    /// Seconds from the request on, to the end of its answer.
    #[serde(default = "usual_seconds", deserialize_with = "some")]
    pub seconds: u64,
}

impl Default for Answer {
    fn default() -> Self {
        Self { bytes: usual_bytes(), seconds: usual_seconds() }
    }
}

impl Answer {
    /// Whether it can be kept.
    pub(crate) fn is_right(self) -> bool {
        self.bytes > 0 && (1..=MOST_SECONDS).contains(&self.seconds)
    }
}

fn usual_bytes() -> u64 {
    1 << 20
}

fn usual_seconds() -> u64 {
    10
}

/// Limits of one sandbox; what is left out has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Bytes that go out and come back, together.
    #[serde(default, deserialize_with = "amount", skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Requests in all, where they are seen.
    #[serde(default, deserialize_with = "amount", skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Connections at a time.
    #[serde(default, deserialize_with = "amount", skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// Connections in all.
    #[serde(default, deserialize_with = "amount", skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Requests, and connections that are passed on unopened, begun in a second.
    #[serde(default, deserialize_with = "amount", skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Bytes of each answer, unpacked, where requests are seen.
    #[serde(default, deserialize_with = "amount", skip_serializing_if = "Option::is_none")]
    pub answer_bytes: Option<u64>,
    /// Seconds for each request and its answer, where they are seen.
    #[serde(default, deserialize_with = "amount", skip_serializing_if = "Option::is_none")]
    pub answer_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a limit is a number, or one like \"100M\" or \"50/s\"")]
enum Written {
    Number(u64),
    Text(String),
}

fn amount<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Option::<Written>::deserialize(from)?
        .map(|written| match written {
            Written::Number(number) => Ok(number),
            Written::Text(text) => {
                number(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is no limit")))
            }
        })
        .transpose()
}

fn some<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    amount(from)?.ok_or_else(|| serde::de::Error::custom("a limit is missing"))
}

/// `1000`, `100k`, `100M`, `2G`, `50/s`.
fn number(text: &str) -> Option<u64> {
    let text = text.strip_suffix("/s").unwrap_or(text);
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (text.get(..at)?, 1 << 10),
        (at, 'm' | 'M') => (text.get(..at)?, 1 << 20),
        (at, 'g' | 'G') => (text.get(..at)?, 1 << 30),
        _ => (text, 1),
    };
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| is_plain)?.checked_mul(unit)
}

impl Limits {
    /// Reads `NAME=VALUE,…`.
    ///
    /// # Errors
    /// When a name or a value is none.
    pub fn parse(text: &str) -> Result<Self, What> {
        let mut limits = Self::default();
        for part in text.split(',') {
            let odd = || {
                What::Limits(format!(
                    "`{part}` is none; there are bytes, requests, connections, total, rate, answer-bytes and answer-seconds, \
                     as in `bytes=100M,rate=50/s`"
                ))
            };
            let (name, value) = part.split_once('=').ok_or_else(odd)?;
            let value = number(value).ok_or_else(odd)?;
            let place = match name {
                "bytes" => &mut limits.bytes,
                "requests" => &mut limits.requests,
                "connections" => &mut limits.connections,
                "total" => &mut limits.total,
                "rate" => &mut limits.rate,
                "answer-bytes" => &mut limits.answer_bytes,
                "answer-seconds" => &mut limits.answer_seconds,
                _ => return Err(odd()),
            };
            if place.replace(value).is_some() {
                return Err(What::Limits(format!("`{name}` is there twice")));
            }
        }
        limits.checked()
    }

    /// The same if they can be kept.
    ///
    /// # Errors
    /// When one is nothing, or more than there can be.
    pub fn checked(self) -> Result<Self, What> {
        let Self { bytes, requests, connections, total, rate, answer_bytes, answer_seconds } = self;
        if [bytes, requests, connections, total, rate, answer_bytes, answer_seconds].contains(&Some(0)) {
            return Err(What::Limits("a limit of 0 lets nothing through; use `--offline` for that".into()));
        }
        if connections.is_some_and(|most| most > MOST_CONNECTIONS) {
            return Err(What::Limits(format!(
                "there can be {MOST_CONNECTIONS} connections at a time, and no more"
            )));
        }
        if answer_seconds.is_some_and(|most| most > MOST_SECONDS) {
            return Err(What::Limits(format!(
                "an answer has {MOST_SECONDS} seconds at most; without `answer-seconds` it has as long as it takes"
            )));
        }
        Ok(self)
    }

    /// Both: of each, the smaller one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let less = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        Self {
            bytes: less(self.bytes, other.bytes),
            requests: less(self.requests, other.requests),
            connections: less(self.connections, other.connections),
            total: less(self.total, other.total),
            rate: less(self.rate, other.rate),
            answer_bytes: less(self.answer_bytes, other.answer_bytes),
            answer_seconds: less(self.answer_seconds, other.answer_seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rules;

    #[test]
    fn egr_16_limits_are_read_as_words_and_as_a_table_and_only_narrow() {
        let words = Limits::parse("bytes=100M,requests=1000,connections=64,rate=50/s").unwrap();
        let document = "[limits]\nbytes = '100M'\nrequests = 1000\nconnections = 64\nrate = '50/s'\n";
        let (_, table) = Rules::from_document(document).unwrap();
        assert_eq!(words, table);
        assert_eq!((words.bytes, words.rate, words.total), (Some(100 << 20), Some(50), None));
        let narrower = Limits { requests: Some(10), total: Some(7), ..Limits::default() };
        let both = words.and(narrower);
        assert_eq!(both, narrower.and(words));
        assert_eq!((both.requests, both.total, both.bytes), (Some(10), Some(7), Some(100 << 20)));
    }

    #[test]
    fn egr_15_an_answer_has_small_limits_in_a_rule_and_for_a_run() {
        let rule = |answer: &str| format!("[[rule]]\nhost = 'site.org'\nanswer = {answer}\n");
        let answer = |text: &str| {
            let rules = Rules::from_toml(&rule(text)).unwrap();
            rules.list().next().unwrap().1.answer
        };
        assert_eq!(answer("{}"), Some(Answer { bytes: 1 << 20, seconds: 10 }));
        assert_eq!(answer("{ bytes = '64k', seconds = 60 }"), Some(Answer { bytes: 64 << 10, seconds: 60 }));
        for odd in
            ["{ seconds = 61 }", "{ seconds = 0 }", "{ bytes = 0 }", "{ bytes = 'x' }", "{ time = 1 }", "1"]
        {
            assert!(Rules::from_toml(&rule(odd)).is_err(), "{odd}");
        }
        for beside in ["deny = true", "access = 'pass'", "websocket = true"] {
            assert!(Rules::from_toml(&(rule("{}") + beside)).is_err(), "{beside}");
        }
        // It has to be seen, and a rule without it would make it void.
        let host = "site.org".parse().unwrap();
        let verdict = Rules::from_toml(&rule("{}")).unwrap().connect(&host, 443);
        assert!(matches!(verdict, crate::Decision::Allowed { look: crate::Look::Inspect, .. }));
        assert!(Rules::from_toml(&(rule("{}") + "[[rule]]\nhost = 'site.org'\n")).is_err());
        let words = Limits::parse("answer-bytes=1M,answer-seconds=10").unwrap();
        let (_, table) =
            Rules::from_document("[limits]\nanswer-bytes = '1M'\nanswer-seconds = 10\n").unwrap();
        assert_eq!(words, table);
        assert_eq!(words.and(Limits { answer_bytes: Some(5), ..Limits::default() }).answer_bytes, Some(5));
    }

    #[test]
    fn egr_16_what_is_no_limit_is_refused() {
        for text in [
            "",
            "bytes",
            "bytes=",
            "bytes=+1",
            "bytes=-1",
            "bytes=1T",
            "bytes=1e3",
            "speed=1",
            "bytes=1,bytes=2",
            "requests=0",
            "connections=8193",
            "bytes=99999999999G",
            "answer-seconds=61",
            "answer-bytes=0",
            "answer_bytes=1",
        ] {
            assert!(Limits::parse(text).is_err(), "{text}");
        }
        for text in ["[limits]\nspeed = 1", "[limits]\nbytes = 0", "[limits]\nbytes = 'x'", "limits = 3"] {
            assert!(Rules::from_document(text).is_err(), "{text}");
        }
        // Where nobody would carry them out they are not taken.
        assert!(Rules::from_toml("[limits]\nbytes = 1").is_err());
    }
}
