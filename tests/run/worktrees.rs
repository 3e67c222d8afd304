//! Where the repository is elsewhere, above, or not there at all.

use crate::room::{Room, everyone};

const COMMIT: &str = "echo x > x; git add x; git commit -qm second";

#[test]
fn a_linked_worktree_commits_to_its_own_branch() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let linked = room.home().join("linked");
        room.git(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
        let main = room.git(&["rev-parse", "main"]);
        let said = room.run_in(
            &linked,
            &[],
            &format!("git status; git config alias.x '!touch {}'; {COMMIT}", room.canary().display()),
        );
        said.ok().tells("side moved from");
        assert_eq!(room.git_in(&linked, &["log", "--format=%s"]), "second\nfirst");
        assert_eq!(room.git_in(&linked, &["status", "--porcelain"]), "", "{who:?}");
        assert_eq!(room.git(&["rev-parse", "main"]), main);
        assert!(!room.repository().contains("alias"));
    }
}

#[test]
fn a_submodule_commits_to_its_own_repository() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let library = room.home().join("library");
        room.git(&["clone", "-q", ".", library.to_str().unwrap()]);
        room.git(&[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            library.to_str().unwrap(),
            "lib",
        ]);
        let inner = room.project.join("lib");
        room.run_in(&inner, &[], COMMIT).ok().tells("main moved from");
        assert_eq!(room.git_in(&inner, &["status", "--porcelain"]), "", "{who:?}");
        assert_eq!(room.git_in(&inner, &["log", "-1", "--format=%s"]), "second");
    }
}

#[test]
fn a_subdirectory_is_in_the_repository_around_it() {
    let room = Room::with_repository(everyone()[0]);
    room.run_in(&room.project.join("sub"), &[], COMMIT).ok().tells("main moved from");
    assert_eq!(room.git(&["show", "--stat", "--format="]), " sub/x | 1 +\n 1 file changed, 1 insertion(+)");
}

/// Whoever may write to a directory above could otherwise have all of it given to the command.
#[test]
fn a_repository_of_somebody_else_around_it_does_not_count() {
    if !rustix::process::geteuid().is_root() {
        tests::cannot_run("it takes two people, and only root can be both");
        return;
    }
    for who in everyone() {
        let room = Room::empty(who);
        let foreign = room.home().join("shared");
        let own = foreign.join("own");
        std::fs::create_dir_all(foreign.join(".git")).unwrap();
        std::fs::create_dir(&own).unwrap();
        std::fs::write(foreign.join("beside"), "not for the command").unwrap();
        for path in [foreign.clone(), foreign.join(".git")] {
            std::os::unix::fs::lchown(path, Some(65_000), Some(65_000)).unwrap();
        }
        room.own(&own);
        let said = room.run_in(&own, &[], "touch made; ls -A ..").ok();
        assert!(own.join("made").exists(), "{who:?}");
        assert!(!said.out.contains("beside"), "{who:?}: {}", said.out);
    }
}

#[test]
fn adv_g05_a_repository_where_there_was_none_is_put_away() {
    for who in everyone() {
        let room = Room::empty(who);
        let script =
            format!("git init -q; git config core.fsmonitor 'touch {}'; echo x > x", room.canary().display());
        room.run(&script).ok().tells("quarantined .git");
        assert!(!room.project.join(".git").exists() && room.project.join("x").exists());
        room.look_around();
        room.run("git status || true").ok();
    }
}

#[test]
fn adv_g01_a_link_is_refused_with_what_to_do() {
    let room = Room::with_repository(everyone()[0]);
    std::fs::rename(room.project.join(".git"), room.home().join("real")).unwrap();
    std::os::unix::fs::symlink(room.home().join("real"), room.project.join(".git")).unwrap();
    let said = room.run("touch ran");
    assert_eq!(said.code, Some(125));
    said.tells("is a link").tells("git worktree add");
    assert!(!room.project.join("ran").exists());
}

#[test]
fn adv_g01_a_git_file_stays_what_it_was() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let linked = room.home().join("linked");
        room.git(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
        let before = std::fs::read_to_string(linked.join(".git")).unwrap();
        let script = "rm -f .git || true; mv .git x || true; echo 'gitdir: /tmp' > .git || true; mkdir .git || true; exit 0";
        room.run_in(&linked, &[], script).ok();
        assert_eq!(std::fs::read_to_string(linked.join(".git")).unwrap(), before, "{who:?}");
    }
}
