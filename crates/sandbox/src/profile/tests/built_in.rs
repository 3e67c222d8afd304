//! What the built-in profiles promise.

use super::*;

#[test]
fn sbx_07_strict_has_the_numbers_of_the_specification() {
    let profile = resolve("strict", &[]).unwrap();
    let mib = 1 << 20;
    let expected = Limits {
        memory: 512 * mib,
        cpu: Cpu::Thousandths(1_000),
        pids: 128,
        files: 1_024,
        file_size: 10 * mib,
        disk: 2 * GIB,
        inodes: 100_000,
        io: None,
        tmp: 64 * mib,
        wall: None,
        variable: 4_096,
    };
    assert_eq!(profile.limits, expected);
    assert!(profile.require.contains(&Layer::Cgroup));
    assert!(!profile.toolchains && !profile.trace && profile.read.is_empty() && profile.write.is_empty());
}

#[test]
fn dev_fits_real_builds() {
    let profile = resolve("dev", &[]).unwrap();
    assert_eq!(profile.limits.memory, (16 * GIB / 100 * 75) & !4_095);
    assert_eq!((profile.limits.pids, profile.limits.files), (4_096, 65_536));
    assert_eq!(profile.limits.file_size, profile.limits.disk, "one file may take the whole quota");
    assert_eq!((profile.limits.cpu, profile.limits.disk), (Cpu::All, 20 * GIB));
    assert_eq!((profile.limits.inodes, profile.limits.io), (2_000_000, None));
    assert_eq!(profile.limits.tmp, (16 * GIB / 100 * 25) & !4_095);
    assert!(profile.toolchains && profile.trace && profile.worktree == Worktree::Write);
    assert_eq!(profile.require, Layer::ALWAYS.into_iter().collect());
    for (name, hidden) in [
        (".env", true),
        (".ENV", true),
        (".env.local", true),
        (".env.production.local", true),
        ("id_ed25519", true),
        (".env.example", false),
        (".env.test", false),
        ("id_generator.rs", false),
        ("id_rsa.pub", false),
        ("cert.pem", false),
    ] {
        assert_eq!(profile.hidden.hides(name.as_bytes()), hidden, "{name}");
    }
}

#[test]
fn read_only_is_dev_that_changes_nothing_and_sees_less() {
    let (dev, reader) = (resolve("dev", &[]).unwrap(), resolve("read-only", &[]).unwrap());
    assert_eq!((reader.worktree, reader.limits), (Worktree::Read, dev.limits));
    for name in [".env", ".env.production", "server.pem", ".npmrc", "secrets.yaml"] {
        assert!(reader.hidden.hides(name.as_bytes()), "{name}");
    }
    assert!(!reader.hidden.hides(b".env.example"));
}

#[test]
fn strict_hides_whatever_looks_like_a_secret() {
    let profile = resolve("strict", &[]).unwrap();
    for name in [".env", ".env.prod", "prod.env", "a.pem", "b.KEY", "id_rsa", "credentials.json", "x.tfvars"]
    {
        assert!(profile.hidden.hides(name.as_bytes()), "{name}");
    }
    for name in [".env.example", "main.rs", "id_rsa.pub", "environment.ts"] {
        assert!(!profile.hidden.hides(name.as_bytes()), "{name}");
    }
}

#[test]
fn sbx_05_no_built_in_passes_credentials_or_sockets() {
    for name in built_in_names() {
        let profile = resolve(name, &[]).unwrap();
        for variable in [
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_TOKEN",
            "DOCKER_HOST",
            "DISPLAY",
            "XDG_RUNTIME_DIR",
            "PALISADE_API_KEY",
            "CARGO_REGISTRY_TOKEN",
            "NPM_TOKEN",
            "LD_PRELOAD",
            "BASH_ENV",
            "HOME",
        ] {
            assert!(!profile.passes(variable), "{name} passes {variable}");
        }
        assert!(profile.passes("LC_ALL") && profile.passes("TERM"), "{name}");
    }
}

#[test]
fn strict_and_dev_leave_no_key_to_guess() {
    for name in ["strict", "dev"] {
        let table: toml::Table = built_in(name).unwrap().parse().unwrap();
        for key in KEYS.iter().filter(|key| !["base", "rule"].contains(&key.name)) {
            let found = match key.name.split_once('.') {
                Some((section, leaf)) => table.get(section).and_then(|inner| inner.get(leaf)),
                None => table.get(key.name),
            };
            assert!(found.is_some(), "{name} does not say `{}`", key.name);
        }
    }
}

#[test]
fn a_shown_profile_reads_as_itself() {
    let own = "base = \"dev\"\nread = [\"/opt/sdk\", \"~/d \\\"q\\\" \\\\ é\"]\nwrite = [\"./target\"]\n\
               unprotect = [\".vscode/\"]\nset = { A = \"1\", B = \"x y\" }\nhide = [\"*.key\"]\n\
               [limits]\ncpu = 0.5\nwall = \"90s\"\n";
    let profile = resolve("own", &[("own", own)]).unwrap();
    let shown = profile.to_toml();
    let again = resolve("own", &[("own", &format!("base = \"strict\"\n{shown}"))]).unwrap();
    assert_eq!((paths(&again.read), paths(&again.write)), (paths(&profile.read), paths(&profile.write)));
    assert_eq!(
        (again.limits, &again.set, &again.unprotect),
        (profile.limits, &profile.set, &profile.unprotect)
    );
    assert_eq!(again.protect, profile.protect);
    assert!(profile.hidden.hide().iter().all(|name| again.hidden.hide().contains(name)));
    assert!(shown.contains("[limits]\n") && shown.contains("wall = \"90s\"\n"), "{shown}");
}

#[test]
fn sbx_12_the_shape_changes_with_the_walls_and_not_with_the_paths() {
    let hash = |text: &str| resolve("own", &[("own", text)]).unwrap().shape_hash();
    let one = hash("base = \"dev\"\nread = [\"/opt/a\"]\nset = { A = \"1\" }\n");
    assert_eq!(one, hash("base = \"dev\"\nread = [\"/opt/b\", \"~/c\"]\nset = { A = \"2\" }\n"));
    for other in [
        "base = \"dev\"\nset = { A = \"1\" }\n",
        "base = \"dev\"\nread = [\"/opt/a\"]\n",
        "base = \"dev\"\nread = [\"/opt/a\"]\nset = { A = \"1\" }\ntrace = false\n",
        "base = \"dev\"\nread = [\"/opt/a\"]\nset = { A = \"1\" }\nhide = [\"x\"]\n",
        "base = \"dev\"\nread = [\"/opt/a\"]\nset = { A = \"1\" }\nworktree = \"overlay\"\n",
        "base = \"dev\"\nread = [\"/opt/a\"]\nset = { A = \"1\" }\n[limits]\npids = 4095\n",
    ] {
        assert_ne!(one, hash(other), "{other}");
    }
}
