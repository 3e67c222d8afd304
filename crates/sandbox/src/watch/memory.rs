//! Memory of all processes together where no control group counts it.
//!
//! Flow: a cheap sum that is never too small -> only if that is beyond the limit, a dear one that is never too large. The
//! first adds what each process has for itself, and what the whole machine has more of in shared memory than at the
//! start; the second shares out what several processes have in common (`Pss`). Not seen: segments of System V that
//! nobody is attached to. Shared memory that is mapped and shared memory that is only open are not added up, since
//! one may be the other: the larger of both counts.

use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use rustix::fs::MemfdFlags;
use rustix::process::Pid;

use super::{MOST, held, soonest};
use crate::freeze::descendants;

/// One part of so many may be spent on looking, and in the last quarter before the limit.
const SHARE: u32 = 20;
const SHARE_NEAR: u32 = 4;
/// Memory file systems of a sandbox, as seen inside.
const IN_MEMORY: [&str; 3] = ["tmp", "var/tmp", "dev/shm"];

#[derive(Debug)]
pub(super) struct Memory {
    most: u64,
    next: Instant,
    /// Shared memory of the whole machine when it began.
    shared: u64,
}

impl Memory {
    pub(super) fn new(most: u64) -> Self {
        Self { most, next: Instant::now() + soonest(most), shared: of_machine() }
    }

    pub(super) fn due(&self) -> Instant {
        self.next
    }

    /// Whether there is more than there may be, if it is time to look.
    pub(super) fn look(&mut self, init: Pid) -> bool {
        let begun = Instant::now();
        if begun < self.next {
            return false;
        }
        let everyone = descendants(init);
        let shared = of_machine().saturating_sub(self.shared);
        let mut used = everyone.iter().map(|pid| own(*pid)).sum::<u64>().saturating_add(shared);
        if used > self.most {
            used = exact(init, &everyone);
        }
        let spent = begun.elapsed();
        let share = if used > self.most / 4 * 3 { SHARE_NEAR } else { SHARE };
        let pause = soonest(self.most.saturating_sub(used)).max(spent * share).min(MOST);
        self.next = Instant::now() + pause;
        used > self.most
    }
}

/// What a process has that is of no file and no shared memory; counted in each of those that have it in common.
fn own(pid: Pid) -> u64 {
    let pages = || {
        let text = fs::read_to_string(format!("/proc/{}/statm", pid.as_raw_pid())).ok()?;
        let mut pages = text.split_whitespace().skip(1).map(|word| word.parse::<u64>().ok());
        let (resident, shared) = (pages.next()??, pages.next()??);
        Some(resident.saturating_sub(shared))
    };
    let size = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    pages().unwrap_or(0).saturating_mul(size)
}

/// Shared memory and memory file systems of the whole machine.
fn of_machine() -> u64 {
    fs::read_to_string("/proc/meminfo").ok().and_then(|text| kibibytes(&text, "Shmem:")).unwrap_or(0)
}

/// A line such as `Shmem:  12 kB`, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes.saturating_mul(1024))
}

/// The same once more, with what is shared counted once.
fn exact(init: Pid, everyone: &[Pid]) -> u64 {
    let (mut own_bytes, mut mapped) = (0u64, 0u64);
    for pid in everyone {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", pid.as_raw_pid())).unwrap_or_default();
        // What does not tell is counted as before.
        own_bytes = own_bytes.saturating_add(kibibytes(&text, "Pss_Anon:").unwrap_or_else(|| own(*pid)));
        mapped = mapped.saturating_add(kibibytes(&text, "Pss_Shmem:").unwrap_or(0));
    }
    own_bytes.saturating_add(mapped.max(open(init, everyone)))
}

/// Memory file systems inside, and memory files that somebody has open.
fn open(init: Pid, everyone: &[Pid]) -> u64 {
    let (mut used, mut mounted) = (0u64, BTreeSet::new());
    for name in IN_MEMORY {
        let path = format!("/proc/{}/root/{name}", init.as_raw_pid());
        let (Ok(found), Ok(of)) = (rustix::fs::statvfs(&path), rustix::fs::stat(&path)) else { continue };
        if mounted.insert(of.st_dev) {
            used = used
                .saturating_add(found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize));
        }
    }
    let Some(of_files) = device_of_memory_files() else { return used };
    let mut seen = BTreeSet::new();
    for pid in everyone {
        held::open_files(*pid, |of| {
            let device = rustix::fs::makedev(of.stx_dev_major, of.stx_dev_minor);
            if device == of_files && seen.insert(of.stx_ino) {
                used = used.saturating_add(of.stx_blocks.saturating_mul(512));
            }
        });
    }
    used
}

/// Memory files are all on one file system of the kernel's own.
fn device_of_memory_files() -> Option<u64> {
    let file = rustix::fs::memfd_create("palisade-watch", MemfdFlags::CLOEXEC).ok()?;
    rustix::fs::fstat(file).ok().map(|of| of.st_dev)
}
