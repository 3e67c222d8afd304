//! Tracing of other processes: attaching, waiting for what they do, reading what they ask the kernel for.
//!
//! Invariant: nothing of a traced process is ever written. A thread that is gone meanwhile is no error: the next
//! [`wait`] tells of its end. Absent: what the calls mean (`crate::explain`).

use std::io;

use super::checked;

/// The stop of `PTRACE_SEIZE` that is no signal.
const EVENT_STOP: i32 = 128;
/// What `PTRACE_GET_SYSCALL_INFO` fills, in words of eight bytes.
const INFO_WORDS: usize = 11;
/// No path and no address is longer.
const PAGE: u64 = 4096;

/// What happened to one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It ended, by this signal if by one.
    Ended(i32, Option<i32>),
    /// It is about to enter the kernel, or to leave it.
    AtCall(i32),
    /// It stands still with its whole process, until somebody continues it.
    Stopped(i32),
    /// It is about to get this signal.
    Signal(i32, i32),
    /// It executes another program; the other number was its own until now.
    Became(i32, i32),
    /// It is new, or made another one.
    Other(i32),
}

/// Where in a call a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// It asks for this.
    Enters { number: u64, arguments: [u64; 6] },
    /// It was answered this.
    Leaves { result: i64 },
    /// Neither.
    Between,
}

/// Where a thread stops next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// At its next call.
    Call,
    /// When it makes processes, becomes a program, gets a signal or ends.
    Event,
}

fn request(kind: libc::c_uint, thread: i32, address: usize, data: usize) -> io::Result<libc::c_long> {
    // SAFETY: the callers below give requests that write no memory of this process, or `data` that is as long as
    // `address` says and outlives the call.
    checked(unsafe { libc::syscall(libc::SYS_ptrace, libc::c_long::from(kind), thread, address, data) })
}

/// Follows a process and everything that it makes from now on; all of it ends with this process.
pub(crate) fn seize(process: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_EXITKILL;
    request(libc::PTRACE_SEIZE as libc::c_uint, process, 0, usize::try_from(options).unwrap_or(0)).map(drop)
}

/// Lets one thread stand until this process ends, whatever signal it gets but the one that kills.
pub(crate) fn hold(thread: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE as libc::c_uint, thread, 0, 0)?;
    request(libc::PTRACE_INTERRUPT as libc::c_uint, thread, 0, 0).map(drop)
}

/// Waits for the next event; none when nobody is left.
pub(crate) fn wait() -> io::Result<Option<Event>> {
    let mut status = 0i32;
    let thread = loop {
        // SAFETY: the status outlives the call.
        match checked(unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) }.into()) {
            Ok(thread) => break i32::try_from(thread).unwrap_or(0),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
            Err(error) => return Err(error),
        }
    };
    Ok(Some(event(thread, status)))
}

fn event(thread: i32, status: i32) -> Event {
    if libc::WIFEXITED(status) {
        return Event::Ended(thread, None);
    }
    if libc::WIFSIGNALED(status) {
        return Event::Ended(thread, Some(libc::WTERMSIG(status)));
    }
    let (signal, kind) = (libc::WSTOPSIG(status), status >> 16);
    let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    match kind {
        EVENT_STOP if stops.contains(&signal) => Event::Stopped(thread),
        libc::PTRACE_EVENT_EXEC => Event::Became(thread, message(thread)),
        0 if signal == libc::SIGTRAP | 0x80 => Event::AtCall(thread),
        0 => Event::Signal(thread, signal),
        _ => Event::Other(thread),
    }
}

/// The number that comes with an event.
fn message(thread: i32) -> i32 {
    let mut number: libc::c_ulong = 0;
    let got = request(libc::PTRACE_GETEVENTMSG as libc::c_uint, thread, 0, (&raw mut number).addr());
    got.ok().and_then(|_| i32::try_from(number).ok()).unwrap_or(thread)
}

/// Lets a thread go on, with a signal if it is to get one.
pub(crate) fn go_on(thread: i32, until: Until, signal: i32) {
    let kind = match until {
        Until::Call => libc::PTRACE_SYSCALL,
        Until::Event => libc::PTRACE_CONT,
    };
    let _ = request(kind as libc::c_uint, thread, 0, usize::try_from(signal).unwrap_or(0));
}

/// Leaves a thread standing, until its process is continued.
pub(crate) fn let_stand(thread: i32) {
    let _ = request(libc::PTRACE_LISTEN as libc::c_uint, thread, 0, 0);
}

/// Where in a call a thread is that stopped at one.
pub(crate) fn moment(thread: i32) -> Moment {
    const GET_INFO: libc::c_uint = 0x420e;
    let mut info = [0u64; INFO_WORDS];
    if request(GET_INFO, thread, size_of_val(&info), info.as_mut_ptr().addr()).is_err() {
        return Moment::Between;
    }
    let [first, _, _, value, a, b, c, d, e, f, _] = info;
    match first & 0xff {
        1 => Moment::Enters { number: value, arguments: [a, b, c, d, e, f] },
        2 => Moment::Leaves { result: value.cast_signed() },
        _ => Moment::Between,
    }
}

/// Reads memory of a traced process, up to the first page that is not there; how many bytes.
pub(crate) fn read(thread: i32, from: u64, buffer: &mut [u8]) -> usize {
    let mut done = 0usize;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let Some(address) = from.checked_add(done as u64) else { break };
        let in_page = usize::try_from(PAGE - address % PAGE).unwrap_or(1);
        let length = rest.len().min(in_page);
        let here = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: length };
        let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: length };
        // SAFETY: `length` bytes at most are written into `rest`, which is as long; the other address is one of the
        // other process and never used in this one.
        let got = unsafe { libc::process_vm_readv(thread, &raw const here, 1, &raw const there, 1, 0) };
        match usize::try_from(got) {
            Ok(got) if got > 0 => done += got.min(length),
            _ => break,
        }
    }
    done
}
