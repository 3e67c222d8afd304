//! Tools that change one file, and how any number of files is changed wholly or not at all.

use std::path::PathBuf;
use std::sync::Arc;

use model::Access;
use serde::Deserialize;
use serde_json::Value;

use super::{Change, Desk, Prepared, ToolError, Work, arguments, failed, refused};

/// Bytes of all texts of one change: whoever decides on it must get it in one message.
const SHOWN: usize = 768 << 10;

/// A file as it was found and as it is to be; nothing is no file.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) shown: String,
    pub(super) path: PathBuf,
    pub(super) old: Option<String>,
    pub(super) new: Option<String>,
}

pub(super) fn write_file(input: Value, desk: &Arc<Desk>) -> Result<Prepared, ToolError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Given {
        path: String,
        content: String,
        #[serde(default)]
        overwrite: bool,
        #[serde(default)]
        dry_run: bool,
    }
    let given: Given = arguments(input)?;
    let path = writable(&given.path, desk)?;
    let old = desk.tree.text_if_any(&path, desk.limits.write_bytes)?;
    if old.is_some() && !given.overwrite {
        return Err(refused("overwrite", "the file is there already; set `overwrite` to replace it"));
    }
    let draft = Draft { shown: given.path.clone(), path, old, new: Some(given.content) };
    prepared(format!("write {}", given.path), vec![draft], given.dry_run, desk)
}

pub(super) fn edit(input: Value, desk: &Arc<Desk>) -> Result<Prepared, ToolError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Given {
        path: String,
        old: String,
        new: String,
        #[serde(default)]
        every: bool,
        #[serde(default)]
        dry_run: bool,
    }
    let given: Given = arguments(input)?;
    let path = writable(&given.path, desk)?;
    let old = desk.tree.text(&path, desk.limits.write_bytes)?;
    if given.old.is_empty() || given.old == given.new {
        return Err(failed("`old` has text in it and is not `new`"));
    }
    let new = match old.matches(&given.old).count() {
        0 => return Err(refused("match_missing", "`old` is not in the file")),
        1 => old.replacen(&given.old, &given.new, 1),
        _ if given.every => old.replace(&given.old, &given.new),
        count => {
            return Err(refused(
                "match_ambiguous",
                format!("`old` is in the file {count} times; give more of it"),
            ));
        }
    };
    let draft = Draft { shown: given.path.clone(), path, old: Some(old), new: Some(new) };
    prepared(format!("edit {}", given.path), vec![draft], given.dry_run, desk)
}

/// A path that may be written.
pub(super) fn writable(path: &str, desk: &Desk) -> Result<PathBuf, ToolError> {
    if !desk.writing {
        return Err(refused("writing_off", "writing is off in this configuration"));
    }
    let path = desk.tree.judged(path, Access::Write, &desk.grant)?;
    if path.as_os_str().is_empty() {
        return Err(refused("path_empty", "a path has a name in it"));
    }
    Ok(path)
}

/// A call that puts these in place.
pub(super) fn prepared(
    title: String,
    drafts: Vec<Draft>,
    dry: bool,
    desk: &Arc<Desk>,
) -> Result<Prepared, ToolError> {
    for draft in &drafts {
        let length = draft.new.as_ref().map_or(0, String::len) as u64;
        if length > desk.limits.write_bytes {
            let most = desk.limits.write_bytes;
            return Err(refused(
                "size",
                format!("`{}` would have {length} bytes of at most {most}", draft.shown),
            ));
        }
    }
    let sum: usize =
        drafts.iter().flat_map(|draft| [&draft.old, &draft.new]).flatten().map(String::len).sum();
    if sum > SHOWN {
        return Err(refused(
            "size",
            format!("a change shows at most {SHOWN} bytes of files before and after"),
        ));
    }
    let shown = drafts.iter().map(|draft| draft.shown.clone());
    let changes = drafts.iter().map(|draft| Change {
        path: draft.shown.clone(),
        old: draft.old.clone(),
        new: draft.new.clone().unwrap_or_default(),
    });
    let (places, changes): (Vec<String>, Vec<Change>) = (shown.collect(), changes.collect());
    let subject = places.join(", ");
    let desk = Arc::clone(desk);
    let work = Work::Run(Box::new(move |_| {
        if dry {
            return Ok(format!("dry run: {} files would change, and none did", drafts.len()));
        }
        committed(&desk, &drafts)?;
        Ok(format!("{} files changed: {}", drafts.len(), list_of(&drafts)))
    }));
    let title = if dry { format!("{title} (dry run)") } else { title };
    Ok(Prepared { title, subject, places, changes, work })
}

fn list_of(drafts: &[Draft]) -> String {
    drafts.iter().map(|draft| draft.shown.as_str()).collect::<Vec<_>>().join(", ")
}

/// Puts every file in place, if all are still as they were found; puts back those that were changed if one cannot be.
fn committed(desk: &Desk, drafts: &[Draft]) -> Result<(), ToolError> {
    for draft in drafts {
        if desk.tree.text_if_any(&draft.path, desk.limits.write_bytes)? != draft.old {
            return Err(refused(
                "changed_since",
                format!("`{}` was changed meanwhile; nothing was written", draft.shown),
            ));
        }
    }
    for (done, draft) in drafts.iter().enumerate() {
        let Err(error) = placed(desk, draft, draft.old.as_ref(), draft.new.as_ref()) else { continue };
        let undone = drafts
            .iter()
            .take(done)
            .rev()
            .filter(|one| placed(desk, one, one.new.as_ref(), one.old.as_ref()).is_err());
        let stuck: Vec<Draft> = undone.cloned().collect();
        return Err(if stuck.is_empty() {
            failed(format!("`{}`: {error}; nothing was changed", draft.shown))
        } else {
            failed(format!("`{}`: {error}; these could not be put back: {}", draft.shown, list_of(&stuck)))
        });
    }
    Ok(())
}

fn placed(desk: &Desk, draft: &Draft, from: Option<&String>, to: Option<&String>) -> Result<(), ToolError> {
    match (from, to) {
        (_, Some(text)) => desk.tree.put(&draft.path, text, from.is_none()),
        (Some(_), None) => desk.tree.remove(&draft.path),
        (None, None) => Ok(()),
    }
}
