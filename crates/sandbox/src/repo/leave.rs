//! How commits leave: a second sandbox over the same layer makes a bundle, the host takes it over.
//!
//! Invariant: whatever the agent left in its layer runs in the second sandbox at most; what comes out is bytes, of
//! bounded number in bounded time. Nothing is started when no reference changed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal};

use super::ingest::{Commit, IngestError, ingest, taken_before};
use super::{Repository, exclusive};
use crate::files;
use crate::launch::Held;
use crate::permit::Permit;
use crate::plan::Identity;
use crate::running::Ended;
use crate::sought::{Carried, Seeks};
use crate::spec::identity_for;
use crate::{LaunchError, RunId, Running, Spec, Standard, Unenforceable};
use ::git::{Git, program, shown};

/// The most that comes out.
const MOST_BYTES: u64 = 2 << 30;
/// The most that is kept of what is said about it.
const MOST_TOLD: u64 = 1 << 16;
/// How long it may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

/// Why commits were not taken over.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// Somebody put another `.git` there.
    #[error("`.git` was replaced during the run")]
    Replaced,
    /// The host has no git of its own.
    #[error("there is no git of the system in /usr/bin or /usr/local/bin; install it to take commits over")]
    NoGit,
    /// The second sandbox cannot be made.
    #[error(transparent)]
    Plan(#[from] Unenforceable),
    /// The second sandbox was not started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// It said why not.
    #[error("no bundle could be made: {0}")]
    Bundle(String),
    /// It did not end, or not in time.
    #[error("the bundle grew beyond {} GiB or was not ready in time", MOST_BYTES >> 30)]
    TooMuch,
    /// What came out is not taken.
    #[error("{0}")]
    Refused(String),
    /// Something is in it that must not leave.
    #[error("{0}")]
    Carries(Carried),
    /// A file of ours.
    #[error("`{0}`: {1}")]
    File(PathBuf, #[source] io::Error),
}

impl TakeError {
    /// Whether it may go better another time, with nobody doing anything about the repository.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::NoGit | Self::Plan(_) | Self::Launch(_) | Self::File(..) => true,
            Self::Replaced | Self::Bundle(_) | Self::TooMuch | Self::Refused(_) | Self::Carries(_) => false,
        }
    }
}

impl From<IngestError> for TakeError {
    fn from(error: IngestError) -> Self {
        match error {
            IngestError::Carries(carried) => Self::Carries(carried),
            other => Self::Refused(other.to_string()),
        }
    }
}

impl Repository {
    /// Takes over what was committed in the layer; nothing, if no reference changed.
    /// Nothing either, if something that is sought is in it.
    pub(crate) fn take(
        &self,
        spec: &Spec,
        run: &RunId,
        patience: Duration,
        sought: Option<&dyn Seeks>,
    ) -> Result<Vec<Commit>, TakeError> {
        if !self.is_touched() {
            return Ok(Vec::new());
        }
        if !self.is_as_it_was() {
            return Err(TakeError::Replaced);
        }
        let git = Git::find(&self.place.common).ok_or(TakeError::NoGit)?;
        match self.bundle(spec, run, patience)? {
            Some(bundle) => Ok(ingest(self, run, &git, bundle, sought)?),
            None => Ok(taken_before(self, run)),
        }
    }

    /// What the host has not, as a bundle that the inside made; none if there is nothing.
    fn bundle(&self, spec: &Spec, run: &RunId, patience: Duration) -> Result<Option<File>, TakeError> {
        let path = self.folder.join("bundle");
        let failed = |error: io::Error| TakeError::File(path.clone(), error);
        // Of somebody who was killed at this moment.
        let _ = std::fs::remove_file(&path);
        let mut file = exclusive(&path).map_err(failed)?;
        std::fs::remove_file(&path).map_err(failed)?;
        let spec = spec.instead(self.command()?, self.worktree.clone(), self.bare_mounts());
        let (out, out_inside) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let (err, err_inside) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let null: OwnedFd = File::open("/dev/null").map_err(failed)?.into();
        let identity = self.identity_of_layer(&spec)?;
        let running = spec
            .plan_as(run.clone(), identity, files::base().mounts)?
            .launch(Permit::own_process(), Standard::with_pipes(null, out_inside, err_inside))
            .and_then(Held::go)?;
        let mut told = Vec::new();
        let until = Instant::now() + patience;
        let ended = drained(running, until, &out, &mut file, &err, &mut told).map_err(failed)?;
        match ended {
            Some(Ended::Code(0)) => Ok(Some(file)),
            Some(Ended::Code(_)) if String::from_utf8_lossy(&told).contains("empty bundle") => Ok(None),
            Some(
                Ended::Code(_) | Ended::Signal(_) | Ended::NotExecuted(_) | Ended::Over(_) | Ended::Killed,
            ) => Err(TakeError::Bundle(shown(&told))),
            None => Err(TakeError::TooMuch),
        }
    }

    /// Who the first sandbox was: what it wrote belongs to them.
    fn identity_of_layer(&self, spec: &Spec) -> Result<Identity, TakeError> {
        let mut identity = identity_for(spec.owner()?, 0);
        if identity.owns.is_some() {
            let path = self.changes();
            let found = std::fs::symlink_metadata(&path).map_err(|error| TakeError::File(path, error))?;
            (identity.host_user, identity.host_group) = (found.uid(), found.gid());
        }
        Ok(identity)
    }

    fn command(&self) -> Result<Vec<OsString>, TakeError> {
        let mut command: Vec<OsString> = vec![program().ok_or(TakeError::NoGit)?.into(), "-C".into()];
        command.push(self.worktree.clone().into());
        let words = [
            "-c",
            "core.fsmonitor=false",
            "bundle",
            "create",
            "-q",
            "-",
            "--ignore-missing",
            "HEAD",
            "--branches",
        ];
        command.extend(words.map(OsString::from));
        let known = self.known();
        if !known.is_empty() {
            command.push("--not".into());
            command.extend(known.iter().map(|id| OsString::from(id.as_str())));
        }
        // A file may be called `HEAD`, or like a branch.
        command.push("--".into());
        Ok(command)
    }
}

/// Carries both outputs until the end; none if it was ended because it was too much.
fn drained(
    running: Running,
    until: Instant,
    out: &OwnedFd,
    to: &mut impl Write,
    err: &OwnedFd,
    told: &mut impl Write,
) -> io::Result<Option<Ended>> {
    let Some(pid) = Pid::from_raw(running.pid()) else {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    };
    let ends = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let (mut left, mut left_told) = (MOST_BYTES, MOST_TOLD);
    let mut is_too_much = false;
    loop {
        let patience = until.saturating_duration_since(Instant::now());
        is_too_much |= left == 0 || patience.is_zero();
        if is_too_much {
            let _ = rustix::process::pidfd_send_signal(&ends, Signal::KILL);
            break;
        }
        let wanted = Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: patience.subsec_nanos().into(),
        };
        let mut polled = [
            PollFd::new(out, PollFlags::IN),
            PollFd::new(err, PollFlags::IN),
            PollFd::new(&ends, PollFlags::IN),
        ];
        match poll(&mut polled, Some(&wanted)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready =
            |number: usize| polled.get(number).is_some_and(|polled| polled.revents().contains(PollFlags::IN));
        let (has_out, has_err, has_ended) = (ready(0), ready(1), ready(2));
        if has_out {
            carry(out, to, &mut left)?;
        }
        if has_err {
            carry(err, told, &mut left_told)?;
        }
        if has_ended && !has_out && !has_err {
            break;
        }
    }
    // Everyone is gone after this, and with them the other ends of both pipes.
    let ended = running.wait()?;
    while !is_too_much && carry(out, to, &mut left)? {
        is_too_much = left == 0;
    }
    while carry(err, told, &mut left_told)? {}
    Ok((!is_too_much).then_some(ended))
}

/// Carries what is there; whether there was something. What is beyond the limit is dropped.
fn carry(from: &OwnedFd, to: &mut impl Write, left: &mut u64) -> io::Result<bool> {
    let mut bytes = [0u8; 1 << 16];
    let got = match rustix::io::read(from.as_fd(), &mut bytes) {
        Err(rustix::io::Errno::INTR) => return Ok(true),
        other => other?,
    };
    let taken = u64::try_from(got).unwrap_or(u64::MAX).min(*left);
    *left -= taken;
    to.write_all(bytes.get(..usize::try_from(taken).unwrap_or(0)).unwrap_or_default())?;
    Ok(got > 0)
}
