//! Time of the processor that all processes of a sandbox took together, so far.
//!
//! Flow: the group of version 2, or of version 1, which count every process for themselves -> without one, what the processes that are
//! there tell of themselves and of those that they waited for, and at the end what the launcher waited for. Invariant: what is told
//! never becomes less. Without a group short processes whose end nobody waits for are counted only while they are seen.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Pid;

use crate::freeze::descendants;
use crate::groups::Groups;

/// What counts.
#[derive(Debug)]
pub struct Meter {
    init: Pid,
    /// A file of a group, and what stands before its number of microseconds; or of nanoseconds, with nothing before it.
    group: Option<(PathBuf, &'static str)>,
    /// What was told, in all.
    told: Duration,
    /// What processes had that are not there any more and that nobody waited for.
    lost: Duration,
    /// What the launcher had waited for before.
    before: Duration,
}

impl Meter {
    pub(crate) fn new(init: Pid, groups: &Groups) -> Self {
        let (told, lost) = (Duration::ZERO, Duration::ZERO);
        Self { init, group: groups.time(), told, lost, before: waited_for() }
    }

    /// How much it was until now.
    pub fn read(&mut self) -> Duration {
        let now = match self.by_group() {
            Some(time) if !time.is_zero() => time,
            _ => {
                let there = descendants(self.init).into_iter().chain([self.init]);
                let sum = there
                    .map(|pid| times(&format!("/proc/{}/stat", pid.as_raw_pid())))
                    .map(|(a, b)| a + b)
                    .sum();
                self.with_lost(sum)
            }
        };
        self.told = self.told.max(now);
        self.told
    }

    /// The same when everything is gone and was waited for.
    pub fn last(&mut self) -> Duration {
        let now = match self.by_group() {
            Some(time) if !time.is_zero() => time,
            _ => waited_for().saturating_sub(self.before),
        };
        self.told = self.told.max(now);
        self.told
    }

    fn with_lost(&mut self, sum: Duration) -> Duration {
        let missing = self.told.saturating_sub(sum + self.lost);
        self.lost += missing;
        sum + self.lost
    }

    fn by_group(&self) -> Option<Duration> {
        let (file, name) = self.group.as_ref()?;
        let text = fs::read_to_string(file).ok()?;
        match name.is_empty() {
            true => text.trim().parse().ok().map(Duration::from_nanos),
            false => {
                let number = text.lines().find_map(|line| line.strip_prefix(name))?;
                number.trim().parse().ok().map(Duration::from_micros)
            }
        }
    }
}

/// What processes took that this one waited for, with all that those had waited for.
fn waited_for() -> Duration {
    times("/proc/self/stat").1
}

/// What a process took itself, and those that it waited for.
fn times(stat: &str) -> (Duration, Duration) {
    let text = fs::read_to_string(stat).unwrap_or_default();
    let rest = text.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    // The eleventh behind the name: in user mode, in the kernel; and both of those waited for.
    let mut ticks = rest.split_whitespace().skip(11).map(|word| word.parse::<u64>().unwrap_or(0));
    let mut two = || ticks.next().unwrap_or(0).saturating_add(ticks.next().unwrap_or(0));
    let (own, others) = (two(), two());
    let second = rustix::param::clock_ticks_per_second().max(1);
    let of = |ticks: u64| Duration::from_millis(ticks.saturating_mul(1_000) / second);
    (of(own), of(others))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ACC-19: with or without a group, time is counted once and never becomes less.
    #[test]
    fn acc_19_time_of_the_processor_is_counted_without_a_group_too() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo; sleep 30"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let mut meter = Meter::new(pid, &Groups::default());
        let first = meter.read();
        assert!(first > Duration::ZERO && first < Duration::from_secs(20), "{first:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(meter.read() >= first, "what is gone stays counted");
        let (all, own) = (meter.with_lost(Duration::ZERO), meter.told);
        assert_eq!(all, own);
        assert_eq!(meter.with_lost(Duration::from_millis(5)), own + Duration::from_millis(5));
    }

    #[test]
    fn a_group_of_either_version_tells_it() {
        let folder = tempfile::tempdir().unwrap();
        let pid = Pid::from_raw(1).unwrap();
        let mut meter = Meter::new(pid, &Groups::default());
        let file = folder.path().join("cpu.stat");
        fs::write(&file, "usage_usec 2500000\nuser_usec 1\n").unwrap();
        meter.group = Some((file, "usage_usec "));
        assert_eq!(meter.read(), Duration::from_millis(2_500));
        let file = folder.path().join("cpuacct.usage");
        fs::write(&file, "3000000000\n").unwrap();
        meter.group = Some((file, ""));
        assert_eq!(meter.last(), Duration::from_secs(3));
    }
}
