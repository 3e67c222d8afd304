//! Programs that print a master key, such as `secret-tool lookup` or `keyctl pipe`.
//!
//! Invariants: a program is started without a shell and without our own variables; it has a deadline, and with it ends
//! everything in its process group; nothing that it says but the key is used or shown. What it said counts when it ends:
//! a pipe that something else holds open keeps nobody. Its group is ended before it is reaped, while its number is its own.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use zeroize::Zeroizing;

use super::SourceError;
use crate::master::MAX_TEXT;
use crate::{BadKey, MasterKey};

/// How often the end of a program is looked for.
const LOOK: Duration = Duration::from_millis(5);
/// How long one that was told to end may take; one that cannot be told is left behind.
const LAST: Duration = Duration::from_secs(1);

/// Takes the key from what a program prints. It is started without a shell, and ended when `patience` is over.
///
/// # Errors
/// [`SourceError`] when it cannot be started, does not end well or in time, or prints no key.
pub fn read_program(argv: &[String], patience: Duration) -> Result<MasterKey, SourceError> {
    let (program, arguments) = argv
        .split_first()
        .ok_or_else(|| SourceError::Program { program: String::new(), why: "no program is named".into() })?;
    let failed = |why: String| SourceError::Program { program: program.clone(), why };
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PALISADE_") {
            command.env_remove(name);
        }
    }
    // What it says on standard error may repeat what it was asked for, so nobody hears it.
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    let child = command.spawn().map_err(|error| failed(format!("it cannot be started: {}", error.kind())))?;
    let mut running = Running { child, is_over: false };
    let deadline = Instant::now() + patience;
    let text = running.child.stdout.take().map(|out| running.read_until(out, deadline));
    let in_time = matches!(text, Some(Ok(Some(_)))) && running.ends_before(deadline);
    let status = running.end().filter(|_| in_time);
    let status = status.ok_or_else(|| failed(format!("it did not end within {} s", patience.as_secs())))?;
    if !status.success() {
        return Err(failed(format!("it failed ({status}); run it by hand to see why")));
    }
    let text = text.and_then(Result::ok).flatten();
    let text = text.ok_or_else(|| failed("what it printed could not be read".into()))?;
    let bad = |cause| SourceError::BadOutput { program: program.clone(), cause };
    let text = std::str::from_utf8(&text).map_err(|_| bad(BadKey::NotEncoded))?;
    MasterKey::from_hex_or_base64(text).map_err(bad)
}

/// A program at work. Whatever way this ends, the program and its group end with it.
struct Running {
    child: Child,
    is_over: bool,
}

impl Running {
    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Whether it has ended. It is not reaped by that.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.pid().is_none_or(|pid| matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_))))
    }

    fn ends_before(&self, deadline: Instant) -> bool {
        while !self.has_ended() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// All that it says until it ends or says no more, up to one byte more than a key has; none if the deadline comes
    /// first.
    fn read_until(&self, mut out: ChildStdout, deadline: Instant) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        // Room for all of it up front, so that the text is never moved and left behind unwiped.
        let mut text = Zeroizing::new(vec![0; MAX_TEXT + 1]);
        let mut length = 0;
        loop {
            // Before the pipe is looked at: what it said before its end is in there by then.
            let has_ended = self.has_ended();
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = if has_ended { Duration::ZERO } else { left.min(LOOK) };
            let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
            // A pipe that is ready does not block, and one that is not is not read.
            let count = match poll(&mut [PollFd::new(&out, PollFlags::IN)], Some(&wait)) {
                Err(Errno::INTR) => continue,
                Ok(0) if has_ended => 0,
                Ok(0) if left.is_zero() => return Ok(None),
                Ok(0) => continue,
                Ok(_) => match out.read(text.get_mut(length..).unwrap_or_default()) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => read?,
                },
                Err(error) => return Err(error.into()),
            };
            length += count;
            if count == 0 {
                text.truncate(length);
                return Ok(Some(text));
            }
        }
    }

    /// Ends the group, and then reaps the program: until then its number is nobody else's. None if it does not end.
    fn end(&mut self) -> Option<ExitStatus> {
        if !std::mem::replace(&mut self.is_over, true)
            && let Some(group) = self.pid()
        {
            kill_process_group(group, Signal::KILL).unwrap_or_default();
        }
        // One that runs as somebody else may not be ours to end.
        if !self.ends_before(Instant::now() + LAST) {
            return None;
        }
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            self.end();
        }
    }
}
