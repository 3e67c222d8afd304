//! Counts what was added to directories since a moment: places -> [`Found`], a slice at a time.
//!
//! Invariants: no link is followed and no other file system entered; one descriptor is open at a time, and what is kept
//! grows with the depth of a tree, not with its width; any depth and any name can be walked. What a file takes on disk
//! counts, not how long it is; a file with several names counts in parts, all names together as one.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, SeekFrom, Statx, StatxFlags, StatxTimestamp,
};
use rustix::io::Errno;
use rustix::process::Pid;

use super::held::Nameless;

/// What is asked about a file.
pub(super) const WANTED: u32 = StatxFlags::BASIC_STATS.bits() | StatxFlags::BTIME.bits();
/// One file, in the parts that its names count.
const WHOLE: u64 = 1 << 20;
/// File systems take the time from a clock that ticks; the longest tick of any kernel.
const TICK: Duration = Duration::from_millis(10);

/// The moment from which on something counts. A clock that is set back meanwhile takes it along.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    time: SystemTime,
    begun: Instant,
}

impl Start {
    pub(super) fn now() -> Self {
        Self { time: SystemTime::now(), begun: Instant::now() }
    }

    pub(super) fn since(&self) -> Since {
        let went = SystemTime::now().duration_since(self.time).unwrap_or_default();
        let lost = self.begun.elapsed().saturating_sub(went);
        let time = self.time.checked_sub(lost + TICK).unwrap_or(self.time);
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Since {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        }
    }
}

/// The same as file systems write it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    seconds: i64,
    nanoseconds: u32,
}

impl Since {
    /// Some file systems know whole seconds only.
    fn is_reached_by(&self, time: &StatxTimestamp) -> bool {
        (time.tv_sec, time.tv_nsec) >= (self.seconds, if time.tv_nsec == 0 { 0 } else { self.nanoseconds })
    }
}

/// Bytes on disk, and files and directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) bytes: u64,
    /// In parts of [`WHOLE`].
    parts: u64,
}

impl Amount {
    pub(super) fn inodes(&self) -> u64 {
        self.parts.div_ceil(WHOLE)
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Made since.
    pub(super) new: Amount,
    /// Older and changed since, as a whole: how much of it is new nobody knows.
    pub(super) old: Amount,
}

impl Found {
    pub(super) fn add(&mut self, of: &Statx, since: &Since) {
        if !since.is_reached_by(&of.stx_ctime) {
            return;
        }
        let knows_birth = of.stx_mask & StatxFlags::BTIME.bits() != 0;
        let to =
            if knows_birth && since.is_reached_by(&of.stx_btime) { &mut self.new } else { &mut self.old };
        let is_folder = FileType::from_raw_mode(of.stx_mode.into()) == FileType::Directory;
        let names = if is_folder { 1 } else { u64::from(of.stx_nlink.max(1)) };
        to.bytes = to.bytes.saturating_add(of.stx_blocks.saturating_mul(512) / names);
        to.parts = to.parts.saturating_add(WHOLE / names);
    }
}

/// A place that is counted.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) at: OwnedFd,
    pub(super) device: u64,
    /// Names in it that lead elsewhere inside.
    pub(super) skip: Vec<CString>,
}

/// A directory on the way down.
#[derive(Debug)]
struct Level {
    identity: (u64, u64),
    /// Where to read on.
    cookie: u64,
    is_read: bool,
    /// Directories in it that are still to be entered.
    left: Vec<CString>,
    /// What it was before it was made readable.
    mode: Option<Mode>,
}

/// A count at work.
#[derive(Debug)]
pub(super) struct Count {
    since: Since,
    pub(super) found: Found,
    /// Whether everything was seen: nothing was moved away meanwhile, nothing was locked.
    pub(super) is_whole: bool,
    /// Whether what cannot be read is made readable for the moment.
    opens: bool,
    place: usize,
    levels: Vec<Level>,
    /// The last of the levels.
    open: Option<OwnedFd>,
    processes: Vec<Pid>,
    devices: Vec<u64>,
    nameless: Nameless,
}

impl Count {
    /// Counts beside those who write, with what these processes hold on these devices without a name. What they lock
    /// stays unknown.
    pub(super) fn beside(since: Since, processes: Vec<Pid>, devices: Vec<u64>) -> Self {
        Self {
            since,
            found: Found::default(),
            is_whole: true,
            opens: false,
            place: 0,
            levels: Vec::new(),
            open: None,
            processes,
            devices,
            nameless: Nameless::default(),
        }
    }

    /// The same while they stand still: everything.
    pub(super) fn still(since: Since, processes: Vec<Pid>, devices: Vec<u64>) -> Self {
        Self { opens: true, ..Self::beside(since, processes, devices) }
    }

    /// Goes on until then; whether it is done.
    pub(super) fn go_on(&mut self, places: &[Place], until: Instant) -> bool {
        while Instant::now() < until {
            if self.step(places) {
                return true;
            }
        }
        false
    }

    /// Does the next thing; whether there is none left.
    pub(super) fn step(&mut self, places: &[Place]) -> bool {
        if let Some(level) = self.levels.last_mut() {
            if let Some(name) = level.left.pop() {
                self.enter(&name);
            } else if level.is_read {
                self.leave();
            } else {
                self.read(places);
            }
        } else if let Some(place) = places.get(self.place) {
            self.place += 1;
            self.begin(place);
        } else if let Some(pid) = self.processes.pop() {
            self.nameless.add(pid, &self.devices, &self.since, &mut self.found);
        } else {
            return true;
        }
        false
    }

    #[cfg(test)]
    pub(super) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// The place itself; it may be a file.
    fn begin(&mut self, place: &Place) {
        match stat(place.at.as_fd(), c"") {
            Ok(of) if is_folder(&of) => self.down(readable(place.at.as_fd(), c".", self.opens)),
            Ok(of) => self.found.add(&of, &self.since),
            Err(_) => self.is_whole = false,
        }
    }

    fn enter(&mut self, name: &CStr) {
        if let Some(open) = &self.open {
            let inner = readable(open.as_fd(), name, self.opens);
            self.down(inner);
        }
    }

    fn down(&mut self, inner: rustix::io::Result<(OwnedFd, Option<Mode>)>) {
        match inner.and_then(|(open, mode)| stat(open.as_fd(), c"").map(|of| (open, mode, of))) {
            Ok((open, mode, of)) => {
                self.found.add(&of, &self.since);
                let (cookie, is_read, left) = (0, false, Vec::new());
                self.levels.push(Level { identity: identity(&of), cookie, is_read, left, mode });
                self.open = Some(open);
            }
            // Gone, replaced by something else, or on another file system.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {}
            Err(_) => self.is_whole = false,
        }
    }

    /// Reads some entries of the last level: files are counted, directories wait.
    fn read(&mut self, places: &[Place]) {
        let is_top = self.levels.len() == 1;
        let skip =
            self.place.checked_sub(1).and_then(|at| places.get(at)).filter(|_| is_top).map(|of| &of.skip);
        let (Some(level), Some(open)) = (self.levels.last_mut(), &self.open) else { return };
        let mut room = [MaybeUninit::uninit(); 32 * 1024];
        if rustix::fs::seek(open, SeekFrom::Start(level.cookie)).is_err() {
            (level.is_read, self.is_whole) = (true, false);
            return;
        }
        let mut entries = RawDir::new(open, &mut room);
        loop {
            match entries.next() {
                Some(Ok(entry)) => {
                    level.cookie = entry.next_entry_cookie();
                    let name = entry.file_name();
                    let is_skipped =
                        skip.is_some_and(|skip| skip.iter().any(|other| other.as_c_str() == name));
                    if matches!(name.to_bytes(), b"." | b"..") || is_skipped {
                        // Counted from above.
                    } else if entry.file_type() == FileType::Directory {
                        level.left.push(name.to_owned());
                    } else {
                        match stat(open.as_fd(), name) {
                            Ok(of) if is_folder(&of) => level.left.push(name.to_owned()),
                            Ok(of) => self.found.add(&of, &self.since),
                            Err(Errno::NOENT) => {}
                            Err(_) => self.is_whole = false,
                        }
                    }
                }
                Some(Err(_)) => (level.is_read, self.is_whole) = (true, false),
                None => level.is_read = true,
            }
            if level.is_read || entries.is_buffer_empty() {
                return;
            }
        }
    }

    /// Back to the level above, if it is still there.
    fn leave(&mut self) {
        let (Some(level), Some(open)) = (self.levels.pop(), self.open.take()) else { return };
        let above = self.levels.last().map(|above| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = rustix::fs::openat(&open, c"..", flags, Mode::empty())?;
            let is_same = stat(found.as_fd(), c"").is_ok_and(|of| identity(&of) == above.identity);
            if is_same { Ok(found) } else { Err(Errno::NOENT) }
        });
        if let Some(mode) = level.mode {
            let _ = rustix::fs::fchmod(&open, mode);
        }
        match above {
            Some(Ok(found)) => self.open = Some(found),
            Some(Err(_)) => {
                // It was moved: where this leads nobody knows.
                self.levels.clear();
                self.is_whole = false;
            }
            None => {}
        }
    }
}

fn stat(folder: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<Statx> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
    rustix::fs::statx(folder, name, flags, StatxFlags::from_bits_retain(WANTED))
}

fn is_folder(of: &Statx) -> bool {
    FileType::from_raw_mode(of.stx_mode.into()) == FileType::Directory
}

fn identity(of: &Statx) -> (u64, u64) {
    (rustix::fs::makedev(of.stx_dev_major, of.stx_dev_minor), of.stx_ino)
}

/// A directory in a directory, on the same file system. One that its owner locked is opened for the moment; its mode is
/// given back.
fn readable(folder: BorrowedFd<'_>, name: &CStr, opens: bool) -> rustix::io::Result<(OwnedFd, Option<Mode>)> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |flags| rustix::fs::openat2(folder, name, flags, Mode::empty(), resolve);
    let (all, may) = (Mode::RUSR | Mode::XUSR, open(flags | OFlags::RDONLY));
    let is_locked = match &may {
        Err(Errno::ACCESS) => true,
        Err(error) => return Err(*error),
        // It can be listed; whether what is in it can be looked at is another right.
        Ok(found) => !rustix::process::geteuid().is_root() && !mode(found.as_fd())?.contains(Mode::XUSR),
    };
    if !is_locked {
        return may.map(|found| (found, None));
    }
    if !opens {
        return Err(Errno::ACCESS);
    }
    let place = open(flags | OFlags::PATH)?;
    let before = mode(place.as_fd())?;
    // By number: the mode of a mere place cannot be set otherwise.
    let by_number = format!("/proc/self/fd/{}", place.as_raw_fd());
    rustix::fs::chmodat(CWD, by_number.as_str(), before | all, AtFlags::empty())?;
    open(flags | OFlags::RDONLY).map(|found| (found, Some(before)))
}

fn mode(of: BorrowedFd<'_>) -> rustix::io::Result<Mode> {
    Ok(Mode::from_raw_mode(rustix::fs::fstat(of)?.st_mode & 0o7777))
}
