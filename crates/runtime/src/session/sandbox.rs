//! An agent in a sandbox of its own: started by the launcher, heard over pipes, ended for certain.
//!
//! Flow: where, what and with which secrets -> [`Agent`] (a process of `palisade run --overlay`) -> [`Agent::end`] or
//! [`Agent::stop`] -> [`Layer`]: what it changed, to be carried into the worktree or dropped.
//!
//! Invariants: the prompt is in no argument; a secret's value is in no argument and no environment, it is said to the launcher before
//! anything else, and the sandbox has a word for it; nothing of an agent is left when [`Agent::stop`] returns.

mod absence;

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use zeroize::Zeroizing;

use crate::trees::{Launcher, frames};

/// How long the launcher may take beyond the grace until nothing of the agent is there; then it is not waited for.
const LATE: Duration = Duration::from_secs(2);
/// How long the launcher may take with what is left to do when nothing of the agent is there any more.
const PARTING: Duration = Duration::from_secs(10);
/// How long the kernel may take to end what was killed.
const GONE: Duration = Duration::from_secs(30);
/// How long a launcher may tell nothing; at first, while it makes the sandbox, and then.
const CLAIM: Duration = Duration::from_mins(5);
const STALE: Duration = Duration::from_secs(30);
/// How long a change may take to be carried over, and a word to a run.
const CARRYING: Duration = Duration::from_mins(10);
const TELLING: Duration = Duration::from_secs(10);
/// Bytes of what an agent complains of that are kept, the last of them.
const COMPLAINTS: usize = 16 << 10;
/// Bytes of a report.
const REPORT: u64 = 4 << 20;

/// What stays free of a disk whatever an agent writes: one part of so many, and at least so many bytes.
const KEPT_FREE: (u64, u64) = (20, 64 << 20);
/// What a run may add on disk by the profile that it has, and what it may in any case.
const USUAL_DISK: u64 = 20 << 30;
const LEAST_DISK: u64 = 1 << 20;

/// What is to run.
#[derive(Debug)]
pub(super) struct Wanted {
    /// What its report is called.
    pub(super) name: String,
    /// The worktree's tree.
    pub(super) tree: PathBuf,
    /// Where this session's runs keep what they keep, outside the sandbox.
    pub(super) state: PathBuf,
    /// Options of the launcher: rules, limits, variables.
    pub(super) options: Vec<String>,
    /// The program and its arguments.
    pub(super) command: Vec<String>,
    /// Secrets by the names of their variables, in the order in which the options name them.
    pub(super) secrets: Vec<(String, Zeroizing<String>)>,
    /// How long it has to end by itself when it is stopped; then everything of it is killed.
    pub(super) grace: Duration,
}

/// An agent at work.
#[derive(Debug)]
pub(super) struct Agent {
    child: Child,
    report: PathBuf,
    grace: Duration,
    started: Instant,
    /// What its launcher told last of what it spends, when it did, and since when we know that.
    beat: Mutex<Option<(SystemTime, Instant)>>,
    complaints: tokio::task::JoinHandle<Vec<u8>>,
}

/// A pipe beside the report, by which the launcher tells what its network refuses; it goes when nobody reads any more.
#[derive(Debug)]
pub(super) struct Pipe {
    path: PathBuf,
    pub(super) from: pipe::Receiver,
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Pipe {
    /// Made before the launcher is started, which looks for it.
    pub(super) fn of(wanted: &Wanted) -> std::io::Result<Self> {
        let path = wanted.state.join(format!("{}.seen", wanted.name));
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        let from = pipe::OpenOptions::new().open_receiver(&path)?;
        Ok(Self { path, from })
    }
}

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox could not be started: {0}")]
pub(super) struct NoSandbox(String);

/// What a run came to.
#[derive(Debug)]
pub(super) struct Ended {
    /// What the launcher reported.
    pub(super) report: Value,
    /// The last that was complained of.
    pub(super) complaint: String,
    /// Whether nothing of it is left.
    pub(super) is_gone: bool,
}

impl Ended {
    /// The run, once it began.
    pub(super) fn run(&self) -> Option<&str> {
        self.report.get("run").and_then(Value::as_str)
    }

    /// Why what was committed there was not taken over, if it was not.
    pub(super) fn lost_commits(&self) -> Option<&str> {
        self.report.pointer("/commits/refused/why").and_then(Value::as_str)
    }

    /// Whether it left changes, or commits, that can be carried over.
    pub(super) fn left_changes(&self) -> bool {
        self.report.pointer("/layer/kept").is_some_and(|kept| !kept.is_null())
    }
}

impl Agent {
    /// Starts it. What it says on its standard error is told to whoever listens.
    pub(super) async fn start(
        launcher: &Launcher,
        wanted: &Wanted,
        heard: Option<mpsc::Sender<Vec<u8>>>,
    ) -> Result<(Self, ChildStdin, ChildStdout), NoSandbox> {
        let report = wanted.state.join(format!("{}.json", wanted.name));
        let mut command = launcher.for_agent(&wanted.state).map_err(|error| NoSandbox(error.to_string()))?;
        command.arg("run").arg("--overlay").arg("--report").arg(&report);
        command.arg("--parent").arg(std::process::id().to_string());
        command.arg("--grace").arg(wanted.grace.as_secs().to_string());
        command.args(
            room(&wanted.state).into_iter().flat_map(|most| ["--limit".to_owned(), format!("disk={most}")]),
        );
        command.args(&wanted.options).arg("--").args(&wanted.command).current_dir(&wanted.tree);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| NoSandbox(error.to_string()))?;
        let (Some(mut to), Some(from), Some(err)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(NoSandbox("its pipes are not there".into()));
        };
        let complaints = tokio::spawn(last_of(err, heard));
        let lent = frames::say(&mut to, wanted.secrets.iter().map(|(_, value)| value)).await;
        lent.map_err(|error| NoSandbox(format!("what is lent to it was not taken: {error}")))?;
        let (grace, started, beat) = (wanted.grace, Instant::now(), Mutex::default());
        Ok((Self { child, report, grace, started, beat, complaints }, to, from))
    }

    /// The run, as soon as its sandbox stands and is on record.
    pub(super) async fn run(&self) -> Option<String> {
        let report = read_report(&self.report).await;
        report.get("run").and_then(Value::as_str).map(str::to_owned)
    }

    /// What it spent so far, as its launcher tells: milliseconds of the processor, and bytes to and from the network.
    pub(super) async fn spent(&self) -> (i64, i64) {
        let path = self.report.with_extension("spent");
        if let Some(at) = tokio::fs::metadata(&path).await.ok().and_then(|found| found.modified().ok()) {
            let mut beat = self.beat.lock().unwrap_or_else(PoisonError::into_inner);
            if beat.is_none_or(|(known, _)| known != at) {
                *beat = Some((at, Instant::now()));
            }
        }
        let told = tokio::fs::read_to_string(&path).await.unwrap_or_default();
        let mut numbers = told.split_ascii_whitespace().map(|number| number.parse::<i64>().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        (next(), next().saturating_add(next()))
    }

    /// Whether its launcher, which tells something every ten seconds, told nothing for too long.
    pub(super) fn is_stale(&self) -> bool {
        let beat = self.beat.lock().unwrap_or_else(PoisonError::into_inner);
        match *beat {
            Some((_, known)) => known.elapsed() >= STALE,
            None => self.started.elapsed() >= CLAIM,
        }
    }

    /// Waits for it to end by itself, for this long; then it is ended.
    pub(super) async fn end(mut self, patience: Duration) -> Ended {
        match tokio::time::timeout(patience, self.child.wait()).await {
            Ok(_) => self.ended().await,
            Err(_) => self.stop().await,
        }
    }

    /// Waits for its end, however long that takes.
    pub(super) async fn wait(&mut self) -> Option<ExitStatus> {
        self.child.wait().await.ok()
    }

    /// Ends it and everything it started. When this returns nothing of it is left, or that is told.
    pub(super) async fn stop(mut self) -> Ended {
        let launcher = self.child.id();
        let mut inside = launcher.map(absence::first_processes).unwrap_or_default();
        // The launcher tells everything inside to end, waits, and kills what is left.
        if let Some(pid) =
            launcher.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let in_time = tokio::time::timeout(self.grace + LATE, async {
            tokio::select! {
                _ = self.child.wait() => {}
                () = absence::of_all(launcher.unwrap_or_default(), &mut inside) => {}
            }
        });
        if in_time.await.is_err() {
            tracing::warn!("what makes sandboxes did not end one in time, so the daemon does");
            inside.iter().for_each(absence::First::kill);
        }
        if tokio::time::timeout(PARTING, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
        // It is looked at, whoever said that it is so.
        let is_gone = tokio::time::timeout(GONE, absence::of(&inside)).await.is_ok();
        Ended { is_gone, ..self.ended().await }
    }

    async fn ended(self) -> Ended {
        let Self { child, report, complaints, .. } = self;
        drop(child);
        let told = tokio::time::timeout(Duration::from_secs(2), complaints).await;
        let told = told.ok().and_then(Result::ok).unwrap_or_default();
        let told = String::from_utf8_lossy(&told).into_owned();
        let complaint =
            told.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned();
        Ended { report: read_report(&report).await, complaint, is_gone: true }
    }
}

/// How many bytes a run may add on the disk, where that is less than any may: the daemon and everybody else go on when it took all of
/// them.
fn room(state: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(state).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    let stays = (bytes(disk.f_blocks) / KEPT_FREE.0).max(KEPT_FREE.1);
    let most = bytes(disk.f_bavail).saturating_sub(stays).max(LEAST_DISK);
    (most < USUAL_DISK).then_some(most)
}

/// What became of a layer.
#[derive(Debug)]
pub(super) enum Layer {
    /// It is in the worktree now.
    Carried(Carried),
    /// It is not, and why; it is kept.
    Kept(String),
}

/// What of a layer is in the worktree.
#[derive(Debug)]
pub(super) struct Carried {
    /// How many paths.
    pub(super) count: usize,
    /// Why its branch is not where it was taken, if it is not.
    pub(super) stays: Option<String>,
    /// What was left out, each path with the reason.
    pub(super) left: Value,
    /// Whether there is something that can be taken back.
    pub(super) counts: bool,
}

/// Carries what a run changed into the worktree.
pub(super) async fn carry(launcher: &Launcher, wanted: &Wanted, run: &str) -> Layer {
    match told(launcher, wanted, &["--json", "apply", run], CARRYING).await {
        Ok(result) => {
            let became = result.pointer("/branch/became").and_then(Value::as_str);
            let stays = (became == Some("stays")).then(|| {
                result.pointer("/branch/why").and_then(Value::as_str).unwrap_or_default().to_owned()
            });
            let count = result.get("applied").and_then(Value::as_array).map_or(0, Vec::len);
            let moved = matches!(became, Some("moved" | "joined"));
            let left = result.get("left").cloned().unwrap_or_default();
            Layer::Carried(Carried { count, stays, left, counts: count > 0 || moved })
        }
        Err(why) => Layer::Kept(why),
    }
}

/// Takes what a run changed out of the worktree again, or carries it back; how many paths that were.
pub(super) async fn undo(
    launcher: &Launcher,
    state: &Path,
    tree: &Path,
    run: &str,
    again: bool,
) -> Result<usize, String> {
    let words: &[&str] = if again { &["--json", "apply", run] } else { &["--json", "apply", "--undo", run] };
    let result = told_in(launcher, state, tree, words, CARRYING).await?;
    let counted = ["applied", "undone", "restored"].into_iter().find_map(|name| result.get(name)?.as_array());
    Ok(counted.map_or(0, Vec::len))
}

/// Has the launcher do something to a run: `stop`, `freeze`, `thaw`.
pub(super) async fn tell(launcher: &Launcher, wanted: &Wanted, verb: &str, run: &str) -> Result<(), String> {
    told(launcher, wanted, &["--json", verb, run], TELLING).await.map(drop)
}

async fn told(
    launcher: &Launcher,
    wanted: &Wanted,
    words: &[&str],
    patience: Duration,
) -> Result<Value, String> {
    told_in(launcher, &wanted.state, &wanted.tree, words, patience).await
}

async fn told_in(
    launcher: &Launcher,
    state: &Path,
    tree: &Path,
    words: &[&str],
    patience: Duration,
) -> Result<Value, String> {
    let mut command: Command = launcher.command(state).map_err(|error| error.to_string())?;
    command.args(words).current_dir(tree).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(patience, command.output()).await;
    let output = output.map_err(|_| "it took too long".to_owned())?.map_err(|error| error.to_string())?;
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match (output.status.success(), told.get("result")) {
        (true, Some(result)) => Ok(result.clone()),
        _ => {
            let why = told.pointer("/error/message").and_then(Value::as_str).map(str::to_owned);
            Err(why.unwrap_or_else(|| String::from_utf8_lossy(&output.stderr).trim().to_owned()))
        }
    }
}

/// Has agents commit in the name of whoever asked: by the settings that the launcher reads, and by variables for those who read no settings
/// of git, or get no variables. Options of the launcher.
pub(super) async fn commits_as(state: &Path, name: &str, address: &str) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("who commits could not be written down: {error}");
    let folder = state.join("config/git");
    tokio::fs::create_dir_all(&folder).await.map_err(failed)?;
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let text = format!("[user]\n\tname = {}\n\temail = {}\n", quoted(name), quoted(address));
    tokio::fs::write(folder.join("config"), text).await.map_err(failed)?;
    let mut options = Vec::new();
    for role in ["AUTHOR", "COMMITTER"] {
        options.extend(["--env".to_owned(), format!("GIT_{role}_NAME={name}")]);
        options.extend(["--env".to_owned(), format!("GIT_{role}_EMAIL={address}")]);
    }
    Ok(options)
}

async fn read_report(path: &Path) -> Value {
    let Ok(file) = tokio::fs::File::open(path).await else { return Value::Null };
    let mut text = Vec::new();
    let _ = file.take(REPORT).read_to_end(&mut text).await;
    serde_json::from_slice(&text).unwrap_or_default()
}

/// The last bytes of what is complained of; the rest is told to whoever listens, or dropped, so that nobody waits for us.
async fn last_of(mut from: ChildStderr, heard: Option<mpsc::Sender<Vec<u8>>>) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut piece = [0; 4_096];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let said = piece.get(..count).unwrap_or_default();
        if let Some(heard) = &heard {
            // Whoever listened may have gone.
            let _ = heard.send(said.to_vec()).await;
        }
        kept.extend(said);
        let over = kept.len().saturating_sub(COMPLAINTS);
        kept.drain(..over);
    }
    kept
}
