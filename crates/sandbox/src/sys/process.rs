//! Making processes and becoming programs.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::checked;

/// `CLONE_INTO_CGROUP`, which does not fit the type that `libc` gives it.
const INTO_GROUP: u64 = 0x2_0000_0000;

/// Which side of a fork one is on.
#[derive(Debug)]
pub(crate) enum Side {
    /// The new process.
    Child,
    /// The old one, and the new one's number and descriptor.
    Parent(i32, OwnedFd),
}

/// Makes a process with these new namespaces, in this v2 control group if one is given.
///
/// The caller has one thread, so that the child may do everything the parent may.
pub(crate) fn fork(namespaces: u64, group: Option<BorrowedFd<'_>>) -> io::Result<Side> {
    let mut pidfd: i32 = -1;
    let flags =
        namespaces | libc::CLONE_PIDFD.unsigned_abs() as u64 | if group.is_some() { INTO_GROUP } else { 0 };
    let arguments = libc::clone_args {
        flags,
        pidfd: &raw mut pidfd as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD.unsigned_abs().into(),
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: group.map_or(0, |fd| fd.as_raw_fd().unsigned_abs().into()),
    };
    // SAFETY: no new stack and no shared memory, so this is a fork; `arguments` and `pidfd` outlive the call.
    let pid = checked(unsafe {
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>())
    })?;
    if pid == 0 {
        return Ok(Side::Child);
    }
    // SAFETY: the kernel wrote a new descriptor there, which nobody else knows.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Side::Parent(i32::try_from(pid).unwrap_or(i32::MAX), pidfd))
}

/// `CLONE_CLEAR_SIGHAND`, which does not fit either.
const NO_HANDLERS: u64 = 0x1_0000_0000;

/// Makes a process in a user namespace of its own that does nothing until it is killed: it holds the namespace while
/// that is described.
///
/// It shares the memory of this one, because copying that takes longer than all else about it.
pub(crate) fn hold_owners() -> io::Result<(i32, OwnedFd)> {
    let mut pidfd: i32 = -1;
    let flags = libc::CLONE_NEWUSER | libc::CLONE_PIDFD | libc::CLONE_VM;
    // SAFETY: all zero is what the kernel takes for absent.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = u64::from(flags.unsigned_abs()) | NO_HANDLERS;
    arguments.pidfd = &raw mut pidfd as u64;
    arguments.exit_signal = libc::SIGCHLD.unsigned_abs().into();
    let pid: libc::c_long;
    // A signal that ends one with a core ends all who share its memory: the child gets none but SIGKILL.
    // SAFETY: both sets outlive the calls.
    let before = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    // SAFETY: the child shares memory and the very stack with its parent, which goes on at once. From its first
    // instruction to its end it touches neither: it makes system calls without pointers, and no signal has a handler.
    // `arguments` and `pidfd` outlive the call.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 3f",
            // Ends with its parent: PR_SET_PDEATHSIG, SIGKILL.
            "mov eax, 157",
            "mov edi, 1",
            "mov esi, 9",
            "syscall",
            // One whose parent ended before that has another by now, and nobody would end it.
            "mov eax, 110",
            "syscall",
            "cmp rax, {parent}",
            "jne 4f",
            "2:",
            "mov eax, 34",
            "syscall",
            "jmp 2b",
            "4:",
            "mov eax, 60",
            "syscall",
            "3:",
            parent = in(reg) i64::from(libc::getpid()),
            inlateout("rax") libc::SYS_clone3 => pid,
            in("rdi") &raw const arguments,
            in("rsi") size_of::<libc::clone_args>(),
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    // SAFETY: the set outlives the call.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    if pid < 0 {
        return Err(io::Error::from_raw_os_error(i32::try_from(-pid).unwrap_or(libc::EINVAL)));
    }
    // SAFETY: the kernel wrote a new descriptor there, which nobody else knows.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok((i32::try_from(pid).unwrap_or(i32::MAX), pidfd))
}

/// Pointers to the strings, with a null at the end.
fn vector(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Becomes the program in this descriptor; comes back only with an error.
pub(crate) fn become_program(
    program: BorrowedFd<'_>,
    arguments: &[CString],
    environment: &[CString],
) -> io::Error {
    let (arguments, environment) = (vector(arguments), vector(environment));
    // SAFETY: both vectors end with a null and point to C strings that outlive the call; the path is empty.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
    }
    io::Error::last_os_error()
}

/// Ends this process at once, without running anything that was left for its end.
pub(crate) fn leave(code: i32) -> ! {
    // SAFETY: no pointers.
    unsafe { libc::_exit(code) }
}

/// Lets every signal do what it does by default, and blocks none.
pub(crate) fn reset_signals() {
    for signal in 1..=64 {
        // SAFETY: the default action is no function of ours; numbers that cannot be set are refused.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: all zero is an empty set; it outlives the call.
    unsafe {
        let none: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Blocks these signals and tells of them on a descriptor instead.
pub(crate) fn told_of(signals: &[i32]) -> io::Result<OwnedFd> {
    // SAFETY: an empty set, filled by numbers only; it outlives the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        checked(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()).into())?;
        super::owned(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK).into())
    }
}

/// Gives up every supplementary group.
pub(crate) fn no_groups() -> io::Result<()> {
    // SAFETY: a length of zero reads nothing.
    checked(unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) })?;
    Ok(())
}

/// Becomes this user and group, in every respect.
pub(crate) fn become_user(user: u32, group: u32) -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::syscall(libc::SYS_setresgid, group, group, group) })?;
    // SAFETY: no pointers.
    checked(unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) })?;
    Ok(())
}

/// Names the host as it is seen inside.
pub(crate) fn name_host(name: &CStr) -> io::Result<()> {
    let bytes = name.to_bytes();
    // SAFETY: as many bytes as are said, which outlive the call.
    checked(unsafe { libc::sethostname(bytes.as_ptr().cast(), bytes.len()) }.into())?;
    Ok(())
}

/// Stops this process, as the terminal's own key would.
pub(crate) fn stop_here() {
    // SAFETY: no pointers.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Makes `fd` known as `number` too; with `only_here`, not to the program that this process becomes.
pub(crate) fn place(fd: BorrowedFd<'_>, number: i32, only_here: bool) -> io::Result<()> {
    let flags = if only_here { libc::O_CLOEXEC } else { 0 };
    // SAFETY: no pointers. What `number` was before is closed under whoever owned it: the caller gives the
    // numbers below 16 away for good, and what is still used was moved above.
    checked(unsafe { libc::dup3(fd.as_raw_fd(), number, flags) }.into())?;
    Ok(())
}

/// Takes the descriptor with this number, which [`place`] just put there.
pub(crate) fn adopt(number: i32) -> OwnedFd {
    // SAFETY: nobody else owns a number that `place` was given.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Namespaces that a process makes for itself, by name; the caller has a user namespace of its own.
pub(crate) fn own_namespaces() -> Result<(), (&'static str, io::Error)> {
    for (kind, name) in [
        (libc::CLONE_NEWNS, "mount"),
        (libc::CLONE_NEWNET, "network"),
        (libc::CLONE_NEWIPC, "ipc"),
        (libc::CLONE_NEWUTS, "uts"),
    ] {
        // SAFETY: no pointers, and the caller has one thread.
        checked(unsafe { libc::unshare(kind) }.into()).map_err(|error| (name, error))?;
    }
    Ok(())
}

/// Sees the control group that it is in as the topmost one.
pub(crate) fn leave_groups() -> io::Result<()> {
    // SAFETY: no pointers, and nothing that other threads share.
    checked(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) }.into())?;
    Ok(())
}

/// Enters every namespace of another process; the number space of processes is for children made afterwards.
pub(crate) fn enter(process: BorrowedFd<'_>) -> io::Result<()> {
    let all = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    // SAFETY: no pointers; the caller has one thread.
    checked(unsafe { libc::setns(process.as_raw_fd(), all) }.into())?;
    Ok(())
}
