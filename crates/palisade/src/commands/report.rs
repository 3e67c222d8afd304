//! The file in which a program that started a run finds what becomes of it (`run --report`).
//!
//! Beside it lies what the run spends while it is at work ([`super::spent`]).
//!
//! Flow: nothing -> `running`, as soon as the receipt is on record -> `ended` with what `--json` prints, or `failed`. Invariants: a
//! document is there whole or not at all, for its user alone, and no link is followed at the end of the path; what a run may write
//! holds no report. A launcher that was killed leaves `running` there; whether it lives is told by its process.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use files::{FileError, Root};
use sandbox::profile::Profile;
use sandbox::{Caller, RunId};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output;

/// What the documents look like.
const VERSION: u32 = 1;

/// Where it is told what becomes of a run.
pub(super) struct Report {
    path: PathBuf,
    folder: Root,
    name: OsString,
    /// Which run it is about, once that began.
    run: OnceCell<String>,
}

impl Report {
    /// At this path; what a former run left there is removed.
    pub(super) fn at(path: &Path) -> Result<Self, Failure> {
        let name =
            path.file_name().ok_or_else(|| Failure::Sandbox("--report: expected a file".into(), 125))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().map_err(Failure::file(folder))?;
        let report = Self {
            path: folder.join(name),
            folder: Root::open(&folder).map_err(Failure::file(&folder))?,
            name: name.to_owned(),
            run: OnceCell::new(),
        };
        match report.folder.remove(Path::new(&report.name)) {
            Ok(()) | Err(FileError::Missing) => Ok(report),
            Err(error) => Err(Failure::file(&report.path)(error.into())),
        }
    }

    /// Whoever reads it relies on it, so the command must not reach it.
    pub(super) fn is_apart(&self, profile: &Profile, caller: &Caller) -> Result<(), Failure> {
        let given =
            profile.write.iter().map(|entry| &entry.path).chain([&caller.worktree, &caller.private_home]);
        let within = given.into_iter().find(|given| self.path.starts_with(given));
        within.map_or(Ok(()), |given| {
            let why = format!("--report: the command may write `{}`; name a file elsewhere", given.display());
            Err(Failure::Sandbox(why, 125))
        })
    }

    /// The command is about to start; the number of its entry on the ledger, and its receipt.
    pub(super) fn running(&self, run: &RunId, entry: u64, receipt: &Path) -> Result<(), Failure> {
        let _ = self.run.set(run.to_string());
        self.write(&json!({
            "version": VERSION, "state": "running", "run": run.as_str(), "pid": std::process::id(),
            "receipt": { "entry": entry, "file": receipt.display().to_string() },
        }))
    }

    /// Where it is told what the run spends while it is at work: beside it.
    pub(super) fn beside(&self) -> PathBuf {
        self.path.with_extension("spent")
    }

    /// Where whoever reads it may have made a pipe, to be told of the network while the run is at work ([`super::network`]).
    pub(super) fn pipe(&self) -> PathBuf {
        self.path.with_extension("seen")
    }

    /// Everything of it is gone, and this came of it.
    pub(super) fn ended(&self, mut told: Value) -> Result<(), Failure> {
        if let Some(fields) = told.as_object_mut() {
            fields.insert("version".into(), VERSION.into());
            fields.insert("state".into(), "ended".into());
        }
        self.write(&told)
    }

    /// It did not start, or its end is not known. Who reads nothing of it here finds it on standard error.
    pub(super) fn failed(&self, failure: &Failure) {
        let error = json!({ "code": failure.code(), "message": failure.to_string() });
        let exit = failure.exit_of_run();
        let run = self.run.get();
        let _ = self.write(&json!({
            "version": VERSION, "state": "failed", "run": run, "exit": exit, "error": error,
        }));
    }

    fn write(&self, document: &Value) -> Result<(), Failure> {
        let written = self.folder.write(Path::new(&self.name), &output::document(document));
        written.map_err(|error| Failure::file(&self.path)(error.into()))
    }
}
