//! Where the figures were taken.

use std::path::Path;

use anyhow::Context;

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
