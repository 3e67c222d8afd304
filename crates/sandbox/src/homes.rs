//! Keeps the way free for mounts in a home that persists: what a former run put there may be in it.
//!
//! A command may do with its own home what it likes, also put a link or a file where a later run mounts something.
//! Mounts follow no link, so such a run would be refused. What stands in the way is moved aside, by its name.
//!
//! Invariant: no link is followed; nothing outside the home is touched, and nothing is removed.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::plan::{Mount, is_below};
use crate::root;

/// Moves aside what is in the way of these mounts. A home `within` a directory is found beneath it, without links.
pub(crate) fn clear(
    host: &Path,
    within: Option<&Path>,
    home: &Path,
    mounts: &[Mount],
) -> rustix::io::Result<()> {
    let open = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = match root::place(within, host)? {
        Some(top) => top,
        None => rustix::fs::open(host, open, Mode::empty())?,
    };
    let home: PathBuf = home.components().collect();
    for mount in mounts.iter().filter(|mount| is_below(&mount.at, &home)) {
        if let Ok(below) = mount.at.strip_prefix(&home) {
            clear_way(&top, below)?;
        }
    }
    Ok(())
}

fn clear_way(top: &OwnedFd, below: &Path) -> rustix::io::Result<()> {
    let mut here = rustix::io::fcntl_dupfd_cloexec(top, 3)?;
    let mut parts = below.components().peekable();
    while let Some(part) = parts.next() {
        let name = part.as_os_str();
        let found = match rustix::fs::statat(&here, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => FileType::from_raw_mode(found.st_mode),
            // What is not there is made when the mount is.
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error),
        };
        let is_last = parts.peek().is_none();
        match found {
            FileType::Directory => {}
            FileType::RegularFile if is_last => return Ok(()),
            _ => return aside(&here, name),
        }
        let open = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        here = rustix::fs::openat(&here, name, open, Mode::empty())?;
    }
    Ok(())
}

/// Gives it another name in the same directory.
fn aside(folder: &OwnedFd, name: &std::ffi::OsStr) -> rustix::io::Result<()> {
    for number in 1..1000 {
        let mut other = OsString::from(name);
        other.push(format!(".moved-{number}"));
        match rustix::fs::renameat_with(folder, name, folder, &other, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            done => return done,
        }
    }
    Err(Errno::EXIST)
}
