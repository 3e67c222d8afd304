//! Holds who was stopped by a signal, so that no other signal lets them go on: a process of ours traces every thread, and
//! a thread that stands for its tracer takes no notice of signals that would continue it.
//!
//! Flow: everyone was stopped -> [`hold`] (a child attaches to all, and looks that all stand) -> its end lets them be,
//! stopped as they were. Nobody inside can see it or reach it.
//!
//! Invariants: nothing of a traced thread is changed; whoever is killed meanwhile goes, because the tracer takes note of
//! every end. Left: what `--explain` or a debugger inside traces already has its tracer, and is not held by this one.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};

use super::{PATIENCE, descendants, numbers};
use crate::launch::{LONGEST, Tree as Processes, comes};
use crate::sys;
use crate::sys::process::{Side, fork, leave};
use crate::sys::trace;

/// Holds everyone as long as the value lives; none where this one may not trace them.
pub(super) fn hold(init: Pid) -> Option<Processes> {
    let (hears, tells) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?;
    match fork(0, None).ok()? {
        Side::Child => {
            drop(hears);
            stay(init, tells);
            leave(0)
        }
        Side::Parent(pid, pidfd) => {
            drop(tells);
            let holder = Processes::new(pid, pidfd).ok()?;
            let mut word = [0u8; 1];
            let holds = comes(hears.as_fd(), LONGEST).unwrap_or(false)
                && rustix::io::read(&hears, &mut word) == Ok(1)
                && word == *b"!";
            holds.then_some(holder)
        }
    }
}

/// In the child: attaches to everyone, says so, and takes note of who ends.
fn stay(init: Pid, tells: OwnedFd) {
    if alone(&tells).is_err() || !attach(init) {
        return;
    }
    let _ = rustix::io::write(&tells, b"!");
    drop(tells);
    while let Ok(Some(_)) = trace::wait() {}
}

/// Leaves the launcher's company, and closes what is the launcher's.
fn alone(tells: &OwnedFd) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::process::setsid()?;
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    sys::watch::keep_only(&[tells.as_fd()], nothing.as_fd())?;
    std::mem::forget(nothing);
    Ok(())
}

/// Attaches to every thread until none is new and all stand; whether that could be done.
fn attach(init: Pid) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let mut known = BTreeSet::new();
    loop {
        let mut all = true;
        for pid in std::iter::once(init).chain(descendants(init)) {
            for thread in numbers(&format!("/proc/{}/task", pid.as_raw_pid())) {
                if matches!(super::state(thread), None | Some('Z' | 'X')) {
                    continue;
                }
                let is_new = known.insert(thread);
                if is_new && trace::hold(thread).is_err() && !is_traced(thread) {
                    return false;
                }
                // What it began before it was held is there by the next look. One that cannot be interrupted stands
                // before it runs any code of its own.
                all &= !is_new && matches!(super::state(thread), None | Some('t' | 'D' | 'Z' | 'X'));
            }
        }
        if all || Instant::now() > deadline {
            return all;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Whether a thread has a tracer already, or is gone.
fn is_traced(thread: i32) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{thread}/status")) else { return true };
    text.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|pid| pid.trim() != "0"))
}
