//! `palisade apply` killed at any time.

use std::time::Instant;

use crate::scene::{Scene, everybody, shape, snapshot};

#[test]
fn an_apply_that_is_killed_is_rolled_back_by_the_next_command() {
    for who in everybody() {
        let before = "for i in $(seq 150); do mkdir -p d$i; echo old > d$i/f; echo gone > d$i/g; done";
        let scene = Scene::new(who, before);
        let was = snapshot(&scene.worktree());
        scene.run("for i in $(seq 150); do echo new > d$i/f; rm d$i/g; echo more > d$i/h; done; rm -r d7; mkdir -p a/b");
        let began = Instant::now();
        scene.done(&["apply"]);
        let whole = began.elapsed();
        scene.done(&["apply", "--undo"]);
        let (mut torn, rounds) = (0, u32::try_from(tests::scale(240, 12)).unwrap());
        for round in 0..rounds * 10 {
            // How long a whole one takes changes with what else is going on: until one was cut off.
            if round >= rounds && torn > 0 {
                break;
            }
            let mut apply = scene.prepared(&["apply"]).stdout(std::process::Stdio::null()).spawn().unwrap();
            // From early to late in the time that a whole one takes.
            std::thread::sleep(whole.mul_f64(0.05 + 0.08 * f64::from(round % 12)));
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
