//! Control files: what the host replaces or removes while an agent is at work cannot be planted by the agent.

use std::fs;

use crate::scene::{Scene, everyone, until};

/// Tries to write a file over and over; once there is a file `changed` and it is covered, says what came of it.
fn writing(name: &str) -> String {
    format!(
        "while [ ! -e go ]; do if [ -e changed ] && grep -qs \" $PWD/{name} \" /proc/self/mountinfo; then \
         ( (echo evil > {name} || mkdir {name}/x || touch {name}/x) 2>/dev/null && echo PLANTED ) || echo REFUSED; else echo IDLE; fi; done; true"
    )
}

#[test]
fn adv_f04_a_control_file_that_the_host_replaces_is_covered_again() {
    for who in everyone() {
        let scene = Scene::new(who);
        scene.file(".mcp.json", "{}");
        let run = scene.start(&[], &writing(".mcp.json"));
        for text in ["{\"a\":1}", "{\"b\":2}"] {
            // An attempt of before must not fall into the moment in which the cover is lost.
            let idle = run.out().lines().filter(|line| *line == "IDLE").count();
            let _ = fs::remove_file(scene.at("changed"));
            run.says("IDLE", idle + 2);
            let before = run.out().lines().filter(|line| *line == "REFUSED").count();
            scene.replace(".mcp.json", text);
            scene.file("changed", "");
            run.says("REFUSED", before + 5);
            assert_eq!(
                fs::read_to_string(scene.at(".mcp.json")).unwrap(),
                text,
                "the host's file is as it was"
            );
        }
        let said = run
            .end()
            .tells("changed .mcp.json (replaced during the run, so its cover was lost: covered again ");
        assert!(!said.out.contains("PLANTED"), "{who:?}");
    }
}

#[test]
fn adv_f04_an_editor_that_moves_the_old_file_away_first_finds_its_place_free() {
    for who in everyone() {
        let scene = Scene::new(who);
        let path = scene.file(".mcp.json", "old");
        let run = scene.start(&[], &writing(".mcp.json"));
        // A stub in between would be in the editor's way.
        fs::rename(&path, scene.at(".mcp.json~")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        scene.file(".mcp.json", "new");
        scene.file("changed", "");
        run.says("REFUSED", 5);
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(!run.end().out.contains("PLANTED"), "{who:?}");
    }
}

#[test]
fn adv_f04_a_stub_that_the_host_removes_is_made_again() {
    for who in everyone() {
        for name in [".vscode", ".mcp.json"] {
            let scene = Scene::new(who);
            let run = scene.start(&[], &writing(name));
            assert!(scene.at(name).is_dir());
            fs::remove_dir(scene.at(name)).unwrap();
            until("the stub is there again", || scene.at(name).is_dir());
            scene.file("changed", "");
            run.says("REFUSED", 5);
            let said = run.end().tells(&format!("changed {name} (removed during the run"));
            assert!(!said.out.contains("PLANTED") && !scene.at(name).exists(), "{who:?} {name}");
        }
    }
}

#[test]
fn adv_f04_a_control_file_that_the_host_removes_leaves_no_gap() {
    for who in everyone() {
        let scene = Scene::new(who);
        scene.file(".vscode/settings.json", "{}");
        let run = scene.start(&[], &writing(".vscode"));
        fs::remove_dir_all(scene.at(".vscode")).unwrap();
        until("a stub is there", || scene.at(".vscode").is_dir());
        scene.file("changed", "");
        run.says("REFUSED", 5);
        let said = run.end();
        assert!(!said.out.contains("PLANTED") && !scene.at(".vscode").exists(), "{who:?}: {}", said.err);
    }
}

#[test]
fn adv_f04_a_repository_that_the_host_makes_anew_is_not_the_agents() {
    for who in everyone() {
        let scene = Scene::new(who);
        let git = |arguments: &[&str]| assert!(scene.host("git").args(arguments).status().unwrap().success());
        git(&["init", "-q"]);
        let run = scene.start(&[], &writing(".git"));
        fs::rename(scene.at(".git"), scene.home().join("old")).unwrap();
        git(&["init", "-q"]);
        scene.file("changed", "");
        run.says("REFUSED", 5);
        assert!(!scene.at(".git/x").exists() && scene.at(".git/HEAD").exists());
        let said = run.end().tells("changed .git (replaced during the run");
        assert!(!said.out.contains("PLANTED"), "{who:?}");
    }
}
