//! When something changed, as the file system says: the one time that a process cannot set.

use std::os::fd::BorrowedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, StatxTimestamp};

/// File systems take the time from a clock that ticks; the longest tick of any kernel.
const TICK: Duration = Duration::from_millis(10);

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    seconds: i64,
    nanoseconds: u32,
}

impl Stamp {
    /// A moment that no later change is stamped before.
    pub(super) fn before(time: SystemTime) -> Self {
        let since = time.checked_sub(TICK).unwrap_or(time).duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        }
    }

    /// Whether a time of a file is this or later. Some file systems know whole seconds only.
    fn is_reached_by(self, seconds: i64, nanoseconds: u32) -> bool {
        (seconds, nanoseconds) >= (self.seconds, if nanoseconds == 0 { 0 } else { self.nanoseconds })
    }
}

/// What is known of one entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) kind: FileType,
    /// It, or its list of entries, changed since.
    pub(super) is_changed: bool,
    /// It was made since, as far as the file system knows.
    pub(super) is_new: bool,
    /// Runs as its owner or its group.
    pub(super) lends_rights: bool,
}

impl Seen {
    /// Looks at an entry without following it.
    pub(super) fn at(
        folder: BorrowedFd<'_>,
        name: &std::ffi::CStr,
        since: Stamp,
    ) -> rustix::io::Result<Self> {
        let wanted = StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::CTIME | StatxFlags::BTIME;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
        rustix::fs::statx(folder, name, flags, wanted).map(|found| Self::of(&found, since))
    }

    fn of(found: &Statx, since: Stamp) -> Self {
        let mode = u32::from(found.stx_mode);
        let reached = |time: &StatxTimestamp| since.is_reached_by(time.tv_sec, time.tv_nsec);
        let is_changed = reached(&found.stx_ctime);
        let knows_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        let kind = FileType::from_raw_mode(mode);
        let lends = mode & libc::S_ISUID != 0
            || mode & (libc::S_ISGID | libc::S_IXGRP) == libc::S_ISGID | libc::S_IXGRP;
        Self {
            kind,
            is_changed,
            is_new: if knows_birth { reached(&found.stx_btime) } else { is_changed },
            lends_rights: kind == FileType::RegularFile && lends,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_knows_whole_seconds_is_believed() {
        let since = Stamp { seconds: 10, nanoseconds: 500 };
        for (seconds, nanoseconds, expected) in
            [(9, 999, false), (10, 499, false), (10, 500, true), (10, 0, true), (9, 0, false), (11, 0, true)]
        {
            assert_eq!(since.is_reached_by(seconds, nanoseconds), expected, "{seconds}.{nanoseconds}");
        }
    }
}
