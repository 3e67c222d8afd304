//! The observer: follows every process of a sandbox, and keeps what was refused.
//!
//! Flow: process 1, held -> [`attach`] -> [`follow`] until nobody is left -> [`Explained`]. Runs in a process of its
//! own, outside, which holds nothing of the launcher's but the pipe that it reports on.
//!
//! Invariants: a thread that stopped for us always goes on, with the signal it was to get; process 1 is never
//! stopped at its calls; if the observer dies, the sandbox does. What is kept is bounded. Not here: what a call means
//! ([`super::judge`]).

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::judge::{Judgement, Remedy, Target, judge};
use super::rules::Rules;
use super::words::{clean, quoted};
use super::{Denial, Explained, Layer, Weight, seen};
use crate::sys;
use crate::sys::trace::{self, Event, Moment, Until};

/// The most different denials that are kept.
const MOST: usize = 1_000;

/// Leaves everything of the launcher behind but the pipe, and attaches; says how that went.
pub(super) fn attach(report: &OwnedFd, init: i32) -> io::Result<OwnedFd> {
    use std::os::fd::AsFd;
    // Its own session: what is typed at the launcher's terminal is not for us.
    rustix::process::setsid()?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let null = rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    let (report, null) =
        (rustix::io::fcntl_dupfd_cloexec(report, 16)?, rustix::io::fcntl_dupfd_cloexec(null, 16)?);
    for number in 0..3 {
        sys::process::place(null.as_fd(), number, true)?;
    }
    sys::process::place(report.as_fd(), 3, true)?;
    // Closed by number below.
    std::mem::forget((report, null));
    sys::close_from(4)?;
    let report = sys::process::adopt(3);
    let seized = trace::seize(init);
    let error = seized.as_ref().err().and_then(io::Error::raw_os_error).unwrap_or(0);
    rustix::io::write(&report, &error.to_le_bytes())?;
    seized.map(|()| report)
}

/// Follows everyone until nobody is left.
pub(super) fn follow(init: i32, rules: &Rules<'_>) -> io::Result<Explained> {
    let mut kept = Kept::default();
    let mut asked: HashMap<i32, (u64, [u64; 6])> = HashMap::new();
    while let Some(event) = trace::wait()? {
        let until = |thread: i32| if thread == init { Until::Event } else { Until::Call };
        match event {
            Event::Ended(thread, signal) => {
                asked.remove(&thread);
                if signal == Some(libc::SIGSYS) {
                    kept.add(killed(), rules);
                }
            }
            Event::AtCall(thread) => {
                match trace::moment(thread) {
                    Moment::Enters { number, arguments } => drop(asked.insert(thread, (number, arguments))),
                    Moment::Leaves { result } => {
                        if let Some((number, arguments)) = asked.remove(&thread)
                            && let Ok(number) = u32::try_from(number)
                            && let Some(call) = seen::call(thread, number, arguments, result, rules)
                            && let Some(judgement) = judge(&call, rules)
                        {
                            kept.add(judgement, rules);
                        }
                    }
                    Moment::Between => {}
                }
                trace::go_on(thread, until(thread), 0);
            }
            Event::Stopped(thread) => trace::let_stand(thread),
            Event::Signal(thread, signal) => trace::go_on(thread, until(thread), signal),
            Event::Became(thread, before) => {
                asked.remove(&before);
                trace::go_on(thread, until(thread), 0);
            }
            Event::Other(thread) => trace::go_on(thread, until(thread), 0),
        }
    }
    Ok(kept.told(rules))
}

/// What a call by another door comes to: nobody leaves it.
fn killed() -> Judgement {
    Judgement {
        call: "unknown".into(),
        action: "call",
        target: Target::Other("a call by the numbers of another architecture".into()),
        layer: Layer::Seccomp,
        rule: "the filter of system calls ends whoever makes one (signal SIGSYS)".into(),
        remedy: Remedy::Other("use a program for this machine's own architecture".into()),
        error: "",
        weight: Weight::Refused,
        place: PathBuf::new(),
    }
}

/// Denials that are told as one.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    layer: Layer,
    weight: Weight,
    rule: String,
    place: PathBuf,
}

struct Group {
    first: Judgement,
    count: u64,
    last: u64,
}

/// What was refused so far.
#[derive(Default)]
struct Kept {
    groups: HashMap<Key, Group>,
    calls: u64,
    dropped: u64,
}

impl Kept {
    fn add(&mut self, judgement: Judgement, rules: &Rules<'_>) {
        self.calls += 1;
        let Judgement { layer, weight, .. } = judgement;
        let key = Key { layer, weight, rule: judgement.rule.clone(), place: judgement.place.clone() };
        if let Some(group) = self.groups.get_mut(&key) {
            group.count += 1;
            group.last = self.calls;
            widen(&mut group.first, judgement, rules);
        } else if self.groups.len() < MOST {
            self.groups.insert(key, Group { first: judgement, count: 1, last: self.calls });
        } else {
            self.dropped += 1;
        }
    }

    /// What mattered most first; of the same weight the last ones, because what ended a command came last.
    fn told(self, rules: &Rules<'_>) -> Explained {
        let mut groups: Vec<Group> = self.groups.into_values().collect();
        groups.sort_by_key(|group| (group.first.weight, std::cmp::Reverse(group.last)));
        let denials = groups.into_iter().map(|group| denial(group, rules)).collect();
        Explained { denials, dropped: self.dropped }
    }
}

/// Lets the one that stands for many name what they have in common.
fn widen(one: &mut Judgement, other: Judgement, rules: &Rules<'_>) {
    if let (Target::File(path), Target::File(more)) = (&mut one.target, other.target) {
        *path = common(path, &more);
    }
    if let (Remedy::Give { path, writable }, Remedy::Give { path: more, writable: also }) =
        (&mut one.remedy, other.remedy)
    {
        let shared = common(path, &more);
        // A whole home is never what is needed.
        if shared != rules.home && shared.parent().is_some() {
            *path = shared;
        }
        *writable |= also;
    }
}

fn common(a: &Path, b: &Path) -> PathBuf {
    a.components().zip(b.components()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect()
}

fn denial(group: Group, rules: &Rules<'_>) -> Denial {
    let Group { first, count, .. } = group;
    let (allow, advice) = match first.remedy {
        Remedy::Give { path, writable } => {
            let flag = if writable { "--rw" } else { "--ro" };
            (Some(format!("{flag} {}", quoted(&rules.named(&path)))), None)
        }
        Remedy::Flag(words) => (Some(words), None),
        Remedy::Other(text) => (None, Some(text)),
    };
    let advice = advice
        .unwrap_or_else(|| allow.as_ref().map(|words| format!("`{words}` allows it")).unwrap_or_default());
    let target = match first.target {
        Target::File(path) => clean(&path.to_string_lossy()),
        Target::Other(text) => clean(&text),
    };
    Denial {
        call: first.call,
        action: first.action.to_owned(),
        target,
        layer: first.layer,
        rule: clean(&first.rule),
        allow,
        advice: clean(&advice),
        error: first.error.to_owned(),
        weight: first.weight,
        count,
    }
}
