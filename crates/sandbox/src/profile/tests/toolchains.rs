//! Which parts of which toolchains are found.

use super::*;

fn find(variables: &[(&str, &str)], there: &[&str]) -> Vec<Found> {
    let variable =
        |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| PathBuf::from(value));
    let exists = |path: &Path| there.iter().any(|known| Path::new(known) == path);
    find_toolchains(Path::new("/home/ana"), Path::new("/home/agent"), &variable, &exists)
}

#[test]
fn only_what_exists_is_mounted_and_only_the_parts_that_are_named() {
    let found = find(&[], &["/home/ana/.cargo", "/home/ana/.cargo/bin", "/home/ana/.rustup/toolchains"]);
    let pairs: Vec<_> =
        found.iter().map(|part| (part.name, part.host.to_str(), part.mount.to_str())).collect();
    let expected = [
        ("cargo", Some("/home/ana/.cargo/bin"), Some("/home/agent/.cargo/bin")),
        ("rustup", Some("/home/ana/.rustup/toolchains"), Some("/home/agent/.rustup/toolchains")),
    ];
    assert_eq!(pairs, expected);
    assert!(find(&[], &[]).is_empty());
}

#[test]
fn a_root_that_a_variable_moved_is_found_too() {
    let found = find(
        &[
            ("RUSTUP_HOME", "/opt/rustup"),
            ("CARGO_HOME", "/opt/cargo"),
            ("JAVA_HOME", "/opt/jdk/"),
            ("NVM_DIR", "/home/ana/.nvm"),
        ],
        &["/opt/rustup/toolchains", "/opt/cargo/bin", "/opt/jdk", "/home/ana/.nvm/versions"],
    );
    let part = |name: &str| found.iter().find(|part| part.name == name).unwrap();
    assert_eq!(
        (part("rustup").mount.as_path(), part("rustup").variable),
        (Path::new("/opt/rustup/toolchains"), Some("RUSTUP_HOME"))
    );
    assert_eq!(part("cargo").variable, None, "cargo writes there: inside it has a place of its own");
    assert_eq!(part("java").mount, Path::new("/opt/jdk"));
    assert_eq!(part("nvm").variable, Some("NVM_DIR"));
    assert_eq!(
        found.iter().filter(|part| part.name == "nvm").count(),
        1,
        "once, also when the variable says the usual"
    );
}

#[test]
fn a_variable_cannot_bring_the_home_in() {
    let everything =
        |path: &Path| path.starts_with("/home/ana") || path == Path::new("/") || path == Path::new("/home");
    for value in ["/home/ana", "/home/ana/", "/home", "/", "go", "", "/home/ana/x/../.ssh", "~/go"] {
        let variable = |name: &str| (name == "GOROOT").then(|| PathBuf::from(value));
        let found = find_toolchains(Path::new("/home/ana"), Path::new("/home/ana"), &variable, &everything);
        assert!(!found.iter().any(|part| part.name == "go-root"), "{value}: {found:?}");
    }
}

#[test]
fn credentials_are_in_no_part_or_left_out() {
    let all = find_toolchains(Path::new("/h"), Path::new("/h"), &|_| None, &|_| true);
    for secret in [
        ".cargo/credentials.toml",
        ".cargo/credentials",
        ".npmrc",
        ".pypirc",
        ".netrc",
        ".m2/settings.xml",
        ".gem/credentials",
        ".config/gh/hosts.yml",
        ".docker/config.json",
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".claude/.credentials.json",
        ".claude.json",
        ".codex/auth.json",
        ".local/share/pnpm/rc",
        ".local/share/uv/credentials/credentials.toml",
        ".local/share/opencode/auth.json",
        ".local/share/keyrings/login.keyring",
        ".kube/config",
        ".bash_history",
        "miniconda3/.condarc",
        ".dotnet/corefx/cryptography/x",
        ".config/rclone/rclone.conf",
        ".local/share/mise/trusted-configs",
        ".sdkman/var/x",
    ] {
        let path = Path::new("/h").join(secret);
        let inside = |part: &&Found| {
            path.starts_with(&part.host) && !part.without.iter().any(|out| path.starts_with(out))
        };
        let found = all.iter().find(inside);
        assert!(found.is_none(), "{secret} is in {:?}", found.map(|part| &part.host));
    }
}
