//! Stopping every process of a sandbox where it is: by its control group, or, without one, by a signal to each
//! until none moves any more.
//!
//! Flow: [`Frozen`] (a person's wish), [`set`] (to look at what stands) or [`Still`] (for as long as the value lives; what
//! stood still before stays so). Whoever was stopped by a signal could go on by one that it ordered before, from a timer:
//! a [`Frozen`] sandbox is held by a tracer besides.
//!
//! Invariant: process 1 is stopped first and goes on last, so it never takes a stop for the terminal's; who was started by
//! whom goes on after it, so no shell sees its job stopped.

mod hold;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::process::{Pid, Signal};

use crate::groups::Groups;
use crate::launch::Tree as Processes;

/// How long it may take until nothing moves.
const PATIENCE: Duration = Duration::from_secs(5);

/// What stops everyone where there is no group for it.
const SIGNAL: &str = "signal";

/// Freezes or thaws; says by what.
pub(crate) fn set(groups: &Groups, init: Pid, frozen: bool) -> io::Result<&'static str> {
    let _alone = alone(init);
    if let Some(done) = groups.freeze(frozen) {
        done?;
        return Ok("cgroup");
    }
    if frozen {
        let (stopped, done) = stop(init);
        done.inspect_err(|_| go_on(&stopped))?;
    } else {
        let everyone: Vec<Pid> =
            std::iter::once(init).chain(inhabitants(init).into_iter().map(|(pid, _)| pid)).collect();
        go_on(&everyone);
    }
    Ok(SIGNAL)
}

/// A sandbox that somebody wants to stand still.
#[derive(Debug)]
pub(crate) struct Frozen {
    by: &'static str,
    /// Ends with the value.
    holder: Option<Processes>,
}

impl Frozen {
    pub(crate) fn new(groups: &Groups, init: Pid) -> io::Result<Self> {
        let by = set(groups, init, true)?;
        let holder = if by == SIGNAL { hold::hold(init) } else { None };
        Ok(Self { by, holder })
    }

    /// What it stands still by.
    pub(crate) fn by(&self) -> &'static str {
        self.by
    }

    /// Lets everyone go on.
    pub(crate) fn thaw(&mut self, groups: &Groups, init: Pid) -> io::Result<()> {
        self.holder = None;
        set(groups, init, false).map(drop)
    }
}

/// A sandbox that stands still as long as the value lives.
#[derive(Debug)]
pub(crate) struct Still<'a> {
    groups: &'a Groups,
    by: By,
    _alone: Option<OwnedFd>,
}

#[derive(Debug)]
enum By {
    /// It stood still before: somebody else's wish.
    Others,
    Group,
    /// Those that were stopped, the first first.
    Signals(Vec<Pid>),
}

impl<'a> Still<'a> {
    /// Stops everyone, as far as it goes; whether all stand still.
    pub(crate) fn new(groups: &'a Groups, init: Pid) -> (Self, io::Result<()>) {
        let _alone = alone(init);
        let (by, done) = match groups.is_frozen() {
            Some(true) => (By::Others, Ok(())),
            Some(false) => match groups.freeze(true) {
                Some(Ok(())) => (By::Group, settled(groups)),
                Some(Err(error)) => (By::Others, Err(error)),
                None => (By::Others, Ok(())),
            },
            None => {
                let (stopped, done) = stop(init);
                (By::Signals(stopped), done)
            }
        };
        (Self { groups, by, _alone }, done)
    }
}

impl Drop for Still<'_> {
    fn drop(&mut self) {
        match &self.by {
            By::Others => {}
            By::Group => drop(self.groups.freeze(false)),
            By::Signals(stopped) => go_on(stopped),
        }
    }
}

/// Only one at a time stops this sandbox or lets it go on: else one takes the other's stop for its own.
fn alone(init: Pid) -> Option<OwnedFd> {
    let path = format!("/proc/{}", init.as_raw_pid());
    let folder =
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    rustix::fs::flock(&folder, FlockOperation::LockExclusive).ok()?;
    Some(folder)
}

/// Waits until the group stands still.
fn settled(groups: &Groups) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !groups.is_still() {
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "some processes did not stop"));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

/// Sends a stop to everyone who moves; who was stopped, the first first, and whether all stand still.
fn stop(init: Pid) -> (Vec<Pid>, io::Result<()>) {
    let deadline = Instant::now() + PATIENCE;
    let (mut stopped, mut sent) = (Vec::new(), BTreeSet::new());
    let mut pause = Duration::from_micros(50);
    loop {
        let mut moving = BTreeSet::new();
        for (parent, pid) in std::iter::once((0, init)).chain(family(init)) {
            let Some(state) = state(pid.as_raw_pid()) else { continue };
            let is_sent = sent.contains(&pid.as_raw_pid());
            // A shell that still moves when its job stops takes that for the terminal's stop.
            if moving.contains(&parent) {
                moving.insert(pid.as_raw_pid());
                continue;
            }
            if !is_sent
                && !matches!(state, 'T' | 't')
                && rustix::process::kill_process(pid, Signal::STOP).is_ok()
            {
                sent.insert(pid.as_raw_pid());
                stopped.push(pid);
            }
            // One that cannot be interrupted, such as the parent of a `vfork`, stops before it runs any code of its own.
            // One whose first thread is gone may have others: it is told, and there is nothing to wait for.
            if !(matches!(state, 'T' | 't' | 'Z' | 'X') || (is_sent && state == 'D')) {
                moving.insert(pid.as_raw_pid());
            }
        }
        // Whoever was not there the last time was made by one that had not stopped yet.
        if moving.is_empty() {
            return (stopped, Ok(()));
        }
        if Instant::now() > deadline {
            return (stopped, Err(io::Error::new(io::ErrorKind::TimedOut, "some processes did not stop")));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(2));
    }
}

/// The last that was stopped goes on first.
fn go_on(stopped: &[Pid]) {
    for pid in stopped.iter().rev() {
        let _ = rustix::process::kill_process(*pid, Signal::CONT);
    }
}

/// The processes of a sandbox besides its process 1, and whether each is stopped.
pub(crate) fn inhabitants(init: Pid) -> Vec<(Pid, bool)> {
    let alive = states(init).into_iter().filter(|(_, state)| *state != 'Z');
    alive.map(|(pid, state)| (pid, matches!(state, 'T' | 't'))).collect()
}

/// The same with the kernel's letter for what each does; whoever made another comes before it.
fn states(init: Pid) -> Vec<(Pid, char)> {
    descendants(init).into_iter().filter_map(|pid| Some((pid, state(pid.as_raw_pid())?))).collect()
}

/// The same without asking what each does, zombies too.
pub(crate) fn descendants(init: Pid) -> Vec<Pid> {
    family(init).into_iter().map(|(_, pid)| pid).collect()
}

/// Who made whom.
fn family(init: Pid) -> Vec<(i32, Pid)> {
    // Who began inside is a descendant of process 1: what lost its parent was taken over by it.
    let mut found = below(init.as_raw_pid());
    // What joined has its parent outside. Counting costs little, and looking for them much.
    if numbers(&format!("/proc/{}/root/proc", init.as_raw_pid())).count() > found.len() + 1 {
        for pid in joined(init, &found) {
            found.extend(Pid::from_raw(pid).map(|pid| (0, pid)));
            found.extend(below(pid));
        }
    }
    found
}

/// Whom a process made, and they.
fn below(ancestor: i32) -> Vec<(i32, Pid)> {
    let mut found = Vec::new();
    let mut above = vec![ancestor];
    while let Some(parent) = above.pop() {
        for child in children(parent) {
            above.push(child);
            found.extend(Pid::from_raw(child).map(|pid| (parent, pid)));
        }
    }
    found
}

/// The first of those who are in the number space of process 1 and are not its descendants.
fn joined(init: Pid, family: &[(i32, Pid)]) -> Vec<i32> {
    let space = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let Some(own) = space(init.as_raw_pid()) else { return Vec::new() };
    // Without a number space of its own everyone of the host would be one of them.
    if std::fs::read_link("/proc/self/ns/pid").is_ok_and(|ours| ours == own) {
        return Vec::new();
    }
    let known: BTreeSet<i32> =
        family.iter().map(|(_, pid)| pid.as_raw_pid()).chain([init.as_raw_pid()]).collect();
    let others = numbers("/proc").filter(|pid| !known.contains(pid) && space(*pid).as_ref() == Some(&own));
    let others: BTreeSet<i32> = others.collect();
    let is_first = |pid: &i32| word(*pid, 1).is_none_or(|parent| !others.contains(&parent));
    others.iter().copied().filter(is_first).collect()
}

/// The processes that are listed there.
fn numbers(place: &str) -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn state(pid: i32) -> Option<char> {
    word(pid, 0)
}

/// What the kernel says of a process after its name: its state first, then its parent.
fn word<T: std::str::FromStr>(pid: i32, place: usize) -> Option<T> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    status.rsplit_once(')')?.1.split_whitespace().nth(place)?.parse().ok()
}

fn children(parent: i32) -> Vec<i32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    let lists = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("children")));
    lists
        .flatten()
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}
