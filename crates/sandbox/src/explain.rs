//! Says what refused something inside, which rule it was, and what would allow it: `palisade run --explain`.
//!
//! Flow: [`Held`] -> [`Observer`] (a process of its own that traces the sandbox from before its command begins) ->
//! the run, as always -> [`Explained`]. The same words serve people and agents.
//!
//! Invariants: without an observer nothing is run that was to be explained; with one, the walls are the same (the
//! observer changes nothing inside, and ends with the sandbox). What is told is as much as the kernel shows: calls
//! and their errors; the rule is found by [`judge`]. A traced command cannot trace: debuggers do not work in it.
//! Not here: printing (`palisade`), the receipt, which is that of any run.

mod calls;
mod judge;
mod observe;
mod rules;
mod seen;
mod verdict;
mod words;

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::given::Caller;
use crate::launch::{Held, Tree};
use crate::profile::Profile;
use crate::sys::process::{Side, fork, leave};
use rules::Rules;

/// How long the observer may take to attach, and to tell when everyone is gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most that an observer tells.
const MOST_BYTES: usize = 16 << 20;

/// What refused something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// It is mounted read-only, or not at all.
    Mount,
    /// The second wall over files.
    Landlock,
    /// The filter of system calls.
    Seccomp,
    /// A limit.
    Limit,
    /// There is no way there.
    Network,
    /// The profile hides it.
    Hidden,
    /// Programs of the host act on it.
    Protected,
    /// Nobody inside has the privilege.
    Privilege,
    /// The file's own permissions: no wall of the sandbox.
    Permission,
}

/// How much a denial matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Something was asked for and refused.
    Refused,
    /// Something was looked for that only the host has: programs look for much that they can do without.
    Absent,
    /// Programs are used to this answer and take another way.
    Harmless,
}

/// Something that was refused, and how to allow it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The system call.
    pub call: String,
    /// What was wanted, as a verb.
    pub action: String,
    /// Of what: a path inside, an address, or the call itself.
    pub target: String,
    /// What refused it.
    pub layer: Layer,
    /// The rule, in words.
    pub rule: String,
    /// Words for the command line that allow it, if any do.
    pub allow: Option<String>,
    /// What to do, in words.
    pub advice: String,
    /// The error that the program saw; empty where it saw none.
    pub error: String,
    /// How much it matters.
    pub weight: Weight,
    /// How often.
    pub count: u64,
}

impl std::fmt::Display for Denial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { action, target, rule, advice, count, .. } = self;
        write!(f, "refused: {action} {target}: {rule}; {advice}")?;
        if *count > 1 { write!(f, " ({count} times)") } else { Ok(()) }
    }
}

/// Everything that was refused in one run, what matters most first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    /// Each once.
    pub denials: Vec<Denial>,
    /// How many more there were that were not kept.
    pub dropped: u64,
}

impl Explained {
    /// What is worth a line to a person: the harmless only when a command failed and nothing else explains it.
    pub fn worth_telling(&self, failed: bool) -> impl Iterator<Item = &Denial> {
        let only_harmless = self.denials.iter().all(|denial| denial.weight == Weight::Harmless);
        self.denials
            .iter()
            .filter(move |denial| denial.weight != Weight::Harmless || (failed && only_harmless))
    }
}

/// Why a run cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The observer could not be started.
    #[error("the observer of `--explain` could not be started: {0}")]
    Start(#[source] io::Error),
    /// The kernel, or a container around us, forbids tracing.
    #[error(
        "`--explain` traces the command, and this machine does not allow it{}: run it without `--explain`, or elsewhere",
        clue()
    )]
    Forbidden(#[source] io::Error),
    /// The observer went away.
    #[error("the observer of `--explain` ended early, so what was refused is not known")]
    Gone(#[source] io::Error),
}

/// What forbids tracing, if it says so.
fn clue() -> &'static str {
    match std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").as_deref().map(str::trim) {
        Ok("3") => " (kernel.yama.ptrace_scope is 3, which only a restart changes)",
        Ok("2") => " (kernel.yama.ptrace_scope is 2: `sysctl kernel.yama.ptrace_scope=1` changes it)",
        _ => " (a container around this process, or a security module, can forbid it)",
    }
}

/// A process that watches a sandbox; both end with the value.
#[derive(Debug)]
pub struct Observer {
    process: Tree,
    report: OwnedFd,
}

impl Held {
    /// Puts an observer beside the sandbox, before its command begins.
    ///
    /// # Errors
    /// When tracing is forbidden here.
    pub fn observe(&self, profile: &Profile, caller: &Caller) -> Result<Observer, ExplainError> {
        let (report, told) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| ExplainError::Start(error.into()))?;
        let init = self.tree.pid.as_raw_pid();
        match fork(0, None).map_err(ExplainError::Start)? {
            Side::Child => {
                let groups = match self.plan.identity.owns {
                    Some(_) => Vec::new(),
                    None => rustix::process::getgroups()
                        .unwrap_or_default()
                        .iter()
                        .map(|group| group.as_raw())
                        .collect(),
                };
                let rules = Rules::new(&self.plan, profile, &caller.worktree, &caller.home, groups);
                let watched = observe::attach(&told, init).and_then(|report| {
                    let explained = observe::follow(init, &rules)?;
                    write_all(&report, &serde_json::to_vec(&explained).unwrap_or_default())
                });
                leave(i32::from(watched.is_err()))
            }
            Side::Parent(pid, pidfd) => {
                drop(told);
                let process = Tree::new(pid, pidfd).map_err(ExplainError::Start)?;
                let observer = Observer { process, report };
                let mut answer = [0u8; 4];
                match observer.read(&mut answer).map_err(ExplainError::Start)? {
                    4 => {}
                    _ => return Err(ExplainError::Start(io::ErrorKind::UnexpectedEof.into())),
                }
                match i32::from_le_bytes(answer) {
                    0 => Ok(observer),
                    error => Err(ExplainError::Forbidden(io::Error::from_raw_os_error(error))),
                }
            }
        }
    }
}

impl Observer {
    /// What was refused; to be asked when the run is over.
    ///
    /// # Errors
    /// When the observer is gone.
    pub fn explained(mut self) -> Result<Explained, ExplainError> {
        let (mut all, mut part) = (Vec::new(), vec![0u8; 64 * 1024]);
        loop {
            let got = self.read(&mut part).map_err(ExplainError::Gone)?;
            all.extend_from_slice(part.get(..got).unwrap_or_default());
            if got == 0 || all.len() > MOST_BYTES {
                break;
            }
        }
        self.process.end();
        serde_json::from_slice(&all).map_err(|error| ExplainError::Gone(error.into()))
    }

    /// The next bytes, or none at the end.
    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(&self.report, PollFlags::IN)], Some(&left)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return Ok(rustix::io::read(&self.report, bytes)?),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::write(to, bytes)?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}
