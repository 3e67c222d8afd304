//! Puts covers over places inside a sandbox that is at work: a child enters its view of files, looks, mounts, ends.
//!
//! Invariants: no link is followed inside; what is covered already is left alone; when this says that a place is
//! covered, the kernel says so too. The child enters the user and mount namespaces only, so nobody inside can see it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::OpenTreeFlags;
use rustix::process::{DumpableBehavior, Signal};
use rustix::thread::ThreadNameSpaceType;
use serde::{Deserialize, Serialize};

use crate::launch::{LONGEST, Tree as Processes, comes};
use crate::plan::{Access, Mount, Source};
use crate::root::{beneath, nothing, put};
use crate::sys::process::{Side, fork, leave};
use crate::sys::{self, Attributes};

/// How often a place that the host keeps replacing is tried.
const TRIES: usize = 16;

/// What is to be over a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Nothing: it is hidden.
    Nothing,
    /// Itself, to be read only.
    Read,
    /// Itself, so that it cannot be moved.
    Write,
}

/// What is true of a place now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Is {
    /// A cover was there.
    Covered,
    /// A cover was put there.
    CoveredNow,
    /// Nothing is there.
    Absent,
    /// A link is there, or on the way: it cannot be covered, and leads to what has a name of its own.
    Link,
}

/// Covers what is not covered; one answer for each place.
pub(super) fn cover(init: BorrowedFd<'_>, places: &[(&Path, How)]) -> io::Result<Vec<Is>> {
    let (answers, tells) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match fork(0, None)? {
        Side::Child => {
            drop(answers);
            let told: Result<Vec<Is>, (String, i32)> = all(init, places);
            let told = serde_json::to_vec(&told).unwrap_or_default();
            let mut rest = told.as_slice();
            while let Ok(written @ 1..) = rustix::io::write(&tells, rest) {
                rest = rest.get(written..).unwrap_or_default();
            }
            leave(0)
        }
        Side::Parent(pid, pidfd) => {
            drop(tells);
            let mut child = Processes::new(pid, pidfd)?;
            let told = read(&answers);
            child.end();
            let told: Result<Vec<Is>, (String, i32)> = serde_json::from_slice(&told?)?;
            let named = |(place, error): (String, i32)| {
                io::Error::other(format!("`{place}`: {}", io::Error::from_raw_os_error(error)))
            };
            let told = told.map_err(named)?;
            if told.len() == places.len() { Ok(told) } else { Err(Errno::PROTO.into()) }
        }
    }
}

/// All that comes until the other end is closed; an error if nothing comes for too long.
pub(super) fn read(from: &OwnedFd) -> io::Result<Vec<u8>> {
    let (mut all, mut bytes) = (Vec::new(), [0u8; 8192]);
    loop {
        if !comes(from.as_fd(), LONGEST)? {
            return Err(Errno::TIMEDOUT.into());
        }
        match rustix::io::read(from, &mut bytes) {
            Ok(0) => return Ok(all),
            Ok(got) => all.extend_from_slice(bytes.get(..got).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// In the child: enters, and covers one place after the other.
fn all(init: BorrowedFd<'_>, places: &[(&Path, How)]) -> Result<Vec<Is>, (String, i32)> {
    let failed = |what: &str, error: &io::Error| (what.to_owned(), error.raw_os_error().unwrap_or(0));
    let enter = || -> io::Result<OwnedFd> {
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        let view = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT;
        rustix::thread::move_into_thread_name_spaces(init, view)?;
        Ok(rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    };
    let root = enter().map_err(|error| failed("the sandbox", &error))?;
    let one = |(place, how): &(&Path, How)| {
        one(root.as_fd(), place, *how).map_err(|error| failed(&place.to_string_lossy(), &error))
    };
    places.iter().map(one).collect()
}

fn one(root: BorrowedFd<'_>, place: &Path, how: How) -> io::Result<Is> {
    let (mut was, mut last) = (Is::Covered, io::Error::from(Errno::BUSY));
    for _ in 0..TRIES {
        let there = match beneath(root, place) {
            Ok(there) => there,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Is::Absent),
            Err(Errno::LOOP) => return Ok(Is::Link),
            Err(error) => return Err(error.into()),
        };
        let found = rustix::fs::statx(&there, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
        if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            return Ok(was);
        }
        if FileType::from_raw_mode(found.stx_mode.into()) == FileType::Symlink {
            return Ok(Is::Link);
        }
        // Seen again the next time round: only then it is covered.
        match put_over(root, &there, place, how) {
            Ok(()) => was = Is::CoveredNow,
            // It may have been replaced in this very moment, by something of another kind.
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn put_over(root: BorrowedFd<'_>, there: &OwnedFd, place: &Path, how: How) -> io::Result<()> {
    let mount = |source, access| Mount { programs: false, ..Mount::own(source, place, access) };
    let itself = |access| {
        let flags =
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
        let tree = rustix::mount::open_tree(there, "", flags | OpenTreeFlags::AT_RECURSIVE)?;
        let mount = Mount::host(place, place, access);
        let set =
            Attributes { set: mount.attributes(), private: true, recursive: true, ..Attributes::default() };
        sys::set_attributes(tree.as_fd(), set)?;
        Ok::<OwnedFd, io::Error>(tree)
    };
    let tree = match how {
        How::Nothing => nothing(&mount(Source::Nothing, Access::Read), root, there.as_fd())?,
        How::Read => itself(Access::Read)?,
        How::Write => itself(Access::Write)?,
    };
    Ok(put(&tree, there.as_fd(), Path::new(""))?)
}

/// What a descriptor of the host's own view is.
pub(super) fn identity(there: &OwnedFd) -> rustix::io::Result<(u64, u64, u64)> {
    let found = rustix::fs::fstat(there)?;
    let links =
        if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile { found.st_nlink } else { 1 };
    Ok((found.st_dev, found.st_ino, links))
}

/// Whether a process has one of these files open so that it can be read, or stands in it.
pub(super) fn reads(pid: rustix::process::Pid, files: &[(u64, u64)]) -> bool {
    let own = format!("/proc/{}", pid.as_raw_pid());
    let is_one = |path: &str| {
        rustix::fs::statat(CWD, path, AtFlags::empty())
            .is_ok_and(|found| files.contains(&(found.st_dev, found.st_ino)))
    };
    let can_be_read = |number: &str| {
        let told = std::fs::read_to_string(format!("{own}/fdinfo/{number}")).unwrap_or_default();
        let flags = told
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .and_then(|text| i32::from_str_radix(text.trim(), 8).ok());
        flags.is_none_or(|flags| flags & libc::O_ACCMODE != libc::O_WRONLY || flags & libc::O_PATH != 0)
    };
    let open = std::fs::read_dir(format!("{own}/fd")).into_iter().flatten().flatten();
    let mut numbers = open.map(|entry| entry.file_name().to_string_lossy().into_owned());
    is_one(&format!("{own}/cwd"))
        || numbers.any(|number| is_one(&format!("{own}/fd/{number}")) && can_be_read(&number))
}
