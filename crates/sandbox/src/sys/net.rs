//! The loopback device of a new network namespace.

use std::io;
use std::os::fd::AsRawFd;

use super::{checked, owned};

/// Brings `lo` up, so that programs inside can talk to each other.
pub(crate) fn raise_loopback() -> io::Result<()> {
    // SAFETY: no pointers.
    let socket =
        owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) }.into())?;
    // SAFETY: all zero is a valid request; it is filled with the name and the flags below.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: this request reads a name and flags from the structure, which outlives the call.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }.into())?;
    Ok(())
}
