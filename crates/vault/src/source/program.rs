//! Programs that print a master key, such as `secret-tool lookup` or `keyctl pipe`.
//!
//! Invariants: a program is started without a shell and without our own variables; it has a deadline, and with it ends
//! everything in its process group; nothing that it says but the key is used or shown. Nobody waits in a thread: a pipe
//! that something holds open outlives the deadline and keeps nothing of ours.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zeroize::Zeroizing;

use super::SourceError;
use crate::master::MAX_TEXT;
use crate::{BadKey, MasterKey};

/// How often the end of a program is looked for that has closed its output.
const LOOK: Duration = Duration::from_millis(5);

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
    let mut running = Running(child);
    let deadline = Instant::now() + patience;
    let text = running.0.stdout.take().map(|out| read_until(out, deadline));
    let status = match &text {
        // It says more than a key, or nothing any more.
        Some(Ok(Some(_))) => running.end_before(deadline),
        Some(Ok(None) | Err(_)) | None => None,
    };
    drop(running);
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

/// All that comes, up to one byte more than a key has; none if the deadline comes first.
fn read_until(mut out: ChildStdout, deadline: Instant) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    // Room for all of it up front, so that the text is never moved and left behind unwiped.
    let mut text = Zeroizing::new(vec![0; MAX_TEXT + 1]);
    let mut length = 0;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let wait = Timespec::try_from(left).map_err(io::Error::other)?;
        // A pipe that is ready does not block, and one that is not is not read.
        if poll(&mut [PollFd::new(&out, PollFlags::IN)], Some(&wait))? == 0 {
            return Ok(None);
        }
        let count = out.read(text.get_mut(length..).unwrap_or_default())?;
        length += count;
        if count == 0 {
            text.truncate(length);
            return Ok(Some(text));
        }
    }
}

/// A program at work. Whatever way this ends, the program and its group end with it.
struct Running(Child);

impl Running {
    fn end_before(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw) {
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap_or_default();
        }
        drop(self.0.wait());
    }
}
