//! Repositories that are fetched, and worktrees that lie on the disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use api::{CreateRepoRequest, CreateWorktreeRequest, Worktree};
use tests::{Host, commit, git, program, scale};

/// A daemon with a repository that was fetched.
pub fn fetched() -> (Host, String) {
    let host = Host::start();
    let repo = host.local_repo("demo");
    let made = host.owner().client.fetch_repo(&repo).unwrap();
    assert_eq!(made.default_branch.as_deref(), Some("trunk"));
    assert!(made.fetched_at.is_some());
    (host, repo)
}

pub fn wanted(repo: &str, name: &str) -> CreateWorktreeRequest {
    CreateWorktreeRequest {
        repo: repo.to_owned(),
        name: name.to_owned(),
        about: String::new(),
        tier: None,
        branch: None,
        base: None,
    }
}

pub fn tree(host: &Host, made: &Worktree) -> PathBuf {
    host.data().join("worktrees").join(&made.id)
}

pub fn ours(host: &Host, repo: &str) -> PathBuf {
    host.data().join("repos").join(repo)
}

fn branches(host: &Host, repo: &str) -> String {
    git(&ours(host, repo), &["for-each-ref", "--format=%(refname)", "refs/heads", "refs/palisade"])
}

fn tip(host: &Host, repo: &str) -> String {
    git(&ours(host, repo), &["rev-parse", "refs/remotes/origin/trunk"])
}

/// Does something in a worktree as an agent does: in a sandbox.
pub fn inside(host: &Host, tree: &Path, script: &str) {
    let state = host.place().join("agent");
    fs::create_dir_all(&state).unwrap();
    let mut run = Command::new(program("palisade"));
    run.current_dir(tree).env("XDG_STATE_HOME", &state).env("XDG_CONFIG_HOME", &state).env("HOME", &state);
    let out = run.args(["run", "--", "sh", "-ec", script]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// WT-02, WT-05: a worktree begins at what was fetched; what is committed inside is shown, and nobody else's moves.
#[test]
fn wt_02_a_worktree_begins_at_the_fetched_base_and_shows_what_was_committed() {
    let (host, repo) = fetched();
    let client = &host.owner().client;
    let made = client.create_worktree(&wanted(&repo, "one")).unwrap();
    assert_eq!(made.branch, Some(format!("palisade/{}", made.id)), "not by its name, which may be hidden");
    let origin = host.origin("demo");
    assert_eq!(made.base.as_deref(), Some(git(&origin, &["rev-parse", "trunk"]).as_str()));
    let there = tree(&host, &made);
    assert_eq!(fs::read_to_string(there.join("README")).unwrap(), "one\n");
    assert_eq!(client.worktree_log(&made.id, None).unwrap().items, []);
    let before = git(&origin, &["for-each-ref"]);
    let identity = "git config user.name A; git config user.email a@host.example";
    inside(
        &host,
        &there,
        &format!("{identity}; echo two > README; echo x > new; git add .; git commit -qm 'Second thing'"),
    );
    let log = client.worktree_log(&made.id, None).unwrap().items;
    assert_eq!(log.iter().map(|one| one.subject.as_str()).collect::<Vec<_>>(), ["Second thing"]);
    let diff = client.worktree_diff(&made.id).unwrap();
    assert!(
        diff.patch.contains("-one\n+two\n") && diff.patch.contains("+x\n") && !diff.truncated,
        "{}",
        diff.patch
    );
    assert_eq!(git(&origin, &["for-each-ref"]), before, "the origin is as it was");

    // What comes later is where the next one begins; what is there stays where it is.
    let newer = commit(&origin, "README", "newer\n");
    client.fetch_repo(&repo).unwrap();
    let second = client.create_worktree(&wanted(&repo, "two")).unwrap();
    assert_eq!(second.base.as_deref(), Some(newer.as_str()));
    assert_eq!(client.worktree_log(&made.id, None).unwrap().items, log);
    // A branch that is gone there is gone here, and one that was pushed is there.
    git(&origin, &["checkout", "-q", "-b", "other"]);
    git(&origin, &["branch", "-D", "trunk"]);
    let fetched = client.fetch_repo(&repo).unwrap();
    assert_eq!(fetched.default_branch.as_deref(), Some("other"));
    let theirs = git(&ours(&host, &repo), &["for-each-ref", "--format=%(refname)", "refs/remotes"]);
    assert_eq!(theirs, "refs/remotes/origin/other");
    assert!(!branches(&host, &repo).contains("palisade-fetch"), "nothing of the fetch is left");
}

/// WT-02: an existing branch is taken as it is; of many who want one name, one gets it.
#[test]
fn wt_02_of_many_creates_one_wins_and_an_existing_branch_is_kept() {
    let (host, repo) = fetched();
    let client = &host.owner().client;
    let tries = scale(50, 6);
    let won: Vec<_> = std::thread::scope(|all| {
        let each = |_| all.spawn(|| client.create_worktree(&wanted(&repo, "same")));
        let started: Vec<_> = (0..tries).map(each).collect();
        started.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(won.iter().filter(|one| one.is_ok()).count(), 1);
    assert!(won.iter().filter_map(|one| one.as_ref().err()).all(|error| error.status() == Some(409)));
    assert_eq!(fs::read_dir(host.data().join("worktrees")).unwrap().count(), 1, "one tree, and nothing else");
    let only = won.into_iter().find_map(Result::ok).unwrap();
    assert_eq!(branches(&host, &repo), format!("refs/heads/palisade/{}", only.id));

    let first = client
        .create_worktree(&CreateWorktreeRequest { branch: Some("mine".into()), ..wanted(&repo, "a") })
        .unwrap();
    inside(
        &host,
        &tree(&host, &first),
        "git -c user.name=A -c user.email=a@b commit -q --allow-empty -m kept",
    );
    let tip = git(&ours(&host, &repo), &["rev-parse", "mine"]);
    let again = CreateWorktreeRequest { branch: Some("mine".into()), ..wanted(&repo, "b") };
    let refused = client.create_worktree(&again).unwrap_err();
    assert!(refused.to_string().contains("in use"), "{refused}");
    client.delete_worktree(&first.id).unwrap();
    assert!(!tree(&host, &first).exists(), "the tree went with it");
    let second = client.create_worktree(&again).unwrap();
    assert_eq!(git(&ours(&host, &repo), &["rev-parse", "mine"]), tip, "and the branch did not move");
    assert_ne!(second.base.as_deref(), Some(tip.as_str()));
}

/// WT-03: what cannot be made leaves nothing, and an interrupted one goes with the next start.
#[test]
fn wt_03_a_worktree_that_cannot_be_made_leaves_nothing() {
    let (mut host, repo) = fetched();
    let client = host.owner().client.clone();
    let nothing = |host: &Host| {
        let trees = host.data().join("worktrees");
        let left = fs::read_dir(trees).map(|all| all.count()).unwrap_or(0);
        assert_eq!((left, branches(host, &repo)), (0, String::new()));
        assert!(client.worktrees(&api::WorktreeFilter::default()).unwrap().items.is_empty());
    };
    let base = CreateWorktreeRequest { base: Some("nowhere".into()), ..wanted(&repo, "a") };
    let refused = client.create_worktree(&base).unwrap_err();
    assert!(refused.to_string().contains("no branch `nowhere`"), "{refused}");
    for odd in
        ["--detach", "a..b", "-x", "refs/heads/x.lock", "palisade", "Palisade/x", "palisade-fetch/main"]
    {
        let odd = CreateWorktreeRequest { branch: Some(odd.into()), ..wanted(&repo, "a") };
        assert_eq!(client.create_worktree(&odd).unwrap_err().status(), Some(422));
    }
    nothing(&host);
    // A file where a tree would be, and nowhere to put it at all.
    let trees = host.data().join("worktrees");
    fs::remove_dir_all(&trees).unwrap_or_default();
    fs::write(&trees, "in the way").unwrap();
    assert_eq!(client.create_worktree(&wanted(&repo, "a")).unwrap_err().status(), Some(409));
    fs::remove_file(&trees).unwrap();
    nothing(&host);
    // The index that git would write is in the way, so that it gives up half way.
    let objects = ours(&host, &repo).join(".git/objects");
    let hidden = ours(&host, &repo).join(".git/hidden");
    fs::rename(&objects, &hidden).unwrap();
    fs::create_dir(&objects).unwrap();
    client.create_worktree(&wanted(&repo, "a")).unwrap_err();
    fs::remove_dir_all(&objects).unwrap();
    fs::rename(&hidden, &objects).unwrap();
    nothing(&host);
    // As a daemon leaves it that is killed while it makes one.
    let half = format!("wt_{}", "0".repeat(32));
    fs::create_dir_all(trees.join(&half).join("half")).unwrap();
    fs::write(
        trees.join(format!("{half}.making")),
        format!("{repo}\nleft\n{tip}\n", tip = tip(&host, &repo)),
    )
    .unwrap();
    git(&ours(&host, &repo), &["branch", "left", "refs/remotes/origin/trunk"]);
    // One that nobody was making is nobody's to remove.
    let other = trees.join(format!("wt_{}", "1".repeat(32)));
    fs::create_dir_all(&other).unwrap();
    let kept = client.create_worktree(&wanted(&repo, "kept")).unwrap();
    host.restart();
    let gone = || !trees.join(format!("wt_{}", "0".repeat(32))).exists();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !gone() && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(gone(), "what was half made is gone");
    assert!(!branches(&host, &repo).contains("left"), "and its branch");
    assert!(other.exists());
    assert!(tree(&host, &kept).join("README").exists(), "what somebody has stays");
}

/// WT-16, WT-17: the file browser shows the tree and nothing else, and cannot be made to wait.
#[test]
fn wt_16_the_file_browser_shows_the_tree_and_nothing_else() {
    let (host, repo) = fetched();
    let client = &host.owner().client;
    let made = client.create_worktree(&wanted(&repo, "one")).unwrap();
    let there = tree(&host, &made);
    let secret = host.place().join("outside");
    fs::write(&secret, "from outside").unwrap();
    fs::create_dir_all(there.join("sub/deep")).unwrap();
    fs::write(
        there.join("sub/deep/file"),
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzzz\nplain\n",
    )
    .unwrap();
    fs::write(there.join("binary"), b"\0\xff").unwrap();
    fs::write(there.join("odd \u{1b}[2J name"), "odd").unwrap();
    fs::write(there.join("large"), vec![b'x'; (1 << 20) + 1]).unwrap();
    std::os::unix::fs::symlink(&secret, there.join("link")).unwrap();
    std::os::unix::fs::symlink(host.place(), there.join("folder-link")).unwrap();
    std::os::unix::fs::symlink("..", there.join("up")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, there.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();

    let top = client.worktree_files(&made.id, "").unwrap().entries.unwrap();
    let kinds: Vec<_> = top.iter().map(|one| (one.name.as_str(), one.kind.as_str())).collect();
    assert!(kinds.contains(&("link", "link")) && kinds.contains(&("sub", "folder")), "{kinds:?}");
    assert!(
        kinds.contains(&("pipe", "other")) && !kinds.iter().any(|(name, _)| *name == ".git"),
        "{kinds:?}"
    );
    let file = client.worktree_files(&made.id, "sub/deep/file").unwrap();
    let text = file.text.unwrap();
    assert!(text.contains("plain") && !text.contains("wJalrXUtn"), "{text}");
    assert!(client.worktree_files(&made.id, "binary").unwrap().binary);

    let outside = secret.to_str().unwrap().to_owned();
    let mut paths = vec![
        "..",
        "../",
        "../..",
        "sub/../..",
        "./..",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        "sub//../..",
        "link",
        "up",
        "up/..",
        "folder-link",
        "folder-link/outside",
        "sub/../../outside",
        "%2e%2e",
        "..%2f..",
        "\0",
        "sub\0",
        "link/",
        "pipe",
        "large",
        "README/..",
        "README/x",
        "none",
        ".",
        "./README",
        "sub/./deep",
        "up/up/up",
        "/proc/self/environ",
        "~",
        "~root",
        "C:\\x",
        "..\\..",
        "....//",
        "..;/",
        "\u{2024}\u{2024}/",
        "sub/deep/../../../outside",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect::<Vec<_>>();
    paths.push(outside);
    paths.extend((1..30).map(|depth| format!("{}outside", "../".repeat(depth))));
    assert!(paths.len() >= 60, "{}", paths.len());
    for path in paths {
        let begun = std::time::Instant::now();
        let answer = client.worktree_files(&made.id, &path);
        assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{path:?}");
        if let Ok(shown) = answer {
            let all = format!("{shown:?}");
            assert!(
                !all.contains("from outside") && !all.contains("worktrees") && !all.contains("root:"),
                "{path:?}: {all}"
            );
            let own = [".", "./README", "sub/./deep"].contains(&path.as_str());
            assert!(own || path == "~", "{path:?} is answered with {all}");
        }
    }
    let bo = host.user("bo", "member");
    client.set_tier(&made.id, "none").unwrap();
    for status in [
        bo.client.worktree_files(&made.id, "README").unwrap_err().status(),
        bo.client.worktree_log(&made.id, None).unwrap_err().status(),
        bo.client.worktree_diff(&made.id).unwrap_err().status(),
    ] {
        assert_eq!(status, Some(404), "what is hidden is hidden here too");
    }
}

/// WT-01, WT-07: where a repository may come from, and what a fetch that fails leaves.
#[test]
fn wt_01_what_cannot_be_fetched_is_refused_and_leaves_the_repository_as_it_was() {
    let (host, repo) = fetched();
    let client = &host.owner().client;
    let before = git(&ours(&host, &repo), &["for-each-ref"]);
    let origin = host.origin("demo");
    fs::rename(&origin, host.place().join("away")).unwrap();
    let refused = client.fetch_repo(&repo).unwrap_err();
    assert_eq!(refused.status(), Some(409), "{refused}");
    assert_eq!(git(&ours(&host, &repo), &["for-each-ref"]), before);
    fs::rename(host.place().join("away"), &origin).unwrap();
    // Somebody makes it a repository that runs a program of theirs.
    let mark = host.place().join("mark");
    let hook = format!("#!/bin/sh\ntouch {}\n", mark.display());
    let place = origin.join(".git/hooks");
    fs::create_dir_all(&place).unwrap();
    for name in ["post-checkout", "reference-transaction", "pre-receive", "post-update"] {
        fs::write(place.join(name), &hook).unwrap();
        fs::set_permissions(place.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    git(&origin, &["config", "core.fsmonitor", mark.to_str().unwrap()]);
    commit_quietly(&origin);
    client.fetch_repo(&repo).unwrap();
    client.create_worktree(&wanted(&repo, "x")).unwrap();
    assert!(!mark.exists(), "nothing of theirs ran");

    for origin in
        ["file:///etc", "ext::sh -c id", "http://forge.example/a", "https://a:b@forge.example/c", "/a/../b"]
    {
        let body = CreateRepoRequest { name: "bad".into(), origin: origin.into(), ..Default::default() };
        assert_eq!(client.create_repo(&body).unwrap_err().status(), Some(422), "{origin}");
    }
    let ssh = CreateRepoRequest {
        name: "ssh".into(),
        origin: "ssh://git@forge.example/a/b".into(),
        ..Default::default()
    };
    let made = client.create_repo(&ssh).unwrap();
    let refused = client.fetch_repo(&made.id).unwrap_err();
    let why = refused.to_string();
    assert!(why.contains("asks for a key") && why.contains("`--secret`") && !why.contains("***"), "{why}");
    let early = CreateWorktreeRequest { base: Some("main".into()), ..wanted(&made.id, "early") };
    let refused = client.create_worktree(&early).unwrap_err();
    assert!(refused.to_string().contains("not fetched yet"), "{refused}");

    let team =
        Host::builder().set("mode", "team").variable("PALISADE_MASTER_KEY", &tests::master_key()).start();
    let local = CreateRepoRequest { name: "local".into(), origin: "/etc".into(), ..Default::default() };
    let refused = team.owner().client.create_repo(&local).unwrap_err();
    assert!(refused.status() == Some(422) && refused.to_string().contains("solo"), "{refused}");
}

/// A commit that sets off no hook of its own.
fn commit_quietly(origin: &Path) {
    fs::write(origin.join("README"), "later\n").unwrap();
    git(origin, &["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "commit", "-qam", "later"]);
}
