//! Runs git on the host, on a repository that no agent can write.
//!
//! Invariants: the program is the system's; the environment is empty but for what is here; no hook, no monitor and no
//! configuration outside the repository takes part; it stands where only root writes; time and memory are bounded;
//! root becomes the owner of the repository first. Never run on a directory that a sandbox had, or its layer.

mod joining;
mod repository;
mod stores;

pub use joining::{Bundle, Joined, Merged};
pub use repository::{Branch, Commit, Cut, Repository, RepositoryError, is_branch};
pub use stores::Stores;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::process::{PidfdFlags, Resource, Rlimit, Signal};

/// Where the system keeps it, outside and inside; in the order of most people's PATH, because an older git does not
/// read every repository that a newer one made.
const PROGRAMS: [&str; 3] = ["/usr/local/bin/git", "/usr/bin/git", "/bin/git"];

/// How long one call may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// How long one that only shows something may take.
const READING: Duration = Duration::from_secs(30);
/// How often is looked at how much one says.
const LOOK: Duration = Duration::from_millis(200);
/// How much memory one process of it may have.
const MOST_MEMORY: u64 = 4 << 30;
/// The most that it may say.
const MOST_TOLD: u64 = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// What holds for every call.
const SETTINGS: [&str; 6] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "safe.directory=*",
    "core.bigFileThreshold=64m",
];

/// Why git did not do it.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It could not be started.
    #[error("git could not be started: {0}")]
    Start(#[from] io::Error),
    /// It took too long.
    #[error("git took too long and was ended")]
    TooLong,
    /// It said more than is read, so what it said is not known.
    #[error("git said more than {} MiB", MOST_TOLD >> 20)]
    TooMuch,
}

/// The system's git, for one repository.
#[derive(Clone, Debug)]
pub struct Git {
    program: &'static str,
    owner: Option<(u32, u32)>,
    index: Option<PathBuf>,
    /// Where new objects go, and where others are found.
    objects: Option<(PathBuf, OsString)>,
}

/// What git said.
#[derive(Debug)]
pub struct Said {
    /// Whether it did what it was asked.
    pub ok: bool,
    /// What it wrote.
    pub out: Vec<u8>,
    /// The last line of what it complained of, as it can be shown.
    pub err: String,
}

/// Where the system's git is.
pub fn program() -> Option<&'static str> {
    let is_roots = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|found| found.uid() == 0 && found.mode() & 0o002 == 0)
    };
    let is_safe = |path: &&str| {
        let path = Path::new(path);
        path.is_file() && is_roots(path) && path.parent().is_some_and(is_roots)
    };
    PROGRAMS.into_iter().find(is_safe)
}

impl Git {
    /// The system's git, as the owner of this repository.
    pub fn find(repository: &Path) -> Option<Self> {
        let found = std::fs::metadata(repository).ok()?;
        let is_another = rustix::process::geteuid().is_root() && found.uid() != 0;
        let owner = is_another.then(|| (found.uid(), found.gid()));
        Some(Self { program: program()?, owner, index: None, objects: None })
    }

    /// The same with a place of its own for objects that are new; what is in these others is read, and nothing else.
    #[must_use]
    pub fn apart(&self, objects: &Path, others: &[PathBuf]) -> Self {
        let others: Vec<OsString> = others.iter().map(|other| in_list(other)).collect();
        let objects = Some((objects.to_owned(), others.join(OsStr::new(":"))));
        Self { objects, ..self.clone() }
    }

    /// The same with an index of its own, which it can write.
    #[must_use]
    pub fn with_index(self, index: &Path) -> Self {
        Self { index: Some(index.to_owned()), ..self }
    }

    /// Git with these settings and arguments, and an environment of its own.
    fn command(&self, settings: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.env_clear().envs([
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/nonexistent"),
            ("LC_ALL", "C"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_AUTHOR_NAME", "palisade"),
            ("GIT_AUTHOR_EMAIL", "palisade@localhost"),
            ("GIT_COMMITTER_NAME", "palisade"),
            ("GIT_COMMITTER_EMAIL", "palisade@localhost"),
        ]);
        command.envs(self.index.iter().map(|index| ("GIT_INDEX_FILE", index)));
        if let Some((objects, others)) = &self.objects {
            command.env("GIT_OBJECT_DIRECTORY", objects).env("GIT_ALTERNATE_OBJECT_DIRECTORIES", others);
        }
        for setting in SETTINGS.iter().chain(settings) {
            command.args(["-c", setting]);
        }
        // In a group of its own, so that those whom it starts end with it.
        command.args(arguments).current_dir("/").stdin(Stdio::null()).process_group(0);
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    /// Runs it for what it writes, up to `most` bytes, and says whether there was more.
    pub fn read(&self, arguments: &[&str], most: usize) -> Result<(Said, bool), GitError> {
        let err = memory()?;
        let mut command = self.command(&[], arguments);
        command.stdout(Stdio::piped()).stderr(err.try_clone()?);
        let mut child = started(&mut command)?;
        let mut out = Vec::new();
        let read = match child.stdout.take() {
            Some(from) => read_up_to(from, &mut out, most, Instant::now() + READING),
            None => Ok(Came::All),
        };
        // Nobody reads on: it ends, or is ended.
        if !matches!(read, Ok(Came::All)) {
            end(&mut child);
        }
        let ok = child.wait()?.success();
        match read? {
            Came::Late => Err(GitError::TooLong),
            Came::More => Ok((Said { ok: true, out, err: String::new() }, true)),
            Came::All => Ok((Said { ok, out, err: told(err)? }, false)),
        }
    }

    /// Runs it with this input, and gives on what it writes, piece by piece, until somebody has enough of it. Whether it wrote
    /// everything and was content.
    pub fn pass(
        &self,
        arguments: &[&str],
        asked: &[u8],
        mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<bool, GitError> {
        let mut command = self.command(&[], arguments);
        command.stdin(input(asked)?).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = started(&mut command)?;
        let came = match child.stdout.take() {
            Some(from) => each(from, &mut take, Instant::now() + PATIENCE),
            None => Ok(Came::All),
        };
        if !matches!(came, Ok(Came::All)) {
            end(&mut child);
        }
        let ok = child.wait()?.success();
        match came? {
            Came::Late => Err(GitError::TooLong),
            Came::More => Ok(false),
            Came::All => Ok(ok),
        }
    }

    /// Runs it with these settings and arguments. What it says is all there, or an error.
    pub fn run(&self, settings: &[&str], arguments: &[&str], input: Stdio) -> Result<Said, GitError> {
        let (mut out, err) = (memory()?, memory()?);
        let mut command = self.command(settings, arguments);
        command.stdin(input).stdout(out.try_clone()?).stderr(err.try_clone()?);
        let mut child = started(&mut command)?;
        let is_too_much = || Ok::<_, io::Error>(size(&out)? > MOST_TOLD || size(&err)? > MOST_TOLD);
        if let Err(why) = ends_in_bounds(&child, is_too_much) {
            end(&mut child);
            child.wait()?;
            return Err(why);
        }
        let ok = child.wait()?.success();
        let mut said = Said { ok, out: Vec::new(), err: String::new() };
        if is_too_much()? {
            return Err(GitError::TooMuch);
        }
        out.rewind()?;
        out.read_to_end(&mut said.out)?;
        said.err = told(err)?;
        Ok(said)
    }

    /// Asks a question about a git directory; none if git has no answer.
    pub fn line(&self, directory: &Path, arguments: &[&str]) -> Result<Option<String>, GitError> {
        let directory = in_directory(directory);
        let mut all: Vec<&str> = directory.iter().map(String::as_str).collect();
        all.extend(arguments);
        let said = self.run(&[], &all, Stdio::null())?;
        Ok(said.ok.then(|| String::from_utf8_lossy(&said.out).trim_end().to_owned()))
    }
}

/// Says which repository, and that there is no worktree to look at, whatever its configuration says.
pub fn in_directory(directory: &Path) -> [String; 2] {
    [format!("--git-dir={}", directory.display()), "--work-tree=/".to_owned()]
}

/// A path as git reads it in a list of them, whatever it is called.
fn in_list(path: &Path) -> OsString {
    let mut quoted = b"\"".to_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    OsString::from_vec(quoted)
}

/// These bytes, for a program to read.
fn input(bytes: &[u8]) -> io::Result<Stdio> {
    let mut file = memory()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

fn memory() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("git", MemfdFlags::CLOEXEC)?.into())
}

/// How reading ended.
enum Came {
    All,
    More,
    Late,
}

/// Reads until it is over, too much, or too late.
fn read_up_to(
    from: impl Read + std::os::fd::AsFd,
    out: &mut Vec<u8>,
    most: usize,
    until: Instant,
) -> io::Result<Came> {
    let mut take = |piece: &[u8]| {
        let room = most.saturating_sub(out.len());
        out.extend(piece.iter().take(room));
        if piece.len() > room { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    each(from, &mut take, until)
}

/// Gives on what comes until it is over, enough, or too late.
fn each(
    mut from: impl Read + std::os::fd::AsFd,
    take: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
    until: Instant,
) -> io::Result<Came> {
    let mut piece = vec![0; 64 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Came::Late);
        }
        match poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&time(left))) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let count = from.read(&mut piece)?;
        if count == 0 {
            return Ok(Came::All);
        }
        if take(piece.get(..count).unwrap_or_default()).is_break() {
            return Ok(Came::More);
        }
    }
}

/// Ends it and those whom it started.
fn end(child: &mut Child) {
    if let Ok(pid) = pid_of(child) {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
    let _ = child.kill();
}

fn told(mut err: File) -> io::Result<String> {
    let mut told = Vec::new();
    err.rewind()?;
    err.take(1 << 16).read_to_end(&mut told)?;
    Ok(shown(&told))
}

fn time(left: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    }
}

/// Starts it with little memory: limits are inherited, and a lowered one can be raised again. One at a time, so that what is
/// put back is what was there; it cannot be set on the child, which may be somebody else's by then.
fn started(command: &mut Command) -> io::Result<Child> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = rustix::process::getrlimit(Resource::Data);
    let least = before.current.map_or(MOST_MEMORY, |now| now.min(MOST_MEMORY));
    let lowered = Rlimit { current: Some(least), maximum: before.maximum };
    rustix::process::setrlimit(Resource::Data, lowered)?;
    let child = command.spawn();
    rustix::process::setrlimit(Resource::Data, before)?;
    child
}

fn pid_of(child: &Child) -> io::Result<rustix::process::Pid> {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    pid.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}

fn size(file: &File) -> io::Result<u64> {
    file.metadata().map(|found| found.len())
}

/// Waits for its end; an error if it takes too long or says too much, which is looked at now and then.
fn ends_in_bounds(child: &Child, is_too_much: impl Fn() -> io::Result<bool>) -> Result<(), GitError> {
    let until = Instant::now() + PATIENCE;
    let ends = rustix::process::pidfd_open(pid_of(child)?, PidfdFlags::empty()).map_err(io::Error::from)?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(GitError::TooLong);
        }
        match poll(&mut [PollFd::new(&ends, PollFlags::IN)], Some(&time(left.min(LOOK)))) {
            Ok(0) if is_too_much()? => return Err(GitError::TooMuch),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
}

/// The last line that says something, as it can be shown.
pub fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    line.chars().take(200).map(|c| if c.is_control() { '·' } else { c }).collect()
}
