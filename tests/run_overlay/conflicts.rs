//! What the person did meanwhile is never lost.

use crate::scene::{Scene, everybody, snapshot};

#[test]
fn what_both_changed_is_named_and_nothing_happens() {
    for who in everybody() {
        let scene = Scene::new(who, "echo a > a; echo b > b; mkdir d; echo x > d/x");
        scene.run("echo agent > a; echo agent > new; rm -r d; rm b");
        scene.plain(&scene.worktree(), "echo me > a; echo untracked > d/mine; echo me > new");
        let was = snapshot(&scene.worktree());
        let said = scene.palisade(&["apply"]);
        assert_eq!(said.code, 1);
        for name in ["`a`", "`d/mine`", "`new`", "nothing was applied", "--force"] {
            assert!(said.err.contains(name), "{name}: {}", said.err);
        }
        assert!(!said.err.contains("`b`"), "{}", said.err);
        assert_eq!(snapshot(&scene.worktree()), was);
        scene.done(&["apply", "b"]);
        scene.done(&["apply", "--force"]);
        assert_eq!(std::fs::read_to_string(scene.worktree().join("a")).unwrap(), "agent\n");
        scene.done(&["apply", "--undo"]);
        assert_eq!(snapshot(&scene.worktree()), was);
    }
}

#[test]
fn an_undo_after_more_work_is_a_conflict() {
    for who in everybody() {
        let scene = Scene::new(who, "echo a > a");
        scene.run("echo agent > a; mkdir d; echo x > d/x");
        scene.done(&["apply"]);
        scene.plain(&scene.worktree(), "echo more >> a; echo mine > d/mine");
        let said = scene.palisade(&["apply", "--undo"]);
        assert!(said.code == 1 && said.err.contains("`a`"), "{}", said.err);
        let said = scene.palisade(&["apply", "--undo", "--force"]);
        assert!(said.code == 0 && said.out.contains("kept: d"), "{}{}", said.out, said.err);
        assert_eq!(std::fs::read_to_string(scene.worktree().join("d/mine")).unwrap(), "mine\n");
        assert_eq!(std::fs::read_to_string(scene.worktree().join("a")).unwrap(), "a\n");
    }
}

#[test]
fn adv_f02_a_directory_swapped_for_a_link_between_diff_and_apply_leads_nowhere() {
    for who in everybody() {
        let scene = Scene::new(who, "mkdir d; echo x > d/x");
        scene.run("echo agent > d/x; echo agent > d/new");
        scene.done(&["diff"]);
        let outside = scene.home().join("outside");
        scene.plain(&scene.home(), "mkdir outside; echo theirs > outside/x");
        scene.plain(&scene.worktree(), &format!("mv d e; ln -s {} d", outside.display()));
        assert_eq!(scene.palisade(&["apply"]).code, 1);
        scene.done(&["apply", "--force"]);
        assert_eq!(std::fs::read_to_string(outside.join("x")).unwrap(), "theirs\n");
        assert!(!outside.join("new").exists());
    }
}

#[test]
fn a_run_in_use_and_a_worktree_that_moved_are_said() {
    let scene = Scene::new(everybody()[0], "echo a > a");
    scene.run("echo b > a");
    let run = scene.json(&["runs"])[0]["run"].as_str().unwrap().to_owned();
    let mut going = scene.prepared(&["run", "--overlay", "--", "sh", "-c", "echo c > c; sleep 30"]);
    let mut going = going.spawn().unwrap();
    let began = std::time::Instant::now();
    let newest = loop {
        let listed = scene.json(&["runs"]);
        if listed.as_array().unwrap().len() == 2 && listed[0]["state"] == "running" {
            break listed[0]["run"].as_str().unwrap().to_owned();
        }
        assert!(began.elapsed().as_secs() < 20, "{listed}");
    };
    assert!(scene.palisade(&["apply", &newest]).err.contains("in use"));
    assert!(scene.palisade(&["discard", &newest]).err.contains("in use"));
    // The launcher is killed; its sandbox goes with it, and what it wrote can still be kept.
    while !scene.palisade(&["diff", &newest, "--stat"]).out.contains("A  c") {
        assert!(began.elapsed().as_secs() < 20);
    }
    going.kill().unwrap();
    going.wait().unwrap();
    let interrupted = || scene.json(&["runs"])[0]["state"] == "interrupted";
    while !interrupted() {
        assert!(began.elapsed().as_secs() < 20);
    }
    scene.done(&["apply", &newest, "c"]);
    // Another directory of the same name is not the worktree.
    std::fs::rename(scene.worktree(), scene.home().join("moved")).unwrap();
    std::fs::create_dir(scene.worktree()).unwrap();
    let said = scene.palisade(&["apply", &run]);
    assert!(said.err.contains("is not the directory that the run worked in"), "{}", said.err);
}
