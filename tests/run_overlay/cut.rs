//! `palisade apply` killed at any time.

use crate::scene::{Scene, everybody, shape, snapshot};

/// The number of the last apply, and how long its journal is.
fn last_journal(scene: &Scene) -> (u64, u64) {
    let folders = |path: std::path::PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
    let applies = folders(scene.state().join("runs")).flat_map(|run| folders(run.path().join("applies")));
    let numbered = applies.filter_map(|one| Some((one.file_name().to_str()?.parse().ok()?, one.path())));
    let last = numbered.max_by_key(|(number, _)| *number);
    last.map_or((0, 0), |(number, path)| {
        (number, std::fs::metadata(path.join("journal")).map_or(0, |found| found.len()))
    })
}

#[test]
fn an_apply_that_is_killed_is_rolled_back_by_the_next_command() {
    for who in everybody() {
        let before = "for i in $(seq 150); do mkdir -p d$i; echo old > d$i/f; echo gone > d$i/g; done";
        let scene = Scene::new(who, before);
        let was = snapshot(&scene.worktree());
        scene.run("for i in $(seq 150); do echo new > d$i/f; rm d$i/g; echo more > d$i/h; done; rm -r d7; mkdir -p a/b");
        scene.done(&["apply"]);
        let (_, whole) = last_journal(&scene);
        scene.done(&["apply", "--undo"]);
        let mut torn = 0;
        for round in 0..u64::try_from(tests::scale(240, 12)).unwrap() {
            let (before, _) = last_journal(&scene);
            let mut apply = scene.prepared(&["apply"]).stdout(std::process::Stdio::null()).spawn().unwrap();
            // When it has come as far as this, from early to late.
            let far = whole * (round % 12) / 13;
            while apply.try_wait().unwrap().is_none() {
                let (number, length) = last_journal(&scene);
                if number > before && length > far {
                    break;
                }
                std::thread::yield_now();
            }
            let _ = apply.kill();
            apply.wait().unwrap();
            let state = scene.json(&["runs"])[0]["state"].as_str().unwrap().to_owned();
            torn += usize::from(state == "apply cut off");
            if round % 2 == 0 {
                let said = scene.palisade(&["apply", "--undo"]);
                assert!(said.code == 0 || said.err.contains("nothing of run"), "{}", said.err);
                assert_eq!(snapshot(&scene.worktree()), was, "round {round}, {state}");
            } else {
                let said = scene.palisade(&["apply"]);
                assert_eq!(said.code, 0, "{}", said.err);
                assert_eq!(said.out.contains("cut off"), state == "apply cut off", "{state}: {}", said.out);
                scene.done(&["apply", "--undo"]);
                assert_eq!(snapshot(&scene.worktree()), was, "round {round}, {state}");
            }
        }
        assert!(torn > 0, "no apply was ever cut off");
        scene.done(&["apply"]);
        assert!(shape(&scene.worktree()).contains_key("\"d1/h\""));
    }
}
