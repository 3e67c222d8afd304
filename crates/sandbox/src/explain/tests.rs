//! Which denial is what, without a kernel: a plan by hand, calls by hand.

use std::path::{Path, PathBuf};

use super::judge::{Call, File, Judgement, Node, Peer, Remedy, Want, judge};
use super::rules::Rules;
use super::words::{amount, clean, quoted};
use super::{Denial, Explained, Layer, Weight};
use crate::filter::Tracing;
use crate::plan::{Access, Identity, Limited, Mount, Part, Plan, ProcessLimit, Source};
use crate::profile::{Flags, Host, Layers, Profile, Roots};
use crate::receipt::RunId;

const WORKTREE: &str = "/work/p";
const HOME: &str = "/home/ana";

fn profile() -> Profile {
    let layers = Layers {
        name: "dev",
        own: &|_| Ok(None),
        project: None,
        consent: &|_| false,
        flags: &Flags::default().parse().unwrap(),
        host: &Host { memory: 1 << 30, cores: 2 },
        roots: &Roots { home: HOME.into(), worktree: WORKTREE.into() },
    };
    Profile::resolve(&layers).unwrap().profile
}

fn plan(owns: Option<(u32, u32)>) -> Plan {
    let nothing = |at: &str| Mount { programs: false, ..Mount::own(Source::Nothing, at, Access::Read) };
    let base = |at: &str| Mount { base: true, ..Mount::host(at, at, Access::Read) };
    let limit = |of, most| ProcessLimit { of, most };
    Plan {
        run: RunId::new().unwrap(),
        left_out: Vec::new(),
        command: vec!["true".into()],
        directory: WORKTREE.into(),
        environment: Vec::new(),
        search: "/usr/bin".into(),
        mounts: vec![
            base("/usr"),
            Mount { programs: false, ..Mount::own(Source::Processes, "/proc", Access::Read) },
            nothing("/proc/kcore"),
            Mount::own(Source::Memory(65_536, 0o1777), "/tmp", Access::Write),
            Mount::host("/state/home", HOME, Access::Write),
            Mount::host("/data", "/data", Access::Read),
            Mount::host(WORKTREE, WORKTREE, Access::Write),
            nothing("/work/p/.envrc"),
            nothing("/work/p/.env"),
        ],
        files: Vec::new(),
        identity: Identity { host_user: 1000, host_group: 1000, user: 1000, group: 1000, owns },
        landlock: 6,
        tracing: Tracing::Own,
        limits: vec![
            limit(Limited::Files, 32),
            limit(Limited::FileSize, 1 << 20),
            limit(Limited::Processes, 64),
        ],
        together: crate::groups::Wanted::default(),
        requires_groups: false,
        wall: None,
        added: None,
        captured: None,
    }
}

fn file(want: Want, path: &str) -> File {
    let node = Some(Node { owner: 1000, group: 1000, mode: 0o755 });
    File { want, path: path.into(), node, absent: None, nearest: path.into() }
}

fn call(number: libc::c_long, error: i32, files: Vec<File>) -> Call {
    Call { number: u32::try_from(number).unwrap(), arguments: [0; 6], error, files, peer: None }
}

fn judged_with(plan: &Plan, call: &Call) -> Option<Judgement> {
    let profile = profile();
    judge(call, &Rules::new(plan, &profile, Path::new(WORKTREE), Path::new(HOME), Vec::new()))
}

fn judged(call: &Call) -> Option<Judgement> {
    judged_with(&plan(None), call)
}

/// The flag, or the advice.
fn allows(judgement: &Judgement) -> String {
    match &judgement.remedy {
        Remedy::Give { path, writable } => {
            format!("{} {}", if *writable { "--rw" } else { "--ro" }, path.display())
        }
        Remedy::Flag(words) => words.clone(),
        Remedy::Other(text) => text.clone(),
    }
}

#[test]
fn every_refusal_of_a_file_has_its_layer_and_what_allows_it() {
    let (open, making) = (libc::SYS_openat, libc::SYS_mkdirat);
    for (number, error, want, path, layer, allow) in [
        (open, libc::EROFS, Want::Write, "/usr/lib/x", Layer::Mount, "--rw /usr/lib/x"),
        (open, libc::EROFS, Want::Make, "/data/x", Layer::Mount, "--rw /data/x"),
        (making, libc::EROFS, Want::Make, "/proc/x", Layer::Mount, "write to the worktree"),
        (open, libc::EISDIR, Want::Make, "/work/p/.envrc", Layer::Protected, "unprotect = [\".envrc\"]"),
        (making, libc::EROFS, Want::Make, "/work/p/.envrc/x", Layer::Protected, "unprotect = [\".envrc\"]"),
        (making, libc::EEXIST, Want::Make, "/work/p/.vscode", Layer::Protected, "unprotect"),
        (open, 0, Want::Read, "/work/p/.env", Layer::Hidden, "--show .env"),
        (open, libc::EROFS, Want::Write, "/work/p/.env", Layer::Hidden, "--show .env"),
        (open, 0, Want::Read, "/proc/kcore", Layer::Hidden, "nothing allows it"),
        (open, libc::EACCES, Want::Read, "/.empty/file", Layer::Landlock, ""),
        (libc::SYS_execve, libc::EACCES, Want::Execute, "/proc/1/exe", Layer::Mount, "worktree"),
        (libc::SYS_chown, libc::EPERM, Want::Own, "/work/p/x", Layer::Privilege, "nothing allows it"),
        (libc::SYS_chmod, libc::EPERM, Want::Change, "/work/p/x", Layer::Permission, "same outside"),
    ] {
        let found = judged(&call(number, error, vec![file(want, path)])).unwrap_or_else(|| panic!("{path}"));
        assert_eq!(found.layer, layer, "{path} {error}: {found:?}");
        assert!(allows(&found).contains(allow), "{path}: {found:?}");
    }
}

#[test]
fn what_was_no_refusal_is_none() {
    for (number, error, want, path) in [
        (libc::SYS_openat, libc::ENOENT, Want::Read, "/work/p/not-there"),
        (libc::SYS_openat, 0, Want::Read, "/work/p/one.txt"),
        (libc::SYS_mkdirat, libc::EEXIST, Want::Make, "/work/p/src"),
        (libc::SYS_openat, libc::EISDIR, Want::Write, "/work/p/src"),
        (libc::SYS_openat, 0, Want::Look, "/work/p/.env"),
        (libc::SYS_openat, 0, Want::Read, "/work/p/.envrc"),
    ] {
        assert_eq!(judged(&call(number, error, vec![file(want, path)])), None, "{path} {error}");
    }
    assert_eq!(judged(&call(libc::SYS_read, libc::EAGAIN, Vec::new())), None);
    assert_eq!(judged(&call(libc::SYS_fcntl, libc::EACCES, Vec::new())), None);
}

#[test]
fn what_only_the_host_has_is_told_with_the_flag_that_gives_it() {
    let absent = |want, there: &str, missing: &str| {
        let absent = Some((PathBuf::from(there), PathBuf::from(missing)));
        judged(&call(libc::SYS_openat, libc::ENOENT, vec![File { absent, ..file(want, there) }])).unwrap()
    };
    let read = absent(Want::Read, "/srv/data/a", "/srv");
    assert_eq!((allows(&read).as_str(), read.weight), ("--ro /srv/data/a", Weight::Absent));
    assert_eq!(read.place, Path::new("/srv"), "one line for all that is below");
    let write = absent(Want::Make, "/srv/data", "/srv");
    assert_eq!((allows(&write).as_str(), write.weight), ("--rw /srv/data", Weight::Refused));
    for probed in ["/etc/ld.so.preload", "/sys/fs/cgroup/cpu.max", "/dev/kvm"] {
        assert_eq!(absent(Want::Read, probed, probed).weight, Weight::Harmless, "{probed}");
    }
}

#[test]
fn owner_and_mode_are_blamed_before_a_wall_is() {
    let node = Some(Node { owner: 0, group: 0, mode: 0o600 });
    let of = |want, path: &str, error| call(libc::SYS_openat, error, vec![File { node, ..file(want, path) }]);
    let read = judged(&of(Want::Read, "/data/secret", libc::EACCES)).unwrap();
    assert_eq!(read.layer, Layer::Permission);
    assert!(read.rule.contains("owner (0) and mode (600)"), "{}", read.rule);
    // A mount refuses too, and giving it would not be enough.
    let write = judged(&of(Want::Write, "/usr/lib/x", libc::EROFS)).unwrap();
    assert!(write.layer == Layer::Mount && allows(&write).contains("alone would not do"), "{write:?}");
    // For root's sandbox it would be, since what is given to be written becomes theirs.
    let rooted = plan(Some((0, 0)));
    for error in [libc::EROFS, libc::EACCES] {
        let write = judged_with(&rooted, &of(Want::Write, "/usr/lib/x", error)).unwrap();
        assert_eq!((write.layer, allows(&write).as_str()), (Layer::Mount, "--rw /usr/lib/x"));
    }
}

#[test]
fn the_filter_is_asked_and_not_guessed() {
    let mut unshare = call(libc::SYS_unshare, libc::EPERM, Vec::new());
    assert_eq!(judged(&unshare), None, "without a namespace it is let through");
    unshare.arguments[0] = libc::CLONE_NEWUSER as u64;
    assert_eq!(judged(&unshare).unwrap().layer, Layer::Seccomp);
    assert_eq!(judged_with(&plan(None).without(Part::Seccomp), &unshare), None);
    let mut packet = call(libc::SYS_socket, libc::EAFNOSUPPORT, Vec::new());
    packet.arguments = [libc::AF_PACKET as u64, libc::SOCK_RAW as u64, 0, 0, 0, 0];
    let packet = judged(&packet).unwrap();
    assert!(format!("{packet:?}").contains("AF_PACKET"), "{packet:?}");
    let mount = judged(&call(libc::SYS_mount, libc::EPERM, Vec::new())).unwrap();
    assert_eq!((mount.layer, mount.weight), (Layer::Seccomp, Weight::Refused));
    let clone3 = judged(&call(libc::SYS_clone3, libc::ENOSYS, Vec::new())).unwrap();
    assert_eq!(clone3.weight, Weight::Harmless);
    let traced = judged(&call(libc::SYS_ptrace, libc::EPERM, Vec::new())).unwrap();
    assert!(traced.rule.contains("traced already"), "{traced:?}");
}

#[test]
fn limits_are_named_and_doubled() {
    for (number, error, path, flag) in [
        (libc::SYS_openat, libc::EMFILE, "/dev/null", "--limit files=64"),
        (libc::SYS_clone, libc::EAGAIN, "", "--limit pids=128"),
        (libc::SYS_write, libc::EFBIG, "/work/p/big", "--limit file_size=2m"),
        (libc::SYS_write, libc::ENOSPC, "/tmp/big", "--limit tmp=128k"),
        (libc::SYS_write, libc::ENOSPC, "/work/p/big", "make room on the host"),
    ] {
        let files = if path.is_empty() { Vec::new() } else { vec![file(Want::Write, path)] };
        let found = judged(&call(number, error, files)).unwrap();
        assert_eq!((found.layer, allows(&found).as_str()), (Layer::Limit, flag));
    }
}

#[test]
fn addresses_are_refused_by_the_network_they_are_in() {
    let to = |number, address: &str, error, host_listens| {
        let peer = Some(Peer { address: address.parse().unwrap(), host_listens });
        judged(&Call { peer, ..call(number, error, Vec::new()) }).map(|found| found.layer)
    };
    let connect = libc::SYS_connect;
    assert_eq!(to(connect, "192.0.2.1:80", libc::ENETUNREACH, false), Some(Layer::Network));
    assert_eq!(to(connect, "[2001:db8::1]:80", libc::EADDRNOTAVAIL, false), Some(Layer::Network));
    assert_eq!(to(connect, "127.0.0.1:5432", libc::ECONNREFUSED, true), Some(Layer::Network));
    assert_eq!(to(connect, "127.0.0.1:5432", libc::ECONNREFUSED, false), None, "nobody listens anywhere");
    assert_eq!(to(libc::SYS_bind, "0.0.0.0:80", libc::EACCES, false), Some(Layer::Privilege));
    assert_eq!(to(libc::SYS_bind, "192.0.2.7:8080", libc::EADDRNOTAVAIL, false), Some(Layer::Network));
}

#[test]
fn names_from_inside_cannot_play_tricks_on_a_terminal() {
    assert_eq!(clean("a\u{1b}[2Jb\nc\u{202e}"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}");
    assert_eq!(quoted("/srv/a b'c;d"), "'/srv/a b'\\''c;d'");
    assert_eq!(quoted("~/x.y"), "~/x.y");
    assert_eq!(
        (amount(64), amount(1 << 30), amount(65_536), amount(100_001)),
        ("64".into(), "1g".into(), "64k".into(), "100001".into())
    );
}

#[test]
fn harmless_answers_are_told_only_when_nothing_else_explains_a_failure() {
    let of = |weight| Denial {
        call: "c".into(),
        action: "a".into(),
        target: "t".into(),
        layer: Layer::Mount,
        rule: "r".into(),
        allow: None,
        advice: "x".into(),
        error: String::new(),
        weight,
        count: 2,
    };
    assert_eq!(of(Weight::Refused).to_string(), "refused: a t: r; x (2 times)");
    let told = |weights: &[Weight], failed| {
        let denials = weights.iter().map(|weight| of(*weight)).collect();
        Explained { denials, dropped: 0 }.worth_telling(failed).count()
    };
    assert_eq!(told(&[Weight::Harmless], false), 0);
    assert_eq!(told(&[Weight::Harmless], true), 1);
    assert_eq!(told(&[Weight::Absent, Weight::Harmless], true), 1);
}
