//! The system calls that no safe crate offers, each as one small function; all `unsafe` code is in this folder
//! and in `init/`.
//!
//! Invariant: every function here is safe to call with any arguments; what it borrows lives across the call.
//! Absent: decisions. Who calls what, in which order and with which arguments, is told elsewhere.

#![expect(unsafe_code, reason = "the one place where the kernel is called by hand")]

pub(crate) mod landlock;
pub(crate) mod net;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod trace;
pub(crate) mod watch;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::filter::Instruction;

/// What a system call gave.
fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A descriptor that the kernel just gave to us alone.
fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = checked(result)?;
    let fd = i32::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: the kernel returned this descriptor as new; nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What is set on a mount.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes<'a> {
    pub(crate) set: u64,
    pub(crate) clear: u64,
    pub(crate) private: bool,
    pub(crate) recursive: bool,
    /// Maps owners as this user namespace says.
    pub(crate) owners: Option<BorrowedFd<'a>>,
}

pub(crate) const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
pub(crate) const NO_SUID: u64 = libc::MOUNT_ATTR_NOSUID;
pub(crate) const NO_DEVICES: u64 = libc::MOUNT_ATTR_NODEV;
pub(crate) const NO_EXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

/// Changes the attributes of a mount.
pub(crate) fn set_attributes(mount: BorrowedFd<'_>, attributes: Attributes<'_>) -> io::Result<()> {
    let idmap = if attributes.owners.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 };
    let change = libc::mount_attr {
        attr_set: attributes.set | idmap,
        attr_clr: attributes.clear,
        propagation: if attributes.private { libc::MS_PRIVATE } else { 0 },
        userns_fd: attributes.owners.map_or(0, |fd| fd.as_raw_fd().unsigned_abs().into()),
    };
    let flags = libc::AT_EMPTY_PATH | if attributes.recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is an empty C string; `change` is the structure of the size that is said and outlives the call.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}

/// Puts a system call filter on this process, for good.
pub(crate) fn load_filter(program: &[Instruction]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: `Instruction` has the layout of `sock_filter`; the kernel reads `len` of them and keeps a copy.
    checked(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    })?;
    Ok(())
}

/// Gives no descriptor from this one on to a program that is started.
pub(crate) fn keep_from(first: u32) -> io::Result<()> {
    // SAFETY: no pointers, and nothing is closed.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) })?;
    Ok(())
}

/// Closes every descriptor from this one on.
pub(crate) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: no pointers. Descriptors that values of this process own are closed under them: the caller
    // becomes another program next and uses none of them.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) })?;
    Ok(())
}
