//! A small process between the agent and a program: whatever the program leaves behind ends with it.
//!
//! It adopts every descendant that loses its parent, so that one which forked twice and left its group is still found. It
//! ends them all when the program ends, when the time is over, and when its own standard input ends: the agent holds the other
//! side of that, and need not be alive for any of it.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use super::wall::Wall;

/// How long it goes on ending processes that do not end.
const PATIENCE: Duration = Duration::from_secs(10);
/// What it answers when the program could not be started.
pub(super) const NOT_STARTED: u8 = 127;

/// What it answers when the time was over.
pub(super) const TIME_OVER: u8 = 124;

/// Runs the program that the arguments name, behind the milliseconds that it has and what it is kept from. Called by the agent's own program, which was
/// started by the agent.
#[must_use]
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let time = arguments.next().and_then(|text| text.to_str()?.parse().ok()).map(Duration::from_millis);
    let wall = arguments.next().and_then(|word| Wall::parsed(word.to_str()?));
    let Some(((time, wall), program)) = time.zip(wall).zip(arguments.next()) else {
        return ExitCode::from(NOT_STARTED);
    };
    if rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_err() {
        return ExitCode::from(NOT_STARTED);
    }
    let arguments: Vec<_> = arguments.collect();
    // In a thread of its own: a wall holds for that thread and the program, and the minder must see what it minds.
    let started = std::thread::spawn(move || started(&program, &arguments, wall.as_ref())).join();
    let Ok(Ok(child)) = started else { return ExitCode::from(NOT_STARTED) };
    std::thread::spawn(|| {
        let mut end = [0];
        // Nothing is ever sent: this waits for the end.
        while std::io::stdin().read(&mut end).is_ok_and(|count| count > 0) {}
        end_all();
        std::process::exit(i32::from(NOT_STARTED));
    });
    std::thread::spawn(move || {
        std::thread::sleep(time);
        end_all();
        std::process::exit(i32::from(TIME_OVER));
    });
    let code = awaited(child.id());
    end_all();
    ExitCode::from(code)
}

/// Starts the program. Its environment is the minder's, which the agent chose.
fn started(program: &OsStr, arguments: &[OsString], wall: Option<&Wall>) -> std::io::Result<Child> {
    if let Some(wall) = wall {
        wall.stand(&std::env::current_dir()?)?;
    }
    Command::new(program).args(arguments).stdin(Stdio::null()).spawn()
}

/// Waits for the program, and for whatever else ends meanwhile.
fn awaited(program: u32) -> u8 {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get().cast_unsigned() == program => {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                let code = status.exit_status().or(signal).unwrap_or(255);
                return u8::try_from(code).unwrap_or(255);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return 255,
        }
    }
}

/// Ends every descendant: children first, whose children become ours, until there are none.
fn end_all() {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let children = children();
        if children.is_empty() {
            return;
        }
        for pid in children {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        while matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Processes whose parent this is, and which are not gone already.
fn children() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero().get().to_string();
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    let is_ours = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name, which may hold anything: state, then parent.
        let mut after = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        after.next().is_some_and(|state| state != "Z") && after.next() == Some(own.as_str())
    };
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(is_ours).filter_map(Pid::from_raw).collect()
}
