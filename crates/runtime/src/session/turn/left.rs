//! What of a task's work is not in the worktree though the agent wrote it, told to whoever reads the session.
//!
//! Names in a tree that an agent had are hostile, and many: each is shown without what acts on a terminal, and so many at most.

use model::StepKind;
use serde_json::{Value, json};

use super::Turn;
use crate::session::told;

/// Paths that are named.
const MOST: usize = 20;

impl Turn<'_> {
    /// Says what was put into quarantine at the end of the run, or was to be and could not.
    pub(super) async fn tell_found(&self, report: &Value, run: &str) {
        let found = named(report.get("findings"), |one| match one.get("fate").and_then(Value::as_str) {
            Some("quarantined") => Some("put into quarantine"),
            Some("stays") => Some("it could not be put into quarantine, look at it before you go there"),
            _ => Some("changed, worth a look"),
        });
        self.tell_paths("found when the agent was gone", found, run).await;
    }

    /// Says what was not carried into the worktree with the rest.
    pub(super) async fn tell_left(&self, left: &Value, run: &str) {
        let left = named(Some(left), |_| None);
        let what = "not carried into the worktree, and kept in the layer of its run";
        self.tell_paths(what, left, run).await;
    }

    async fn tell_paths(&self, what: &str, named: Vec<Value>, run: &str) {
        if named.is_empty() {
            return;
        }
        let clean = |one: &Value, name: &str| {
            let text = one.get(name).and_then(Value::as_str).unwrap_or_default();
            told::clean(&self.runtime.redactor, text)
        };
        let count = named.len();
        let paths: Vec<Value> = named
            .iter()
            .take(MOST)
            .map(|one| json!({ "path": clean(one, "path"), "why": clean(one, "why") }))
            .collect();
        let word = |one: &Value, name: &str| one.get(name).and_then(Value::as_str).unwrap_or("?").to_owned();
        let mut lines: Vec<String> =
            paths.iter().map(|one| format!("{}: {}", word(one, "path"), word(one, "why"))).collect();
        if let Some(more) = count.checked_sub(MOST).filter(|more| *more > 0) {
            lines.push(format!("and {more} more"));
        }
        let text = format!("{what}:\n{}", lines.join("\n"));
        self.say(StepKind::Error, json!({ "text": text, "paths": paths, "run": run })).await;
    }
}

/// Paths with the reason of each, and what became of it.
fn named(all: Option<&Value>, fate: impl Fn(&Value) -> Option<&'static str>) -> Vec<Value> {
    let all = all.and_then(Value::as_array).into_iter().flatten();
    all.map(|one| {
        let why = one.get("why").and_then(Value::as_str).unwrap_or_default();
        let why = fate(one).map_or_else(|| why.to_owned(), |fate| format!("{why}; {fate}"));
        json!({ "path": one.get("path"), "why": why })
    })
    .collect()
}
