//! Which arguments of a system call name files or addresses, and what is wanted of them: data.
//!
//! Invariant: a call that is not here is judged by its number and its error alone. Not here: reading the arguments
//! of a real process ([`super::seen`]).

use super::judge::Want;

/// Where a path is among the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// A path in this argument, from the current directory.
    Path(usize),
    /// A path in the second of these, from the directory that the first one is.
    Beside(usize, usize),
    /// The file that this descriptor is.
    Open(usize),
    /// An address in this argument, as long as the next one says.
    Address(usize),
    /// The address in a message in this argument.
    Message(usize),
}

/// One call, and each thing it names.
#[derive(Debug)]
pub(super) struct Names {
    number: libc::c_long,
    pub(super) what: &'static [(At, Want)],
}

/// Which of the arguments are the flags of an open.
pub(super) fn open_flags(number: u32, arguments: &[u64; 6]) -> Option<u64> {
    let [_, second, third, ..] = *arguments;
    match libc::c_long::from(number) {
        libc::SYS_open => Some(second),
        libc::SYS_openat => Some(third),
        libc::SYS_creat => Some((libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC).unsigned_abs().into()),
        _ => None,
    }
}

/// What an open wants.
pub(super) fn wanted(flags: u64) -> Want {
    let has = |bits: i32| flags & u64::from(bits.unsigned_abs()) != 0;
    match () {
        () if has(libc::O_CREAT) => Want::Make,
        () if has(libc::O_ACCMODE | libc::O_TRUNC) => Want::Write,
        () if has(libc::O_PATH) => Want::Look,
        () => Want::Read,
    }
}

/// What a call names; nothing for most.
pub(super) fn names(number: u32) -> &'static [(At, Want)] {
    let found = CALLS.iter().find(|call| call.number == libc::c_long::from(number));
    found.map_or(&[], |call| call.what)
}

const fn one(number: libc::c_long, what: &'static [(At, Want)]) -> Names {
    Names { number, what }
}

use At::{Address, Beside, Message, Open, Path};

#[rustfmt::skip]
static CALLS: &[Names] = &[
    // What an open wants is in its flags.
    one(libc::SYS_open, &[(Path(0), Want::Read)]),
    one(libc::SYS_openat, &[(Beside(0, 1), Want::Read)]),
    one(libc::SYS_creat, &[(Path(0), Want::Make)]),

    one(libc::SYS_mkdir, &[(Path(0), Want::Make)]),
    one(libc::SYS_mkdirat, &[(Beside(0, 1), Want::Make)]),
    one(libc::SYS_mknod, &[(Path(0), Want::Make)]),
    one(libc::SYS_mknodat, &[(Beside(0, 1), Want::Make)]),
    one(libc::SYS_symlink, &[(Path(1), Want::Make)]),
    one(libc::SYS_symlinkat, &[(Beside(1, 2), Want::Make)]),
    one(libc::SYS_link, &[(Path(0), Want::Look), (Path(1), Want::Make)]),
    one(libc::SYS_linkat, &[(Beside(0, 1), Want::Look), (Beside(2, 3), Want::Make)]),
    one(libc::SYS_rename, &[(Path(0), Want::Move), (Path(1), Want::Make)]),
    one(libc::SYS_renameat, &[(Beside(0, 1), Want::Move), (Beside(2, 3), Want::Make)]),
    one(libc::SYS_renameat2, &[(Beside(0, 1), Want::Move), (Beside(2, 3), Want::Make)]),
    one(libc::SYS_unlink, &[(Path(0), Want::Remove)]),
    one(libc::SYS_unlinkat, &[(Beside(0, 1), Want::Remove)]),
    one(libc::SYS_rmdir, &[(Path(0), Want::Remove)]),

    one(libc::SYS_truncate, &[(Path(0), Want::Write)]),
    one(libc::SYS_chmod, &[(Path(0), Want::Change)]),
    one(libc::SYS_fchmod, &[(Open(0), Want::Change)]),
    one(libc::SYS_fchmodat, &[(Beside(0, 1), Want::Change)]),
    one(libc::SYS_fchmodat2, &[(Beside(0, 1), Want::Change)]),
    one(libc::SYS_chown, &[(Path(0), Want::Own)]),
    one(libc::SYS_lchown, &[(Path(0), Want::Own)]),
    one(libc::SYS_fchown, &[(Open(0), Want::Own)]),
    one(libc::SYS_fchownat, &[(Beside(0, 1), Want::Own)]),
    one(libc::SYS_utime, &[(Path(0), Want::Change)]),
    one(libc::SYS_utimes, &[(Path(0), Want::Change)]),
    one(libc::SYS_futimesat, &[(Beside(0, 1), Want::Change)]),
    one(libc::SYS_utimensat, &[(Beside(0, 1), Want::Change)]),
    one(libc::SYS_setxattr, &[(Path(0), Want::Change)]),
    one(libc::SYS_lsetxattr, &[(Path(0), Want::Change)]),
    one(libc::SYS_removexattr, &[(Path(0), Want::Change)]),

    one(libc::SYS_stat, &[(Path(0), Want::Look)]),
    one(libc::SYS_lstat, &[(Path(0), Want::Look)]),
    one(libc::SYS_newfstatat, &[(Beside(0, 1), Want::Look)]),
    one(libc::SYS_statx, &[(Beside(0, 1), Want::Look)]),
    one(libc::SYS_statfs, &[(Path(0), Want::Look)]),
    one(libc::SYS_access, &[(Path(0), Want::Ask)]),
    one(libc::SYS_faccessat, &[(Beside(0, 1), Want::Ask)]),
    one(libc::SYS_faccessat2, &[(Beside(0, 1), Want::Ask)]),
    one(libc::SYS_readlink, &[(Path(0), Want::Look)]),
    one(libc::SYS_readlinkat, &[(Beside(0, 1), Want::Look)]),
    one(libc::SYS_chdir, &[(Path(0), Want::Enter)]),
    one(libc::SYS_inotify_add_watch, &[(Path(1), Want::Read)]),
    one(libc::SYS_execve, &[(Path(0), Want::Execute)]),
    one(libc::SYS_execveat, &[(Beside(0, 1), Want::Execute)]),

    one(libc::SYS_write, &[(Open(0), Want::Write)]),
    one(libc::SYS_writev, &[(Open(0), Want::Write)]),
    one(libc::SYS_pwrite64, &[(Open(0), Want::Write)]),
    one(libc::SYS_pwritev, &[(Open(0), Want::Write)]),
    one(libc::SYS_ftruncate, &[(Open(0), Want::Write)]),
    one(libc::SYS_fallocate, &[(Open(0), Want::Write)]),
    one(libc::SYS_copy_file_range, &[(Open(2), Want::Write)]),
    one(libc::SYS_sendfile, &[(Open(0), Want::Write)]),

    one(libc::SYS_connect, &[(Address(1), Want::Connect)]),
    one(libc::SYS_bind, &[(Address(1), Want::Make)]),
    one(libc::SYS_sendto, &[(Address(4), Want::Connect)]),
    one(libc::SYS_sendmsg, &[(Message(1), Want::Connect)]),
    one(libc::SYS_sendmmsg, &[(Message(1), Want::Connect)]),
];
