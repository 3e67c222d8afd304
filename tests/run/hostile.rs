//! Git turned against the host: nothing of what an agent puts into its git directory runs or counts outside.

use std::path::Path;

use crate::room::{Room, everyone};

/// Every file of the repository, to see that it stayed as it was.
fn files(git: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![git.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() != "index" {
                found.push(entry.path().display().to_string());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn adv_g01_git_s_own_files_do_not_turn_against_the_host() {
    for who in everyone() {
        let evil = |room: &Room| format!("touch {}", room.canary().display());
        for attack in [
            // (a) Another directory in its place, with a monitor.
            "rm -rf .git 2>/dev/null || true; mv .git away 2>/dev/null || true; mkdir .git 2>/dev/null || true
             printf '[core]\\n\\tfsmonitor = EVIL\\n' > .git/config; printf 'ref: refs/heads/main\\n' > .git/HEAD
             mkdir -p .git/objects .git/refs/heads",
            // (b) Its parts elsewhere.
            "mkdir -p evil/objects evil/refs; cp .git/HEAD evil; printf '[core]\\n\\tfsmonitor = EVIL\\n' > evil/config
             echo ../evil > .git/commondir; echo /tmp > .git/gitdir",
            // (c) A configuration for one worktree.
            "git config extensions.worktreeConfig true; printf '[core]\\n\\tfsmonitor = EVIL\\n' > .git/config.worktree
             echo x >> one.txt; git -c core.fsmonitor=false commit -qam x || true",
        ] {
            let room = Room::with_repository(who);
            let before = room.repository();
            let said = room.run(&attack.replace("EVIL", &format!("'{}'", evil(&room))));
            assert!(said.code.is_some(), "{}", said.err);
            let after = room.repository();
            assert_eq!(after.split("[core]").nth(1), before.split("[core]").nth(1), "{who:?} {attack}");
            assert!(!room.project.join(".git/commondir").exists() && !room.project.join(".git/config.worktree").exists());
            room.look_around();
        }
    }
}

#[test]
fn adv_g02_programs_by_configuration_and_attributes_do_not_run_on_the_host() {
    let settings = [
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "diff.external",
        "diff.evil.textconv",
        "merge.evil.driver",
        "core.sshCommand",
        "core.pager",
        "alias.st",
        "credential.helper",
        "gpg.program",
        "core.alternateRefsCommand",
        "uploadpack.packObjectsHook",
        "core.fsmonitor",
        "core.editor",
        "sequence.editor",
        "receive.procReceiveRefs",
        "core.askPass",
        "pager.status",
    ];
    for who in everyone() {
        let room = Room::with_repository(who);
        let before = room.repository();
        let evil = format!("touch {}; cat", room.canary().display());
        let mut script =
            String::from("printf '* filter=evil diff=evil merge=evil\\n' > .gitattributes; echo y > y\n");
        script.push_str("git add .gitattributes y; git commit -qm attributes\n");
        script.push_str("mkdir -p own; printf '[core]\\n\\tfsmonitor = EVIL\\n' > own/included\n");
        for name in settings {
            script.push_str(&format!("git config {name} 'EVIL' || true\n"));
        }
        script.push_str("git config alias.status '!EVIL'; git config include.path ../own/included; git config core.hooksPath own\n");
        for hook in [
            "post-index-change",
            "reference-transaction",
            "post-update",
            "pre-receive",
            "post-receive",
            "update",
        ] {
            script.push_str(&format!("for d in own .git/hooks; do printf '#!/bin/sh\\nEVIL\\n' > $d/{hook}; chmod +x $d/{hook}; done\n"));
        }
        let said = room.run(&script.replace("EVIL", &evil)).ok().tells("main moved from");
        assert_eq!(room.git(&["log", "-1", "--format=%s"]), "attributes", "{}", said.err);
        room.look_around();
        room.git(&["checkout", "-q", "--", "one.txt"]);
        let (after, gone) = (room.repository(), |text: &str| text.split("[core]").nth(1).unwrap().to_owned());
        assert_eq!(gone(&after), gone(&before));
        assert!(!room.canary().exists());
    }
}

#[test]
fn adv_g03_hostile_objects_are_refused_with_the_cause() {
    let tree = |mode: &str, kind: &str, of: &str, name: &str| {
        format!(
            "o=$({of}); t=$(printf '{mode} {kind} %s\\t{name}\\0' $o | git mktree -z --missing);
             c=$(git commit-tree -p HEAD -m bad $t); git update-ref refs/heads/main $c"
        )
    };
    let blob = "echo x | git hash-object -w --stdin";
    let inner =
        "b=$(echo x | git hash-object -w --stdin); printf \"100644 blob $b\\tconfig\\n\" | git mktree";
    let url = "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = -u./evil\\n' | git hash-object -w --stdin";
    let up = "printf '[submodule \"../../x\"]\\n\\tpath = x\\n\\turl = http://x/x\\n' | git hash-object -w --stdin";
    for (name, script) in [
        ("a .git in a tree", tree("040000", "tree", inner, ".git")),
        ("a .GIT in a tree", tree("040000", "tree", inner, ".GIT")),
        ("a look-alike", tree("040000", "tree", inner, "git~1")),
        ("a name with a step up", tree("040000", "tree", inner, "..")),
        ("linked modules", tree("120000", "blob", blob, ".gitmodules")),
        ("a module's address that is an option", tree("100644", "blob", url, ".gitmodules")),
        ("a module's name with steps up", tree("100644", "blob", up, ".gitmodules")),
        (
            "an object that is not there",
            tree("100644", "blob", "echo 1234567890123456789012345678901234567890", "x"),
        ),
    ] {
        let room = Room::with_repository(everyone()[0]);
        let before = (room.repository(), files(&room.project.join(".git")));
        let said = room.run(&script).ok();
        assert!(said.err.contains("commits were not taken over"), "{name}: {}", said.err);
        assert_eq!((room.repository(), files(&room.project.join(".git"))), before, "{name}");
    }
}

#[test]
fn adv_g03_hostile_names_of_branches_do_not_leave() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let script = "echo x > x; git add x; git commit -qm x; c=$(git rev-parse HEAD)
            echo $c > .git/refs/heads/-option; echo $c > \".git/refs/heads/a$(printf '\\033[2J')\"
            echo $c > '.git/refs/heads/a b'; mkdir -p .git/refs/heads/.hidden; echo $c > .git/refs/heads/.hidden/x
            echo $c > .git/refs/x; printf '%s refs/heads/../../../x\\n' $c >> .git/packed-refs";
        let said = room.run(script).ok();
        assert!(!said.err.contains('\u{1b}'));
        let names = room.git(&["for-each-ref", "--format=%(refname)"]);
        for name in names.lines().filter(|name| *name != "refs/heads/main") {
            let rest = name.strip_prefix("refs/palisade/run_").unwrap_or_else(|| panic!("{names}"));
            assert!(rest.ends_with("/main"), "{names}");
        }
    }
}

#[test]
fn adv_g03_a_program_called_git_makes_no_bundle() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let script = "echo x > x; git add x; git commit -qm x; git config alias.bundle '!echo garbage'
            mkdir -p bin ~/bin; printf '#!/bin/sh\\necho garbage\\n' > bin/git; chmod +x bin/git; cp bin/git git
            cp bin/git ~/bin/git; printf '[alias]\\n\\tbundle = !echo garbage\\n' > ~/.gitconfig";
        let search = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", room.project.display());
        room.run_having(&[("PATH", &search)], &[], script).ok().tells("main moved from");
        assert_eq!(room.git(&["log", "-1", "--format=%s"]), "x");
    }
}

#[test]
fn adv_g03_a_git_directory_that_is_none_any_more_is_told() {
    for who in everyone() {
        for script in [
            "echo x > x; git add x; git commit -qm x; echo 'ref: ../../../../etc/passwd' > .git/HEAD",
            "git commit -q --allow-empty -m x; rm -rf .git/objects",
            "git commit -q --allow-empty -m x; echo '[bad' > .git/config",
            "git commit -q --allow-empty -m x; chmod 0 .git/refs .git/objects",
        ] {
            let room = Room::with_repository(who);
            let before = (room.repository(), files(&room.project.join(".git")));
            room.run(script).ok().tells("commits were not taken over").tells("is kept in");
            assert_eq!((room.repository(), files(&room.project.join(".git"))), before, "{script}");
        }
    }
}

#[test]
fn adv_g04_nothing_beyond_the_own_namespace_changes() {
    for who in everyone() {
        let room = Room::with_repository(who);
        for arguments in
            [&["branch", "theirs"][..], &["branch", "gone"], &["tag", "v1"], &["notes", "add", "-m", "note"]]
        {
            room.git(arguments);
        }
        room.file("one.txt", "stashed\n");
        room.git(&["stash", "-q"]);
        let references = |room: &Room| {
            let all = room.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
            let others =
                |line: &&str| !line.starts_with("refs/palisade/") && !line.starts_with("refs/heads/main ");
            all.lines().filter(others).map(str::to_owned).collect::<Vec<_>>()
        };
        let (before, objects) = (references(&room), files(&room.project.join(".git/objects")));
        let script = "echo x > x; git add x; git commit -qm main; git checkout -q theirs; git commit -q --allow-empty -m theirs
            git tag -f v1; git tag v2; git notes add -f -m evil; git branch -D gone; git stash clear
            git replace main theirs; git update-ref refs/evil/x main; git checkout -q main; git remote add o /x
            git update-ref refs/remotes/o/x main; rm -rf .git/logs; echo /etc > .git/objects/info/alternates
            git reflog expire --expire=now --all; git gc -q --prune=now";
        room.run(script).ok().tells("main moved from").tells("theirs at");
        assert_eq!(references(&room), before, "{who:?}");
        let after = files(&room.project.join(".git/objects"));
        assert!(objects.iter().all(|object| after.contains(object)), "objects are gone");
        assert!(!room.project.join(".git/objects/info/alternates").exists());
        room.git(&["fsck", "--strict"]);
    }
}
