//! The attacks of the self-test, one line each: what is tried, and which wall alone stands against it.
//!
//! Invariant: an attack whose outcome cannot be told counts as got through. Not here: the calls themselves
//! ([`crate::sys::probe`]).

use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::outside::{CANARY, Outside};
use crate::plan::Part;
use crate::sys::probe::{self as sys, Answer, in_child};

/// One attack.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// The part without which it gets through, where only one stands against it.
    pub(crate) only: Option<Part>,
    pub(crate) run: fn(&Outside) -> Answer,
}

const fn attack(name: &'static str, run: fn(&Outside) -> Answer) -> Attack {
    Attack { name, only: None, run }
}

/// An attack that one part alone stands against.
const fn against(part: Part, name: &'static str, run: fn(&Outside) -> Answer) -> Attack {
    Attack { name, only: Some(part), run }
}

const SECCOMP: Part = Part::Seccomp;
/// The attack that a person's own wish can let through.
pub(crate) const PLACES: &str = "see-host-places";

/// Every attack, in the order in which they are made; the last one could end the sandbox.
#[rustfmt::skip]
pub(crate) static ATTACKS: &[Attack] = &[
    attack("descriptor-left-open", |_| open_descriptors()),

    // What is the host's
    attack("namespace-user", |outside| namespace(outside, "user")),
    attack("namespace-mnt", |outside| namespace(outside, "mnt")),
    attack("namespace-pid", |outside| namespace(outside, "pid")),
    attack("namespace-net", |outside| namespace(outside, "net")),
    attack("namespace-ipc", |outside| namespace(outside, "ipc")),
    attack("namespace-uts", |outside| namespace(outside, "uts")),
    attack("namespace-cgroup", |outside| namespace(outside, "cgroup")),
    attack(PLACES, see_places),
    attack("see-host-processes", |_| foreign_processes()),
    attack("see-host-devices", |_| foreign_devices()),
    attack("see-host-kernel", |_| kernel_files()),
    attack("signal-launcher", launcher),
    attack("connect-tcp-loopback", tcp),
    attack("connect-abstract-socket", abstract_socket),

    // Files
    against(Part::Landlock, "read-without-a-rule", |_| open(CANARY, OFlags::RDONLY)),
    against(Part::ReadOnly, "write-what-is-to-be-read", |outside| read_only(&outside.read_only)),
    against(Part::ReadOnly, "write-system-mount", |_| read_only(&["/usr"])),
    attack("write-root-mount", |_| read_only(&["/", "/etc", "/run"])),
    attack("write-system", |_| make("/usr/palisade-probe")),
    attack("write-root", |_| make("/palisade-probe")),
    attack("write-settings", |_| open("/etc/passwd", OFlags::WRONLY)),
    attack("write-kernel-settings", |_| open("/proc/sys/kernel/core_pattern", OFlags::WRONLY)),
    attack("write-sysrq", |_| open("/proc/sysrq-trigger", OFlags::WRONLY)),
    attack("set-user-id-counts", |_| set_user_id()),
    attack("make-device", |_| device()),

    // Process 1, and rights
    attack("trace-init", |_| in_child(sys::trace_init)),
    against(SECCOMP, "read-memory-of-init", |_| privileged(sys::read_init())),
    attack("open-memory-of-init", |_| open("/proc/1/mem", OFlags::RDONLY)),
    attack("open-environment-of-init", |_| open("/proc/1/environ", OFlags::RDONLY)),
    attack("become-root", |_| in_child(sys::become_root)),
    attack("raise-capabilities", |_| in_child(capabilities)),
    attack("capability-left", |_| capability_left()),
    against(Part::NoNewPrivs, "gain-privileges-by-exec", |_| gains()),
    against(SECCOMP, "filter-is-off", |_| unfiltered()),

    // New worlds
    against(SECCOMP, "unshare-user", |_| in_child(|| sys::unshare(libc::CLONE_NEWUSER))),
    against(SECCOMP, "clone-user", |_| in_child(|| sys::clone_into(libc::CLONE_NEWUSER))),
    against(SECCOMP, "clone3-user", |_| in_child(clone3)),
    attack("unshare-mounts", |_| in_child(|| sys::unshare(libc::CLONE_NEWNS))),
    attack("enter-namespace", |_| in_child(enter)),
    attack("mount-memory", |_| sys::mount(Some(c"tmpfs"), c"/tmp", 0)),
    attack("remount-system", |_| sys::mount(None, c"/usr", libc::MS_REMOUNT | libc::MS_BIND)),
    attack("unmount-processes", |_| sys::unmount(c"/proc")),
    attack("new-file-system", |_| sys::new_file_system()),
    attack("copy-mount", |_| sys::copy_mount()),
    attack("pivot-root", |_| privileged(sys::pivot_root())),
    attack("chroot", |_| in_child(sys::chroot)),
    attack("open-by-handle", |_| privileged(sys::open_by_handle())),

    // Engines of the kernel
    against(SECCOMP, "keyring", |_| sys::keyring()),
    against(SECCOMP, "add-key", |_| sys::add_key()),
    against(SECCOMP, "io-uring", |_| sys::io_uring()),
    against(SECCOMP, "userfaultfd", |_| sys::userfaultfd()),
    against(SECCOMP, "bpf", |_| sys::bpf()),
    against(SECCOMP, "perf", |_| sys::perf()),
    attack("kexec", |_| privileged(sys::kexec())),
    attack("load-module", |_| privileged(sys::module())),
    against(SECCOMP, "kernel-log", |_| sys::kernel_log()),
    attack("hardware-ports", |_| in_child(sys::ports)),

    // Sockets, terminals, other doors
    attack("socket-packet", |_| sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)),
    attack("socket-raw", |_| sys::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)),
    against(SECCOMP, "socket-netlink-diag", |_| sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_SOCK_DIAG)),
    against(SECCOMP, "socket-netlink-events", |_| sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT)),
    against(SECCOMP, "socket-vsock", |_| sys::socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0)),
    against(SECCOMP, "socket-alg", |_| sys::socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0)),
    against(SECCOMP, "type-into-terminal", |_| in_child(terminal)),
    against(SECCOMP, "foreign-numbers", |_| in_child(sys::foreign_numbers)),
    against(SECCOMP, "old-door", |_| in_child(sys::old_door)),
    attack("kill-init", |_| kill_init()),
];

/// A call that asks for a privilege first: any other answer means that the privilege was there.
fn privileged(answer: Answer) -> Answer {
    match answer {
        Err(error @ (libc::EPERM | libc::ENOSYS | libc::EACCES)) => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Holds if `is`; else the attack got through.
fn refused_if(is: bool) -> Answer {
    if is { Err(0) } else { Ok(()) }
}

fn number(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

fn open(path: &str, flags: OFlags) -> Answer {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
        .map(drop)
        .map_err(rustix::io::Errno::raw_os_error)
}

/// Makes a file, and takes it away again if that worked.
fn make(path: &str) -> Answer {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let made = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)).map(drop);
    if made.is_ok() {
        let _ = fs::remove_file(path);
    }
    made.map_err(rustix::io::Errno::raw_os_error)
}

/// Takes away an attribute that is not there. The kernel looks at the mount before it looks at anything else, so any
/// other answer means that the mount can be written.
fn read_only(paths: &[impl AsRef<str>]) -> Answer {
    let holds = |path: &str| {
        let answer = rustix::fs::lremovexattr(path, "user.palisade-probe");
        matches!(answer, Err(rustix::io::Errno::ROFS))
    };
    if paths.iter().all(|path| holds(path.as_ref())) { Err(libc::EROFS) } else { Ok(()) }
}

fn set_user_id() -> Answer {
    let safe = |path: &str| {
        rustix::fs::statvfs(path)
            .is_ok_and(|found| found.f_flag.contains(rustix::fs::StatVfsMountFlags::NOSUID))
    };
    refused_if(["/", "/usr", "/tmp"].into_iter().all(safe))
}

fn device() -> Answer {
    let answer = sys::device(c"/tmp/.palisade-probe");
    if answer.is_ok() {
        let _ = fs::remove_file("/tmp/.palisade-probe");
    }
    answer
}

fn open_descriptors() -> Answer {
    let count = fs::read_dir("/proc/self/fd").map_or(usize::MAX, Iterator::count);
    // The three, and the one that lists them.
    refused_if(count <= 4)
}

fn namespace(outside: &Outside, name: &str) -> Answer {
    let host = outside.namespaces.iter().find(|(own, _)| own == name).map(|(_, inode)| *inode);
    match (host, fs::metadata(Path::new("/proc/self/ns").join(name))) {
        // This kernel has none of this kind.
        (None, Err(error)) => Err(number(&error)),
        (Some(host), Ok(own)) => refused_if(own.ino() != host),
        _ => Ok(()),
    }
}

/// A place of the host that is the same one inside: at its own path, or mounted anywhere else.
fn see_places(outside: &Outside) -> Answer {
    let Ok(mounts) = fs::read("/proc/self/mountinfo") else { return Ok(()) };
    // Names need not be text.
    let mounts = String::from_utf8_lossy(&mounts).into_owned();
    let identity = |path: &Path| fs::symlink_metadata(path).map(|found| (found.dev(), found.ino())).ok();
    let of_host = |(_, device, inode): &(String, u64, u64)| (*device, *inode);
    let at_its_path = |place: &(String, u64, u64)| identity(Path::new(&place.0)) == Some(of_host(place));
    let is_of_host = |point: &str| {
        identity(Path::new(point))
            .is_some_and(|found| outside.places.iter().any(|place| of_host(place) == found))
    };
    let mut points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    refused_if(!outside.places.iter().any(at_its_path) && !points.any(is_of_host))
}

/// `/proc` shows the processes of another namespace if it does not show this one under its number.
fn foreign_processes() -> Answer {
    let own = rustix::process::getpid().as_raw_pid().to_string();
    let shown = fs::read_link("/proc/self").is_ok_and(|path| path == Path::new(&own));
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_number = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    let count = entries.filter(|entry| is_number(&entry.file_name())).count();
    refused_if(shown && (1..=4).contains(&count))
}

/// Names under `/dev` that a sandbox has; anything else is a device of the host.
const DEVICES: [&str; 14] = [
    "null", "zero", "full", "random", "urandom", "tty", "pts", "shm", "ptmx", "fd", "stdin", "stdout",
    "stderr", "mqueue",
];

fn foreign_devices() -> Answer {
    let Ok(mut entries) = fs::read_dir("/dev") else { return Ok(()) };
    let known = |entry: std::io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(|name| DEVICES.contains(&name)))
    };
    refused_if(entries.all(known))
}

/// Files of `/proc` that tell of the host, and a `/sys` that does.
fn kernel_files() -> Answer {
    let tells = |path: &str| {
        let file = fs::File::open(path);
        file.is_ok_and(|mut file| file.read(&mut [0u8; 16]).is_ok_and(|got| got > 0))
    };
    let files =
        ["/proc/kallsyms", "/proc/kcore", "/proc/keys", "/proc/cmdline", "/proc/modules", "/proc/timer_list"];
    refused_if(!files.into_iter().any(tells) && !Path::new("/sys/kernel").exists())
}

fn launcher(outside: &Outside) -> Answer {
    // Low numbers are taken inside too.
    if outside.launcher < 64 { Err(libc::ESRCH) } else { sys::signal(outside.launcher, 0) }
}

fn tcp(outside: &Outside) -> Answer {
    let Some(port) = outside.port else { return Err(0) };
    std::net::TcpStream::connect(("127.0.0.1", port)).map(drop).map_err(|error| number(&error))
}

fn abstract_socket(outside: &Outside) -> Answer {
    let Some(name) = &outside.socket else { return Err(0) };
    let address = SocketAddr::from_abstract_name(name.as_bytes()).map_err(|error| number(&error))?;
    UnixStream::connect_addr(&address).map(drop).map_err(|error| number(&error))
}

fn capabilities() -> Answer {
    use rustix::thread::{CapabilitySet, CapabilitySets};
    let one = CapabilitySet::SYS_ADMIN;
    let sets = CapabilitySets { effective: one, permitted: one, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(rustix::io::Errno::raw_os_error)
}

fn capability_left() -> Answer {
    let held = rustix::thread::capabilities(None).is_ok_and(|sets| {
        sets.effective.is_empty() && sets.permitted.is_empty() && sets.inheritable.is_empty()
    });
    let one = rustix::thread::CapabilitySet::SYS_ADMIN;
    refused_if(held && rustix::thread::capability_is_in_bounding_set(one).is_ok_and(|is| !is))
}

fn gains() -> Answer {
    refused_if(rustix::thread::no_new_privs().is_ok_and(|is| is))
}

/// Whether a filter is on, by the process's own status.
fn unfiltered() -> Answer {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    refused_if(
        status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2")),
    )
}

fn clone3() -> Answer {
    use crate::sys::process::{Side, fork, leave};
    match fork(libc::CLONE_NEWUSER as u64, None) {
        Ok(Side::Child) => leave(0),
        Ok(Side::Parent(pid, _)) => sys::ended(pid),
        Err(error) => Err(number(&error)),
    }
}

fn enter() -> Answer {
    let file = fs::File::open("/proc/self/ns/uts").map_err(|error| number(&error))?;
    sys::enter(file.as_fd())
}

fn terminal() -> Answer {
    use rustix::pty::OpenptFlags;
    let near =
        rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).map_err(|error| error.raw_os_error())?;
    rustix::pty::unlockpt(&near).map_err(|error| error.raw_os_error())?;
    let far = rustix::pty::ioctl_tiocgptpeer(&near, OpenptFlags::RDWR | OpenptFlags::NOCTTY);
    let far = far.map_err(|error| error.raw_os_error())?;
    let answer = sys::type_for_others(far.as_fd());
    // Letting go of it would end this process before it answered.
    std::mem::forget(near);
    answer
}

/// The kernel keeps process 1 from signals of its own namespace. If it does not, nobody is left to answer.
fn kill_init() -> Answer {
    let _ = sys::signal(1, libc::SIGKILL);
    Err(0)
}
