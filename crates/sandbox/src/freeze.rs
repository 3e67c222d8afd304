//! Stopping every process of a sandbox where it is: by its control group, or, without one, by a signal to each
//! until none moves any more.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::groups::Groups;

/// How long it may take until nothing moves.
const PATIENCE: Duration = Duration::from_secs(5);

/// Freezes or thaws; says by what.
pub(crate) fn set(groups: &Groups, init: Pid, frozen: bool) -> io::Result<&'static str> {
    if let Some(done) = groups.freeze(frozen) {
        done?;
        return Ok("cgroup");
    }
    let signal = if frozen { Signal::STOP } else { Signal::CONT };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = inhabitants(init);
        for (pid, _) in &found {
            let _ = rustix::process::kill_process(*pid, signal);
        }
        // Whoever was not there the first time was made by one that had not stopped yet.
        let again = inhabitants(init);
        let same = found.iter().map(|(pid, _)| pid.as_raw_pid()).collect::<BTreeSet<_>>()
            == again.iter().map(|(pid, _)| pid.as_raw_pid()).collect::<BTreeSet<_>>();
        if !frozen || (same && again.iter().all(|(_, is_stopped)| *is_stopped)) {
            return Ok("signal");
        }
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "some processes did not stop"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The processes of a sandbox besides its process 1, and whether each is stopped.
pub(crate) fn inhabitants(init: Pid) -> Vec<(Pid, bool)> {
    let mut found = Vec::new();
    // Everyone inside is a descendant of process 1: what lost its parent was taken over by it.
    let mut above = vec![init.as_raw_pid()];
    while let Some(parent) = above.pop() {
        for child in children(parent) {
            above.push(child);
            let status = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            let state = status.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
            if let Some(pid) = Pid::from_raw(child).filter(|_| state.is_some_and(|state| state != 'Z')) {
                found.push((pid, matches!(state, Some('T' | 't'))));
            }
        }
    }
    found
}

fn children(parent: i32) -> Vec<i32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    let lists = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("children")));
    lists.flatten().flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}
