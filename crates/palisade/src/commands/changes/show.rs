//! Turns changes into a unified diff that cannot act on a terminal.
//!
//! Invariants: names and contents are escaped (only line ends and tabs stay); no file is read beyond a bound, and
//! comparing has a deadline, so a hostile file costs little. The whole passes the redactor on its way out.

use std::collections::HashSet;
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use sandbox::changes::{Change, Dropped, Face, Followed, Follows, Kept, Kind, What, escaped};
use sandbox::profile::{Class, Profile};
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use crate::output::Shown;

/// Larger files are named, not shown.
const MOST_BYTES: u64 = 1 << 20;
/// All that is shown of contents.
const MOST_TEXT: usize = 16 << 20;
/// For comparing one file; after it the comparison is coarse.
const DEADLINE: Duration = Duration::from_millis(500);

/// What changed, for people and programs.
pub(super) fn diff(kept: &Kept, changes: &[Change], rules: &Profile, stat: bool) -> Shown {
    let mut text = String::new();
    let moved: HashSet<&Path> = changes.iter().filter_map(old_name).collect();
    // What only has another name now is told once.
    for change in
        changes.iter().filter(|change| change.after.is_some() || !moved.contains(change.path.as_path()))
    {
        heading(change, rules, &mut text);
        if !stat && text.len() < MOST_TEXT {
            contents(kept, change, &mut text);
        } else if !stat {
            text.push_str("(more than is shown; name paths to see them)\n");
        }
    }
    if changes.is_empty() {
        text.push_str("nothing changed\n");
    } else {
        let files = count(changes);
        let word = if files == 1 { "file" } else { "files" };
        let _ = writeln!(text, "{files} {word} changed, in {}", kept.record().run);
    }
    let files: Vec<Value> = changes.iter().map(|change| for_programs(change, rules)).collect();
    let mut json = json!({
        "run": kept.record().run, "worktree": escaped(&kept.record().worktree), "changes": files,
    });
    if let (false, Some(json)) = (stat, json.as_object_mut()) {
        json.insert("diff".into(), text.clone().into());
    }
    Shown::new(&json, text)
}

fn old_name(change: &Change) -> Option<&Path> {
    match &change.kind {
        Kind::Renamed { from } => Some(from),
        Kind::Added | Kind::Changed | Kind::Deleted | Kind::ModeChanged | Kind::TypeChanged => None,
    }
}

/// How many files changed; one that was renamed counts once, directories do not.
pub(super) fn count(changes: &[Change]) -> usize {
    let files = changes.iter().filter(|change| !is_directory(change)).count();
    files - changes.iter().filter(|change| old_name(change).is_some()).count().min(files)
}

fn is_directory(change: &Change) -> bool {
    change.after.or(change.before).is_some_and(|face| face.what == What::Directory)
}

/// The letter that git uses.
pub(super) fn letter(word: &str) -> &'static str {
    match word {
        "added" => "A",
        "deleted" => "D",
        "renamed" => "R",
        "type_changed" => "T",
        "mode_changed" => "m",
        _ => "M",
    }
}

fn heading(change: &Change, rules: &Profile, text: &mut String) {
    let path = escaped(&change.path);
    let slash = if is_directory(change) { "/" } else { "" };
    let _ = match &change.kind {
        Kind::Renamed { from } => write!(text, "R  {} -> {path}", escaped(from)),
        kind => write!(text, "{}  {path}{slash}", letter(kind.word())),
    };
    if let (Some(before), Some(after)) = (change.before, change.after) {
        if before.what != after.what {
            let _ = write!(text, "  ({} -> {})", before.what.word(), after.what.word());
        } else if before.mode != after.mode && after.what != What::Link {
            let _ = write!(text, "  (mode {:03o} -> {:03o})", before.mode, after.mode);
        }
    }
    for dropped in &change.dropped {
        let _ = write!(text, "  ({} is not applied)", dropped.word());
    }
    if let Some(why) = kept_out(change, rules) {
        let _ = write!(text, "  (not applied: {why})");
    }
    text.push('\n');
}

/// Why `apply` would leave it out.
fn kept_out(change: &Change, rules: &Profile) -> Option<String> {
    if let Some(face) = change.after.filter(|face| !face.what.is_plain()) {
        return Some(format!("a {}", face.what.word()));
    }
    let control = rules.control_of(&change.path).filter(|control| control.class == Class::Hard);
    control.map(|control| format!("control file: {}", control.why))
}

fn contents(kept: &Kept, change: &Change, text: &mut String) {
    if matches!(change.kind, Kind::ModeChanged | Kind::Renamed { .. }) {
        return;
    }
    let is = |face: Option<Face>, what: What| face.is_some_and(|face| face.what == what);
    let (before, after) = (change.before, change.after);
    if is(after, What::Link) || is(before, What::Link) {
        let target =
            |link: io::Result<std::path::PathBuf>| link.map_or_else(|_| String::new(), |to| escaped(&to));
        if is(before, What::Link) {
            let _ = writeln!(text, "-link to {}", target(kept.old_link(&change.path)));
        }
        if is(after, What::Link) {
            let _ = writeln!(text, "+link to {}", target(kept.new_link(&change.path)));
        }
    }
    let side = |face: Option<Face>, open: &dyn Fn(&Path) -> io::Result<File>| {
        if is(face, What::File) { read(open(&change.path)) } else { Some(String::new()) }
    };
    if !is(before, What::File) && !is(after, What::File) {
        return;
    }
    let old = side(before, &|path| kept.old_content(path));
    let new = side(after, &|path| kept.new_content(path));
    let (Some(old), Some(new)) = (old, new) else {
        let size = |face: Option<Face>| face.map_or(0, |face| face.size);
        let _ = writeln!(text, "binary or large: {} -> {} bytes", size(before), size(after));
        return;
    };
    let path = escaped(&change.path);
    let name = |face: Option<Face>, side: char| {
        if is(face, What::File) { format!("{side}/{path}") } else { "/dev/null".to_owned() }
    };
    let _ = writeln!(text, "--- {}\n+++ {}", name(before, 'a'), name(after, 'b'));
    let diff = TextDiff::configure().timeout(DEADLINE).diff_lines(&old, &new);
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        let _ = writeln!(text, "{}", hunk.header());
        for line in hunk.iter_changes() {
            let sign = match line.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            let _ = writeln!(text, "{sign}{}", line.value().trim_end_matches('\n'));
            if line.missing_newline() {
                text.push_str("\\ no newline at end of file\n");
            }
        }
    }
}

/// A text as lines that are safe to show; none if it is binary, large or cannot be read.
fn read(file: io::Result<File>) -> Option<String> {
    let mut bytes = Vec::new();
    file.ok()?.take(MOST_BYTES + 1).read_to_end(&mut bytes).ok()?;
    let is_text = bytes.len() as u64 <= MOST_BYTES && !bytes.contains(&0);
    is_text.then(|| safe(&bytes))
}

/// Only line ends and tabs act; everything else that is no plain character is written out.
fn safe(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        // The style of a picture stays: documents are full of check marks.
        for (c, hides) in redact::hiding(chunk.valid()) {
            match c {
                '\n' | '\t' => text.push(c),
                '\r' => text.push_str("\\r"),
                c if c.is_control() || hides => {
                    let _ = write!(text, "\\u{{{:x}}}", u32::from(c));
                }
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

fn for_programs(change: &Change, rules: &Profile) -> Value {
    let face = |face: Option<Face>| {
        face.map(|face| json!({ "what": face.what.word(), "mode": format!("{:03o}", face.mode), "size": face.size }))
    };
    let from = old_name(change).map(escaped);
    json!({
        "path": escaped(&change.path),
        "kind": change.kind.word(),
        "from": from,
        "before": face(change.before),
        "after": face(change.after),
        "dropped": change.dropped.iter().map(|dropped: &Dropped| dropped.word()).collect::<Vec<_>>(),
        "not_applied": kept_out(change, rules),
    })
}

/// What became of a branch, for people.
pub(super) fn branch(branch: &Followed) -> String {
    let Followed { name, now, became } = branch;
    let at = now.as_deref().map_or("nothing", |id| id.get(..10).unwrap_or(id));
    match became {
        Follows::Moved => format!("{name} is at {at}\n"),
        Follows::Joined => format!("{name} is at {at}, which joins the run's commits with others\n"),
        Follows::There => format!("{name} has the run's commits already\n"),
        Follows::Stays(why) => format!("{name} stays where it is: {why}\n"),
    }
}

/// The same for programs.
pub(super) fn branch_value(branch: &Followed) -> Value {
    let Followed { name, now, became } = branch;
    let (word, why) = match became {
        Follows::Moved => ("moved", None),
        Follows::Joined => ("joined", None),
        Follows::There => ("there", None),
        Follows::Stays(why) => ("stays", Some(why)),
    };
    json!({ "name": name, "now": now, "became": word, "why": why })
}

pub(super) fn has_moved(branch: &Followed) -> bool {
    matches!(branch.became, Follows::Moved | Follows::Joined)
}

#[cfg(test)]
mod tests {
    use super::safe;

    #[test]
    fn adv_f08_contents_cannot_act_on_a_terminal() {
        for (bytes, shown) in [
            (&b"a\tb\n"[..], "a\tb\n"),
            (b"\x1b[2J\x07", "\\u{1b}[2J\\u{7}"),
            (b"a\r\n", "a\\r\n"),
            (b"\xff\xc3\xa4", "\\xff\u{e4}"),
            ("\u{9b}31m\u{202e}x".as_bytes(), "\\u{9b}31m\\u{202e}x"),
        ] {
            assert_eq!(safe(bytes), shown);
        }
    }
}
