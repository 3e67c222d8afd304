//! When something changed, as the file system says: the one time that a process cannot set.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, StatxTimestamp};

/// Some file systems round the time down to this many nanoseconds, others to whole seconds.
const ROUNDS: [u32; 2] = [10_000_000, 1_000];

/// The time by the clock that file systems take it from: it ticks, so what is written in the same tick has this time too, and
/// what was written in an earlier one has not.
pub(crate) fn now() -> SystemTime {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    UNIX_EPOCH + Duration::new(seconds.unwrap_or_default(), nanoseconds.unwrap_or_default())
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    seconds: i64,
    nanoseconds: u32,
}

impl Stamp {
    /// A moment by the clock of [`now`], which no later change is stamped before.
    pub(super) fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        }
    }

    /// Whether a time of a file is this or later, as far as its file system knows the time.
    fn is_reached_by(self, seconds: i64, nanoseconds: u32) -> bool {
        let round = ROUNDS.into_iter().find(|round| nanoseconds.is_multiple_of(*round)).unwrap_or(1);
        let own = if nanoseconds == 0 { 0 } else { self.nanoseconds - self.nanoseconds % round };
        (seconds, nanoseconds) >= (self.seconds, own)
    }
}

/// Whether something was changed after a moment; what cannot be looked at counts as if it was.
pub(super) fn is_changed_after(root: BorrowedFd<'_>, path: &Path, moment: Stamp) -> bool {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (above, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
    let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
    let found = rustix::fs::openat2(root, above, flags | OFlags::DIRECTORY, Mode::empty(), resolve)
        .and_then(|above| rustix::fs::statx(above, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::CTIME));
    found.map_or(true, |found| {
        (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec) > (moment.seconds, moment.nanoseconds)
    })
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
        // Others know hundredths, or millionths.
        let since = Stamp { seconds: 10, nanoseconds: 123_456_789 };
        for (nanoseconds, expected) in [
            (120_000_000, true),
            (110_000_000, false),
            (123_456_000, true),
            (123_455_000, false),
            (123_456_788, false),
            (123_456_789, true),
        ] {
            assert_eq!(since.is_reached_by(10, nanoseconds), expected, "{nanoseconds}");
        }
    }

    #[test]
    fn what_is_written_afterwards_is_stamped_no_earlier_and_what_was_written_before_is_not_taken_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let changed = |name: &str, since| {
            let folder = std::fs::File::open(folder.path()).unwrap();
            let name = std::ffi::CString::new(name).unwrap();
            Seen::at(std::os::fd::AsFd::as_fd(&folder), &name, since).unwrap().is_changed
        };
        for round in 0..50 {
            let (before, after) = (format!("before{round}"), format!("after{round}"));
            std::fs::write(folder.path().join(&before), "x").unwrap();
            // A tick of any kernel.
            std::thread::sleep(Duration::from_millis(11));
            let since = Stamp::of(now());
            std::fs::write(folder.path().join(&after), "x").unwrap();
            assert!(changed(&after, since) && !changed(&before, since));
        }
    }
}
