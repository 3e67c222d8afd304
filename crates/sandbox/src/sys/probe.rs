//! The calls that the self-test makes inside a sandbox, each with fixed arguments: every one is to be refused.
//!
//! Invariant: a call that is let through after all changes nothing but the process that made it, or what dies with
//! the sandbox. Not here: which answers count as refused ([`crate::probe`]).

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::{checked, owned};

/// Nothing if the call did what it does; else the error number, or the signal as a negative number.
pub(crate) type Answer = Result<(), i32>;

/// What the kernel said, without keeping a descriptor that it may have given.
fn told(result: libc::c_long) -> Answer {
    checked(result).map(drop).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
}

/// The same for calls that give a descriptor, which is closed.
fn told_fd(result: libc::c_long) -> Answer {
    owned(result).map(drop).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
}

/// Tries something in a process of its own, so that what it changes ends with it.
pub(crate) fn in_child(what: impl FnOnce() -> Answer) -> Answer {
    // SAFETY: a fork; the child calls `what`, which makes system calls only, and leaves without coming back.
    let pid = unsafe { libc::fork() };
    match pid {
        0 => super::process::leave(match what() {
            Ok(()) => 0,
            Err(error) => error.clamp(1, 255),
        }),
        pid if pid > 0 => ended(pid),
        _ => Err(libc::EAGAIN),
    }
}

/// How a child ended, as an answer.
pub(crate) fn ended(pid: i32) -> Answer {
    let mut status = 0;
    loop {
        // SAFETY: the status outlives the call.
        match checked(unsafe { libc::waitpid(pid, &raw mut status, 0) }.into()) {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(_) => return Err(libc::ECHILD),
            Ok(_) => break,
        }
    }
    match (libc::WIFSIGNALED(status), libc::WTERMSIG(status), libc::WEXITSTATUS(status)) {
        (true, signal, _) => Err(-signal),
        (false, _, 0) => Ok(()),
        (false, _, error) => Err(error),
    }
}

/// Ends this process after so many seconds.
pub(crate) fn end_after(seconds: u32) {
    // SAFETY: no pointers.
    unsafe { libc::alarm(seconds) };
}

/// Mounts: old interface.
pub(crate) fn mount(kind: Option<&CStr>, at: &CStr, flags: libc::c_ulong) -> Answer {
    let kind = kind.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: C strings, or null where the kernel takes none; they outlive the call.
    told(unsafe { libc::mount(c"none".as_ptr(), at.as_ptr(), kind, flags, std::ptr::null()) }.into())
}

/// Takes a mount away.
pub(crate) fn unmount(at: &CStr) -> Answer {
    // SAFETY: a C string that outlives the call.
    told(unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) }.into())
}

/// A new file system, by the new interface.
pub(crate) fn new_file_system() -> Answer {
    // SAFETY: a C string that outlives the call.
    told_fd(unsafe { libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0) })
}

/// A copy of a mount.
pub(crate) fn copy_mount() -> Answer {
    const CLONE: u32 = 1;
    // SAFETY: a C string that outlives the call.
    told_fd(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, c"/".as_ptr(), CLONE) })
}

/// Another root.
pub(crate) fn pivot_root() -> Answer {
    // SAFETY: C strings that outlive the call.
    told(unsafe { libc::syscall(libc::SYS_pivot_root, c"/tmp".as_ptr(), c"/tmp".as_ptr()) })
}

/// Another root for this process.
pub(crate) fn chroot() -> Answer {
    // SAFETY: a C string that outlives the call.
    told(unsafe { libc::chroot(c"/tmp".as_ptr()) }.into())
}

/// New namespaces for this process.
pub(crate) fn unshare(flags: i32) -> Answer {
    // SAFETY: no pointers; the caller has one thread.
    told(unsafe { libc::unshare(flags) }.into())
}

/// A process in new namespaces, by the old call.
pub(crate) fn clone_into(flags: i32) -> Answer {
    let flags = (flags | libc::SIGCHLD) as libc::c_long;
    // SAFETY: no new stack and no shared memory, so this is a fork; the child leaves at once.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid == 0 {
        super::process::leave(0);
    }
    told(pid)?;
    ended(i32::try_from(pid).unwrap_or(-1))
}

/// Enters a namespace.
pub(crate) fn enter(namespace: BorrowedFd<'_>) -> Answer {
    // SAFETY: no pointers.
    told(unsafe { libc::setns(namespace.as_raw_fd(), 0) }.into())
}

/// Traces process 1.
pub(crate) fn trace_init() -> Answer {
    // SAFETY: this request reads no memory.
    told(unsafe { libc::ptrace(libc::PTRACE_SEIZE, 1, 0, 0) })
}

/// Reads the memory of process 1.
pub(crate) fn read_init() -> Answer {
    let mut byte = 0u8;
    let here = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let there = libc::iovec { iov_base: 0x40_0000 as *mut libc::c_void, iov_len: 1 };
    // SAFETY: one byte is written here at most; the other address is never used in this process.
    told(unsafe { libc::process_vm_readv(1, &raw const here, 1, &raw const there, 1, 0) } as libc::c_long)
}

/// Signals a process; number 0 only asks.
pub(crate) fn signal(pid: i32, number: i32) -> Answer {
    // SAFETY: no pointers.
    told(unsafe { libc::kill(pid, number) }.into())
}

/// Asks for the user's keyring.
pub(crate) fn keyring() -> Answer {
    const ID_OF: i32 = 0;
    const OF_USER: i32 = -4;
    // SAFETY: no pointers.
    told(unsafe { libc::syscall(libc::SYS_keyctl, ID_OF, OF_USER, 0) })
}

/// Adds a key to the process's keyring.
pub(crate) fn add_key() -> Answer {
    const OF_PROCESS: i32 = -2;
    // SAFETY: C strings and one byte, which outlive the call.
    told(unsafe {
        libc::syscall(libc::SYS_add_key, c"user".as_ptr(), c"probe".as_ptr(), c"x".as_ptr(), 1, OF_PROCESS)
    })
}

/// Makes a map for programs in the kernel.
pub(crate) fn bpf() -> Answer {
    const MAP_CREATE: i32 = 0;
    // An array of one element with keys and values of four bytes.
    let mut attributes = [0u32; 32];
    for (to, value) in attributes.iter_mut().zip([2, 4, 4, 1]) {
        *to = value;
    }
    // SAFETY: the structure is as long as is said and outlives the call.
    told_fd(unsafe {
        libc::syscall(libc::SYS_bpf, MAP_CREATE, attributes.as_ptr(), size_of_val(&attributes))
    })
}

/// Counts an event of this process.
pub(crate) fn perf() -> Answer {
    let mut attributes = [0u32; 16];
    for (to, value) in attributes.iter_mut().zip([1, 64]) {
        *to = value;
    }
    // SAFETY: 64 bytes, as the structure itself says, which outlive the call.
    told_fd(unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0) })
}

/// Handles page faults.
pub(crate) fn userfaultfd() -> Answer {
    const ONLY_USER_MODE: i32 = 1;
    // SAFETY: no pointers.
    told_fd(unsafe { libc::syscall(libc::SYS_userfaultfd, ONLY_USER_MODE | libc::O_CLOEXEC) })
}

/// Makes a ring.
pub(crate) fn io_uring() -> Answer {
    let mut parameters = [0u64; 15];
    // SAFETY: 120 bytes, the size of the structure, which outlive the call.
    told_fd(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) })
}

/// Opens a file by a handle that names none.
pub(crate) fn open_by_handle() -> Answer {
    // Length and kind, then the handle itself.
    let handle = [8u32, 1, 0, 0];
    // SAFETY: the handle is as long as it says and outlives the call.
    told_fd(unsafe { libc::syscall(libc::SYS_open_by_handle_at, libc::AT_FDCWD, handle.as_ptr(), 0) })
}

/// Loads another kernel, with flags that no kernel takes.
pub(crate) fn kexec() -> Answer {
    // SAFETY: no segments, so nothing is read.
    told(unsafe { libc::syscall(libc::SYS_kexec_load, 0, 0, 0, 0x00ff_0000) })
}

/// Loads a module of no bytes.
pub(crate) fn module() -> Answer {
    // SAFETY: a length of zero reads nothing; the options are a C string.
    told(unsafe { libc::syscall(libc::SYS_init_module, 0, 0, c"".as_ptr()) })
}

/// Asks for the size of the kernel's log.
pub(crate) fn kernel_log() -> Answer {
    const SIZE: i32 = 10;
    // SAFETY: this request reads and writes no memory.
    told(unsafe { libc::syscall(libc::SYS_syslog, SIZE, 0, 0) })
}

/// Gets at the hardware's ports.
pub(crate) fn ports() -> Answer {
    // SAFETY: no pointers.
    told(unsafe { libc::syscall(libc::SYS_iopl, 3) })
}

/// Makes a socket.
pub(crate) fn socket(family: i32, kind: i32, protocol: i32) -> Answer {
    // SAFETY: no pointers.
    told_fd(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) }.into())
}

/// Makes the device that memory is.
pub(crate) fn device(at: &CStr) -> Answer {
    // SAFETY: a C string that outlives the call.
    told(unsafe { libc::mknod(at.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(1, 1)) }.into())
}

/// Types into a terminal of its own.
pub(crate) fn type_for_others(terminal: BorrowedFd<'_>) -> Answer {
    // SAFETY: no pointers.
    unsafe {
        libc::setsid();
        libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0);
    }
    // SAFETY: one byte, which outlives the call.
    told(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSTI, c"x".as_ptr()) }.into())
}

/// Becomes root.
pub(crate) fn become_root() -> Answer {
    // SAFETY: no pointers.
    told(unsafe { libc::syscall(libc::SYS_setresuid, 0, 0, 0) })
}

/// A call by the numbers of another interface of the same machine.
pub(crate) fn foreign_numbers() -> Answer {
    const X32: libc::c_long = 0x4000_0000;
    // SAFETY: no pointers.
    told(unsafe { libc::syscall(X32 + libc::SYS_getpid) })
}

/// A call by the door for 32-bit programs.
pub(crate) fn old_door() -> Answer {
    const GETPID: i64 = 20;
    let mut result = GETPID;
    // SAFETY: the call takes no arguments; the registers that the kernel may overwrite are named.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") result, lateout("r8") _, lateout("r9") _,
            lateout("r10") _, lateout("r11") _, options(nostack));
    }
    if result > 0 { Ok(()) } else { Err(i32::try_from(-result).unwrap_or(libc::ENOSYS).max(1)) }
}

/// The version of Landlock, or why there is none.
pub(crate) fn landlock() -> Result<u32, i32> {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the kernel reads nothing.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, VERSION) };
    let version = checked(version).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
    u32::try_from(version).map_err(|_| libc::EINVAL)
}
