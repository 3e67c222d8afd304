//! Attacks by system calls that nobody needs: dangerous ones, odd conventions, new worlds.

use std::arch::asm;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;

use crate::{apart, c, checked, say};

/// One call with up to six arguments.
fn raw(number: i64, arguments: [u64; 6]) -> io::Result<()> {
    let [a, b, d, e, f, g] = arguments;
    // SAFETY: where a pointer is meant it is null, or to memory that lives as long as this program.
    checked(unsafe { libc::syscall(number, a, b, d, e, f, g) }).map(drop)
}

/// A page of zeros that lives as long as the program: room for whatever a call wants to read or write.
fn page() -> u64 {
    Box::leak(Box::new([0u64; 512])).as_mut_ptr() as u64
}

pub(crate) fn dangerous() {
    let page = page();
    let description = c("taken").into_raw() as u64;
    let user = c("user").into_raw() as u64;
    let path = c("/tmp").into_raw() as u64;
    let session = u64::from((-3i32).cast_unsigned());
    let list: [(&str, i64, [u64; 6]); 39] = [
        ("bpf", 321, [0, page, 72, 0, 0, 0]),
        ("perf_event_open", 298, [page, 0, u64::MAX, u64::MAX, 0, 0]),
        ("userfaultfd", 323, [1, 0, 0, 0, 0, 0]),
        ("add_key", 248, [user, description, description, 5, session, 0]),
        ("request_key", 249, [user, description, 0, 0, 0, 0]),
        ("keyctl", 250, [0, session, 1, 0, 0, 0]),
        ("kexec_load", 246, [0, 0, 0, 0, 0, 0]),
        ("kexec_file_load", 320, [0, 0, 0, 0, 0, 0]),
        ("init_module", 175, [page, 8, page, 0, 0, 0]),
        ("finit_module", 313, [0, page, 0, 0, 0, 0]),
        ("delete_module", 176, [description, 0, 0, 0, 0, 0]),
        ("swapon", 167, [path, 0, 0, 0, 0, 0]),
        ("swapoff", 168, [path, 0, 0, 0, 0, 0]),
        ("acct", 163, [path, 0, 0, 0, 0, 0]),
        ("quotactl", 179, [0x8000_0100, path, 0, page, 0, 0]),
        ("quotactl_fd", 443, [0, 0x8000_0100, 0, page, 0, 0]),
        ("lookup_dcookie", 212, [1, page, 64, 0, 0, 0]),
        ("personality", 135, [0x0400000, 0, 0, 0, 0, 0]),
        ("modify_ldt", 154, [0, page, 64, 0, 0, 0]),
        ("iopl", 172, [3, 0, 0, 0, 0, 0]),
        ("ioperm", 173, [0x80, 1, 1, 0, 0, 0]),
        ("settimeofday", 164, [page, 0, 0, 0, 0, 0]),
        ("clock_settime", 227, [0, page, 0, 0, 0, 0]),
        ("adjtimex", 159, [page, 0, 0, 0, 0, 0]),
        ("sethostname", 170, [description, 5, 0, 0, 0, 0]),
        ("syslog", 103, [3, page, 64, 0, 0, 0]),
        ("open_by_handle_at", 304, [100, page, 0, 0, 0, 0]),
        ("name_to_handle_at", 303, [u64::from((-100i32).cast_unsigned()), path, page, page, 0, 0]),
        ("fanotify_init", 300, [0x200, 0, 0, 0, 0, 0]),
        ("process_vm_readv", 310, [1, page, 1, page, 1, 0]),
        ("process_vm_writev", 311, [1, page, 1, page, 1, 0]),
        ("kcmp", 312, [1, 1, 0, 0, 0, 0]),
        ("pidfd_getfd", 438, [0, 0, 0, 0, 0, 0]),
        ("move_pages", 279, [1, 0, 0, 0, 0, 0]),
        ("process_madvise", 440, [0, page, 1, 4, 0, 0]),
        ("memfd_secret", 447, [0, 0, 0, 0, 0, 0]),
        ("sysfs", 139, [3, 0, 0, 0, 0, 0]),
        ("uselib", 134, [path, 0, 0, 0, 0, 0]),
        ("chroot", 161, [path, 0, 0, 0, 0, 0]),
    ];
    for (name, number, arguments) in list {
        say(name, apart(|| raw(number, arguments)));
    }
}

/// io_uring, also on a ring that came as standard input.
pub(crate) fn rings() {
    let page = page();
    let input = fs::read_link("/proc/self/fd/0").unwrap_or_default();
    say("input is a ring", input.to_string_lossy().contains("io_uring"));
    say("setup", apart(|| raw(425, [4, page, 0, 0, 0, 0])));
    say("enter", apart(|| raw(426, [0, 0, 0, 0, 0, 0])));
    say("register", apart(|| raw(427, [0, 1, 0, 0, 0, 0])));
    say("register-none", apart(|| raw(427, [u64::MAX, 22, page, 1, 0, 0])));
}

/// Calls made in other ways than a program of this architecture makes them.
pub(crate) fn conventions() {
    let old = |number: u32, first: u64, second: u64| -> io::Result<()> {
        let result: i64;
        // SAFETY: the arguments are small numbers or below 4 GiB; rbx is put back.
        unsafe {
            asm!("xchg rbx, {first}", "int 0x80", "xchg rbx, {first}", first = inout(reg) first => _,
                inlateout("rax") u64::from(number) => result, in("rcx") second, in("rdx") 0u64,
                lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _);
        }
        let result = i64::from(result as i32);
        if result < 0 { Err(io::Error::from_raw_os_error(-result as i32)) } else { Ok(()) }
    };
    let garbage = 0xdead_beef_0000_0000u64;
    say("int80-getpid", apart(|| old(20, 0, 0)));
    say("int80-open", apart(|| old(5, 0, 0)));
    say("int80-socketcall", apart(|| old(102, 1, 0)));
    say("int80-vm86", apart(|| old(113, 0, 0)));
    say("x32-getpid", apart(|| raw(0x4000_0000 | 39, [0; 6])));
    say("x32-ptrace", apart(|| raw(0x4000_0000 | 521, [0; 6])));
    say("garbage-packet", apart(|| raw(41, [garbage | 17, 3, 0, 0, 0, 0])));
    say("garbage-netlink", apart(|| raw(41, [garbage | 16, garbage | 3, garbage | 15, 0, 0, 0])));
    say("garbage-datagram", apart(|| raw(41, [garbage | 1, garbage | 2, 0, 0, 0, 0])));
    say("garbage-unshare", apart(|| raw(272, [garbage | 0x1000_0000, 0, 0, 0, 0, 0])));
    say("garbage-clone", apart(|| clone(garbage | 0x1000_0000)));
    say("clone3-user", apart(|| clone3(0x1000_0000)));
    say("number-negative", apart(|| raw(-2, [0; 6])));
    say("number-huge", apart(|| raw(0x1_0000_0000 | 165, [0; 6])));
}

fn clone(flags: u64) -> io::Result<()> {
    // SAFETY: no new stack: a fork with other namespaces; the child leaves at once.
    unsafe {
        match checked(libc::syscall(libc::SYS_clone, flags | libc::SIGCHLD as u64, 0, 0, 0, 0))? {
            0 => libc::_exit(0),
            _ => Ok(()),
        }
    }
}

fn clone3(flags: u64) -> io::Result<()> {
    let arguments: [u64; 11] = [flags, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0, 0, 0, 0];
    // SAFETY: as above; the structure outlives the call.
    unsafe {
        match checked(libc::syscall(libc::SYS_clone3, arguments.as_ptr(), size_of_val(&arguments)))? {
            0 => libc::_exit(0),
            _ => Ok(()),
        }
    }
}

const NAMESPACES: [(&str, u64); 8] = [
    ("user", 0x1000_0000),
    ("mount", 0x0002_0000),
    ("pid", 0x2000_0000),
    ("net", 0x4000_0000),
    ("ipc", 0x0800_0000),
    ("uts", 0x0400_0000),
    ("cgroup", 0x0200_0000),
    ("time", 0x80),
];

/// New namespaces, or another process's.
pub(crate) fn worlds() {
    for (name, flag) in NAMESPACES {
        say(&format!("unshare-{name}"), apart(|| raw(272, [flag, 0, 0, 0, 0, 0])));
        // As a flag of `clone`, the bit of time namespaces belongs to the signal.
        if name != "time" {
            say(&format!("clone-{name}"), apart(|| clone(flag)));
        }
        say(&format!("clone3-{name}"), apart(|| clone3(flag)));
    }
    for whose in ["self", "1"] {
        for name in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
            let verdict = apart(|| {
                let file = fs::File::open(format!("/proc/{whose}/ns/{name}"))?;
                let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
                raw(308, [fd as u64, 0, 0, 0, 0, 0])
            });
            say(&format!("setns-{whose}-{name}"), verdict);
        }
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let zero = |line: &str| {
        line.split_once(':').is_some_and(|(_, value)| value.trim().bytes().all(|byte| byte == b'0'))
    };
    say(
        "capabilities",
        if status.lines().filter(|line| line.starts_with("Cap")).all(zero) { "none" } else { "some" },
    );
}

/// Mounts, in a user namespace of its own where one can be had.
pub(crate) fn mounts() {
    let table = || fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let before = table();
    let flags = 0x1000_0000 | 0x0002_0000;
    say("own-mounts", apart(|| raw(272, [flags, 0, 0, 0, 0, 0])));
    let page = page();
    let text = |text: &str| c(text).into_raw() as u64;
    let (proc, tmp, tmpfs, here) =
        (text("/proc"), text("/tmp"), text("tmpfs"), u64::from((-100i32).cast_unsigned()));
    let root = text("/");
    let list: [(&str, i64, [u64; 6]); 15] = [
        ("mount-tmpfs", 165, [tmpfs, tmp, tmpfs, 0, 0, 0]),
        ("mount-bind", 165, [root, tmp, 0, 0x1000, 0, 0]),
        ("remount-writable", 165, [0, text("/usr"), 0, 0x20 | 0x1000, 0, 0]),
        ("remount-suid", 165, [0, tmp, 0, 0x20 | 0x1000, 0, 0]),
        ("mount-proc", 165, [proc, tmp, proc, 0, 0, 0]),
        ("umount-proc", 166, [proc, 2, 0, 0, 0, 0]),
        ("umount-mask", 166, [text("/proc/keys"), 2, 0, 0, 0, 0]),
        ("fsopen", 430, [tmpfs, 0, 0, 0, 0, 0]),
        ("fsconfig", 431, [0, 6, 0, 0, 0, 0]),
        ("fsmount", 432, [0, 0, 0, 0, 0, 0]),
        ("fspick", 433, [here, tmp, 0, 0, 0, 0]),
        ("open_tree", 428, [here, root, 1, 0, 0, 0]),
        ("move_mount", 429, [here, tmp, here, proc, 0, 0]),
        ("mount_setattr", 442, [here, tmp, 0, page, 32, 0]),
        ("pivot_root", 155, [tmp, tmp, 0, 0, 0, 0]),
    ];
    for (name, number, arguments) in list {
        let verdict = apart(|| {
            let _ = raw(272, [flags, 0, 0, 0, 0, 0]);
            raw(number, arguments)
        });
        say(name, verdict);
    }
    say("mount table", if table() == before { "unchanged" } else { "changed" });
}

/// Every number that is named, with arguments that can do no harm.
pub(crate) fn sweep(numbers: &[String]) {
    for number in numbers.iter().filter_map(|text| text.parse::<i64>().ok()) {
        say(&number.to_string(), apart(|| raw(number, [u64::MAX; 6])));
    }
}

/// Runs a command on a kernel that seems to lack some calls: `deny 444=ENOSYS,56=EPERM -- cmd`.
pub(crate) fn deny(list: &str, command: &[String]) {
    let statement = |code: u16, jt: u8, jf: u8, k: u32| libc::sock_filter { code, jt, jf, k };
    let mut program = vec![statement(0x20, 0, 0, 0)];
    for item in list.split(',') {
        let (number, error) = item.split_once('=').unwrap();
        let error = if error == "ENOSYS" { libc::ENOSYS } else { libc::EPERM };
        // A call with a first argument (`157:38`): only with this one.
        let (number, first) =
            number.split_once(':').map_or((number, None), |(number, first)| (number, Some(first)));
        let steps = if first.is_some() { 4 } else { 1 };
        program.push(statement(0x15, 0, steps, number.parse().unwrap()));
        if let Some(first) = first {
            program.push(statement(0x20, 0, 0, 16));
            program.push(statement(0x15, 0, 1, first.parse().unwrap()));
            program.push(statement(0x06, 0, 0, 0x0005_0000 | error as u32));
            program.push(statement(0x20, 0, 0, 0));
        } else {
            program.push(statement(0x06, 0, 0, 0x0005_0000 | error as u32));
        }
    }
    program.push(statement(0x06, 0, 0, 0x7fff_0000));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program outlives the call; the kernel keeps a copy.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        checked(libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const filter)).unwrap();
    }
    let command = if command.first().is_some_and(|word| word == "--") { &command[1..] } else { command };
    let error = std::process::Command::new(&command[0]).args(&command[1..]).exec();
    panic!("{error}");
}
