//! The second wall: the plan's mounts said once more as Landlock rules, at the highest version this kernel has.
//!
//! Invariant: every right that this version governs is handled, so what no rule allows is refused even if a
//! mount were wrong. Known to pass it at any version: chmod, chown, utimens, extended attributes, `connect` to
//! sockets with a path.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use crate::plan::{Access, Plan};
use crate::sys::landlock::Ruleset;

const EXECUTE: u64 = 1 << 0;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEVICE: u64 = 1 << 15;

/// Names of the rights, by bit.
pub(crate) const RIGHTS: [&str; 16] = [
    "execute",
    "write_file",
    "read_file",
    "read_dir",
    "remove_dir",
    "remove_file",
    "make_char",
    "make_dir",
    "make_reg",
    "make_sock",
    "make_fifo",
    "make_block",
    "make_sym",
    "refer",
    "truncate",
    "ioctl_dev",
];

/// Every right over files that this version governs.
pub(crate) fn handled(version: u32) -> u64 {
    let bits = match version {
        0 => 0,
        1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    (1 << bits) - 1
}

/// Both scopes, where there are any: abstract sockets, and signals.
pub(crate) fn scopes(version: u32) -> u64 {
    if version >= 6 { 0b11 } else { 0 }
}

/// Makes devices is a right that nobody gets.
const MAKE_DEVICES: u64 = (1 << 6) | (1 << 11);

fn rights(version: u32, access: Access, is_directory: bool) -> u64 {
    let of_files = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE;
    let wanted = match access {
        Access::Read => EXECUTE | READ_FILE | READ_DIR,
        Access::Write => !(MAKE_DEVICES | IOCTL_DEVICE),
        Access::Device => READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | IOCTL_DEVICE,
    };
    wanted & handled(version) & if is_directory { u64::MAX } else { of_files }
}

/// Opens a place as a mere place.
fn place(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
}

/// Puts the plan's rules in force; run inside, when the root is the sandbox's own.
pub(crate) fn raise(plan: &Plan) -> std::io::Result<()> {
    let version = plan.landlock;
    let rules = Ruleset::new(version, handled(version), scopes(version))?;
    rules.allow(place(Path::new("/"))?.as_fd(), READ_DIR)?;
    for (path, access) in plan.rules() {
        let place = place(path)?;
        let is_directory = FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode) == FileType::Directory;
        rules.allow(place.as_fd(), rights(version, access, is_directory))?;
    }
    rules.enforce()
}
