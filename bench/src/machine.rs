//! Where the figures were taken.

use std::path::Path;

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Name, processors and kernel, in one line.
pub(crate) fn described() -> String {
    let uname = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{} ({}, {cores} cores{}), {} {}, load before: {}",
        word(uname.nodename()),
        word(uname.machine()),
        model.split_once(':').map(|(_, name)| format!(" of {}", name.trim())).unwrap_or_default(),
        word(uname.sysname()),
        word(uname.release()),
        load.split(' ').next().unwrap_or_default(),
    )
}

/// Refuses a directory in memory: syncing it would cost nothing.
pub(crate) fn on_a_disk(dir: &Path) -> anyhow::Result<()> {
    const TMPFS: i64 = 0x0102_1994;
    let kind = rustix::fs::statfs(dir).with_context(|| format!("`{}`", dir.display()))?.f_type;
    anyhow::ensure!(
        kind != TMPFS,
        "`{}` is in memory; name a directory on a disk with `--disk`",
        dir.display()
    );
    Ok(())
}

/// Keeps this thread, and what it starts, on one processor for as long as it lives.
pub(crate) struct OneCore(CpuSet);

impl OneCore {
    pub(crate) fn take() -> anyhow::Result<Self> {
        let all = sched_getaffinity(None)?;
        let mut one = CpuSet::new();
        // The last: the first serves most interrupts.
        let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| all.is_set(*cpu)).context("no processor")?;
        one.set(last);
        sched_setaffinity(None, &one)?;
        Ok(Self(all))
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.0);
    }
}
