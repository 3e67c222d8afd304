//! Notices a turn that goes in circles.

use std::collections::{HashMap, VecDeque};

/// Same calls in a row, failures in a row.
const ROW: usize = 3;
/// How many calls must be alike.
const ALIKE: usize = 5;
/// How alike, in hundredths.
const MEASURE: usize = 90;
/// How much of a call is compared.
const LOOKED_AT: usize = 4_096;

/// Why a turn was ended before the model ended it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    Identical,
    Alike,
    Failures,
    Iterations(u64),
    Budget(&'static str),
}

impl Stopped {
    /// One word, for programs.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Identical => "identical_calls",
            Self::Alike => "similar_calls",
            Self::Failures => "failures_in_a_row",
            Self::Iterations(_) => "iterations",
            Self::Budget(_) => "budget",
        }
    }
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Identical => {
                write!(f, "stopped: the same tool was called {ROW} times in a row with the same input")
            }
            Self::Alike => write!(f, "stopped: the last {ALIKE} tool calls were nearly the same"),
            Self::Failures => write!(f, "stopped: {ROW} tool calls in a row failed"),
            Self::Iterations(most) => write!(f, "stopped: the model was asked {most} times in this turn"),
            Self::Budget(what) => write!(f, "stopped: the budget of {what} is used up"),
        }
    }
}

/// What was called lately.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    last: VecDeque<String>,
    failures: usize,
}

impl Guard {
    /// Notes a call that is about to be made; says if it must not be.
    pub(crate) fn call(&mut self, name: &str, input: &str) -> Option<Stopped> {
        let text: String = format!("{name} {input}").chars().take(LOOKED_AT).collect();
        self.last.push_front(text);
        self.last.truncate(ALIKE);
        let first = self.last.front()?;
        if self.last.len() >= ROW && self.last.iter().take(ROW).all(|one| one == first) {
            return Some(Stopped::Identical);
        }
        let pairs = self.last.iter().zip(self.last.iter().skip(1));
        (self.last.len() == ALIKE && pairs.into_iter().all(|(one, other)| likeness(one, other) >= MEASURE))
            .then_some(Stopped::Alike)
    }

    /// Notes how a call ended; says if that was once too often.
    pub(crate) fn ended(&mut self, well: bool) -> Option<Stopped> {
        self.failures = if well { 0 } else { self.failures + 1 };
        (self.failures >= ROW).then_some(Stopped::Failures)
    }
}

/// How alike two texts are, in hundredths: the share of their pairs of characters that they have in common.
fn likeness(one: &str, other: &str) -> usize {
    let pairs = |text: &str| {
        let mut counts: HashMap<(char, char), usize> = HashMap::new();
        for pair in text.chars().zip(text.chars().skip(1)) {
            *counts.entry(pair).or_default() += 1;
        }
        counts
    };
    let (one, other) = (pairs(one), pairs(other));
    let all = one.values().sum::<usize>() + other.values().sum::<usize>();
    if all == 0 {
        return 100;
    }
    let common: usize = one.iter().map(|(pair, count)| *count.min(other.get(pair).unwrap_or(&0))).sum();
    common * 200 / all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ses_34_three_identical_calls_stop() {
        let mut guard = Guard::default();
        assert_eq!(guard.call("list", "{}"), None);
        assert_eq!(guard.call("list", "{}"), None);
        assert_eq!(guard.call("list", "{}"), Some(Stopped::Identical));
        let mut broken = Guard::default();
        for name in ["list", "list", "search", "list", "list"] {
            assert_eq!(broken.call(name, "{\"path\":\"one\"}").filter(|s| *s == Stopped::Identical), None);
        }
    }

    #[test]
    fn ses_34_five_calls_that_are_nearly_the_same_stop() {
        let mut guard = Guard::default();
        let input = |n: usize| format!(r#"{{"path":"a/rather/long/path/to/some/file-{n}.txt"}}"#);
        for n in 1..=4 {
            assert_eq!(guard.call("read_file", &input(n)), None, "{n}");
        }
        assert_eq!(guard.call("read_file", &input(5)), Some(Stopped::Alike));
        let mut varied = Guard::default();
        for path in ["src/main.rs", "docs/how.md", "Cargo.toml", "tests/all.rs", "LICENSE", "x/y/z"] {
            assert_eq!(varied.call("read_file", path), None, "{path}");
        }
    }

    #[test]
    fn ses_34_three_failures_in_a_row_stop() {
        let mut guard = Guard::default();
        assert_eq!(guard.ended(false), None);
        assert_eq!(guard.ended(false), None);
        assert_eq!(guard.ended(true), None);
        assert_eq!(guard.ended(false), None);
        assert_eq!(guard.ended(false), None);
        assert_eq!(guard.ended(false), Some(Stopped::Failures));
    }
}
