//! One named attack by raw system calls; says for each attempt what came of it.
//!
//! Runs inside a sandbox, and on the host as the positive control. Every line of its output is `name: verdict`,
//! where the verdict is `ok` (it got through), the name of an error, or `killed by N`. Judging is the tests'.

mod calls;
mod files;
mod fill;
mod processes;
mod sockets;
mod terminal;

use std::io;

/// Says what came of an attempt.
fn say(name: &str, verdict: impl std::fmt::Display) {
    println!("{name}: {verdict}");
}

/// What came of an attempt, as a word.
fn verdict<T>(result: io::Result<T>) -> String {
    match result {
        Ok(_) => "ok".into(),
        Err(error) => named(error.raw_os_error().unwrap_or(0)),
    }
}

fn named(error: i32) -> String {
    let name = match error {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::ESRCH => "ESRCH",
        libc::EIO => "EIO",
        libc::ENXIO => "ENXIO",
        libc::EBADF => "EBADF",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::EEXIST => "EEXIST",
        libc::EXDEV => "EXDEV",
        libc::ENOTDIR => "ENOTDIR",
        libc::EISDIR => "EISDIR",
        libc::EINVAL => "EINVAL",
        libc::ENOTTY => "ENOTTY",
        libc::ETXTBSY => "ETXTBSY",
        libc::EFBIG => "EFBIG",
        libc::ENOSPC => "ENOSPC",
        libc::EROFS => "EROFS",
        libc::ENOSYS => "ENOSYS",
        libc::ENOTEMPTY => "ENOTEMPTY",
        libc::ELOOP => "ELOOP",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        libc::ESOCKTNOSUPPORT => "ESOCKTNOSUPPORT",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::EOVERFLOW => "EOVERFLOW",
        other => return format!("E{other}"),
    };
    name.into()
}

/// The result of a raw call.
fn checked(result: impl Into<i64>) -> io::Result<i64> {
    let result = result.into();
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn c(text: &str) -> std::ffi::CString {
    std::ffi::CString::new(text).unwrap_or_default()
}

/// Tries in a process of its own, which may be killed for it or never come back.
fn apart(attempt: impl FnOnce() -> io::Result<()>) -> String {
    // SAFETY: this program has one thread; the child only makes calls and leaves.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return "no child".into();
    }
    if child == 0 {
        // SAFETY: no pointers; an attempt that waits for ever is ended by the alarm.
        unsafe { libc::alarm(10) };
        let code = match attempt() {
            Ok(()) => 0,
            Err(error) => error.raw_os_error().unwrap_or(255),
        };
        // SAFETY: no pointers.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the status outlives the call.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {}
    if libc::WIFSIGNALED(status) {
        return format!("killed by {}", libc::WTERMSIG(status));
    }
    match libc::WEXITSTATUS(status) {
        0 => "ok".into(),
        error => named(error),
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |number: usize| words.get(number).map_or("", String::as_str);
    match word(0) {
        "prepare" => files::prepare(word(1)),
        "change" => files::change(word(1)),
        "setuid" => files::setuid(),
        "grow" => files::grow(word(1)),
        "fill" => fill::fill(word(1), word(2)),
        "family" => fill::family(word(1), word(2)),
        "who" => files::who(),
        "dangerous" => calls::dangerous(),
        "rings" => calls::rings(),
        "conventions" => calls::conventions(),
        "worlds" => calls::worlds(),
        "mounts" => calls::mounts(),
        "sweep" => calls::sweep(&words[1..]),
        "deny" => calls::deny(word(1), &words[2..]),
        "families" => sockets::families(),
        "abstract" => sockets::abstract_name(word(1)),
        "connect" => sockets::connect(&words[1..]),
        "datagrams" => sockets::datagrams(word(1)),
        "loopback" => sockets::loopback(),
        "serve" => sockets::serve(),
        "reach" => sockets::reach(&words[1..]),
        "descriptors" => processes::descriptors(),
        "look" => processes::look(word(1)),
        "debug" => processes::debug(word(1), word(2) == "only"),
        "signals" => processes::signals(word(1)),
        "bomb" => processes::bomb(),
        "hog" => processes::hog(word(1)),
        "linger" => processes::linger(word(1)),
        "crowd" => processes::crowd(word(1)),
        "seek" => processes::seek(&words[1..]),
        "terminal" => terminal::type_for_others(word(1) == "own"),
        "window" => terminal::window(),
        other => {
            eprintln!("attacker: there is no attack `{other}`");
            std::process::exit(64);
        }
    }
}
