//! Control files at any depth: after the run none of them is live, and the person is told.

use std::os::unix::fs::PermissionsExt;

use crate::room::{Room, everyone};

#[test]
fn adv_g05_what_was_planted_is_put_away_and_named() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let evil = format!("touch {}", room.canary().display());
        let script = "mkdir -p sub/nest deep/a/b/.vscode deep/a/.claude/commands
            git init -q sub/nest; git -C sub/nest config core.fsmonitor 'EVIL'
            echo 'EVIL' > deep/a/.envrc; echo '{}' > deep/a/b/.vscode/tasks.json; echo '{}' > deep/a/.claude/settings.json
            echo '{}' > deep/.mcp.json; ln -s /etc/passwd deep/a/b/.envrc; echo x > deep/a/b/MISE.toml; echo 'gitdir: /tmp' > deep/.git
            echo hello >> CLAUDE.md; echo fine > deep/a/fine.txt; exit 7";
        let said = room.run(&script.replace("EVIL", &evil));
        assert_eq!(said.code, Some(7), "{}", said.err);
        let said =
            said.tells("quarantined sub/nest/.git (git runs").tells("quarantined deep/a/.envrc (direnv");
        said.tells("changed CLAUDE.md (instructions").tells_nothing_of("fine.txt");
        let expected = [
            "deep/.git",
            "deep/.mcp.json",
            "deep/a/.claude",
            "deep/a/.envrc",
            "deep/a/b/.envrc",
            "deep/a/b/.vscode",
            "deep/a/b/MISE.toml",
            "sub/nest/.git",
        ];
        assert_eq!(room.quarantined(), expected, "{who:?}");
        assert!(room.project.join("deep/a/fine.txt").exists() && room.project.join("CLAUDE.md").exists());
        room.look_around();
    }
}

/// The control: what the tests here plant does run when nobody puts it away.
#[test]
fn adv_g05_control_the_same_repository_left_in_place_runs_its_program() {
    let room = Room::with_repository(everyone()[0]);
    room.git(&["init", "-q", "sub/nest"]);
    let (nest, evil) = (room.project.join("sub/nest"), format!("touch {}", room.canary().display()));
    room.git_in(&nest, &["config", "core.fsmonitor", &evil]);
    drop(room.host(&nest, "git").arg("status").output().unwrap());
    assert!(room.canary().exists());
}

#[test]
fn adv_f04_control_files_that_were_absent_never_reach_the_host() {
    for who in everyone() {
        let names = [
            ".git/hooks/pre-commit",
            ".claude/settings.json",
            ".codex/config.toml",
            ".gemini/settings.json",
            ".mcp.json",
            ".vscode/tasks.json",
            ".envrc",
        ];
        for name in names {
            let room = Room::with_repository(who);
            room.run(&format!(
                "mkdir -p $(dirname {name}) || true; echo evil > {name} || true; mv {name} x || true"
            ))
            .ok();
            assert!(!room.project.join(name).exists(), "{name}");
            assert_eq!(
                room.git(&["status", "--porcelain", "--ignored"]),
                if name.starts_with(".git/") { "?? x" } else { "" }
            );
        }
    }
}

#[test]
fn adv_g05_a_repository_by_another_name_is_made_harmless() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let script = "git init -q --bare fixtures/plain.git; git init -q --bare fixtures/evil
            git -C fixtures/evil config core.bare false; git -C fixtures/evil config core.worktree ..
            git -C fixtures/evil config core.fsmonitor 'touch CANARY'";
        room.run(&script.replace("CANARY", room.canary().to_str().unwrap()))
            .ok()
            .tells("quarantined fixtures/evil/config");
        assert_eq!(room.quarantined(), ["fixtures/evil/config"]);
        room.look_around();
    }
}

#[test]
fn adv_g05_an_old_directory_under_a_new_name_is_found() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let first = "git init -q stuff; mv stuff/.git stuff/dot; mv stuff/dot/HEAD stuff/dot/H; mkdir -p box; echo '{}' > box/tasks.json
            printf '[core]\\n\\tfsmonitor = touch CANARY\\n' >> stuff/dot/config";
        room.run(&first.replace("CANARY", room.canary().to_str().unwrap())).ok();
        assert_eq!(room.quarantined(), [] as [&str; 0]);
        std::thread::sleep(std::time::Duration::from_millis(50));
        room.run("mv stuff/dot/H stuff/dot/HEAD; mv stuff/dot stuff/.git; mkdir sub/x; mv box sub/x/.vscode")
            .ok();
        assert_eq!(room.quarantined(), ["stuff/.git/config", "sub/x/.vscode"], "{who:?}");
        room.look_around();
    }
}

#[test]
fn a_repository_that_was_there_keeps_its_commits_and_loses_what_can_start_something() {
    for who in everyone() {
        let room = Room::with_repository(who);
        room.git(&["init", "-q", "-b", "main", "nested"]);
        let nested = room.project.join("nested");
        room.git_in(&nested, &["commit", "-q", "--allow-empty", "-m", "one"]);
        std::thread::sleep(std::time::Duration::from_millis(50));
        room.run("cd nested; echo x > x; git add x; git commit -qm two").ok();
        assert_eq!(room.quarantined(), [] as [&str; 0]);
        assert_eq!(room.git_in(&nested, &["log", "--format=%s"]), "two\none");
        let evil = "cd nested; git config core.fsmonitor 'touch CANARY'; printf '#!/bin/sh\\ntouch CANARY\\n' > .git/hooks/post-index-change
            chmod +x .git/hooks/post-index-change; echo /x > .git/objects/info/alternates; echo .. > .git/commondir";
        room.run(&evil.replace("CANARY", room.canary().to_str().unwrap())).ok();
        let expected = ["commondir", "config", "hooks/post-index-change", "objects/info/alternates"];
        assert_eq!(room.quarantined(), expected.map(|name| format!("nested/.git/{name}")), "{who:?}");
        assert_eq!(room.git_in(&nested, &["log", "--format=%s"]), "two\none");
        room.look_around();
    }
}

#[test]
fn what_was_there_before_and_what_the_person_changes_stays() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let (nested, own) = (room.file("sub/.envrc", "mine\n"), room.file(".vscode/settings.json", "{}\n"));
        std::thread::sleep(std::time::Duration::from_millis(50));
        let said = room.while_running("cat sub/.envrc; echo x > sub/x", || {
            room.file(".vscode/settings.json", "{ \"mine\": 1 }\n");
        });
        assert_eq!(said.ok().err, "");
        assert!(nested.exists());
        assert_eq!(std::fs::read_to_string(own).unwrap(), "{ \"mine\": 1 }\n");
        // But one that the agent changed goes.
        room.run("echo evil >> sub/.envrc").ok().tells("quarantined sub/.envrc");
        assert!(!nested.exists());
    }
}

#[test]
fn nothing_hides_behind_modes_depth_or_times() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let script = "mkdir -p shut/in open; echo x > shut/in/.envrc; chmod 111 shut/in; chmod 555 shut
            echo x > open/.envrc; touch -d 2001-01-01 open/.envrc open; chmod 555 open
            printf '#!/bin/sh\\n' > prog; chmod 2755 prog
            d=$(printf 'd%.0s' $(seq 200)); mkdir deep; cd deep
            for i in $(seq 25); do mkdir $d; cd $d 2>/dev/null || break; done; echo x > .envrc || true";
        // However it ends: a tree that cannot be watched may end the run.
        let said = room.run(script);
        let found = room.quarantined();
        assert!(
            !room.project.join("open/.envrc").exists() && !room.project.join("shut/in/.envrc").exists(),
            "{}",
            said.err
        );
        assert!(found.contains(&"open/.envrc".to_owned()) && found.contains(&"prog".to_owned()), "{found:?}");
        assert!(said.err.contains("nested so deep"), "{}", said.err);
        let all = std::fs::read_dir(room.runs()).unwrap();
        let program = all
            .map(|run| run.unwrap().path().join("quarantine/prog.quarantined"))
            .find(|path| path.exists())
            .unwrap();
        assert_eq!(std::fs::metadata(program).unwrap().permissions().mode() & 0o7777, 0o600);
    }
}

#[test]
fn a_place_that_was_given_beside_the_worktree_is_looked_at_too() {
    let room = Room::with_repository(everyone()[0]);
    let other = room.home().join("other");
    room.git(&["clone", "-q", ".", other.to_str().unwrap()]);
    std::thread::sleep(std::time::Duration::from_millis(50));
    let script = "cd OTHER; git config core.fsmonitor 'touch CANARY'; mkdir x; echo x > x/.envrc";
    let script =
        script.replace("CANARY", room.canary().to_str().unwrap()).replace("OTHER", other.to_str().unwrap());
    let said = room.run_in(&room.project, &["--rw", other.to_str().unwrap()], &script).ok();
    said.tells("other/.git/config").tells("other/x/.envrc");
    drop(room.host(&other, "git").arg("status").output().unwrap());
    assert!(!room.canary().exists() && !other.join("x/.envrc").exists());
}

#[test]
fn what_somebody_else_wrote_just_before_a_run_stays() {
    for who in everyone() {
        let room = Room::with_repository(who);
        for round in 0..20 {
            let text = format!("export A={round}\n");
            room.file(".envrc", &text);
            room.file("sub/.envrc", &text);
            room.run("true").ok().tells_nothing_of("quarantined");
            assert_eq!(std::fs::read_to_string(room.project.join(".envrc")).unwrap(), text);
            assert_eq!(std::fs::read_to_string(room.project.join("sub/.envrc")).unwrap(), text);
        }
    }
}
