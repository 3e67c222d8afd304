//! Brings what was merged in the daemon into a directory of the person's own: a bundle -> a branch of their repository.
//!
//! Invariants: git runs as the person, without a hook or a monitor; objects are checked as they come in; a branch only goes
//! forwards, and one that is checked out only where nothing of the person's lies that is not committed. What is not done
//! leaves the commits under a reference that is told.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use serde::Serialize;

use crate::failure::Failure;

/// Where commits lie that no branch has yet.
const TAKEN: &str = "refs/palisade/taken/";

/// What became of the directory.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Brought {
    pub(super) directory: PathBuf,
    /// there (it had everything), moved, checked-out (moved, and its files with it) or left.
    pub(super) state: &'static str,
    /// Where the commits lie, and why the branch stays, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) left: Option<(String, String)>,
}

/// Takes a branch of this directory's repository to what was merged.
pub(super) fn bring(directory: &Path, merged: &api::WorktreeMerge) -> Result<Brought, Failure> {
    let brought = |state, left| Ok(Brought { directory: directory.to_owned(), state, left });
    let Some(bundle) = &merged.bundle else { return brought("there", None) };
    let bytes = base64::engine::general_purpose::STANDARD.decode(bundle);
    let bytes = bytes.map_err(|_| Failure::Program("the daemon's bundle is no base 64".into()))?;
    let file = Passing::write(&bytes)?;
    let (branch, taken) = (format!("refs/heads/{}", merged.into), format!("{TAKEN}{}", merged.into));
    let path = file.0.display().to_string();
    let from = format!("+{branch}:{taken}");
    git(
        directory,
        &["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", &path, &from],
    )?;
    let new = git(directory, &["rev-parse", "--verify", &taken])?;
    if new != merged.commit {
        return Err(Failure::Program(format!("the daemon's bundle has {new}, not {}", merged.commit)));
    }
    let left = |why: String| brought("left", Some((taken.clone(), why)));
    let old = git(directory, &["rev-parse", "--quiet", "--verify", &branch]).ok();
    let Some(old) = old else {
        git(directory, &["update-ref", &branch, &new, &"0".repeat(new.len())])?;
        return forgotten(directory, &taken, &new).and_then(|()| brought("moved", None));
    };
    if git(directory, &["merge-base", "--is-ancestor", &old, &new]).is_err() {
        return left(format!("`{}` there has commits that the daemon does not have", merged.into));
    }
    let checked_out = git(directory, &["for-each-ref", "--format=%(worktreepath)", &branch])?;
    let state = if checked_out.is_empty() {
        git(directory, &["update-ref", &branch, &new, &old])?;
        "moved"
    } else {
        let tree = Path::new(&checked_out);
        if !git(tree, &["status", "--porcelain", "--untracked-files=no"])?.is_empty() {
            return left(format!(
                "`{}` is checked out there, with changes that are not committed",
                merged.into
            ));
        }
        if let Err(why) =
            git(tree, &["merge", "--quiet", "--ff-only", "--no-stat", "--no-overwrite-ignore", &new])
        {
            return left(why.to_string());
        }
        "checked-out"
    };
    forgotten(directory, &taken, &new)?;
    brought(state, None)
}

fn forgotten(directory: &Path, taken: &str, at: &str) -> Result<(), Failure> {
    git(directory, &["update-ref", "-d", taken, at]).map(drop)
}

/// Runs git as the person would, but for hooks and monitors; what it says.
fn git(folder: &Path, words: &[&str]) -> Result<String, Failure> {
    let mut command = Command::new("git");
    // What steers git stays out; what finds the person's own settings and filters does not.
    command.env_clear();
    for name in ["PATH", "HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "TMPDIR"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    for setting in [
        "core.hooksPath=/dev/null",
        "core.fsmonitor=false",
        "fetch.fsckObjects=true",
        "protocol.allow=never",
        "protocol.file.allow=always",
    ] {
        command.args(["-c", setting]);
    }
    command
        .arg("-C")
        .arg(folder)
        .args(words)
        .env("LC_ALL", "C")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null());
    let out =
        command.output().map_err(|error| Failure::Program(format!("git could not be started: {error}")))?;
    match out.status.success() {
        true => Ok(String::from_utf8_lossy(&out.stdout).trim_end().to_owned()),
        false => {
            let said = String::from_utf8_lossy(&out.stderr);
            let line =
                said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
            Err(Failure::Program(format!("git refused in `{}`: {line}", folder.display())))
        }
    }
}

/// A file that is there while it is needed.
struct Passing(PathBuf);

impl Passing {
    fn write(bytes: &[u8]) -> Result<Self, Failure> {
        let mut name = [0; 16];
        getrandom::fill(&mut name).map_err(|error| Failure::Program(error.to_string()))?;
        let path = std::env::temp_dir().join(format!("palisade-{}.bundle", hex::encode(name)));
        let failed = |source| Failure::File { path: path.display().to_string(), source };
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        let passing = Self(path.clone());
        file.write_all(bytes).map_err(failed)?;
        Ok(passing)
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
