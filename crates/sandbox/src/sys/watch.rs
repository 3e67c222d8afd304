//! What a process that stays with the launcher's code, but not with its company, needs.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::checked;
use super::process::place;

/// Closes every descriptor but these; standard input, output and error become `nothing`.
pub(crate) fn keep_only(kept: &[BorrowedFd<'_>], nothing: BorrowedFd<'_>) -> io::Result<()> {
    for number in 0..3 {
        place(nothing, number, false)?;
    }
    close_but(kept)
}

/// Closes every descriptor but these and the first three.
pub(crate) fn close_but(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut numbers: Vec<u32> = kept.iter().filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok()).collect();
    numbers.sort_unstable();
    let mut first = 3;
    for number in numbers {
        if number > first {
            close(first, number - 1)?;
        }
        first = first.max(number + 1);
    }
    close(first, u32::MAX)
}

fn close(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: no pointers. Descriptors that values of this process own are closed under them: the caller was forked,
    // uses none of those values, and leaves without dropping them.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })?;
    Ok(())
}
