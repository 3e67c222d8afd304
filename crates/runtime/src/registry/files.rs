//! The files of a capability: which paths may be, and what they are.
//!
//! Invariant: a path that was let in names one file beneath the directory it is laid out in, on every machine, whatever
//! else is laid out there.

use std::collections::BTreeMap;

use model::ContentHash;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::closed::Faults;

/// What all files of a capability may have together.
pub(super) const MOST_BYTES: usize = 50 * 1_024 * 1_024;
/// Files of a capability, bytes of a path, and how deep it may be.
pub(super) const MOST_FILES: usize = 4_096;
const MOST_PATH: usize = 1_024;
const MOST_PARTS: usize = 32;

/// A file to register.
#[derive(Clone)]
pub struct NewFile {
    /// Where it is laid out, beneath a directory.
    pub path: String,
    /// Whether it can be run.
    pub executable: bool,
    /// Its content.
    pub content: Vec<u8>,
}

impl std::fmt::Debug for NewFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NewFile({}, {} bytes)", self.path, self.content.len())
    }
}

/// Why a path does not do; none if it does.
#[must_use]
pub fn path_fault(path: &str) -> Option<&'static str> {
    if path.is_empty() || path.len() > MOST_PATH {
        return Some("a path has 1 to 1024 bytes");
    }
    if path.contains('\0') || path.chars().any(char::is_control) {
        return Some("a path has no NUL and no control characters");
    }
    if path.starts_with('/') || path.contains('\\') {
        return Some("a path begins beneath the directory and is parted by `/`");
    }
    let parts: Vec<&str> = path.split('/').collect();
    if parts.iter().any(|part| part.is_empty() || *part == "." || *part == "..") {
        return Some("a path has no empty part, no `.` and no `..`");
    }
    if parts.len() > MOST_PARTS || parts.iter().any(|part| part.len() > 255) {
        return Some("a path has at most 32 parts of at most 255 bytes");
    }
    None
}

/// How a path is told: one with odd characters is not repeated.
pub(super) fn told(path: &str) -> String {
    let short: String = path.chars().filter(|one| !one.is_control()).take(120).collect();
    format!("files/{short}")
}

/// Looks at paths and sizes, before anything is kept: each path once, and none that is a file here and a directory there.
pub(super) fn judge<'p>(paths: impl Iterator<Item = (&'p str, usize)>, faults: &mut Faults) {
    let (mut count, mut bytes) = (0_usize, 0_usize);
    let mut seen = BTreeMap::new();
    for (path, size) in paths {
        count += 1;
        bytes = bytes.saturating_add(size);
        if let Some(why) = path_fault(path) {
            faults.add(told(path), why);
        } else if seen.insert(path, ()).is_some() {
            faults.add(told(path), "the same path stands there twice");
        }
    }
    let above = |path: &str| {
        let mut ends = path.match_indices('/').map(|(at, _)| at);
        ends.find_map(|at| path.get(..at).filter(|folder| seen.contains_key(folder)).map(str::to_owned))
    };
    for path in seen.keys() {
        if let Some(folder) = above(path) {
            faults.add(told(path), format!("`{}` is a file, so nothing can be beneath it", told(&folder)));
        }
    }
    if count > MOST_FILES {
        faults.add("files", format!("there are {count}; at most {MOST_FILES} are taken"));
    }
    if bytes > MOST_BYTES {
        faults.add("files", format!("they have {bytes} bytes; at most {MOST_BYTES} are taken"));
    }
}

/// The hash of a file's content.
pub(super) fn content_hash(content: &[u8]) -> ContentHash {
    let mut digest = Sha256::new();
    digest.update(b"palisade/file/v1\0");
    digest.update(content);
    ContentHash::new(digest.finalize().into())
}

/// The files as their capability's document names them.
pub(super) fn manifest(files: &[(NewFile, ContentHash)]) -> Value {
    let mut all = Map::new();
    for (file, hash) in files {
        let mut about = json!({ "hash": hash.to_string(), "bytes": file.content.len() });
        if file.executable
            && let Some(about) = about.as_object_mut()
        {
            about.insert("executable".into(), true.into());
        }
        all.insert(file.path.clone(), about);
    }
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reg_01_paths_stay_beneath_and_each_stands_once() {
        for bad in [
            "",
            "/etc/passwd",
            "..",
            "a/../b",
            "../a",
            "a/..",
            "./a",
            "a//b",
            "a/",
            "a\0b",
            "a\nb",
            "a\\b",
            "\u{7f}",
        ] {
            assert!(path_fault(bad).is_some(), "{bad:?}");
        }
        let (long, deep) = ("a".repeat(1_025), "a/".repeat(32) + "b");
        assert!(path_fault(&long).is_some() && path_fault(&deep).is_some());
        for good in ["a", "a/b.txt", "..a", "a..", ".hidden", "ä/ö"] {
            assert!(path_fault(good).is_none(), "{good}");
        }
        let faults_of = |paths: &[(&str, usize)]| {
            let mut faults = Faults::default();
            judge(paths.iter().copied(), &mut faults);
            faults.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(faults_of(&[("a", 1), ("b/c", MOST_BYTES - 1)]).is_empty());
        assert_eq!(faults_of(&[("a", 1), ("b/c", MOST_BYTES)]).len(), 1, "one byte more");
        assert!(faults_of(&[("a", 1), ("a", 1)])[0].contains("twice"));
        assert!(
            faults_of(&[("a-b", 1), ("a", 1), ("a/b/c", 1)])[0].contains("is a file"),
            "a file against a directory"
        );
        let many: Vec<String> = (0..=MOST_FILES).map(|n| n.to_string()).collect();
        let many: Vec<_> = many.iter().map(|path| (path.as_str(), 0)).collect();
        assert_eq!(faults_of(&many).len(), 1);
    }
}
