//! Attacks on terminals: typing for somebody else, reaching other terminals.

use std::fs;
use std::io::{self, BufRead, Write};
use std::os::fd::AsRawFd;

use crate::{checked, say, verdict};

fn ioctl(fd: i32, request: u64, argument: *const u8) -> io::Result<()> {
    // SAFETY: the argument is a byte, or two, that outlive the call.
    checked(unsafe { libc::ioctl(fd, request, argument) }).map(drop)
}

/// Puts characters into the input of every terminal that can be reached.
pub(crate) fn type_for_others(only_own: bool) {
    let letter = b'x';
    let paste: [u8; 2] = [3, 0];
    for (name, fd) in [("input", 0), ("output", 1)] {
        say(&format!("{name} TIOCSTI"), verdict(ioctl(fd, libc::TIOCSTI, &raw const letter)));
        say(&format!("{name} TIOCLINUX"), verdict(ioctl(fd, libc::TIOCLINUX, paste.as_ptr())));
        // SAFETY: no pointers; the number has bits above those that count.
        let garbage = unsafe {
            libc::syscall(libc::SYS_ioctl, fd, libc::TIOCSTI | 0xdead_0000_0000, &raw const letter)
        };
        say(&format!("{name} TIOCSTI with garbage"), verdict(checked(garbage)));
    }
    let all = ["/dev/tty", "/dev/console", "/dev/tty0", "/dev/tty1", "/dev/ttyS0", "/dev/vcs", "/dev/ptmx"];
    for path in all.into_iter().take(if only_own { 1 } else { all.len() }) {
        let opened = fs::OpenOptions::new().read(true).write(true).open(path);
        if let Ok(file) = &opened {
            say(
                &format!("{path} TIOCSTI"),
                verdict(ioctl(file.as_raw_fd(), libc::TIOCSTI, &raw const letter)),
            );
        }
        say(path, verdict(opened));
    }
    let others = fs::read_dir("/dev/pts").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        others.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    say("terminals", names.join(" "));
    // SAFETY: no pointers.
    say("is a terminal", unsafe { libc::isatty(0) } == 1);
}

/// The size of its terminal, at the start, after each line that is typed, until the input ends.
pub(crate) fn window() {
    let size = || {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: room for the answer, which outlives the call.
        unsafe { libc::ioctl(0, libc::TIOCGWINSZ, &raw mut size) };
        format!("{}x{}", size.ws_col, size.ws_row)
    };
    // SAFETY: no pointers.
    say("is a terminal", (0..3).all(|fd| unsafe { libc::isatty(fd) } == 1));
    // SAFETY: no pointers.
    say("leads its session", unsafe { libc::getsid(0) == libc::getpid() });
    say("size", size());
    let _ = io::stdout().flush();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        say(&format!("typed {line}"), size());
    }
    say("done", true);
}
