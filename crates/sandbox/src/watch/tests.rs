//! SBX-07: what is counted, in trees that are made to be miscounted.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::process::getpid;

use super::count::{Count, Found, Place, Start};
use super::{Over, soonest};

const KIB: u64 = 1 << 10;

fn place(path: &Path) -> Place {
    let at = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let device = rustix::fs::fstat(&at).unwrap().st_dev;
    Place { at, device, skip: Vec::new() }
}

/// A moment that what was made before does not reach.
fn later(folder: &Path) -> Start {
    let mark = folder.join("mark");
    let time = || {
        fs::write(&mark, "").unwrap();
        fs::metadata(&mark).unwrap().modified().unwrap()
    };
    let (first, until) = (time(), Instant::now() + Duration::from_secs(20));
    while time() < first + Duration::from_millis(40) {
        assert!(Instant::now() < until, "the clock stands still");
    }
    fs::remove_file(mark).unwrap();
    Start::now()
}

fn done(mut count: Count, places: &[Place]) -> (Found, bool) {
    assert!(count.go_on(places, Instant::now() + Duration::from_secs(60)));
    (count.found, count.is_whole)
}

fn beside(start: Start) -> Count {
    Count::beside(start.since(), Vec::new(), Vec::new())
}

fn counted(start: Start, at: &Path) -> Found {
    let (found, is_whole) = done(beside(start), &[place(at)]);
    assert!(is_whole);
    found
}

fn file(path: &Path, kibibytes: u64) {
    let mut file = File::create(path).unwrap();
    file.write_all(&vec![7; usize::try_from(kibibytes * KIB).unwrap()]).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn sbx_07_what_was_there_before_is_not_counted() {
    let folder = tempfile::tempdir().unwrap();
    file(&folder.path().join("before"), 512);
    let start = later(folder.path());

    file(&folder.path().join("after"), 256);

    let found = counted(start, folder.path());
    assert_eq!((found.new.bytes, found.new.inodes()), (256 * KIB, 1));
    // The directory itself was changed, and nothing else.
    assert_eq!(found.old.inodes(), 1);
    assert!(found.old.bytes < 64 * KIB, "{found:?}");
}

#[test]
fn sbx_07_what_is_on_disk_counts_and_not_how_long_a_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let start = later(folder.path());
    let sparse = File::create(folder.path().join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    assert_eq!(counted(start, folder.path()).new.bytes, 0);

    sparse.write_at(&[7; 4096], 1 << 39).unwrap();
    sparse.sync_all().unwrap();
    let with_a_block = counted(start, folder.path()).new.bytes;
    assert!((4096..=64 * KIB).contains(&with_a_block), "{with_a_block}");

    let room = File::create(folder.path().join("room")).unwrap();
    rustix::fs::fallocate(&room, FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
    assert_eq!(room.metadata().unwrap().len(), 0);
    let found = counted(start, folder.path());
    assert_eq!((found.new.bytes, found.new.inodes()), (with_a_block + (1 << 20), 2));
}

#[test]
fn sbx_07_a_file_with_many_names_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let start = later(folder.path());
    file(&folder.path().join("first"), 840);
    for number in 0..6 {
        fs::hard_link(folder.path().join("first"), folder.path().join(number.to_string())).unwrap();
    }
    let found = counted(start, folder.path());
    assert_eq!((found.new.bytes, found.new.inodes()), (840 * KIB, 1));
}

#[test]
fn sbx_07_links_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let start = later(folder.path());
    file(&elsewhere.path().join("large"), 512);
    symlink(elsewhere.path(), folder.path().join("folder")).unwrap();
    symlink(elsewhere.path().join("large"), folder.path().join("file")).unwrap();
    symlink(folder.path(), folder.path().join("round")).unwrap();
    let found = counted(start, folder.path());
    assert_eq!((found.new.bytes, found.new.inodes()), (0, 3));
}

#[test]
fn sbx_07_no_depth_no_width_and_no_name_hides_anything() {
    let folder = tempfile::tempdir().unwrap();
    let start = later(folder.path());
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let mut names = 0;
    for name in [&b"new\nline"[..], b"-rf", b"\xff\xfe", b" ", b"* ?"] {
        let odd = tree.join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir(&odd).unwrap();
        file(&odd.join("file"), 4);
        names += 2;
    }
    for number in 0..3_000 {
        fs::create_dir(tree.join(number.to_string())).unwrap();
        names += 1;
    }
    // Deeper than any path can say.
    let mut open = rustix::fs::open(&tree, OFlags::PATH, Mode::empty()).unwrap();
    for _ in 0..50 {
        let name = "d".repeat(200);
        rustix::fs::mkdirat(&open, &name, Mode::RWXU).unwrap();
        open = rustix::fs::openat(&open, &name, OFlags::PATH, Mode::empty()).unwrap();
        names += 1;
    }
    rustix::fs::openat(&open, "last", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();

    let found = counted(start, &tree);

    assert_eq!(found.new.inodes(), names + 2);
    // The same in slices.
    let places = [place(&tree)];
    let mut count = beside(start);
    let mut slices = 1;
    while !count.go_on(&places, Instant::now() + Duration::from_micros(200)) {
        slices += 1;
    }
    assert!(slices > 1 && count.found == found, "{slices}: {:?} {found:?}", count.found);
}

#[test]
fn sbx_07_what_is_locked_is_counted_while_all_stand_still_and_locked_again() {
    let folder = tempfile::tempdir().unwrap();
    let start = later(folder.path());
    let locked = folder.path().join("locked");
    fs::create_dir(&locked).unwrap();
    file(&locked.join("file"), 64);
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();

    let (found, is_whole) =
        done(Count::still(start.since(), Vec::new(), Vec::new()), &[place(folder.path())]);

    assert!(is_whole && found.new.bytes >= 64 * KIB, "{found:?}");
    assert_eq!(fs::metadata(&locked).unwrap().permissions().mode() & 0o777, 0);
    // The control: beside those who write, a user does not get in, and knows it.
    if !rustix::process::geteuid().is_root() {
        let (found, is_whole) = done(beside(start), &[place(folder.path())]);
        assert!(!is_whole && found.new.bytes < 64 * KIB, "{found:?}");
    }
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn sbx_07_a_directory_that_is_moved_away_meanwhile_leads_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let start = later(folder.path());
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    let places = [place(&tree)];
    let mut count = beside(start);
    // A step at a time, until it is in the innermost.
    while count.depth() < 3 {
        assert!(!count.step(&places));
    }
    fs::rename(tree.join("a/b"), folder.path().join("elsewhere")).unwrap();
    while !count.step(&places) {}
    assert!(!count.is_whole);
}

#[test]
fn sbx_07_open_files_without_a_name_are_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let start = later(folder.path());
    let path = folder.path().join("gone");
    file(&path, 128);
    let (open, again) = (File::open(&path).unwrap(), File::open(&path).unwrap());
    fs::remove_file(&path).unwrap();
    let places = [place(folder.path())];

    let (found, _) = done(Count::still(start.since(), vec![getpid()], vec![places[0].device]), &places);
    let (elsewhere, _) = done(Count::still(start.since(), vec![getpid()], vec![1]), &places);

    assert!((128 * KIB..256 * KIB).contains(&found.new.bytes), "{found:?}");
    assert_eq!(elsewhere.new.bytes, 0);
    drop((open, again));
}

#[test]
fn sbx_07_what_grew_counts_only_as_far_as_room_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    file(&folder.path().join("database"), 1024);
    let start = later(folder.path());
    let mut database = OpenOptions::new().write(true).open(folder.path().join("database")).unwrap();
    database.seek(std::io::SeekFrom::End(0)).unwrap();
    database.write_all(b"one more line").unwrap();
    database.sync_all().unwrap();
    file(&folder.path().join("new"), 64);

    let found = counted(start, folder.path());

    assert!(found.old.bytes >= 1024 * KIB && found.new.bytes == 64 * KIB, "{found:?}");
    for (fell, used) in [(0, 64), (64, 64), (100, 100), (4096, 64 + found.old.bytes / KIB)] {
        assert_eq!(super::disk::used_of(&found, fell * KIB), used * KIB, "{fell}");
    }
}

#[test]
fn the_nearer_a_limit_the_sooner_is_the_next_look() {
    assert_eq!(soonest(u64::MAX), super::MOST);
    assert_eq!(soonest(0), super::LEAST);
    assert!(soonest(600 << 20) < super::MOST && soonest(600 << 20) > super::LEAST);
}

#[test]
fn what_is_told_names_the_limit_and_what_gives_more() {
    let limits = crate::profile::Limits {
        memory: 64 << 20,
        cpu: crate::profile::Cpu::All,
        pids: 1,
        files: 1,
        file_size: 1,
        disk: 2 << 30,
        inodes: 100,
        io: None,
        tmp: 1,
        wall: Some(Duration::from_secs(90)),
        variable: 1,
    };
    for (over, name, most) in [
        (Over::Memory, "memory", "64m"),
        (Over::Disk, "disk", "2g"),
        (Over::Inodes, "inodes", "100"),
        (Over::Wall, "wall", "90s"),
    ] {
        let told = over.told(&limits);
        assert!(told.contains(&format!("the limit `{name}` of {most} ")), "{told}");
        assert!(told.contains(&format!("`--limit {name}=…`")), "{told}");
    }
}

/// Somebody else's large files are no reason to look away from the run's many small ones, nor the other way round.
#[test]
fn sbx_07_what_is_of_others_is_told_for_bytes_and_files_apart() {
    const MIB: u64 = 1 << 20;
    for (fell, grew, expected) in [
        ((32 * MIB, 5_000), (MIB, 5_000), (true, false)),
        ((32 * MIB, 5_000), (32 * MIB, 10), (false, true)),
        ((32 * MIB, 5_000), (MIB, 10), (true, true)),
        ((32 * MIB, 5_000), (20 * MIB, 3_000), (false, false)),
        // Too little to say.
        ((KIB, 3), (0, 0), (false, false)),
    ] {
        assert_eq!(super::disk::of_others(fell, grew), expected, "{fell:?} {grew:?}");
    }
}
