//! Origins over SSH: the host's key is known or nobody speaks to it, and ours is held outside and signs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::origins::{commits, refused, told};
use crate::vault::{Daemon, everything, is_in};
use crate::world::{EVERYONE, World};

const ORIGIN: &str = "ssh://git@site.test/team/app.git";

/// A new key: what is secret of it, and what is not.
fn key(folder: &Path, name: &str, passphrase: &str) -> (String, String) {
    let file = folder.join(name);
    let mut make = Command::new("ssh-keygen");
    assert!(
        make.args(["-q", "-t", "ed25519", "-N", passphrase, "-f"]).arg(&file).status().unwrap().success()
    );
    let read = |file: &Path| std::fs::read_to_string(file).unwrap();
    (read(&file), read(&file.with_extension("pub")))
}

/// Whether somebody holds a key below this directory.
fn holders(below: &Path) -> usize {
    let below = below.display().to_string();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.starts_with(b"ssh-agent\0") && is_in(&words, &below)
    })
    .count()
}

#[track_caller]
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// WT-01: an unknown or changed key of a host is refused; ours is in no argument, environment, file or log; what is pushed is
/// one branch.
#[test]
fn wt_01_a_host_over_ssh_is_known_by_its_key_and_ours_only_signs() {
    for who in EVERYONE {
        let world = World::new(who);
        let keys = tempfile::tempdir().unwrap();
        let (secret, public) = key(keys.path(), "ours", "");
        let (other, other_public) = key(keys.path(), "other", "");
        let (locked, _) = key(keys.path(), "locked", "a passphrase");
        let (_forge, theirs) = world.ssh_forge(&["team/app"], &public);
        let daemon = Daemon::start(&world);
        let known = world.home().join(".ssh/known_hosts");

        let why = refused(&daemon, &["repo", "add", "bare", ORIGIN]);
        assert!(why.contains("asks for a key") && why.contains("--secret"), "{why}");
        daemon.types(&["secret", "add", "FORGE_KEY", "--host", "site.test:22"], &secret).ok();
        told(&daemon, &["repo", "add", "app", ORIGIN, "--secret", "FORGE_KEY", "--no-fetch"]);
        let why = refused(&daemon, &["repo", "fetch", "app"]);
        assert!(
            why.contains("nobody said which key") && why.contains("ssh-keyscan -p 22 site.test"),
            "{why}"
        );
        let wrong: Vec<&str> = other_public.split_whitespace().take(2).collect();
        world.keep(&known, &format!("site.test {}\n", wrong.join(" ")));
        let why = refused(&daemon, &["repo", "fetch", "app"]);
        assert!(why.contains("has another key than the one that is known"), "{why}");
        assert!(!world.forge_file("asked").exists(), "and it was asked for nothing");
        world.keep(&known, &format!("site.test {theirs}\n"));

        // While the pack is on its way.
        std::fs::write(world.forge_file("hold"), "").unwrap();
        let mut fetch = world.palisade(&["repo", "fetch", "app"]);
        let child = fetch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("nobody asks the forge", || world.forge_file("held").exists());
        // Any line of it would do.
        let lines: Vec<&str> = secret.lines().filter(|line| !line.starts_with("-----")).collect();
        let holds = |bytes: &[u8]| lines.iter().any(|line| is_in(bytes, line));
        let mut of_git = 0;
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let read = |name| std::fs::read(entry.path().join(name)).unwrap_or_default();
            let words = read("cmdline");
            of_git += usize::from(words.starts_with(b"ssh\0") && is_in(&words, "site.test"));
            assert!(
                !holds(&words) && !holds(&read("environ")),
                "{who:?}: {}",
                String::from_utf8_lossy(&words)
            );
        }
        assert!(of_git > 0 && holders(&world.home()) > 0, "ssh and the holder were seen at work");
        assert!(!holds(&everything(&world.home())), "{who:?}: also while it is used");
        std::fs::remove_file(world.forge_file("hold")).unwrap();
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let kept = everything(&world.home());
        assert!(is_in(&kept, "team/app") && !holds(&kept) && !holds(daemon.log().as_bytes()), "{who:?}");
        let loans = daemon.loans();
        assert!(loans.iter().any(|one| one["detail"]["hosts"] == "site.test:22"), "{loans:?}");
        let runs = world.home().join(".local/share/palisade/runs");
        let left = std::fs::read_dir(runs).unwrap().flatten();
        let left: Vec<_> = left
            .map(|one| one.file_name())
            .filter(|name| name.as_encoded_bytes().starts_with(b"s-"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        until("the key is still held", || holders(&world.home()) == 0);

        told(&daemon, &["worktree", "create", "app", "one"]);
        commits(&daemon, "one", "one");
        let pushed = told(&daemon, &["worktree", "push", "one", "--to", "agent/work"]);
        assert_eq!(world.forge_tip("team/app", "refs/heads/agent/work"), pushed["commit"].as_str().unwrap());
        assert_eq!(world.forge_refs("team/app"), "refs/heads/agent/work\nrefs/heads/main\n");

        let replaces = ["secret", "add", "FORGE_KEY", "--host", "site.test:22", "--replace"];
        daemon.types(&replaces, &other).ok();
        let why = refused(&daemon, &["repo", "fetch", "app"]);
        assert!(why.contains("does not take the key"), "{why}");
        for text in [locked.as_str(), "no key at all, but long enough to be one"] {
            daemon.types(&replaces, text).ok();
            let why = refused(&daemon, &["repo", "fetch", "app"]);
            assert!(why.contains("no private key"), "{why}");
        }
    }
}

/// WT-01: whoever holds a key ends with the daemon, also when nobody could tell it to.
#[test]
fn wt_01_a_key_is_not_held_longer_than_the_daemon_lives() {
    let world = World::new(EVERYONE[0]);
    let keys = tempfile::tempdir().unwrap();
    let (secret, public) = key(keys.path(), "ours", "");
    let (_forge, theirs) = world.ssh_forge(&["team/app"], &public);
    let mut daemon = Daemon::start(&world);
    world.keep(&world.home().join(".ssh/known_hosts"), &format!("site.test {theirs}\n"));
    daemon.types(&["secret", "add", "FORGE_KEY", "--host", "site.test:22"], &secret).ok();
    told(&daemon, &["repo", "add", "app", ORIGIN, "--secret", "FORGE_KEY", "--no-fetch"]);
    std::fs::write(world.forge_file("hold"), "").unwrap();
    let mut fetch = world.palisade(&["repo", "fetch", "app"]);
    let mut child = fetch.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("nobody asks the forge", || world.forge_file("held").exists());
    assert_eq!(holders(&world.home()), 1);
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    until("the key is still held", || holders(&world.home()) == 0);
    std::fs::remove_file(world.forge_file("hold")).unwrap();
    let _ = child.wait();
    // What it left is gone with the next start.
    let left = || {
        let runs = std::fs::read_dir(world.home().join(".local/share/palisade/runs")).unwrap().flatten();
        runs.filter(|one| one.file_name().as_encoded_bytes().starts_with(b"s-")).count()
    };
    assert_eq!(left(), 1);
    let mut again = world.palisade(&["up"]);
    let mut again = again.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("what a killed fetch left is still there", || left() == 0);
    again.kill().unwrap();
    again.wait().unwrap();
}
