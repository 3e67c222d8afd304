//! Turns a unified diff over any number of files into their new texts, or says which part does not fit.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::write::{Draft, prepared, writable};
use super::{Desk, Prepared, ToolError, arguments, failed, refused};

/// Bytes of a patch, and files in it.
const PATCH: usize = 1 << 20;
const FILES: usize = 64;

/// One place of a file: what is there and what is to be there.
#[derive(Debug, Default)]
struct Hunk {
    /// Where the patch thinks it is, from 0.
    line: usize,
    old: Vec<String>,
    new: Vec<String>,
}

/// One file of a patch; without a name there is none, before or after.
#[derive(Debug)]
struct FilePatch {
    old: Option<String>,
    new: Option<String>,
    hunks: Vec<Hunk>,
}

pub(super) fn apply_patch(input: Value, desk: &Arc<Desk>) -> Result<Prepared, ToolError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Given {
        patch: String,
        #[serde(default)]
        dry_run: bool,
    }
    let given: Given = arguments(input)?;
    let patches = parsed(&given.patch).map_err(|why| refused("patch_form", why))?;
    let mut seen = BTreeSet::new();
    let mut drafts = Vec::new();
    for patch in &patches {
        let draft = drafted(patch, desk)?;
        if !seen.insert(draft.path.clone()) {
            return Err(refused("patch_form", format!("`{}` is in the patch twice", draft.shown)));
        }
        drafts.push(draft);
    }
    prepared(format!("patch {} files", drafts.len()), drafts, given.dry_run, desk)
}

fn drafted(patch: &FilePatch, desk: &Desk) -> Result<Draft, ToolError> {
    let name = patch.new.as_ref().or(patch.old.as_ref());
    let shown = name.ok_or_else(|| refused("patch_form", "a file without a name"))?.clone();
    if patch.old.as_ref().zip(patch.new.as_ref()).is_some_and(|(old, new)| old != new) {
        return Err(refused(
            "patch_form",
            format!("`{shown}` has two names; files are not renamed by a patch"),
        ));
    }
    let path = writable(&shown, desk)?;
    let old = desk.tree.text_if_any(&path, desk.limits.write_bytes)?;
    let in_file = |error: String| failed(format!("`{shown}`: {error}; nothing was changed"));
    let (old, new) = match (&patch.old, &patch.new, old) {
        (None, _, Some(_)) => return Err(refused("overwrite", format!("`{shown}` is there already"))),
        (None, _, None) => (None, Some(applied("", &patch.hunks).map_err(in_file)?)),
        (Some(_), _, None) => return Err(failed(format!("`{shown}` is not there; nothing was changed"))),
        (Some(_), None, Some(text)) => {
            if !applied(&text, &patch.hunks).map_err(in_file)?.is_empty() {
                return Err(in_file("it has more in it than the patch removes".to_owned()));
            }
            (Some(text), None)
        }
        (Some(_), Some(_), Some(text)) => {
            let new = applied(&text, &patch.hunks).map_err(in_file)?;
            (Some(text), Some(new))
        }
    };
    Ok(Draft { shown, path, old, new })
}

fn parsed(text: &str) -> Result<Vec<FilePatch>, String> {
    if text.len() > PATCH {
        return Err(format!("a patch has at most {PATCH} bytes"));
    }
    let mut patches: Vec<FilePatch> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(old) = line.strip_prefix("--- ") {
            let new = lines.next().and_then(|line| line.strip_prefix("+++ ")).ok_or("`---` without `+++`")?;
            patches.push(FilePatch { old: name(old), new: name(new), hunks: Vec::new() });
        } else if let Some(head) = line.strip_prefix("@@ ") {
            let (mut hunk, mut old_left, mut new_left) = begun(head)?;
            while old_left > 0 || new_left > 0 {
                let line = lines.next().ok_or("a hunk ends before its lines are there")?;
                let mut chars = line.chars();
                // An empty line is one of context that lost its blank.
                let (mark, rest) = (chars.next().unwrap_or(' '), chars.as_str().to_owned());
                let (in_old, in_new) = match mark {
                    ' ' => (true, true),
                    '-' => (true, false),
                    '+' => (false, true),
                    '\\' => continue,
                    _ => return Err("a line of a hunk begins with ` `, `-` or `+`".to_owned()),
                };
                if in_old {
                    old_left =
                        usize::checked_sub(old_left, 1).ok_or("a hunk has more old lines than it says")?;
                    hunk.old.push(rest.clone());
                }
                if in_new {
                    new_left =
                        usize::checked_sub(new_left, 1).ok_or("a hunk has more new lines than it says")?;
                    hunk.new.push(rest);
                }
            }
            patches.last_mut().ok_or("a hunk before any file")?.hunks.push(hunk);
        } else if line.starts_with(['+', '-']) {
            return Err("a line outside of every hunk; its head counts too few lines".to_owned());
        }
        // Anything else between files (`diff`, `index`, words) says nothing that matters.
    }
    if patches.is_empty() || patches.len() > FILES || patches.iter().any(|patch| patch.hunks.is_empty()) {
        return Err(format!("a patch has 1 to {FILES} files with at least one hunk each"));
    }
    Ok(patches)
}

/// A name as diffs write it: perhaps with `a/` or `b/` before it and a time behind it.
fn name(text: &str) -> Option<String> {
    let text = text.split('\t').next().unwrap_or_default().trim_end();
    if text == "/dev/null" {
        return None;
    }
    Some(text.strip_prefix("a/").or_else(|| text.strip_prefix("b/")).unwrap_or(text).to_owned())
}

/// `-1,2 +3,4 @@`: a hunk without its lines, and how many of each there will be.
fn begun(head: &str) -> Result<(Hunk, usize, usize), String> {
    let bad = || "the head of a hunk is `@@ -LINE,COUNT +LINE,COUNT @@`".to_owned();
    let mut words = head.split(' ');
    let mut range = |mark: char| {
        let word = words.next()?.strip_prefix(mark)?;
        let (line, count) = word.split_once(',').unwrap_or((word, "1"));
        Some((line.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
    };
    let ((line, old), (_, new)) = range('-').zip(range('+')).ok_or_else(bad)?;
    if old > PATCH || new > PATCH {
        return Err(bad());
    }
    // Lines that are only added stand behind the line that is named.
    let line = if old == 0 { line } else { line.saturating_sub(1) };
    Ok((Hunk { line, ..Hunk::default() }, old, new))
}

/// A text with every hunk applied, in order.
fn applied(text: &str, hunks: &[Hunk]) -> Result<String, String> {
    let ends = text.is_empty() || text.ends_with('\n');
    let mut lines: Vec<&str> = text.lines().collect();
    let (mut shift, mut from) = (0_isize, 0);
    for (number, hunk) in hunks.iter().enumerate() {
        let guess = hunk.line.saturating_add_signed(shift);
        let at = found(&lines, &hunk.old, guess, from).map_err(|why| format!("hunk {} {why}", number + 1))?;
        let end = at + hunk.old.len();
        lines.splice(at..end, hunk.new.iter().map(String::as_str));
        let (old, new) = (hunk.old.len().cast_signed(), hunk.new.len().cast_signed());
        shift = shift.saturating_add(new - old);
        from = at + hunk.new.len();
    }
    let mut text = lines.join("\n");
    if ends && !text.is_empty() {
        text.push('\n');
    }
    Ok(text)
}

/// Where lines are: where the patch says, or at the only place that has them.
fn found(lines: &[&str], wanted: &[String], guess: usize, from: usize) -> Result<usize, &'static str> {
    let is_at = |at: usize| {
        let there = lines.get(at..at + wanted.len());
        there.is_some_and(|there| there.iter().zip(wanted).all(|(line, want)| line == want))
    };
    if wanted.is_empty() {
        // Nothing to go by but the number.
        return if (from..=lines.len()).contains(&guess) {
            Ok(guess)
        } else {
            Err("adds beyond the end of the file")
        };
    }
    if guess >= from && is_at(guess) {
        return Ok(guess);
    }
    let mut places = (from..lines.len()).filter(|at| is_at(*at));
    match (places.next(), places.next()) {
        (None, _) => Err("does not fit: its lines are not in the file"),
        (Some(at), None) => Ok(at),
        (Some(_), Some(_)) => Err("fits in more than one place; give more context"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(text: &str, patch: &str) -> Result<String, String> {
        let patches = parsed(patch)?;
        applied(text, &patches[0].hunks)
    }

    #[test]
    fn ses_29_a_hunk_fits_where_it_says_or_at_the_only_place_and_nowhere_else() {
        let text = "one\ntwo\nthree\ntwo\nfour\n";
        let patch = |line: usize, old: &str, new: &str| {
            format!("--- a/x\n+++ b/x\n@@ -{line},1 +{line},1 @@\n-{old}\n+{new}\n")
        };
        assert_eq!(patched(text, &patch(2, "two", "2")).unwrap(), "one\n2\nthree\ntwo\nfour\n");
        assert_eq!(patched(text, &patch(4, "two", "2")).unwrap(), "one\ntwo\nthree\n2\nfour\n");
        assert_eq!(patched(text, &patch(1, "four", "4")).unwrap(), "one\ntwo\nthree\ntwo\n4\n");
        assert!(patched(text, &patch(1, "two", "2")).unwrap_err().contains("more than one place"));
        assert!(patched(text, &patch(1, "five", "5")).unwrap_err().contains("does not fit"));
    }

    #[test]
    fn patches_are_read_strictly() {
        for bad in [
            "",
            "words",
            "--- a/x\n",
            "--- a/x\n+++ b/x\n",
            "@@ -1 +1 @@\n-a\n+b\n",
            "--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-a\n+b\n",
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n+c\n",
            "--- a/x\n+++ b/x\n@@ -x +1 @@\n-a\n+b\n",
            "--- a/x\n+++ b/x\n@@ -1,18446744073709551615 +1 @@\n-a\n+b\n",
        ] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
        let made = "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+a\n+b\n";
        assert_eq!(patched("", made).unwrap(), "a\nb\n");
        let two = "--- a/x\n+++ b/x\n@@ -1,1 +1,2 @@\n one\n+more\n@@ -5,1 +6,1 @@\n-four\n+4\n";
        assert_eq!(patched("one\ntwo\nthree\ntwo\nfour\n", two).unwrap(), "one\nmore\ntwo\nthree\ntwo\n4\n");
    }
}
