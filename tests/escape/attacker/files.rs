//! Attacks on files: changing what is outside, programs that carry privileges, filling up.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

use crate::{c, checked, say, verdict};

/// Attempts that have a file or folder of their own in the fixture.
const ON_FILES: [&str; 17] = [
    "write",
    "append",
    "truncate-open",
    "truncate-path",
    "link",
    "rename",
    "exchange",
    "unlink",
    "chmod",
    "fchmod",
    "chown",
    "setxattr",
    "utimens",
    "futimens",
    "setflags",
    "reopen-path",
    "reopen-read",
];

/// Makes what `change` attacks: every file is open to everyone, so that only the sandbox can be what refuses.
pub(crate) fn prepare(at: &str) {
    let open = |path: &str, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    fs::create_dir_all(format!("{at}/folder")).unwrap();
    fs::create_dir_all(format!("{at}/moved-folder")).unwrap();
    for name in ON_FILES.into_iter().chain(["taken", "other"]) {
        let path = format!("{at}/{name}");
        fs::write(&path, format!("the host's {name}\n")).unwrap();
        open(&path, 0o666).unwrap();
    }
    for path in [at.to_owned(), format!("{at}/folder"), format!("{at}/moved-folder")] {
        open(&path, 0o777).unwrap();
    }
    say("prepare", "ok");
}

/// Tries to change a place in every way there is.
pub(crate) fn change(at: &str) {
    let path = |name: &str| format!("{at}/{name}");
    let named = |name: &str| c(&path(name));
    let call = |result: i32| checked(result).map(drop);
    let open = |name: &str, options: &mut OpenOptions| -> io::Result<()> {
        options.open(path(name))?.write_all(b"taken over\n")
    };
    let reopened = |flags: i32, name: &str| -> io::Result<()> {
        let held = OpenOptions::new().read(true).custom_flags(flags).open(path(name))?;
        let again = format!("/proc/self/fd/{}", held.as_raw_fd());
        OpenOptions::new().write(true).open(again)?.write_all(b"taken over\n")
    };
    let times = [libc::timespec { tv_sec: 1, tv_nsec: 0 }; 2];
    let _ = fs::write("own", "the attacker's\n");
    // SAFETY: names are C strings and the structures outlive the calls, here and below.
    let tried: Vec<(&str, io::Result<()>)> = unsafe {
        let owner = (libc::getuid(), libc::getgid());
        vec![
            ("write", open("write", OpenOptions::new().write(true))),
            ("append", open("append", OpenOptions::new().append(true))),
            ("truncate-open", open("truncate-open", OpenOptions::new().write(true).truncate(true))),
            ("truncate-path", call(libc::truncate(named("truncate-path").as_ptr(), 0))),
            ("reopen-path", reopened(libc::O_PATH, "reopen-path")),
            ("reopen-read", reopened(0, "reopen-read")),
            ("create", open("created", OpenOptions::new().write(true).create_new(true))),
            (
                "create-unnamed",
                OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(at).map(drop),
            ),
            ("mkdir", fs::create_dir(path("made"))),
            ("symlink", std::os::unix::fs::symlink("/etc/passwd", path("linked"))),
            ("mkfifo", call(libc::mkfifo(named("fifo").as_ptr(), 0o666))),
            ("mksocket", call(libc::mknod(named("socket").as_ptr(), libc::S_IFSOCK | 0o666, 0))),
            ("mknod", call(libc::mknod(named("null").as_ptr(), libc::S_IFCHR | 0o666, libc::makedev(1, 3)))),
            ("link", fs::hard_link(path("link"), path("link-2"))),
            ("rename", fs::rename(path("rename"), path("rename-2"))),
            ("rename-folder", fs::rename(path("moved-folder"), path("moved-folder-2"))),
            ("rename-in", fs::rename("own", path("own"))),
            ("rename-out", fs::rename(path("taken"), "taken")),
            ("exchange", {
                let (one, two) = (named("exchange"), named("other"));
                call(libc::renameat2(-100, one.as_ptr(), -100, two.as_ptr(), libc::RENAME_EXCHANGE))
            }),
            ("unlink", fs::remove_file(path("unlink"))),
            ("rmdir", fs::remove_dir(path("folder"))),
            ("chmod", call(libc::chmod(named("chmod").as_ptr(), 0o600))),
            (
                "fchmod",
                File::open(path("fchmod")).and_then(|file| call(libc::fchmod(file.as_raw_fd(), 0o600))),
            ),
            ("chown", call(libc::chown(named("chown").as_ptr(), owner.0, owner.1))),
            ("setxattr", {
                let (name, value) = (c("user.taken"), b"over");
                call(libc::setxattr(named("setxattr").as_ptr(), name.as_ptr(), value.as_ptr().cast(), 4, 0))
            }),
            ("utimens", call(libc::utimensat(-100, named("utimens").as_ptr(), times.as_ptr(), 0))),
            ("futimens", {
                File::open(path("futimens"))
                    .and_then(|file| call(libc::futimens(file.as_raw_fd(), times.as_ptr())))
            }),
            (
                "setflags",
                File::open(path("setflags")).and_then(|file| {
                    let no_dump: libc::c_long = 0x40;
                    call(libc::ioctl(file.as_raw_fd(), 0x4008_6602, &raw const no_dump))
                }),
            ),
        ]
    };
    for (name, result) in tried {
        say(name, verdict(result));
    }
}

/// Tries to leave a program behind that runs with its owner's privileges.
pub(crate) fn setuid() {
    let call = |result: i64| checked(result).map(drop);
    let path = |name: &str| c(&format!("suid-{name}"));
    let at = libc::AT_FDCWD;
    for name in ["chmod", "fchmod", "fchmodat", "fchmodat2", "again"] {
        fs::write(format!("suid-{name}"), "#!/bin/sh\n").unwrap();
    }
    let capability: [u8; 20] =
        [1, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    // SAFETY: names are C strings and the bytes outlive the calls.
    let tried: Vec<(&str, io::Result<()>)> = unsafe {
        libc::umask(0);
        vec![
            ("chmod", call(libc::syscall(libc::SYS_chmod, path("chmod").as_ptr(), 0o4755))),
            (
                "fchmod",
                File::open("suid-fchmod")
                    .and_then(|file| call(libc::syscall(libc::SYS_fchmod, file.as_raw_fd(), 0o4755))),
            ),
            ("fchmodat", call(libc::syscall(libc::SYS_fchmodat, at, path("fchmodat").as_ptr(), 0o4755))),
            (
                "fchmodat2",
                call(libc::syscall(libc::SYS_fchmodat2, at, path("fchmodat2").as_ptr(), 0o4755, 0)),
            ),
            (
                "open",
                call(libc::syscall(
                    libc::SYS_open,
                    path("open").as_ptr(),
                    libc::O_CREAT | libc::O_WRONLY,
                    0o4755,
                )),
            ),
            ("creat", call(libc::syscall(libc::SYS_creat, path("creat").as_ptr(), 0o4755))),
            ("openat", {
                let flags = libc::O_CREAT | libc::O_WRONLY;
                call(libc::syscall(libc::SYS_openat, at, path("openat").as_ptr(), flags, 0o4755))
            }),
            ("unnamed", {
                let flags = libc::O_TMPFILE | libc::O_WRONLY;
                call(libc::syscall(libc::SYS_openat, at, c".".as_ptr(), flags, 0o4755))
            }),
            (
                "mknod",
                call(libc::syscall(libc::SYS_mknod, path("mknod").as_ptr(), libc::S_IFREG | 0o4755, 0)),
            ),
            (
                "mknodat",
                call(libc::syscall(
                    libc::SYS_mknodat,
                    at,
                    path("mknodat").as_ptr(),
                    libc::S_IFREG | 0o4755,
                    0,
                )),
            ),
            ("capability", {
                let name = c"security.capability";
                call(
                    libc::setxattr(path("again").as_ptr(), name.as_ptr(), capability.as_ptr().cast(), 20, 0)
                        .into(),
                )
            }),
        ]
    };
    for (name, result) in tried {
        say(name, verdict(result));
    }
    for entry in fs::read_dir(".").unwrap().flatten() {
        let has = entry.metadata().is_ok_and(|found| found.mode() & 0o4000 != 0);
        if has && entry.file_name().to_string_lossy().starts_with("suid-") {
            say("left behind", entry.file_name().display());
        }
    }
}

/// Who it is: a program with privileges of its own would tell.
pub(crate) fn who() {
    // SAFETY: no pointers.
    let (own, effective) = unsafe { (libc::getuid(), libc::geteuid()) };
    say("gained", own != effective);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status.lines().filter(|line| line.starts_with("Cap") || line.starts_with("NoNewPrivs")) {
        let (name, value) = line.split_once(':').unwrap_or_default();
        say(name, value.trim());
    }
}

/// Fills a place until it is full; then a sparse file, and one file beyond its limit.
pub(crate) fn grow(at: &str) {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let block = vec![7u8; 1 << 20];
    let mut file = File::create(format!("{at}/full")).unwrap();
    let mut written = 0;
    let full = loop {
        match file.write_all(&block) {
            Ok(()) if written < 4096 => written += 1,
            Ok(()) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    say("full", verdict(full));
    say("mebibytes", written);
    let _ = fs::remove_file(format!("{at}/full"));
    let sparse = File::create("sparse").and_then(|file| file.set_len(1 << 40));
    say("sparse", verdict(sparse));
    let mut count = 0;
    let many = loop {
        match File::create(format!("{at}/many-{count}")) {
            Ok(_) if count < 3000 => count += 1,
            Ok(_) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    say("many", verdict(many));
}
