//! Attacks on processes, and looking around: descriptors, secrets, signals, crowds, hogs.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::{apart, checked, say, verdict};

/// Every descriptor there is.
pub(crate) fn descriptors() {
    // Asked one by one: listing a directory would open one more.
    for number in 0..4096 {
        // SAFETY: no pointers.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0 {
            let to = fs::read_link(format!("/proc/self/fd/{number}")).unwrap_or_default();
            let kind: String = to.to_string_lossy().chars().take_while(|c| *c != ':').collect();
            say(&number.to_string(), kind);
        }
    }
    // SAFETY: no pointers.
    let (session, own) = unsafe { (libc::getsid(0), libc::getpid()) };
    say("leads its session", session == own);
}

/// Reads, writes and lists the places of `/proc` and `/sys` that tell of the host or change it.
pub(crate) fn look(host_pid: &str) {
    let write = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/hotplug",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/fs/suid_dumpable",
        "/proc/sys/user/max_user_namespaces",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/sysrq-trigger",
        "/proc/mtrr",
        "/proc/self/uid_map",
        "/proc/self/oom_score_adj_host",
        "/sys/kernel/uevent_helper",
        "/sys/fs/cgroup/release_agent",
        "/sys/fs/cgroup/memory/release_agent",
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/kernel/debug/sched",
        "/sys/power/state",
    ];
    for path in write {
        let file = fs::OpenOptions::new().write(true).open(path);
        // The bytes are what a host's administrator would see: nothing real is changed by them.
        let done = file.and_then(|mut file| file.write_all(b"|/palisade-escape"));
        say(&format!("write {path}"), verdict(done));
    }
    let read = [
        "/proc/kcore",
        "/proc/kallsyms",
        "/proc/timer_list",
        "/proc/keys",
        "/proc/key-users",
        "/proc/kmsg",
        "/proc/modules",
        "/proc/iomem",
        "/proc/cmdline",
        "/proc/locks",
        "/proc/slabinfo",
        "/proc/vmallocinfo",
        "/sys/kernel/debug",
        "/sys/kernel/security",
        "/sys/fs/cgroup",
        "/sys/class",
    ];
    for path in read {
        say(&format!("read {path}"), bytes_of(path));
    }
    for name in ["root", "cwd", "exe", "environ", "cmdline", "mem", "maps", "fd", "ns/mnt"] {
        let path = format!("/proc/{host_pid}/{name}");
        say(&format!("host {name}"), bytes_of(&path));
        let path = format!("/proc/1/{name}");
        say(&format!("first {name}"), bytes_of(&path));
    }
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let count = numbers
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()))
        .count();
    say("processes", count);
}

/// How much can be had of a path.
fn bytes_of(path: &str) -> String {
    let listed = fs::read_dir(path).map(Iterator::count);
    if let Ok(count) = listed {
        return if count == 0 { "nothing".into() } else { format!("{count} entries") };
    }
    let mut some = [0u8; 64];
    let read = fs::File::open(path).and_then(|mut file| io::Read::read(&mut file, &mut some));
    match read {
        Ok(0) => "nothing".into(),
        Ok(count) => format!("{count} bytes"),
        Err(error) => verdict::<()>(Err(error)),
    }
}

/// A debugger's means, aimed at a process of the host and at process 1: on the host that is the host's own, and is let be.
pub(crate) fn debug(host_pid: &str, only_this: bool) {
    let host: i32 = host_pid.parse().unwrap();
    let call = |result: i32| checked(result).map(drop);
    let mut memory = [0u8; 8];
    let local = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: 8 };
    // SAFETY: structures outlive the calls; what they aim at is the subject of the test.
    unsafe {
        for (word, pid) in [("host", host), ("first", 1)].into_iter().take(if only_this { 1 } else { 2 }) {
            let say = |name: &str, result: io::Result<()>| say(&format!("{word} {name}"), verdict(result));
            say("attach", call(libc::ptrace(libc::PTRACE_ATTACH, pid, 0, 0) as i32));
            say("seize", call(libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) as i32));
            say(
                "read memory",
                call(libc::process_vm_readv(pid, &raw const local, 1, &raw const local, 1, 0) as i32),
            );
            say(
                "write memory",
                call(libc::process_vm_writev(pid, &raw const local, 1, &raw const local, 1, 0) as i32),
            );
            say("compare", checked(libc::syscall(libc::SYS_kcmp, pid, pid, 0, 0, 0)).map(drop));
            let held = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            let taken = if held < 0 { held } else { libc::syscall(libc::SYS_pidfd_getfd, held, 0, 0) };
            say("take descriptor", checked(taken).map(drop));
            let path = format!("/proc/{pid}/mem");
            say("open memory", fs::OpenOptions::new().read(true).write(true).open(path).map(drop));
        }
    }
}

/// Signals and priorities, aimed at process 1 and at a process of the host.
pub(crate) fn signals(host_pid: &str) {
    let host: i32 = host_pid.parse().unwrap();
    let call = |result: i32| checked(result).map(drop);
    let limit = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
    // SAFETY: structures outlive the calls; what they aim at is the subject of the test.
    unsafe {
        for (word, pid) in [("host", host), ("first", 1)] {
            let say = |name: &str, result: io::Result<()>| say(&format!("{word} {name}"), verdict(result));
            say("stop", call(libc::kill(pid, libc::SIGSTOP)));
            say("kill", call(libc::kill(pid, libc::SIGKILL)));
            say("priority", call(libc::setpriority(libc::PRIO_PROCESS, pid as u32, 19)));
            say("limit", call(libc::prlimit(pid, libc::RLIMIT_CPU, &raw const limit, std::ptr::null_mut())));
        }
        let group = libc::kill(-host, libc::SIGKILL);
        say("host group", verdict(call(group)));
        // Everyone of this user, as far as the kernel lets one see.
        let _ = libc::setpriority(libc::PRIO_USER, 0, 19);
        let _ = libc::syscall(libc::SYS_ioprio_set, 3, libc::getuid(), 3 << 13);
        // Before there is anyone who sends it.
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
        let child = libc::fork();
        if child == 0 {
            libc::setpgid(0, 0);
            libc::kill(-1, libc::SIGTERM);
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
    }
    let seen = (1..100_000).filter(|pid| {
        // SAFETY: no pointers; signal 0 is a question.
        unsafe { libc::kill(*pid, 0) == 0 }
    });
    say("reachable", seen.count());
}

/// Makes processes until no more can be had, and says how many there were.
pub(crate) fn bomb() {
    let mut children = Vec::new();
    let end = loop {
        // SAFETY: this program has one thread.
        let child = unsafe { libc::fork() };
        match child {
            // SAFETY: no pointers. A child that outlived its parent would end by the alarm.
            0 => unsafe {
                libc::alarm(30);
                libc::pause();
                libc::_exit(0);
            },
            pid if pid > 0 && children.len() < 2000 => children.push(pid),
            pid if pid > 0 => break Ok(()),
            _ => break Err(io::Error::last_os_error()),
        }
    };
    say("end", verdict(end));
    say("children", children.len());
}

/// Takes so many mebibytes and uses each page.
pub(crate) fn hog(mebibytes: &str) {
    let wanted: usize = mebibytes.parse().unwrap();
    let word = apart(|| {
        let mut all = Vec::new();
        for _ in 0..wanted {
            let mut one = Vec::new();
            if one.try_reserve_exact(1 << 20).is_err() {
                return Err(io::Error::from_raw_os_error(libc::ENOMEM));
            }
            one.resize(1 << 20, 1u8);
            all.push(one);
        }
        Ok(())
    });
    say("hog", word);
}

/// Leaves daemons: forked twice, each in a session of its own, deaf to every polite signal. Says `up` and stays.
pub(crate) fn linger(token: &str) {
    let _ = token;
    let (reads, writes) = pipe();
    for _ in 0..3 {
        // SAFETY: this program has one thread; children use what they inherit.
        unsafe {
            if libc::fork() == 0 {
                libc::setsid();
                if libc::fork() != 0 {
                    libc::_exit(0);
                }
                libc::setsid();
                for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
                    libc::signal(signal, libc::SIG_IGN);
                }
                libc::write(writes, b".".as_ptr().cast(), 1);
                for fd in 0..64 {
                    libc::close(fd);
                }
                libc::alarm(120);
                loop {
                    libc::pause();
                }
            }
        }
    }
    let mut dots = [0u8; 1];
    for _ in 0..3 {
        // SAFETY: one byte of room.
        unsafe { libc::read(reads, dots.as_mut_ptr().cast(), 1) };
    }
    println!("up");
    io::stdout().flush().unwrap();
    // SAFETY: no pointers.
    unsafe {
        libc::alarm(120);
        loop {
            libc::pause();
        }
    }
}

fn pipe() -> (i32, i32) {
    let mut ends = [0; 2];
    // SAFETY: room for two numbers that outlives the call.
    unsafe { libc::pipe(ends.as_mut_ptr()) };
    (ends[0], ends[1])
}

/// So many descendants, each the child of the last; says what each of them is.
pub(crate) fn crowd(count: &str) {
    let left: usize = count.parse().unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let wanted = ["Uid", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"];
    let mut line = String::new();
    for name in wanted {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or("?");
        line.push_str(&format!("{name}={} ", value.split_whitespace().next().unwrap_or("?")));
    }
    let environment = fs::read("/proc/self/environ").unwrap_or_default();
    let mut names: Vec<String> = environment
        .split(|byte| *byte == 0)
        .filter(|entry| !entry.is_empty())
        .map(|entry| String::from_utf8_lossy(entry).split('=').next().unwrap_or_default().to_owned())
        .collect();
    names.sort();
    say(&format!("descendant {left}"), format!("{line}env={}", names.join(",")));
    io::stdout().flush().unwrap();
    if left > 1 {
        let own = std::env::current_exe().unwrap();
        let _ = std::process::Command::new(own).args(["crowd", &(left - 1).to_string()]).status();
    }
}

/// Looks for a text in everything that can be read below these places, in environments and command lines.
pub(crate) fn seek(words: &[String]) {
    let (text, places) = words.split_first().unwrap();
    let mut found = std::collections::BTreeSet::new();
    let mut note = |bytes: &[u8]| {
        let text = text.as_bytes();
        for start in 0..bytes.len().saturating_sub(text.len()) {
            if bytes[start..].starts_with(text) {
                let rest = bytes[start..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'-');
                found.insert(String::from_utf8_lossy(&rest.copied().collect::<Vec<u8>>()).into_owned());
            }
        }
    };
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        // Its own command line has the beginning of every secret in it, and nothing more.
        for name in ["environ", "cmdline"] {
            note(&fs::read(entry.path().join(name)).unwrap_or_default());
        }
    }
    let mut folders: Vec<std::path::PathBuf> = places.iter().map(Into::into).collect();
    let (mut files, skipped) = (0, ["/proc", "/usr", "/opt", "/sys", "/dev"]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() && !skipped.iter().any(|skipped| path == Path::new(skipped)) {
                folders.push(path);
            } else if kind.is_file() && entry.metadata().is_ok_and(|found| found.len() < 1 << 20) {
                files += 1;
                note(&fs::read(path).unwrap_or_default());
            }
        }
    }
    found.remove(text.as_str());
    say("files", files);
    say("found", found.len());
    for one in found {
        say("secret", one);
    }
}
