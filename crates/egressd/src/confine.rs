//! What the proxy gives up before it reads a stranger's byte.
//!
//! Invariant: afterwards it starts no program, forks nothing, writes no file and gets no privilege; whatever else it asks
//! the kernel for does not exist. It can still connect, read what names and certificates are found by, and make threads. Of
//! files there is nothing else for it, by two means that do not know of each other.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Everything that a runtime, carrying bytes, TLS and looking up names need of the kernel, whatever the arguments.
const ALLOWED: &[libc::c_long] = &[
    // Bytes.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_splice,
    libc::SYS_pipe2,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_lseek,
    // How much there is to read.
    libc::SYS_ioctl,
    // Sockets.
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    // Waiting.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_restart_syscall,
    // Memory, also the kind that a key is kept in.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_memfd_create,
    libc::SYS_membarrier,
    libc::SYS_getrandom,
    // Threads, and their ends.
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_prctl,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // What names and certificates are found by.
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getdents64,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// The families of sockets that it makes: both internets, name services of this machine, and what addresses it has.
const FAMILIES: [i32; 4] = [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX, libc::AF_NETLINK];

/// Where systems keep how names are found, which certificates are trusted, and the libraries that look names up.
const READ: [&str; 6] = ["/etc", "/usr", "/lib", "/lib64", "/nix/store", "/gnu/store"];

/// What may lie elsewhere, behind a link: systems write it anew when their network changes, or their certificates.
const LINKED: [&str; 7] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Gives up what is not needed. Before any other thread. `user`: who to become, for root.
pub(crate) fn confine(user: Option<(u32, u32)>) -> io::Result<()> {
    if let Some((user, group)) = user {
        let (user, group) = (rustix::process::Uid::from_raw(user), rustix::process::Gid::from_raw(group));
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(group, group, group)?;
        rustix::thread::set_thread_res_uid(user, user, user)?;
    }
    // After the change of the user, which would undo it.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    let files = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files })?;
    rustix::thread::set_no_new_privs(true)?;
    // Whoever starts it may have some that outlast the start of a program.
    let none = rustix::thread::CapabilitySet::empty();
    let none = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, none)?;
    keep_from_files()?;
    let program: seccompiler::BpfProgram = filter()?.try_into().map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

/// Takes all files but those that names and certificates are found by, and signals and sockets without a name of others. A kernel
/// that cannot do that at all starts no sandbox unless somebody says so, and then its proxy has what the filter leaves.
fn keep_from_files() -> io::Result<()> {
    let places = READ.into_iter().map(PathBuf::from).chain(LINKED.into_iter().filter_map(elsewhere));
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V6))
        .and_then(|rules| rules.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(places, AccessFs::ReadFile | AccessFs::ReadDir)))
        .and_then(|rules| rules.restrict_self())
        .map_err(io::Error::other)?;
    // Not believed but tried, since nobody can see it from outside.
    match (status.ruleset, std::fs::File::open("/")) {
        (RulesetStatus::NotEnforced, _) => Ok(()),
        (_, Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        _ => Err(io::Error::other("the kernel does not keep the proxy from files")),
    }
}

/// Where this file is if it lies outside of what is read anyway: the directory that the system keeps it in, since it is replaced
/// there, or the file alone where others have theirs.
fn elsewhere(file: &str) -> Option<PathBuf> {
    let link = || Some(Path::new(file).parent()?.join(std::fs::read_link(file).ok()?));
    // What it leads to may come later than this process.
    let at = std::fs::canonicalize(file).ok().or_else(link)?;
    if READ.iter().any(|place| at.starts_with(place)) {
        return None;
    }
    let directory = at.parent()?;
    let is_systems = ["/run", "/var", "/mnt"].iter().any(|place| directory.starts_with(place));
    let is_own = directory.components().count() > 2;
    Some(if is_systems && is_own { directory.to_owned() } else { at })
}

fn filter() -> io::Result<SeccompFilter> {
    let when = |argument, operator, value| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
            .map_err(io::Error::other)
    };
    let number = |number: i32| u64::from(number.unsigned_abs());
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    // A thread, no process. The newer way to make one cannot be looked at, so it is not there.
    let thread = number(libc::CLONE_THREAD);
    rules.insert(libc::SYS_clone, vec![when(0, SeccompCmpOp::MaskedEq(thread), thread)?]);
    // For reading only.
    let writes = number(libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND);
    rules.insert(libc::SYS_openat, vec![when(2, SeccompCmpOp::MaskedEq(writes), 0)?]);
    let families: io::Result<Vec<SeccompRule>> =
        FAMILIES.iter().map(|family| when(0, SeccompCmpOp::Eq, number(*family))).collect();
    rules.insert(libc::SYS_socket, families?);
    // As if the kernel did not have it: whoever asks knows what to do then.
    let missing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let here = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    SeccompFilter::new(rules, missing, SeccompAction::Allow, here).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_can_be_made_and_allows_nothing_that_starts_programs() {
        filter().unwrap();
        for call in [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_clone3,
            libc::SYS_ptrace,
            libc::SYS_io_uring_setup,
        ] {
            assert!(!ALLOWED.contains(&call), "{call}");
        }
    }

    #[test]
    fn adv_n17_a_thread_that_is_confined_starts_nothing_and_writes_nothing() {
        // The filter holds for the thread that takes it, so this test is a thread of its own.
        let thread = std::thread::spawn(|| {
            confine(None).unwrap();
            let started = std::process::Command::new("/bin/true").spawn().is_ok();
            let wrote = std::fs::write("/tmp/palisade-egress-must-not-write", b"x").is_ok();
            let reads = std::fs::read("/etc/hosts").is_ok();
            (started, wrote, reads)
        });
        assert_eq!(thread.join().unwrap(), (false, false, true));
    }

    #[test]
    fn adv_n17_landlock_alone_keeps_a_thread_from_files_that_are_not_its_business() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, b"of somebody").unwrap();
        let at = folder.path().to_owned();
        let thread = std::thread::spawn(move || {
            rustix::thread::set_no_new_privs(true).unwrap();
            keep_from_files().unwrap();
            let denied =
                |result: io::Result<()>| result.unwrap_err().kind() == io::ErrorKind::PermissionDenied;
            let reads = |path: &Path| std::fs::read(path).map(drop);
            let lists = |path: &str| std::fs::read_dir(path).map(drop);
            for path in [file.as_path(), Path::new("/proc/self/environ"), Path::new("/proc/self/maps")] {
                assert!(denied(reads(path)), "{}", path.display());
            }
            for path in ["/", "/proc", "/root", "/home", "/tmp", "/run", "/var"] {
                assert!(denied(lists(path)), "{path}");
            }
            assert!(denied(std::fs::write(at.join("new"), b"x")) && denied(std::fs::write(&file, b"x")));
            assert!(denied(std::fs::remove_file(&file)) && denied(std::fs::create_dir(at.join("dir"))));
            assert!(denied(std::fs::rename(&file, at.join("other"))));
            assert!(denied(std::os::unix::fs::symlink("/", at.join("link"))));
            assert!(denied(std::fs::write("/etc/palisade-egress-must-not-write", b"x")));
            let starts = std::process::Command::new("/bin/true").spawn();
            assert!(denied(starts.map(drop)), "programs are read, and not started");
            reads(Path::new("/etc/hosts")).unwrap();
            use std::net::ToSocketAddrs;
            assert!(("localhost", 80).to_socket_addrs().is_ok_and(|mut all| all.next().is_some()));
        });
        thread.join().unwrap();
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn what_names_are_found_by_may_lie_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("resolv.conf"), folder.path().join("link"));
        std::fs::write(&file, b"").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let file = std::fs::canonicalize(file).unwrap();
        assert_eq!(elsewhere(link.to_str().unwrap()), Some(file.clone()), "nobody else's directory");
        std::fs::remove_file(&file).unwrap();
        for (to, place) in [
            ("/run/systemd/resolve/none.conf", "/run/systemd/resolve"),
            ("/var/lib/none/bundle.pem", "/var/lib/none"),
            ("/run/none.conf", "/run/none.conf"),
        ] {
            std::fs::remove_file(&link).unwrap();
            std::os::unix::fs::symlink(to, &link).unwrap();
            assert_eq!(elsewhere(link.to_str().unwrap()), Some(place.into()));
        }
        assert_eq!(elsewhere("/etc/none"), None);
    }
}
