//! Process 1 of every sandbox: starts the command when it is told to, reaps, passes signals on, and ends with
//! its launcher.
//!
//! Built by `build.rs` without the standard library into one small static program, which the launcher puts into
//! a sealed memory file. It is entered with every layer already on (namespaces, mounts, Landlock, seccomp, no
//! capabilities), with descriptor 3 as its only line to the launcher, and with the command's environment.
//!
//! Arguments: own name, path of the program, then the command's arguments from its name on. With its own name alone it
//! is told them: a sandbox can stand before it is known what for.
//! Line, from the launcher: `C` count, path, arguments, environment (the command; each ends with a zero, and standard
//! input, output and error come along), `G` tty (go; 255: no terminal), `S` signal (to the command), `K` (kill all, stay).
//! Line, to the launcher: `R` (ready), `E` errno (the command could not be executed), `X` status (the command
//! ended; a `wait` status in four bytes), `T` (the command was stopped).
//! When the line ends, it ends, and the kernel ends everything else in the namespace.
//!
//! Absent: memory allocation, files, parsing of anything that the command could write.

#![no_std]
#![no_main]

use core::arch::{asm, global_asm};
use core::panic::PanicInfo;

const LINE: usize = 3;

mod nr {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const POLL: usize = 7;
    pub const SIGPROCMASK: usize = 14;
    pub const IOCTL: usize = 16;
    pub const DUP2: usize = 33;
    pub const SENDTO: usize = 44;
    pub const RECVMSG: usize = 47;
    pub const FORK: usize = 57;
    pub const EXECVE: usize = 59;
    pub const EXIT: usize = 60;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
    pub const FCNTL: usize = 72;
    pub const SETSID: usize = 112;
    pub const PRCTL: usize = 157;
    pub const SIGNALFD4: usize = 289;
    pub const PIPE2: usize = 293;
}

const SIGKILL: usize = 9;
const SIGCHLD: u64 = 17;
const WNOHANG: usize = 1;
const WUNTRACED: usize = 2;
const TIOCSCTTY: usize = 0x540E;
const POLLIN: i16 = 1;
const MSG_NOSIGNAL: usize = 0x4000;
const PR_SET_DUMPABLE: usize = 4;
const O_CLOEXEC: usize = 0o2000000;
const F_SETFD: usize = 2;
const FD_CLOEXEC: usize = 1;
const EINTR: isize = -4;
/// `MSG_TRUNC` and `MSG_CTRUNC`.
const CUT_OFF: i32 = 0x28;

// The kernel enters with the stack pointer at argc.
global_asm!(".globl _start", "_start:", "xor ebp, ebp", "mov rdi, rsp", "and rsp, -16", "call {main}", "ud2", main = sym main);

/// One system call.
///
/// # Safety
/// Pointers among the arguments must be valid for what the call does with them.
unsafe fn call(number: usize, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the caller vouches for the pointers; rcx and r11 are the registers that the kernel overwrites.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") 0, in("r9") 0, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

fn exit(code: usize) -> ! {
    loop {
        // SAFETY: no pointers.
        unsafe { call(nr::EXIT, code, 0, 0, 0) };
    }
}

fn send(kind: u8, value: u32) {
    let value = value.to_le_bytes();
    let message = [kind, value[0], value[1], value[2], value[3]];
    // SAFETY: the buffer lives across the call; no address is given.
    unsafe { call(nr::SENDTO, LINE, message.as_ptr() as usize, message.len(), MSG_NOSIGNAL) };
}

/// The next message; nothing when the line has ended.
fn receive() -> Option<(u8, u8)> {
    let mut message = [0u8; 2];
    loop {
        // SAFETY: the buffer is as long as is said and lives across the call.
        let got = unsafe { call(nr::READ, LINE, message.as_mut_ptr() as usize, message.len(), 0) };
        match got {
            EINTR => {}
            1 => return Some((message[0], 0)),
            2 => return Some((message[0], message[1])),
            _ => return None,
        }
    }
}

fn mask(how: usize, set: u64) {
    // SAFETY: the set is eight bytes, as is said, and lives across the call.
    unsafe { call(nr::SIGPROCMASK, how, &raw const set as usize, 0, 8) };
}

/// The longest command that can be told, and the most words of it with its environment.
const MOST_BYTES: usize = 64 * 1024;
const MOST_WORDS: usize = 2048;

/// A command that was told, and pointers to its words. Only touched by [`told_command`], before there is a child.
static mut TOLD: [u8; MOST_BYTES] = [0; MOST_BYTES];
static mut WORDS: [usize; MOST_WORDS + 2] = [0; MOST_WORDS + 2];

#[repr(C)]
struct Part {
    at: usize,
    length: usize,
}

#[repr(C)]
struct Message {
    name: usize,
    name_length: usize,
    parts: usize,
    count: usize,
    control: usize,
    control_length: usize,
    flags: i32,
}

/// As the kernel lays out three descriptors beside a message.
#[repr(C)]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
    fds: [i32; 4],
}

/// Hears what the command is and takes its three descriptors: path, arguments, environment. Whatever else comes ends
/// this process.
fn told_command() -> (usize, usize, usize) {
    let told = &raw mut TOLD as usize;
    let part = Part { at: told, length: MOST_BYTES };
    let mut control = Control { length: 0, level: 0, kind: 0, fds: [-1; 4] };
    let mut message = Message {
        name: 0,
        name_length: 0,
        parts: &raw const part as usize,
        count: 1,
        control: &raw mut control as usize,
        control_length: size_of::<Control>(),
        flags: 0,
    };
    let got = loop {
        // SAFETY: everything that the message points to has the length it says and lives across the call.
        match unsafe { call(nr::RECVMSG, LINE, &raw mut message as usize, 0, 0) } {
            EINTR => {}
            got => break got,
        }
    };
    // Three descriptors and nothing cut off: SOL_SOCKET and SCM_RIGHTS are both 1, the flags say what was.
    let is_whole =
        control.length == 28 && control.level == 1 && control.kind == 1 && message.flags & CUT_OFF == 0;
    if got < 6 || !is_whole {
        exit(125);
    }
    let got = got as usize;
    for number in 0..3 {
        let fd = control.fds[number] as usize;
        // SAFETY: no pointers.
        unsafe {
            if call(nr::DUP2, fd, number, 0, 0) < 0 {
                exit(125);
            }
            call(nr::CLOSE, fd, 0, 0, 0);
        }
    }
    // SAFETY: `TOLD` is touched by nobody else, and the kernel filled its first `got` bytes.
    let bytes = unsafe { core::slice::from_raw_parts(told as *const u8, got) };
    if bytes[0] != b'C' || bytes[got - 1] != 0 {
        exit(125);
    }
    let count = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]) as usize;
    let words = &raw mut WORDS as *mut usize;
    // The path first, then the arguments, a null, the environment, a null: the last is there already.
    let (mut place, mut begins) = (0, 5);
    for at in 5..got {
        if bytes[at] != 0 {
            continue;
        }
        if place > MOST_WORDS {
            exit(125);
        }
        // SAFETY: `place` is inside the array, which is touched by nobody else.
        unsafe { *words.add(place) = told + begins };
        // Leaves the null that ends the arguments.
        place += if place == count { 2 } else { 1 };
        begins = at + 1;
    }
    if count == 0 || count >= MOST_WORDS || place < count + 2 {
        exit(125);
    }
    // SAFETY: both are inside the array.
    unsafe { (*words, words.add(1) as usize, words.add(count + 2) as usize) }
}

/// Waits for the word of process 1, then becomes the command.
fn become_told_command((path, arguments, environment): (usize, usize, usize), pipe: [i32; 2]) -> ! {
    // SAFETY: no pointers. Nobody may look in here; with the writing end open, the end of process 1 would be missed.
    unsafe {
        call(nr::PRCTL, PR_SET_DUMPABLE, 0, 0, 0);
        call(nr::CLOSE, pipe[1] as usize, 0, 0, 0);
        // Now, so that a signal that comes right after the word finds its group.
        call(nr::SETSID, 0, 0, 0, 0);
    }
    let mut tty = 0u8;
    loop {
        // SAFETY: one byte, as is said, that lives across the call.
        match unsafe { call(nr::READ, pipe[0] as usize, &raw mut tty as usize, 1, 0) } {
            1 => become_command(path, arguments, environment, tty),
            EINTR => {}
            _ => exit(125),
        }
    }
}

/// Becomes the command; comes back only as an error number, told on the line.
fn become_command(path: usize, arguments: usize, environment: usize, tty: u8) -> ! {
    mask(2, 0);
    // SAFETY: no pointers; the terminal is one of the three descriptors that the command was given.
    unsafe {
        call(nr::SETSID, 0, 0, 0, 0);
        if tty != u8::MAX {
            call(nr::IOCTL, tty as usize, TIOCSCTTY, 0, 0);
        }
    }
    // SAFETY: the vectors end with a null: the kernel's own on our stack, or those of `told_command`.
    let error = unsafe { call(nr::EXECVE, path, arguments, environment, 0) };
    send(b'E', error.unsigned_abs() as u32);
    exit(if error == -2 { 127 } else { 126 })
}

#[repr(C)]
struct Poll {
    fd: i32,
    events: i16,
    revents: i16,
}

/// Waits for the word to begin; the descriptor that is the command's terminal.
fn go() -> u8 {
    let Some((b'G', tty)) = receive() else { exit(125) };
    // SAFETY: no pointers. Until now the launcher had to look into this process; from now on nobody may.
    unsafe { call(nr::PRCTL, PR_SET_DUMPABLE, 0, 0, 0) };
    tty
}

fn fork() -> isize {
    // SAFETY: no pointers; the child runs on a copy of this stack.
    unsafe { call(nr::FORK, 0, 0, 0, 0) }
}

extern "C" fn main(stack: *const usize) -> ! {
    // SAFETY: the kernel laid out argc, the argument pointers, a null, the environment pointers, a null.
    let (count, path) = unsafe { (*stack, *stack.add(2)) };
    if count == 2 {
        exit(125);
    }
    // SAFETY: no pointers. The line is not for the command.
    unsafe { call(nr::FCNTL, LINE, F_SETFD, FD_CLOEXEC, 0) };
    mask(2, u64::MAX);
    send(b'R', 0);
    let command;
    if count < 3 {
        let told = told_command();
        let mut pipe = [0i32; 2];
        // SAFETY: two numbers, that live across the call.
        if unsafe { call(nr::PIPE2, pipe.as_mut_ptr() as usize, O_CLOEXEC, 0, 0) } < 0 {
            exit(125);
        }
        send(b'R', 0);
        // While the launcher looks once more, so that the command waits for nothing but the word.
        command = fork();
        if command == 0 {
            become_told_command(told, pipe);
        }
        let tty = go();
        // SAFETY: the byte lives across the call. It is taken by a child that this process alone talks to.
        unsafe {
            call(nr::WRITE, pipe[1] as usize, &raw const tty as usize, 1, 0);
            call(nr::CLOSE, pipe[0] as usize, 0, 0, 0);
            call(nr::CLOSE, pipe[1] as usize, 0, 0, 0);
        }
    } else {
        let tty = go();
        command = fork();
        if command == 0 {
            // SAFETY: as above; argc is at least 3, so these are inside what the kernel laid out.
            let (arguments, environment) = unsafe { (stack.add(3) as usize, stack.add(count + 2) as usize) };
            become_command(path, arguments, environment, tty);
        }
    }
    if command < 0 {
        send(b'E', command.unsigned_abs() as u32);
        exit(126);
    }
    for fd in 0..3 {
        // SAFETY: no pointers; the three belong to the command now.
        unsafe { call(nr::CLOSE, fd, 0, 0, 0) };
    }
    watch(command as usize)
}

fn watch(command: usize) -> ! {
    let children: u64 = 1 << (SIGCHLD - 1);
    // SAFETY: the set is eight bytes, as is said, and lives across the call.
    let signals = unsafe { call(nr::SIGNALFD4, usize::MAX, &raw const children as usize, 8, O_CLOEXEC) };
    if signals < 0 {
        exit(125);
    }
    let mut waiting = [
        Poll { fd: LINE as i32, events: POLLIN, revents: 0 },
        Poll { fd: signals as i32, events: POLLIN, revents: 0 },
    ];
    loop {
        reap(command);
        // SAFETY: two entries, as is said, that live across the call.
        unsafe { call(nr::POLL, waiting.as_mut_ptr() as usize, 2, usize::MAX, 0) };
        if waiting[1].revents != 0 {
            let mut told = [0u64; 16];
            // SAFETY: 128 bytes, the size of one notice, that live across the call.
            unsafe { call(nr::READ, signals as usize, told.as_mut_ptr() as usize, 128, 0) };
        }
        if waiting[0].revents != 0 {
            match receive() {
                Some((b'S', signal)) => signalled(command, signal as usize),
                Some((b'K', _)) => drop(kill(usize::MAX, SIGKILL)),
                Some(_) => {}
                None => {
                    // As process 1 this ends everyone; one that joined takes its own command along.
                    kill((command as isize).wrapping_neg() as usize, SIGKILL);
                    exit(0)
                }
            }
        }
    }
}

fn kill(whom: usize, signal: usize) -> isize {
    // SAFETY: no pointers; the namespace holds nothing but this sandbox.
    unsafe { call(nr::KILL, whom, signal, 0, 0) }
}

/// Signals the command's group, or the command while it has none.
fn signalled(command: usize, signal: usize) {
    if kill((command as isize).wrapping_neg() as usize, signal) < 0 {
        kill(command, signal);
    }
}

/// Buries the dead; ends with the command.
fn reap(command: usize) {
    loop {
        let mut status = 0u32;
        // SAFETY: the status lives across the call; nothing else is asked for.
        let who = unsafe {
            call(nr::WAIT4, usize::MAX, &raw mut status as usize, WNOHANG | WUNTRACED, 0)
        };
        if who <= 0 {
            return;
        }
        if who as usize != command {
            continue;
        }
        if status & 0xff == 0x7f {
            send(b'T', status);
            continue;
        }
        send(b'X', status);
        // What is left ends with this process; the launcher sees our end after theirs.
        exit(0);
    }
}

#[panic_handler]
fn panicked(_: &PanicInfo<'_>) -> ! {
    exit(125)
}

// What the compiler calls for copies and fills.

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the compiler gives two areas of `count` bytes that do not overlap.
    unsafe {
        asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, count: usize) -> *mut u8 {
    // SAFETY: the compiler gives an area of `count` bytes.
    unsafe {
        asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("al") value as u8, options(nostack));
    }
    to
}
