//! What the doctor says about hosts where something is missing (SBX-11): each cause by its own facts.

use std::path::{Path, PathBuf};

use super::*;

/// A host where everything works, for an ordinary user.
fn healthy() -> Facts {
    let namespaces =
        ["mount", "pid", "network", "ipc", "uts", "cgroup"].map(|name| (name, Trial::Works)).to_vec();
    let directory = |name, mode| Directory {
        name,
        path: format!("/home/ana/{name}").into(),
        mode: Some(mode),
        is_own: true,
    };
    let agent = |name| Agent { name, path: Some(PathBuf::from("/usr/bin").join(name)), is_inside: true };
    Facts {
        clues: Clues {
            kernel: "6.8.0-45-generic".into(),
            most: ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"].map(|kind| (kind, 15_000)).into(),
            modules: Some("lockdown,capability,landlock,yama,apparmor".into()),
            program: "/usr/bin/palisade".into(),
            ..Clues::default()
        },
        user_namespaces: Trial::Works,
        namespaces,
        mounts: Trial::Works,
        processes: Trial::Works,
        terminals: Trial::Works,
        overlay: Trial::Works,
        landlock: Ok(7),
        filter: Trial::Works,
        no_new_privs: Trial::Works,
        owners: None,
        limits: Limits { held: ["memory", "pids", "cpu"].map(str::to_owned).into(), freezes: true },
        watches: Some(1_024),
        free: Some(100 << 30),
        directories: vec![directory("state", 0o700), directory("config", 0o755)],
        ledger: true,
        key: Some(0o600),
        agents: ["claude", "codex", "gemini", "opencode"].map(agent).to_vec(),
        git: Some("2.43.0".into()),
    }
}

/// The finding of this name, which must fail with this severity, this in its cause and this in its fix.
fn fails(change: impl FnOnce(&mut Facts), id: &str, severity: Severity, cause: &str, fix: &str) {
    let mut facts = healthy();
    change(&mut facts);
    let all = judge(&facts);
    let found = all.iter().find(|finding| finding.id == id).unwrap_or_else(|| panic!("no {id}: {all:#?}"));
    assert_eq!((found.status, found.severity), (Status::Fails, severity), "{found:#?}");
    let (told, remedy) = (found.cause.clone().unwrap_or_default(), found.fix.clone().unwrap_or_default());
    assert!(told.contains(cause), "{id}: cause `{told}` lacks `{cause}`");
    assert!(remedy.contains(fix), "{id}: fix `{remedy}` lacks `{fix}`");
    assert_eq!(all.iter().any(Finding::blocks), severity == Severity::Required, "{all:#?}");
}

#[test]
fn sbx_11_a_bound_on_watches_is_a_bound_on_sandboxes() {
    let fix = "sysctl -w fs.inotify.max_user_instances=1024";
    fails(|facts| facts.watches = Some(128), "watches", Severity::Info, "at most 128 at once", fix);
    fails(|facts| facts.watches = Some(8), "watches", Severity::Recommended, "at most 8 at once", fix);
    let mut root = healthy();
    root.watches = None;
    assert!(judge(&root).iter().all(|finding| finding.id != "watches"), "root's are not bounded by it");
}

#[test]
fn sbx_11_a_healthy_host_has_nothing_to_fix() {
    let all = judge(&healthy());
    assert!(all.iter().all(|finding| finding.status == Status::Ok && finding.fix.is_none()), "{all:#?}");
    let mut ids: Vec<_> = all.iter().map(|finding| finding.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all.len(), "ids are unique");
}

#[test]
fn sbx_11_a_sysctl_that_forbids_user_namespaces_is_named() {
    let id = "user_namespaces";
    fails(
        |facts| {
            facts.user_namespaces = Trial::Fails(libc::ENOSPC);
            facts.clues.most.insert("user", 0);
        },
        id,
        Severity::Required,
        "`user.max_user_namespaces` is 0",
        "sudo sysctl -w user.max_user_namespaces=15000",
    );
    fails(
        |facts| {
            facts.user_namespaces = Trial::Fails(libc::EPERM);
            facts.clues.userns_clone = Some(0);
        },
        id,
        Severity::Required,
        "`kernel.unprivileged_userns_clone` is 0",
        "sudo sysctl -w kernel.unprivileged_userns_clone=1",
    );
}

#[test]
fn sbx_11_too_many_namespaces_of_a_kind_are_named_by_their_own_sysctl() {
    let kinds = [
        ("mount", "mnt", "mount_namespace"),
        ("pid", "pid", "pid_namespace"),
        ("network", "net", "network_namespace"),
        ("ipc", "ipc", "ipc_namespace"),
        ("uts", "uts", "uts_namespace"),
        ("cgroup", "cgroup", "cgroup_namespace"),
    ];
    for (name, kind, id) in kinds {
        let exhausted = |facts: &mut Facts| {
            let trial = facts.namespaces.iter_mut().find(|(found, _)| *found == name).unwrap();
            trial.1 = Trial::Fails(libc::ENOSPC);
        };
        let cause = format!("`user.max_{kind}_namespaces` is 15000, and so many are in use");
        fails(
            exhausted,
            id,
            Severity::Required,
            &cause,
            &format!("sysctl -w user.max_{kind}_namespaces=30000"),
        );
        let none = |facts: &mut Facts| {
            exhausted(facts);
            facts.clues.most.insert(kind, 0);
        };
        let cause = format!("`user.max_{kind}_namespaces` is 0");
        fails(none, id, Severity::Required, &cause, &format!("sysctl -w user.max_{kind}_namespaces=15000"));
    }
    let told = remedy(Step::Namespaces, "network", libc::ENOSPC);
    assert!(told.fix.contains("sysctl -w user.max_net_namespaces="), "{told}");
    let told = remedy(Step::Limits, "control group namespace", libc::ENOSPC);
    assert!(told.fix.contains("sysctl -w user.max_cgroup_namespaces="), "{told}");
    // Here user namespaces can be made, so of two kinds made together it is the other.
    let told = no_namespaces(libc::ENOSPC);
    assert!(told.fix.contains("sysctl -w user.max_pid_namespaces="), "{told}");
    let told = no_namespaces(libc::EAGAIN);
    assert!(told.cause.contains("no further process") && told.fix.contains("ulimit -u"), "{told}");
}

#[test]
fn sbx_11_an_apparmor_restriction_is_named_with_the_command_that_lifts_it() {
    // Ubuntu 24.04 lets the namespace be made and refuses the mounts in it.
    fails(
        |facts| {
            facts.mounts = Trial::Fails(libc::EACCES);
            facts.clues.apparmor_userns = Some(1);
        },
        "mounts",
        Severity::Required,
        "kernel.apparmor_restrict_unprivileged_userns",
        "sudo -H '/usr/bin/palisade' setup apparmor",
    );
    fails(
        |facts| {
            facts.user_namespaces = Trial::Fails(libc::EACCES);
            facts.clues.apparmor_profile = Some("vscode (enforce)".into());
        },
        "user_namespaces",
        Severity::Required,
        "vscode (enforce)",
        "outside of the program",
    );
    // With our own profile on, it is something else.
    fails(
        |facts| {
            facts.user_namespaces = Trial::Fails(libc::EPERM);
            facts.clues.apparmor_userns = Some(1);
            facts.clues.apparmor_profile = Some("palisade (unconfined)".into());
        },
        "user_namespaces",
        Severity::Required,
        "a security module objects",
        "journalctl",
    );
}

#[test]
fn sbx_11_root_of_a_namespace_without_users_is_told_so() {
    fails(
        |facts| {
            facts.owners = Some(Trial::Fails(libc::EPERM));
            facts.clues.root = true;
            facts.clues.lacks_users = true;
        },
        "idmapped_mounts",
        Severity::Required,
        "root of a user namespace",
        "as an ordinary user",
    );
    let map = |text: &str| {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        std::fs::write(root.path().join("proc/self/uid_map"), text).unwrap();
        Clues::below(root.path()).lacks_users
    };
    assert!(!map("         0          0 4294967295\n"));
    assert!(map("         0       1000          1\n"));
    assert!(map("0 1000 1\n1 100000 65536\n"));
    assert!(!map("0 0 1000\n1879048192 1879048192 16777216\n"));
}

#[test]
fn sbx_11_the_filter_of_an_outer_container_is_named() {
    for error in [libc::EPERM, libc::ENOSYS] {
        fails(
            |facts| {
                facts.user_namespaces = Trial::Fails(error);
                facts.clues.filtered = true;
                facts.clues.container = Some("docker");
            },
            "user_namespaces",
            Severity::Required,
            "seccomp filter of the outer container (docker)",
            "--security-opt seccomp=unconfined",
        );
    }
    fails(
        |facts| {
            facts.processes = Trial::Fails(libc::EPERM);
            facts.clues.container = Some("podman");
        },
        "proc",
        Severity::Required,
        "hides parts of /proc",
        "unmask=ALL",
    );
}

#[test]
fn sbx_11_a_missing_landlock_is_named_by_its_cause() {
    let id = "landlock";
    let kernel = |facts: &mut Facts| {
        facts.landlock = Err(libc::ENOSYS);
        facts.clues.kernel = "5.10.0-28-amd64".into();
    };
    fails(kernel, id, Severity::Required, "does not have it", "5.13 or later");
    let off = |facts: &mut Facts| {
        facts.landlock = Err(libc::EOPNOTSUPP);
        facts.clues.modules = Some("lockdown,yama,apparmor".into());
    };
    fails(off, id, Severity::Required, "switched off", "lsm=landlock,lockdown,yama,apparmor");
    let filter = |facts: &mut Facts| {
        facts.landlock = Err(libc::ENOSYS);
        facts.clues.filtered = true;
    };
    fails(filter, id, Severity::Required, "seccomp filter", "landlock_*");
}

#[test]
fn sbx_11_a_missing_controller_is_named() {
    for (name, id) in [("memory", "cgroup_memory"), ("pids", "cgroup_pids"), ("cpu", "cgroup_cpu")] {
        let without = |facts: &mut Facts| facts.limits.held.retain(|held| held != name);
        fails(without, id, Severity::Recommended, name, "Delegate=");
    }
    fails(
        |facts| facts.limits.freezes = false,
        "cgroup_freeze",
        Severity::Recommended,
        "version 2",
        "Delegate=",
    );
}

#[test]
fn sbx_11_a_full_disk_and_open_directories_are_named() {
    fails(|facts| facts.free = Some(1 << 20), "disk", Severity::Required, "full disk", "make room");
    fails(|facts| facts.free = Some(1 << 30), "disk", Severity::Recommended, "soon", "make room");
    let state = |facts: &mut Facts| facts.directories[0].mode = Some(0o755);
    fails(state, "state_directory", Severity::Recommended, "read", "chmod 700 '/home/ana/state'");
    let config = |facts: &mut Facts| facts.directories[1].mode = Some(0o777);
    fails(config, "config_directory", Severity::Required, "write", "chmod 700 '/home/ana/config'");
    let other = |facts: &mut Facts| facts.directories[0].is_own = false;
    fails(other, "state_directory", Severity::Required, "somebody else", "chown");
}

#[test]
fn sbx_11_an_absent_agent_and_one_that_is_not_inside_are_named() {
    fails(
        |facts| facts.agents[0].path = None,
        "agent_claude",
        Severity::Info,
        "not on the PATH",
        "npm install -g",
    );
    let outside = |facts: &mut Facts| {
        facts.agents[1] =
            Agent { name: "codex", path: Some("/home/ana/tools/codex".into()), is_inside: false };
    };
    fails(outside, "agent_codex", Severity::Recommended, "does not show", "--ro '/home/ana/tools' -- codex");
    fails(|facts| facts.git = None, "git", Severity::Recommended, "not on the PATH", "install git");
}

#[test]
fn sbx_11_the_state_of_ledger_and_key_is_told() {
    fails(|facts| facts.key = None, "ledger", Severity::Required, "no longer be checked", "backup");
    fails(|facts| facts.key = Some(0o644), "ledger_key", Severity::Required, "forge", "chmod 600");
}

#[test]
fn sbx_11_every_other_layer_has_a_cause_and_a_fix() {
    let errors = [libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EINVAL, libc::ENOSPC, libc::ENODEV, 0];
    let walls = [
        Wall::UserNamespaces,
        Wall::Namespace("network"),
        Wall::Mounts,
        Wall::Processes,
        Wall::Terminal,
        Wall::Landlock,
        Wall::Seccomp,
        Wall::Privileges,
        Wall::Overlay,
        Wall::ControlGroups,
        Wall::Owners,
        Wall::Init,
    ];
    for (wall, error) in walls.into_iter().flat_map(|wall| errors.map(|error| (wall, error))) {
        let told = healthy().clues.blame(wall, error);
        assert!(!told.cause.is_empty() && !told.fix.is_empty(), "{wall:?} {error}");
    }
    let broken = |facts: &mut Facts| facts.overlay = Trial::Fails(libc::ENODEV);
    fails(broken, "overlay", Severity::Required, "module", "sudo modprobe overlay");
    let broken = |facts: &mut Facts| facts.namespaces[2].1 = Trial::Fails(libc::EINVAL);
    fails(broken, "network_namespace", Severity::Required, "network namespace", "CONFIG_NET_NS=y");
}

#[test]
fn sbx_11_clues_are_read_from_where_the_kernel_writes_them() {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("proc/sys/kernel/unprivileged_userns_clone", "0\n");
    put("proc/sys/user/max_user_namespaces", "12\n");
    put("proc/sys/user/max_net_namespaces", "7\n");
    put("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
    put("proc/sys/kernel/osrelease", "6.8.0\n");
    put("proc/self/status", "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n");
    put("proc/self/attr/current", "docker-default (enforce)\n");
    put("proc/1/cgroup", "0::/kubepods/burstable/pod1\n");
    put("sys/kernel/security/lsm", "yama,apparmor");
    let clues = Clues::below(root.path());
    assert_eq!((clues.userns_clone, clues.apparmor_userns), (Some(0), Some(1)));
    assert_eq!(clues.most, [("user", 12), ("net", 7)].into());
    assert_eq!((clues.filtered, clues.container), (true, Some("kubernetes")));
    assert_eq!(clues.apparmor_profile.as_deref(), Some("docker-default (enforce)"));
    assert_eq!(clues.modules.as_deref(), Some("yama,apparmor"));
}
