//! Commits that an agent made reach the person's repository, and nothing else does.

use crate::room::{Room, Who, everyone};

const COMMIT: &str = "echo two >> one.txt; echo new > new.txt; git add .; git commit -qm second";

#[test]
fn a_commit_leaves_and_the_branch_moves_with_the_index() {
    for who in everyone() {
        let room = Room::with_repository(who);
        room.run(COMMIT).ok().tells("main moved from");
        assert_eq!(
            room.git(&["log", "--format=%an <%ae> %s"]),
            "Ana B <ana@example.com> second\nAna B <ana@example.com> first"
        );
        assert_eq!(room.git(&["status", "--porcelain"]), "", "{who:?}");
        assert_eq!(room.git(&["fsck", "--strict"]), "");
        let kept = room.git(&["for-each-ref", "--format=%(refname)", "refs/palisade"]);
        assert!(
            kept.starts_with("refs/palisade/run_") && kept.ends_with("/main") && kept.lines().count() == 1,
            "{kept}"
        );
        // Nothing of the layer is left.
        assert_eq!(std::fs::read_dir(room.runs()).map_or(0, Iterator::count), 0, "{who:?}");
    }
}

#[test]
fn git_works_inside_as_it_does_outside() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let script = "git status --porcelain; git checkout -qb work; echo x > x; git add x; git commit -qm x;
            echo y >> x; git stash -q; git stash pop -q; git branch other; git branch -m other another;
            git config core.hooksPath hooks.d; git tag v1; git mv x z; git commit -qam z; git gc -q --prune=now;
            git fsck --strict; git worktree list; git rev-parse HEAD; git log --oneline | wc -l; exit 3";
        let said = room.run(script);
        assert_eq!(said.code, Some(3), "{}", said.err);
        assert!(said.out.trim_end().ends_with('3'), "{}", said.out);
        let said = said.tells("work at ").tells("another at").tells("`main` was checked out at the start");
        let branches = room.git(&["for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags"]);
        assert_eq!(branches, "refs/heads/main", "{}", said.err);
        assert!(!room.repository().contains("hooks.d"));
    }
}

#[test]
fn a_run_without_commits_changes_nothing_and_says_nothing() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let before = room.repository();
        let said = room.run("git status; git log; echo x > file; git add file").ok();
        assert_eq!(said.err, "");
        assert_eq!(room.repository(), before);
        assert_eq!(room.git(&["status", "--porcelain"]), "?? file");
    }
}

#[test]
fn a_branch_that_the_person_moved_meanwhile_stays_theirs() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let said = room.while_running(COMMIT, || {
            room.git(&["commit", "-q", "--allow-empty", "-m", "mine"]);
        });
        said.ok().tells("it moved on the host meanwhile");
        assert_eq!(room.git(&["log", "--format=%s"]), "mine\nfirst");
        let kept = room.git(&["for-each-ref", "--format=%(refname)", "refs/palisade"]);
        assert_eq!(room.git(&["log", "--format=%s", &kept]), "second\nfirst");
    }
}

#[test]
fn rewritten_history_is_kept_beside() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let before = room.git(&["rev-parse", "main"]);
        room.run("git commit -q --amend -m rewritten").ok().tells("its history was rewritten");
        assert_eq!(room.git(&["rev-parse", "main"]), before);
    }
}

#[test]
fn what_is_staged_stays_staged() {
    let room = Room::with_repository(everyone()[0]);
    room.file("staged.txt", "mine\n");
    room.git(&["add", "staged.txt"]);
    room.run("echo two >> one.txt; git add one.txt; git commit -qm second one.txt").ok().tells("main moved");
    assert_eq!(room.git(&["status", "--porcelain"]), "A  staged.txt");
    // And where it is in the way, the index stays whole.
    room.file("one.txt", "mine\n");
    room.git(&["add", "one.txt"]);
    let index = room.git(&["ls-files", "-s"]);
    room.run("git reset -q; echo three >> one.txt; git commit -qm third one.txt")
        .ok()
        .tells("the index stayed as it was");
    assert_eq!(room.git(&["ls-files", "-s"]), index);
}

#[test]
fn the_first_commit_of_all_leaves() {
    for who in everyone() {
        let room = Room::empty(who);
        room.git(&["init", "-q", "-b", "trunk"]);
        room.run("echo x > x; git add x; git commit -qm first").ok().tells("trunk begins at");
        assert_eq!(room.git(&["log", "--format=%s"]), "first");
        assert_eq!(room.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn a_commit_on_no_branch_is_kept() {
    let room = Room::with_repository(everyone()[0]);
    room.git(&["checkout", "-q", "--detach"]);
    room.run(COMMIT).ok().tells("HEAD at").tells("no branch was checked out at the start");
    assert_eq!(room.git(&["rev-parse", "HEAD"]), room.git(&["rev-parse", "main"]));
}

#[test]
fn packed_references_and_reftables_are_understood() {
    let room = Room::with_repository(everyone()[0]);
    room.git(&["pack-refs", "--all"]);
    room.run(COMMIT).ok().tells("main moved from");
    let room = Room::empty(everyone()[0]);
    room.git(&["init", "-q", "-b", "main", "--ref-format=reftable"]);
    room.file("one.txt", "one\n");
    room.git(&["add", "."]);
    room.git(&["commit", "-q", "-m", "first"]);
    room.run(COMMIT).ok().tells("main moved from");
    assert_eq!(room.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_repository_with_longer_names_of_objects_is_understood() {
    let room = Room::empty(everyone()[0]);
    room.git(&["init", "-q", "-b", "main", "--object-format=sha256"]);
    room.run("echo x > x; git add x; git commit -qm first").ok().tells("main begins at");
    room.run("echo y > x; git commit -qam second").ok().tells("main moved from");
    assert_eq!(room.git(&["status", "--porcelain"]), "");
}

#[test]
fn programs_are_told_as_well() {
    let room = Room::with_repository(everyone()[0]);
    let said = room.run_in(&room.project, &["--json"], &format!("{COMMIT}; touch sub/.envrc")).ok();
    let told: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(told["result"]["commits"]["branches"][0]["became"], "moved", "{told}");
    assert_eq!(told["result"]["findings"][0]["path"], "sub/.envrc", "{told}");
}

#[test]
fn root_leaves_files_to_their_owner() {
    if !everyone().contains(&Who::Root) {
        tests::cannot_run("only root runs agents among files of others");
        return;
    }
    // The repository of a user, in which root runs an agent.
    let mut room = Room::with_repository(Who::User(23_999));
    room.who = Who::Root;
    let home = room.home();
    let own = |user| std::os::unix::fs::chown(&home, Some(user), Some(user)).unwrap();
    own(0);
    room.run(COMMIT).ok().tells("main moved from");
    own(23_999);
    room.who = Who::User(23_999);
    assert_eq!(room.git(&["status", "--porcelain"]), "");
    room.git(&["commit", "-q", "--allow-empty", "-m", "third"]);
    room.git(&["gc", "-q"]);
}
