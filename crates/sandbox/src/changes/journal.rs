//! What an apply is about to do and how far it came, so that a later process can undo it, whole or half done.
//!
//! One folder per apply, `applies/<n>`: `journal` (one JSON document per line), `before/<step>` (what was there),
//! `after/<step>` (what an undo took away), `index` (git's, as it was, if a branch moves). Invariant: every step is on disk before the first one is done, and
//! what is new is named, with its inode, before it takes its place; so what happened can be told from the
//! journal and the files alone. A line that was cut off is as good as not written.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::branch::Moving;
use super::names::text;
use super::tree::Seen;
use crate::repo::follow::Move;

/// Longer than any line, with its path escaped.
const TAIL: u64 = 64 * 1024;

/// One thing to do at one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Step {
    #[serde(with = "text")]
    pub(super) path: PathBuf,
    pub(super) act: Act,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Act {
    /// Something of the layer takes the place, of `old` if something is there.
    Put {
        what: Plain,
        mode: u32,
        old: Option<Seen>,
        /// A former step that puts the same file under another name.
        same_as: Option<usize>,
    },
    /// What is there goes, with all in it.
    Remove { old: Seen },
    /// Other permissions.
    Mode { from: u32, to: u32 },
}

/// What can be put into a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Plain {
    File,
    Link,
    Directory,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The first line: what temporary names begin with.
    Tag(String),
    Step(Step),
    /// A directory whose times will change.
    Folder {
        #[serde(with = "text")]
        path: PathBuf,
        seen: Seen,
    },
    /// A branch that moves after the last step.
    Branch(Move),
    /// Every step is written down.
    Go,
    /// What a step made, before it takes its place.
    Made {
        step: usize,
        seen: Seen,
    },
    /// The branch has moved, and the index lists what has this digest.
    Moved(String),
    Done,
    Undoing,
    Undone,
}

/// How far an apply came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing was done yet.
    Planned,
    /// It was cut off, if nobody holds the lock.
    Going,
    Done,
    /// Its undoing was cut off, if nobody holds the lock.
    Undoing,
    Undone,
}

/// The journal of one apply.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) folder: PathBuf,
    tag: String,
    pub(super) steps: Vec<Step>,
    pub(super) folders: Vec<(PathBuf, Seen)>,
    pub(super) made: HashMap<usize, Seen>,
    pub(super) branch: Option<Move>,
    /// What the index lists since the branch moved.
    pub(super) listed: Option<String>,
    pub(super) progress: Progress,
    file: File,
}

impl Journal {
    /// Writes down what will be done; nothing is done yet.
    pub(super) fn begin(
        run_folder: &Path,
        steps: Vec<Step>,
        folders: Vec<(PathBuf, Seen)>,
        branch: Option<&Moving>,
    ) -> io::Result<Self> {
        let number = numbers(run_folder)?.last().map_or(1, |last| last + 1);
        let folder = run_folder.join("applies").join(number.to_string());
        for name in ["before", "after"] {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.join(name))?;
        }
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let tag = hex::encode(random);
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(folder.join("journal"))?;
        let mut lines = Vec::new();
        let mut add = |line: &Line| -> io::Result<()> {
            serde_json::to_writer(&mut lines, line)?;
            lines.push(b'\n');
            Ok(())
        };
        add(&Line::Tag(tag.clone()))?;
        for step in &steps {
            add(&Line::Step(step.clone()))?;
        }
        for (path, seen) in &folders {
            add(&Line::Folder { path: path.clone(), seen: *seen })?;
        }
        if let Some(moving) = branch {
            moving.host.save_index(&folder.join("index")).map_err(io::Error::other)?;
            add(&Line::Branch(moving.to.clone()))?;
        }
        add(&Line::Go)?;
        let (made, branch) = (HashMap::new(), branch.map(|moving| moving.to.clone()));
        let progress = Progress::Planned;
        let mut journal = Self { folder, tag, steps, folders, made, branch, listed: None, progress, file };
        journal.file.write_all(&lines)?;
        journal.file.sync_data()?;
        journal.progress = Progress::Going;
        Ok(journal)
    }

    fn load(folder: PathBuf) -> io::Result<Self> {
        let path = folder.join("journal");
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other?,
        };
        let file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        let (tag, steps, folders) = (String::new(), Vec::new(), Vec::new());
        let (made, progress) = (HashMap::new(), Progress::Planned);
        let mut journal =
            Self { folder, tag, steps, folders, made, branch: None, listed: None, progress, file };
        for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            // A line that was cut off stands alone, because every writer begins with an end of line.
            match serde_json::from_slice(line) {
                Ok(Line::Tag(tag)) => journal.tag = tag,
                Ok(Line::Step(step)) => journal.steps.push(step),
                Ok(Line::Folder { path, seen }) => journal.folders.push((path, seen)),
                Ok(Line::Branch(to)) => journal.branch = Some(to),
                Ok(Line::Moved(listed)) => journal.listed = Some(listed),
                Ok(Line::Go) => journal.progress = Progress::Going,
                Ok(Line::Made { step, seen }) => drop(journal.made.insert(step, seen)),
                Ok(Line::Done) => journal.progress = Progress::Done,
                Ok(Line::Undoing) => journal.progress = Progress::Undoing,
                Ok(Line::Undone) => journal.progress = Progress::Undone,
                Err(_) => {}
            }
        }
        Ok(journal)
    }

    /// Every apply of a run, the first first.
    pub(super) fn all(run_folder: &Path) -> io::Result<Vec<Self>> {
        let folder = |number: usize| run_folder.join("applies").join(number.to_string());
        numbers(run_folder)?.into_iter().map(|number| Self::load(folder(number))).collect()
    }

    /// What a step calls things in the worktree until they have their place.
    pub(super) fn temporary(&self, step: usize) -> std::ffi::OsString {
        format!(".palisade-{}-{step}", self.tag).into()
    }

    pub(super) fn note_made(&mut self, step: usize, seen: Seen) -> io::Result<()> {
        self.made.insert(step, seen);
        self.write(&Line::Made { step, seen })
    }

    pub(super) fn note_moved(&mut self, listed: String) -> io::Result<()> {
        self.write(&Line::Moved(listed.clone()))?;
        self.listed = Some(listed);
        Ok(())
    }

    /// The index as it was before the branch moved, if there was one.
    pub(super) fn index(&self) -> Option<PathBuf> {
        Some(self.folder.join("index")).filter(|path| path.exists())
    }

    pub(super) fn reached(&mut self, progress: Progress) -> io::Result<()> {
        let line = match progress {
            Progress::Planned | Progress::Going => Line::Go,
            Progress::Done => Line::Done,
            Progress::Undoing => Line::Undoing,
            Progress::Undone => Line::Undone,
        };
        self.write(&line)?;
        self.progress = progress;
        self.file.sync_data()
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        // Begins with an end, in case the last line was cut off.
        let mut bytes = serde_json::to_vec(line)?;
        bytes.insert(0, b'\n');
        bytes.push(b'\n');
        self.file.write_all(&bytes)
    }

    /// Whether it was cut off, if nobody is at work.
    pub(super) fn is_torn(&self) -> bool {
        matches!(self.progress, Progress::Going | Progress::Undoing)
    }
}

/// Whether the last apply of a run, or its undoing, did not come to an end; its last line tells.
pub(super) fn is_torn(run_folder: &Path) -> bool {
    let last = numbers(run_folder).ok().and_then(|numbers| numbers.last().copied());
    let line = last
        .and_then(|last| last_line(&run_folder.join("applies").join(last.to_string()).join("journal")).ok());
    match line.and_then(|line| serde_json::from_slice(&line).ok()) {
        Some(Line::Go | Line::Made { .. } | Line::Moved(_) | Line::Undoing) => true,
        Some(
            Line::Tag(_) | Line::Step(_) | Line::Folder { .. } | Line::Branch(_) | Line::Done | Line::Undone,
        )
        | None => false,
    }
}

/// The last line that is whole.
fn last_line(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(io::SeekFrom::Start(size.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let mut lines = tail.split_inclusive(|byte| *byte == b'\n');
    Ok(lines.rfind(|line| line.ends_with(b"\n") && line.len() > 1).unwrap_or_default().to_vec())
}

fn numbers(run_folder: &Path) -> io::Result<Vec<usize>> {
    let entries = match std::fs::read_dir(run_folder.join("applies")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<usize>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}
