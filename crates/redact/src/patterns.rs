//! Patterns that people add.
//!
//! A pattern is a regular expression over bytes (ASCII classes, no back references) and is searched within lines. The engine takes
//! time in proportion to the text, patterns are bounded in length, number and size, and a match in length.
//!
//! Invariant: a pattern that cannot be used is told by its place in the list; its text, which may be a secret itself,
//! is in no message.

use std::sync::Arc;

use regex_automata::Input;
use regex_automata::meta::{self, Regex};
use regex_automata::util::syntax;

use crate::bytes::{line_end, slice};
use crate::find::{Body, Hit};

/// Most patterns.
const MOST: usize = 256;
/// Longest pattern.
const LONGEST: usize = 4 * 1024;
/// Largest program that one pattern may become.
const SIZE: usize = 256 * 1024;
/// How far a search looks at once. A match that reaches this far goes on to the next blank.
const LOOK: usize = 4 * 1024;

/// A pattern that is not in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pattern {index} is not used: {flaw}")]
pub struct BadPattern {
    /// Which, counted from zero.
    pub index: usize,
    /// Why.
    pub flaw: Flaw,
}

/// What is wrong with a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// It is no regular expression of this kind.
    #[error("it is not a regular expression; look-around and back references do not exist here")]
    Syntax,
    /// It is longer than a pattern may be.
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
    /// It would become too large a program.
    #[error("it becomes too large; use smaller repetitions")]
    TooLarge,
    /// It matches where there is nothing.
    #[error("it matches the empty text")]
    MatchesNothing,
    /// There are too many.
    #[error("there are more than {MOST} patterns")]
    TooMany,
}

/// The patterns of a file, one a line, each with the number of its line, counted from zero. What is empty or begins with `#` is none.
#[must_use]
pub fn listed(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().map(str::trim_end).enumerate();
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect()
}

#[derive(Clone, Default)]
pub(crate) struct Patterns(Arc<[Regex]>);

impl Patterns {
    /// Takes those that can be used, and tells the others.
    pub(crate) fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> (Self, Vec<BadPattern>) {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for (index, pattern) in patterns.into_iter().enumerate() {
            match if index < MOST { compiled(pattern) } else { Err(Flaw::TooMany) } {
                Ok(regex) => good.push(regex),
                Err(flaw) => bad.push(BadPattern { index, flaw }),
            }
        }
        (Self(good.into()), bad)
    }

    /// Adds what matches and begins in `text[from..limit]`.
    pub(crate) fn find(&self, text: &[u8], from: usize, limit: usize, hits: &mut Vec<Hit>) {
        for regex in self.0.iter() {
            let mut line = from;
            while line < text.len() && line < limit {
                let end = line_end(text, line);
                in_line(regex, slice(text, 0, end), line, limit, hits);
                line = end + 1;
            }
        }
    }
}

/// A search looks at [`LOOK`] bytes, of which a match begins in the first half, so that the whole takes time in
/// proportion to the line also where a pattern looks far ahead.
fn in_line(regex: &Regex, text: &[u8], mut from: usize, limit: usize, hits: &mut Vec<Hit>) {
    while from < text.len() && from < limit {
        let to = text.len().min(from + LOOK);
        let is_all = to == text.len();
        let found = regex.find(Input::new(text).range(from..to)).map(|found| (found.start(), found.end()));
        match found {
            Some((start, _)) if !is_all && start >= from + LOOK / 2 => from = start,
            Some((start, end)) => {
                let end = if end == to { Body::Word.end(text, end) } else { end };
                if start < limit && end > start {
                    hits.push(Hit::ended(start, end));
                }
                from = end.max(from + 1);
            }
            None => from = if is_all { to } else { from + LOOK / 2 },
        }
    }
}

fn compiled(pattern: &str) -> Result<Regex, Flaw> {
    if pattern.len() > LONGEST {
        return Err(Flaw::TooLong);
    }
    let config = meta::Config::new()
        .nfa_size_limit(Some(SIZE))
        .onepass_size_limit(Some(SIZE))
        .hybrid_cache_capacity(SIZE)
        .utf8_empty(false);
    let rules = syntax::Config::new().unicode(false).utf8(false).multi_line(true).nest_limit(64);
    let regex = Regex::builder()
        .configure(config)
        .syntax(rules)
        .build(pattern)
        .map_err(|error| if error.size_limit().is_some() { Flaw::TooLarge } else { Flaw::Syntax })?;
    if regex.is_match("") { Err(Flaw::MatchesNothing) } else { Ok(regex) }
}
