//! Stubs: what one run makes, another may rely on; what a run that was killed leaves, the next removes.

use std::fs;

use crate::scene::{Scene, everyone, number, until};

/// Says what of the worktree has a name of a stub.
fn stubs(scene: &Scene) -> Vec<String> {
    let entries =
        fs::read_dir(&scene.project).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<String> = entries.filter(|name| name.starts_with('.')).collect();
    found.sort();
    found
}

const WAITING: &str = "while [ ! -e go ]; do sleep 0.01; done";

#[test]
fn adv_f04_the_end_of_one_run_leaves_another_guarded() {
    for who in everyone() {
        let scene = Scene::new(who);
        let mut first = scene.start(&[], "while [ ! -e first ]; do sleep 0.01; done");
        let script = "while [ ! -e planted ]; do sleep 0.01; done; (mkdir .claude; echo evil > .claude/settings.json; \
                      echo evil > .envrc; echo evil > .mcp.json) 2>/dev/null; cat .claude/settings.json .envrc .mcp.json 2>/dev/null; echo TRIED; ";
        let second = scene.start(&[], &format!("{script}{WAITING}"));
        let before = number(&scene.at(".envrc"));
        scene.file("first", "");
        until("the first run ends", || first.child.try_wait().unwrap().is_some());
        assert_eq!(number(&scene.at(".envrc")), before, "the second run relies on it");
        scene.file("planted", "");
        second.says("TRIED", 1);
        let said = second.end();
        assert!(!said.out.contains("evil"), "{who:?}: {}", said.out);
        assert_eq!(said.err, "");
        assert_eq!(stubs(&scene), [] as [&str; 0]);
    }
}

#[test]
fn adv_f04_what_a_killed_run_leaves_the_next_removes() {
    for who in everyone() {
        let scene = Scene::new(who);
        let mut run = scene.start(&[], WAITING);
        let guardian = run.guardian();
        run.child.kill().unwrap();
        run.child.wait().unwrap();
        let gone = || rustix::process::test_kill_process(guardian).is_err();
        until("the process that watches ends with the launcher", gone);
        assert!(stubs(&scene).contains(&".vscode".to_owned()), "nothing was left: {:?}", stubs(&scene));
        // One of them is somebody's now.
        scene.file(".idea/mine.xml", "mine");
        scene.run("true");
        assert_eq!(stubs(&scene), [".idea"], "{who:?}");
        assert_eq!(fs::read_to_string(scene.at(".idea/mine.xml")).unwrap(), "mine");
    }
}

#[test]
fn what_a_killed_run_leaves_is_swept() {
    for who in everyone() {
        let scene = Scene::new(who);
        let mut alive = scene.start(&[], WAITING);
        assert_eq!(sandbox::sweep(&scene.state()), [] as [std::path::PathBuf; 0], "it is alive");
        alive.child.kill().unwrap();
        alive.child.wait().unwrap();
        until("its locks are gone", || {
            !sandbox::sweep(&scene.state()).is_empty() || stubs(&scene).is_empty()
        });
        assert_eq!(stubs(&scene), [] as [&str; 0]);
    }
}

#[test]
fn a_short_run_leaves_nothing() {
    for who in everyone() {
        let scene = Scene::new(who);
        scene.run("true");
        assert_eq!(stubs(&scene), [] as [&str; 0]);
        assert_eq!(fs::read_dir(scene.state().join("stubs")).unwrap().count(), 0);
    }
}
