//! Patterns of segments, and which of them a text fits, without looking at each.
//!
//! Paths, repositories, refs and packages are all written in segments: `*` is one, `**` at the end is one or more.

use std::collections::HashMap;

use crate::fault::What;
use crate::path::decoded;

/// One pattern, in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Exactly(String),
    One,
    Rest,
}

/// How a text is held against patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// As it is.
    Exact,
    /// For what is denied: without regard to case or to a slash at the end, and `x/**` is `x` too.
    Generous,
}

/// Many patterns, each with a number.
#[derive(Debug)]
pub(crate) struct Trie {
    root: Node,
    reading: Reading,
    is_empty: bool,
}

#[derive(Debug, Default)]
struct Node {
    exactly: HashMap<Box<str>, Node>,
    one: Option<Box<Node>>,
    here: Vec<u32>,
    rest: Vec<u32>,
}

impl Pattern {
    /// Reads a pattern without a slash in front; percent-encodings are undone.
    pub(crate) fn parse(text: &str) -> Result<Self, What> {
        let odd = || What::Segment(text.to_owned());
        let mut segments = Vec::new();
        let mut raw = text.split('/').peekable();
        while let Some(segment) = raw.next() {
            segments.push(match segment {
                "*" => Segment::One,
                "**" if raw.peek().is_none() => Segment::Rest,
                _ if segment.contains('*') => return Err(odd()),
                _ => Segment::Exactly(decoded(segment).ok_or_else(odd)?.into_owned()),
            });
        }
        Ok(Self(segments))
    }

    /// What every text fits that has at least one segment.
    pub(crate) fn anything() -> Self {
        Self(vec![Segment::Rest])
    }

    /// Whether a text fits.
    pub(crate) fn fits(&self, text: &str) -> bool {
        let mut parts = text.split('/');
        for segment in &self.0 {
            let Some(part) = parts.next() else { return false };
            match segment {
                Segment::Exactly(wanted) if wanted == part => {}
                Segment::One if !part.is_empty() => {}
                Segment::Rest => return true,
                Segment::Exactly(_) | Segment::One => return false,
            }
        }
        parts.next().is_none()
    }
}

impl Trie {
    pub(crate) fn new(reading: Reading) -> Self {
        Self { root: Node::default(), reading, is_empty: true }
    }

    pub(crate) fn insert(&mut self, pattern: &Pattern, value: u32) {
        self.is_empty = false;
        let mut node = &mut self.root;
        for segment in &pattern.0 {
            node = match segment {
                Segment::Rest => {
                    node.rest.push(value);
                    return;
                }
                Segment::One => node.one.get_or_insert_default(),
                Segment::Exactly(text) => {
                    let text = match self.reading {
                        Reading::Exact => text.clone(),
                        Reading::Generous => text.to_ascii_lowercase(),
                    };
                    node.exactly.entry(text.into_boxed_str()).or_default()
                }
            };
        }
        node.here.push(value);
    }

    /// Whether a pattern that the text fits has a number that is accepted. Texts have no slash in front.
    pub(crate) fn any(&self, text: &str, accept: &mut dyn FnMut(u32) -> bool) -> bool {
        if self.is_empty {
            return false;
        }
        match self.reading {
            Reading::Exact => self.root.any(Some(text), self.reading, accept),
            Reading::Generous => self.root.any(Some(&text.to_ascii_lowercase()), self.reading, accept),
        }
    }
}

impl Node {
    fn any(&self, text: Option<&str>, reading: Reading, accept: &mut dyn FnMut(u32) -> bool) -> bool {
        let generous = reading == Reading::Generous;
        let Some(text) = text.filter(|text| !(generous && text.is_empty())) else {
            // The end, or for a generous reader nothing but a slash before it.
            let slash = generous.then(|| self.exactly.get("")).flatten();
            return self.here.iter().any(|value| accept(*value))
                || generous && self.rest.iter().any(|value| accept(*value))
                || slash.is_some_and(|node| node.here.iter().any(|value| accept(*value)));
        };
        if self.rest.iter().any(|value| accept(*value)) {
            return true;
        }
        let (segment, rest) = match text.split_once('/') {
            Some((segment, rest)) => (segment, Some(rest)),
            None => (text, None),
        };
        if self.exactly.get(segment).is_some_and(|node| node.any(rest, reading, accept)) {
            return true;
        }
        !segment.is_empty() && self.one.as_ref().is_some_and(|node| node.any(rest, reading, accept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, text: &str) -> (bool, bool) {
        let parsed = Pattern::parse(pattern).unwrap();
        let mut exact = Trie::new(Reading::Exact);
        let mut generous = Trie::new(Reading::Generous);
        exact.insert(&parsed, 0);
        generous.insert(&parsed, 0);
        let found = exact.any(text, &mut |_| true);
        assert_eq!(found, parsed.fits(text), "{pattern} on {text}");
        (found, generous.any(text, &mut |_| true))
    }

    #[test]
    fn a_star_is_one_segment_and_two_are_the_rest() {
        for (pattern, text, exact, generous) in [
            ("a", "a", true, true),
            ("a", "A", false, true),
            ("a", "a/", false, true),
            ("a/", "a", false, true),
            ("a/", "a/", true, true),
            ("a", "b", false, false),
            ("a", "a/b", false, false),
            ("a/*", "a/b", true, true),
            ("a/*", "a/", false, false),
            ("a/*", "a", false, false),
            ("a/*", "a/b/c", false, false),
            ("a/*", "A/b/", false, true),
            ("a/**", "a", false, true),
            ("a/**", "a/", true, true),
            ("a/**", "a/b", true, true),
            ("a/**", "a/b/c/", true, true),
            ("a/**", "ab", false, false),
            ("*/b", "a/b", true, true),
            ("*/b", "b", false, false),
            ("**", "", true, true),
            ("**", "a/b", true, true),
            ("", "", true, true),
            ("", "a", false, false),
            ("a%20b", "a b", true, true),
        ] {
            assert_eq!(fits(pattern, text), (exact, generous), "{pattern} on {text}");
        }
    }

    #[test]
    fn of_many_patterns_every_one_is_found() {
        let mut trie = Trie::new(Reading::Exact);
        for (value, pattern) in ["a/b", "a/*", "*/b", "**", "a/**", "*/*"].iter().enumerate() {
            trie.insert(&Pattern::parse(pattern).unwrap(), u32::try_from(value).unwrap());
        }
        let mut found = Vec::new();
        trie.any("a/b", &mut |value| {
            found.push(value);
            false
        });
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn stars_stand_for_whole_segments() {
        for text in ["a*", "a/*b", "**/a", "a/**/b", "***", "a/b**"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }
}
