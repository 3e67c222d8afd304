//! Tools that look: read a file, list a directory, search files.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::Access;
use regex::RegexBuilder;
use serde::Deserialize;
use serde_json::Value;

use super::place::What;
use super::sensitive::is_sensitive;
use super::{Desk, Prepared, ToolError, arguments, failed, refused};
use crate::cancel::Cancel;

/// Longest file that a search looks into, how many of them, how deep, and names of one directory.
const FILE: u64 = 1 << 20;
const FILES: usize = 20_000;
const DEEP: usize = 32;
const NAMES: usize = 10_000;
/// Bytes that a pattern may take when it is made ready.
const PATTERN: usize = 1 << 20;

pub(super) fn read_file(input: Value, desk: &Arc<Desk>) -> Result<Prepared, ToolError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Given {
        path: String,
    }
    let given: Given = arguments(input)?;
    let path = desk.tree.judged(&given.path, Access::Read, &desk.grant)?;
    let (shown, desk) = (given.path.clone(), Arc::clone(desk));
    let run = move |_: &Cancel| desk.tree.text(&path, desk.limits.read_bytes);
    Ok(Prepared::plain(format!("read {shown}"), &shown, run).at(&shown))
}

pub(super) fn list(input: Value, desk: &Arc<Desk>) -> Result<Prepared, ToolError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Given {
        path: Option<String>,
    }
    let given: Given = arguments(input)?;
    let shown = given.path.unwrap_or_else(|| ".".to_owned());
    let path = desk.tree.judged(&shown, Access::Read, &desk.grant)?;
    let desk = Arc::clone(desk);
    let run = move |_: &Cancel| listed(&desk, &path);
    Ok(Prepared::plain(format!("list {shown}"), &shown, run).at(&shown))
}

fn listed(desk: &Desk, path: &Path) -> Result<String, ToolError> {
    let most = usize::try_from(desk.limits.list_entries).unwrap_or(usize::MAX);
    let (names, more) = desk.tree.names(path, most)?;
    let (mut lines, mut withheld) = (Vec::new(), 0);
    for (name, what) in names {
        if is_sensitive(&path.join(&name)) {
            withheld += 1;
            continue;
        }
        lines.push(match what {
            What::File => name,
            What::Folder => format!("{name}/"),
            What::Link => format!("{name}@"),
            What::Other => format!("{name}?"),
        });
    }
    if withheld > 0 {
        lines.push(format!("[{withheld} sensitive names are not shown]"));
    }
    if more {
        lines.push(format!("[there are more than {most} entries]"));
    }
    Ok(if lines.is_empty() { "[empty]".to_owned() } else { lines.join("\n") })
}

pub(super) fn search(input: Value, desk: &Arc<Desk>) -> Result<Prepared, ToolError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Given {
        pattern: String,
        path: Option<String>,
        #[serde(default)]
        ignore_case: bool,
    }
    let given: Given = arguments(input)?;
    if given.pattern.is_empty() || given.pattern.len() > 1_000 {
        return Err(refused("pattern", "a pattern has 1 to 1,000 bytes"));
    }
    let pattern =
        RegexBuilder::new(&given.pattern).case_insensitive(given.ignore_case).size_limit(PATTERN).build();
    let pattern = pattern.map_err(|error| failed(format!("the pattern does not hold: {error}")))?;
    let shown = given.path.unwrap_or_else(|| ".".to_owned());
    let path = desk.tree.judged(&shown, Access::Read, &desk.grant)?;
    let title: String = given.pattern.chars().take(60).collect();
    let desk = Arc::clone(desk);
    let run = move |cancel: &Cancel| {
        let until = Instant::now() + Duration::from_millis(desk.limits.search_ms);
        let mut hunt =
            Hunt { desk: &desk, pattern: &pattern, cancel, until, hits: Vec::new(), files: 0, cut: None };
        hunt.folder(&path, 0)?;
        Ok(hunt.told())
    };
    Ok(Prepared::plain(format!("search {shown} for `{title}`"), &shown, run).at(&shown))
}

/// A search at work.
struct Hunt<'a> {
    desk: &'a Desk,
    pattern: &'a regex::Regex,
    cancel: &'a Cancel,
    until: Instant,
    hits: Vec<String>,
    files: usize,
    /// Why it ended before it was through.
    cut: Option<&'static str>,
}

impl Hunt<'_> {
    fn folder(&mut self, path: &Path, depth: usize) -> Result<(), ToolError> {
        if depth > DEEP {
            self.cut = Some("directories are too deep");
            return Ok(());
        }
        let (names, more) = self.desk.tree.names(path, NAMES)?;
        if more {
            self.cut = Some("a directory has too many names");
        }
        for (name, what) in names {
            if self.over() {
                return Ok(());
            }
            let path = path.join(&name);
            if is_sensitive(&path) || !self.may(&path) {
                continue;
            }
            match what {
                What::Folder if name == ".git" => {}
                // A directory that vanished or may not be read hides nothing that could be told.
                What::Folder => drop(self.folder(&path, depth + 1)),
                What::File => self.file(&path),
                What::Link | What::Other => {}
            }
        }
        Ok(())
    }

    fn may(&self, path: &Path) -> bool {
        path.to_str().is_some_and(|path| self.desk.tree.judged(path, Access::Read, &self.desk.grant).is_ok())
    }

    fn file(&mut self, path: &Path) {
        self.files += 1;
        let Ok(text) = self.desk.tree.text(path, FILE) else { return };
        for (number, line) in text.lines().enumerate() {
            if self.over() {
                return;
            }
            let Some(hit) = self.pattern.find(line) else { continue };
            let most = usize::try_from(self.desk.limits.search_chars).unwrap_or(usize::MAX);
            // The hit is shown, and what stands before it as far as there is room.
            let before = line.get(..hit.start()).map_or(0, |lead| lead.chars().count());
            let skipped = before.saturating_sub(most / 4);
            let shown: String = line.chars().skip(skipped).take(most).collect();
            self.hits.push(format!("{}:{}: {shown}", path.display(), number + 1));
        }
    }

    fn over(&mut self) -> bool {
        let reason = if self.hits.len() as u64 >= self.desk.limits.search_hits {
            Some("there may be more hits")
        } else if self.files >= FILES {
            Some("there are too many files")
        } else if Instant::now() > self.until {
            Some("it took too long")
        } else if self.cancel.is_cancelled() {
            Some("it was stopped")
        } else {
            return false;
        };
        self.cut = reason;
        true
    }

    fn told(mut self) -> String {
        if self.hits.is_empty() && self.cut.is_none() {
            return "[no hits]".to_owned();
        }
        if let Some(reason) = self.cut {
            self.hits.push(format!("[not all was searched: {reason}]"));
        }
        self.hits.join("\n")
    }
}
