//! What processes hold that has no name any more: open files, and files that are only mapped.
//!
//! Not seen: a file that is nowhere but in a message that nobody has taken out of its socket yet.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::count::{Found, Since, WANTED};

/// Calls with each open file of a process.
pub(super) fn open_files(pid: Pid, mut with: impl FnMut(&Statx)) {
    let wanted = StatxFlags::from_bits_retain(WANTED);
    match fs::read_dir(format!("/proc/{}/fd", pid.as_raw_pid())) {
        Ok(entries) => entries.flatten().for_each(|entry| {
            if let Ok(of) = rustix::fs::statx(CWD, entry.path(), AtFlags::empty(), wanted) {
                with(&of);
            }
        }),
        // A process that may not be dumped does not show its list; whoever made its namespaces can still take each.
        Err(_) => drop(taken(pid, |file| {
            if let Ok(of) = rustix::fs::statx(&file, c"", AtFlags::EMPTY_PATH, wanted) {
                with(&of);
            }
        })),
    }
}

/// Calls with a copy of each open file of a process.
fn taken(pid: Pid, mut with: impl FnMut(OwnedFd)) -> Option<()> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).ok()?;
    let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"))?.trim().parse().ok()?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    for number in 0..size {
        match pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) {
            Ok(file) => with(file),
            Err(Errno::BADF) => {}
            Err(_) => return None,
        }
    }
    Some(())
}

/// Files without a name that are on these devices, each counted once.
#[derive(Debug, Default)]
pub(super) struct Nameless {
    seen: BTreeSet<(u64, u64)>,
}

impl Nameless {
    /// Adds what one process holds.
    pub(super) fn add(&mut self, pid: Pid, devices: &[u64], since: &Since, found: &mut Found) {
        open_files(pid, |of| {
            let device = rustix::fs::makedev(of.stx_dev_major, of.stx_dev_minor);
            let is_file = u32::from(of.stx_mode) & libc::S_IFMT == libc::S_IFREG;
            if is_file
                && of.stx_nlink == 0
                && devices.contains(&device)
                && self.seen.insert((device, of.stx_ino))
            {
                found.add(of, since);
            }
        });
        // A mapping holds its file without a descriptor. How much of it is on disk is not told, so it counts as far as
        // the free space shows it.
        let maps = fs::read(format!("/proc/{}/maps", pid.as_raw_pid())).unwrap_or_default();
        for line in maps.split(|byte| *byte == b'\n') {
            if let Some((device, inode, length)) = deleted(line)
                && devices.contains(&device)
                && !self.seen.contains(&(device, inode))
            {
                found.old.bytes = found.old.bytes.saturating_add(length);
            }
        }
    }
}

/// Device, number and length of a mapping whose file has no name.
fn deleted(line: &[u8]) -> Option<(u64, u64, u64)> {
    let line = line.strip_suffix(b" (deleted)")?;
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let mut word = || std::str::from_utf8(words.next()?).ok();
    let (from, to) = word()?.split_once('-')?;
    let (_access, _offset) = (word()?, word()?);
    let (major, minor) = word()?.split_once(':')?;
    let inode = word()?.parse().ok()?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let half = |text: &str| u32::from_str_radix(text, 16).ok();
    Some((rustix::fs::makedev(half(major)?, half(minor)?), inode, hex(to)?.checked_sub(hex(from)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mappings_of_files_without_a_name_are_read() {
        let line = b"7f00-8f00 rw-s 00000000 fd:01 77    /work/odd\xff name (deleted)";
        assert_eq!(deleted(line), Some((rustix::fs::makedev(0xfd, 1), 77, 0x1000)));
        assert_eq!(deleted(b"7f00-8f00 rw-s 00000000 fd:01 77    /work/name"), None);
        assert_eq!(deleted(b"7f00-8f00 rw-p 00000000 00:00 0"), None);
        assert_eq!(deleted(b" (deleted)"), None);
    }
}
