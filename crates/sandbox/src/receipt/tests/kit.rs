//! A plan, the facts that fit it, a receipt and a key.

use std::collections::BTreeMap;

use ed25519_dalek::SigningKey;

use crate::receipt::*;

pub(super) fn names(list: &[&str]) -> std::collections::BTreeSet<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

pub(super) fn mount(target: &str, flags: &[&str]) -> MountEntry {
    MountEntry { target: target.into(), kind: "tmpfs".into(), root: "/".into(), flags: names(flags) }
}

pub(super) fn expected() -> Expected {
    let own = |not| PlannedNamespace::Own { not };
    Expected {
        host_uid: 100_000,
        host_gid: 100_001,
        inside_uid: 1000,
        namespaces: PlannedNamespaces {
            user: own(1),
            mount: own(2),
            pid: own(3),
            network: own(4),
            ipc: own(5),
            uts: own(6),
            cgroup: PlannedNamespace::This(17),
        },
        mounts: Mounts::over(&[mount("/", &["ro"]), mount("/tmp", &["nosuid", "nodev"])]),
        landlock: PlannedLandlock {
            abi: 6,
            handled: names(&["execute", "write_file"]),
            scopes: names(&["signal", "abstract_unix_socket"]),
        },
        seccomp: PlannedSeccomp { filter: Digest::of(b"filter"), mode: 2, filters: 2 },
        no_new_privs: true,
        capabilities: PlannedCapabilities::NONE,
        limits: BTreeMap::from([
            ("pids".to_owned(), Limit { value: 4096, by: Enforcement::Enforced }),
            ("memory_bytes".to_owned(), Limit { value: 1 << 33, by: Enforcement::Watched }),
        ]),
        binary: Binary { path: "/usr/bin/git".into(), sha256: Digest::of(b"git") },
        streams: PlannedStreams { stdin: Stream::Null, stdout: Stream::Pipe, stderr: Stream::Pty },
        network: Network::None,
    }
}

pub(super) fn facts() -> Facts {
    let it = expected();
    let none = Measured::read(CapSet(0));
    Facts {
        host_uid: Measured::read(it.host_uid),
        host_gid: Measured::read(it.host_gid),
        inside_uid: Measured::read(it.inside_uid),
        namespaces: Namespaces {
            user: Measured::read(11),
            mount: Measured::read(12),
            pid: Measured::read(13),
            network: Measured::read(14),
            ipc: Measured::read(15),
            uts: Measured::read(16),
            cgroup: Measured::read(17),
        },
        mounts: Measured::read(it.mounts),
        landlock: Landlock {
            abi: Measured::read(it.landlock.abi),
            handled: Measured::applied(it.landlock.handled),
            scopes: Measured::probed(it.landlock.scopes),
        },
        seccomp: Seccomp {
            filter: Measured::applied(it.seccomp.filter),
            mode: Measured::read(it.seccomp.mode),
            filters: Measured::read(it.seccomp.filters),
        },
        no_new_privs: Measured::read(true),
        capabilities: Capabilities {
            inheritable: none,
            permitted: none,
            effective: none,
            bounding: none,
            ambient: none,
        },
        limits: it.limits.into_iter().map(|(name, limit)| (name, Measured::read(limit))).collect(),
        binary: Measured::read(it.binary),
        streams: Streams {
            stdin: Measured::read(it.streams.stdin),
            stdout: Measured::read(it.streams.stdout),
            stderr: Measured::read(it.streams.stderr),
        },
        network: Measured::probed(it.network),
    }
}

pub(super) fn receipt() -> Receipt {
    Receipt {
        version: VERSION,
        run: "run_0b5c".parse().unwrap(),
        at: 1_700_000_000_000,
        host: HostInfo { kernel: "6.18.0".into(), boot_id: "4b1c".into() },
        build: "0.1.0+abc".into(),
        command: vec!["git".into(), "status".into()],
        cwd: "/work".into(),
        worktree: Some("/home/ana/work".into()),
        profile: ProfileRef { name: "dev".into(), sha256: Digest::of(b"dev") },
        published: Vec::new(),
        rules: None,
        degraded: vec![Degraded { layer: Layer::Cgroup, reason: "no delegation".into() }],
        facts: facts(),
    }
}

pub(super) fn key() -> SigningKey {
    SigningKey::from_bytes(&[5; 32])
}

pub(super) fn sealed() -> Sealed {
    receipt().seal(&key()).unwrap()
}
