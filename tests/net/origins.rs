//! Origins that ask for a credential: fetched from and pushed to over real git, TLS and Basic logins, and never told the word.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::vault::{Daemon, everything, is_in};
use crate::world::{EVERYONE, World};

const TOKEN: &str = "ghp_Vm9ydG9uR2VoZWltbmlzIQzQ1Njc4XyZ0abcd";
const ORIGIN: &str = "https://site.test/team/app.git";

/// What a command says as a document.
#[track_caller]
pub fn told(daemon: &Daemon<'_>, words: &[&str]) -> Value {
    let said = daemon.types(&[&["--json"][..], words].concat(), "").ok();
    serde_json::from_str::<Value>(&said.out).unwrap()["result"].clone()
}

/// Why a command was not done.
#[track_caller]
pub fn refused(daemon: &Daemon<'_>, words: &[&str]) -> String {
    let said = daemon.types(words, "");
    assert_ne!(said.code, Some(0), "{words:?}: {}", said.out);
    said.err
}

/// Commits in a worktree as an agent does.
#[track_caller]
pub fn commits(daemon: &Daemon<'_>, worktree: &str, file: &str) {
    let session = told(daemon, &["session", "new", worktree, "--", "sh"])["id"].as_str().unwrap().to_owned();
    let script = format!(
        "git config user.name A; git config user.email a@b; echo {file} > {file}; git add {file}; git commit -qm {file}"
    );
    daemon.types(&["session", "prompt", &session, &script, "--follow"], "").ok();
    let log = daemon.types(&["worktree", "log", worktree], "").ok();
    assert!(log.out.contains(file), "{}", log.out);
}

/// WT-01: during and after a clone the token is in no argument, address, configuration, reflog or log; a clone of another
/// origin is not used.
#[test]
fn wt_01_an_origin_is_fetched_with_a_secret_that_stays_where_it_is() {
    for who in EVERYONE {
        let world = World::new(who);
        let _forge = world.secure_forge(&["team/app"], "site.test");
        std::fs::write(world.forge_file("password"), TOKEN).unwrap();
        let daemon = Daemon::start(&world);
        // Without it the origin says no, and we say what to do.
        let why = refused(&daemon, &["repo", "add", "bare", ORIGIN]);
        assert!(why.contains("asks for a credential") && why.contains("--secret"), "{why}");
        let add = ["repo", "add", "app", ORIGIN, "--secret", "FORGE_TOKEN", "--no-fetch"];
        assert_eq!(told(&daemon, &add)["asks_for"], "FORGE_TOKEN");
        let why = refused(&daemon, &["repo", "fetch", "app"]);
        assert!(why.contains("palisade secret add FORGE_TOKEN"), "{why}");
        daemon.types(&["secret", "add", "FORGE_TOKEN", "--host", "other.test"], TOKEN).ok();
        let why = refused(&daemon, &["repo", "fetch", "app"]);
        assert!(why.contains("is bound to"), "{why}");
        daemon.types(&["secret", "add", "FORGE_TOKEN", "--host", "site.test", "--replace"], TOKEN).ok();

        // While the pack is on its way.
        std::fs::write(world.forge_file("hold"), "").unwrap();
        let mut fetch = world.palisade(&["repo", "fetch", "app"]);
        let child = fetch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while !world.forge_file("held").exists() {
            assert!(Instant::now() < until, "nobody asked the forge: {}", daemon.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut of_git = 0;
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let read = |name| std::fs::read(entry.path().join(name)).unwrap_or_default();
            let words = read("cmdline");
            assert!(!is_in(&words, TOKEN), "{who:?}: {}", String::from_utf8_lossy(&words));
            let shown = String::from_utf8_lossy(&words).into_owned();
            assert!(!is_in(&read("environ"), TOKEN), "{who:?}: nobody has it in their environment: {shown}");
            of_git += usize::from(words.starts_with(b"git\0") || is_in(&words, "git-remote-https"));
        }
        assert!(of_git > 0, "git was seen at work");
        std::fs::remove_file(world.forge_file("hold")).unwrap();
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(!is_in(&done.stdout, TOKEN) && !is_in(&done.stderr, TOKEN));
        // The origin was told it, and nothing on the disk was: not the repository, its reflogs, the runs, the ledger or the store.
        let asked = std::fs::read_to_string(world.forge_file("asked")).unwrap();
        let login =
            base64::Engine::encode(&base64::prelude::BASE64_STANDARD, format!("x-access-token:{TOKEN}"));
        assert!(asked.contains(&login), "{asked}");
        let kept = everything(&world.home());
        assert!(is_in(&kept, "team/app") && !is_in(&kept, TOKEN) && !is_in(&kept, &login), "{who:?}");
        assert!(!daemon.log().contains(TOKEN) && !daemon.log().contains(&login));
        let loans = daemon.loans();
        assert!(loans.iter().any(|one| one["detail"]["hosts"] == "site.test:443"), "{loans:?}");

        // Its files are of that origin or of none.
        let shown = told(&daemon, &["repo", "show", "app"]);
        let place = world.home().join(".local/share/palisade/repos").join(shown["id"].as_str().unwrap());
        let config = place.join(".git/config");
        let text = std::fs::read_to_string(&config).unwrap();
        assert!(text.contains(ORIGIN), "{text}");
        std::fs::write(&config, text.replace(ORIGIN, "https://site.test/team/other.git")).unwrap();
        let why = refused(&daemon, &["repo", "fetch", "app"]);
        assert!(why.contains("another origin"), "{why}");
        std::fs::write(&config, text).unwrap();
        // One that the origin does not take is told as such.
        std::fs::write(world.forge_file("password"), "another").unwrap();
        let why = refused(&daemon, &["repo", "fetch", "app"]);
        assert!(why.contains("does not take the one that it got"), "{why}");
        assert!(!why.contains(TOKEN));
    }
}

/// A worktree's branch is pushed with the same care: that branch and no other, forwards only.
#[test]
fn wt_01_a_worktree_is_pushed_to_one_branch_forwards_only() {
    for who in EVERYONE {
        let world = World::new(who);
        let _forge = world.secure_forge(&["team/app", "team/other"], "site.test");
        std::fs::write(world.forge_file("password"), TOKEN).unwrap();
        let daemon = Daemon::start(&world);
        daemon.types(&["secret", "add", "FORGE_TOKEN", "--host", "site.test"], TOKEN).ok();
        told(&daemon, &["repo", "add", "app", ORIGIN, "--secret", "FORGE_TOKEN"]);
        for name in ["one", "two"] {
            told(&daemon, &["worktree", "create", "app", name]);
            commits(&daemon, name, name);
        }
        let first = world.forge_tip("team/app", "main");
        let pushed = told(&daemon, &["worktree", "push", "one", "--to", "agent/work"]);
        let commit = pushed["commit"].as_str().unwrap();
        assert_eq!(pushed["to"], "agent/work");
        assert_eq!(world.forge_tip("team/app", "refs/heads/agent/work"), commit);
        assert_eq!(world.forge_refs("team/app"), "refs/heads/agent/work\nrefs/heads/main\n");
        assert_eq!(world.forge_tip("team/app", "main"), first);
        // What is there is not overwritten, and whoever pushes is told what to do.
        let why = refused(&daemon, &["worktree", "push", "two", "--to", "agent/work"]);
        assert!(why.contains("has commits that this branch does not have") && why.contains("--to"), "{why}");
        assert_eq!(world.forge_tip("team/app", "refs/heads/agent/work"), commit);
        // Forwards is fine, also on the usual branch; without a name it is the worktree's own.
        told(&daemon, &["worktree", "push", "one", "--to", "main"]);
        assert_eq!(world.forge_tip("team/app", "main"), commit);
        let own = told(&daemon, &["worktree", "push", "two"])["to"].as_str().unwrap().to_owned();
        assert!(world.forge_refs("team/app").contains(&format!("refs/heads/{own}")));
        assert!(!world.forge_refs("team/other").contains("agent"));
        let said = daemon.types(&["--json", "ledger", "search", "--action", "worktree.push"], "").ok();
        assert!(said.out.contains(commit) && !said.out.contains(TOKEN), "{}", said.out);
        let kept = everything(&world.home());
        assert!(!is_in(&kept, TOKEN) && !daemon.log().contains(TOKEN), "{who:?}");
    }
}
