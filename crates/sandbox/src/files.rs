//! The parts of the root that every sandbox has: system directories, devices, processes, and a few files that
//! say who and where one is.
//!
//! Invariant: nothing here can be written, and nothing tells of the host's people, services or settings.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::plan::{Access, Identity, Mount, Source};

/// Directories of programs; a link on the host is the same link inside.
const PROGRAMS: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"];

/// What of `/etc` programs need to run at all; none of it tells about this host's people or services.
const SETTINGS: [&str; 21] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/mime.types",
    "/etc/magic",
    "/etc/protocols",
    "/etc/services",
    "/etc/terminfo",
    "/etc/inputrc",
    "/etc/bash.bashrc",
    "/etc/vim",
    "/etc/fonts",
    "/etc/java-17-openjdk",
    "/etc/debian_version",
];

const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Parts of `/proc` that tell about the host and that everyone may read.
const HIDDEN: [&str; 18] = [
    "acpi",
    "bus",
    "cmdline",
    "driver",
    "dynamic_debug",
    "fs",
    "irq",
    "iomem",
    "ioports",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "locks",
    "modules",
    "sysrq-trigger",
    "timer_list",
];

/// The system's programs and libraries, as they are on this host: mounts and links.
pub(crate) fn system() -> (Vec<Mount>, Vec<(PathBuf, PathBuf)>) {
    let (mut mounts, mut links) = (Vec::new(), Vec::new());
    for path in PROGRAMS.iter().chain(&SETTINGS).map(Path::new) {
        let Ok(found) = std::fs::symlink_metadata(path) else { continue };
        if found.is_symlink() {
            if let Ok(to) = std::fs::read_link(path) {
                links.push((path.to_owned(), to));
            }
        } else {
            mounts.push(Mount::host(path, path, Access::Read));
        }
    }
    (mounts, links)
}

/// Devices, terminals, shared memory, processes.
pub(crate) fn devices(memory: u64) -> Vec<Mount> {
    let own = |source, at: &str, access| Mount { source, at: at.into(), access, owned: false, programs: false, within: None, writable_anyway: false };
    let mut mounts: Vec<Mount> = DEVICES.iter().map(|path| Mount::host(*path, *path, Access::Device)).collect();
    for mount in &mut mounts {
        mount.programs = false;
    }
    mounts.push(own(Source::Terminals, "/dev/pts", Access::Device));
    mounts.push(own(Source::Memory(memory, 0o1777), "/dev/shm", Access::Write));
    mounts.push(own(Source::Processes, "/proc", Access::Read));
    for name in HIDDEN {
        let path = Path::new("/proc").join(name);
        if path.exists() {
            mounts.push(Mount { at: path, ..own(Source::Nothing, "", Access::Read) });
        }
    }
    mounts
}

/// Links that every root has.
pub(crate) fn links() -> Vec<(PathBuf, PathBuf)> {
    [
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
        ("/etc/mtab", "/proc/self/mounts"),
        ("/var/tmp", "/tmp"),
        ("/var/run", "/run"),
    ]
    .map(|(at, to)| (at.into(), to.into()))
    .to_vec()
}

/// Directories that every root has.
pub(crate) fn folders() -> Vec<PathBuf> {
    ["/dev", "/etc", "/home", "/proc", "/run", "/tmp", "/var", "/.empty/folder"].map(PathBuf::from).to_vec()
}

/// Files that say who and where one is.
pub(crate) fn made(identity: &Identity, user: &str, home: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (uid, gid, home) = (identity.user, identity.group, home.display());
    let mut people = String::from("root:x:0:0:root:/root:/usr/sbin/nologin\n");
    let _ = writeln!(people, "{user}:x:{uid}:{gid}:{user}:{home}:/bin/bash");
    people.push_str("nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
    let groups = format!("root:x:0:\n{user}:x:{gid}:\nnogroup:x:65534:\n");
    let hosts = "127.0.0.1 localhost palisade\n::1 localhost ip6-localhost ip6-loopback\n";
    let names = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n";
    // Outside 127/8, where the proxy's answers will come from; today nobody answers.
    let resolver = "nameserver 198.18.0.1\noptions timeout:2 attempts:1\n";
    [
        ("/etc/passwd", people.as_str()),
        ("/etc/group", &groups),
        ("/etc/hosts", hosts),
        ("/etc/hostname", "palisade\n"),
        ("/etc/nsswitch.conf", names),
        ("/etc/resolv.conf", resolver),
        ("/etc/shells", "/bin/sh\n/bin/bash\n"),
        ("/.empty/file", ""),
    ]
    .map(|(at, text)| (at.into(), text.as_bytes().to_vec()))
    .to_vec()
}
