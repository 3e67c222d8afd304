//! What a run has added on disk: in the worktree or its layer, the home inside and every other place it may write to.
//!
//! Flow: the free space of the file systems is asked, which costs nothing -> when it fell by what the run has left, the
//! run stands still and what it added is counted ([`super::count`]) -> beyond the limit it is ended, else it goes on.
//! So whoever else fills the disk costs the run a count, not its life. Others can make room meanwhile, so what it fell
//! between two looks is added up as well, and there is a slow count after somebody made room and now and then; what
//! that finds beyond the limit is counted again while the run stands still.
//!
//! Honest about what cannot be known: files that were there before and grew count only as far as the free space fell
//! since the start; what others write to the same places meanwhile counts as the run's.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

use super::count::{Amount, Count, Found, Place, Start};
use super::{Over, soonest};
use crate::freeze::{self, descendants};
use crate::groups::Groups;
use crate::plan::{Access, Added, Mount, Plan, Source, is_below};

/// What is too little to be told from what a launch itself leaves.
const GRAIN: Added = Added { bytes: 256 << 10, inodes: 64 };
/// The share of a limit by which it may be missed, so that near it not every block is a reason to count.
const SLACK: u64 = 50;
/// What nobody is faster than, in files a second.
const FILES: u64 = 250_000;
/// A slice of a count for which the run stands still: between two, signals and output are looked after.
const SLICE: Duration = Duration::from_millis(10);
/// A slice of a slow count, and the pause after it.
const SLOW_SLICE: Duration = Duration::from_millis(1);
const SLOW_PAUSE: Duration = Duration::from_millis(100);
/// The first slow count, the pause between two, and how many times its own time it waits at least.
const FIRST_SLOW: Duration = Duration::from_secs(10);
const NEXT_SLOW: Duration = Duration::from_secs(60);
const SLOW_SHARE: u32 = 1000;
/// The same after somebody made room: what was written meanwhile did not show.
const ROOM_SHARE: u32 = 50;
/// Falls that others may have made up for, or all if the last were of others, are a reason to count only so many times
/// the last count's time after it.
const SHARE: u32 = 4;

/// Room on a file system.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    bytes: u64,
    inodes: u64,
}

impl Room {
    fn on(place: &Place) -> Self {
        let of = rustix::fs::fstatvfs(&place.at);
        of.map_or(Self::default(), |of| Self {
            bytes: of.f_bfree.saturating_mul(of.f_frsize),
            inodes: of.f_ffree,
        })
    }
}

/// Whether what the room fell by before the last count was for the most part not the run's: of its bytes and of its files, each
/// by itself, since whoever else writes much must not hide that the run makes many small files.
#[derive(Clone, Copy, Debug, Default)]
struct OfOthers {
    bytes: bool,
    inodes: bool,
}

impl OfOthers {
    fn of(fell: Room, grew: Room) -> Self {
        let of = |fell: u64, grew: u64, grain: u64| fell >= grain && grew < fell / 2;
        Self {
            bytes: of(fell.bytes, grew.bytes, GRAIN.bytes),
            inodes: of(fell.inodes, grew.inodes, GRAIN.inodes),
        }
    }
}

/// A count, and what it is for.
#[derive(Debug)]
struct Counting {
    count: Count,
    /// Whether the run stands still for it.
    is_exact: bool,
    /// Whether it stands still because of this.
    holds: bool,
    /// The room when it began.
    room: Vec<Room>,
    spent: Duration,
}

#[derive(Debug)]
pub(super) struct Disk {
    most: Added,
    start: Start,
    places: Vec<Place>,
    /// One place of each file system.
    volumes: Vec<usize>,
    /// Overlays inside, by where they are: what is open in them has their number.
    layers: Vec<PathBuf>,
    /// Room at the start, and at the last count.
    at_start: Vec<Room>,
    at_count: Vec<Room>,
    /// Room at the last look, and all falls since the last count.
    last: Vec<Room>,
    falls: Room,
    /// When falls alone are a reason again, and when it is one that somebody made room.
    patient_until: Instant,
    of_others: OfOthers,
    calm_until: Instant,
    /// What the last count found.
    known: Amount,
    counting: Option<Counting>,
    next: Instant,
    next_slow: Instant,
}

impl Disk {
    /// Watches the places of a plan; none if nothing of the host can be written to.
    pub(super) fn new(plan: &Plan, most: Added) -> Option<Self> {
        let start = Start::now();
        let places: Vec<Place> =
            written(plan).into_iter().filter_map(|(path, skip)| place(path, skip)).collect();
        let volumes: Vec<usize> = (0..places.len()).filter(|at| is_first_of_its_own(&places, *at)).collect();
        let layers = plan.mounts.iter().filter(|mount| matches!(mount.source, Source::Layer(_)));
        let layers = layers.map(|mount| mount.at.clone()).collect();
        let now = Instant::now();
        let mut disk = Self {
            most,
            start,
            places,
            volumes,
            layers,
            at_start: Vec::new(),
            at_count: Vec::new(),
            last: Vec::new(),
            falls: Room::default(),
            patient_until: now,
            of_others: OfOthers::default(),
            calm_until: now,
            known: Amount::default(),
            counting: None,
            next: now,
            next_slow: now + FIRST_SLOW,
        };
        disk.at_start = disk.room();
        (disk.at_count, disk.last) = (disk.at_start.clone(), disk.at_start.clone());
        disk.next = now + disk.pause(Room::default());
        (!disk.places.is_empty()).then_some(disk)
    }

    pub(super) fn due(&self) -> Instant {
        self.next
    }

    /// Looks, if it is time to; says what there is too much of.
    pub(super) fn look(&mut self, init: Pid, groups: &Groups, stands: bool) -> Option<Over> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        if !self.counting.as_ref().is_some_and(|counting| counting.is_exact) {
            let fell = self.fell(now);
            let left = self.left();
            if fell.bytes >= left.bytes || fell.inodes >= left.inodes {
                self.begin_exact(init, groups, stands);
            } else if self.counting.is_none() && now >= self.next_slow {
                let count = Count::beside(self.start.since(), descendants(init), self.devices(init));
                let room = self.room();
                self.counting =
                    Some(Counting { count, is_exact: false, holds: false, room, spent: Duration::ZERO });
            }
            self.next = now + self.pause(fell);
        }
        let counting = self.counting.as_mut()?;
        let (slice, pause) =
            if counting.is_exact { (SLICE, Duration::ZERO) } else { (SLOW_SLICE, SLOW_PAUSE) };
        let begun = Instant::now();
        let is_done = counting.count.go_on(&self.places, begun + slice);
        counting.spent += begun.elapsed();
        self.next = self.next.min(Instant::now() + pause);
        if is_done { self.counted(init, groups, stands) } else { None }
    }

    fn begin_exact(&mut self, init: Pid, groups: &Groups, stands: bool) {
        let holds = !stands && freeze::set(groups, init, true).is_ok();
        let count = Count::still(self.start.since(), descendants(init), self.devices(init));
        self.counting =
            Some(Counting { count, is_exact: true, holds, room: self.room(), spent: Duration::ZERO });
    }

    /// The numbers of everything that is watched.
    fn devices(&self, init: Pid) -> Vec<u64> {
        let inside = format!("/proc/{}/root", init.as_raw_pid());
        let layers = self.layers.iter().filter_map(|at| {
            let path = Path::new(&inside).join(at.strip_prefix("/").unwrap_or(at));
            rustix::fs::stat(&path).map(|of| of.st_dev).ok()
        });
        self.places.iter().map(|place| place.device).chain(layers).collect()
    }

    /// What is to be done about what was counted.
    fn counted(&mut self, init: Pid, groups: &Groups, stands: bool) -> Option<Over> {
        let Counting { count, is_exact, holds, room, spent } = self.counting.take()?;
        let now = Instant::now();
        self.next_slow = now + NEXT_SLOW.max(spent.saturating_mul(SLOW_SHARE));
        let used = used(&count.found, fallen(&self.at_start, &room));
        let over = self.over(&used);
        if is_exact {
            let grew = Room {
                bytes: used.bytes.saturating_sub(self.known.bytes),
                inodes: used.inodes().saturating_sub(self.known.inodes()),
            };
            self.of_others = OfOthers::of(fallen(&self.at_count, &room), grew);
            self.patient_until = now + spent.saturating_mul(SHARE);
        }
        if is_exact || (count.is_whole && over.is_none()) {
            (self.known, self.at_count, self.last) = (used, room.clone(), room);
            self.falls = Room::default();
        }
        self.calm_until = now + spent.saturating_mul(ROOM_SHARE);
        self.next = now + self.pause(Room::default());
        match (over, is_exact) {
            (Some(_), false) => {
                self.begin_exact(init, groups, stands);
                self.next = now;
                None
            }
            (Some(over), true) => Some(over),
            (None, _) => {
                // Who was told to stand still by a person meanwhile stays so.
                if holds && !stands {
                    let _ = freeze::set(groups, init, false);
                }
                None
            }
        }
    }

    fn over(&self, used: &Amount) -> Option<Over> {
        if used.bytes > self.most.bytes.saturating_add(GRAIN.bytes) {
            Some(Over::Disk)
        } else if used.inodes() > self.most.inodes.saturating_add(GRAIN.inodes) {
            Some(Over::Inodes)
        } else {
            None
        }
    }

    fn room(&self) -> Vec<Room> {
        self.volumes.iter().filter_map(|at| self.places.get(*at)).map(Room::on).collect()
    }

    /// By how much less room there is than at the last count, and than there would be if nobody had made any.
    fn fell(&mut self, now: Instant) -> Room {
        let room = self.room();
        let (more, since) = (fallen(&self.last, &room), fallen(&self.at_count, &room));
        if fallen(&room, &self.last).bytes >= GRAIN.bytes {
            self.next_slow = self.next_slow.min(self.calm_until);
        }
        self.last = room;
        self.falls.bytes = self.falls.bytes.saturating_add(more.bytes);
        self.falls.inodes = self.falls.inodes.saturating_add(more.inodes);
        let is_patient = now < self.patient_until;
        let of = |falls: u64, since: u64, of_others: bool| match (is_patient, of_others) {
            (false, _) => falls,
            (true, false) => since,
            (true, true) => 0,
        };
        Room {
            bytes: of(self.falls.bytes, since.bytes, self.of_others.bytes),
            inodes: of(self.falls.inodes, since.inodes, self.of_others.inodes),
        }
    }

    /// By how much the room may fall until there is a reason to count.
    fn left(&self) -> Room {
        let left =
            |most: u64, known: u64, grain: u64| most.saturating_sub(known).max(most / SLACK).max(grain);
        Room {
            bytes: left(self.most.bytes, self.known.bytes, GRAIN.bytes),
            inodes: left(self.most.inodes, self.known.inodes(), GRAIN.inodes),
        }
    }

    fn pause(&self, fell: Room) -> Duration {
        let left = self.left();
        let files = left.inodes.saturating_sub(fell.inodes);
        soonest(left.bytes.saturating_sub(fell.bytes))
            .min(Duration::from_micros(files.saturating_mul(1_000_000) / FILES).max(super::LEAST))
    }
}

/// By how much there is less room, on all file systems together.
fn fallen(before: &[Room], now: &[Room]) -> Room {
    before.iter().zip(now).fold(Room::default(), |sum, (before, now)| Room {
        bytes: sum.bytes.saturating_add(before.bytes.saturating_sub(now.bytes)),
        inodes: sum.inodes.saturating_add(before.inodes.saturating_sub(now.inodes)),
    })
}

/// What the run took: what it made, and of what it changed as much as can be missing.
fn used(found: &Found, fell: Room) -> Amount {
    let mut used = found.new;
    used.bytes = used.bytes.saturating_add(found.old.bytes.min(fell.bytes.saturating_sub(used.bytes)));
    used
}

#[cfg(test)]
pub(super) fn used_of(found: &Found, bytes: u64) -> u64 {
    used(found, Room { bytes, inodes: 0 }).bytes
}

/// Whether bytes and files that the room fell by are of others, if the run itself added so many.
#[cfg(test)]
pub(super) fn of_others(fell: (u64, u64), grew: (u64, u64)) -> (bool, bool) {
    let room = |(bytes, inodes)| Room { bytes, inodes };
    let OfOthers { bytes, inodes } = OfOthers::of(room(fell), room(grew));
    (bytes, inodes)
}

/// Places of the host that can be written to, and the names in each that something else covers.
fn written(plan: &Plan) -> Vec<(&Path, Vec<CString>)> {
    let host = |mount: &'_ Mount| match &mount.source {
        Source::Host(_) | Source::Layer(_) => mount.access == Access::Write,
        // What is written to a part goes to its layer.
        Source::Memory(..)
        | Source::Processes
        | Source::Terminals
        | Source::Nothing
        | Source::Part { .. }
        | Source::Skeleton(_) => false,
    };
    let mut all: Vec<(&Path, Vec<CString>)> = Vec::new();
    for mount in plan.mounts.iter().filter(|mount| host(mount)) {
        let path = match &mount.source {
            Source::Host(path) => path.as_path(),
            Source::Layer(layer) => layer.changes.as_path(),
            Source::Memory(..)
            | Source::Processes
            | Source::Terminals
            | Source::Nothing
            | Source::Part { .. }
            | Source::Skeleton(_) => continue,
        };
        // What lies below another is counted with it.
        if !all.iter().any(|(above, _)| path.starts_with(above)) {
            all.retain(|(below, _)| !below.starts_with(path));
            let skip = match &mount.source {
                Source::Host(_) => covered(plan, mount),
                _ => Vec::new(),
            };
            all.push((path, skip));
        }
    }
    all
}

/// Names right below a mount that lead elsewhere or cannot be written to.
fn covered(plan: &Plan, above: &Mount) -> Vec<CString> {
    let covers = |mount: &&Mount| {
        let is_elsewhere = matches!(mount.source, Source::Layer(_)) || mount.access != Access::Write;
        is_elsewhere && is_below(&mount.at, &above.at) && mount.at.parent() == Some(above.at.as_path())
    };
    let names = plan.mounts.iter().filter(covers).filter_map(|mount| mount.at.file_name());
    names.filter_map(|name| CString::new(name.as_bytes()).ok()).collect()
}

fn place(path: &Path, skip: Vec<CString>) -> Option<Place> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let at = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let device = rustix::fs::fstat(&at).ok()?.st_dev;
    Some(Place { at, device, skip })
}

fn is_first_of_its_own(places: &[Place], at: usize) -> bool {
    let device = |at: usize| places.get(at).map(|place| place.device);
    (0..at).all(|before| device(before) != device(at))
}
