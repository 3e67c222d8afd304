//! Whether layers are read, applied and taken back as they should, with the journal cut at every moment.
//!
//! The upper directories here are written by hand, as overlayfs writes them and as a hostile hand would;
//! `tests/run_overlay` does the same with the real kernel.

mod cut;
mod reading;
mod swap;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use super::*;
use crate::RunId;
use crate::profile::controls;

/// A worktree and the folder of a run.
struct Scene {
    _place: tempfile::TempDir,
    _state: tempfile::TempDir,
    worktree: PathBuf,
    state: PathBuf,
    run: RunId,
}

impl Scene {
    fn new(lower: impl Fn(&Path)) -> Self {
        Self::with_state_in(&std::env::temp_dir(), lower)
    }

    /// The state on another file system, if that is one.
    fn with_state_in(state: &Path, lower: impl Fn(&Path)) -> Self {
        let (place, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in(state).unwrap());
        let worktree = place.path().canonicalize().unwrap().join("w");
        std::fs::create_dir(&worktree).unwrap();
        lower(&worktree);
        // What is newer than the run would be a conflict.
        std::thread::sleep(std::time::Duration::from_millis(12));
        let run = RunId::new().unwrap();
        let record = Record::begin(run.as_str(), &worktree, vec!["x".into()], "dev", Vec::new()).unwrap();
        let state_path = state.path().canonicalize().unwrap();
        let mut kept = Kept::create(&folder(&state_path, &run), record).unwrap();
        kept.ended().unwrap();
        Self { _place: place, _state: state, worktree, state: state_path, run }
    }

    fn upper(&self) -> PathBuf {
        folder(&self.state, &self.run).join("worktree/changes")
    }

    fn take(&self) -> Kept {
        // Other tests of this process fork, and what they fork has the lock for a moment too.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            match Kept::take(&self.state, &self.run) {
                Err(RunError::Busy(_)) if std::time::Instant::now() < deadline => std::thread::yield_now(),
                other => return other.unwrap(),
            }
        }
    }

    fn apply(&self) -> Result<Applied, ApplyError> {
        self.take().apply(&everything())
    }

    fn undo(&self) -> Result<Undone, UndoError> {
        self.take().undo(Undo::default())
    }

    /// One line per change.
    fn told(&self) -> Vec<String> {
        let changes = self.take().changes().unwrap();
        changes.iter().map(|change| format!("{} {}", change.kind.word(), escaped(&change.path))).collect()
    }
}

fn everything<'a>() -> Apply<'a> {
    let hard = |path: &Path| {
        let named = path.components().any(|part| part.as_os_str() == ".claude");
        named.then(|| controls().iter().find(|control| control.path == ".claude")).flatten()
    };
    Apply { paths: Vec::new(), force: false, with_control: false, control: Box::leak(Box::new(hard)) }
}

fn file(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn whiteout(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
}

fn attribute(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn opaque(path: &Path) {
    std::fs::create_dir_all(path).unwrap();
    attribute(path, "user.overlay.opaque", b"y");
}

/// Everything below a directory: kind, permissions, content, time.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    let (mut found, mut open) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let data = std::fs::symlink_metadata(&path).unwrap();
            let content = if data.is_symlink() {
                std::fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
            } else if data.is_file() {
                std::fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            if data.is_dir() {
                open.push(path.clone());
            }
            let line =
                format!("{:o} {} {:?}", data.mode(), data.mtime_nsec(), String::from_utf8_lossy(&content));
            found.insert(path.strip_prefix(root).unwrap().to_owned(), line);
        }
    }
    found
}

/// The same without times, which new files do not share.
fn shape(root: &Path) -> BTreeMap<PathBuf, String> {
    let without_time = |line: String| {
        let mut words = line.splitn(3, ' ');
        format!("{} {}", words.next().unwrap(), words.nth(1).unwrap())
    };
    snapshot(root).into_iter().map(|(path, line)| (path, without_time(line))).collect()
}
