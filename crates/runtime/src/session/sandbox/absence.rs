//! Whether anything of a sandbox is left: its first processes, held so that their numbers can be nobody else's.
//!
//! Invariant: with the first process of a namespace everything in it ends, by the kernel, before that process is gone.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(20);

/// The first process of a sandbox.
#[derive(Debug)]
pub(super) struct First {
    number: u32,
    held: OwnedFd,
}

impl First {
    fn held(number: u32) -> Option<Self> {
        let pid = Pid::from_raw(i32::try_from(number).ok()?)?;
        Some(Self { number, held: pidfd_open(pid, PidfdFlags::empty()).ok()? })
    }

    /// Ends it, and with it everything in its sandbox.
    pub(super) fn kill(&self) {
        let _ = pidfd_send_signal(&self.held, Signal::KILL);
    }

    /// Whether it is there no more, or is only waited for by whoever started it.
    fn is_gone(&self) -> bool {
        let held = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", self.held.as_raw_fd()));
        // Its number is not another's as long as the kernel knows it by what we hold.
        let number = held.ok().and_then(|text| field(&text, "Pid:").parse::<i64>().ok());
        match (number, status(self.number)) {
            (Some(number), Some(text)) if number == i64::from(self.number) => {
                field(&text, "State:").starts_with('Z')
            }
            _ => true,
        }
    }
}

fn status(number: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{number}/status")).ok()
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
}

/// Those that this launcher started and that are the first of a namespace.
pub(super) fn first_processes(launcher: u32) -> Vec<First> {
    let children = std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children"));
    let children = children.unwrap_or_default();
    let numbers = children.split_ascii_whitespace().filter_map(|number| number.parse().ok());
    let is_first = |number: &u32| {
        let status = status(*number).unwrap_or_default();
        let names: Vec<&str> = field(&status, "NSpid:").split_ascii_whitespace().collect();
        names.len() > 1 && names.last() == Some(&"1")
    };
    numbers.filter(is_first).filter_map(First::held).collect()
}

/// Waits until nothing of these is left.
pub(super) async fn of(all: &[First]) {
    while !all.iter().all(First::is_gone) {
        tokio::time::sleep(EVERY).await;
    }
}

/// The same of what this launcher started, also if that comes to be only now.
pub(super) async fn of_all(launcher: u32, all: &mut Vec<First>) {
    while all.is_empty() {
        tokio::time::sleep(EVERY).await;
        all.extend(first_processes(launcher));
    }
    of(all).await;
}
