//! Tells a person, or a program, what came of the end of a run.
//!
//! Invariant: names in a tree that an agent had are hostile: what is printed cannot move a cursor or make a line.

use std::path::Path;

use sandbox::changes::Branch;
use sandbox::{Became, Commit, Ending, Fate, Finding};
use serde_json::{Value, json};

use crate::output;

/// Prints one line for each thing that happened.
pub(crate) fn tell(ending: &Ending) {
    lines(ending).iter().for_each(|line| output::tell(line));
}

/// One line for each thing that happened.
pub(crate) fn lines(ending: &Ending) -> Vec<String> {
    commits(ending).into_iter().chain(findings(ending)).collect()
}

/// For the record: what was found.
pub(crate) fn findings(ending: &Ending) -> Vec<String> {
    ending.findings.iter().map(finding).collect()
}

/// For programs.
pub(crate) fn value(ending: &Ending) -> (Value, Value) {
    let commits: Vec<Value> = ending.commits.iter().map(commit_value).collect();
    let findings: Vec<Value> = ending.findings.iter().map(finding_value).collect();
    let refused = ending
        .refused
        .as_ref()
        .map(|(error, place)| json!({ "why": error.to_string(), "kept": clean(place) }));
    (json!({ "branches": commits, "refused": refused }), json!(findings))
}

/// The branch that moves when the changes of the run are applied.
pub(crate) fn waiting(ending: &Ending) -> Option<Branch> {
    let found = ending.commits.iter().find(|commit| commit.became == Became::Waits)?;
    Some(Branch { name: found.branch.clone(), old: found.old.clone(), new: found.new.clone() })
}

fn commits(ending: &Ending) -> Vec<String> {
    let mut lines: Vec<String> = ending.commits.iter().map(commit).collect();
    lines.extend(ending.refused.as_ref().map(|(error, place)| {
        format!("commits were not taken over: {error}; the agent's git directory is kept in {}", clean(place))
    }));
    lines
}

fn commit(commit: &Commit) -> String {
    let Commit { branch, old, new, kept, became } = commit;
    let new = short(new);
    let moved = || match old {
        Some(old) => format!("{branch} moved from {} to {new}", short(old)),
        None => format!("{branch} begins at {new}"),
    };
    match became {
        Became::Moved => moved(),
        Became::MovedWithoutIndex(why) => format!("{}; the index stayed as it was: {why}", moved()),
        Became::Waits => {
            format!("{branch} moves to {new} when the changes are applied; until then it is kept as {kept}")
        }
        Became::Kept(why) => format!("{branch} at {new} is kept as {kept}: {why}"),
    }
}

fn commit_value(commit: &Commit) -> Value {
    let Commit { branch, old, new, kept, became } = commit;
    let (word, why) = match became {
        Became::Moved => ("moved", None),
        Became::MovedWithoutIndex(why) => ("moved_without_index", Some(why)),
        Became::Waits => ("waits", None),
        Became::Kept(why) => ("kept", Some(why)),
    };
    json!({ "branch": branch, "old": old, "new": new, "ref": kept, "became": word, "why": why })
}

fn finding(finding: &Finding) -> String {
    let (path, why) = (brief(&finding.path), &finding.why);
    match &finding.fate {
        Fate::Quarantined(place) => format!("quarantined {path} ({why}); see {}", brief(place)),
        Fate::Reported => format!("changed {path} ({why})"),
        Fate::Stays(error) => {
            format!("not quarantined: {path} ({why}): {error}; look at it before you go there")
        }
    }
}

fn finding_value(finding: &Finding) -> Value {
    let (word, place, error) = match &finding.fate {
        Fate::Quarantined(place) => ("quarantined", Some(clean(place)), None),
        Fate::Reported => ("reported", None, None),
        Fate::Stays(error) => ("stays", None, Some(error)),
    };
    json!({ "path": clean(&finding.path), "why": finding.why, "fate": word, "place": place, "error": error })
}

fn short(id: &str) -> &str {
    id.get(..10).unwrap_or(id)
}

/// What fits on a line or two, of a path that somebody may have made as long as they could.
fn brief(path: &Path) -> String {
    const MOST: usize = 400;
    let text = clean(path);
    let length = text.chars().count();
    if length <= MOST {
        return text;
    }
    let (first, last): (String, String) =
        (text.chars().take(MOST / 2).collect(), text.chars().skip(length - MOST / 2).collect());
    format!("{first}…{last}")
}

fn clean(path: &Path) -> String {
    let text = path.to_string_lossy();
    let shown = if text.is_empty() { ".".into() } else { text };
    // Marks that turn the direction of text hide names as well as control characters do. Also a style of a picture: two names
    // may differ in nothing else.
    let hides = |c: char| c.is_control() || redact::is_unseen(c);
    shown.chars().map(|c| if hides(c) { '·' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_cannot_make_a_line_of_its_own() {
        let path = "sub\npalisade: all is well\u{1b}[2K/.envrc".into();
        let text = finding(&Finding { path, why: "direnv".into(), fate: Fate::Reported });
        assert_eq!(text, "changed sub·palisade: all is well·[2K/.envrc (direnv)");
    }

    #[test]
    fn a_branch_that_stays_says_where_its_commits_are() {
        let kept = "refs/palisade/run_1/main".to_owned();
        let (old, new) = (Some("a".repeat(40)), "b".repeat(40));
        let became = Became::Kept("its history was rewritten".into());
        let one = Commit { branch: "main".into(), old, new, kept, became };
        assert_eq!(
            commit(&one),
            "main at bbbbbbbbbb is kept as refs/palisade/run_1/main: its history was rewritten"
        );
        let one = Commit { became: Became::Moved, ..one };
        assert_eq!(commit(&one), "main moved from aaaaaaaaaa to bbbbbbbbbb");
    }
}
