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

const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

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

/// What every sandbox on this host has, whatever its command.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) mounts: Vec<Mount>,
    /// Where, and to what.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
}

/// What every sandbox has; what is above is before what is below.
pub(crate) fn base() -> Base {
    let (mut mounts, mut links) = system();
    mounts.extend(devices());
    for mount in &mut mounts {
        mount.base = true;
    }
    links.extend(LINKS.map(|(at, to)| (at.into(), to.into())));
    let folders = FOLDERS.map(PathBuf::from).to_vec();
    Base { mounts, links, folders, files: vec![("/.empty/file".into(), Vec::new())] }
}

/// The system's programs and libraries, as they are on this host: mounts and links.
fn system() -> (Vec<Mount>, Vec<(PathBuf, PathBuf)>) {
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

/// Devices, terminals, processes.
fn devices() -> Vec<Mount> {
    let own = |source, at: &str, access| Mount { programs: false, ..Mount::own(source, at, access) };
    let mut mounts: Vec<Mount> =
        DEVICES.iter().map(|path| Mount::host(*path, *path, Access::Device)).collect();
    for mount in &mut mounts {
        mount.programs = false;
    }
    mounts.push(own(Source::Terminals, "/dev/pts", Access::Device));
    mounts.push(own(Source::Processes, "/proc", Access::Read));
    for name in HIDDEN {
        let path = Path::new("/proc").join(name);
        if path.exists() {
            mounts.push(Mount { programs: false, ..Mount::own(Source::Nothing, path, Access::Read) });
        }
    }
    mounts
}

/// Links that every root has.
const LINKS: [(&str, &str); 7] = [
    ("/dev/ptmx", "pts/ptmx"),
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/etc/mtab", "/proc/self/mounts"),
    ("/var/run", "/run"),
];

/// Directories that every root has.
const FOLDERS: [&str; 12] = [
    "/dev",
    "/etc",
    "/etc/ssl",
    "/etc/pki",
    "/etc/pki/tls",
    "/home",
    "/nix",
    "/proc",
    "/run",
    "/tmp",
    "/var",
    "/.empty/folder",
];

/// Files that say who and where one is.
pub(crate) fn made(identity: &Identity, user: &str, home: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (uid, gid, home) = (identity.user, identity.group, home.display());
    let mut people = String::from("root:x:0:0:root:/root:/usr/sbin/nologin\n");
    let _ = writeln!(people, "{user}:x:{uid}:{gid}:{user}:{home}:/bin/bash");
    people.push_str("nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
    let groups = format!("root:x:0:\n{user}:x:{gid}:\nnogroup:x:65534:\n");
    let hosts = "127.0.0.1 localhost palisade\n::1 localhost ip6-localhost ip6-loopback\n";
    let names = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n";
    // Outside 127/8, which is the sandbox's own; answered by whoever holds the sockets, if anybody does.
    let resolver = format!("nameserver {}\noptions timeout:2 attempts:1\n", crate::capture::RESOLVER);
    [
        ("/etc/passwd", people.as_str()),
        ("/etc/group", &groups),
        ("/etc/hosts", hosts),
        ("/etc/hostname", "palisade\n"),
        ("/etc/nsswitch.conf", names),
        ("/etc/resolv.conf", &resolver),
        ("/etc/shells", "/bin/sh\n/bin/bash\n"),
    ]
    .map(|(at, text)| (at.into(), text.as_bytes().to_vec()))
    .to_vec()
}
